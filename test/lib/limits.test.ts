import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyPairSync } from 'node:crypto'
import t, { type Test } from 'tap'
import { createAuthentication } from '../../lib/assembly/client-credentials.ts'
import { createClientKeys, parseProofHeader } from '../../lib/guard/dpop/client-keys.ts'
import { importPublicJwk } from '../../lib/guard/jose/public-key.ts'
import { createTransport } from '../../lib/guard/provider/transport.ts'
import type { IntrospectionSettings } from '../../lib/settings/settings.ts'
import { SettingsError } from '../../lib/settings/problems.ts'
import { NONCE_ROTATION_SECONDS } from '../../lib/guard/dpop/nonces.ts'
import { LONGEST_BACK_OFF_MS } from '../../lib/guard/provider/fetch-loop.ts'
import { DEFAULT_MAX_ISSUERS } from '../../lib/guard/token/dynamic-issuers.ts'
import { createVerifiedTokens, type VerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { root } from '../helpers/documents.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'

// The sizes and times of docs/reference/security.md that no request reaches soon enough for a test of the whole
// service.

const tokenOf = (text: string): VerifiedToken => ({ text }) as VerifiedToken

t.test('50,000 verified tokens are cached, and the one that was used longest ago makes room', t => {
  const tokens = createVerifiedTokens()
  for (let n = 0; n < 50_000; n++) tokens.keep(tokenOf(`token ${n}`))
  t.equal(tokens.state().entries, 50_000)
  t.ok(tokens.get('token 0'), 'it is used again')
  for (let n = 50_000; n < 50_010; n++) tokens.keep(tokenOf(`token ${n}`))
  t.equal(tokens.state().entries, 50_000)
  t.ok(tokens.get('token 0'))
  t.strictSame([1, 10, 11].map(n => tokens.get(`token ${n}`) !== undefined), [false, false, true])
  t.end()
})

t.test('Verified tokens take at most 128 MiB, of which a character counts four bytes and a token 600', t => {
  const perToken = 2 ** 20
  const size = (perToken - 600) / 4
  const tokens = createVerifiedTokens()
  const long = (name: number): VerifiedToken => tokenOf('x'.repeat(size - 10) + String(name).padStart(10, '0'))
  for (let n = 0; n < 128; n++) tokens.keep(long(n))
  t.equal(tokens.state().entries, 128)
  tokens.keep(long(128))
  t.equal(tokens.state().entries, 128)
  t.equal(tokens.get(long(0).text), undefined, 'the first one has made room')
  t.ok(tokens.get(long(1).text))
  t.end()
})

t.test('20,000 keys of clients are cached, and then one is replaced in 15 ms', async t => {
  let nowMs = 0
  const keys = createClientKeys(['ES256'], { nowMs: () => nowMs })
  const { jwk } = await createDpopClient('ES256')
  const encoded = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk })).toString('base64url')
  const header = parseProofHeader(encoded, ['ES256'])
  const key = importPublicJwk(header.jwk)!
  const keep = (name: number): void => keys.keep(encoded, { ...header, jkt: String(name) }, key)
  const isKept = (name: number): boolean => 'key' in keys.readHeader(encoded, String(name))
  for (let n = 0; n < 20_000; n++) keep(n)
  t.strictSame([keys.state().entries, isKept(0), isKept(19_999)], [20_000, true, true])
  // Looked at, the first one is no longer the one that was used longest ago.
  for (
    const [ms, name, expected] of [[0, 20_000, true], [14, 20_001, false], [15, 20_002, true], [
      29,
      20_003,
      false
    ]] as const
  ) {
    nowMs = ms
    keep(name)
    t.equal(isKept(name), expected, `${name} after ${ms} ms`)
  }
  t.equal(keys.state().entries, 20_000)
  t.strictSame([isKept(0), isKept(1), isKept(2), isKept(3)], [true, false, false, true])
})

/** A provider on loopback that answers what the test says. */
async function startServer (t: Test, answer: (response: import('node:http').ServerResponse) => void): Promise<string> {
  const server = createServer((_request, response) => answer(response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

t.test('A provider has 5 s for a session, whatever it sends', async t => {
  const url = await startServer(t, response => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{')
  })
  const { setTimeout: set } = globalThis
  const timers: Array<{ ms: number | undefined, run: () => void }> = []
  globalThis.setTimeout = Object.assign((run: () => void, ms?: number) => {
    timers.push({ run, ms })
    return set(() => {}, 0)
  }, set) as unknown as typeof set
  t.teardown(() => {
    globalThis.setTimeout = set
  })
  const session = createTransport().open()
  globalThis.setTimeout = set
  t.strictSame(
    timers.map(({ ms, run: { name } }) => ({ ms, name })),
    [{ ms: 5000, name: 'close' }],
    'test/patience.js knows it by its name'
  )
  const asked = session.send(url)
  timers[0]!.run()
  await t.rejects(asked, { name: 'ProviderFailure', word: 'deadline' })
})

t.test('A document of a provider has at most 1 MiB, with or without a length', async t => {
  const MAX = 1024 * 1024
  for (const isSaid of [true, false]) {
    let bytes = MAX
    const url = await startServer(t, response => {
      response.writeHead(200, { 'content-type': 'application/json', ...isSaid && { 'content-length': bytes } })
      response.end(Buffer.alloc(bytes, ' '))
    })
    const session = createTransport().open()
    t.equal((await session.send(url)).body.length, MAX)
    bytes++
    await t.rejects(session.send(url), { name: 'ProviderFailure', word: 'too_large' })
    session.close()
  }
})

t.test('The private key of this service for introspection has at most 64 KiB', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  const keyFile = join(t.testdir(), 'key.pem')
  const settings = { auth: 'private_key_jwt', clientId: 'api', keyFile } as IntrospectionSettings
  // Text before a PEM is no part of it (RFC 7468 section 2).
  const write = (bytes: number): void => writeFileSync(keyFile, ' '.repeat(bytes - pem.length - 1) + '\n' + pem)
  write(64 * 1024)
  t.type(await createAuthentication(() => 'https://idp.example/', settings, processSurroundings), 'function')
  write(64 * 1024 + 1)
  await t.rejects(createAuthentication(() => 'https://idp.example/', settings, processSurroundings), SettingsError)
})

/** The numbers that tests import from the sources: a test that counts in them passes whatever they are. */
async function importedNumbers (): Promise<Record<string, number>> {
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter(file =>
    file.endsWith('.ts')
  )
  const found: Record<string, number> = {}
  for (const file of tests) {
    const imports = readFileSync(join(root, 'test', file), 'utf8').matchAll(
      /^import \{([^}]*)\} from '(?:\.\.\/)+((?:cli|explain|lib|packages|plugins|routes|server)\/[\w./-]+)'$/gm
    )
    for (const [, names, source] of imports) {
      for (const [name] of names!.matchAll(/\b[A-Z][A-Z\d_]+\b/g)) {
        const value = (await import(`../../${source}`) as Record<string, unknown>)[name]
        if (typeof value === 'number') found[name] = value
      }
    }
  }
  return found
}

t.test('The bounds that tests import to count in them are these', async t => {
  const bounds = { ...await importedNumbers(), DEFAULT_MAX_ISSUERS, LONGEST_BACK_OFF_MS, NONCE_ROTATION_SECONDS }
  t.strictSame(bounds, {
    ANSWERS_OF_TURN: 16,
    DEFAULT_MAX_ISSUERS: 5000,
    LATE_RECORD_SECONDS: 5,
    LINGER_MS: 5000,
    LONGEST_BACK_OFF_MS: 60_000,
    MAX_ADDRESS_BYTES: 16 * 1024 * 1024,
    MAX_CALLER_BYTES: 8 * 1024 * 1024,
    MAX_CLIENTS: 50_000,
    MAX_CONNECTIONS: 10_000,
    MAX_EVENT_LOOP_DELAY_MS: 500,
    MAX_EVENT_BYTES: 16 * 1024 * 1024,
    MAX_EVENT_BYTES_OF_ADDRESS: 4 * 1024 * 1024,
    MAX_HELD_BYTES: 64 * 1024 * 1024,
    MAX_LIST_BYTES: 1024 * 1024,
    MAX_MESSAGE_BYTES: 1024 * 1024,
    MAX_SET_BYTES: 64 * 1024,
    MAX_WAITING: 32,
    MAX_WAITING_BYTES: 32 * 1024 * 1024,
    NONCE_LIFETIME_SECONDS: 300,
    NONCE_ROTATION_SECONDS: 60,
    RETRY_AFTER_SECONDS: 3,
    SAMPLE_MS: 3000,
    TEXT_MAX_AGE_MS: 1000,
    WINDOW_MS: 60_000
  })
})
