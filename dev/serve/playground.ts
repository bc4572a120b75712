import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Settings } from '../../lib/settings/settings.ts'
import { explainExchange } from './explanation.ts'
import { listen, stop } from '../provider/listen.ts'
import { root } from '../../cli/places.ts'
import type { LocalProvider } from '../provider/provider.ts'
import { openProviderKeys } from '../../cli/provider-keys.ts'
import { PERMISSIONS } from '../provider/tenant-configuration.ts'

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
  /** Those of the API, to explain its answers by. */
  settings: Settings
}

export interface Playground {
  readonly url: string
  close (): Promise<void>
}

/** Serves the page on an origin of its own: every call that it makes is cross-origin, as in real life. */
export async function startPlayground ({ port, api, provider, settings }: PlaygroundOptions): Promise<Playground> {
  const { issuer, audience, browserClientId: clientId } = provider
  const keys = openProviderKeys(settings, () => {})
  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => send(response, 500, 'text/plain', error.message))
  })
  const url = `http://localhost:${await listen(server, port)}`
  const config = JSON.stringify({ api, issuer, audience, clientId, redirectUri: `${url}/`, permissions: PERMISSIONS })
  const policy = `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${api} ${issuer}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
  return { url, close }

  async function close (): Promise<void> {
    await stop(server)
    await keys?.close()
  }

  async function answer (request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('content-security-policy', policy)
    response.setHeader('x-content-type-options', 'nosniff')
    response.setHeader('referrer-policy', 'no-referrer')
    response.setHeader('cache-control', 'no-store')
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    if (path === '/explain' && request.method === 'POST') return explain(request, response)
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, 'text/plain', 'GET only')
    if (path === '/config.json') return send(response, 200, 'application/json', config)
    const file = fileFor(path)
    const content = file === undefined ? undefined : await readFile(file).catch(() => undefined)
    if (file === undefined || content === undefined) return send(response, 404, 'text/plain', 'not here')
    send(response, 200, TYPES[file.slice(file.lastIndexOf('.') + 1)] ?? 'text/plain', content)
  }

  async function explain (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request)
    if (text === undefined) {
      response.setHeader('connection', 'close')
      return send(response, 413, 'application/json', JSON.stringify({ checks: [], notes: ['That is more than 1 MiB.'] }))
    }
    send(response, 200, 'application/json', JSON.stringify(await explainExchange(parse(text), settings, keys)))
  }
}

/** The few files that there are; the library comes from node_modules as it is. */
function fileFor (path: string): string | undefined {
  if (path === '/vendor/oauth4webapi.js') return fileURLToPath(import.meta.resolve('oauth4webapi'))
  if (path === '/') return join(root, 'dev', 'playground', 'index.html')
  return /^\/[a-z]+\.(?:js|css)$/.test(path) ? join(root, 'dev', 'playground', path) : undefined
}

/** Undefined where there is more than we read. What is sent beyond is let through unread, so that the answer arrives. */
async function readText (request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  return new Promise((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= MAX_BYTES) chunks.push(chunk)
      else resolve(undefined)
    })
    request.once('end', () => resolve(Buffer.concat(chunks).toString()))
    request.once('error', reject)
  })
}

function parse (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function send (response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
}
