import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { explainExchange } from './explanation.ts'
import type { ExplanationSettings } from './explanation.ts'
import { listen, stop } from './listen.ts'
import { root } from './places.ts'
import type { LocalProvider } from './provider.ts'
import { PERMISSIONS } from './tenant-configuration.ts'

const MAX_BYTES = 1024 * 1024

const TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8'
}

export interface PlaygroundOptions {
  port: number
  /** Where the API listens. */
  api: string
  provider: LocalProvider
  /** What the explanations go by. */
  settings: ExplanationSettings
}

export interface Playground {
  readonly url: string
  close (): Promise<void>
}

/** Serves the page on an origin of its own: every call that it makes is cross-origin, as in real life. */
export async function startPlayground ({ port, api, provider, settings }: PlaygroundOptions): Promise<Playground> {
  const { issuer, audience, browserClientId: clientId } = provider
  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => send(response, 500, 'text/plain', error.message))
  })
  const url = `http://localhost:${await listen(server, port)}`
  const config = JSON.stringify({ api, issuer, audience, clientId, redirectUri: `${url}/`, permissions: PERMISSIONS })
  const policy = `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${api} ${issuer}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
  return { url, close: () => stop(server) }

  async function answer (request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('content-security-policy', policy)
    response.setHeader('x-content-type-options', 'nosniff')
    response.setHeader('referrer-policy', 'no-referrer')
    response.setHeader('cache-control', 'no-store')
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    if (path === '/explain' && request.method === 'POST') return send(response, 200, 'application/json', JSON.stringify(await explainExchange(await readJson(request), settings)))
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, 'text/plain', 'GET only')
    if (path === '/config.json') return send(response, 200, 'application/json', config)
    const file = fileFor(path)
    const content = file === undefined ? undefined : await readFile(file).catch(() => undefined)
    if (file === undefined || content === undefined) return send(response, 404, 'text/plain', 'not here')
    send(response, 200, TYPES[file.slice(file.lastIndexOf('.') + 1)] ?? 'text/plain', content)
  }
}

/** The few files that there are; the library comes from node_modules as it is. */
function fileFor (path: string): string | undefined {
  if (path === '/vendor/oauth4webapi.js') return fileURLToPath(import.meta.resolve('oauth4webapi'))
  if (path === '/') return join(root, 'dev', 'playground', 'index.html')
  return /^\/[a-z]+\.(?:js|css)$/.test(path) ? join(root, 'dev', 'playground', path) : undefined
}

async function readJson (request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) return undefined
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    return undefined
  }
}

function send (response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
}
