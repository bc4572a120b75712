import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { closeWith } from './listen.ts'

/** The self-signed certificate of a provider that speaks TLS: give it to a client as its authority. */
export const providerCertificate = readFileSync(new URL('../fixtures/provider.cert.pem', import.meta.url), 'utf8')

/** One way to answer. `requests` lists what was requested, whatever the answer. */
export type Behaviour = RequestListener

export const json = (document: unknown, status = 200): Behaviour => (_request, response) => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
}

export const text = (body: string, status = 200, type = 'application/json'): Behaviour => (_request, response) => {
  response.writeHead(status, { 'content-type': type }).end(body)
}

export const html = (status = 200): Behaviour =>
  text('<!doctype html><title>Down for maintenance</title>', status, 'text/html')

/** Takes the request and never answers. */
export const hang = (): Behaviour => () => {}

/** Starts an answer and never ends it: one byte now and then, so that no idle timeout fires. */
export const drip = (everyMs = 10): Behaviour => (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => response.write(' '), everyMs)
  response.on('close', () => clearInterval(timer))
}

/** Cuts the connection before an answer, or within one. */
export const reset = (): Behaviour => request => {
  request.socket.resetAndDestroy()
}

export const cutShort = (): Behaviour => (request, response) => {
  response.writeHead(200, { 'content-length': 1000 })
  response.write('{"keys":[', () => request.socket.destroy())
}

/** Sends without end, as fast as it is read; with `length`, it says first how much it would be. */
export const endless = (length?: number): Behaviour => (_request, response) => {
  response.writeHead(200, length === undefined ? {} : { 'content-length': length })
  const chunk = Buffer.alloc(64 * 1024, ' ')
  const more = () => {
    if (response.destroyed) return
    if (response.write(chunk)) setImmediate(more)
    else response.once('drain', more)
  }
  more()
}

let bomb: Buffer | undefined

/** A small body that says it is 32 MiB once decoded. */
export const gzipBomb = (): Behaviour => (_request, response) => {
  bomb ??= gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '))
  response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb)
}

export const redirect = (location: string, status = 302): Behaviour => (_request, response) => {
  response.writeHead(status, { location }).end()
}

export interface HostileProvider {
  /** Without a trailing slash. */
  url: string
  issuer: string
  jwksUri: string
  port: number
  /** Requested paths, in order. */
  requests: string[]
  /** How often the set was requested. */
  fetches: number
  connections: number
  discovery: Behaviour
  jwks: Behaviour
  /** What is at `/.well-known/jwks.json`. */
  fallback: Behaviour
  /** What is at other paths, by path. */
  others: Map<string, Behaviour>
  /** A good provider of these keys. */
  publish (...keys: object[]): void
  /** Nobody listens any more, and every connection is cut; `resume` listens on the same port again. */
  vanish (): Promise<void>
  resume (): Promise<void>
  close (): Promise<void>
}

export interface HostileProviderOptions {
  tls?: boolean
  /** Part of the issuer, such as `/realms/x`. */
  path?: string
  /** The name under which it is known; it listens on loopback whatever the name. */
  hostname?: string
  /** Where it listens; any free port by default. */
  port?: number
}

/**
 * A provider of keys in this process, on a real socket, that answers as the test says; at first as a good one without
 * keys.
 */
export async function startHostileProvider (options: HostileProviderOptions = {}): Promise<HostileProvider> {
  const { tls = false, path = '', hostname = tls ? 'localhost' : '127.0.0.1' } = options
  const sockets = new Set<Socket>()
  const requests: string[] = []
  let connections = 0
  let server: Server
  let { port = 0 } = options

  const listener: RequestListener = (request, response) => {
    requests.push(request.url!)
    if (request.url === `${path}/.well-known/openid-configuration`) provider.discovery(request, response)
    else if (request.url === `${path}/jwks`) provider.jwks(request, response)
    else if (request.url === `${path}/.well-known/jwks.json`) provider.fallback(request, response)
    else if (provider.others.has(request.url!)) provider.others.get(request.url!)!(request, response)
    else response.writeHead(404).end()
  }

  async function listen () {
    const key = tls ? readFileSync(new URL('../fixtures/provider.key.pem', import.meta.url), 'utf8') : ''
    server = tls ? createHttpsServer({ key, cert: providerCertificate }, listener) : createHttpServer(listener)
    server.on('connection', socket => {
      connections++
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    server.listen(port, tls ? 'localhost' : '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  }

  async function vanish () {
    if (server.listening) await closeWith(server, sockets)
  }

  await listen()
  const url = `${tls ? 'https' : 'http'}://${hostname}:${port}`
  const issuer = `${url}${path}/`
  const jwksUri = `${url}${path}/jwks`
  const provider: HostileProvider = {
    url,
    issuer,
    jwksUri,
    port,
    requests,
    get fetches () {
      return requests.filter(asked => asked.endsWith('jwks') || asked.endsWith('jwks.json')).length
    },
    get connections () {
      return connections
    },
    discovery: json({ issuer, jwks_uri: jwksUri }),
    jwks: json({ keys: [] }),
    fallback: json({ keys: [] }, 404),
    others: new Map(),
    publish (...keys) {
      provider.discovery = json({ issuer, jwks_uri: jwksUri })
      provider.jwks = json({ keys })
    },
    vanish,
    resume: listen,
    close: vanish
  }
  return provider
}
