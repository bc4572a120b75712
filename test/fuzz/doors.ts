import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, METHODS, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify from 'fastify'
import { createGuard } from '../../packages/holdfast/guard.ts'
import holdfast from '../../packages/holdfast/index.ts'
import type { RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { kTestDoubles, processSurroundings } from '../../server/surroundings.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { ALGS, KEY_SET } from './keys.ts'
import { MUTATIONS } from './mutations.ts'
import {
  AUDIENCE,
  currentNonce,
  goodParts,
  ISSUER,
  make,
  PUBLIC_URL,
  SITES,
  type Site,
  type WireRequest
} from './parts.ts'
import { createRandom } from './random.ts'

/** The guard behind two doors: the plugin in Fastify, and `createGuard` in node:http. */

const REQUIREMENTS: readonly RequirementOptions[] = [
  {},
  { scope: 'read:orders' },
  { optional: true },
  { acr: 'gold', maxAgeSeconds: 60 },
  { claims: { sub: 'user' } },
  { claims: { sub: 'another' } }
]
const SETTINGS: Record<Site, object> = {
  http: {},
  https: { server: { trustProxy: 'loopback' } },
  public: { server: { publicUrl: PUBLIC_URL } },
  nonce: { dpop: { nonce: 'required' } },
  required: { idp: { dpopMode: 'REQUIRED' } }
}
const START = Date.UTC(2026, 0, 1) / 1000
/** Set by Node for each answer, or by how the body was written. */
const OF_NODE = /^(?:date|connection|keep-alive|content-length|transfer-encoding): /i

interface Door {
  port: number
  /** How many requests have come through Node's parser. */
  arrived: () => number
  close (): Promise<void>
}

export async function openDoors (seed: number) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-doors-'))
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify(KEY_SET))
  let now = START
  // The same nonces at both doors.
  const surroundings = {
    ...processSurroundings,
    now: () => now,
    steadyMs: () => now * 1000,
    randomBytes: (size: number) => Buffer.alloc(size, 7)
  }
  const optionsOf = (site: Site) => {
    const { idp, dpop, ...more } = SETTINGS[site] as { idp?: object, dpop?: object }
    return {
      idp: { issuer: ISSUER, audience: AUDIENCE, keysFile, algs: ALGS, ...idp },
      dpop: { algs: ALGS, ...dpop },
      ...more,
      [kTestDoubles]: { surroundings, revocations: new Set() }
    } as object
  }
  const doors = new Map<Site, readonly [Door, Door]>()
  for (const site of SITES) {
    const plugin = await openPlugin(optionsOf(site))
    if (site === 'nonce') currentNonce.text = plugin.nonce()!
    doors.set(site, [plugin, await openGuard(optionsOf(site))])
  }

  async function judge (request: WireRequest, requirement: number) {
    const both = doors.get(request.site)!
    const before = both.map(({ arrived }) => arrived())
    const [plugin, guard] = await Promise.all(both.map(({ port }) => send(port, request, requirement)))
    if (both.every(({ arrived }, at) => arrived() === before[at])) return { request, status: undefined }
    const status = Number(guard!.slice(0, 3))
    if (plugin !== guard) return { request, status, fault: [plugin!, guard!] }
    const misformed = formFault(plugin!, request.method === 'HEAD')
    return misformed === undefined ? { request, status } : { request, status, fault: [plugin!, misformed] }
  }

  return {
    /** Sends a request of the seed, and one of three again. */
    async run (number: number) {
      const random = createRandom(seed, number)
      now = START + Math.floor(number / 1000)
      const parts = goodParts(random, now, `jti-${number}`)
      const count = random.among([0, 0, 1, 1, 1, 1, 1, 2])
      for (let left = count; left > 0; left--) random.among(MUTATIONS).apply(parts, random)
      const { wire } = make(parts)
      const requirement = random.below(REQUIREMENTS.length)
      const found = [await judge(wire, requirement)]
      if (random.oneIn(3)) found.push(await judge(wire, requirement))
      return found
    },
    async close () {
      for (const both of doors.values()) await Promise.all(both.map(door => door.close()))
      rmSync(folder, { recursive: true })
    }
  }
}

const ERRORS: ReadonlySet<unknown> = new Set(Object.values(REFUSALS).map(({ error }) => error))
const DESCRIPTIONS: ReadonlySet<unknown> = new Set(Object.values(REFUSALS).map(({ description }) => description))
/** Every header that a refusal may have, and all that it may hold: no byte of a request fits in. */
const HEADERS: Record<string, RegExp> = {
  'cache-control': /^no-store$/,
  'content-type': /^application\/json; charset=utf-8$/,
  'dpop-nonce': /^[\w-]{20,60}$/,
  'www-authenticate': /^(?:Bearer|DPoP)/
}

function formFault (answer: string, isHead: boolean) {
  const lines = answer.split('\n')
  const [status, body = ''] = [lines.shift(), lines.pop()]
  if (status === '200') return undefined
  if (!['400', '401', '403'].includes(status!)) return 'the status'
  const headers = new Map(lines.map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
  if (headers.size !== lines.length) return 'a header appears twice'
  for (const [name, value] of headers) if (!HEADERS[name]?.test(value)) return `the header ${name}`
  const challenge = headers.get('www-authenticate')
  if ((status === '400') !== (challenge === undefined)) return 'the challenge'
  for (const { scheme, parameters } of challenge === undefined ? [] : parseChallenges(challenge)) {
    const { algs, error, error_description: description, ...rest } = parameters
    if (algs !== (scheme === 'DPoP' ? ALGS.join(' ') : undefined)) return 'the algorithms'
    if (Object.keys(rest).some(name => !/^(?:scope|acr_values|max_age)$/.test(name))) return 'a parameter'
    if (error !== undefined && !(ERRORS.has(error) && DESCRIPTIONS.has(description))) return 'the error'
  }
  if (isHead) return body === '' ? undefined : 'a body of HEAD'
  const { statusCode, error, message, ...rest } = JSON.parse(body)
  const isWhole = statusCode === Number(status) && typeof error === 'string' && typeof message === 'string'
  return isWhole && Object.keys(rest).length === 0 ? undefined : 'the body'
}

const ignore = () => {}
const SILENT = { info: ignore, warn: ignore, error: ignore, debug: ignore }

/** The number of its requirement is a header, which neither guard reads. */
const asked = ({ headers }: IncomingMessage) => Number(headers['x-requirement'])

async function openPlugin (options: object) {
  let count = 0
  const app = Fastify({
    exposeHeadRoutes: false,
    // Any target leads to the route: the router of Fastify is not what is compared.
    rewriteUrl (request) {
      count++
      return `/${asked(request)}`
    }
  })
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method)
  await app.register(holdfast, options)
  const { parts } = app.holdfastGuard
  for (const [index, requirement] of REQUIREMENTS.entries()) {
    app.all(`/${index}`, { onRequest: app.require(requirement) }, request => ({ sub: request.user?.sub ?? null }))
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    port: (app.server.address() as AddressInfo).port,
    arrived: () => count,
    nonce: () => parts.nonces?.current(START),
    close: () => app.close()
  }
}

async function openGuard (options: object) {
  let count = 0
  const guard = await createGuard({ ...options, logger: SILENT } as Parameters<typeof createGuard>[0])
  async function answer (request: IncomingMessage, response: ServerResponse) {
    const verdict = await guard.check(request, REQUIREMENTS[asked(request)])
    if (!verdict.admitted) {
      response.writeHead(verdict.status, verdict.headers).end(verdict.body)
      return
    }
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', ...verdict.headers })
    response.end(JSON.stringify({ sub: verdict.user?.sub ?? null }))
  }
  const server = createServer((request, response) => {
    count++
    answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    arrived: () => count,
    close: async () => {
      server.closeAllConnections()
      await Promise.all([guard.close(), new Promise(resolve => server.close(resolve))])
    }
  }
}

/** Status, headers in order of their names, and body. */
function send (port: number, { method, target, rawHeaders, site }: WireRequest, requirement: number): Promise<string> {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    `X-Requirement: ${requirement}`,
    'Connection: close',
    // Fastify answers QUERY without it by 400.
    'Content-Type: text/plain',
    'Content-Length: 0'
  ]
  if (site === 'https') lines.push('X-Forwarded-Proto: https')
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`)
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1').setEncoding('latin1')
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', reject)
    socket.on('close', () => {
      const [head = '', body = ''] = text.split('\r\n\r\n')
      const [status = '', ...headers] = head.split('\r\n')
      const kept = headers.filter(line => !OF_NODE.test(line)).map(line => line.replace(/^[^:]+/, name => name.toLowerCase()))
      resolve([status.slice(9, 12), ...kept.sort(), body.replace(/^[0-9a-f]+\r\n|\r\n0$/g, '')].join('\n'))
    })
    socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  })
}
