import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomUUID, type KeyObject } from 'node:crypto'
import { appendFileSync, cpSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { calculateJwkThumbprint, exportJWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { nowSeconds } from '../helpers/clock.ts'
import { startApp } from '../helpers/app.ts'
import { startLine } from '../helpers/command-line.ts'
import { root } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { isListening } from '../helpers/programs.ts'
import { FOLDER, pathIn, services, type Service } from '../../lab/upstreams/services.ts'
import { listen } from '../helpers/listen.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/**
 * The services of examples/upstreams behind a gate, by the command lines at their tops. Those that CI does not install:
 * `npm run test:upstreams`.
 */

t.setTimeout(600_000)
// They mostly wait for the pause between two readings of the keys.
t.jobs = 4
/** Where lab/upstreams/main.ts has installed all of them. */
const installed = process.env['UPSTREAM_PROGRAMS']
const ISSUER = 'https://gate.example'
const BURST = 40

interface Site {
  /** The service itself, past the gate. */
  direct: string
  gate: string
  provider: string
  token: string
  /** How often the list of keys was read. */
  reads (): number
  /** Whether the list can be read. */
  setReadable (value: boolean): void
  publish (key: KeyObject): Promise<void>
  /** A statement about GET /orders/7, but for these claims. */
  statement (claims?: object, header?: object, key?: KeyObject): Promise<string>
}

interface Answer {
  status: number
  body: string
}

async function send (url: string, statement: string | undefined, init: RequestInit = {}) {
  const response = await fetch(url, {
    ...init,
    headers: { ...init.headers as object, ...statement !== undefined && { 'x-auth-statement': statement } }
  })
  return { status: response.status, body: await response.text() }
}

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey

async function publicJwk (key: KeyObject) {
  const { kty, crv, x, y } = await exportJWK(key)
  return {
    kty,
    crv,
    x,
    y,
    kid: await calculateJwkThumbprint({ kty, crv, x, y } as never),
    alg: 'ES256',
    use: 'sig'
  } as { kid: string }
}

/** Where this service is installed. */
function folderOf (t: Test, { folder }: Service) {
  if (installed !== undefined) return join(installed, folder)
  const parent = temporaryFolder(t, 'upstream')
  const copy = join(parent, folder)
  cpSync(join(FOLDER, folder), copy, { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir')
  return copy
}

async function openSite (t: Test, folder: string, start: string): Promise<Site> {
  const port = await freePort()
  const direct = `http://127.0.0.1:${port}`
  const key = newKey()
  const statementKey = join(t.testdir(), 'statement.pem')
  writeFileSync(statementKey, key.export({ format: 'pem', type: 'pkcs8' }))
  const issuer = await startIssuer(t)
  const rules = [{ path: '/orders/:name' }, { path: '/orders/open', allow: 'anyone' }]
  const { url: gate } = await startApp(t, issuer, {
    GATE: { upstream: direct, statementKey, rules },
    PUBLIC_URL: ISSUER
  })

  const published: object[] = []
  let [reads, isReadable] = [0, true]
  const list = createServer(async (_request, response) => {
    reads++
    const { keys } = await (await fetch(`${gate}/.well-known/holdfast-jwks.json`)).json() as { keys: object[] }
    response.writeHead(isReadable ? 200 : 500, { 'content-type': 'application/json' }).end(
      JSON.stringify({ keys: [...keys, ...published] })
    )
  })
  const listPort = await listen(t, list)

  const keysUrl = `http://127.0.0.1:${listPort}/.well-known/holdfast-jwks.json`
  const environment = {
    PATH: pathIn(folder),
    STATEMENT_ISSUER: ISSUER,
    STATEMENT_AUDIENCE: direct,
    STATEMENT_KEYS: keysUrl
  }
  const program = startLine(t, folder, start.replace('3000', String(port)), environment)
  const ended = program.ended.then(() => true)
  while (!await isListening(port)) {
    if (await Promise.race([ended, delay(50)])) throw new Error(`${start} has ended: ${program.output()}`)
  }
  return {
    direct,
    gate,
    provider: issuer.url,
    token: issuer.token({ sub: 'user-1' }),
    reads: () => reads,
    setReadable (value) {
      isReadable = value
    },
    async publish (key) {
      published.push(await publicJwk(key))
    },
    async statement (claims = {}, header = {}, by = key) {
      const now = nowSeconds()
      const good = {
        iss: ISSUER,
        aud: direct,
        sub: 'user-1',
        sub_id: { format: 'iss_sub', iss: issuer.url, sub: 'user-1' },
        scope: '',
        method: 'GET',
        path: '/orders/7',
        iat: now,
        exp: now + 60,
        jti: randomUUID()
      }
      return new SignJWT({ ...good, ...claims }).setProtectedHeader({
        alg: 'ES256',
        typ: 'JWT',
        kid: (await publicJwk(by)).kid,
        ...header
      }).sign(by)
    }
  }
}

/** Each with what the application takes for the name of the order. */
const PATHS: ReadonlyArray<readonly [target: string, order: string]> = [
  ['/orders/7', '7'],
  ['/orders/7?page=2&next=%2Forders%2F8', '7'],
  ['/orders/caf%C3%A9', 'café'],
  ['/orders/caf%c3%a9', 'café'],
  ['/orders/%37', '7'],
  ['/orders/a%7Eb', 'a~b'],
  ['/orders/two%20words', 'two words'],
  ['/orders/a+b', 'a+b'],
  ['/orders/100%25', '100%'],
  ['/orders/%2537', '%37']
]

async function throughTheGate (t: Test, { gate, provider, token }: Site) {
  const headers = { authorization: `Bearer ${token}` }
  for (const [target, order] of PATHS) {
    const { status, body } = await send(gate + target, undefined, { headers })
    t.strictSame({ status, ...status === 200 && JSON.parse(body) }, {
      status: 200,
      issuer: provider,
      subject: 'user-1',
      method: 'GET',
      order
    }, target)
  }
  const { status, body } = await send(`${gate}/orders/7`, undefined, { method: 'POST', headers })
  t.strictSame({ status, ...status === 200 && JSON.parse(body) }, {
    status: 200,
    issuer: provider,
    subject: 'user-1',
    method: 'POST',
    order: '7'
  }, 'POST')
  t.equal((await send(`${gate}/orders/open`, undefined)).status, 401, 'for anyone the statement is empty')
}

async function pastTheGate (t: Test, { direct, provider, statement }: Site) {
  const orders = `${direct}/orders/`
  const now = nowSeconds()
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const [head, payload, signature] = (await statement()).split('.') as [string, string, string]
  const good = await send(`${orders}7`, await statement())
  t.strictSame({ status: good.status, body: JSON.parse(good.body) }, {
    status: 200,
    body: { issuer: provider, subject: 'user-1', method: 'GET', order: '7' }
  }, 'the twin')
  const other = await send(
    `${orders}7`,
    await statement({ sub_id: { format: 'iss_sub', iss: 'https://other.example', sub: 'user-1' } })
  )
  t.hasStrict(
    JSON.parse(other.body),
    { issuer: 'https://other.example', subject: 'user-1' },
    'the same subject of another issuer is somebody else'
  )
  t.equal(
    (await send(`${orders}7`, await statement({ iat: nowSeconds() + 2, exp: nowSeconds() - 2 }))).status,
    200,
    'clocks may differ by a few seconds'
  )

  const forged: ReadonlyArray<readonly [title: string, statement: string | undefined]> = [
    ['no statement', undefined],
    ['an empty one', ''],
    ['what is no JWT', 'abc'],
    [
      'without a signature',
      `${encoded({ alg: 'none', kid: JSON.parse(Buffer.from(head, 'base64url').toString()).kid })}.${payload}.`
    ],
    ['with a signature of nothing', `${head}.${payload}.`],
    [
      'changed after signing',
      `${head}.${encoded({ ...JSON.parse(Buffer.from(payload, 'base64url').toString()), sub_id: { iss: provider, sub: 'root' } })}.${signature}`
    ],
    [
      'by another key under the same name',
      await statement({}, { kid: JSON.parse(Buffer.from(head, 'base64url').toString()).kid }, newKey())
    ],
    ['by a key that is not published', await statement({}, {}, newKey())],
    ['of another issuer', await statement({ iss: 'https://evil.example' })],
    ['without an issuer', await statement({ iss: undefined })],
    ['for another audience', await statement({ aud: 'http://127.0.0.1:1' })],
    ['without an audience', await statement({ aud: undefined })],
    ['expired', await statement({ exp: now - 30 })],
    ['that never expires', await statement({ exp: undefined })],
    ['about another method', await statement({ method: 'POST' })],
    ['about no method', await statement({ method: undefined })],
    ['about another path', await statement({ path: '/orders/8' })],
    ['about no path', await statement({ path: undefined })],
    ['that says not whose subject it is', await statement({ sub_id: undefined })]
  ]
  for (const [title, statement] of forged) t.equal((await send(`${orders}7`, statement)).status, 401, title)

  const escaped = await statement({ path: '/orders/caf%C3%A9' })
  t.equal((await send(`${orders}caf%C3%A9`, escaped)).status, 200, 'a path with escapes')
  t.equal((await send(`${orders}caf%c3%a9`, escaped)).status, 401, 'the same path written in another way')
  t.equal((await send(`${orders}%37`, await statement())).status, 401, 'a path that is the same when it is decoded')
  t.equal(
    (await send(`${orders}caf%C3%A9`, await statement({ path: '/orders/café' }))).status,
    401,
    'a statement about the decoded path'
  )

  const form = { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: '_method=GET' }
  const overridden = await send(`${orders}7`, await statement({ method: 'POST' }), form)
  t.ok(
    overridden.status === 401 || JSON.parse(overridden.body).method === 'POST',
    'a form does not turn one method into another'
  )
}

async function keys (t: Test, { direct, reads, setReadable, publish, statement }: Site) {
  const url = `${direct}/orders/7`
  const before = reads()
  const unknown = await Promise.all(
    Array.from({ length: BURST }, async () => send(url, await statement({}, { kid: randomUUID() })))
  )
  t.strictSame(unknown.filter(({ status }) => status !== 401), [], 'unknown keys are refused')
  t.ok(reads() - before < BURST / 4, `${BURST} unknown keys had the list read ${reads() - before} times`)

  const next = newKey()
  await publish(next)
  let answer: Answer
  while ((answer = await send(url, await statement({}, {}, next))).status === 401) await delay(200)
  t.equal(answer.status, 200, 'a new key is found without a restart')

  setReadable(false)
  t.equal((await send(url, await statement())).status, 200, 'known keys stay while the list cannot be read')
  const last = reads()
  const statuses = new Set<number>()
  while (reads() === last) {
    statuses.add((await send(url, await statement({}, { kid: randomUUID() }))).status)
    await delay(200)
  }
  t.notOk(statuses.has(200), 'an unknown key is refused then')
}

for (const service of services.filter(({ isInCi }) => isInCi || installed !== undefined)) {
  const { framework, install, starts } = service
  for (const start of starts) {
    const server = start.replace(/^\w+=\S+ /, '').split(' ', 1)[0]!
    const isThere = installed !== undefined || spawnSync('bash', ['-c', `command -v ${server}`]).status === 0
    const title = starts.length === 1 ? framework : `${framework}, by ${server}`
    t.test(title, { buffered: true, skip: !isThere && `${install} (or Debian's packages)` }, async t => {
      const site = await openSite(t, folderOf(t, service), start)
      await t.test('accepts what comes through the gate, on its path as it was sent', t => throughTheGate(t, site))
      await t.test('refuses whatever the gate has not stated', t => pastTheGate(t, site))
      await t.test('reads the keys again, but not for each unknown one', t => keys(t, site))
      if (process.env['UPSTREAM_TABLE'] !== undefined) {
        appendFileSync(process.env['UPSTREAM_TABLE'], `${title}: ${t.passing() ? 'passed' : 'FAILED'}\n`)
      }
    })
  }
}
