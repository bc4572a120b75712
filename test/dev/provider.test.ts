import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { get } from 'node:http'
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import t from 'tap'
import { containing, exactly } from '../helpers/containing.ts'
import { BadUsage } from '../../cli/bad-usage.ts'
import { readOwnClient } from '../../dev/provider/own-client.ts'
import { startProvider, type LocalProvider } from '../../dev/provider/provider.ts'
import { CUSTOM_CLAIM } from '../../dev/provider/tenant-configuration.ts'
import { USERS } from '../../dev/provider/users.ts'
import { createVisitor } from '../helpers/visitor.ts'

const audience = 'https://holdfast.example/api'
const origin = 'http://localhost:5999'
const redirectUri = `${origin}/`
const provider = await startProvider({ audience, redirectUris: [redirectUri] })
t.teardown(() => provider.close())

const grant = {
  grant_type: 'client_credentials',
  client_id: provider.clientId,
  client_secret: provider.clientSecret,
  audience
}

interface Answer {
  status: number
  headers: Headers
  body: Record<string, any>
}

async function post (body: string, type: string, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(provider.tokenEndpoint, {
    method: 'POST',
    body,
    headers: { 'content-type': type, ...headers }
  })
  return { status: response.status, headers: response.headers, body: await response.json() as Record<string, any> }
}

const json = (body: unknown) => post(JSON.stringify(body), 'application/json')
const form = (body: Record<string, string>) =>
  post(String(new URLSearchParams(body)), 'application/x-www-form-urlencoded')

t.test('The provider answers only to its own host', async t => {
  const statusFor = (host: string) =>
    new Promise((resolve, reject) => {
      get({ port: provider.port, path: '/.well-known/openid-configuration', headers: { host } }, ({ statusCode }) =>
        resolve(statusCode!)).once('error', reject)
    })
  t.equal(await statusFor(`localhost:${provider.port}`), 200)
  t.equal(await statusFor(`evil.example:${provider.port}`), 421)
})

t.test('The discovery document names the endpoints that clients of hosted tenants know.', async t => {
  const document = await (await fetch(`${provider.issuer}/.well-known/openid-configuration`)).json() as Record<
    string,
    any
  >
  t.hasStrict(document, {
    issuer: provider.issuer,
    token_endpoint: `${provider.issuer}/oauth/token`,
    authorization_endpoint: `${provider.issuer}/authorize`,
    jwks_uri: `${provider.issuer}/.well-known/jwks.json`
  })
  t.ok(document.dpop_signing_alg_values_supported.includes('ES256'))
  t.notOk('userinfo_endpoint' in document, 'where no token would pass: clients that find it fail')
})

t.test(
  'A JSON body gives an RS256 access token for the audience, with scope, permissions, email and a namespaced ' +
    'claim.',
  async t => {
    const { status, body } = await json({ ...grant, scope: 'read:messages admin' })
    t.equal(status, 200)
    t.equal(body['token_type'], 'Bearer')
    const keys = createRemoteJWKSet(new URL(`${provider.issuer}/.well-known/jwks.json`))
    const { payload, protectedHeader } = await jwtVerify(body['access_token'], keys, {
      issuer: provider.issuer,
      audience,
      typ: 'at+jwt'
    })
    t.match(protectedHeader, { alg: exactly('RS256'), kid: String })
    t.hasStrict(payload, {
      sub: provider.clientId,
      scope: 'read:messages admin',
      permissions: ['read:messages', 'admin'],
      email: 'holdfast-cli@holdfast.example',
      [CUSTOM_CLAIM]: 'local'
    })
    t.equal(payload.exp! - payload.iat!, 86_400)
  }
)

t.test('A form body gives the same, and a token without a scope if none is requested.', async t => {
  const { status, body } = await form(grant)
  t.equal(status, 200)
  const claims = decodeJwt(body['access_token'])
  t.equal(claims.aud, audience)
  t.notOk('scope' in claims)
  t.strictSame(claims['permissions'], [])
})

t.test('The API is named by resource as well as by audience.', async t => {
  const { audience: resource, ...rest } = grant
  t.equal((await form({ ...rest, resource })).status, 200)
  const push = async (audience: string) => {
    const { status } = await fetch(`${provider.issuer}/request`, {
      method: 'POST',
      body: new URLSearchParams({
        client_id: provider.browserClientId,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope: 'openid',
        code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
        code_challenge_method: 'S256',
        audience
      })
    })
    return status
  }
  t.equal(await push(audience), 201)
  t.equal(await push('https://elsewhere.example/'), 400, 'in a pushed authorization request (RFC 9126) too')
})

t.test('A token request that cannot be read or granted is a clean error.', async t => {
  const rows = [
    { title: 'nothing', text: '', status: 400, error: 'invalid_request' },
    { title: 'broken JSON', text: '{"grant_type":', status: 400, error: 'invalid_request' },
    { title: 'an array', text: '[]', status: 400, error: 'invalid_request' },
    { title: 'null', text: 'null', status: 400, error: 'invalid_request' },
    {
      title: 'a number for a string',
      text: JSON.stringify({ ...grant, scope: 7 }),
      status: 400,
      error: 'invalid_request'
    },
    {
      title: 'more than 32 KiB',
      text: JSON.stringify({ ...grant, scope: 'a'.repeat(40_000) }),
      status: 413,
      error: 'invalid_request'
    },
    {
      title: 'another API',
      text: JSON.stringify({ ...grant, audience: 'https://elsewhere.example/' }),
      status: 400,
      error: 'invalid_target'
    },
    {
      title: 'a wrong secret',
      text: JSON.stringify({ ...grant, client_secret: 'wrong' }),
      status: 401,
      error: 'invalid_client'
    },
    {
      title: 'another grant',
      text: JSON.stringify({ ...grant, grant_type: 'password' }),
      status: 400,
      error: 'unsupported_grant_type'
    }
  ]
  for (const { title, text, status, error } of rows) {
    const answer = await post(text, 'application/json; charset=utf-8')
    t.equal(answer.status, status, title)
    t.equal(answer.body['error'], error, title)
  }
  t.equal((await json(grant)).status, 200, 'and the accepted one')
})

t.test('The token endpoint answers the playground across origins, and no other origin.', async t => {
  const preflight = await fetch(provider.tokenEndpoint, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'dpop' }
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers.get('access-control-allow-origin'), origin)
  t.equal(preflight.headers.get('access-control-allow-headers'), 'dpop')
  const body = String(new URLSearchParams(grant))
  const type = 'application/x-www-form-urlencoded'
  const own = await post(body, type, { origin })
  t.equal(own.status, 200)
  t.equal(own.headers.get('access-control-allow-origin'), origin)
  const other = await post(body, type, { origin: 'http://localhost:6000' })
  t.equal(other.status, 400)
  t.equal(other.headers.get('access-control-allow-origin'), null)
})

t.test('A browser client that names the user logs in without a page and gets a token bound to its key.', async t => {
  const { as, client, keys } = await browser(provider)
  const { code, verifier } = await authorize(provider, as, client)
  const dpop = oauth.DPoP(client, keys)
  const response = await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), code, redirectUri, verifier, {
    DPoP: dpop,
    [oauth.allowInsecureRequests]: true
  })
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response)
  t.equal(tokens.token_type, 'dpop')
  const claims = decodeJwt(tokens.access_token)
  t.hasStrict(claims, {
    sub: 'grace',
    aud: audience,
    scope: 'read:messages',
    email: 'grace@holdfast.example',
    cnf: { jkt: await dpop.calculateThumbprint() }
  })
  t.hasStrict(decodeJwt(tokens.id_token!), { sub: 'grace', email: 'grace@holdfast.example' })
})

t.test('A code is useless without its PKCE verifier.', async t => {
  const { as, client } = await browser(provider)
  const { code } = await authorize(provider, as, client)
  const response = await oauth.authorizationCodeGrantRequest(
    as,
    client,
    oauth.None(),
    code,
    redirectUri,
    oauth.generateRandomCodeVerifier(),
    { [oauth.allowInsecureRequests]: true }
  )
  t.equal(response.status, 400)
  t.hasStrict(await response.json(), { error: 'invalid_grant' })
})

t.test('A login without PKCE is refused.', async t => {
  const query = new URLSearchParams({
    client_id: provider.browserClientId,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: redirectUri
  })
  const response = await fetch(`${provider.issuer}/authorize?${query}`, { redirect: 'manual' })
  t.match(response.headers.get('location'), /error=invalid_request/)
})

t.test('If the tenant requires nonces, a client gets one with the refusal and then its token.', async t => {
  const strict = await startProvider({ audience, nonce: true })
  t.teardown(() => strict.close())
  const { as, keys } = await browser(strict)
  const client: oauth.Client = { client_id: strict.clientId }
  const dpop = oauth.DPoP(client, keys)
  const request = () =>
    oauth.clientCredentialsGrantRequest(
      as,
      client,
      oauth.ClientSecretPost(strict.clientSecret),
      { audience },
      { DPoP: dpop, [oauth.allowInsecureRequests]: true }
    )
  const refused = await request().then(response => oauth.processClientCredentialsResponse(as, client, response)).catch(
    error => error
  )
  t.ok(oauth.isDPoPNonceError(refused))
  const { access_token: token } = await oauth.processClientCredentialsResponse(as, client, await request())
  t.match(decodeJwt(token), { cnf: { jkt: String } })
})

t.test('A clock that is passed in sets the times of the tokens; each start has keys of its own.', async t => {
  const later = await startProvider({
    audience,
    now: () => 4_000_000_000,
    tokenTtl: 60,
    clientSecret: randomBytes(24).toString('hex')
  })
  t.teardown(() => later.close())
  const response = await fetch(later.tokenEndpoint, {
    method: 'POST',
    body: JSON.stringify({ ...grant, client_secret: later.clientSecret }),
    headers: { 'content-type': 'application/json' }
  })
  const claims = decodeJwt((await response.json() as { access_token: string }).access_token)
  t.strictSame([claims.iat, claims.exp], [4_000_000_000, 4_000_000_060])
  const kid = async ({ issuer }: LocalProvider) => {
    const set = await (await fetch(`${issuer}/.well-known/jwks.json`)).json() as { keys: Array<{ kid: string }> }
    return set.keys[0]!.kid
  }
  t.not(await kid(later), await kid(provider))
})

t.test('A port in use is reported, and leaves nothing running.', async t => {
  await t.rejects(startProvider({ audience, port: provider.port }), { code: 'EADDRINUSE' })
})

async function browser (
  { issuer, browserClientId }: LocalProvider
): Promise<{ as: oauth.AuthorizationServer, client: oauth.Client, keys: oauth.CryptoKeyPair }> {
  const url = new URL(issuer)
  const as = await oauth.processDiscoveryResponse(
    url,
    await oauth.discoveryRequest(url, { [oauth.allowInsecureRequests]: true })
  )
  return { as, client: { client_id: browserClientId }, keys: await oauth.generateKeyPair('ES256') }
}

/** Goes through the redirects as a browser would, cookies included. */
async function authorize (
  { issuer, browserClientId }: LocalProvider,
  as: oauth.AuthorizationServer,
  client: oauth.Client
) {
  const verifier = oauth.generateRandomCodeVerifier()
  const query = new URLSearchParams({
    client_id: browserClientId,
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: 'openid read:messages',
    audience,
    login_hint: 'grace',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256'
  })
  const { url } = await createVisitor(issuer).visit(new URL(`${issuer}/authorize?${query}`))
  return { code: oauth.validateAuthResponse(as, client, url), verifier }
}

const errorOf = (grant: Promise<unknown>) =>
  grant.then(() => 'none', (error: openid.ResponseBodyError | openid.WWWAuthenticateChallengeError) =>
    'error' in error ? error.error : error.cause[0]!.parameters.error)

t.test("A client of one's own logs people in by code and PKCE, as the user that is chosen on the page.", async t => {
  const callback = 'http://localhost:3999/callback'
  const own = readOwnClient({ DEV_CLIENT_ID: 'shop', DEV_CLIENT_SECRET: 's3cret & more', DEV_REDIRECT_URIS: callback })!
  const local = await startProvider({ audience, ownClient: own })
  t.teardown(() => local.close())
  for (const authentication of [openid.ClientSecretPost, openid.ClientSecretBasic]) {
    const config = await openid.discovery(new URL(local.issuer), 'shop', undefined, authentication(own.clientSecret!), {
      execute: [openid.allowInsecureRequests]
    })
    const { visit } = createVisitor(local.issuer)
    const verifier = openid.randomPKCECodeVerifier()
    const loginUrl = async (more: Record<string, string> = {}) =>
      openid.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        scope: 'openid read:messages admin',
        resource: audience,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...more
      })
    const logIn = async (url: URL) =>
      decodeJwt((await openid.authorizationCodeGrant(config, url, { pkceCodeVerifier: verifier })).access_token)
    const asked = await visit(await loginUrl())
    t.match(asked.page, /Who logs in\?[^]*shop[^]*Ada[^]*Grace[^]*Linus/)
    const chosen = await visit(new URL(/href="([^"]*user=grace)"/.exec(asked.page)![1]!, asked.url))
    t.match(chosen.url.href, new RegExp(`^${callback}\\?code=`))
    t.hasStrict(
      await logIn(chosen.url),
      { sub: 'grace', scope: 'read:messages', permissions: ['read:messages'] },
      'Grace has no admin, so the token has none'
    )
    t.hasStrict(
      await logIn((await visit(await loginUrl())).url),
      { sub: 'grace' },
      'the second time the session answers'
    )
    t.hasStrict(await logIn((await visit(await loginUrl({ login_hint: 'ada' }))).url), {
      sub: 'ada',
      scope: 'read:messages admin'
    }, 'unless another user is requested')
    const again = await visit(await loginUrl({ prompt: 'login' }))
    t.match(again.page, /Who logs in/)
    const cancelled = await visit(new URL(/href="([^"]*user=)"/.exec(again.page)![1]!, again.url))
    t.equal(cancelled.url.searchParams.get('error'), 'access_denied')

    const granted = await openid.clientCredentialsGrant(config, { resource: audience, scope: 'admin' })
    t.hasStrict(decodeJwt(granted.access_token), { sub: 'shop', scope: 'admin' }, 'and it gets a token for itself')
    const wrong = await openid.discovery(new URL(local.issuer), 'shop', undefined, authentication('other'), {
      execute: [openid.allowInsecureRequests]
    })
    t.equal(await errorOf(openid.clientCredentialsGrant(wrong, { resource: audience })), 'invalid_client')
    for (const [name, value] of [['redirect_uri', 'http://localhost:3998/callback'], ['client_id', 'other']] as const) {
      const refused = await visit(await loginUrl({ [name]: value }))
      t.equal(refused.url.origin, local.issuer, `an unknown ${name} is not sent back to`)
      t.match(refused.page, containing(name === 'client_id' ? 'invalid_client' : 'invalid_redirect_uri'))
    }
  }
  const [, cors] = await Promise.all(['http://localhost:3998', 'http://localhost:3999'].map(async origin => {
    const { headers } = await fetch(local.tokenEndpoint, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST' }
    })
    return headers.get('access-control-allow-origin')
  }))
  t.equal(cors, 'http://localhost:3999', 'a page of the client may call the token endpoint')
})

t.test('The secret by Basic may have a colon, is asked for by a challenge, and is the only one that is sent.', async t => {
  const clientSecret = 'a:b:c'
  const local = await startProvider({ audience, clientSecret })
  t.teardown(() => local.close())
  const ask = async (secret: string, more: Record<string, string> = {}) => {
    const { status, headers } = await fetch(local.tokenEndpoint, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${local.clientId}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...more })
    })
    return [status, headers.get('www-authenticate')?.split(' ', 1)[0]]
  }
  t.strictSame(await ask(clientSecret), [200, undefined])
  t.strictSame(await ask('a%3Ab%3Ac'), [200, undefined], 'as RFC 6749 section 2.3.1 encodes it')
  t.strictSame(await ask('a'), [401, 'Basic'], 'RFC 6749 section 5.2')
  t.strictSame(await ask(clientSecret, { client_secret: clientSecret }), [400, undefined], 'section 2.3')
})

t.test('The manual names each user with the permissions.', async t => {
  const manual = readFileSync(new URL('../../dev/playground/README.md', import.meta.url), 'utf8')
  for (const { id, permissions } of USERS) {
    t.match(
      manual,
      containing(`| \`${id}\` | ${permissions.map(name => `\`${name}\``).join(', ') || 'none'} |`)
    )
  }
})

t.test('A client without a secret is public: it logs people in, and gets no token for itself.', async t => {
  const own = readOwnClient({ DEV_CLIENT_ID: 'page', DEV_REDIRECT_URIS: 'http://localhost:3999/' })!
  const local = await startProvider({ audience, ownClient: own })
  t.teardown(() => local.close())
  const config = await openid.discovery(new URL(local.issuer), 'page', undefined, openid.None(), {
    execute: [openid.allowInsecureRequests]
  })
  const verifier = openid.randomPKCECodeVerifier()
  const parameters = {
    redirect_uri: 'http://localhost:3999/',
    scope: 'openid',
    login_hint: 'linus',
    code_challenge_method: 'S256',
    code_challenge: await openid.calculatePKCECodeChallenge(verifier)
  }
  const { url } = await createVisitor(local.issuer).visit(openid.buildAuthorizationUrl(config, parameters))
  const { access_token: token } = await openid.authorizationCodeGrant(config, url, { pkceCodeVerifier: verifier })
  t.hasStrict(decodeJwt(token), { sub: 'linus', permissions: [] })
  t.equal(await errorOf(openid.clientCredentialsGrant(config)), 'invalid_request')
})

t.test('Settings that describe no client are refused with the name of the variable.', async t => {
  const good = {
    DEV_CLIENT_ID: 'shop',
    DEV_CLIENT_SECRET: 'secret',
    DEV_REDIRECT_URIS: 'http://localhost:3000/callback'
  }
  t.strictSame(
    readOwnClient({ ...good, DEV_REDIRECT_URIS: 'http://localhost:3000/a, org.example.shop:/back' })!.redirectUris,
    ['http://localhost:3000/a', 'org.example.shop:/back']
  )
  t.strictSame(readOwnClient(good), {
    clientId: 'shop',
    clientSecret: 'secret',
    redirectUris: ['http://localhost:3000/callback']
  })
  t.equal(readOwnClient({ DEV_CLIENT_ID: '', PATH: '/bin' }), undefined)
  const rows: Array<[change: Record<string, string>, says: RegExp]> = [
    [
      { DEV_CLIENT_NAME: 'x' },
      /^DEV_CLIENT_NAME is not a setting .*DEV_CLIENT_ID, DEV_CLIENT_SECRET, DEV_REDIRECT_URIS/
    ],
    [{ DEV_REDIRECT_URI: 'http://localhost/' }, /^DEV_REDIRECT_URI is not a setting/],
    [{ DEV_CLIENT_ID: '' }, /^DEV_CLIENT_ID is not set/],
    [{ DEV_CLIENT_ID: 'holdfast-cli' }, /^DEV_CLIENT_ID is "holdfast-cli"/],
    [{ DEV_CLIENT_SECRET: '', DEV_REDIRECT_URIS: '' }, /^DEV_CLIENT_ID needs/],
    [{ DEV_REDIRECT_URIS: '/callback' }, /^DEV_REDIRECT_URIS has "\/callback"/],
    [{ DEV_REDIRECT_URIS: 'http://localhost:3000/ http://localhost/#x' }, /has "http:\/\/localhost\/#x"/],
    [{ DEV_REDIRECT_URIS: 'javascript:alert(1)' }, /has "javascript:/]
  ]
  for (const [change, says] of rows) {
    t.throws(
      () => readOwnClient({ ...good, ...change }),
      { constructor: BadUsage, message: says },
      JSON.stringify(change)
    )
  }
})
