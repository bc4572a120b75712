import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { Ajv } from 'ajv'
import { DCLinter } from 'dclint'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { isWithheldName } from '../../lib/gate/headers.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { closeGraceDelay } from '../../start-options.ts'
import { containing } from '../helpers/containing.ts'
import { root, textOf } from '../helpers/documents.ts'
import { valuesOf } from '../helpers/unit-file.ts'
import { processSurroundings } from '../../server/surroundings.ts'

/** The gate, deployed: by Compose, by Kustomize as a service and as a sidecar, by Gateway API, and by systemd. */

const read = (file: string) => readFileSync(join(root, 'deploy', file), 'utf8')
const fixture = (file: string) => JSON.parse(readFileSync(join(root, 'test/fixtures', file), 'utf8')) as object
const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, strict: false }).addSchema(
  fixture('kubernetes.schema.json'),
  'kubernetes'
).addSchema(fixture('gateway-api.schema.json'), 'gateway')

function complaintsOf (schema: 'kubernetes' | 'gateway', object: { kind: string }) {
  const validate = ajv.getSchema(`${schema}#/$defs/${object.kind}`)!
  validate(object)
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    `${instancePath} ${message} ${JSON.stringify(params)}`
  )
}

/** The settings that the service reads where these variables hold and this file is mounted. */
async function settingsOf (
  environment: Record<string, string>,
  mounted: Record<string, string>
) {
  const found = collectSettings({
    environment,
    readFile: path => path in mounted ? read(mounted[path]!) : undefined
  })
  return validateSettings(found, processSurroundings)
}

t.test('Compose starts a gate with its file, an upstream that only it reaches, and the local provider', async t => {
  const text = read('compose.gate.yaml')
  const { services: { gate, upstream, provider } } = parse(text)
  const file = join(t.testdir({ 'compose.yaml': text }), 'compose.yaml')
  const rules = {
    'services-alphabetical-order': 0,
    'service-keys-order': 0,
    'top-level-properties-order': 0,
    'service-image-require-explicit-tag': 2
  } as const
  const linter = new DCLinter({ rules, quiet: true, debug: false, exclude: [] })
  const results = linter.lintFiles([file], false) as unknown as ReadonlyArray<
    { messages: ReadonlyArray<{ type: string, message: string }> }
  >
  t.strictSame(results.flatMap(({ messages }) => messages.filter(({ type }) => type === 'error')), [])

  const [from, to, mode] = gate.volumes[0].split(':')
  t.strictSame([to, mode], [gate.environment.CONFIG_FILE, 'ro'])
  const settings = await settingsOf(gate.environment, { [to]: from.replace('./', '') })
  const listens = Number(new URL(settings.gate!.upstream!).port)
  t.equal(upstream.command[upstream.command.indexOf('--port') + 1], String(listens))
  t.strictSame([upstream.ports, upstream.network_mode, gate.network_mode], [
    undefined,
    'service:provider',
    'service:provider'
  ])
  t.strictSame(provider.ports.map((mapping: string) => mapping.split(':').slice(1)), [[
    gate.environment.PORT,
    gate.environment.PORT
  ], ['9000', '9000']])
  const command = provider.command as string[]
  t.strictSame(['--audience', '--url'].map(name => command[command.indexOf(name) + 1]), [
    gate.environment.IDP_AUDIENCE,
    gate.environment.PUBLIC_URL
  ])
  t.ok(parseInt(gate.stop_grace_period) * 1000 > closeGraceDelay)
})

interface Step {
  op: 'add' | 'replace'
  path: string
  value: unknown
}

/** As far as ours go (RFC 6902). */
function apply (object: any, { op, path, value }: Step) {
  const keys = path.split('/').slice(1).map(key => key.replaceAll('~1', '/'))
  const last = keys.pop()!
  const parent = keys.reduce((at, key) => at[key], object)
  if (last === '-') parent.push(value)
  else if (op === 'replace' && !(last in parent)) throw new Error(`${path} does not exist`)
  else parent[last] = value
}

const GATE_FIELDS = ['apiVersion', 'kind', 'namespace', 'resources', 'images', 'configMapGenerator', 'patches']

/** What Kustomize makes of an overlay. */
function build (folder: string): { objects: Map<string, any>, kustomization: any } {
  const kustomization = parse(read(`kubernetes/overlays/${folder}/kustomization.yaml`))
  t.strictSame(Object.keys(kustomization).filter(field => !GATE_FIELDS.includes(field)), [])
  const files = (kustomization.resources as string[]).flatMap(resource =>
    resource === '../../base'
      ? (parse(read('kubernetes/base/kustomization.yaml')).resources as string[]).map(name => `kubernetes/base/${name}`)
      : [`kubernetes/overlays/${folder}/${resource}`]
  )
  const objects = new Map(files.map(file => parse(read(file))).map(object => [object.kind as string, object]))
  for (const { target, patch } of kustomization.patches ?? []) {
    t.equal(objects.get(target.kind).metadata.name, target.name)
    for (const step of parse(patch) as Step[]) apply(objects.get(target.kind), step)
  }
  return { objects, kustomization }
}

for (const [folder, isSidecar] of [['gate', false], ['gate-sidecar', true]] as const) {
  t.test(
    `Kustomize deploys the gate ${isSidecar ? 'as a sidecar' : 'as a service for several upstreams'}, with its ` +
      'rules as a ConfigMap',
    async t => {
      const { objects, kustomization } = build(folder)
      for (const object of objects.values()) t.strictSame(complaintsOf('kubernetes', object), [], object.kind)
      const twin = structuredClone(objects.get('Deployment'))
      twin.spec.template.spec.volumes[0].configMapp = {}
      t.match(complaintsOf('kubernetes', twin), [/configMapp/], 'the twin')

      const pod = objects.get('Deployment').spec.template.spec
      const container = isSidecar ? pod.initContainers[0] : pod.containers[0]
      const maps = new Map<string, { envs?: string[], files?: string[] }>(
        kustomization.configMapGenerator.map((map: { name: string }) => [map.name, map])
      )
      const [mount] = container.volumeMounts
      const volume = pod.volumes.find(({ name }: { name: string }) => name === mount.name)
      const [file] = maps.get(volume.configMap.name)!.files!
      const environment = {
        ...parseEnv(
          read(`kubernetes/overlays/${folder}/${maps.get(container.envFrom[0].configMapRef.name)!.envs![0]}`)
        ) as Record<string, string>,
        ...Object.fromEntries(
          container.env.filter(({ value }: { value?: string }) => value).map((
            { name, value }: { name: string, value: string }
          ) => [name, value])
        )
      }
      t.equal(environment['CONFIG_FILE'], `${mount.mountPath}/${file}`, 'the service reads the file that is mounted')
      const settings = await settingsOf(environment, {
        [environment['CONFIG_FILE']!]: `kubernetes/overlays/${folder}/${file}`
      })
      const ports = new Map<string, number>(
        container.ports.map(({ name, containerPort }: { name: string, containerPort: number }) => [name, containerPort])
      )
      for (const { targetPort, port } of objects.get('Service').spec.ports) t.equal(ports.get(targetPort), port)
      for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
        t.match(container[probe].httpGet.path, /^\/health\/(?:live|ready)$/)
        t.equal(ports.get(container[probe].httpGet.port), 8000, probe)
      }
      if (isSidecar) {
        const { env, ports: open, lifecycle } = pod.containers[0]
        t.strictSame(
          lifecycle,
          container.lifecycle,
          'the application waits as long as the gate for balancers to notice'
        )
        t.ok(
          pod.terminationGracePeriodSeconds * 1000 > 2 * 5000 + closeGraceDelay,
          'there is time for the wait, the end of the application and that of the gate'
        )
        t.equal(
          settings.gate!.upstream,
          `http://${env[0].value}`,
          'the application listens on the loopback address of its pod'
        )
        t.strictSame([open, container.restartPolicy], [undefined, 'Always'])
      } else {
        t.strictSame([settings.gate!.upstream, settings.gate!.grpcPort, ports.get('grpc')], [undefined, 9001, 9001])
        t.ok(new Set(settings.gate!.rules.map(({ audiences }) => String(audiences))).size > 1, 'an audience for each upstream')
        const policy = objects.get('NetworkPolicy').spec.ingress[0]
        t.strictSame(policy.ports.map(({ port }: { port: string }) => port), ['http', 'grpc'])
        t.strictSame(policy.from[0].namespaceSelector.matchLabels, {
          'kubernetes.io/metadata.name': 'envoy-gateway-system'
        })
        t.not(settings.server.trustProxy, false)
      }
      t.strictSame(
        readdirSync(join(root, 'deploy/kubernetes/overlays', folder)).sort(),
        [
          'kustomization.yaml',
          ...[...maps.values()].flatMap(({ envs = [], files = [] }) => [...envs, ...files]),
          ...kustomization.resources.filter((name: string) => !name.startsWith('..'))
        ].sort()
      )
      t.match(read('README.md'), containing(`kubectl apply -k deploy/kubernetes/overlays/${folder}`))
    }
  )
}

t.test('Gateway API asks the gate by its filter ExternalAuth, over HTTP and over gRPC', async t => {
  const { objects } = build('gate')
  for (const protocol of ['http', 'grpc'] as const) {
    const [route, grant] = parseAllDocuments(read(`kubernetes/gateway-api/${protocol}.yaml`)).map(document =>
      document.toJS()
    )
    for (const object of [route, grant]) t.strictSame(complaintsOf('gateway', object), [], `${protocol} ${object.kind}`)
    const [asked, own] = route.spec.rules
    t.strictSame(asked.timeouts, { request: '0s' }, 'a stream has no end of its own')
    t.strictSame(own.matches.map(({ path: { type, value } }: { path: Record<string, string> }) => [type, value]), [
      ['PathPrefix', '/.well-known/oauth-protected-resource'],
      ['Exact', '/.well-known/holdfast-jwks.json'],
      ['Exact', '/revocation/events'],
      ['Exact', '/revocation/logout']
    ])
    t.strictSame([own.filters, own.backendRefs], [undefined, [{ name: 'holdfast', namespace: 'holdfast', port: 8000 }]])
    const { externalAuth } = route.spec.rules[0].filters[0]
    const twin = structuredClone(route)
    twin.spec.rules[0].filters[0].externalAuth.backendRef.prot = 1
    t.match(complaintsOf('gateway', twin), [/prot/], 'the twin')
    t.equal(externalAuth.protocol, protocol.toUpperCase())
    t.equal(
      externalAuth.backendRef.port,
      objects.get('Service').spec.ports.find(({ name }: { name: string }) => name === protocol).port
    )
    t.equal(externalAuth.backendRef.name, objects.get('Service').metadata.name)
    t.match(route.spec.rules[0].matches[0].path.value, /^\/[a-z]/, 'only the paths of the rule of this upstream')
    t.strictSame([grant.spec.from[0].namespace, grant.spec.to[0].name, grant.metadata.namespace], [
      route.metadata.namespace,
      externalAuth.backendRef.name,
      externalAuth.backendRef.namespace
    ])
    if (protocol === 'http') {
      t.match(textOf('routes/verify.ts'), containing(`'${externalAuth.http.path}'`))
      t.strictSame(externalAuth.http.allowedResponseHeaders, [
        'x-auth-subject',
        'x-auth-issuer',
        'x-auth-scope',
        'x-auth-client'
      ])
      t.ok(externalAuth.http.allowedHeaders.includes('dpop'))
      const [, { requestHeaderModifier: { remove } }, ...others] = route.spec.rules[0].filters
      t.strictSame(others, [])
      t.strictSame(
        remove.filter((name: string) => !['authorization', 'dpop'].includes(name) && !isWithheldName(name)),
        [],
        'what the client wrote goes, and nothing else'
      )
      for (
        const name of [
          'authorization',
          'dpop',
          'x-auth-statement',
          'x-original-url',
          'x-http-method-override',
          'remote-user'
        ]
      ) t.ok(remove.includes(name), name)
    } else {
      t.strictSame(
        externalAuth.grpc,
        {},
        'the gate sees every header, so that it can name those of a client that must not go on'
      )
    }
  }
})

t.test('The unit of the gate is that of the service, with its rules as a credential and a folder for its record', async t => {
  const text = read('systemd/holdfast-gate.service')
  const parts = (of: string) =>
    of.split('\n').filter(line => line !== '' && !/^(?:#|Description=)/.test(line))
  const own = [
    'LoadCredential=gate.yaml:/etc/holdfast/gate.yaml',
    'Environment=CONFIG_FILE=%d/gate.yaml',
    'LogsDirectory=holdfast'
  ]
  t.strictSame(parts(text).filter(line => !own.includes(line)), parts(read('systemd/holdfast.service')))
  t.strictSame(valuesOf('LoadCredential', text), ['gate.yaml:/etc/holdfast/gate.yaml'])
  t.match(read('README.md'), containing('install -m 0600 deploy/gate/gate.yaml /etc/holdfast/gate.yaml'))
  t.ok(existsSync(join(root, 'deploy/gate/gate.yaml')))
})
