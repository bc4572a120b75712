import { createHmac, sign } from 'node:crypto'
import t from 'tap'
import type { RefusalReason } from '../../lib/refusal.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, call, expectRefusal } from '../helpers/call.ts'
import { AUDIENCE, makeIssuerKey, startIssuer } from '../helpers/issuer.ts'
import type { Overrides } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'

type Row = [title: string, claims: Overrides, header: Overrides, expected: RefusalReason | 'accepted']

t.test('Which tokens pass', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const now = Math.floor(Date.now() / 1000)
  const rows: Row[] = [
    ['a token with all that is required', {}, {}, 'accepted'],

    ['the issuer without its trailing slash', { iss: issuer.url.slice(0, -1) }, {}, 'accepted'],
    ['the issuer with two', { iss: `${issuer.url}/` }, {}, 'token_issuer'],
    ['another issuer', { iss: 'https://other.example/' }, {}, 'token_issuer'],
    ['no issuer', { iss: undefined }, {}, 'token_claim_invalid'],
    ['an issuer in an array', { iss: [issuer.url] }, {}, 'token_claim_invalid'],

    ['the audience in an array', { aud: ['https://other.example', AUDIENCE] }, {}, 'accepted'],
    ['an array without the audience', { aud: ['https://other.example'] }, {}, 'token_audience'],
    ['an empty array', { aud: [] }, {}, 'token_audience'],
    ['the audience with a slash at its end', { aud: `${AUDIENCE}/` }, {}, 'token_audience'],
    ['no audience', { aud: undefined }, {}, 'token_claim_invalid'],
    ['an audience that is a number', { aud: 7 }, {}, 'token_claim_invalid'],
    ['an array that holds the audience and a number', { aud: [AUDIENCE, 7] }, {}, 'token_claim_invalid'],

    ['an expiry in a minute', { exp: now + 60 }, {}, 'accepted'],
    ['an expiry in the past, within the tolerance', { exp: now - 2 }, {}, 'accepted'],
    ['an expiry in the past, beyond the tolerance', { exp: now - 6 }, {}, 'token_expired'],
    ['no expiry', { exp: undefined }, {}, 'token_claim_invalid'],
    ['an expiry that is text', { exp: String(now + 60) }, {}, 'token_claim_invalid'],
    ['an expiry that is null', { exp: null }, {}, 'token_claim_invalid'],

    ['a start in the past', { nbf: now - 60 }, {}, 'accepted'],
    ['a start in the future, within the tolerance', { nbf: now + 3 }, {}, 'accepted'],
    ['a start in the future, beyond the tolerance', { nbf: now + 60 }, {}, 'token_not_yet_valid'],
    ['a start that is text', { nbf: 'now' }, {}, 'token_claim_invalid'],

    ['no time of issue', { iat: undefined }, {}, 'accepted'],
    ['a time of issue that is text', { iat: 'now' }, {}, 'token_claim_invalid'],
    ['no subject', { sub: undefined }, {}, 'token_claim_invalid'],
    ['an empty subject', { sub: '' }, {}, 'token_claim_invalid'],
    ['a subject that is a number', { sub: 7 }, {}, 'token_claim_invalid'],

    ['no typ', {}, { typ: undefined }, 'accepted'],
    ['typ JWT', {}, { typ: 'JWT' }, 'accepted'],
    ['typ jwt', {}, { typ: 'jwt' }, 'accepted'],
    ['typ AT+JWT', {}, { typ: 'AT+JWT' }, 'accepted'],
    ['typ application/at+jwt', {}, { typ: 'application/at+jwt' }, 'accepted'],
    ['typ of an identity token', {}, { typ: 'id+jwt' }, 'token_type'],
    ['typ of a proof', {}, { typ: 'dpop+jwt' }, 'token_type'],
    ['typ that is a number', {}, { typ: 7 }, 'token_type'],

    ['an unknown crit', {}, { crit: ['exp'], exp: 1 }, 'token_critical'],
    ['an empty crit', {}, { crit: [] }, 'token_critical'],
    ['an unencoded payload announced without crit', {}, { b64: false }, 'token_critical'],
    ['no kid', {}, { kid: undefined }, 'accepted'],
    ['a kid that is a number', {}, { kid: 7 }, 'token_malformed'],
    ['a kid that is not published', {}, { kid: 'other' }, 'token_key_unknown'],
    ['a kid with line breaks', {}, { kid: 'k1\r\nX: y' }, 'token_key_unknown'],

    ['alg RS384', {}, { alg: 'RS384' }, 'token_algorithm'],
    ['alg PS256', {}, { alg: 'PS256' }, 'token_algorithm'],
    ['alg none', {}, { alg: 'none' }, 'token_algorithm'],
    ['alg rs256', {}, { alg: 'rs256' }, 'token_algorithm'],
    ['alg with line breaks and other letters', {}, { alg: 'RS256\r\nX-Evil: 1 \u0440\u0443\u0441' }, 'token_algorithm'],
    ['alg in an array', {}, { alg: ['RS256'] }, 'token_algorithm'],

    ['a binding by an empty thumbprint', { cnf: { jkt: '' } }, {}, 'token_binding_unusable'],
    ['a binding by a thumbprint that is a number', { cnf: { jkt: 7 } }, {}, 'token_binding_unusable'],
    ['a binding by a certificate alone', { cnf: { 'x5t#S256': 'abc' } }, {}, 'token_binding_unusable'],
    ['an empty binding', { cnf: {} }, {}, 'token_binding_unusable'],
    ['a binding that is null', { cnf: null }, {}, 'token_binding_unusable'],
    ['a binding that is text', { cnf: 'jkt' }, {}, 'token_binding_unusable']
  ]
  for (const [title, claims, header, expected] of rows) {
    const outcome = await call(running, { lines: bearerLines(issuer.token(claims, header)) })
    if (expected === 'accepted') t.same([outcome.status, outcome.headers['www-authenticate']], [200, undefined], title)
    else expectRefusal(t, outcome, expected, 'Bearer', title)
  }
})

t.test('Signatures', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  const refused = async (token: string, reason: RefusalReason, title: string) =>
    expectRefusal(t, await call(running, { lines: bearerLines(token) }), reason, 'Bearer', title)

  const token = issuer.token()
  t.equal((await call(running, { lines: bearerLines(token) })).status, 200)
  const flipped = token.slice(0, -10) + (token.at(-10) === 'A' ? 'B' : 'A') + token.slice(-9)
  await refused(flipped, 'token_signature', 'one bit of the signature changed, although the token passed before')
  const [header, payload, signature] = token.split('.')
  await refused(`${header}.${Buffer.from(JSON.stringify(issuer.claims({ sub: 'other' }))).toString('base64url')}.${signature}`, 'token_signature', 'other claims under the same signature')
  await refused(`${header}.${payload}.`, 'token_malformed', 'no signature')
  await refused(issuer.token({}, { kid: 'k1' }, makeIssuerKey('k1')), 'token_signature', 'another key under a published kid')
  await refused(issuer.token({}, { kid: undefined }, makeIssuerKey('k1')), 'token_signature', 'another key and no kid')
  const hmac = encodeJws({ alg: 'HS256', kid: 'k1' }, issuer.claims(), input => createHmac('sha256', JSON.stringify(issuer.keys[0]!.jwk)).update(input).digest())
  await refused(hmac, 'token_algorithm', 'a secret made of the public key')
  const sha512 = encodeJws({ alg: 'RS256', kid: 'k1' }, issuer.claims(), input => sign('sha512', input, issuer.keys[0]!.privateKey))
  await refused(sha512, 'token_signature', 'the right key with another digest')
})

t.test('Anything at all in Authorization is answered 401, with a challenge by the grammar and no call to the provider', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  await call(running, { lines: bearerLines(issuer.token()) })
  const calls = issuer.requests.length
  const b64 = (text: string) => Buffer.from(text).toString('base64url')
  const deep = `${'['.repeat(2000)}${']'.repeat(2000)}`
  const rows: Array<[title: string, lines: string[], reason: RefusalReason, scheme?: string]> = [
    ['no line', [], 'credentials_missing'],
    ['an empty line', ['Authorization:'], 'credentials_missing'],
    ['a scheme with nothing after it', ['Authorization: Bearer'], 'credentials_missing'],
    ['a scheme with spaces after it', ['Authorization: Bearer    '], 'credentials_missing'],
    ['DPoP with nothing after it', ['Authorization: DPoP'], 'credentials_missing'],
    ['another scheme', ['Authorization: Basic dXNlcjpwYXNz'], 'scheme_not_offered'],
    ['another scheme with parameters', ['Authorization: Digest username="a", realm="b"'], 'scheme_not_offered'],
    ['a scheme that begins like ours', ['Authorization: BearerX abc'], 'scheme_not_offered'],
    ['two tokens', ['Authorization: Bearer abc def'], 'authorization_malformed', 'Bearer'],
    ['a tab between', ['Authorization: Bearer\tabc'], 'scheme_not_offered'],
    ['a comma and another scheme', ['Authorization: DPoP abc, Bearer def'], 'authorization_malformed', 'DPoP'],
    ['quotes', ['Authorization: Bearer "abc"'], 'authorization_malformed', 'Bearer'],
    ['bytes above 127', ['Authorization: Bearer abc\xe9'], 'authorization_malformed', 'Bearer'],
    ['padding in the middle', ['Authorization: Bearer ab=c'], 'authorization_malformed', 'Bearer'],
    ['two lines', ['Authorization: Bearer abc', 'Authorization: Bearer abc'], 'authorization_repeated', 'Bearer'],
    ['two lines of two schemes', ['Authorization: DPoP abc', 'authorization: Bearer abc'], 'authorization_repeated', 'DPoP'],
    ['two lines, of which the first is of another scheme', ['Authorization: Basic abc', 'Authorization: Bearer abc'], 'authorization_repeated'],
    ['no JWT', bearerLines('abc'), 'token_malformed', 'Bearer'],
    ['padding', bearerLines('YQ=='), 'token_malformed', 'Bearer'],
    ['two segments', bearerLines('e30.e30'), 'token_malformed', 'Bearer'],
    ['four segments', bearerLines('e30.e30.e30.e30'), 'token_malformed', 'Bearer'],
    ['five segments', bearerLines('e30.e30.e30.e30.e30'), 'token_malformed', 'Bearer'],
    ['empty segments', bearerLines('..'), 'token_malformed', 'Bearer'],
    ['8 KiB of noise', bearerLines('A'.repeat(8192)), 'token_malformed', 'Bearer'],
    ['8 KiB of dots', bearerLines('.'.repeat(8192)), 'token_malformed', 'Bearer'],
    ['a header that is an array', bearerLines(`${b64('[]')}.e30.AAAA`), 'token_malformed', 'Bearer'],
    ['a header that is null', bearerLines(`${b64('null')}.e30.AAAA`), 'token_malformed', 'Bearer'],
    ['a header that is no JSON', bearerLines(`${b64('{')}.e30.AAAA`), 'token_malformed', 'Bearer'],
    ['a header that is no UTF-8', bearerLines(`${Buffer.from([0x22, 0xff, 0x22]).toString('base64url')}.e30.AAAA`), 'token_malformed', 'Bearer'],
    ['claims that are text', bearerLines(`${b64('{"alg":"RS256"}')}.${b64('"a"')}.AAAA`), 'token_malformed', 'Bearer'],
    ['claims nested deeply', bearerLines(`${b64('{"alg":"RS256"}')}.${b64(`{"a":${deep}}`)}.AAAA`), 'token_claim_invalid', 'Bearer'],
    ['bits beyond the last byte', bearerLines(`${b64('{"alg":"RS256"}')}.e31.AAAA`), 'token_malformed', 'Bearer'],
    ['a token in the other alphabet', bearerLines('ab+/.ab+/.ab+/'), 'token_malformed', 'Bearer'],
    ['a token of another issuer', bearerLines(issuer.token({ iss: 'https://other.example/' }, { kid: 'unknown' })), 'token_issuer', 'Bearer'],
    ['duplicate members: the last one counts', bearerLines(issuer.rawToken('{"alg":"none","alg":"RS256","kid":"k1"}', JSON.stringify(issuer.claims()).replace('{', '{"iss":"x",')).replace(/.{10}$/, 'A'.repeat(10))), 'token_signature', 'Bearer']
  ]
  for (const [title, lines, reason, scheme] of rows) expectRefusal(t, await call(running, { lines }), reason, scheme, title)
  t.equal(issuer.requests.length, calls, 'the provider was not asked')

  const twin = issuer.rawToken('{"alg":"none","alg":"RS256","kid":"k1"}', JSON.stringify(issuer.claims()).replace('{', '{"iss":"x",'))
  t.equal((await call(running, { lines: bearerLines(twin) })).status, 200, 'duplicate members under a good signature')
  for (const scheme of ['bearer', 'BEARER', 'Bearer    ']) {
    t.equal((await call(running, { lines: [`Authorization: ${scheme} ${issuer.token()}`] })).status, 200, `the scheme as ${JSON.stringify(scheme)}`)
  }
})

t.test('Claims may be nested 64 deep, and whatever they hold is no fault, in either profile', async t => {
  const issuer = await startIssuer(t)
  /** The claims themselves are the first level. */
  const nested = (levels: number, open = '[', close = ']') => JSON.parse(`${open.repeat(levels - 2)}{}${close.repeat(levels - 2)}`)
  const CUSTOM = 'https://api.test.example/custom'
  const deep = [nested(65), nested(3000), nested(1000, '{"a":', '}')]
  for (const API_PROFILE of ['1', '2']) {
    const running = await startApp(t, issuer, { API_PROFILE, IDP_CUSTOM_CLAIM: CUSTOM })
    const profile = (token: string) => call(running, { path: '/api/profile', lines: bearerLines(token) })
    for (const name of [CUSTOM, 'permissions', 'other']) {
      for (const value of deep) expectRefusal(t, await profile(issuer.token({ [name]: value })), 'token_claim_invalid', 'Bearer', `${name} in profile ${API_PROFILE}`)
      t.equal((await profile(issuer.token({ [name]: nested(64) }))).status, 200, `${name} in profile ${API_PROFILE}`)
    }
    const calls = issuer.requests.length
    expectRefusal(t, await profile(issuer.token({ [CUSTOM]: nested(65) }, { kid: 'unknown' })), 'token_claim_invalid', 'Bearer', 'before any key is asked for')
    t.equal(issuer.requests.length, calls)

    const raw = JSON.stringify(issuer.claims()).slice(0, -1)
    const members = ['"__proto__":{"sub":7}', `"${CUSTOM}":{"__proto__":1,"toJSON":2,"constructor":null}`, '"toJSON":"x"', `"${CUSTOM}":1e999`, '"email":"\\ud800"', '"sub":"\\ud800"', '"scope":"\\u0000"',
      `"${CUSTOM}":"${'x'.repeat(8000)}"`, `"permissions":[${'"a",'.repeat(2000)}"b"]`, `"aud":[${'"a",'.repeat(2000)}"${AUDIENCE}"]`, '"permissions":{"length":1}', '"cnf":null,"cnf":{"jkt":{"__proto__":[]}}']
    for (const member of members) {
      const { status, body } = await profile(issuer.rawToken('{"alg":"RS256","kid":"k1"}', `${raw},${member}}`))
      t.equal(status, member.includes('cnf') ? 401 : 200, member.slice(0, 60))
      t.type(body, 'object', 'as JSON')
    }
  }
})

t.test('What cannot be routed is answered in the configured form', async t => {
  const issuer = await startIssuer(t)
  for (const form of ['default', 'detailed']) {
    const running = await startApp(t, issuer, { ERROR_BODY: form })
    const body = (status: number, error: string, message: string) => form === 'default' ? { statusCode: status, error, message } : { detail: message }
    t.same((await call(running, { path: '/%zz' })).body, body(400, 'Bad Request', 'The request target is not valid.'))
    t.same((await call(running, { path: '/nothing' })).body, body(404, 'Not Found', 'There is no such resource.'))
    t.same((await call(running, { path: '/api/private/' })).status, 404, 'a trailing slash is another path')
    t.same((await call(running, { path: '/api/private', method: 'POST' })).status, 404, 'and another method another resource')
    t.equal((await call(running, { path: `/${'a'.repeat(9000)}` })).status, 404, 'a long path')
    const tooMuch = await call(running, { lines: [`X-Noise: ${'a'.repeat(20_000)}`] })
    t.same([tooMuch.status, tooMuch.body], [431, body(431, 'Request Header Fields Too Large', 'The request is not valid HTTP, too large or too slow.')])
    t.equal((await call(running, { method: 'NO SUCH THING' })).status, 400)
  }
})

t.test('The detailed form of the body', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { ERROR_BODY: 'detailed' })
  t.same((await call(running)).body, { error: 'Unauthorized', message: 'A valid access token is needed.', details: 'This resource needs an access token.' })
  t.same((await call(running, { path: '/api/admin', lines: bearerLines(issuer.token()) })).body, {
    error: 'Forbidden', message: 'The access token lacks a permission.', details: 'The access token lacks a permission that this resource needs.'
  })
})

t.test('An outage of the provider is not a bad token', async t => {
  const issuer = await startIssuer(t)
  issuer.outage = 500
  const running = await startApp(t, issuer)
  const outcome = await call(running, { lines: bearerLines(issuer.token()) })
  expectRefusal(t, outcome, 'keys_unavailable')
  t.equal(outcome.headers['www-authenticate'], undefined)
  t.match(outcome.headers['retry-after'], /^[1-9]\d*$/)
  t.equal((await call(running, { path: '/api/public' })).status, 200)
  t.same((await call(running, { path: '/health/ready' })).body.checks, { process: 'ok', keys: 'empty', replay: 'ok' })
  t.equal((await call(running, { path: '/health/live' })).status, 200)
  expectRefusal(t, await call(running, { lines: bearerLines(issuer.token({ aud: 'other' })) }), 'token_audience', 'Bearer', 'what the claims rule out is refused as ever')
})

t.test('A domain with a scheme: every token is refused, and nothing is called', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { IDP_DOMAIN: issuer.url })
  expectRefusal(t, await call(running, { lines: bearerLines(issuer.token()) }), 'domain_has_scheme', 'Bearer')
  t.equal((await call(running, { path: '/api/public' })).status, 200)
  t.same((await call(running, { path: '/health/ready' })).body.checks.keys, 'domain_has_scheme')
  t.same(issuer.requests, [])
})

t.test('A key that is gone takes the tokens along that it signed', async t => {
  const issuer = await startIssuer(t)
  const [a, b] = [issuer.keys[0]!, makeIssuerKey('k2')]
  const running = await startApp(t, issuer)
  const lines = bearerLines(issuer.token())
  t.equal((await call(running, { lines })).status, 200)
  issuer.keys = [b]
  t.equal((await call(running, { lines: bearerLines(issuer.token()) })).status, 200, 'a token of the new key makes the set be fetched')
  expectRefusal(t, await call(running, { lines }), 'token_key_unknown', 'Bearer', 'the token that was verified before')
  t.equal(a.kid, 'k1')
})

t.test('Whether a token without kid passes is asked again once its key may be a new one', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  t.equal((await call(running, { lines: bearerLines(issuer.token({}, { kid: undefined })) })).status, 200)
  issuer.keys = [makeIssuerKey('k3')]
  t.equal((await call(running, { lines: bearerLines(issuer.token({}, { kid: undefined })) })).status, 200)
})
