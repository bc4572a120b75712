import { readFileSync, writeFileSync } from 'node:fs'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import tls from 'node:tls'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import { startApp } from '../helpers/app.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { nginxProgram, prepareNginx } from '../helpers/nginx.ts'
import { programOf, startProgram } from '../helpers/programs.ts'
import { startUpstream } from '../helpers/upstream.ts'

const fixture = (file: string) => join(import.meta.dirname, '..', 'fixtures', file)
const CERTIFICATE = fixture('provider.cert.pem')
const KEY = fixture('provider.key.pem')

/**
 * A server that offers HTTP/2 and HTTP/1.1 over TLS, and passes on to an application. It says in `X-Protocol` over
 * which protocol a request came.
 */
interface TlsServer {
  name: string
  program: string | undefined
  /** How it names HTTP/1.1. */
  protocol: string
  prepare (folder: string, port: number, application: string): string[]
}

const SERVERS: readonly TlsServer[] = [
  {
    name: 'nginx',
    program: nginxProgram,
    protocol: 'HTTP/1.1',
    prepare (folder, port, application) {
      return prepareNginx(
        folder,
        `server { listen 127.0.0.1:${port} ssl http2; ssl_certificate ${CERTIFICATE}; ssl_certificate_key ${KEY}; client_max_body_size 0;
          location / { proxy_pass ${application}; proxy_request_buffering off; add_header X-Protocol $server_protocol always; } }`
      )
    }
  },
  {
    name: 'haproxy',
    program: programOf('haproxy'),
    protocol: 'HTTP/1',
    prepare (folder, port, application) {
      writeFileSync(join(folder, 'site.pem'), readFileSync(CERTIFICATE, 'utf8') + readFileSync(KEY, 'utf8'))
      writeFileSync(
        join(folder, 'haproxy.cfg'),
        `defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend site
  bind 127.0.0.1:${port} ssl crt ${join(folder, 'site.pem')} alpn h2,http/1.1
  http-response set-header X-Protocol HTTP/%[fc_http_major]
  default_backend application
backend application
  server application ${new URL(application).host}
`
      )
      return ['-f', join(folder, 'haproxy.cfg')]
    }
  },
  {
    name: 'caddy',
    program: programOf('caddy'),
    protocol: 'HTTP/1.1',
    prepare (folder, port, application) {
      writeFileSync(
        join(folder, 'Caddyfile'),
        `{
  admin off
  auto_https off
}
https://127.0.0.1:${port} {
  tls ${CERTIFICATE} ${KEY}
  header X-Protocol {http.request.proto}
  reverse_proxy ${new URL(application).host}
}
`
      )
      return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
    }
  }
]

async function startServer (t: Test, { program, prepare }: TlsServer, application: string) {
  const folder = t.testdir()
  const port = await freePort()
  await startProgram(t, program!, { args: prepare(folder, port, application), folder, ports: [port] })
  return `https://127.0.0.1:${port}`
}

// These servers have a certificate that no authority has signed.
const connectTls = tls.connect
t.teardown(() => {
  tls.connect = connectTls
})
tls.connect =
  ((options: object, ...rest: []) =>
    connectTls({ ...options, ca: readFileSync(CERTIFICATE) }, ...rest)) as typeof tls.connect

for (const server of SERVERS) {
  t.test(`A gate calls ${server.name} over HTTP/1.1, even if it offers HTTP/2.`, {
    skip: server.program === undefined && `${server.name} is not installed`
  }, async t => {
    const application = await startUpstream(t)
    const upstream = await startServer(t, server, application.origin)
    const issuer = await startIssuer(t)
    const { url } = await startApp(t, issuer, { GATE: { upstream, rules: [{ path: '/*' }], claims: ['sub'] } })
    const agent = new Agent({ keepAlive: true, maxSockets: 32 })
    t.teardown(() => agent.destroy())
    const headers = { authorization: `Bearer ${issuer.token()}` }

    const ask = (
      path: string,
      { method = 'GET', body, ...more }: {
        method?: string,
        body?: Iterable<Buffer> | undefined,
        authorization?: string
      } = {}
    ): Promise<{ status: number, headers: IncomingMessage['headers'], body: string }> =>
      new Promise((resolve, reject) => {
        const request = httpRequest(url + path, {
          agent: body ? false : agent,
          method,
          headers: { ...headers, ...more }
        }, response => {
          let text = ''
          response.on('data', chunk => {
            text += chunk
          }).on('end', () => resolve({ status: response.statusCode!, headers: response.headers, body: text })).on(
            'error',
            reject
          )
        })
        request.on('error', reject)
        if (!body) return request.end()
        const chunks = body[Symbol.iterator]()
        const write = () => {
          for (;;) {
            const { done, value } = chunks.next()
            if (done) return request.end()
            if (!request.write(value)) return request.once('drain', write)
          }
        }
        write()
      })

    const answer = await ask('/orders/7?x=%2F')
    t.strictSame([answer.status, answer.headers['x-protocol'], answer.body], [200, server.protocol, '{"ok":true}'])
    t.strictSame([application.arrived[0]!.target, application.arrived[0]!.headers['x-auth-subject']], [
      '/orders/7?x=%2F',
      'user-1'
    ])
    t.equal((await ask('/orders/7', { authorization: 'Bearer x' })).status, 401, 'the guard is active')
    const head = await ask('/orders/7', { method: 'HEAD' })
    t.strictSame([head.status, head.body], [200, ''], 'HEAD')

    const chunk = Buffer.alloc(1024 * 1024, 'x')
    const upload = ask('/upload', { method: 'POST', body: Array.from({ length: 100 }, () => chunk) })
    application.arrived.length = 0
    // nginx ends a connection after 1,000.
    const answers = await Promise.all(Array.from({ length: 2500 }, (_, i) => ask(`/orders/${i}`)))
    const targets = application.arrived.map(({ target }) => target)
    t.equal(new Set(targets).size, targets.length, 'nothing is sent twice')
    t.strictSame(
      answers.filter(({ status }) => status !== 200).length,
      0,
      'and all of 2,500 requests are answered, 32 at a time'
    )
    const uploaded = await upload
    t.strictSame([uploaded.status, uploaded.body], [200, String(100 * chunk.length)], 'beside a body of 100 MiB')
  })
}
