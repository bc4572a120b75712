import { createPublicKey, createVerify, generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readSettings } from '../../holdfast.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { callBearer, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import { html, json, startHostileProvider, type HostileProvider } from '../helpers/hostile-provider.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { samples } from '../helpers/samples.ts'

const CLIENT: Variables = { IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'secret' }
const OPAQUE: Variables = { ...CLIENT, IDP_INTROSPECTION: 'opaque' }

const start = (t: Test, { issuer }: { issuer: string }, values: Variables) =>
  startApp(t, { url: issuer } as Issuer, values)

/** A provider of opaque tokens: what it publishes, and what it says of each token. */
async function startOpaqueProvider (t: Test, document: object | undefined, keys?: object[]) {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  const { issuer, url, jwksUri } = provider
  provider.discovery = document
    ? json({ issuer, jwks_uri: jwksUri, introspection_endpoint: `${url}/introspect`, ...document })
    : html(404)
  if (keys) provider.jwks = json({ keys })
  provider.others.set('/introspect', json({ active: true, sub: 'user-1', aud: AUDIENCE }))
  return provider
}

/** Readiness once the first fetches have ended. */
async function readiness (
  { url }: RunningApp,
  isExpected: (keys: string) => boolean
) {
  for (;;) {
    const answer = await fetch(`${url}/health/ready`)
    const { checks: { keys } } = await answer.json() as { checks: { keys: string } }
    if (isExpected(keys)) return { status: answer.status, keys }
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

t.test('A provider of opaque tokens alone is ready without keys, once its introspection endpoint is known', async t => {
  const directory = t.testdir({ 'keys.json': '{"keys":[]}' })
  const rows: ReadonlyArray<
    {
      title: string,
      document?: object,
      keys?: object[],
      values?: (provider: HostileProvider) => Variables,
      ready: string
    }
  > = [
    { title: 'an empty set', document: {}, keys: [], ready: 'ok' },
    { title: 'no jwks_uri', document: { jwks_uri: undefined }, ready: 'ok' },
    {
      title: 'an empty key file',
      document: {},
      values: () => ({ IDP_KEYS_FILE: join(directory, 'keys.json') }),
      ready: 'ok'
    },
    {
      title: 'no document, and the endpoint is set',
      values: ({ url }) => ({ IDP_INTROSPECTION_ENDPOINT: `${url}/introspect` }),
      ready: 'ok'
    },
    {
      title: 'the endpoint is not known',
      document: { introspection_endpoint: undefined },
      keys: [],
      ready: 'endpoint_unknown'
    },
    { title: 'keys of which none can be used', document: {}, keys: [{ kty: 'oct', k: 'AAAA' }], ready: 'none_usable' },
    {
      title: 'JWTs are introspected too',
      document: {},
      keys: [],
      values: () => ({ IDP_INTROSPECTION: 'all' }),
      ready: 'none_usable'
    },
    {
      title: 'answers are signed by those keys',
      document: {},
      keys: [],
      values: () => ({ IDP_INTROSPECTION_SIGNED: true }),
      ready: 'none_usable'
    }
  ]
  for (const { title, document, keys, values, ready } of rows) {
    const provider = await startOpaqueProvider(t, document, keys)
    const running = await start(t, provider, { ...OPAQUE, ...values?.(provider) })
    t.strictSame(await readiness(running, word => word !== 'empty' && (ready !== 'ok' || word === 'ok')), {
      status: ready === 'ok' ? 200 : 503,
      keys: ready
    }, title)
    if (ready === 'ok') {
      t.equal((await callBearer(running, 'opaque')).status, 200, `${title}: its tokens pass`)
    }
  }
})

t.test('A client assertion names the issuer as the provider spells it, or what the settings say', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const IDP_CLIENT_KEY_FILE = join(
    t.testdir({ 'key.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }),
    'key.pem'
  )
  const rows: ReadonlyArray<
    {
      title: string,
      spelling: (issuer: string) => string,
      values?: (provider: HostileProvider) => Variables,
      audience: (provider: HostileProvider) => string
    }
  > = [
    { title: 'without the slash', spelling: issuer => issuer.slice(0, -1), audience: ({ url }) => url },
    { title: 'with the slash', spelling: issuer => issuer, audience: ({ issuer }) => issuer },
    {
      title: 'the token endpoint',
      spelling: issuer => issuer,
      values: ({ url }) => ({ IDP_INTROSPECTION_ASSERTION_AUDIENCE: `${url}/token` }),
      audience: ({ url }) => `${url}/token`
    },
    {
      title: 'only the keys are found by the document',
      spelling: issuer => issuer.slice(0, -1),
      values: ({ url }) => ({ IDP_INTROSPECTION_ENDPOINT: `${url}/introspect` }),
      audience: ({ url }) => url
    },
    {
      title: 'no document is read',
      spelling: issuer => issuer.slice(0, -1),
      values: ({ url, jwksUri }) => ({ IDP_INTROSPECTION_ENDPOINT: `${url}/introspect`, IDP_JWKS_URI: jwksUri }),
      audience: ({ issuer }) => issuer
    }
  ]
  for (const { title, spelling, values, audience } of rows) {
    const provider = await startHostileProvider()
    t.teardown(provider.close)
    provider.discovery = json({
      issuer: spelling(provider.issuer),
      jwks_uri: provider.jwksUri,
      introspection_endpoint: `${provider.url}/introspect`
    })
    let assertion = ''
    provider.others.set('/introspect', async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      assertion = new URLSearchParams(body).get('client_assertion')!
      json({ active: true, sub: 'user-1', aud: AUDIENCE })(request, response)
    })
    const running = await start(t, provider, {
      IDP_INTROSPECTION: 'opaque',
      IDP_CLIENT_ID: 'api',
      IDP_CLIENT_AUTH: 'private_key_jwt',
      IDP_CLIENT_KEY_FILE,
      ...values?.(provider)
    })
    await readiness(running, word => word === 'ok')
    t.equal((await callBearer(running, 'opaque')).status, 200, title)
    const [header, payload, signature] = assertion.split('.') as [string, string, string]
    t.equal(
      (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { aud: string }).aud,
      audience(provider),
      title
    )
    t.ok(
      createVerify('sha256').update(`${header}.${payload}`).verify(
        { key: createPublicKey(privateKey), dsaEncoding: 'ieee-p1363' },
        signature,
        'base64url'
      )
    )
  }
})

t.test('A key that is replaced under the same kid cures itself with the first new token', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer)
  t.equal((await callBearer(running, issuer.token())).status, 200)
  const old = issuer.token({ jti: 'old' })
  issuer.keys = [makeIssuerKey('k1')]
  t.equal((await callBearer(running, issuer.token())).status, 200, 'the new key is fetched at once')
  await expectBearerRefusal(t, running, old, 'token_signature', 'the old one is gone')

  const other = await startApp(t, issuer)
  await expectBearerRefusal(t, other, issuer.token({}, { kid: 'foreign' }), 'token_key_unknown')
  issuer.keys = [makeIssuerKey('k2')]
  t.equal(
    (await callBearer(other, issuer.token())).status,
    200,
    'a foreign kid does not delay a key that is published after it'
  )
})

t.test('An AD FS issuer, an http URL, is a mere name beside an https address of its keys, and beside no other', async t => {
  const values = { IDP_ISSUER: 'http://sts.example/adfs/services/trust', IDP_AUDIENCE: AUDIENCE }
  t.hasStrict(
    (await readSettings({ ...values, IDP_JWKS_URI: 'https://sts.example/adfs/discovery/keys' })).idp.issuers,
    [{ issuer: values.IDP_ISSUER }]
  )
  await t.rejects(
    readSettings({ ...values, IDP_JWKS_URI: 'http://127.0.0.1/keys' }),
    /beside an https jwksUri or a keysFile/
  )
  await t.rejects(readSettings(values), /beside an https jwksUri or a keysFile/)
})

t.test('An AD FS issuer, an http URL, is a mere name beside a key file', async t => {
  const issuer = await startIssuer(t)
  const iss = 'http://sts.example/adfs/services/trust'
  const directory = t.testdir({ 'keys.json': JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }) })
  const running = await startApp(t, issuer, {
    IDP_ISSUER: iss,
    IDP_KEYS_FILE: join(directory, 'keys.json'),
    PUBLIC_URL: 'https://api.example'
  })
  t.equal((await callBearer(running, issuer.token({ iss }))).status, 200)
  await expectBearerRefusal(t, running, issuer.token({ iss: 'https://sts.example/adfs/services/trust' }), 'token_issuer')
  t.strictSame(issuer.requests, [])
  const metadata = await (await fetch(`${running.url}/.well-known/oauth-protected-resource`)).json() as object
  t.notOk('authorization_servers' in metadata, 'nothing can be asked of a name')
})

t.test('JWTs without aud pass by client_id or azp where the settings say so, with a warning', async t => {
  const issuer = await startIssuer(t)
  for (const claim of ['client_id', 'azp']) {
    const running = await startApp(t, issuer, { IDP_AUDIENCE_CLAIM: claim })
    const send = (claims: object) => callBearer(running, issuer.token({ aud: undefined, ...claims }))
    t.equal((await send({ [claim]: AUDIENCE })).status, 200, claim)
    expectRefusal(t, await send({ [claim]: 'other' }), 'token_audience', 'Bearer')
    expectRefusal(
      t,
      await send({ [claim]: AUDIENCE, aud: 'other' }),
      'token_audience',
      'Bearer',
      'an aud that is there must fit too'
    )
    expectRefusal(t, await send({}), 'token_claim_invalid', 'Bearer')
    t.hasStrict(running.log.at(-2), {
      reason: 'token_claim_invalid',
      claim,
      expected: 'a text or a list of texts',
      found: 'nothing'
    })
    t.equal(running.log.filter(({ msg }) => msg.includes(`are accepted by ${claim} instead of aud`)).length, 1)
  }
  await expectBearerRefusal(t, await startApp(t, issuer), issuer.token({ aud: undefined, client_id: AUDIENCE }), 'token_claim_invalid', 'not without the setting')
})

if (samples.has('profile')) {
  t.test(
    'The profile of a JWT without aud says so',
    async t => {
      const issuer = await startIssuer(t)
      const whole = await startApp(t, issuer, { IDP_AUDIENCE_CLAIM: 'azp', API_PROFILE: '2' })
      t.hasStrict(
        await callBearer(whole, issuer.token({ aud: undefined, azp: AUDIENCE }), '/api/profile'),
        { status: 200, body: { audience: null } }
      )
    }
  )
}

t.test(
  'A refusal of a claim names the claim in the log, also of an answer that says only active, client_id, scope ' +
    'and exp',
  async t => {
    const issuer = await startIssuer(t)
    issuer.introspection = {
      active: true,
      client_id: 'app',
      scope: 'read:messages',
      exp: Math.floor(Date.now() / 1000) + 600
    }
    const running = await startApp(t, issuer, OPAQUE)
    const named = () =>
      running.log.filter(({ msg }) => msg === 'request refused').map((
        { reason, claim, found }
      ) => [reason, claim, found])
    for (let left = 2; left > 0; left--) {
      await expectBearerRefusal(t, running, 'opaque', 'token_claim_invalid')
    }
    t.strictSame(
      named(),
      Array(2).fill(['token_claim_invalid', 'aud', 'nothing']),
      'the second refusal is remembered, with the claim'
    )
    await expectBearerRefusal(t, running, issuer.token({ sub: 7 }), 'token_claim_invalid')
    t.strictSame(named().at(-1), ['token_claim_invalid', 'sub', 'a number'])
    issuer.introspection = { ...issuer.introspection, aud: AUDIENCE }
    t.equal((await callBearer(running, 'another')).status, 200, 'with aud it passes')
  }
)
