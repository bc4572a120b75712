import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { nginxProgram, prepareNginx, readReplacing } from './nginx.ts'
import { programOf, startProgram } from './programs.ts'
import { until } from './until.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy', 'gate')
const fixture = (file: string) => join(import.meta.dirname, '..', 'fixtures', file)
const CERTIFICATE = fixture('provider.cert.pem')
const KEY = fixture('provider.key.pem')

interface Ports {
  port: number
  /** The same over TLS, for the host `localhost`. */
  tlsPort: number
  /** Where the proxy sends authorization requests: to one gate, or several. */
  gates: readonly [number, ...number[]]
  /** Where a gate has its own addresses, if another port answers authorization requests. */
  own: number
  /** Free, for what a proxy needs for itself. */
  spare: number
  application: number
  /** A claim of `gate.claims`, for the files that name each of them. */
  claim: string | undefined
}

/** A forward-auth proxy, with its file of deploy/gate. */
export interface GateProxy {
  name: string
  /** Undefined if it is not installed. */
  program: string | undefined
  /** Whether it uses gRPC. */
  grpc: boolean
  /**
   * Whether a body without a length passes. HAProxy drops trailers since 3.2, and until then its file refuses chunks
   * and HTTP/2.
   */
  takesChunks: boolean
  /** Whether the client gets the body of a refusal. */
  passesBodies: boolean
  /**
   * Whether it joins slashes, resolves dot segments and decodes unreserved characters, before its authorization
   * request. The others change no byte of a path.
   */
  cleansPaths: boolean
  /** Where a client can use HTTP/2, with the configuration of these tests: by prior knowledge, or over TLS. */
  http2: 'plain' | 'tls'
  /** The status for a request to another authority. */
  elsewhere: 404 | 421
  /** Whether it repeats the authorization request if the answer of the gate is lost, although a proof passes once. */
  repeatsRequests: boolean
  /** Whether it uses, of several gates, the one that knows the client. */
  keepsClients: boolean
  /** Whether `DPoP-Nonce` of an answer that lets a request pass reaches the client. */
  passesNonces: boolean
  /**
   * Seconds that the gate has for an answer, as the file has it, and a shorter time for tests. Undefined if no setting
   * changes it.
   */
  patience: readonly [text: string, short: string] | undefined
  prepare (
    folder: string,
    ports: Ports,
    configuration: (file: string, replacements: Record<string, string>) => string
  ): string[]
}

const USUAL = {
  cleansPaths: false,
  elsewhere: 421,
  repeatsRequests: false,
  keepsClients: true,
  passesNonces: true
} as const

/** Major and minor, or 0 if it is not installed. */
function haproxyVersion () {
  return Number(/version (\d+\.\d+)/.exec(String(spawnSync('haproxy', ['-v']).stdout))?.[1] ?? 0)
}

const haproxy: GateProxy = {
  name: 'haproxy',
  program: programOf('haproxy'),
  grpc: false,
  takesChunks: haproxyVersion() >= 3.2,
  http2: 'tls',
  passesBodies: true,
  ...USUAL,
  patience: ['timeout server 10s', 'timeout server 1s'],
  prepare (folder, { port, tlsPort, gates, application }, configuration) {
    writeFileSync(join(folder, 'site.pem'), readFileSync(CERTIFICATE, 'utf8') + readFileSync(KEY, 'utf8'))
    writeFileSync(
      join(folder, 'holdfast.lua'),
      configuration('holdfast.lua', { 'abns@holdfast': `abns@holdfast-${port}` })
    )
    writeFileSync(
      join(folder, 'haproxy.cfg'),
      configuration('haproxy.cfg', {
        '/etc/haproxy/holdfast.lua': join(folder, 'holdfast.lua'),
        'abns@holdfast': `abns@holdfast-${port}`,
        'api.example api.example:80': `127.0.0.1:${port} localhost:${tlsPort}`,
        'bind :80': `bind 127.0.0.1:${port}\n    bind 127.0.0.1:${tlsPort} ssl crt ${join(folder, 'site.pem')} alpn ` +
          'h2,http/1.1',
        'server holdfast 127.0.0.1:8000': gates.map((gate, n) => `server holdfast${n} 127.0.0.1:${gate}`).join(
          '\n    '
        ),
        '127.0.0.1:3000': `127.0.0.1:${application}`
      })
    )
    return ['-f', join(folder, 'haproxy.cfg')]
  }
}

const nginx: GateProxy = {
  name: 'nginx',
  http2: 'tls',
  program: nginxProgram,
  grpc: false,
  takesChunks: true,
  passesBodies: false,
  ...USUAL,
  patience: ['proxy_read_timeout 10s', 'proxy_read_timeout 1s'],
  prepare (folder, { port, tlsPort, gates, application, claim }, configuration) {
    const text = configuration('nginx.conf', {
      'api.example api.example;': `127.0.0.1:${port} 127.0.0.1:${port}; localhost:${tlsPort} localhost:${tlsPort};`,
      'listen 80 ':
        `ssl_certificate ${CERTIFICATE}; ssl_certificate_key ${KEY}; listen 127.0.0.1:${tlsPort} ssl http2; ` +
        `listen 127.0.0.1:${port} `,
      'server 127.0.0.1:8000;': gates.map(gate => `server 127.0.0.1:${gate};`).join(' '),
      '127.0.0.1:3000': `127.0.0.1:${application}`,
      ...claim !== undefined && {
        '        auth_request_set $gate_subject':
          `auth_request_set $gate_claim $upstream_http_x_auth_claim_${claim};\n        auth_request_set $gate_subject`,
        '        proxy_set_header X-Auth-Subject':
          `proxy_set_header X-Auth-Claim-${claim} " $gate_claim";\n        proxy_set_header X-Auth-Subject`
      }
    })
    return prepareNginx(folder, text)
  }
}

const caddy: GateProxy = {
  name: 'caddy',
  http2: 'tls',
  program: programOf('caddy'),
  grpc: false,
  takesChunks: true,
  passesBodies: true,
  ...USUAL,
  patience: ['response_header_timeout 10s', 'response_header_timeout 1s'],
  prepare (folder, { port, tlsPort, gates, application, claim }, configuration) {
    const text = configuration('Caddyfile', {
      'api.example {': '(api) {',
      'api\\.example(:443)?$': `(127\\.0\\.0\\.1:${port}|localhost:${tlsPort})$`,
      '127.0.0.1:8000': gates.map(gate => `127.0.0.1:${gate}`).join(' '),
      '127.0.0.1:3000': `127.0.0.1:${application}`,
      ':80, :443 {': `http://:${port}, https://:${tlsPort} {\n\tbind 127.0.0.1`,
      ...claim !== undefined && {
        'X-Auth-Client DPoP-Nonce': `X-Auth-Client X-Auth-Claim-${claim} DPoP-Nonce`,
        'header_up X-Auth-Client {header.X-Auth-Client}':
          `header_up X-Auth-Client {header.X-Auth-Client}\n\t\t\theader_up X-Auth-Claim-${claim} ` +
          `{header.X-Auth-Claim-${claim}}`
      }
    })
    const sites =
      `http://127.0.0.1:${port} {\n\tbind 127.0.0.1\n\timport api\n}\nhttps://localhost:${tlsPort} {\n\tbind ` +
      `127.0.0.1\n\ttls ${CERTIFICATE} ${KEY}\n\timport api\n}\n`
    writeFileSync(join(folder, 'Caddyfile'), `{\n\tadmin off\n\tauto_https off\n}\n${text}${sites}`)
    return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
  }
}

function envoy (name: string, file: string, gatePort: number): GateProxy {
  return {
    name,
    program: programOf('envoy'),
    grpc: name === 'envoy-grpc',
    http2: 'plain',
    takesChunks: true,
    passesBodies: true,
    ...USUAL,
    patience: ['timeout: 10s', 'timeout: 1s'],
    prepare (folder, { port, tlsPort, gates, own, spare, application }, configuration) {
      const [one, ...others] = gates
      const endpoint = (at: number) =>
        `- endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${at} } } }`
      const bootstrap = parse(configuration(file, {
        ...others.length > 0 && {
          '#>': '  ',
          'port_value: 8010 ': `port_value: ${spare} `,
          [endpoint(gatePort + 1)]: gates.map(endpoint).join('\n              '),
          [`              ${endpoint(gatePort + 2)}\n`]: ''
        },
        "domains: [api.example, 'api.example:80']": `domains: ['127.0.0.1:${port}', 'localhost:${tlsPort}']`,
        'address: 0.0.0.0, port_value: 80 ': `address: 127.0.0.1, port_value: ${port} `,
        [`port_value: ${gatePort} `]: `port_value: ${others.length > 0 ? spare : one} `,
        ...gatePort !== 8000 && { 'port_value: 8000 ': `port_value: ${own} ` },
        'port_value: 3000 ': `port_value: ${application} `
      }))
      const { listeners } = bootstrap.static_resources
      const tls = structuredClone(listeners[0])
      tls.name = 'tls'
      tls.address.socket_address.port_value = tlsPort
      tls.filter_chains[0].transport_socket = {
        name: 'envoy.transport_sockets.tls',
        typed_config: {
          '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
          common_tls_context: {
            tls_certificates: [{ certificate_chain: { filename: CERTIFICATE }, private_key: { filename: KEY } }]
          }
        }
      }
      listeners.push(tls)
      writeFileSync(join(folder, 'envoy.json'), JSON.stringify(bootstrap))
      return ['-c', join(folder, 'envoy.json'), '--disable-hot-restart', '--concurrency', '1', '-l', 'warn']
    }
  }
}

const traefik: GateProxy = {
  name: 'traefik',
  program: programOf('traefik'),
  grpc: false,
  takesChunks: true,
  passesBodies: true,
  cleansPaths: true,
  elsewhere: 404,
  repeatsRequests: true,
  keepsClients: false,
  passesNonces: false,
  http2: 'tls',
  // ForwardAuth waits for 30 s.
  patience: undefined,
  prepare (folder, { port, tlsPort, gates: [gate], application }, configuration) {
    const text = configuration('traefik.yaml', {
      'Host(`api.example`)': '(Host(`127.0.0.1`) || Host(`localhost`))',
      'api\\.example(:443)?$': `(127\\.0\\.0\\.1:${port}|localhost:${tlsPort})$`,
      '127.0.0.1:8000': `127.0.0.1:${gate}`,
      '127.0.0.1:3000': `127.0.0.1:${application}`
    })
    // A traefik.yaml here would be read for its static configuration.
    writeFileSync(
      join(folder, 'routing.yaml'),
      `${text}tls: { stores: { default: { defaultCertificate: { certFile: ${CERTIFICATE}, keyFile: ${KEY} } } } }\n`
    )
    return [
      `--providers.file.filename=${join(folder, 'routing.yaml')}`,
      '--providers.file.watch=false',
      `--entrypoints.plain.address=127.0.0.1:${port}`,
      `--entrypoints.tls.address=127.0.0.1:${tlsPort}`,
      '--entrypoints.tls.http.tls=true',
      '--entrypoints.plain.transport.respondingtimeouts.readtimeout=86400s',
      '--global.checknewversion=false',
      '--global.sendanonymoususage=false',
      '--log.level=ERROR'
    ]
  }
}

/** Those that CI has. Traefik is in no distribution: `npm run test:traefik` runs it. */
const INSTALLED: readonly GateProxy[] = [
  nginx,
  haproxy,
  caddy,
  envoy('envoy-http', 'envoy-http.yaml', 8000),
  envoy('envoy-grpc', 'envoy-grpc.yaml', 9000)
]

export const GATE_PROXIES: readonly GateProxy[] = traefik.program === undefined ? INSTALLED : [...INSTALLED, traefik]

interface GateProxyParts {
  gates: readonly [number, ...number[]]
  /** Where the gate has its own addresses: by default the first of `gates`. */
  own?: number
  application: number
  /** Whether the proxy waits only briefly for the gate. */
  isImpatient?: boolean
  claim?: string | undefined
}

/** Whatever is behind a route may answer late, or never. */
async function hasRoutes (url: string) {
  const text = await fetch(url, { signal: AbortSignal.timeout(1000) }).then(answer => answer.text(), () => '')
  return text !== '404 page not found\n'
}

/** The port to which a proxy sends authorization requests, once the gate listens there. */
export async function portFor (
  { grpc }: GateProxy,
  { app, url }: { app: FastifyInstance, url: string }
): Promise<number> {
  if (!grpc) return Number(new URL(url).port)
  while (!app.grpcAddress()) await new Promise(setImmediate)
  return app.grpcAddress()!.port
}

/** Runs a proxy with its file of deploy/gate. A text that a file no longer holds is an error. It ends with the test. */
export async function startGateProxy (
  t: Test,
  { name, program, patience: waiting, prepare }: GateProxy,
  { gates, own = gates[0], application, isImpatient = false, claim }: GateProxyParts
) {
  const folder = t.testdir()
  const [port, tlsPort, spare] = [await freePort(), await freePort(), await freePort()]
  const [patience, short] = waiting ?? ['', '']
  let isPatient = !isImpatient || waiting === undefined
  const args = prepare(folder, { port, tlsPort, gates, own, spare, application, claim }, (file, replacements) => {
    const text = readReplacing(deploy, file, replacements)
    if (isPatient || !text.includes(patience)) return text
    isPatient = true
    return text.replaceAll(patience, short)
  })
  if (!isPatient) throw new Error(`no file of ${name} holds ${patience}`)
  await startProgram(t, program!, { args, folder, ports: [port, tlsPort] })
  const url = `http://127.0.0.1:${port}`
  if (name === 'traefik') await until('its routes, which it reads once it listens', () => hasRoutes(url))
  return { url, tlsUrl: `https://localhost:${tlsPort}` }
}
