import { createHmac } from 'node:crypto'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { makeIssuerKey, startIssuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { CAEP, RECEIVER, startRevocation, type Site, type Transmitter } from '../helpers/revocation-site.ts'

const SUBJECT = { format: 'iss_sub', sub: 'user-1' }
const TYPE = `${CAEP}session-revoked`
const stranger = makeIssuerKey('t1')
const later = makeIssuerKey('t2')

/** A SET that passes, but for what is given. */
function set (transmitter: Transmitter, { claims = {}, ...given }: Parameters<Transmitter['set']>[0] = {}): string {
  return transmitter.set({ ...given, claims: { sub_id: { ...SUBJECT, iss: transmitter.url }, ...claims } })
}

interface Row {
  readonly title: string
  readonly given?: Parameters<Transmitter['set']>[0]
  readonly text?: (site: Site) => string
  /** Nothing for 202. */
  readonly err?: string
  readonly description?: string
}

const LACKS_JTI = 'The token has no jti.'
const LACKS_IAT = 'The token has no iat.'
const NOT_TYPED = 'The typ of the token is not secevent+jwt.'
const ONE_EVENT = 'The token does not have exactly one event.'
const NO_SUB = 'A security event token has no sub and no exp.'
const NOT_A_JWT = 'The body is not a well-formed JWT.'
const UNVERIFIED = 'The signature of the token cannot be verified with a key of its issuer.'
const HEADER = 'The header of the token cannot be understood.'
const OTHER_AUDIENCE = 'The token is meant for another audience.'
const OTHER_ISSUER = 'The token was issued by another issuer.'
const OTHER_ALG = 'The token is signed with an algorithm that is not accepted here.'

const ROWS: readonly Row[] = [
  { title: 'as it should be' },
  { title: 'with white space around it', text: ({ transmitter }) => ` ${set(transmitter)}\n` },
  { title: 'typ in full', given: { header: { typ: 'application/SecEvent+JWT' } } },
  { title: 'several audiences', given: { claims: { aud: ['other', RECEIVER] } } },
  { title: 'no kid', given: { header: { kid: undefined } } },
  { title: 'an unknown event', given: { type: 'https://a.example/unknown' } },
  { title: 'no typ', given: { header: { typ: undefined } }, err: 'invalid_request', description: NOT_TYPED },
  { title: 'typ JWT', given: { header: { typ: 'JWT' } }, err: 'invalid_request', description: NOT_TYPED },
  {
    title: 'typ that is no text',
    given: { header: { typ: ['secevent+jwt'] } },
    err: 'invalid_request',
    description: NOT_TYPED
  },
  { title: 'an access token', text: ({ issuer }) => issuer.token(), err: 'invalid_issuer', description: OTHER_ISSUER },
  {
    title: 'an access token of the transmitter',
    given: { header: { typ: 'at+jwt' } },
    err: 'invalid_request',
    description: NOT_TYPED
  },
  { title: 'no text at all', text: () => '', err: 'invalid_request', description: NOT_A_JWT },
  { title: 'no JWT', text: () => 'a.b', err: 'invalid_request', description: NOT_A_JWT },
  {
    title: 'a header that is no object',
    text: () => encodeJws('[]', {}, () => Buffer.from('x')),
    err: 'invalid_request',
    description: NOT_A_JWT
  },
  {
    title: 'claims that are no object',
    text: () => encodeJws({}, '1', () => Buffer.from('x')),
    err: 'invalid_request',
    description: NOT_A_JWT
  },
  { title: 'alg none', given: { header: { alg: 'none' } }, err: 'invalid_key', description: OTHER_ALG },
  {
    title: 'a shared secret',
    text: ({ transmitter }) =>
      encodeJws(
        { alg: 'HS256', typ: 'secevent+jwt', kid: 't1' },
        { iss: transmitter.url },
        input => createHmac('sha256', 'x').update(input).digest()
      ),
    err: 'invalid_key',
    description: OTHER_ALG
  },
  {
    title: 'another algorithm than the key has',
    given: { header: { alg: 'PS256' } },
    err: 'invalid_key',
    description: UNVERIFIED
  },
  { title: 'crit', given: { header: { crit: ['x'] } }, err: 'invalid_request', description: HEADER },
  { title: 'b64', given: { header: { b64: false } }, err: 'invalid_request', description: HEADER },
  { title: 'kid that is no text', given: { header: { kid: 1 } }, err: 'invalid_request', description: HEADER },
  { title: 'another key', given: { signer: stranger.privateKey }, err: 'invalid_key', description: UNVERIFIED },
  {
    title: 'another key, no kid',
    given: { header: { kid: undefined }, signer: stranger.privateKey },
    err: 'invalid_key',
    description: UNVERIFIED
  },
  { title: 'unknown kid', given: { header: { kid: 'unknown' } }, err: 'invalid_key', description: UNVERIFIED },
  {
    title: 'another issuer',
    given: { claims: { iss: 'https://other.example' } },
    err: 'invalid_issuer',
    description: OTHER_ISSUER
  },
  ...['x', ''].map(end => ({
    title: `an issuer that ${end ? 'begins' : 'ends'} right`,
    text: ({ transmitter }: Site) =>
      set(transmitter, { claims: { iss: end ? transmitter.url + end : `x${transmitter.url}` } }),
    err: 'invalid_issuer',
    description: OTHER_ISSUER
  })),
  { title: 'no issuer', given: { claims: { iss: undefined } }, err: 'invalid_issuer', description: OTHER_ISSUER },
  {
    title: 'another audience',
    given: { claims: { aud: 'other' } },
    err: 'invalid_audience',
    description: OTHER_AUDIENCE
  },
  ...[`${RECEIVER}x`, `x${RECEIVER}`, RECEIVER.slice(1), RECEIVER.slice(0, -1)].map(aud => ({
    title: `the audience ${aud}`,
    given: { claims: { aud: ['other', aud] } },
    err: 'invalid_audience',
    description: OTHER_AUDIENCE
  })),
  { title: 'no audience', given: { claims: { aud: undefined } }, err: 'invalid_audience', description: OTHER_AUDIENCE },
  { title: 'no iat', given: { claims: { iat: undefined } }, err: 'invalid_request', description: LACKS_IAT },
  { title: 'iat that is no number', given: { claims: { iat: '1' } }, err: 'invalid_request', description: LACKS_IAT },
  { title: 'no jti', given: { claims: { jti: undefined } }, err: 'invalid_request', description: LACKS_JTI },
  { title: 'an empty jti', given: { claims: { jti: '' } }, err: 'invalid_request', description: LACKS_JTI },
  { title: 'sub', given: { claims: { sub: 'user-1' } }, err: 'invalid_request', description: NO_SUB },
  { title: 'exp', given: { claims: { exp: 4_000_000_000 } }, err: 'invalid_request', description: NO_SUB },
  {
    title: 'two events',
    given: { claims: { events: { [TYPE]: {}, [`${CAEP}token-claims-change`]: {} } } },
    err: 'invalid_request',
    description: ONE_EVENT
  },
  { title: 'no event', given: { claims: { events: {} } }, err: 'invalid_request', description: ONE_EVENT },
  { title: 'a list of events', given: { claims: { events: [{}] } }, err: 'invalid_request', description: ONE_EVENT },
  { title: 'events missing', given: { claims: { events: undefined } }, err: 'invalid_request', description: ONE_EVENT },
  {
    title: 'an event that is no object',
    given: { claims: { events: { [TYPE]: true } } },
    err: 'invalid_request',
    description: ONE_EVENT
  },
  {
    title: 'a subject without format',
    given: { claims: { sub_id: { sub: 'user-1' } } },
    err: 'invalid_request',
    description: 'The event cannot be understood: the subject has no format.'
  },
  {
    title: 'a time that is no time',
    given: { event: { event_timestamp: 'now' } },
    err: 'invalid_request',
    description: 'The event cannot be understood: the time of the event is no time.'
  }
]

t.test('A security event token is answered as RFC 8935 has it, and revokes only if it is accepted', async t => {
  const site = await startRevocation(t)
  for (const { title, given, text, err, description } of ROWS) {
    const answer = await site.push(text?.(site) ?? set(site.transmitter, given))
    t.equal(answer.headers.get('cache-control'), 'no-store', title)
    t.equal(answer.headers.get('content-language'), err === undefined ? null : 'en', title)
    t.strictSame(
      [answer.status, await answer.text()],
      err === undefined ? [202, ''] : [400, JSON.stringify({ err, description })],
      title
    )
  }
  const { counts } = site.app.holdfastGuard.parts.revocation!
  t.strictSame(Object.fromEntries(counts), {
    'session-revoked applied': ROWS.filter(({ err }) => err === undefined).length - 1,
    'unknown unknown': 1,
    'refused invalid': ROWS.filter(({ err }) => err !== undefined).length
  })
})

t.test('A refused event revokes nothing, and a repeat is accepted and changes nothing', async t => {
  const site = await startRevocation(t)
  const { transmitter, issuer } = site
  const iat = Math.floor(Date.now() / 1000) - 5
  const token = issuer.token({ iat })
  for (const { text, given, err } of ROWS) {
    if (err !== undefined) await site.push(text?.(site) ?? set(transmitter, given))
  }
  t.equal(await site.ask(token), 200)
  const event = set(transmitter, { event: { event_timestamp: iat } })
  t.strictSame([(await site.push(event)).status, (await site.push(event)).status], [202, 202])
  t.equal(await site.ask(token), 401)
  t.strictSame(site.reasons(), ['token_revoked'])
  t.strictSame([await site.ask(issuer.token({ iat: iat + 5 })), await site.ask(issuer.token({ iat: iat + 6 }))], [
    401,
    200
  ])
})

t.test('With untyped, an event may come without typ or as JWT, but not as an access token', async t => {
  const { transmitter, push } = await startRevocation(t, {
    revocation: ({ url }) => ({ transmitters: [{ issuer: url, audience: RECEIVER, delivery: 'push', untyped: true }] })
  })
  const statuses = []
  for (const typ of ['secevent+jwt', undefined, 'JWT', 'at+jwt', 'logout+jwt', null]) {
    statuses.push((await push(set(transmitter, { header: { typ } }))).status)
  }
  t.strictSame(statuses, [202, 202, 202, 400, 400, 400])
})

t.test('A security event token is no access token', async t => {
  const site = await startRevocation(t, {
    revocation: (_, { url }) => ({ transmitters: [{ issuer: url, audience: RECEIVER, delivery: 'push' }] })
  })
  t.equal(await site.ask(site.issuer.token()), 200)
  t.equal(await site.ask(site.issuer.token({}, { typ: 'secevent+jwt' })), 401)
  t.equal(await site.ask(site.issuer.token({}, { typ: 'logout+jwt' })), 401)
  t.strictSame(site.reasons(), ['token_type', 'token_type'])
})

t.test('A push without the agreed Authorization is refused, and its secret may be in the environment', async t => {
  process.env.TEST_PUSH_SECRET = 'Bearer agreed'
  t.teardown(() => {
    delete process.env.TEST_PUSH_SECRET
  })
  const { transmitter, push, log } = await startRevocation(t, {
    revocation: ({ url }) => ({
      transmitters: [{
        issuer: url,
        audience: RECEIVER,
        delivery: 'push',
        pushAuthorization: { env: 'TEST_PUSH_SECRET' }
      }]
    })
  })
  const event = set(transmitter)
  const wrong = [
    'Bearer other',
    'bearer agreed',
    'Bearer agreed, Bearer agreed',
    'Bearer agreedx',
    'Bearer agree',
    'Bearer'
  ]
  for (const headers of [{}, ...wrong.map(authorization => ({ authorization }))]) {
    const answer = await push(event, headers)
    t.strictSame([
      answer.status,
      answer.headers.get('www-authenticate'),
      answer.headers.get('content-language'),
      await answer.json()
    ], [401, 'Bearer', 'en', {
      err: 'authentication_failed',
      description: 'The Authorization header is not the configured one.'
    }])
  }
  t.strictSame(
    log.filter(({ event }) => event === 'revocation_refused').map(({ reason }) => reason),
    Array<string>(wrong.length + 1).fill('authorization')
  )
  t.equal((await push(event, { authorization: 'Bearer agreed' })).status, 202)
})

t.test('Another content type is 415, and more than 64 KiB, of a logout 16 KiB, are 413', async t => {
  const { transmitter, push, logout, url } = await startRevocation(t, {
    revocation: (transmitter, issuer) => ({
      transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push' }],
      logout: { issuer: issuer.url, clientId: 'c' }
    })
  })
  const event = set(transmitter)
  for (const type of ['application/json', 'application/jwt', 'text/plain']) {
    t.equal((await push(event, { 'content-type': type })).status, 415, type)
  }
  t.equal((await push(event, { 'content-type': 'application/secevent+jwt; charset=utf-8' })).status, 202)
  t.equal(
    (await fetch(`${url}/revocation/logout`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}'
    })).status,
    415
  )
  t.equal((await push(event.padEnd(64 * 1024))).status, 202)
  t.equal((await push(event.padEnd(64 * 1024 + 1))).status, 413)
  t.equal((await logout('logout_token=a'.padEnd(16 * 1024, 'a'))).status, 400)
  t.equal((await logout('logout_token=a'.padEnd(16 * 1024 + 1, 'a'))).status, 413)
})

t.test('While the keys cannot be fetched, the answer is 503 with Retry-After', async t => {
  const { transmitter, push, log } = await startRevocation(t, {
    revocation: transmitter => {
      transmitter.outage = 500
      return { transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push' }] }
    }
  })
  const answer = await push(set(transmitter))
  t.strictSame([answer.status, answer.headers.get('retry-after'), await answer.json()], [503, '1', {
    statusCode: 503,
    error: 'Service Unavailable',
    message: 'The revocation cannot be stored now.'
  }])
  t.strictSame(log.filter(({ event }) => event === 'revocation_refused').map(({ reason }) => reason), [
    'the keys of the sender cannot be fetched'
  ])
})

t.test('While the audience of a stream is not known, an event is 503', async t => {
  const { transmitter, push, log } = await startRevocation(t, {
    revocation: transmitter => ({
      transmitters: [{
        issuer: transmitter.url,
        delivery: 'push',
        clientId: 'receiver',
        clientSecret: 's3cret'
      }]
    }),
    values: { PUBLIC_URL: 'https://api.example' }
  })
  t.equal((await push(set(transmitter))).status, 503)
  t.strictSame(log.filter(({ event }) => event === 'revocation_refused').map(({ reason }) => reason), [
    'the stream of the sender, which names the audience, is not known yet'
  ])
})

t.test('A key that the transmitter has published since is fetched', async t => {
  const { transmitter, push } = await startRevocation(t)
  t.equal((await push(set(transmitter))).status, 202)
  transmitter.keys.push(later)
  t.equal((await push(set(transmitter, { header: { kid: later.kid }, signer: later.privateKey }))).status, 202)
})

t.test('Without the section none of the endpoints exists, and each exists only if it is configured', async t => {
  const issuer = await startIssuer(t)
  const statuses = async (url: string) =>
    Promise.all(
      ['events', 'logout', 'subjects'].map(async name =>
        (await fetch(`${url}/revocation/${name}`, { method: 'POST' })).status
      )
    )
  const { url } = await startApp(t, issuer)
  t.strictSame(await statuses(url), [404, 404, 404])
  const sections = [{ logout: { clientId: 'c' } }, { operators: { scope: 'revoke' } }, {
    transmitters: [{ issuer: issuer.url, audience: 'a', delivery: 'poll', endpoint: `${issuer.url}poll` }]
  }]
  const seen = []
  for (const REVOCATION of sections) seen.push(await statuses((await startApp(t, issuer, { REVOCATION })).url))
  t.strictSame(seen, [[404, 400, 404], [404, 404, 401], [404, 404, 404]])
})
