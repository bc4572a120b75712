import { generateKeyPairSync, randomBytes, verify, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { exactly } from '../../helpers/containing.ts'
import {
  createClientAuthentication,
  parseClientKey,
  type ClientCredentials
} from '../../../lib/guard/provider/client-authentication.ts'
import { createEndpoint } from '../../../lib/guard/introspection/endpoint.ts'
import {
  createIntrospector,
  isOfOneToken,
  type Introspector,
  type IntrospectorOptions
} from '../../../lib/guard/introspection/introspector.ts'
import { Clock } from '../../helpers/clock.ts'
import { createDiscovery } from '../../../lib/guard/provider/provider-document.ts'
import { ALGORITHMS, type JwsAlg } from '../../../lib/guard/jose/signature.ts'
import { takeRsaKey } from '../../helpers/rsa-keys.ts'
import { createTransport, type TransportOptions } from '../../../lib/guard/provider/transport.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { listen } from '../../helpers/listen.ts'

const NOW = 1_800_000_000
const ISSUER = 'https://idp.example/'

function authentication (given: Partial<ClientCredentials>) {
  return createClientAuthentication({
    method: 'client_secret_basic',
    clientId: 'api',
    clientSecret: 'secret',
    key: undefined,
    audience: () => ISSUER,
    now: () => NOW,
    randomBytes,
    ...given
  })
}

const pemOf = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }) as string
const part = (jwt: string, index: number) => JSON.parse(Buffer.from(jwt.split('.')[index]!, 'base64url').toString())

t.test('A secret is sent as Basic credentials, encoded as in a form, or in the form', async t => {
  const secret = { clientId: 'my api:1', clientSecret: 's%c+ret/é' }
  const { headers, body } = await authentication(secret)({ a: 'b c' })
  t.equal(
    Buffer.from(headers.authorization!.slice('Basic '.length), 'base64').toString(),
    'my+api%3A1:s%25c%2Bret%2F%C3%A9'
  )
  t.equal(body, 'a=b+c')
  t.strictSame(await authentication({ ...secret, method: 'client_secret_post' })({ a: 'b c' }), {
    headers: {},
    body: 'a=b+c&client_id=my+api%3A1&client_secret=s%25c%2Bret%2F%C3%A9'
  })
})

t.test('A private key signs an assertion with the algorithm that fits it', async t => {
  const rsa = takeRsaKey()
  const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
  const ed = generateKeyPairSync('ed25519')
  const files: ReadonlyArray<{ title: string, text: string, publicKey: KeyObject, alg: JwsAlg, kid?: string }> = [
    { title: 'RSA in PKCS#8', text: pemOf(rsa.privateKey), publicKey: rsa.publicKey, alg: 'RS256' },
    {
      title: 'RSA in PKCS#1',
      text: rsa.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string,
      publicKey: rsa.publicKey,
      alg: 'RS256'
    },
    { title: 'P-256', text: pemOf(p256.privateKey), publicKey: p256.publicKey, alg: 'ES256' },
    { title: 'P-384', text: pemOf(p384.privateKey), publicKey: p384.publicKey, alg: 'ES384' },
    { title: 'Ed25519', text: pemOf(ed.privateKey), publicKey: ed.publicKey, alg: 'EdDSA' },
    {
      title: 'a JWK with kid and algorithm',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'PS384', kid: 'k1' }),
      publicKey: rsa.publicKey,
      alg: 'PS384',
      kid: 'k1'
    },
    {
      title: 'a JWK without them',
      text: `\n${JSON.stringify(ed.privateKey.export({ format: 'jwk' }))}`,
      publicKey: ed.publicKey,
      alg: 'EdDSA'
    },
    {
      title: 'a JWK whose algorithm is named Ed25519',
      text: JSON.stringify({ ...ed.privateKey.export({ format: 'jwk' }), alg: 'Ed25519' }),
      publicKey: ed.publicKey,
      alg: 'Ed25519'
    }
  ]
  for (const { title, text, publicKey, alg, kid } of files) {
    const { headers, body } = await authentication({ method: 'private_key_jwt', key: parseClientKey(text) })({ a: 'b' })
    const form = Object.fromEntries(new URLSearchParams(body))
    t.strictSame([headers, form.a, form.client_id, form.client_assertion_type], [
      {},
      'b',
      'api',
      'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    ], title)
    const jwt = form.client_assertion!
    t.strictSame(part(jwt, 0), { alg, typ: 'JWT', ...(kid && { kid }) })
    t.match(part(jwt, 1), {
      iss: exactly('api'),
      sub: exactly('api'),
      aud: ISSUER,
      iat: NOW,
      exp: NOW + 60,
      jti: /^[\w-]{22}$/
    })
    const { digest, signing } = ALGORITHMS[alg]
    const [header, claims, signature] = jwt.split('.')
    t.ok(
      verify(
        digest,
        Buffer.from(`${header}.${claims}`),
        { key: publicKey, dsaEncoding: 'ieee-p1363', ...signing },
        Buffer.from(signature!, 'base64url')
      )
    )
  }
  const other = generateKeyPairSync('ec', { namedCurve: 'secp256k1' })
  const refused = [
    { title: 'a curve without an algorithm', text: pemOf(other.privateKey) },
    { title: 'a key that can only agree on keys', text: pemOf(generateKeyPairSync('x25519').privateKey) },
    {
      title: 'the algorithm of another kind of key',
      text: JSON.stringify({ ...p256.privateKey.export({ format: 'jwk' }), alg: 'RS256' })
    },
    {
      title: 'the algorithm of another curve',
      text: JSON.stringify({ ...p256.privateKey.export({ format: 'jwk' }), alg: 'ES384' })
    },
    {
      title: 'an algorithm that does not exist',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'none' })
    },
    {
      title: 'an algorithm of RSA that does not sign',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'ES256' })
    },
    {
      title: 'the algorithm of Ed25519 for a key of RSA',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'Ed25519' })
    },
    {
      title: 'an algorithm of elliptic curves for a key of Ed25519',
      text: JSON.stringify({ ...ed.privateKey.export({ format: 'jwk' }), alg: 'ES256' })
    },
    {
      title: 'an algorithm that every object has',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'toString' })
    },
    {
      title: 'an algorithm that is no text',
      text: JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: ['RS256'] })
    },
    { title: 'a public key', text: p256.publicKey.export({ type: 'spki', format: 'pem' }) as string },
    { title: 'no key', text: 'key' }
  ]
  for (const { title, text } of refused) t.throws(() => parseClientKey(text), title)
  for (const { title, text } of refused.slice(0, -2)) {
    t.throws(() => parseClientKey(text), { message: 'The key cannot sign an assertion.' }, title)
  }
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ format: 'jwk' })
  await t.rejects(
    authentication({ method: 'private_key_jwt', key: parseClientKey(JSON.stringify({ ...small, alg: 'PS512' })) })({}),
    'a key that is too small for its algorithm'
  )
})

interface Asked {
  introspector: Introspector
  bodies: string[]
  /** The Accept header of each. */
  accepts: unknown[]
  /** What the endpoint answers next. */
  answer: { status?: number, body: string, hang?: boolean }
  /** From now on the endpoint answers no request until it is released. */
  hold (): { release (): void }
  until (isTrue: () => boolean): Promise<void>
}

async function setUp (
  t: Test,
  options: Partial<IntrospectorOptions> = {},
  transportOptions: TransportOptions = {}
) {
  const bodies: string[] = []
  const accepts: unknown[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    bodies.push(body)
    accepts.push(request.headers.accept)
    if (asked.answer.hang) return
    await held
    response.writeHead(asked.answer.status ?? 200).end(asked.answer.body)
  })
  const port = await listen(t, server)
  const transport = createTransport({ keepAlive: true, ...transportOptions })
  t.teardown(transport.close)
  const url = `http://127.0.0.1:${port}/introspect`
  const introspector = createIntrospector({
    transport,
    endpoint: async () => url,
    authenticate: authentication({}),
    readSigned: undefined,
    ...options
  })
  t.teardown(() => introspector.close())
  let held: Promise<void> | undefined
  const asked: Asked = {
    introspector,
    bodies,
    accepts,
    answer: { body: '{"active":true,"sub":"u"}' },
    hold () {
      let release = () => {}
      held = new Promise(resolve => {
        release = resolve
      })
      return { release }
    },
    async until (isTrue) {
      while (!isTrue()) await delay(5)
    }
  }
  return asked
}

t.test('A fault of our own is unavailability too', async t => {
  const asked = await setUp(t, { endpoint: () => Promise.reject(new TypeError('x')) })
  await t.rejects(asked.introspector.ask('t', true), {
    name: 'Refusal',
    reason: 'introspection_unavailable',
    detail: { failure: 'unexpected', detail: 'TypeError' }
  })
})

t.test('Closing ends the calls that are under way', async t => {
  const asked = await setUp(t, {}, { deadlineMs: 60_000 })
  asked.answer = { body: '', hang: true }
  const waiting = asked.introspector.ask('t', true).catch(error => error)
  await asked.until(() => asked.bodies.length === 1)
  asked.introspector.close()
  t.hasStrict(await waiting, { reason: 'introspection_unavailable', detail: { failure: 'deadline' } })
})

t.test('No connection to the provider is left after the close', async t => {
  const open = new Set<object>()
  const server = createServer((_request, response) => {
    response.end('{"active":true}')
  })
  // The provider allows the connection to be kept for ten minutes.
  server.keepAliveTimeout = 600_000
  server.on('connection', socket => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  const port = await listen(t, server)
  const endpoint = async () => `http://127.0.0.1:${port}/introspect`
  const introspector = createIntrospector({
    transport: createTransport({ keepAlive: true }),
    endpoint,
    authenticate: authentication({}),
    readSigned: undefined
  })
  t.strictSame(await introspector.ask('t', true), { claims: {}, expiresAt: Infinity })
  t.equal(open.size, 1, 'it is kept for the next answer')
  introspector.close()
  while (open.size > 0) await delay(5)
})

t.test('A known token waits for its turn, and goes before every unknown one', async t => {
  const asked = await setUp(t, {}, { deadlineMs: 60_000 })
  const tokensAsked = () => asked.bodies.map(body => new URLSearchParams(body).get('token'))
  const { release } = asked.hold()
  const strangers = Array.from({ length: 64 }, (_, i) => asked.introspector.ask(`stranger-${i}`, true))
  const known = Array.from({ length: 200 }, (_, i) => asked.introspector.ask(`known-${i}`, false))
  const same = asked.introspector.ask('known-0', true)
  await t.rejects(asked.introspector.ask('stranger-64', true), { name: 'Refusal', detail: { failure: 'busy' } })
  await asked.until(() => asked.bodies.length === 64)
  t.notOk(tokensAsked().some(token => String(token).startsWith('known')), '64 calls, and no more')
  release()
  await Promise.all([...strangers, ...known, same])
  t.equal(asked.bodies.length, 264)
  t.hasStrict(asked.introspector.state(), { active: 264, turnedAway: 1, inFlight: 0 })
})

t.test('The waiting time of a token counts towards its deadline', async t => {
  const asked = await setUp(t, {}, { deadlineMs: 500 })
  asked.hold()
  const outcomes = Array.from({ length: 200 }, (_, i) => asked.introspector.ask(`t${i}`, false).catch(error => error))
  for (const error of await Promise.all(outcomes)) {
    t.hasStrict(error, { reason: 'introspection_unavailable', detail: { failure: 'deadline' } })
  }
  t.hasStrict(asked.introspector.state(), { failures: 200, inFlight: 0 })
})

t.test('A call that ends while it waits is not made, and gives its turn to no other.', async t => {
  const sessions: Array<{ end: () => void, answer?: () => void }> = []
  const transport: IntrospectorOptions['transport'] = {
    open (onEnd) {
      const session: (typeof sessions)[number] = { end: onEnd! }
      sessions.push(session)
      return {
        send: () =>
          new Promise(resolve => {
            session.answer = () => resolve({ status: 200, body: Buffer.from('{"active":true}') })
          }),
        close: onEnd!
      }
    },
    close () {}
  }
  const introspector = createIntrospector({
    transport,
    endpoint: async () => ISSUER,
    authenticate: authentication({}),
    readSigned: undefined
  })
  const calls = Array.from({ length: 66 }, (_, i) => introspector.ask(`t${i}`, false))
  const made = (): number => sessions.filter(({ answer }) => answer).length
  sessions[64]!.end()
  await t.rejects(calls[64]!, { name: 'Refusal', detail: { failure: 'deadline' } })
  t.equal(made(), 64)
  t.equal(introspector.state().inFlight, 64)
  sessions[0]!.answer!()
  await calls[0]
  while (made() < 65) await delay(1)
  t.equal(sessions[64]!.answer, undefined)
  for (const { answer } of sessions) answer?.()
  await Promise.all(calls.toSpliced(64, 1))
  t.equal(introspector.state().inFlight, 0)
})

t.test('The endpoint is the configured one, or that of the metadata, which are read again within ten minutes', async t => {
  const base = 'https://idp.example/'
  const asked: string[] = []
  const clock = new Clock()
  let document: object | undefined = { issuer: ISSUER, introspection_endpoint: `${base}one#x` }
  const session = {
    send: async (url: string) => {
      asked.push(url)
      return { status: document ? 200 : 404, body: Buffer.from(JSON.stringify(document ?? {})), facts: { url } }
    },
    close () {}
  }
  const open = (configured?: string) =>
    createEndpoint({
      issuer: ISSUER,
      discovery: createDiscovery(ISSUER),
      configured,
      transport: { open: () => session },
      surroundings: { after: clock.after, random: () => 0, steadyMs: clock.steadyMs }
    })
  const configured = open('https://asked.example/x')
  configured.start()
  t.equal(await configured.find(), 'https://asked.example/x')
  t.ok(configured.isKnown())
  t.strictSame(asked, [], 'nothing is looked up')

  const found = open()
  t.notOk(found.isKnown())
  t.equal(await found.find(), `${base}one`, 'a document without jwks_uri is whole')
  t.ok(found.isKnown())
  document = { ...document, introspection_endpoint: `${base}two` }
  t.equal(await found.find(), `${base}one`)
  const later = async () => {
    t.ok(clock.nextMs < 10 * 60_000)
    clock.advance(clock.nextMs)
    while (clock.timers.size === 0) await new Promise(setImmediate)
  }
  await later()
  t.equal(await found.find(), `${base}two`)
  t.strictSame(asked, Array(2).fill(`${base}.well-known/openid-configuration`))

  const bad: ReadonlyArray<readonly [title: string, document: object | undefined]> = [
    ['no document', undefined],
    ['no endpoint', { ...document, introspection_endpoint: undefined }],
    ['an endpoint that is no text', { ...document, introspection_endpoint: [`${base}two`] }],
    ['an endpoint without TLS', { ...document, introspection_endpoint: 'http://idp.example/two' }],
    ['an endpoint that is no URL', { ...document, introspection_endpoint: 'two' }]
  ]
  for (const [title, given] of bad) {
    document = given
    await later()
    t.equal(await found.find(), `${base}two`, `${title}: the last one stays`)
    const other = open()
    await t.rejects(other.find(), { name: 'ProviderFailure', word: 'introspection_endpoint' } as never, title)
    await other.close()
  }
  await found.close()
  const closed = open()
  await closed.close()
  await t.rejects(closed.find(), { name: 'ProviderFailure', word: 'deadline' } as never)

  document = undefined
  const watched = open()
  watched.start()
  while (clock.timers.size === 0) await new Promise(setImmediate)
  t.notOk(watched.isKnown(), 'the provider does not name it yet')
  document = { issuer: ISSUER, introspection_endpoint: `${base}one` }
  clock.advance(clock.nextMs)
  while (!watched.isKnown()) await new Promise(setImmediate)
  t.pass('it is looked up again in the background')
  await watched.close()
})

t.test(
  'A flood of made-up tokens has the metadata read by one look-up at a time, and after a failure by one in a ' +
    'second',
  async t => {
    const clock = new Clock()
    const held: Array<() => void> = []
    let [status, looked] = [500, 0]
    const session = {
      send: async (url: string) => {
        looked++
        await new Promise<void>(resolve => held.push(resolve))
        return {
          status,
          body: Buffer.from(JSON.stringify({ issuer: ISSUER, introspection_endpoint: 'https://idp.example/x' })),
          facts: { url }
        }
      },
      close () {}
    }
    const { find, close } = createEndpoint({
      issuer: ISSUER,
      discovery: createDiscovery(ISSUER),
      configured: undefined,
      transport: { open: () => session },
      surroundings: { after: clock.after, random: () => 0, steadyMs: clock.steadyMs }
    })
    const flood = async (): Promise<unknown[]> => {
      const found = Promise.all(Array.from({ length: 64 }, () => find().catch(({ word }) => word)))
      for (const answer of held.splice(0)) answer()
      return [...new Set(await found)]
    }
    t.strictSame([await flood(), looked], [['status'], 1], 'together')
    clock.at += 999
    t.strictSame([await flood(), looked], [['status'], 1], 'within the second')
    clock.at++
    status = 200
    t.strictSame([await flood(), looked], [['https://idp.example/x'], 2], 'and then again')
    clock.advance(clock.nextMs)
    t.strictSame([await flood(), looked], [['https://idp.example/x'], 3], 'when the address is old')
    await close()
  }
)

t.test('A call may fail for its token alone', async t => {
  for (const [detail, expected] of [
    [{ failure: 'busy' }, true],
    [{ failure: 'status', detail: 400 }, true],
    [{ failure: 'status', detail: 401 }, false],
    [{ failure: 'status', detail: 500 }, false],
    [{ failure: 'deadline' }, false]
  ] as const) {
    t.equal(isOfOneToken(new Refusal('introspection_unavailable', { detail })), expected, JSON.stringify(detail))
  }
})
