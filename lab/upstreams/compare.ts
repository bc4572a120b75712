import { spawn, spawnSync } from 'node:child_process'
import { generateKeyPairSync, sign } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Fastify from 'fastify'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import { freePort } from '../../test/helpers/free-port.ts'

// Sends the same seeded requests to six servers directly and through a gate, and compares every answer: its status, its
// headers and its bytes, which say what of the request has arrived. With `observe` the gate would refuse most of them
// and only observes, and what it says is compared with what a gate refuses that enforces the same.
// Usage: compare.ts [requests] [seed] [observe]

const FOLDER = join(import.meta.dirname, 'servers')
const PACKAGES = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'holdfast', 'compare')
const AT_ONCE = 8
const PATIENCE_MS = 60_000

const [count = 20_000, seed = 1] = process.argv.slice(2, 4).map(Number)
const isObserving = process.argv[4] === 'observe'

const ISSUER = 'https://issuer.example/'
const AUDIENCE = 'https://api.example/'
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
function tokenFor (claims: object) {
  const payload = { iss: ISSUER, aud: AUDIENCE, sub: 'u', exp: 4e9, ...claims }
  const input = `${encode({ alg: 'RS256', kid: 'k' })}.${encode(payload)}`
  return `${input}.${sign('sha256', Buffer.from(input), privateKey).toString('base64url')}`
}
const GOOD = tokenFor({ scope: 'use' })
const CREDENTIALS = [GOOD, tokenFor({}), tokenFor({ exp: 1 }), tokenFor({ aud: 'other' }), `${GOOD}x`]
  .map(token => `Bearer ${token}`)
  .concat(['Basic eDp5', `DPoP ${GOOD}`, 'Bearer', ''])

const OPEN = [{ path: '/*', allow: 'anyone' }, { path: '/socket', allow: 'anyone', upgrade: true }]
/** Some paths have no rule. */
const GUARDED = [
  { path: '/orders/*', scope: 'use' },
  { path: '/a/*' },
  { path: '/v1/*', methods: ['GET', 'POST'], optional: true },
  { path: '/0/*', allow: 'anyone' },
  { path: '/%25/*', scope: 'other' }
]

const GO = process.env['GO'] ?? 'go'
const SERVERS: Record<string, readonly string[]> = {
  'node:http': [process.execPath, 'node.mjs'],
  Express: [process.execPath, 'express.mjs'],
  Fastify: [process.execPath, 'fastify.mjs'],
  'Flask under gunicorn': [
    'gunicorn', '-k', 'gthread', '--threads', '8', '-b', '127.0.0.1:$PORT', '--log-level', 'error', 'flask_app:app'
  ],
  'http.server of Python': ['/usr/bin/python3', 'plain.py'],
  'net/http of Go': [join(PACKAGES, 'go-upstream')]
}

function prepare () {
  mkdirSync(PACKAGES, { recursive: true })
  for (
    const [command, ...options] of [
      ['npm', 'install', '--no-audit', '--no-fund', '--prefix', PACKAGES, 'express@5'],
      [GO, 'build', '-o', join(PACKAGES, 'go-upstream'), join(FOLDER, 'go', 'main.go')]
    ] as const
  ) {
    const { status } = spawnSync(command, options, { stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) throw new Error(`${command} has failed`)
  }
}

async function start ([command, ...options]: readonly string[]) {
  const port = await freePort()
  const child = spawn(command!, options.map(option => option.replace('$PORT', String(port))), {
    cwd: FOLDER,
    env: { ...process.env, PORT: String(port), PACKAGES, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  const request = Buffer.from('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  for (let turn = 0; turn < 600; turn++) {
    if (await send(port, [request]).then(() => true, () => false)) return { port, child }
    await delay(50)
  }
  throw new Error(`${command} does not listen`)
}

/** A generator of numbers below 1 (mulberry32). */
function createRandom (state: number) {
  return () => {
    state = state + 0x6d2b79f5 | 0
    let t = Math.imul(state ^ state >>> 15, 1 | state)
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t
    return ((t ^ t >>> 14) >>> 0) / 2 ** 32
  }
}

const STATUSES = [200, 200, 200, 201, 204, 301, 304, 400, 401, 404, 409, 413, 418, 500, 503]
const METHODS = ['GET', 'GET', 'HEAD', 'POST', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const SEGMENTS = ['a', 'orders', 'A-b_c~d', '%C3%A4', 'x%20y', 'a:b@c', "!$&'()*+,=", '%25', 'v1', '0']
const VALUES = ['b', '', 'a, b', '"q"', 'x'.repeat(2000), 'a=b; c=d', '*/*', 'text/html;q=0.5']

/** The pieces of one request, as they are written. Each connection carries one. */
function requestOf (random: () => number) {
  const pick = <Value>(list: readonly Value[]) => list[Math.floor(random() * list.length)]!
  const isLikely = (share: number) => random() < share
  const method = pick(METHODS)
  const path = Array.from({ length: 1 + Math.floor(random() * 4) }, () => `/${pick(SEGMENTS)}`).join('')
  const size = pick([0, 0, 10, 1_000, 20_000, 200_000])
  const form = isLikely(0.3) ? '&chunked' : ''
  const target = `${path}?status=${pick(STATUSES)}&size=${size}${form}&q=%2F..%2f${Math.floor(random() * 1e6)}`
  const version = isLikely(0.05) ? '1.0' : '1.1'
  const upgrades = isLikely(0.15)
  const lines = [
    `${method} ${target} HTTP/${version}`,
    'Host: api.example',
    upgrades ? 'Connection: Upgrade, HTTP2-Settings, close' : 'Connection: close',
    ...(upgrades ? [`Upgrade: ${pick(['h2c', 'h2 c'])}`, 'HTTP2-Settings: AAMAAABk'] : []),
    `Accept: ${pick(VALUES)}`,
    ...(isObserving && isLikely(0.8) ? [`Authorization: ${pick(CREDENTIALS)}`] : []),
    ...(isLikely(0.3) ? [`X-Own: ${pick(VALUES)}`] : []),
    ...(isLikely(0.2) ? [`Cookie: ${pick(VALUES)}`] : [])
  ]
  const body = method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || isLikely(0.2)
    ? undefined
    : Buffer.alloc(pick([0, 1, 100, 5_000, 70_000, 300_000]), pick(['a', '\u0000', '\u00ff\r\n']), 'latin1')
  if (!body) return [Buffer.from(`${lines.join('\r\n')}\r\n\r\n`)]
  lines.push(`Content-Type: ${pick(['application/json', 'text/plain', 'application/octet-stream'])}`)
  if (version === '1.1' && isLikely(0.15)) lines.push('Expect: 100-continue')
  const isChunked = version === '1.1' && isLikely(0.3)
  lines.push(isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`)
  const half = Math.floor(body.length / 2)
  const parts = [body.subarray(0, half), body.subarray(half)].filter(({ length }) => length > 0)
  return [
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`),
    ...parts.flatMap(part =>
      isChunked ? [Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')] : [part]
    ),
    ...(isChunked ? [Buffer.from('0\r\n\r\n')] : [])
  ]
}

/** Sends a request on a connection of its own. Returns the bytes of its answer: Python's http.server may not end it. */
function send (port: number, pieces: readonly Buffer[]): Promise<Buffer> {
  const method = String(pieces[0]).split(' ', 1)[0]!
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect(port, '127.0.0.1', () => {
      for (const piece of pieces) socket.write(piece)
    })
    socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error(`no answer in ${PATIENCE_MS} ms`)))
    socket.on('data', chunk => {
      chunks.push(chunk)
      if (isWhole(Buffer.concat(chunks).toString('latin1'), method)) socket.destroy()
    }).on('error', reject).on('close', () => resolve(Buffer.concat(chunks)))
  })
}

/** Without interim answers. */
function finalOf (text: string): string {
  const end = text.indexOf('\r\n\r\n')
  return end >= 0 && /^HTTP\/1\.1 1\d\d /.test(text) ? finalOf(text.slice(end + 4)) : text
}

function isWhole (wire: string, method: string) {
  const text = finalOf(wire)
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return false
  const head = text.slice(0, end)
  if (method === 'HEAD' || /^HTTP\/1\.1 (?:204|304) /.test(head)) return true
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length - end - 4 >= Number(length)
}

const OF_CONNECTION = /^(?:date|server|connection|keep-alive|transfer-encoding|vary)$/
const STATED = 'content-length'

/** What counts of an answer: the same for each server and each way. */
function readAnswer (wire: Buffer, method: string) {
  const text = finalOf(wire.toString('latin1'))
  const end = text.indexOf('\r\n\r\n')
  const [status = '', ...lines] = text.slice(0, end).split('\r\n')
  const code = status.split(' ')[1]
  const headers = lines.map(line => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
  })
  const isChunked = headers.some(([name, value]) => name === 'transfer-encoding' && value === 'chunked')
  const hasBody = method !== 'HEAD' && code !== '204' && code !== '304'
  // A length that the server states for an answer without a body is its own affair.
  const kept = headers.filter(([name]) => !OF_CONNECTION.test(name) && name !== STATED)
    .map(header => header.join(': '))
    .sort()
  const body = text.slice(end + 4)
  return [code, ...kept, hasBody && isChunked ? unchunk(body) : body].join('\n')
}

function unchunk (text: string) {
  let [whole, at] = ['', 0]
  for (;;) {
    const end = text.indexOf('\r\n', at)
    const size = Number.parseInt(text.slice(at, end), 16)
    if (!(size > 0)) return size === 0 ? whole : `${whole}<broken off>`
    whole += text.slice(end + 2, end + 2 + size)
    at = end + 2 + size + 2
  }
}

/** A gate, and the reasons that it has logged, with their numbers. */
async function openGate (upstream: number, observe: string) {
  const keys = join(PACKAGES, 'keys.json')
  writeFileSync(keys, JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k' }] }))
  const settings = await readSettings({
    IDP_ISSUER: ISSUER,
    IDP_AUDIENCE: AUDIENCE,
    IDP_KEYS_FILE: keys,
    OBSERVE: observe,
    GATE: { upstream: `http://127.0.0.1:${upstream}`, rules: isObserving ? GUARDED : OPEN }
  })
  const reasons = new Map<string, number>()
  const stream = {
    write (line: string) {
      const { reason, route, msg } = JSON.parse(line) as Record<string, string>
      if (!msg?.startsWith('request ') || reason === undefined) return
      const key = `${reason} ${route}`
      reasons.set(key, (reasons.get(key) ?? 0) + 1)
    }
  }
  const gate = Fastify({ ...serverOptions(settings), logger: { level: 'info', stream } })
  await gate.register(holdfast, { settings })
  gate.memoryUsage = () => ({ eventLoopDelay: 0, rssBytes: 0, heapUsed: 0, eventLoopUtilized: 0 })
  await gate.listen({ port: 0, host: '127.0.0.1' })
  const close = async () => {
    gate.server.closeAllConnections()
    await gate.close()
  }
  return { port: (gate.server.address() as { port: number }).port, reasons, close }
}

async function compare (name: string, port: number, requests: number, random: () => number) {
  const gate = await openGate(port, isObserving ? new Date(Date.now() + 86_400_000).toISOString().slice(0, 10) : 'off')
  const enforcing = isObserving ? await openGate(port, 'off') : undefined
  let [sent, different, statuses] = [0, 0, new Map<string, number>()]
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (sent++ < requests) {
      const pieces = requestOf(random)
      const method = String(pieces[0]).split(' ', 1)[0]!
      const ports = [port, gate.port, ...enforcing ? [enforcing.port] : []]
      const [directly, through] = (await Promise.all(ports.map(to =>
        send(to, pieces).then(wire => readAnswer(wire, method), (error: Error) => `failed: ${error.message}`)
      ))) as [string, string]
      const status = directly.slice(0, 3)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (directly === through) continue
      if (++different > 3) continue
      const [sent, ...answers] = [String(pieces[0]).slice(0, 600), directly.slice(0, 500), through.slice(0, 500)]
      process.stdout.write(`${name}: ${sent}\n  directly: ${answers.join('\n  through: ')}\n`)
    }
  }))
  await gate.close()
  await enforcing?.close()
  if (enforcing) {
    const [observed, refused] = [gate, enforcing].map(({ reasons }) => JSON.stringify([...reasons].sort(), null, 1))
    const total = [...gate.reasons.values()].reduce((sum, value) => sum + value, 0)
    if (observed !== refused) different++
    const verdict = observed === refused ? 'as the other gate refuses' : `${observed}\nrefused ${refused}`
    process.stdout.write(`${name}: observed ${total}, ${verdict}\n`)
  }
  const answers = [...statuses].sort().map(entry => entry.join(' x ')).join(', ')
  process.stdout.write(`${name}: ${requests} requests, ${different} answers differ; ${answers}\n`)
  return different
}

prepare()
const random = createRandom(seed)
const share = Math.ceil(count / Object.keys(SERVERS).length)
let different = 0
for (const [name, command] of Object.entries(SERVERS)) {
  const { port, child } = await start(command)
  try {
    different += await compare(name, port, share, random)
  } finally {
    child.kill('SIGKILL')
  }
}
process.exitCode = different === 0 ? 0 : 1
