import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyPairSync } from 'node:crypto'
import t, { type Test } from 'tap'
import { createAuthentication } from '../../lib/assembly/client-credentials.ts'
import { createClientKeys, parseProofHeader } from '../../lib/guard/dpop/client-keys.ts'
import { importPublicJwk } from '../../lib/guard/jose/public-key.ts'
import { createTransport } from '../../lib/guard/provider/transport.ts'
import type { IntrospectionSettings } from '../../lib/settings/settings.ts'
import { SettingsError } from '../../lib/base/settings-error.ts'
import { NONCE_LIFETIME_SECONDS } from '../../lib/guard/dpop/nonces.ts'
import { LATE_RECORD_SECONDS } from '../../lib/guard/replay/replay-store.ts'
import { LONGEST_BACK_OFF_MS } from '../../lib/guard/provider/fetch-loop.ts'
import { DEFAULT_MAX_ISSUERS } from '../../lib/guard/token/dynamic-issuers.ts'
import { createVerifiedTokens, type VerifiedToken } from '../../lib/guard/token/verified-tokens.ts'
import { MAX_MESSAGE_BYTES } from '../../lib/gate/message-body.ts'
import { MAX_EVENT_BYTES_OF_ADDRESS } from '../../lib/revocation/event-body.ts'
import { MAX_SET_BYTES } from '../../lib/revocation/security-event-token.ts'
import { LINGER_MS } from '../../server/connections.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { listen } from '../helpers/listen.ts'

// The sizes and times of docs/reference/security.md that no request reaches soon enough for a test of the whole
// service.

const tokenOf = (text: string) => ({ text }) as VerifiedToken

t.test('50,000 verified tokens are cached, and the one that was used longest ago makes room', async t => {
  const tokens = createVerifiedTokens()
  for (let n = 0; n < 50_000; n++) tokens.keep(tokenOf(`token ${n}`))
  t.equal(tokens.state().entries, 50_000)
  t.ok(tokens.get('token 0'), 'it is used again')
  for (let n = 50_000; n < 50_010; n++) tokens.keep(tokenOf(`token ${n}`))
  t.equal(tokens.state().entries, 50_000)
  t.ok(tokens.get('token 0'))
  t.strictSame([1, 10, 11].map(n => tokens.get(`token ${n}`) !== undefined), [false, false, true])
})

t.test('Verified tokens take at most 128 MiB, of which a character counts four bytes and a token 600', async t => {
  const perToken = 2 ** 20
  const size = (perToken - 600) / 4
  const tokens = createVerifiedTokens()
  const long = (name: number) => tokenOf('x'.repeat(size - 10) + String(name).padStart(10, '0'))
  for (let n = 0; n < 128; n++) tokens.keep(long(n))
  t.equal(tokens.state().entries, 128)
  tokens.keep(long(128))
  t.equal(tokens.state().entries, 128)
  t.equal(tokens.get(long(0).text), undefined, 'the first one has made room')
  t.ok(tokens.get(long(1).text))
})

t.test('20,000 keys of clients are cached, and then one is replaced in 15 ms', async t => {
  let nowMs = 0
  const keys = createClientKeys(['ES256'], { nowMs: () => nowMs })
  const { jwk } = await createDpopClient('ES256')
  const encoded = Buffer.from(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk })).toString('base64url')
  const header = parseProofHeader(encoded, ['ES256'])
  const key = importPublicJwk(header.jwk)!
  const keep = (name: number) => keys.keep(encoded, { ...header, jkt: String(name) }, key)
  const isKept = (name: number) => 'key' in keys.readHeader(encoded, String(name))
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
async function startServer (t: Test, answer: (response: import('node:http').ServerResponse) => void) {
  const server = createServer((_request, response) => answer(response))
  const port = await listen(t, server)
  return `http://127.0.0.1:${port}/`
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

t.test('The private key of this service for introspection has at most 64 KiB', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  const keyFile = join(t.testdir(), 'key.pem')
  const settings = { path: 'idp.introspection', auth: 'private_key_jwt', clientId: 'api', keyFile } as IntrospectionSettings
  // Text before a PEM is no part of it (RFC 7468 section 2).
  const write = (bytes: number) => writeFileSync(keyFile, ' '.repeat(bytes - pem.length - 1) + '\n' + pem)
  write(64 * 1024)
  t.type(await createAuthentication(() => 'https://idp.example/', settings, processSurroundings), 'function')
  write(64 * 1024 + 1)
  await t.rejects(createAuthentication(() => 'https://idp.example/', settings, processSurroundings), SettingsError)
})

t.test('The bounds that tests import to count in them are these', async t => {
  t.strictSame(
    [DEFAULT_MAX_ISSUERS, LATE_RECORD_SECONDS, LINGER_MS, LONGEST_BACK_OFF_MS, NONCE_LIFETIME_SECONDS],
    [5000, 5, 5000, 60_000, 300]
  )
  t.strictSame([MAX_EVENT_BYTES_OF_ADDRESS, MAX_MESSAGE_BYTES, MAX_SET_BYTES], [4 * 2 ** 20, 2 ** 20, 2 ** 16])
})
