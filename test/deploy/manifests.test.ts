import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { BlockList, isIPv6 } from 'node:net'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { Ajv } from 'ajv'
import { DCLinter } from 'dclint'
import { validate as lintDockerfile } from 'dockerfile-utils'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startWholeApp } from '../helpers/app.ts'
import { containing, exactly } from '../helpers/containing.ts'
import { parseRedisUrl } from '../../lib/guard/redis/redis-url.ts'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { settingSpec, variables } from '../../lib/settings/specs.ts'
import { closeGraceDelay } from '../../start-options.ts'
import { root, textOf } from '../helpers/documents.ts'
import { json, startHostileProvider } from '../helpers/hostile-provider.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { processSurroundings } from '../../server/surroundings.ts'

const read = (file: string) => readFileSync(join(root, 'deploy', file), 'utf8')
const isSecret = (name: string) => settingSpec(variables.get(name)!).secret === true

/** The settings of a manifest are ours, and the service would start with them. */
async function expectSettings (t: Test, environment: Record<string, string>) {
  const names = [...variables.keys()]
  t.strictSame(Object.keys(environment).filter(name => !names.includes(name)), [], 'every variable is a setting')
  const found = collectSettings({ environment, readFile: () => undefined })
  await t.resolves(validateSettings(found, processSurroundings), 'the settings are accepted')
}

/** What dclint says of a file; its own types are lost under node's rules of resolution. */
interface LintResult {
  messages: ReadonlyArray<{ type: string, rule: string, message: string }>
}

interface ComposeService {
  image?: string
  build?: { context: string, dockerfile?: string }
  command?: readonly string[]
  environment?: Record<string, string>
  network_mode?: string
  ports?: readonly string[]
  stop_grace_period?: string
  volumes?: readonly string[]
}

for (const [file, hasStore] of [['compose.yaml', true], ['compose.without-redis.yaml', false]] as const) {
  t.test(file, async t => composeTest(t, file, hasStore))
}

async function composeTest (t: Test, file: string, hasStore: boolean) {
  const text = read(file)
  const { services } = parse(text, { merge: true }) as {
    services: Record<'nginx' | 'provider', ComposeService> & Record<string, ComposeService>
  }
  const instances = Object.values(services).filter(({ build }) => build && !build.dockerfile)
  const { nginx, provider } = services
  const valkey = services['valkey']
  const conf = read('nginx/instances.conf')

  t.test('It follows the schema of Compose, and a file with one unknown key does not.', async t => {
    const lint = (content: string) => {
      const rules = {
        'services-alphabetical-order': 0,
        'service-keys-order': 0,
        'top-level-properties-order': 0,
        'no-duplicate-exported-ports': 2,
        'service-image-require-explicit-tag': 2
      } as const
      const linter = new DCLinter({ rules, quiet: true, debug: false, exclude: [] })
      const file = join(t.testdir({ 'compose.yaml': content }), 'compose.yaml')
      const results: readonly LintResult[] = linter.lintFiles([file], false)
      return results.flatMap(({ messages }) =>
        messages.filter(({ type }) => type === 'error').map(({ rule, message }) => [rule, message])
      )
    }
    t.strictSame(lint(text), [])
    t.match(lint(text.replace('    image: nginx', '    imag: nginx')), [[
      exactly('invalid-schema'),
      /must NOT have additional properties/
    ]])
  })

  t.test('Two instances have all settings but the port in common, and the service accepts them.', async t => {
    t.ok(instances.length >= 2)
    for (const { environment = {} } of instances) {
      const filled = Object.fromEntries(
        Object.entries(environment).map(([name, value]) => [name, value.replace(/^\$\{\w+:-(.*)\}$/, '$1')])
      )
      await expectSettings(t, filled)
      t.strictSame({ ...environment, PORT: '' }, { ...instances[0]!.environment, PORT: '' })
    }
  })

  t.test('Every address leads to a service.', async t => {
    const { PUBLIC_URL, IDP_ISSUER, IDP_AUDIENCE, DPOP_REPLAY } = instances[0]!.environment!
    const upstream = [...conf.matchAll(/^ {4}server 127\.0\.0\.1:(\d+)/gm)].map(([, port]) => port)
    t.strictSame(upstream, instances.map(({ environment }) => environment!.PORT), 'nginx passes on to the instances')
    for (const service of [nginx, ...instances]) {
      t.equal(service.network_mode, 'service:provider', 'the loopback of all is one')
    }
    const published = provider.ports!.map(mapping => mapping.split(':').slice(1))
    t.strictSame(published, [[new URL(PUBLIC_URL!).port, /^ {4}listen (\d+)\b/m.exec(conf)![1]], [
      new URL(IDP_ISSUER!).port,
      new URL(IDP_ISSUER!).port
    ]])
    t.ok(provider.ports!.every(mapping => mapping.startsWith('127.0.0.1:')), 'and only from this machine')
    t.match(conf, containing(`server_name ${new URL(PUBLIC_URL!).hostname};`))
    t.match(
      conf,
      containing(` ${new URL(PUBLIC_URL!).host} ${new URL(PUBLIC_URL!).host};`),
      'nginx takes the authority that clients write'
    )
    const command = provider.command!
    t.strictSame(['--port', '--audience', '--url'].map(name => command[command.indexOf(name) + 1]), [
      new URL(IDP_ISSUER!).port,
      IDP_AUDIENCE,
      PUBLIC_URL
    ])
    if (hasStore) t.equal(services[parseRedisUrl(DPOP_REPLAY!).hosts[0]!.host], valkey)
    else t.strictSame([DPOP_REPLAY, valkey, text.includes('redis:')], [undefined, undefined, false])
  })

  t.test('Every file that is used exists.', async t => {
    const mounted = nginx.volumes!.map(volume => volume.split(':'))
    t.strictSame(mounted.map(([from]) => from), ['./nginx/instances.conf', './nginx/snippets'])
    for (const [from, , mode] of mounted) t.ok(existsSync(join(root, 'deploy', from!)) && mode === 'ro', from!)
    t.equal(instances[0]!.build!.context, '..')
    const dockerfile = textOf(provider.build!.dockerfile!)
    t.strictSame(lintDockerfile(dockerfile), [])
    t.match(dockerfile, /^USER 1000$/m)
    const [, ...words] = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(dockerfile)![1]!) as string[]
    t.ok(words.length === 1 && existsSync(join(root, words[0]!)), 'it starts a tool of dev/')
    t.equal(
      /^FROM (.*)$/m.exec(dockerfile)![1],
      /^FROM (\S+)$/m.exec(textOf('Dockerfile'))![1],
      'one base for both images'
    )
    const ignored = read('provider.Dockerfile.dockerignore').split('\n')
    const copied = [...dockerfile.matchAll(/^COPY (.+) \S+$/gm)].flatMap(([, files]) => files!.split(' '))
    for (const file of copied) t.ok(ignored.includes(`!${file}`) && existsSync(join(root, file)), file)
  })

  t.test('A proof passes once: by the store that they share, or because nonces of one are good at no other.', async t => {
    for (const { environment = {} } of instances) {
      t.strictSame(
        [environment['DPOP_REPLAY'] !== undefined, environment['DPOP_NONCE']],
        hasStore ? [true, '$' + '{DPOP_NONCE:-off}'] : [false, 'required']
      )
    }
    t.match(conf, /^ {4}hash \$holdfast_client consistent;$/m, 'nginx keeps a client at its instance')
  })

  t.test(
    'The store refuses rather than forgets, no instance is killed before it has drained, and no secret is ' +
      'written down.',
    async t => {
      const command = valkey?.command ?? []
      if (hasStore) {
        t.strictSame([command[command.indexOf('--maxmemory-policy') + 1], command.includes('--maxmemory')], [
          'noeviction',
          true
        ])
      }
      for (const { environment = {}, stop_grace_period: grace = '10s' } of instances) {
        t.ok(parseInt(grace) * 1000 > closeGraceDelay)
        for (const [name, value] of Object.entries(environment).filter(([name]) => isSecret(name))) {
          t.match(value, name === 'DPOP_REPLAY' ? /^redis:\/\/[^@]*$/ : /^\$\{\w+:-\}$/, name)
        }
      }
    }
  )
}

const KINDS = [
  'Deployment',
  'HorizontalPodAutoscaler',
  'Ingress',
  'NetworkPolicy',
  'PodDisruptionBudget',
  'Service'
] as const
type Kind = typeof KINDS[number]

const ajv = new Ajv({ allErrors: true, allowUnionTypes: true }).addSchema(
  JSON.parse(textOf('test/fixtures/kubernetes.schema.json')),
  'kubernetes'
)

/** What Kubernetes would say of an object, and of its fields that it does not know. */
function complaintsOf (object: { kind: Kind }) {
  const validate = ajv.getSchema(`kubernetes#/$defs/${object.kind}`)!
  validate(object)
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    `${instancePath} ${message} ${JSON.stringify(params)}`
  )
}

/** As far as ours go. Kustomize itself refuses a field that it does not know, so that a test without it must. */
interface Kustomization {
  resources: readonly string[]
  images: ReadonlyArray<{ name: string, newName: string, newTag: string }>
  configMapGenerator: ReadonlyArray<{ name: string, envs: readonly string[] }>
  patches: ReadonlyArray<
    { target: { kind: Kind, name: string }, patch: string }
  >
}

const KUSTOMIZATION_FIELDS = ['apiVersion', 'kind', 'namespace', 'resources', 'images', 'configMapGenerator', 'patches']

function readKustomization (folder: string) {
  const kustomization = parse(read(`kubernetes/${folder}/kustomization.yaml`)) as Kustomization
  const unknown = Object.keys(kustomization).filter(field => !KUSTOMIZATION_FIELDS.includes(field))
  if (unknown.length > 0) throw new Error(`${folder}: unknown ${unknown.join(', ')}`)
  return kustomization
}

t.test('kubernetes/', async t => {
  const base = readKustomization('base')
  const overlay = readKustomization('overlays/example')
  const objects = new Map<Kind, any>(base.resources.map(file => {
    const object = parse(read(`kubernetes/base/${file}`)) as { kind: Kind }
    t.equal(file, `${object.kind.toLowerCase()}.yaml`, 'a file is named for what it holds')
    return [object.kind, object]
  }))
  const deployment = objects.get('Deployment')
  const pod = deployment.spec.template.spec
  const container = pod.containers[0]
  const LABELS = { 'app.kubernetes.io/name': 'holdfast' }

  t.test('Every object follows the schema of Kubernetes, and one with a wrong value does not.', async t => {
    t.strictSame([...objects.keys()].sort(), KINDS.filter(kind => kind !== 'Ingress'))
    for (const [kind, object] of objects) t.strictSame(complaintsOf(object), [], kind)
    const twin = structuredClone(deployment)
    twin.spec.template.spec.containers[0].ports[0].containerPort = '8000'
    t.match(complaintsOf(twin), [/containerPort must be integer/])
    t.match(complaintsOf({ ...deployment, apiVersion: 'apps/v1beta1' }), [/apiVersion must be equal to constant/])
  })

  // Kubernetes ignores a field that it does not know, without a message.
  t.test('No object has a field that Kubernetes does not know, and one with such a field is found.', async t => {
    const twin = structuredClone(deployment)
    twin.spec.template.spec.containers[0].securityContext.readOnlyRootFileSystem = true
    const complaints = [...objects.values(), twin].flatMap(complaintsOf)
    t.equal(complaints.length, 1, complaints.join('\n'))
    t.match(complaints[0], /readOnlyRootFileSystem/, 'only the twin')
  })

  t.test('The base names every file of its folder, and what the overlay changes is in the base.', async t => {
    t.strictSame(
      [...base.resources, 'kustomization.yaml'].sort(),
      readdirSync(join(root, 'deploy/kubernetes/base')).sort()
    )
    t.strictSame(overlay.resources, ['../../base'])
    t.hasStrict(parse(read('kubernetes/base/kustomization.yaml')), {
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization'
    })
    t.hasStrict(parse(read('kubernetes/overlays/example/kustomization.yaml')), {
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization'
    })
    t.strictSame(overlay.images.map(({ name }) => name), [container.image.split(':')[0]])
    t.strictSame(
      overlay.configMapGenerator.map(({ name }) => name),
      container.envFrom.map(({ configMapRef }: { configMapRef: { name: string } }) => configMapRef.name)
    )
    for (const { target: { kind, name }, patch } of overlay.patches) {
      t.equal(objects.get(kind).metadata.name, name)
      for (const { op, path, value } of parse(patch) as Array<{ op: string, path: string, value: unknown }>) {
        const present = path.split('/').slice(1).reduce((at, key) => at?.[key], objects.get(kind))
        t.equal(op, 'replace')
        t.equal(typeof value, typeof present, path)
      }
    }
    t.match(read('README.md'), /^kubectl apply -k deploy\/kubernetes\/overlays\/example$/m)
  })

  t.test('An init container ensures the streams of transmitters, as the service is set, and lets the pod start.', async t => {
    const { kind, patches } = parse(read('kubernetes/stream/kustomization.yaml')) as Kustomization & { kind: string }
    t.equal(kind, 'Component')
    const [{ op, path, value }] = parse(patches[0]!.patch) as [{ op: string, path: string, value: any[] }]
    t.strictSame([patches.length, op, path], [1, 'add', '/spec/template/spec/initContainers'])
    const patched = structuredClone(deployment)
    patched.spec.template.spec.initContainers = value
    t.strictSame(complaintsOf(patched), [])
    const [{ image, envFrom, env, securityContext, command }] = value
    t.strictSame([image, envFrom, securityContext], [container.image, container.envFrom, container.securityContext])
    const secrets = container.env.filter(({ valueFrom }: { valueFrom?: object }) => valueFrom)
    t.strictSame(
      env.map(({ name, valueFrom }: any) => [name, valueFrom.secretKeyRef.key]),
      secrets.map(({ name, valueFrom }: any) => [name, valueFrom.secretKeyRef.key])
    )
    t.strictSame(command, ['sh', '-c', 'node dist/cli/main.js stream --ensure || true'])
  })

  t.test('Ports, labels and probes fit together and the service.', async t => {
    const { PORT } = Object.fromEntries(
      container.env.map(({ name, value }: { name: string, value?: string }) => [name, value])
    )
    t.equal(container.ports[0].containerPort, Number(PORT))
    const { name } = container.ports[0]
    t.equal(objects.get('Service').spec.ports[0].targetPort, name)
    t.equal(objects.get('NetworkPolicy').spec.ingress[0].ports[0].port, name)
    t.match(
      textOf('docs/reference/behind-a-proxy.md'),
      containing(`port: { number: ${objects.get('Service').spec.ports[0].port} }`),
      'the Ingress of the manual leads here'
    )

    t.strictSame(deployment.spec.template.metadata.labels, LABELS)
    for (const kind of ['Deployment', 'PodDisruptionBudget'] as const) {
      t.strictSame(objects.get(kind).spec.selector.matchLabels, LABELS)
    }
    t.strictSame(objects.get('Service').spec.selector, LABELS)
    t.strictSame(objects.get('NetworkPolicy').spec.podSelector.matchLabels, LABELS)
    t.match(objects.get('HorizontalPodAutoscaler').spec.scaleTargetRef, {
      apiVersion: deployment.apiVersion,
      kind: deployment.kind,
      name: deployment.metadata.name
    })

    const routes = textOf('routes/health.ts')
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
      t.match(routes, containing(`app.get(\`\${ownPrefix}${container[probe].httpGet.path}\``), probe)
      t.equal(container[probe].httpGet.port, name)
    }
    t.equal(container.startupProbe.httpGet.path, '/health/ready', 'no traffic before it could decide')
  })

  t.test(
    'With a provider of opaque tokens alone, each probe of the pod is answered with 200 once it could decide, ' +
      'and not before.',
    async t => {
      const overlaid = parseEnv(read('kubernetes/overlays/example/settings.env')) as Record<string, string>
      const { IDP_DOMAIN: _, ...settings } = overlaid
      const probe = async (url: string, name: string) =>
        (await fetch(url + container[name].httpGet.path)).status
      const provider = await startHostileProvider()
      t.teardown(provider.close)
      let release = () => {}
      const released = new Promise<void>(resolve => {
        release = resolve
      })
      provider.discovery = async (request, response) => {
        await released
        json({ issuer: provider.issuer, introspection_endpoint: `${provider.url}/introspect` })(request, response)
      }
      provider.others.set('/introspect', json({ active: true, sub: 'user-1', aud: overlaid['IDP_AUDIENCE'] }))
      const { url } = await startWholeApp(t, { url: provider.issuer } as Issuer, {
        ...settings,
        DPOP_REPLAY: 'memory',
        IDP_INTROSPECTION: 'opaque',
        IDP_CLIENT_ID: 'api',
        IDP_CLIENT_SECRET: 'secret'
      })
      t.strictSame(
        [await probe(url, 'startupProbe'), await probe(url, 'livenessProbe')],
        [503, 200],
        'before its introspection endpoint is known'
      )
      release()
      while (await probe(url, 'startupProbe') !== 200) await new Promise(resolve => setTimeout(resolve, 10))
      t.strictSame([
        await probe(url, 'startupProbe'),
        await probe(url, 'readinessProbe'),
        await probe(url, 'livenessProbe')
      ], [200, 200, 200])
      t.equal((await fetch(`${url}/api/private`, { headers: { authorization: 'Bearer opaque' } })).status, 200)
    }
  )

  t.test('At least two pods, of which one at a time goes, and none is killed before it has drained.', async t => {
    const { minReplicas, maxReplicas } = objects.get('HorizontalPodAutoscaler').spec
    t.ok(minReplicas >= 2 && maxReplicas > minReplicas)
    t.notOk('replicas' in deployment.spec, 'one place says how many')
    t.strictSame(deployment.spec.strategy.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 })
    t.equal(objects.get('PodDisruptionBudget').spec.maxUnavailable, 1)
    const [program, seconds] = container.lifecycle.preStop.exec.command
    t.equal(program, 'sleep')
    t.ok(pod.terminationGracePeriodSeconds * 1000 > Number(seconds) * 1000 + closeGraceDelay)
  })

  t.test('The container has no more rights than it needs.', async t => {
    t.hasStrict(pod, {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } }
    })
    t.strictSame(
      [pod.securityContext.runAsUser, pod.securityContext.runAsGroup, pod.securityContext.fsGroup],
      [undefined, undefined, undefined],
      'OpenShift refuses a pod that chooses them, and the image has a number'
    )
    t.hasStrict(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] }
    })
    t.strictSame(container.resources, { requests: { cpu: '100m', memory: '192Mi' }, limits: { memory: '1Gi' } })
    t.strictSame(
      objects.get('HorizontalPodAutoscaler').spec.metrics[0].resource.target,
      { type: 'AverageValue', averageValue: '600m' },
      'not a part of what a pod asks for, which would be reached at once'
    )
    for (const { newTag } of overlay.images) t.match(newTag, /^\d/, 'a pinned image')
  })

  t.test('The policy lets a pod reach every DNS of its cluster, and its provider over IPv4 and IPv6.', async t => {
    const [dns, provider] = objects.get('NetworkPolicy').spec.egress
    t.strictSame(dns.to, undefined, 'it may be pods of any namespace, or the node')
    const blocks = provider.to.map(({ ipBlock }: { ipBlock: { cidr: string, except: string[] } }) => ipBlock)
    t.strictSame(blocks.map(({ cidr }: { cidr: string }) => cidr), ['0.0.0.0/0', '::/0'])
    const holds = (ranges: readonly string[], address: string) => {
      const list = new BlockList()
      for (const range of ranges) {
        const [start = '', bits] = range.split('/')
        list.addSubnet(start, Number(bits), isIPv6(start) ? 'ipv6' : 'ipv4')
      }
      return list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
    }
    const allows = (address: string) =>
      blocks.some(({ cidr, except }: { cidr: string, except: string[] }) =>
        isIPv6(address) === cidr.includes(':') && holds([cidr], address) && !holds(except, address)
      )
    t.strictSame(['203.0.113.9', '2001:db8::1'].map(allows), [true, true])
    t.strictSame(['169.254.169.254', 'fe80::1', 'fd00:ec2::254'].map(allows), [false, false, false], 'of the cloud')
  })

  t.test('The settings are accepted, and secrets are named, not written.', async t => {
    const manual = read('README.md')
    const filling: Record<string, string> = { DPOP_REPLAY: 'rediss://:p@h:6379', DPOP_NONCE_SECRET: 'A'.repeat(43) }
    const entries = container.env as Array<
      { name: string, value?: string, valueFrom?: { secretKeyRef: { name: string, key: string } } }
    >
    for (const { name, value, valueFrom } of entries) {
      t.equal(valueFrom !== undefined, isSecret(name), name)
      t.equal(value === undefined, isSecret(name), name)
      if (valueFrom) {
        t.match(
          manual,
          new RegExp(
            `-n holdfast create secret generic ${valueFrom.secretKeyRef.name} ` +
              `.*--from-literal=${valueFrom.secretKeyRef.key}=`
          ),
          'the manual makes it'
        )
      }
    }
    const settings = overlay.configMapGenerator.flatMap(({ envs }) => envs).map(file =>
      parseEnv(read(`kubernetes/overlays/example/${file}`)) as Record<string, string>
    )
    t.strictSame(settings.flatMap(Object.keys).filter(isSecret), [])
    await expectSettings(
      t,
      Object.assign(
        {},
        ...settings,
        Object.fromEntries(entries.map(({ name, value }) => [name, value ?? filling[name]!]))
      )
    )
  })

  t.test('The overlay without a Redis has no way to one and no secret, and its ingress keeps a client at its pod.', async t => {
    const folder = 'overlays/without-redis'
    const { resources, images, patches, configMapGenerator } = readKustomization(folder)
    t.strictSame([resources, images], [['../../base', 'ingress.yaml'], overlay.images])
    const patched = new Map([...objects].map(([kind, object]) => [kind, structuredClone(object)]))
    for (const { target: { kind, name }, patch } of patches) {
      t.equal(patched.get(kind).metadata.name, name)
      for (const step of parse(patch) as PatchStep[]) applyPatch(patched.get(kind), step)
    }
    const ingress = parse(read(`kubernetes/${folder}/ingress.yaml`))
    for (const object of [...patched.values(), ingress]) t.strictSame(complaintsOf(object), [], object.kind)
    t.match(
      complaintsOf({ ...ingress, spec: { ...ingress.spec, ingressClass: 'nginx' } }),
      [/ingressClass/],
      'a field that Kubernetes does not know'
    )

    t.strictSame(
      patched.get('NetworkPolicy').spec.egress.flatMap(({ ports }: { ports: Array<{ port: number }> }) =>
        ports.map(({ port }) => port)
      ),
      [53, 53, 5353, 5353, 443]
    )
    const { env } = patched.get('Deployment').spec.template.spec.containers[0]
    t.strictSame(env, [{ name: 'PORT', value: '8000' }])
    const settings = configMapGenerator.flatMap(({ envs }) => envs).map(file =>
      parseEnv(read(`kubernetes/${folder}/${file}`)) as Record<string, string>
    )
    await expectSettings(t, Object.assign({ PORT: '8000' }, ...settings))
    const { DPOP_NONCE: nonce, ...rest } = Object.assign({}, ...settings)
    t.strictSame([nonce, rest], ['required', { ...parseEnv(read('kubernetes/overlays/example/settings.env')) }])

    const { port: { number }, name } = ingress.spec.rules[0].http.paths[0].backend.service
    t.strictSame([name, number], [objects.get('Service').metadata.name, objects.get('Service').spec.ports[0].port])
    const variable = ingress.metadata.annotations['nginx.ingress.kubernetes.io/upstream-hash-by']
    const snippet = /http-snippet: \|\n((?:# {5}.*\n)+)/.exec(read(`kubernetes/${folder}/ingress.yaml`))![1]!
    const ours = /^map \$http_dpop [^]*?^}/m.exec(read('nginx/instances.conf'))![0]
    t.equal(
      snippet.replace(/^# {5}/gm, '').replace(/\s+/g, ' ').trim(),
      ours.replace(/\s+/g, ' '),
      'the map is the one that is run'
    )
    t.ok(ours.startsWith(`map $http_dpop ${variable} {`))
    t.match(read('README.md'), /^kubectl apply -k deploy\/kubernetes\/overlays\/without-redis$/m)
  })
})

interface PatchStep {
  op: 'replace' | 'remove'
  path: string
  value?: unknown
}

/** As far as ours go (RFC 6902). What it names must be there. */
function applyPatch (object: any, { op, path, value }: PatchStep) {
  const keys = path.split('/').slice(1)
  const last = keys.pop()!
  const parent = keys.reduce((at, key) => at[key], object)
  if (!(last in parent)) throw new Error(`${path} does not exist`)
  if (op === 'replace') parent[last] = value
  else if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else delete parent[last]
}
