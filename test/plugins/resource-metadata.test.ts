import t, { type Test } from 'tap'
import { containing } from '../helpers/containing.ts'
import { holdfast, readSettings } from '../../holdfast.ts'
import type { Variables } from '../helpers/variables.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import plugin from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'

const PATH = '/.well-known/oauth-protected-resource'

async function start (t: Test, settings: Variables = {}) {
  const issuer = await startIssuer(t)
  const { app, log } = await startApp(t, issuer, settings)
  const ask = (path = PATH, headers: Record<string, string> = {}) =>
    app.inject({ url: path, headers: { host: 'api.holdfast.test', ...headers } })
  /** What the log warns of about the resource. */
  const warnings = log.filter(({ level, msg }) => level === 40 && /resource/.test(msg)).map(({ msg }) => msg)
  return { app, issuer, ask, warnings }
}

/** The value of `resource_metadata` in each challenge of an answer. */
const pointersOf = (header: unknown) =>
  [...String(header).matchAll(/resource_metadata="([^"]*)"/g)].map(([, url]) => url!)

t.test('The metadata names the issuers of tokens, the scopes and the requirements of DPoP', async t => {
  const { issuer, ask } = await start(t, { DPOP_ALGS: ['ES256', 'EdDSA'] })
  const answer = await ask()
  t.equal(answer.statusCode, 200)
  t.match(answer.headers['content-type'], /^application\/json/)
  t.strictSame(answer.json(), {
    resource: AUDIENCE,
    authorization_servers: [issuer.url],
    scopes_supported: ['admin', 'read:messages', 'read:users', 'write:users'],
    bearer_methods_supported: ['header'],
    resource_name: new URL(AUDIENCE).host,
    resource_documentation: 'http://api.holdfast.test/docs',
    dpop_bound_access_tokens_required: false,
    dpop_signing_alg_values_supported: ['ES256', 'EdDSA']
  })
})

t.test('The members about DPoP follow the mode', async t => {
  const table = [
    { mode: 'ALLOWED', required: false, hasAlgs: true },
    { mode: 'REQUIRED', required: true, hasAlgs: true },
    { mode: 'DISABLED', required: false, hasAlgs: false }
  ] as const
  for (const { mode, required, hasAlgs } of table) {
    const { ask } = await start(t, { IDP_DPOP_MODE: mode })
    const metadata = (await ask()).json()
    t.equal(metadata.dpop_bound_access_tokens_required, required, mode)
    t.equal('dpop_signing_alg_values_supported' in metadata, hasAlgs, mode)
  }
})

t.test('The resource is a possible audience of a token: RESOURCE, else the audience, else an address and a warning', async t => {
  const differs = [/differs from the audience/]
  const table: ReadonlyArray<{ title: string, settings: Variables, resource: string, warnings: RegExp[] }> = [
    {
      title: 'RESOURCE',
      settings: { RESOURCE: 'https://api.holdfast.test/v1', PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://api.holdfast.test/v1',
      warnings: []
    },
    {
      title: 'RESOURCE on this machine',
      settings: { RESOURCE: 'http://localhost:8000/v1' },
      resource: 'http://localhost:8000/v1',
      warnings: []
    },
    {
      title: 'the audience',
      settings: { IDP_AUDIENCE: 'https://api.holdfast.test/', PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://api.holdfast.test/',
      warnings: []
    },
    {
      title: 'the audience, in capitals',
      settings: { IDP_AUDIENCE: 'HTTPS://API.holdfast.test/V1' },
      resource: 'HTTPS://API.holdfast.test/V1',
      warnings: []
    },
    {
      title: 'an audience with a back-slash',
      settings: { IDP_AUDIENCE: 'https://api.holdfast.test/?\\', PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://www.holdfast.test',
      warnings: differs
    },
    {
      title: 'PUBLIC_URL',
      settings: { IDP_AUDIENCE: 'api', PUBLIC_URL: 'https://www.holdfast.test/svc/' },
      resource: 'https://www.holdfast.test/svc',
      warnings: differs
    },
    {
      title: 'PUBLIC_URL that is the audience',
      settings: { IDP_AUDIENCE: 'http://www.holdfast.test/svc', PUBLIC_URL: 'http://www.holdfast.test/svc' },
      resource: 'http://www.holdfast.test/svc',
      warnings: []
    },
    {
      title: 'an audience with a fragment',
      settings: { IDP_AUDIENCE: 'https://api.holdfast.test/#1', PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://www.holdfast.test',
      warnings: differs
    },
    {
      title: 'an audience that only begins as a URL',
      settings: { IDP_AUDIENCE: 'https://[', PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://www.holdfast.test',
      warnings: differs
    },
    {
      title: 'the address that the client used',
      settings: { IDP_AUDIENCE: 'http://api' },
      resource: 'http://api.holdfast.test',
      warnings: differs
    },
    {
      title: 'an address, as the audience is a client',
      settings: { IDP_AUDIENCE: 'https://app.holdfast.test', IDP_AUDIENCE_CLAIM: 'azp' },
      resource: 'http://api.holdfast.test',
      warnings: [/^The audience is a client and RESOURCE is not set/]
    }
  ]
  for (const { title, settings, resource, warnings } of table) {
    const started = await start(t, settings)
    t.equal((await started.ask()).json().resource, resource, title)
    t.match(started.warnings, warnings, title)
    t.equal(started.warnings.length, warnings.length, title)
  }
})

t.test('A token that is meant for the resource passes, as one for the audience does', async t => {
  const RESOURCE = 'https://api.holdfast.test/v1'
  const { app, issuer } = await start(t, { RESOURCE })
  const plain = await start(t)
  const status = async ({ app, issuer }: Pick<typeof plain, 'app' | 'issuer'>, aud: unknown) =>
    (await app.inject({ url: '/api/private', headers: { authorization: `Bearer ${issuer.token({ aud })}` } }))
      .statusCode
  for (const aud of [RESOURCE, [RESOURCE], ['x', RESOURCE], AUDIENCE, ['x', AUDIENCE]]) {
    t.equal(await status({ app, issuer }, aud), 200, String(aud))
  }
  for (const aud of ['x', [], ['x'], `${RESOURCE}/`, 'https://api.holdfast.test']) {
    t.equal(await status({ app, issuer }, aud), 401, String(aud))
  }
  t.equal(await status(plain, RESOURCE), 401, 'unless it is set')
  t.equal(await status(plain, AUDIENCE), 200)
})

t.test('With several issuers the resource is one that the tokens of each advertised issuer may be meant for', async t => {
  const [a, b] = [await startIssuer(t), await startIssuer(t)]
  const [A, B] = ['https://a.holdfast.test', 'https://b.holdfast.test']
  const entry = ({ url }: typeof a, audience?: string) => ({ issuer: url, ...audience !== undefined && { audience } })
  const noCommon = 'The issuers have no audience in common and RESOURCE is not set, so the metadata names '
  const notHttps = 'The audience is not an https URL and RESOURCE is not set, so the metadata names '
  const rest =
    ' as the resource. It differs from the audience: a client that asks for a token for this resource gets one ' +
    'that is refused here. Set RESOURCE'
  const table: ReadonlyArray<
    { title: string, entries: object[], settings?: Variables, resource: string, servers: string[], warnings?: string[] }
  > = [
    {
      title: 'one https audience, not beside the list',
      entries: [entry(a, A), entry(b, A)],
      resource: A,
      servers: [a.url, b.url]
    },
    { title: 'a single entry with an audience of its own', entries: [entry(a, A)], resource: A, servers: [a.url] },
    {
      title: 'one https audience, beside the list',
      entries: [entry(a), entry(b)],
      settings: { IDP_AUDIENCE: A },
      resource: A,
      servers: [a.url, b.url]
    },
    {
      title: 'one entry with its own audience',
      entries: [entry(a), entry(b, B)],
      settings: { IDP_AUDIENCE: A },
      resource: A,
      servers: [a.url]
    },
    {
      title: 'every entry with the same audience, and another one beside the list',
      entries: [entry(a, B), entry(b, B)],
      settings: { IDP_AUDIENCE: A },
      resource: B,
      servers: [a.url, b.url]
    },
    {
      title: 'RESOURCE',
      entries: [entry(a), entry(b, B)],
      settings: { IDP_AUDIENCE: A, RESOURCE: 'https://r.holdfast.test' },
      resource: 'https://r.holdfast.test',
      servers: [a.url, b.url]
    },
    {
      title: 'a namesake that is a client',
      entries: [entry(a, A), { ...entry(b, A), audienceClaim: 'azp' }],
      resource: A,
      servers: [a.url]
    },
    {
      title: 'RESOURCE that is the audience of one',
      entries: [entry(a, A), entry(b, B)],
      settings: { RESOURCE: B },
      resource: B,
      servers: [a.url, b.url]
    },
    {
      title: 'PUBLIC_URL that is the audience of one',
      entries: [entry(a, 'http://www.holdfast.test'), entry(b, B)],
      settings: { PUBLIC_URL: 'http://www.holdfast.test' },
      resource: 'http://www.holdfast.test',
      servers: [a.url]
    },
    {
      title: 'only PUBLIC_URL',
      entries: [entry(a, A), entry(b, B)],
      settings: { PUBLIC_URL: 'https://www.holdfast.test' },
      resource: 'https://www.holdfast.test',
      servers: [a.url, b.url],
      warnings: [`${noCommon}PUBLIC_URL${rest}`]
    },
    {
      title: 'only an address',
      entries: [entry(a, A), entry(b, B)],
      resource: 'http://api.holdfast.test',
      servers: [a.url, b.url],
      warnings: [`${noCommon}the address that the client used${rest}`]
    },
    {
      title: 'only an address, for one audience that is no https URL',
      entries: [entry(a, 'api'), entry(b, 'api')],
      resource: 'http://api.holdfast.test',
      servers: [a.url, b.url],
      warnings: [`${notHttps}the address that the client used${rest}`]
    }
  ]
  for (const { title, entries, settings, resource, servers, warnings = [] } of table) {
    const started = await startApp(t, a, {
      IDP_ISSUER: undefined,
      IDP_AUDIENCE: undefined,
      IDP_ISSUERS: entries,
      ...settings
    })
    const metadata = (await started.app.inject({ url: PATH, headers: { host: 'api.holdfast.test' } })).json()
    t.strictSame([metadata.resource, metadata.authorization_servers], [resource, servers], title)
    t.strictSame(
      started.log.filter(({ level, msg }) => level === 40 && /resource/.test(msg)).map(({ msg }) => msg),
      warnings,
      title
    )
    for (const issuer of [a, b].filter(({ url }) => servers.includes(url))) {
      const { statusCode } = await started.app.inject({
        url: '/api/private',
        headers: { authorization: `Bearer ${issuer.token({ aud: metadata.resource })}` }
      })
      t.equal(statusCode, warnings.length === 0 ? 200 : 401, `${title}: a token for the resource`)
    }
  }
})

t.test('Without PUBLIC_URL the resource is the address that the client used, and the answer is not stored', async t => {
  const { ask } = await start(t, { TRUST_PROXY: 'loopback', IDP_AUDIENCE: 'api' })
  const answer = await ask(PATH, {
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'www.holdfast.test',
    'x-forwarded-prefix': '/svc'
  })
  t.equal(answer.json().resource, 'https://www.holdfast.test/svc')
  t.equal(answer.headers['cache-control'], 'no-store')
})

t.test('An address whose host is in no URL of Node has metadata as any other', async t => {
  const { ask } = await start(t, { TRUST_PROXY: 'loopback', IDP_AUDIENCE: 'api' })
  for (const host of ['xn--a.test', '1.2.3.999', 'www.holdfast.test']) {
    const headers = { host, 'x-forwarded-prefix': '/svc' }
    t.equal((await ask(`${PATH}/svc`, headers)).json().resource, `http://${host}/svc`)
    t.equal((await ask(PATH, headers)).json().resource, `http://${host}/svc`)
    t.equal((await ask(`${PATH}/other`, headers)).statusCode, 404, host)
  }
})

t.test('With PUBLIC_URL a request cannot change the resource, and the answer may be cached', async t => {
  const { ask } = await start(t, {
    TRUST_PROXY: 'loopback',
    PUBLIC_URL: 'https://www.holdfast.test/svc/',
    IDP_AUDIENCE: 'api'
  })
  const answer = await ask(PATH, { 'x-forwarded-host': 'evil.test' })
  t.equal(answer.json().resource, 'https://www.holdfast.test/svc')
  t.equal(answer.headers['cache-control'], 'max-age=300')
})

t.test('The path-inserted location is that of the resource, and that of the address of the service', async t => {
  const RESOURCE = 'https://www.holdfast.test/v1/'
  const { ask } = await start(t, { PUBLIC_URL: 'https://www.holdfast.test/svc', RESOURCE })
  for (const path of [PATH, `${PATH}/svc?x=1`, `${PATH}/v1/`]) {
    const answer = await ask(path)
    t.strictSame([answer.statusCode, answer.json().resource], [200, RESOURCE], path)
  }
  for (const other of ['/svc/', '/v1', '/other', '/', '/SVC']) t.equal((await ask(PATH + other)).statusCode, 404, other)
})

t.test('A request whose address cannot be determined is a bad request, not a demand for credentials', async t => {
  const { ask } = await start(t)
  t.equal((await ask()).statusCode, 200)
  const answer = await ask(PATH, { host: 'a?b' })
  t.equal(answer.statusCode, 400)
  t.strictSame(answer.json(), {
    statusCode: 400,
    error: 'Bad Request',
    message: 'The host of the request is not valid.'
  })
  t.equal(answer.headers['www-authenticate'], undefined)
})

t.test('A fault in determining the address is answered with 500', async t => {
  const { app, ask } = await start(t)
  app.baseUrlOf = () => {
    throw new Error('broken')
  }
  t.equal((await ask()).statusCode, 500)
})

t.test('A domain with a scheme names no issuer', async t => {
  const { ask } = await start(t, { IDP_ISSUER: undefined, IDP_DOMAIN: 'https://tenant.example' })
  t.notHasStrict((await ask()).json(), { authorization_servers: [] })
})

t.test('Every challenge points to the metadata of PUBLIC_URL, at the address that the client can derive by itself', async t => {
  const { ask } = await start(t, { PUBLIC_URL: 'https://www.holdfast.test:8443/svc' })
  const url = `https://www.holdfast.test:8443${PATH}/svc`
  t.strictSame(pointersOf((await ask('/api/private')).headers['www-authenticate']), [url, url], 'one for each scheme')
  const refused = await ask('/api/private', { authorization: 'Bearer x' })
  t.match(
    refused.headers['www-authenticate'],
    containing(
      'error="invalid_token", error_description="The access token is not a well-formed JWT.", ' +
        `resource_metadata="${url}"`
    )
  )
})

t.test('The plugin in another app serves no metadata, so no challenge points to any.', async t => {
  const { options } = await createTestIssuer({ publicUrl: 'https://api.example' })
  const app = createApp(t)
  await app.register(plugin, options)
  app.get('/', { onRequest: app.authenticate() }, () => 'ok')
  const { statusCode, headers } = await app.inject('/')
  t.strictSame([statusCode, pointersOf(headers['www-authenticate'])], [401, []])
  t.equal((await app.inject(PATH)).statusCode, 404)
})

t.test('Without PUBLIC_URL no challenge points anywhere: no byte of a request goes into a header', async t => {
  const { ask } = await start(t, { TRUST_PROXY: 'loopback' })
  const answer = await ask('/api/private', { 'x-forwarded-host': 'evil.test' })
  t.equal(answer.statusCode, 401)
  t.strictSame(pointersOf(answer.headers['www-authenticate']), [])
})

t.test('Without PUBLIC_URL challenges point to the metadata of RESOURCE', async t => {
  const { ask } = await start(t, { RESOURCE: 'https://www.holdfast.test/v1' })
  t.strictSame(
    pointersOf((await ask('/api/private')).headers['www-authenticate'])[0],
    `https://www.holdfast.test${PATH}/v1`
  )
})

t.test('The location of metadata has the query of the resource, and leads to it.', async t => {
  const origin = 'https://www.holdfast.test'
  const { ask } = await start(t, { PUBLIC_URL: origin, IDP_AUDIENCE: `${origin}/v1?team=a` })
  const [url] = pointersOf((await ask('/api/private')).headers['www-authenticate'])
  t.equal(url, `${origin}${PATH}/v1?team=a`)
  t.equal((await ask(url!.slice(origin.length))).json().resource, `${origin}/v1?team=a`)
})

t.test('A service that is mounted under a path is described with that path', async t => {
  const issuer = await startIssuer(t)
  const settings = await readSettings({
    IDP_ISSUER: issuer.url,
    IDP_AUDIENCE: 'api',
    PUBLIC_URL: 'https://www.holdfast.test'
  })
  const app = createApp(t)
  await app.register(async app => {
    await app.register(holdfast, { settings })
  }, { prefix: '/svc' })
  for (const path of [PATH, `${PATH}/svc`]) {
    t.equal((await app.inject(`/svc${path}`)).json().resource, 'https://www.holdfast.test/svc', path)
  }
  t.strictSame(
    pointersOf((await app.inject('/svc/api/private')).headers['www-authenticate'])[0],
    `https://www.holdfast.test${PATH}/svc`
  )
})
