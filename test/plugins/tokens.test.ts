import { createHmac, sign } from 'node:crypto'
import t from 'tap'
import type { RefusalReason } from '../../lib/refusal.ts'
import { nowSeconds } from '../helpers/clock.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Overrides } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { rowsOf } from '../helpers/rows.ts'

type Row = { claims?: Overrides, header?: Overrides }

t.test('Which tokens pass', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const now = nowSeconds()
  const rows = rowsOf<RefusalReason | 'accepted', Row>({
    accepted: {
      'a token with all that is required': {},
      'the issuer without its trailing slash': { claims: { iss: issuer.url.slice(0, -1) } },
      'the audience in an array': { claims: { aud: ['https://other.example', AUDIENCE] } },
      // A busy machine may take seconds for the rows before it.
      'an expiry in the past, within the tolerance': {
        get claims () {
          return { exp: nowSeconds() - 2 }
        }
      },
      'a start in the future, within the tolerance': { claims: { nbf: now + 3 } },
      'no time of issue': { claims: { iat: undefined } },
      'no typ': { header: { typ: undefined } },
      'typ JWT': { header: { typ: 'JWT' } },
      'typ application/at+jwt': { header: { typ: 'application/at+jwt' } },
      'an access token by its use': { claims: { token_use: 'access', typ: 'Bearer' } },
      'no kid': { header: { kid: undefined } }
    },
    token_issuer: { 'another issuer': { claims: { iss: 'https://other.example/' } } },
    token_claim_invalid: { 'no audience': { claims: { aud: undefined } } },
    token_expired: { 'an expiry in the past, beyond the tolerance': { claims: { exp: now - 6 } } },
    token_not_yet_valid: { 'a start in the future, beyond the tolerance': { claims: { nbf: now + 60 } } },
    token_type: {
      'typ of an identity token': { header: { typ: 'id+jwt' } },
      'typ of a proof': { header: { typ: 'dpop+jwt' } }
    },
    token_kind: {
      'a security event': { claims: { events: { 'https://schemas.openid.net/secevent/caep/event-type/session-revoked': {} } }, header: { typ: undefined } },
      'a logout token': { claims: { events: { 'http://schemas.openid.net/event/backchannel-logout': {} }, sid: 's' }, header: { typ: 'JWT' } },
      'events that are null, before any key is looked up': { claims: { events: null }, header: { kid: 'other' } },
      'a refresh token by its typ claim': { claims: { typ: 'Refresh' } },
      'an ID token by its use': { claims: { token_use: 'id' } }
    },
    token_critical: { 'an unknown crit': { header: { crit: ['exp'], exp: 1 } } },
    token_malformed: { 'a kid that is a number': { header: { kid: 7 } } },
    token_key_unknown: {
      'a kid that is not published': { header: { kid: 'other' } },
      'a kid with line breaks': { header: { kid: 'k1\r\nX: y' } }
    },
    token_algorithm: {
      'alg PS256': { header: { alg: 'PS256' } },
      'alg none': { header: { alg: 'none' } },
      'alg with line breaks and other letters': { header: { alg: 'RS256\r\nX-Evil: 1 \u0440\u0443\u0441' } }
    },
    token_binding_unusable: {
      'a binding by an empty thumbprint': { claims: { cnf: { jkt: '' } } },
      'a binding only by a certificate': { claims: { cnf: { 'x5t#S256': 'abc' } } },
      'a binding only by a certificate, before any key is looked up': { claims: { cnf: { 'x5t#S256': 'abc' } }, header: { kid: 'other' } },
      'a binding only by an unknown member': { claims: { cnf: { 'jkt#S512': 'abc' } } },
      'an empty binding': { claims: { cnf: {} } },
      'a binding that is null': { claims: { cnf: null } },
      'a binding that is text': { claims: { cnf: 'jkt' } }
    },
    token_bound: { 'a binding by a key, beside an unknown member': { claims: { cnf: { jkt: 'abc', 'jkt#S512': 'abc' } } } }
  })
  for (const { title, value: { claims = {}, header = {} }, outcome: expected } of rows) {
    const outcome = await callBearer(running, issuer.token(claims, header))
    if (expected === 'accepted') {
      t.strictSame([outcome.status, outcome.headers['www-authenticate']], [200, undefined], title)
    } else expectRefusal(t, outcome, expected, 'Bearer', title)
  }
})

t.test('Signatures', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const refused = async (token: string, reason: RefusalReason, title: string) =>
    expectRefusal(t, await callBearer(running, token), reason, 'Bearer', title)

  const token = issuer.token()
  t.equal((await callBearer(running, token)).status, 200)
  const flipped = token.slice(0, -10) + (token.at(-10) === 'A' ? 'B' : 'A') + token.slice(-9)
  await refused(flipped, 'token_signature', 'one bit of the signature changed, although the token passed before')
  const [header, payload, signature] = token.split('.')
  await refused(
    `${header}.${Buffer.from(JSON.stringify(issuer.claims({ sub: 'other' }))).toString('base64url')}.${signature}`,
    'token_signature',
    'other claims under the same signature'
  )
  await refused(`${header}.${payload}.`, 'token_malformed', 'no signature')
  await refused(
    issuer.token({}, { kid: 'k1' }, makeIssuerKey('k1')),
    'token_signature',
    'another key under a published kid'
  )
  await refused(issuer.token({}, { kid: undefined }, makeIssuerKey('k1')), 'token_signature', 'another key and no kid')
  const hmac = encodeJws(
    { alg: 'HS256', kid: 'k1' },
    issuer.claims(),
    input => createHmac('sha256', JSON.stringify(issuer.keys[0]!.jwk)).update(input).digest()
  )
  await refused(hmac, 'token_algorithm', 'a secret made of the public key')
  const sha512 = encodeJws(
    { alg: 'RS256', kid: 'k1' },
    issuer.claims(),
    input => sign('sha512', input, issuer.keys[0]!.privateKey)
  )
  await refused(sha512, 'token_signature', 'the right key with another digest')
})

t.test('Any value of Authorization is answered with 401, a well-formed challenge and no call to the provider', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  await callBearer(running, issuer.token())
  const calls = issuer.requests.length
  const b64 = (text: string) => Buffer.from(text).toString('base64url')
  const latin1 = (text: string) => Buffer.from(text, 'latin1')
  const deep = `${'['.repeat(2000)}${']'.repeat(2000)}`
  const schemes: Record<string, Partial<Record<RefusalReason, Record<string, string[]>>>> = {
    '': {
      credentials_missing: {
        'no line': [],
        'an empty line': ['Authorization:'],
        'a scheme with nothing after it': ['Authorization: Bearer'],
        'a scheme with spaces after it': ['Authorization: Bearer    '],
        'DPoP with nothing after it': ['Authorization: DPoP']
      },
      scheme_not_offered: {
        'another scheme': ['Authorization: Basic dXNlcjpwYXNz'],
        'another scheme with parameters': ['Authorization: Digest username="a", realm="b"'],
        'a scheme that begins like ours': ['Authorization: BearerX abc'],
        'a tab between': ['Authorization: Bearer\tabc']
      },
      authorization_repeated: {
        'two lines, of which the first is of another scheme': ['Authorization: Basic abc', 'Authorization: Bearer abc']
      }
    },
    Bearer: {
      authorization_malformed: {
        'two tokens': ['Authorization: Bearer abc def'],
        ...Object.fromEntries(
          [...'!"#$%&\'()*,:;<>?@[\\]^`{|}'].map(sign => [`the sign ${sign}`, [`Authorization: Bearer ab${sign}c`]])
        ),
        'a tab before it': ['Authorization: Bearer \tabc'],
        'bytes above 127': ['Authorization: Bearer abc\xe9'],
        'padding in the middle': ['Authorization: Bearer ab=c']
      },
      authorization_repeated: { 'two lines': ['Authorization: Bearer abc', 'Authorization: Bearer abc'] },
      token_malformed: {
        'no JWT': bearerLines('abc'),
        padding: bearerLines('YQ=='),
        'two segments': bearerLines('e30.e30'),
        'four segments': bearerLines('e30.e30.e30.e30'),
        'five segments': bearerLines('e30.e30.e30.e30.e30'),
        'empty segments': bearerLines('..'),
        '8 KiB of noise': bearerLines('A'.repeat(8192)),
        '8 KiB of dots': bearerLines('.'.repeat(8192)),
        'a header that is an array': bearerLines(`${b64('[]')}.e30.AAAA`),
        'a header that is null': bearerLines(`${b64('null')}.e30.AAAA`),
        'a header that is no JSON': bearerLines(`${b64('{')}.e30.AAAA`),
        'a header that is no UTF-8': bearerLines(
          issuer.rawToken(latin1('{"alg":"RS256","kid":"k1","x":"\u00e9"}'), JSON.stringify(issuer.claims()))
        ),
        'claims that are no UTF-8': bearerLines(
          issuer.rawToken('{"alg":"RS256","kid":"k1"}', latin1(JSON.stringify(issuer.claims({ name: '\u00e9' }))))
        ),
        'claims that are text': bearerLines(`${b64('{"alg":"RS256"}')}.${b64('"a"')}.AAAA`),
        'bits beyond the last byte': bearerLines(`${b64('{"alg":"RS256"}')}.e31.AAAA`),
        'a token in the other alphabet': bearerLines('ab+/.ab+/.ab+/')
      },
      token_claim_invalid: { 'claims nested deeply': bearerLines(`${b64('{"alg":"RS256"}')}.${b64(`{"a":${deep}}`)}.AAAA`) },
      token_issuer: {
        'a token of another issuer': bearerLines(issuer.token({ iss: 'https://other.example/' }, { kid: 'unknown' }))
      }
    },
    DPoP: {
      authorization_malformed: { 'a comma and another scheme': ['Authorization: DPoP abc, Bearer def'] },
      authorization_repeated: { 'two lines of two schemes': ['Authorization: DPoP abc', 'authorization: Bearer abc'] }
    }
  }
  for (const [scheme, table] of Object.entries(schemes)) {
    for (const { title, value: lines, outcome: reason } of rowsOf(table)) {
      expectRefusal(t, await call(running, { lines }), reason, scheme, title)
    }
  }
  const inUtf8 = issuer.rawToken(
    '{"alg":"RS256","kid":"k1","x":"\u00e9"}',
    JSON.stringify(issuer.claims({ name: '\u00e9' }))
  )
  t.equal((await callBearer(running, inUtf8)).status, 200, 'the twin in UTF-8')
  t.equal(issuer.requests.length, calls, 'there was no call to the provider')

  const twin = issuer.rawToken(
    '{"alg":"none","alg":"RS256","kid":"k1"}',
    JSON.stringify(issuer.claims()).replace('{', '{"iss":"x",')
  )
  await expectBearerRefusal(t, running, twin.replace(/.{10}$/, 'A'.repeat(10)), 'token_signature', 'duplicate members: the last one counts')
  t.strictSame(
    issuer.requests.slice(calls),
    ['/.well-known/openid-configuration', '/keys'],
    'only a signature that fails under the key of its kid fetches the keys again'
  )
  t.equal((await callBearer(running, twin)).status, 200, 'duplicate members under a good signature')
  for (const scheme of ['bearer', 'BEARER', 'Bearer    ']) {
    t.equal(
      (await call(running, { lines: [`Authorization: ${scheme} ${issuer.token()}`] })).status,
      200,
      `the scheme as ${JSON.stringify(scheme)}`
    )
  }
})

t.test('Claims may be nested 64 deep, and no content is a fault, in either profile', async t => {
  const issuer = await startIssuer(t)
  /** The claims themselves are the first level. */
  const nested = (levels: number, open = '[', close = ']') =>
    JSON.parse(`${open.repeat(levels - 2)}{}${close.repeat(levels - 2)}`)
  const CUSTOM = 'https://api.test.example/custom'
  const deep = [nested(65), nested(3000), nested(1000, '{"a":', '}')]
  for (const API_PROFILE of ['1', '2']) {
    const running = await startApp(t, issuer, { API_PROFILE, IDP_CUSTOM_CLAIM: CUSTOM })
    const profile = (token: string) => callBearer(running, token, '/api/profile')
    for (const name of [CUSTOM, 'permissions', 'other']) {
      for (const value of deep) {
        expectRefusal(
          t,
          await profile(issuer.token({ [name]: value })),
          'token_claim_invalid',
          'Bearer',
          `${name} in profile ${API_PROFILE}`
        )
      }
      t.equal((await profile(issuer.token({ [name]: nested(64) }))).status, 200, `${name} in profile ${API_PROFILE}`)
    }
    const calls = issuer.requests.length
    expectRefusal(
      t,
      await profile(issuer.token({ [CUSTOM]: nested(65) }, { kid: 'unknown' })),
      'token_claim_invalid',
      'Bearer',
      'before any key is looked up'
    )
    t.equal(issuer.requests.length, calls)

    const raw = JSON.stringify(issuer.claims()).slice(0, -1)
    const members = [
      '"__proto__":{"sub":7}',
      `"${CUSTOM}":{"__proto__":1,"toJSON":2,"constructor":null}`,
      '"toJSON":"x"',
      `"${CUSTOM}":1e999`,
      '"email":"\\ud800"',
      '"sub":"\\ud800"',
      '"scope":"\\u0000"',
      `"${CUSTOM}":"${'x'.repeat(8000)}"`,
      `"permissions":[${'"a",'.repeat(2000)}"b"]`,
      `"aud":[${'"a",'.repeat(2000)}"${AUDIENCE}"]`,
      '"permissions":{"length":1}',
      '"cnf":null,"cnf":{"jkt":{"__proto__":[]}}'
    ]
    for (const member of members) {
      const { status, body } = await profile(issuer.rawToken('{"alg":"RS256","kid":"k1"}', `${raw},${member}}`))
      t.equal(status, member.includes('cnf') ? 401 : 200, member.slice(0, 60))
      t.type(body, 'object', 'as JSON')
    }
  }
})

t.test('An unrouted request is answered in the configured form', async t => {
  const issuer = await startIssuer(t)
  for (const form of ['default', 'detailed']) {
    const running = await startApp(t, issuer, { ERROR_BODY: form })
    const body = (status: number, error: string, message: string) =>
      form === 'default' ? { statusCode: status, error, message } : { detail: message }
    t.strictSame(
      (await call(running, { path: '/%zz' })).body,
      body(400, 'Bad Request', 'The request target is not valid.')
    )
    t.strictSame((await call(running, { path: '/nothing' })).body, body(404, 'Not Found', 'There is no such resource.'))
    t.strictSame((await call(running, { path: '/api/private/' })).status, 404, 'a trailing slash is another path')
    t.strictSame(
      (await call(running, { path: '/api/private', method: 'POST' })).status,
      404,
      'and another method another resource'
    )
    t.equal((await call(running, { path: `/${'a'.repeat(9000)}` })).status, 404, 'a long path')
    const tooMuch = await call(running, { lines: [`X-Noise: ${'a'.repeat(20_000)}`] })
    t.strictSame([tooMuch.status, tooMuch.body], [
      431,
      body(431, 'Request Header Fields Too Large', 'The request is not valid HTTP, too large or too slow.')
    ])
    t.equal((await call(running, { method: 'NO SUCH THING' })).status, 400)
  }
})

t.test('The detailed form of the body', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { ERROR_BODY: 'detailed' })
  t.strictSame((await call(running)).body, {
    error: 'Unauthorized',
    message: 'A valid access token is needed.',
    details: 'This resource needs an access token.'
  })
  t.strictSame((await callBearer(running, issuer.token(), '/api/admin')).body, {
    error: 'Forbidden',
    message: 'The access token lacks a permission.',
    details: 'The access token lacks a permission that this resource needs.'
  })
})

t.test('An outage of the provider is not a bad token', async t => {
  const issuer = await startIssuer(t)
  issuer.outage = 500
  const running = await startApp(t, issuer)
  const outcome = await callBearer(running, issuer.token())
  expectRefusal(t, outcome, 'keys_unavailable')
  t.equal(outcome.headers['www-authenticate'], undefined)
  t.match(outcome.headers['retry-after'], /^[1-9]\d*$/)
  t.equal((await call(running, { path: '/api/public' })).status, 200)
  t.strictSame((await call(running, { path: '/health/ready' })).body.checks, {
    process: 'ok',
    keys: 'empty',
    replay: 'ok'
  })
  t.equal((await call(running, { path: '/health/live' })).status, 200)
  await expectBearerRefusal(t, running, issuer.token({ aud: 'other' }), 'token_audience', 'what the claims rule out is refused as ever')
})

t.test('A domain with a scheme: every token is refused, and nothing is called', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { IDP_DOMAIN: issuer.url })
  await expectBearerRefusal(t, running, issuer.token(), 'domain_has_scheme')
  t.equal((await call(running, { path: '/api/public' })).status, 200)
  t.strictSame((await call(running, { path: '/health/ready' })).body.checks.keys, 'domain_has_scheme')
  t.strictSame(issuer.requests, [])
})

t.test('When a key is gone, the tokens that it signed are refused', async t => {
  const issuer = await startIssuer(t)
  const [a, b] = [issuer.keys[0]!, makeIssuerKey('k2')]
  const running = await startApp(t, issuer)
  const lines = bearerLines(issuer.token())
  t.equal((await call(running, { lines })).status, 200)
  issuer.keys = [b]
  t.equal(
    (await callBearer(running, issuer.token())).status,
    200,
    'a token of the new key makes the set be fetched'
  )
  expectRefusal(t, await call(running, { lines }), 'token_key_unknown', 'Bearer', 'the token that was verified before')
  t.equal(a.kid, 'k1')
})

t.test('A token without kid is checked again once its key may be a new one', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  t.equal((await callBearer(running, issuer.token({}, { kid: undefined }))).status, 200)
  issuer.keys = [makeIssuerKey('k3')]
  t.equal((await callBearer(running, issuer.token({}, { kid: undefined }))).status, 200)
})
