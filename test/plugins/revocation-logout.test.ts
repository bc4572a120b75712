import { generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'
import { join } from 'node:path'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import holdfast from '../../packages/holdfast/index.ts'
import { dayIn, nowSeconds } from '../helpers/clock.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { listen } from '../helpers/listen.ts'
import { startRevocation } from '../helpers/revocation-site.ts'

const CLIENT = 'orders-app'
const EVENTS = { 'http://schemas.openid.net/event/backchannel-logout': {} }
const stranger = makeIssuerKey('k1')
/** Of AD FS: nothing can be fetched under it. */
const NAME = 'http://adfs.example/adfs/services/trust'

async function start (t: Test, client: object = {}, tolerance = 0) {
  const site = await startRevocation(t, {
    revocation: () => ({ logout: { clientId: CLIENT, ...client } }),
    values: { IDP_CLOCK_TOLERANCE_SECONDS: tolerance }
  })
  return {
    ...site,
    logoutToken: (claims = {}, header = {}) =>
      site.issuer.token({ aud: CLIENT, jti: 'l1', events: EVENTS, sid: 's1', ...claims }, {
        typ: 'logout+jwt',
        ...header
      })
  }
}

const form = (...tokens: string[]) =>
  new URLSearchParams(tokens.map((token): [string, string] => ['logout_token', token]))

/** As many members as a form may have beside the token. */
const OTHERS = '&a=b'.repeat(99)

t.test('A logout token ends its session, else every login of its user', async t => {
  const { issuer, logout, logoutToken, ask, reasons, log } = await start(t)
  const iat = nowSeconds()
  const ofSession = issuer.token({ iat, sid: 's1', sub: 'user-1' })
  const laterOfSession = issuer.token({ iat: iat + 2, exp: iat + 60, sid: 's1' })
  const ofAnother = issuer.token({ iat: iat - 5, sid: 's2' })
  t.equal(await ask(ofSession), 200)
  const answer = await logout(form(logoutToken()))
  t.strictSame([answer.status, await answer.text(), answer.headers.get('cache-control')], [200, '', 'no-store'])
  t.strictSame([await ask(ofSession), await ask(laterOfSession), await ask(ofAnother)], [401, 401, 200])
  t.equal((await logout(form(logoutToken({ sid: undefined, iat: iat - 1 })))).status, 200)
  t.strictSame([await ask(ofAnother), await ask(issuer.token({ iat: iat - 5, sub: 'user-2' }))], [401, 200])
  t.equal(await ask(issuer.token({ iat, auth_time: iat - 1 })), 401, 'the login is as old')
  t.equal(await ask(issuer.token({ iat, auth_time: iat })), 200)
  t.strictSame(reasons(), Array(4).fill('token_revoked'))
  t.equal(log.find(({ reason }) => reason === 'token_revoked')?.event, 'logout')
  t.strictSame(
    log.filter(({ event }) => event === 'revocation_received').map((
      { sender, type, outcome }
    ) => [sender, type, outcome]),
    Array(2).fill([issuer.url, 'logout', 'applied'])
  )
})

t.test('A logout at an issuer whose tokens are not taken here ends nothing, and is logged as unmatched', async t => {
  const elsewhere = await startIssuer(t)
  const { logout, log } = await startRevocation(t, {
    revocation: () => ({ logout: { clientId: CLIENT, issuer: elsewhere.url } })
  })
  const token = elsewhere.token({ aud: CLIENT, jti: 'l1', events: EVENTS, sid: 's1' }, { typ: 'logout+jwt' })
  t.equal((await logout(form(token))).status, 200)
  t.strictSame(
    log.filter(({ event }) => event === 'revocation_received').map(({ sender, outcome }) => [sender, outcome]),
    [[elsewhere.url, 'unmatched']]
  )
})

t.test('A logout token that is wrong in one thing is refused', async t => {
  const { issuer, logout, logoutToken, ask } = await start(t)
  const now = nowSeconds()
  const token = issuer.token({ sid: 's1', iat: now - 5 })
  const events = 'The token has no logout event.'
  const text = 'A sub or sid of the logout token is not a text.'
  const expired = 'The logout token has expired.'
  const count = 'The form does not have exactly one logout_token.'
  const rows: ReadonlyArray<readonly [string, string | URLSearchParams]> = [
    ['The logout token has neither sub nor sid.', form(logoutToken({ sid: undefined, sub: undefined }))],
    ['A logout token has no nonce.', form(logoutToken({ nonce: 'n' }))],
    ['A logout token has no nonce.', form(logoutToken({ nonce: null }))],
    [events, form(logoutToken({ events: undefined }))],
    [events, form(logoutToken({ events: {} }))],
    [events, form(logoutToken({ events: [] }))],
    [events, form(logoutToken({ events: { 'http://schemas.openid.net/event/backchannel-logout': true } }))],
    [text, form(logoutToken({ sid: 1 }))],
    [text, form(logoutToken({ sid: '' }))],
    [text, form(logoutToken({ sid: null }))],
    [text, form(logoutToken({ sub: ['user-1'] }))],
    [expired, form(logoutToken({ exp: now - 1 }))],
    [expired, form(logoutToken({ exp: 'soon' }))],
    ['The token is meant for another audience.', form(logoutToken({ aud: 'other' }))],
    ['The token was issued by another issuer.', form(logoutToken({ iss: 'https://other.example' }))],
    ['The token has no iat.', form(logoutToken({ iat: undefined }))],
    ['The token has no jti.', form(logoutToken({ jti: undefined }))],
    ['The typ of the token is not logout+jwt.', form(logoutToken({}, { typ: 'at+jwt' }))],
    ['The typ of the token is not logout+jwt.', form(logoutToken({}, { typ: 'secevent+jwt' }))],
    [
      'The signature of the token cannot be verified with a key of its issuer.',
      form(issuer.token({ aud: CLIENT, jti: 'l1', events: EVENTS, sid: 's1' }, { typ: 'logout+jwt' }, stranger))
    ],
    ['The message cannot be understood: the time of the event is no time.', form(logoutToken({ iat: -1 }))],
    ['The body is not a well-formed JWT.', form('x')],
    [count, form(logoutToken(), logoutToken())],
    [count, form()],
    [count, `token=${logoutToken()}`],
    ['The form has too many members.', form(logoutToken()) + OTHERS + '&a=b']
  ]
  for (const [description, body] of rows) {
    const answer = await logout(body)
    t.strictSame([answer.status, await answer.json()], [400, {
      error: 'invalid_request',
      error_description: description
    }], description)
  }
  t.equal(await ask(token), 200)
  t.equal((await logout(form(logoutToken()))).status, 200)
  t.equal(await ask(token), 401)
})

t.test('A logout token may come without typ, as JWT, without exp, a moment late, for several audiences', async t => {
  const { logout, logoutToken } = await start(t, {}, 60)
  const tokens = [
    logoutToken({}, { typ: undefined }),
    logoutToken({}, { typ: 'JWT' }),
    logoutToken({ exp: undefined }),
    logoutToken({ exp: nowSeconds() - 1 }),
    logoutToken({ aud: ['other', CLIENT] })
  ]
  const bodies = [...tokens.map(token => form(token)), form(logoutToken()) + OTHERS]
  t.strictSame(await Promise.all(bodies.map(async body => (await logout(body)).status)), bodies.map(() => 200))
})

t.test(
  'If access tokens have no session, a logout ends all logins of the user, and a logout token with only a sid is ' +
    'refused',
  async t => {
    const { issuer, logout, logoutToken, ask } = await start(t, { sessionClaim: false })
    const token = issuer.token({ iat: nowSeconds() - 5 })
    const answer = await logout(form(logoutToken({ sub: undefined })))
    t.strictSame([answer.status, await answer.json()], [400, {
      error: 'invalid_request',
      error_description: 'The logout token has only a sid, and access tokens have none here.'
    }])
    t.equal(await ask(token), 200)
    t.equal((await logout(form(logoutToken()))).status, 200)
    t.equal(await ask(token), 401)
  }
)

t.test('The session is in the claim that the settings name, and each of several clients has its own', async t => {
  const { issuer, logout, ask } = await startRevocation(t, {
    revocation: (_, { url: issuer }) => ({
      logout: [{ issuer, clientId: 'a', sessionClaim: 'session' }, { issuer, clientId: 'b', sessionClaim: false }]
    })
  })
  const iat = nowSeconds() - 5
  const logoutToken = (aud: string) =>
    issuer.token({ aud, jti: 'l1', events: EVENTS, sid: 's1', sub: undefined }, { typ: 'logout+jwt' })
  const tokens = [
    issuer.token({ iat, session: 's1' }),
    issuer.token({ iat, session: ['s0', 's1'] }),
    issuer.token({ iat, session: 's2' }),
    issuer.token({ iat })
  ]
  t.equal((await logout(form(logoutToken('b')))).status, 400)
  t.equal((await logout(form(logoutToken('a')))).status, 200)
  t.strictSame(await Promise.all(tokens.map(ask)), [401, 401, 200, 200])
  t.equal(
    (await logout(form(issuer.token({ aud: 'b', jti: 'l2', events: EVENTS }, { typ: 'logout+jwt' })))).status,
    200
  )
  t.strictSame(await Promise.all(tokens.map(ask)), [401, 401, 401, 401], 'the second one names the user')
})

t.test('The keys of a client are those of its issuer: of its file, or of its address, however its slash is', async t => {
  const keysOf = (issuer: Issuer) =>
    join(t.testdir({ 'keys.json': JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }) }), 'keys.json')
  const rows: ReadonlyArray<readonly [string, (issuer: Issuer) => object, iss?: string]> = [
    ['a file', issuer => ({ IDP_KEYS_FILE: keysOf(issuer) })],
    ['a mere name', issuer => ({ IDP_ISSUER: NAME, IDP_KEYS_FILE: keysOf(issuer) }), NAME],
    ['an address', ({ url }) => ({ IDP_JWKS_URI: `${url}.well-known/jwks.json` })]
  ]
  for (const [title, values, iss] of rows) {
    const { issuer, logout, ask } = await startRevocation(t, {
      revocation: (_, { url }) => ({ logout: { clientId: CLIENT, issuer: iss ?? url.slice(0, -1) } }),
      values: issuer => ({ IDP_ISSUER: issuer.url, ...values(issuer) })
    })
    const token = issuer.token({ sid: 's1', ...iss && { iss } })
    t.equal(await ask(token), 200, title)
    const asked = issuer.requests.length
    const logoutToken = issuer.token(
      { aud: CLIENT, jti: 'l1', events: EVENTS, sid: 's1', ...iss && { iss } },
      { typ: 'logout+jwt' }
    )
    t.equal((await logout(form(logoutToken))).status, 200, title)
    t.equal(await ask(token), 401, title)
    t.strictSame(issuer.requests.slice(asked), title === 'an address' ? ['/.well-known/jwks.json'] : [], title)
  }
})

t.test('While the keys of the provider cannot be fetched, the answer is 503', async t => {
  const { issuer, logout, logoutToken } = await start(t)
  issuer.outage = 500
  const answer = await logout(form(logoutToken()))
  t.strictSame([answer.status, answer.headers.get('retry-after')], [503, '1'])
})

t.test('A logout token by another algorithm than those of the client is refused', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const rows: ReadonlyArray<readonly [client: object, values: Record<string, unknown>, accepted: readonly string[]]> = [
    [{}, {}, ['RS256']],
    [{}, { IDP_ALGS: 'RS256 ES256' }, ['RS256', 'ES256']],
    [{ algs: ['ES256'] }, {}, ['ES256']],
    [{ algs: 'RS256' }, { IDP_ALGS: 'RS256 ES256' }, ['RS256']]
  ]
  for (const [client, values, accepted] of rows) {
    const { issuer, logout, ask } = await startRevocation(t, {
      revocation: () => ({ logout: { clientId: CLIENT, ...client } }),
      values
    })
    issuer.keys.push({
      kid: 'e1',
      privateKey,
      jwk: { ...publicKey.export({ format: 'jwk' }), kid: 'e1', use: 'sig', alg: 'ES256' }
    })
    for (const [alg, kid] of [['RS256', 'k1'], ['ES256', 'e1']] as const) {
      const claims = issuer.claims({ aud: CLIENT, jti: 'l1', events: EVENTS, sid: alg })
      const token = encodeJws(
        { alg, typ: 'logout+jwt', kid },
        claims,
        input =>
          alg === 'RS256'
            ? sign('sha256', input, issuer.keys[0]!.privateKey)
            : sign('sha256', input, { key: privateKey, dsaEncoding: 'ieee-p1363' })
      )
      const answer = await logout(form(token))
      const body = await answer.text()
      const isAccepted = accepted.includes(alg)
      t.strictSame(
        [answer.status, body],
        isAccepted
          ? [200, '']
          : [
              400,
              '{"error":"invalid_request","error_description":"The token is signed with an algorithm that is not ' +
            'accepted here."}'
            ],
        `${JSON.stringify([client, values])} ${alg}`
      )
      t.equal(await ask(issuer.token({ sid: alg })), isAccepted ? 401 : 200)
    }
  }
})

t.test('A logout token waits for the keys of its issuer, also while refusals are only observed', async t => {
  const issuer = await startIssuer(t)
  const keys = createServer((_request, response) => {
    setTimeout(() => response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) })), 1000)
  })
  const jwksUri = `http://127.0.0.1:${await listen(t, keys)}/`
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(holdfast, {
    idp: { issuer: issuer.url, audience: AUDIENCE, jwksUri },
    revocation: { logout: { clientId: CLIENT } },
    server: { observe: dayIn(1) }
  })
  const token = issuer.token({ aud: CLIENT, jti: 'l1', events: EVENTS, sid: 's1' }, { typ: 'logout+jwt' })
  const { statusCode } = await app.inject({
    method: 'POST',
    url: '/revocation/logout',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: String(form(token))
  })
  t.equal(statusCode, 200)
})
