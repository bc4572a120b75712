import { createHmac, type KeyObject } from 'node:crypto'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { makeIssuerKey, startIssuer, type IssuerKey } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { until } from '../helpers/until.ts'
import { CAEP, RECEIVER, startRevocation, type Site, type Transmitter } from '../helpers/revocation-site.ts'

const SUBJECT = { format: 'iss_sub', sub: 'user-1' }
const TYPE = `${CAEP}session-revoked`
const stranger = makeIssuerKey('t1')
const later = makeIssuerKey('t2')

/** A SET that passes, but for what is given. */
function set (transmitter: Transmitter, { claims = {}, ...given }: Parameters<Transmitter['set']>[0] = {}) {
  return transmitter.set({ ...given, claims: { sub_id: { ...SUBJECT, iss: transmitter.url }, ...claims } })
}

/** What a good event has instead, or the text in its place. */
type Given = NonNullable<Parameters<Transmitter['set']>[0]> | ((site: Site) => string)

const ACCEPTED: Record<string, Given> = {
  'as it should be': {},
  'with white space around it': ({ transmitter }) => ` ${set(transmitter)}\n`,
  'typ in full': { header: { typ: 'application/SecEvent+JWT' } },
  'several audiences': { claims: { aud: ['other', RECEIVER] } },
  'no kid': { header: { kid: undefined } },
  'an unknown event': { type: 'https://a.example/unknown' }
}

/** By error and description. */
const REFUSED: Record<string, Record<string, Record<string, Given>>> = {
  invalid_request: {
    'The typ of the token is not secevent+jwt.': {
      'no typ': { header: { typ: undefined } },
      'typ JWT': { header: { typ: 'JWT' } },
      'typ that is no text': { header: { typ: ['secevent+jwt'] } },
      'an access token of the transmitter': { header: { typ: 'at+jwt' } }
    },
    'The body is not a well-formed JWT.': {
      'no text at all': () => '',
      'no JWT': () => 'a.b',
      'a header that is no object': () => encodeJws('[]', {}, () => Buffer.from('x')),
      'claims that are no object': () => encodeJws({}, '1', () => Buffer.from('x'))
    },
    'The header of the token cannot be understood.': {
      crit: { header: { crit: ['x'] } },
      b64: { header: { b64: false } },
      'kid that is no text': { header: { kid: 1 } }
    },
    'The token has no iat.': { 'no iat': { claims: { iat: undefined } }, 'iat that is no number': { claims: { iat: '1' } } },
    'The token has no jti.': { 'no jti': { claims: { jti: undefined } }, 'an empty jti': { claims: { jti: '' } } },
    'A security event token has no sub and no exp.': { sub: { claims: { sub: 'user-1' } }, exp: { claims: { exp: 4_000_000_000 } } },
    'The token does not have exactly one event.': {
      'two events': { claims: { events: { [TYPE]: {}, [`${CAEP}token-claims-change`]: {} } } },
      'no event': { claims: { events: {} } },
      'a list of events': { claims: { events: [{}] } },
      'events missing': { claims: { events: undefined } },
      'an event that is no object': { claims: { events: { [TYPE]: true } } }
    },
    'The message cannot be understood: the subject has no format.': { 'a subject without format': { claims: { sub_id: { sub: 'user-1' } } } },
    'The message cannot be understood: the time of the event is no time.': { 'a time that is no time': { event: { event_timestamp: 'now' } } }
  },
  invalid_issuer: {
    'The token was issued by another issuer.': {
      'an access token': ({ issuer }) => issuer.token(),
      'another issuer': { claims: { iss: 'https://other.example' } },
      'no issuer': { claims: { iss: undefined } },
      'an issuer that begins right': site => set(site.transmitter, { claims: { iss: `${site.transmitter.url}x` } }),
      'an issuer that ends right': site => set(site.transmitter, { claims: { iss: `x${site.transmitter.url}` } })
    }
  },
  invalid_key: {
    'The token is signed with an algorithm that is not accepted here.': {
      'alg none': { header: { alg: 'none' } },
      'a shared secret': ({ transmitter }) =>
        encodeJws(
          { alg: 'HS256', typ: 'secevent+jwt', kid: 't1' },
          { iss: transmitter.url },
          input => createHmac('sha256', 'x').update(input).digest()
        )
    },
    'The signature of the token cannot be verified with a key of its issuer.': {
      'another algorithm than the key has': { header: { alg: 'PS256' } },
      'another key': { signer: stranger.privateKey },
      'another key, no kid': { header: { kid: undefined }, signer: stranger.privateKey },
      'unknown kid': { header: { kid: 'unknown' } }
    }
  },
  invalid_audience: {
    'The token is meant for another audience.': {
      'another audience': { claims: { aud: 'other' } },
      'no audience': { claims: { aud: undefined } },
      ...Object.fromEntries([`${RECEIVER}x`, `x${RECEIVER}`, RECEIVER.slice(1), RECEIVER.slice(0, -1)].map(aud =>
        [`the audience ${aud}`, { claims: { aud: ['other', aud] } }]
      ))
    }
  }
}

const refusals = Object.entries(REFUSED).flatMap(([err, descriptions]) =>
  Object.entries(descriptions).flatMap(([description, rows]) =>
    Object.entries(rows).map(([title, given]) => ({ title, given, body: JSON.stringify({ err, description }) }))
  )
)

const textOf = (site: Site, given: Given) =>
  typeof given === 'function' ? given(site) : set(site.transmitter, given)

t.test('A security event token is answered as RFC 8935 has it, and revokes only if it is accepted', async t => {
  const site = await startRevocation(t)
  const accepted = Object.entries(ACCEPTED).map(([title, given]) => ({ title, given, body: '' }))
  for (const { title, given, body } of [...accepted, ...refusals]) {
    const answer = await site.push(textOf(site, given))
    t.equal(answer.headers.get('cache-control'), 'no-store', title)
    t.equal(answer.headers.get('content-language'), body === '' ? null : 'en', title)
    t.strictSame([answer.status, await answer.text()], [body === '' ? 202 : 400, body], title)
  }
  const { counts } = site.app.holdfastGuard.parts.revocation!
  t.strictSame(Object.fromEntries(counts), {
    'session-revoked applied': accepted.length - 1,
    'unknown unknown': 1,
    'refused invalid': refusals.length
  })
})

t.test('A refused event revokes nothing, and a repeat is accepted and changes nothing', async t => {
  const site = await startRevocation(t)
  const { transmitter, issuer } = site
  const iat = Math.floor(Date.now() / 1000) - 5
  const token = issuer.token({ iat })
  for (const { given } of refusals) await site.push(textOf(site, given))
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
    log.filter(({ msg }) => msg === 'revocation refused').map(({ event, reason }) => [event, reason]),
    Array(wrong.length + 1).fill(['revocation_refused', 'authorization'])
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

t.test('A key that was replaced under its name is not refused for good while it cannot be fetched', async t => {
  const { transmitter, push } = await startRevocation(t)
  const statusOf = async (signer?: KeyObject) => (await push(set(transmitter, { ...signer && { signer } }))).status
  t.strictSame([await statusOf(), await statusOf(stranger.privateKey)], [202, 400])
  transmitter.outage = 500
  t.strictSame([await statusOf(later.privateKey), await statusOf()], [503, 202])
  transmitter.outage = undefined
  transmitter.keys.splice(0, 1, { ...later, jwk: { ...later.jwk, kid: 't1' } })
  await until('it is fetched', async () => await statusOf(later.privateKey) === 202)
  t.equal(await statusOf(), 400)
})

t.test('A key newer than the set is not refused for good while strangers spend what may be fetched', async t => {
  const { transmitter, push } = await startRevocation(t)
  const statusOf = async (kid: string, signer: IssuerKey, iat = Math.floor(Date.now() / 1000)) =>
    (await push(set(transmitter, { header: { kid }, signer: signer.privateKey, claims: { iat } }))).status
  for (const kid of ['a', 'b', 'c', 'd', 'e']) t.equal(await statusOf(kid, stranger), 400)
  transmitter.keys.push(later)
  const soon = Math.floor(Date.now() / 1000) + 7
  t.strictSame([await statusOf('f', stranger), await statusOf(later.kid, later, soon)], [400, 503])
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
