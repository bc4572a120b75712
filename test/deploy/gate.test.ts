import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { isWithheldName } from '../../lib/gate/headers.ts'
import { root } from '../helpers/documents.ts'

const read = (file: string) => readFileSync(join(root, 'deploy', 'gate', file), 'utf8')

/** As the contract of the gate has them, and one of each prefix. nginx can take away whole names only. */
const WITHHELD = [
  'x-original-url',
  'x-original-uri',
  'x-original-host',
  'x-rewrite-url',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'proxy',
  'client-cert',
  'script-name',
  'path-info',
  'x-script-name',
  'remote-user',
  'x-remote-user',
  'x-real-ip',
  'true-client-ip',
  'x-client-ip',
  'x-client-cert',
  'x-client-verify',
  'x-tls-client-cert',
  'x-arr-clientcert',
  'x-sendfile-type',
  'x-accel-mapping',
  'x-ssl-client-cert',
  'ssl-client-verify',
  'x-amzn-mtls-clientcert',
  'x-amzn-oidc-data',
  'x-ms-client-principal',
  'x-ms-client-principal-id',
  'x-auth-request-user',
  'x-webauth-user'
]

t.test('Each file that forwards by itself removes what the gate withholds.', async t => {
  const nginx = new Set([...read('nginx.conf').matchAll(/^ *proxy_set_header (\S+) +"";/gm)].map(([, name]) => name!.toLowerCase()))
  const patterns = (file: string, form: RegExp) =>
    [...read(file).matchAll(form)].map(([, text]) => new RegExp(`^(?:${text})$`, 'i'))
  const caddy = [...read('Caddyfile').matchAll(/^\s*request_header -([\w-]+)(\*?)$/gm)].map(([, name, star]) =>
    new RegExp(`^${name}${star === '' ? '' : '.*'}$`, 'i')
  )
  const files: Record<string, RegExp[]> = {
    Caddyfile: caddy,
    'haproxy.cfg': patterns('haproxy.cfg', /del-header '\^(.*)\$' -m reg/g),
    'envoy-http.yaml': patterns('envoy-http.yaml', /remove_on_match: .*regex: '(.*)' \} \} \}/g),
    'envoy-grpc.yaml': patterns('envoy-grpc.yaml', /remove_on_match: .*regex: '(.*)' \} \} \}/g)
  }
  for (const name of WITHHELD) {
    t.ok(isWithheldName(name), name)
    t.ok(nginx.has(name), `nginx.conf: ${name}`)
    for (const [file, removed] of Object.entries(files)) t.ok(removed.some(pattern => pattern.test(name)), `${file}: ${name}`)
  }
  for (const [file, removed] of Object.entries(files)) {
    for (const name of ['accept', 'x-request-ids', 'x-client-id']) t.notOk(removed.some(pattern => pattern.test(name)), `${file}: ${name}`)
    // Of a client inside, Envoy takes it for an order to send the request again.
    t.equal(removed.some(pattern => pattern.test('x-envoy-retry-on')), file.startsWith('envoy'), `${file}: x-envoy-retry-on`)
  }
})

/** Traefik writes these itself, in place of what a client sends. */
const OF_TRAEFIK = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip']

t.test('The pattern for Traefik removes the headers that the gate itself withholds, except those that Traefik writes.', async t => {
  const pattern = parse(read('traefik.yaml')).http.middlewares.holdfast.forwardAuth.authResponseHeadersRegex as string
  const [, text] = /^\(\?i\)(.*)$/.exec(pattern)!
  const taken = new RegExp(text!, 'i')
  // The names of nginx.conf: nginx can take away whole names only.
  const named = [...read('nginx.conf').matchAll(/^ *proxy_set_header (\S+)/gm)].map(([, name]) => name!.toLowerCase())
  t.ok(named.includes('x-forwarded-preferred-username'))
  const withheld = [
    'x-forwarded-',
    'x-forwarded-x',
    'x-auth-claim-role',
    'x.auth.subject',
    'x_forwarded_for',
    'forwarded~',
    ...named
  ].filter(isWithheldName)
  // One sign more, less or other than those that stay.
  const near = OF_TRAEFIK.filter(name => name.startsWith('x-forwarded-')).flatMap(name => {
    const start = 'x-forwarded-'.length
    const at = Array.from({ length: name.length - start + 1 }, (_, n) => start + n)
    return at.flatMap(
      n => [
        name.slice(0, n) + name.slice(n + 1),
        ...['a', 'o', 't', '-', '_'].flatMap(
          sign => [name.slice(0, n) + sign + name.slice(n), name.slice(0, n) + sign + name.slice(n + 1)]
        )
      ]
    )
  }).filter(isWithheldName)
  for (const name of [...withheld, ...near]) t.equal(taken.test(name), !OF_TRAEFIK.includes(name), name)
  t.ok(near.length > 100)
  for (
    const name of [
      'accept',
      'x-request-ids',
      'x-forward',
      'proxy-x',
      'x-forwarde-user',
      'authority',
      'remote-users',
      'x-original-urls',
      'cookie',
      'content-length',
      'transfer-encoding',
      'sec-websocket-key',
      'traceparent',
      ...OF_TRAEFIK
    ]
  ) t.notOk(taken.test(name), `${name} stays`)
})
