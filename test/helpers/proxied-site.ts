import { readFileSync } from 'node:fs'
import { request as requestPlain, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:http2'
import { request } from 'node:https'
import { join } from 'node:path'
import Fastify from 'fastify'
import { freePort } from './free-port.ts'
import type { Test } from 'tap'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import type { Variables } from './variables.ts'
import { startApp, type LogLine, type RunningApp } from './app.ts'
import { parseChallenges } from './challenges.ts'
import { createDpopClient, type DpopClient } from './dpop-client.ts'
import { AUDIENCE, startIssuer, type Issuer } from './issuer.ts'
import { startNginx } from './nginx.ts'
import { sendRaw } from './wire.ts'

/** No address: the resource of the metadata is then the address that clients use. */
const NAME = 'proxied-site'

const FIXTURES = join(import.meta.dirname, '..', 'fixtures')
const CA = readFileSync(join(FIXTURES, 'provider.cert.pem'))

export interface Site {
  issuer: Issuer
  running: RunningApp
  client: DpopClient
  token: string
  /** scheme://host:port of nginx. */
  origin: string
}

export type StartService = (t: Test, issuer: Issuer, values: Variables) => Promise<RunningApp>

/** The service behind nginx with one of its configurations; `settings` sees the address that clients use. */
export async function openSite (
  t: Test,
  file: string,
  settings: (origin: string) => Variables,
  startService: StartService = startApp,
  address?: string,
  replacements: Record<string, string> = {}
): Promise<Site> {
  const port = await freePort()
  const isTls = file === 'tls.conf'
  const name = isTls ? 'api.example.com' : 'www.example.com'
  const origin = `${isTls ? 'https' : 'http'}://localhost:${port}`
  const issuer = await startIssuer(t)
  const running = await startService(t, issuer, { IDP_AUDIENCE: NAME, ...settings(origin) })
  const client = await createDpopClient()
  const token = issuer.token({ aud: NAME, cnf: client.cnf, scope: 'read:users' })
  await startNginx(t, {
    file,
    port,
    replacements: {
      'server 127.0.0.1:8000;': `server ${address ?? new URL(running.url).host};`,
      // Beside what the file has, the address that is used here.
      [`${name} ${name};`]: `${name} ${name}; localhost:${port} localhost:${port};`,
      ...(isTls
        ? {
            'listen 443 ssl': `listen 127.0.0.1:${port} ssl`,
            '/etc/ssl/certs/api.example.com.pem': join(FIXTURES, 'provider.cert.pem'),
            '/etc/ssl/private/api.example.com.key': join(FIXTURES, 'provider.key.pem')
          }
        : { 'listen 80;': `listen 127.0.0.1:${port};` }),
      ...replacements
    }
  })
  return { issuer, running, client, token, origin }
}

export interface Answer {
  status: number
  /** The reason in the service's log; 'accepted' for 200, 'none' where nothing was refused by the guard. */
  reason: string
}

function answerOf ({ running }: Site, before: number, status: number) {
  return { status, reason: status === 200 ? 'accepted' : String(running.reasons()[before] ?? 'none') }
}

function dpopHeaders ({ client, token }: Site, htu: string) {
  return { Authorization: `DPoP ${token}`, DPoP: client.proof({ token, url: htu }) }
}

/** One request of the very bytes of `target` over HTTP/1.1, with a proof for `htu`. */
export async function send (
  site: Site,
  target: string,
  htu = site.origin + target,
  extra: string[] = [],
  host = new URL(site.origin).host
): Promise<Answer> {
  const before = site.running.reasons().length
  const proof = Object.entries(dpopHeaders(site, htu)).map(([name, value]) => `${name}: ${value}`)
  const { status } = await sendRaw(site.origin, [
    `GET ${target} HTTP/1.1`,
    `Host: ${host}`,
    'Connection: close',
    ...proof,
    ...extra
  ])
  return answerOf(site, before, status)
}

/** The service in a scope of its server: under a prefix, or on a unix socket. */
export async function startScoped (
  t: Test,
  issuer: Issuer,
  values: Variables,
  { prefix = '', path }: { prefix?: string, path?: string }
): Promise<RunningApp> {
  const settings = await readSettings({ IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, ...values })
  const log: LogLine[] = []
  const stream = {
    write: (line: string) => {
      log.push(JSON.parse(line))
    }
  }
  const app = Fastify({ ...serverOptions(settings), logger: { level: 'info', stream } })
  await app.register(async scope => {
    await scope.register(holdfast, { settings })
  }, { prefix })
  t.teardown(() => {
    app.server.closeAllConnections()
    app.server.close()
    return app.close()
  })
  const url = await app.listen(path === undefined ? { port: 0, host: '127.0.0.1' } : { path })
  return {
    app,
    url,
    log,
    reasons: () => log.filter(line => line.msg === 'request refused').map(({ reason }) => reason)
  }
}

/** One request over TLS and HTTP/1.1, with the path as it is. */
export function sendTls (
  site: Site,
  target: string,
  htu = site.origin + target,
  extra: Record<string, string> = {}
): Promise<Answer> {
  const before = site.running.reasons().length
  return new Promise((resolve, reject) => {
    const url = new URL(site.origin)
    const options = {
      host: url.hostname,
      servername: url.hostname,
      port: url.port,
      path: target,
      ca: CA,
      agent: false,
      headers: { ...dpopHeaders(site, htu), ...extra }
    }
    request(options, response => {
      response.resume()
      response.on('end', () => resolve(answerOf(site, before, response.statusCode!)))
    }).on('error', reject).end()
  })
}

/** The same over HTTP/2, all requests on one connection, in order. */
export async function sendHttp2 (
  site: Site,
  requests: Array<{ target: string, htu?: string, extra?: Record<string, string> }>
): Promise<Answer[]> {
  const session = connect(site.origin, { ca: CA })
  const answers: Answer[] = []
  for (const { target, htu = site.origin + target, extra = {} } of requests) {
    const before = site.running.reasons().length
    const stream = session.request({ ':path': target, ...dpopHeaders(site, htu), ...extra })
    const status = await new Promise<number>((resolve, reject) => {
      stream.on('response', headers => resolve(headers[':status']!))
      stream.on('error', reject)
    })
    stream.resume()
    answers.push(answerOf(site, before, status))
  }
  await new Promise<void>(resolve => session.close(resolve))
  return answers
}

/** One request without credentials, over HTTP/1.1, with TLS or without. */
function get (
  url: string,
  headers: Record<string, string> = {}
): Promise<{ status: number, headers: IncomingHttpHeaders, body: string }> {
  return new Promise((resolve, reject) => {
    const ask = url.startsWith('https:') ? request : requestPlain
    ask(url, { ca: CA, agent: false, headers }, response => {
      let body = ''
      response.on('data', chunk => {
        body += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, body }))
    }).on('error', reject).end()
  })
}

/**
 * Where the challenges for a request without credentials say that the metadata of the resource is (RFC 9728 section
 * 5.1).
 */
export async function readPointers (url: string): Promise<Array<string | undefined>> {
  const { status, headers } = await get(url)
  if (status !== 401) throw new Error(`${url} was answered with ${status}`)
  return parseChallenges(headers['www-authenticate']!).map(({ parameters }) => parameters.resource_metadata)
}

/** The resource that the metadata at an address is about, or the status if there is none. */
export async function readResource (url: string, extra: Record<string, string> = {}): Promise<string | number> {
  const { status, body } = await get(url, extra)
  return status === 200 ? (JSON.parse(body) as { resource: string }).resource : status
}
