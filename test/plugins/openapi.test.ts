import { createHash, generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Ajv } from 'ajv'
import t, { type Test } from 'tap'
import { containing, exactly } from '../helpers/containing.ts'
import type { Operation, OpenapiDocument, Response } from '../../lib/report/openapi/document.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import type { Variables } from '../helpers/variables.ts'
import { EXAMPLE_CLIENT } from '../../schemas/answers.ts'
import { startApp } from '../helpers/app.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'

/** As it is served. The service does not read all of it. */
type ServedDocument = OpenapiDocument & { servers: object[], components: any }
type ServedResponse = Response & { content?: any }

const resolveReference = ({ components }: ServedDocument, part: Operation['responses'][string]): ServedResponse =>
  '$ref' in part ? components.responses[part.$ref.slice('#/components/responses/'.length)] : part

async function start (t: Test, settings: Variables = {}, prepare?: Parameters<typeof startApp>[3]) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, settings, prepare)
  const fetchDocument = async (headers: Record<string, string> = {}) =>
    (await running.app.inject({ url: '/docs/json', headers: { host: 'api.holdfast.test', ...headers } })).json<
      ServedDocument
    >()
  return { ...running, issuer, document: await fetchDocument(), fetchDocument }
}

/** Nothing that a client sends to an open resource is refused, so that those have no answer of 4xx. */
const lint = async (document: OpenapiDocument) => {
  const config = await createConfig({ extends: ['recommended-strict'], rules: { 'operation-4xx-response': 'off' } })
  const problems = await lintFromString({ source: JSON.stringify(document), config })
  return problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer}`)
}

const operationAt = (document: ServedDocument, path: string) => document.paths[path]!.get!

t.test('The document passes a linter in every mode and profile', async t => {
  const variants: readonly Variables[] = [
    {},
    { IDP_DPOP_MODE: 'REQUIRED', DPOP_NONCE: 'required', API_PROFILE: '2', ERROR_BODY: 'detailed', RATE_LIMIT: '100' },
    { IDP_DPOP_MODE: 'DISABLED', METRICS: 'off' }
  ]
  for (const settings of variants) {
    const { document } = await start(t, settings)
    t.strictSame(await lint(document), [], JSON.stringify(settings))
  }
})

t.test('Each operation requires what the guard of its route requires', async t => {
  const { document } = await start(t)
  const security = Object.fromEntries(
    Object.keys(document.paths).map(path => [path, operationAt(document, path).security])
  )
  const either = (...scopes: string[][]) => ['Bearer', 'DPoP'].flatMap(scheme => scopes.map(set => ({ [scheme]: set })))
  t.strictSame(security, {
    '/.well-known/oauth-protected-resource': [],
    '/api/admin': either(['admin']),
    '/api/admin/{path}': either(['admin']),
    '/api/private': either([]),
    '/api/private-scoped': either(['read:messages']),
    '/api/profile': either([]),
    '/api/protected': either([]),
    '/api/public': [],
    '/api/users': either(['read:users'], ['write:users']),
    '/api/users/{path}': either(['read:users'], ['write:users']),
    '/health/live': [],
    '/health/ready': [],
    '/metrics': []
  })
  t.strictSame(
    new Set(Object.values(document.paths).flatMap(Object.keys)),
    new Set(['get']),
    'HEAD is not described twice'
  )
  t.equal(
    operationAt(document, '/api/users').description,
    'Needs a valid access token with `read:users`, or `write:users`.'
  )
  t.equal(operationAt(document, '/api/private').description, 'Needs a valid access token.')
})

t.test('A route that judges its input by a schema has 400 in the document, in the form of its body', async t => {
  const text = { type: 'object', required: ['text'], properties: { text: { type: 'string' } } } as const
  const own = { description: 'Our own.', type: 'object', properties: {} } as const
  for (const form of ['default', 'detailed']) {
    const { app, document } = await start(t, { ERROR_BODY: form }, app => {
      app.register(async scope => {
        scope.post('/api/body', { schema: { body: text } }, () => 'ok')
        scope.get('/api/query', { schema: { querystring: text } }, () => 'ok')
        scope.get('/api/params/:text', { schema: { params: text } }, () => 'ok')
        scope.get('/api/none/:text', () => 'ok')
        scope.get('/api/own', { schema: { querystring: text, response: { 200: own, 400: own } } }, () => 'ok')
      })
    })
    const answer = (path: string, method = 'get') => document.paths[path]![method]!.responses['400'] as Response
    for (const [path, method] of [['/api/body', 'post'], ['/api/query'], ['/api/params/{text}']] as const) {
      t.equal(answer(path, method).description, 'The request does not fit the schema of this operation.', path)
    }
    t.equal(answer('/api/none/{text}'), undefined)
    t.equal(answer('/api/private'), undefined)
    t.equal(answer('/api/own').description, 'Our own.')
    t.strictSame(await lint(document), [])
    const { statusCode, ...real } = await app.inject({ method: 'POST', url: '/api/body', payload: {} })
    t.equal(statusCode, 400)
    t.strictSame(Object.keys(document.components.schemas.Failure.properties), Object.keys(JSON.parse(real.payload)))
  }
})

t.test('The endpoints of revocations are described, and each answer that they give', async t => {
  const REVOCATION = {
    operators: { scope: 'revoke' },
    logout: { clientId: 'a' },
    transmitters: [{ issuer: 'https://t.example', audience: 'a', delivery: 'push' }]
  }
  const { document, url, issuer } = await start(t, { REVOCATION })
  t.strictSame(await lint(document), [])
  const described = (path: string) => {
    const { requestBody, responses, security, tags } = document.paths[path]!.post! as Operation & {
      requestBody: { content: object }
    }
    return [tags, Object.keys(requestBody.content), Object.keys(responses), security]
  }
  t.strictSame(described('/revocation/events'), [['Revocation'], ['application/secevent+jwt'], [
    '202',
    '400',
    '401',
    '503'
  ], []])
  t.strictSame(described('/revocation/logout'), [['Revocation'], ['application/x-www-form-urlencoded'], [
    '200',
    '400',
    '503'
  ], []])
  t.strictSame(described('/revocation/subjects'), [['Revocation'], ['application/json'], [
    '204',
    '400',
    '401',
    '403',
    '429',
    '503'
  ], [{ Bearer: ['revoke'] }, { DPoP: ['revoke'] }]])
  t.ok(document.tags!.some(({ name }) => name === 'Revocation'))

  const post = async (path: string, type: string, body: string, headers: object = {}) => {
    const answer = await fetch(url + path, { method: 'POST', headers: { 'content-type': type, ...headers }, body })
    return [answer.status, answer.status === 204 ? '' : Object.keys(await answer.json() as object)]
  }
  const page = await (await fetch(`${url}/docs`)).text()
  t.match(page, containing('POST /revocation/events</code></td><td>in the body: a token signed by its transmitter</td>'))
  t.strictSame(await post('/revocation/events', 'application/secevent+jwt', 'x'), [400, ['err', 'description']])
  t.strictSame(await post('/revocation/logout', 'application/x-www-form-urlencoded', 'logout_token=x'), [400, [
    'error',
    'error_description'
  ]])
  const authorization = `Bearer ${issuer.token({ scope: 'revoke' })}`
  t.strictSame(await post('/revocation/subjects', 'application/json', '{"undo":"yes"}', { authorization }), [400, [
    'error',
    'error_description'
  ]])
  t.strictSame(
    await post('/revocation/subjects', 'application/json', '{"sub_id":{"format":"opaque","id":"s"}}', {
      authorization
    }),
    [204, '']
  )
  t.strictSame(await post('/revocation/logout', 'application/json', '{}'), [415, ['statusCode', 'error', 'message']])
})

t.test('A route of another plugin is described from its own guards and words', async t => {
  const { document } = await start(t, {}, app => {
    app.register(async app => {
      const onRequest = [app.requireScope('a', 'b'), app.requireScope({ any: ['b', 'c'] })]
      app.post('/things', {
        onRequest,
        schema: { summary: 'Make a thing', tags: ['API'], response: { 201: { type: 'null', description: 'Made' } } }
      }, () => null)
    })
  })
  const { summary, security, responses } = document.paths['/things']!.post!
  t.equal(summary, 'Make a thing')
  t.strictSame(security, [{ Bearer: ['a', 'b'] }, { Bearer: ['a', 'b', 'c'] }, { DPoP: ['a', 'b'] }, {
    DPoP: ['a', 'b', 'c']
  }])
  t.hasStrict(responses['201'], { description: 'Made' })
})

t.test('All that a route requires is in its description, and for programs in an extension', async t => {
  const { document, app } = await start(t, {}, app => {
    app.register(async app => {
      const all = app.require({
        scope: 'pay',
        acr: ['urn:mfa', 'urn:key'],
        maxAgeSeconds: 60,
        claims: { tenant: ['blue', 2], 'we`ird': true, age: () => true },
        authorizationDetails: [{ type: 'payment', check: () => true }, { type: 'account' }]
      })
      const optional = app.require({ optional: true, anyScope: ['a', 'b'] })
      app.get('/all', { onRequest: all }, () => null)
      app.get('/worded', {
        onRequest: [app.authenticate(), app.require({ claims: { 'realm_access.roles': 'admin' } })],
        schema: { description: 'Its own words.' }
      }, () => null)
      app.get(
        '/plain',
        { onRequest: app.require({ scope: 'a' }), schema: { description: 'Its own words.' } },
        () => null
      )
      app.get('/login', { onRequest: app.require({ maxAgeSeconds: 60 }) }, () => null)
      app.get('/optional', { onRequest: optional }, () => null)
      app.get('/needed', { onRequest: [optional, app.authenticate()] }, () => null)
    })
  })
  const all = operationAt(document, '/all')
  t.equal(
    all.description,
    'Needs a valid access token with `pay`. The token also needs a login with the acr `urn:mfa` or `urn:key`, ' +
      'and a login at most 60 seconds ago, and the claim `tenant` with `blue` or `2`, ' +
      "and the claim `we'ird` with `true`, and the claim `age` with a value that the route accepts, and an " +
      'authorization detail of the type `payment` that the route accepts, and an authorization detail of the ' +
      'type `account`.'
  )
  t.strictSame(all.security, [{ Bearer: ['pay'] }, { DPoP: ['pay'] }])
  t.strictSame(all['x-requirements'], [{
    scope: ['pay'],
    acr: ['urn:mfa', 'urn:key'],
    maxAgeSeconds: 60,
    claims: { tenant: ['blue', 2], 'we`ird': [true], age: 'predicate' },
    authorizationDetails: [{ type: 'payment', check: 'predicate' }, { type: 'account' }]
  }])
  const worded = operationAt(document, '/worded')
  t.hasStrict(worded, {
    description: 'Its own words. The token also needs the claim `realm_access.roles` with `admin`.',
    'x-requirements': [{ claims: { 'realm_access.roles': ['admin'] } }]
  })
  const plain = operationAt(document, '/plain')
  t.strictSame([plain.description, plain['x-requirements']], ['Its own words.', undefined])
  t.strictSame(
    ['/all', '/worded', '/plain', '/login', '/optional'].filter(path => '403' in operationAt(document, path).responses),
    ['/all', '/worded', '/plain', '/optional'],
    'a 403 only if something but the login may be missing'
  )

  const optional = operationAt(document, '/optional')
  t.strictSame(optional.security, [{}, { Bearer: ['a'] }, { Bearer: ['b'] }, { DPoP: ['a'] }, { DPoP: ['b'] }])
  t.equal(
    optional.description,
    'Needs a valid access token with `a`, or `b`. A request without credentials passes too.'
  )
  t.strictSame(optional['x-requirements'], [{ anyScope: ['a', 'b'], optional: true }])
  t.equal(operationAt(document, '/needed').security?.length, 4, 'not optional unless each guard is')
  t.strictSame(
    await lint({ ...document, paths: { '/all': document.paths['/all']!, '/optional': document.paths['/optional']! } }),
    []
  )
  const { body: page, headers } = await app.inject('/docs')
  t.match(headers, {
    'content-security-policy':
      /^default-src 'none';style-src 'sha256-[^']{44}';base-uri 'none';form-action 'none';frame-ancestors 'none'$/,
    'cross-origin-resource-policy': /^cross-origin$/,
    'x-frame-options': /^DENY$/
  })
  t.ok(page.includes('the claim <code>tenant</code> with <code>blue</code> or <code>2</code>'))
  t.ok(page.includes('<td>nothing, or <code>Bearer</code> <code>a</code>, or '))
})

t.test('The hooks around a route are described with its own, wherever they are added', async t => {
  const { document, app, issuer } = await start(t, {}, app => {
    app.register(async app => {
      app.get('/before', () => null)
      app.addHook('preHandler', app.require({ claims: { tenant: 'blue' } }))
      app.addHook('onRequest', app.requireScope('outer'))
      app.register(async app => {
        app.get(
          '/inner',
          { onRequest: [app.requireScope('inner'), app.authenticate()] },
          async request => request.requireScope('handler')
        )
      })
    })
    app.get('/outside', () => null)
  })
  for (const path of ['/before', '/inner']) {
    t.match(operationAt(document, path).description, /The token also needs the claim `tenant` with `blue`\.$/)
  }
  t.strictSame(operationAt(document, '/before').security, [{ Bearer: ['outer'] }, { DPoP: ['outer'] }])
  t.strictSame(operationAt(document, '/inner').security, [{ Bearer: ['outer', 'inner'] }, { DPoP: ['outer', 'inner'] }])
  t.strictSame(operationAt(document, '/outside').security, [])
  t.hasStrict((await app.inject('/.well-known/oauth-protected-resource')).json().scopes_supported, [
    'admin',
    'inner',
    'outer'
  ])

  const scopesAt = async (claims?: Record<string, unknown>) => {
    const { headers } = await app.inject({
      url: '/inner',
      headers: claims && { authorization: `Bearer ${issuer.token(claims)}` }
    })
    return [...String(headers['www-authenticate']).matchAll(/scope="([^"]*)"/g)].map(([, scopes]) => scopes)
  }
  t.strictSame(
    await scopesAt(),
    ['outer inner', 'outer inner'],
    'a client without a token gets all of them, on each challenge'
  )
  t.strictSame(await scopesAt({ scope: 'outer' }), ['outer inner'])
  t.strictSame(await scopesAt({ scope: 'outer inner', tenant: 'blue' }), ['outer inner handler'])
})

t.test('The document has the schemes of the mode', async t => {
  const schemes: ReadonlyArray<{ mode: string, names: string[], proofRequired?: boolean }> = [
    { mode: 'ALLOWED', names: ['Bearer', 'DPoP'], proofRequired: false },
    { mode: 'REQUIRED', names: ['DPoP'], proofRequired: true },
    { mode: 'DISABLED', names: ['Bearer'] }
  ]
  for (const { mode, names, proofRequired } of schemes) {
    const { document } = await start(t, { IDP_DPOP_MODE: mode, DPOP_ALGS: ['ES256'] })
    t.strictSame(Object.keys(document.components.securitySchemes), names, mode)
    t.equal(document.components.parameters.DPoP?.required, proofRequired, `${mode}: the header with the proof`)
    const parameters = operationAt(document, '/api/private').parameters ?? []
    t.equal(parameters.length, proofRequired === undefined ? 0 : 1, `${mode}: at a guarded operation`)
    t.equal(operationAt(document, '/api/public').parameters, undefined, `${mode}: not at an open one`)
  }
})

t.test('Every refusal that can occur is documented, with the body that is served', async t => {
  const variants: ReadonlyArray<readonly [settings: Variables, absent: (reason: keyof typeof REFUSALS) => boolean]> = [
    [{ DPOP_NONCE: 'required', RATE_LIMIT: '100' }, () => false],
    [{ ERROR_BODY: 'detailed', RATE_LIMIT: '100' }, reason => REFUSALS[reason].error === 'use_dpop_nonce'],
    [{ DPOP_NONCE: 'required' }, reason => reason === 'rate_limited'],
    [{ DPOP_NONCE: 'required', RATE_LIMIT: '100', DPOP_REPLAY: 'off' }, reason => reason === 'replay_share_exceeded'],
    [{ DPOP_NONCE: 'required', DPOP_REPLAY: 'off' }, reason => REFUSALS[reason].status === 429],
    [
      { IDP_DPOP_MODE: 'DISABLED', DPOP_NONCE: 'required', RATE_LIMIT: '100' },
      reason =>
        reason === 'replay_share_exceeded' ||
        ['use_dpop_nonce', 'invalid_dpop_proof'].includes(REFUSALS[reason].error ?? '')
    ]
  ]
  // With certificates or the security profile, certificates.test.ts looks at these.
  const ofCertificates = (reason: string) =>
    reason.startsWith('certificate_') || reason === 'token_not_sender_constrained'
  for (const [settings, isAbsent] of variants) {
    const { document, app, issuer } = await start(t, settings)
    const documented = (status: string) => {
      const response = operationAt(document, '/api/private-scoped').responses[status]
      return response === undefined
        ? {}
        : resolveReference(document, response).content['application/json'].examples as Record<
          string,
          { value: unknown }
        >
    }
    const reasons = ['401', '403', '429', '503'].flatMap(status => Object.keys(documented(status)))
    t.strictSame(
      reasons.sort(),
      (Object.keys(REFUSALS) as Array<keyof typeof REFUSALS>).filter(reason =>
        !isAbsent(reason) && !ofCertificates(reason)
      ).sort(),
      JSON.stringify(settings)
    )

    const refused = await app.inject('/api/private-scoped')
    t.strictSame(refused.json(), documented('401').credentials_missing!.value, '401 as it is served')
    const forbidden = await app.inject({
      url: '/api/private-scoped',
      headers: { authorization: `Bearer ${issuer.token()}` }
    })
    t.strictSame(forbidden.json(), documented('403').scope_missing!.value, '403 as it is served')
  }
})

t.test('A refusal is documented with what it means and with the headers that it carries', async t => {
  const { document } = await start(t, { DPOP_NONCE: 'required', RATE_LIMIT: '100' })
  for (const [name, { description }] of Object.entries<Response>(document.components.responses)) {
    t.match(description, /^[A-Z].+\.$/, name)
  }
  const headersAt = (path: string) =>
    Object.fromEntries(
      Object.entries(operationAt(document, path).responses)
        .map((
          [status, response]
        ) => [status, Object.keys(resolveReference(document, response).headers ?? {})])
    )
  t.strictSame(headersAt('/api/private-scoped'), {
    200: [],
    401: ['WWW-Authenticate', 'DPoP-Nonce'],
    403: ['WWW-Authenticate'],
    429: ['Retry-After'],
    503: ['Retry-After']
  })
  t.strictSame(headersAt('/api/private'), {
    200: [],
    401: ['WWW-Authenticate', 'DPoP-Nonce'],
    429: ['Retry-After'],
    503: ['Retry-After']
  }, 'no 403 if no scope is needed')
  t.strictSame(headersAt('/api/public'), { 200: [], 503: ['Retry-After'] })
  const { headers } = resolveReference(document, operationAt(document, '/api/public').responses['503']!)
  t.strictSame(headers, {
    'Retry-After': {
      description: 'Seconds to wait before the next try.',
      required: true,
      schema: { type: 'integer', minimum: 1 }
    }
  })
  t.strictSame(headersAt('/health/live'), { 200: [] }, 'what answers under overload too is never turned away')
})

t.test('The server of the document is the address that the client used, as proofs are compared with', async t => {
  const plain = await start(t)
  t.strictSame(plain.document.servers, [{ url: 'http://api.holdfast.test' }])
  t.strictSame((await plain.fetchDocument({ 'x-forwarded-proto': 'https' })).servers, [{
    url: 'http://api.holdfast.test'
  }], 'a peer that is not trusted says nothing')
  t.strictSame(
    (await plain.fetchDocument({ host: 'a?b' })).servers,
    [{ url: '/' }],
    'relative if the host is not valid'
  )
  const proxied = await start(t, { TRUST_PROXY: 'loopback' })
  t.strictSame((await proxied.fetchDocument({ 'x-forwarded-proto': 'https', 'x-forwarded-prefix': '/svc' })).servers, [{
    url: 'https://api.holdfast.test/svc'
  }])
  const fixed = await start(t, { PUBLIC_URL: 'https://www.example.com/svc/' })
  t.strictSame(fixed.document.servers, [{ url: 'https://www.example.com/svc' }])
})

t.test('A fault in determining the address is a fault, not a document', async t => {
  const { app } = await start(t)
  app.baseUrlOf = () => {
    throw new Error('broken')
  }
  t.equal((await app.inject('/docs/json')).statusCode, 500)
})

t.test('A client that goes by the document calls the service, and gets answers as the document has them', async t => {
  const { document, url, issuer } = await start(t)
  const key = await createDpopClient()
  const dpopToken = issuer.token({ cnf: key.cnf, scope: 'read:messages' })
  const rows: ReadonlyArray<[path: string, called: string, status: string, headers: Record<string, string>]> = [
    ['/api/public', '/api/public', '200', {}],
    ['/api/private-scoped', '/api/private-scoped', '200', {
      authorization: `DPoP ${dpopToken}`,
      dpop: key.proof({ token: dpopToken, url: `${url}/api/private-scoped` })
    }],
    ['/api/users/{path}', '/api/users/seven', '200', {
      authorization: `Bearer ${issuer.token({ scope: 'write:users' })}`
    }],
    ['/api/private', '/api/private', '401', {}]
  ]
  const validator = new Ajv({ strict: false, formats: { uri: true } })
  validator.addSchema({ ...document, $id: 'document' } as object)
  for (const [path, called, status, headers] of rows) {
    const answer = await fetch(url + called, { headers })
    t.equal(String(answer.status), status, path)
    const { responses } = document.paths[path]!.get as unknown as { responses: Record<string, object> }
    const body = await answer.json()
    const inline = `/paths/${path.replaceAll('~', '~0').replaceAll('/', '~1').replace(/[{}]/g, encodeURIComponent)}/get/responses/${status}`
    const { $ref } = responses[status] as { $ref?: string }
    const pointer = `document${$ref ?? `#${inline}`}/content/application~1json/schema`
    const validate = validator.getSchema(pointer)!
    t.ok(validate(body), `${path}: ${JSON.stringify(validate.errors)}`)
    t.notOk(validate([]), `${path}: the twin`)
  }
})

t.test('The reference is one page without scripts, whose policy allows only its own style', async t => {
  const { app, document } = await start(t)
  const answer = await app.inject('/docs')
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
  t.notMatch(answer.body, /<script|\son\w+=|style=|src=|href="[^#d]/, 'nothing runs and nothing is fetched')
  t.equal(answer.headers['cache-control'], 'no-store', 'its address is that of this client')
  t.equal((await app.inject('/docs/json')).headers['cache-control'], 'no-store')
  const style = /<style>([^]*?)<\/style>/.exec(answer.body)![1]!
  const policy = String(answer.headers['content-security-policy'])
  t.ok(policy.includes(`style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`), policy)
  t.ok(policy.includes("default-src 'none'"), policy)
  t.hasStrict(answer.headers, { 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' })
  for (const path of Object.keys(document.paths)) t.match(answer.body, containing(`<code>GET ${path}</code>`))
  t.match(answer.body, containing('<code>GET /api/public</code></td><td>nothing</td>'))
  t.match(
    answer.body,
    containing('<code>GET /api/private-scoped</code></td><td><code>Bearer</code> <code>read:messages</code>, or ')
  )
  for (const name of Object.keys(document.components.responses)) {
    t.match(answer.body, containing(`<td><code>${name}</code></td>`))
  }
})

t.test('Each example answer is what a call gives, by Bearer and by DPoP', async t => {
  const variants: ReadonlyArray<{ settings: Variables, scheme: string }> = [
    { settings: {}, scheme: 'Bearer' },
    { settings: { API_PROFILE: '2', IDP_DPOP_MODE: 'REQUIRED' }, scheme: 'DPoP' },
    { settings: { IDP_DPOP_MODE: 'DISABLED' }, scheme: 'Bearer' }
  ]
  for (const { settings, scheme } of variants) {
    const running = await start(t, settings)
    const { document, issuer, url } = running
    while ((await fetch(`${url}/health/ready`)).status !== 200) await new Promise(resolve => setTimeout(resolve, 20))
    const client = await createDpopClient()
    for (const [path, { get }] of Object.entries(document.paths)) {
      const { security = [], responses } = get!
      const scopes = [...new Set([...EXAMPLE_CLIENT.scope.split(' '), ...Object.values(security[0] ?? {}).flat()])]
        .filter(scope => scope !== '')
      // The token of the example, with the scopes beside it that the operation needs.
      const token = issuer.token({
        ...EXAMPLE_CLIENT,
        scope: scopes.join(' '),
        ...(scheme === 'DPoP' && { cnf: client.cnf })
      })
      const target = url + path.replace('{path}', '7')
      const headers = security.length === 0
        ? {}
        : { authorization: `${scheme} ${token}`, ...scheme === 'DPoP' && { dpop: client.proof({ token, url: target }) } }
      const answer = await fetch(target, { headers })
      const [status, type, text] = [answer.status, answer.headers.get('content-type'), await answer.text()]
      t.equal(status, 200, `${path} ${JSON.stringify(settings)}`)
      const [media, { example }] = Object.entries<{ example: unknown }>((responses[200] as ServedResponse).content)[0]!
      t.ok(type!.startsWith(media), `${path}: ${type}`)
      if (media === 'text/plain') t.match(text, containing(example as string))
      else if (path.startsWith('/.well-known')) {
        t.strictSame(
          Object.keys(JSON.parse(text)).sort(),
          Object.keys(example as object).sort(),
          'with the addresses and scopes of this service'
        )
      } else t.strictSame(JSON.parse(text), example, path)

      if (security.length === 0) continue
      const { examples } = resolveReference(document, responses[401]!).content['application/json']
      const refused = await fetch(target)
      t.strictSame(
        [refused.status, await refused.json()],
        [401, examples.credentials_missing.value],
        `${path} without a token`
      )
    }
  }
})

t.test('The example of a service that is not ready is what it answers', async t => {
  const running = await start(t, { IDP_JWKS_URI: 'http://127.0.0.1:9/keys' })
  const { example } = (operationAt(running.document, '/health/ready').responses[503] as ServedResponse)
    .content['application/json']
  const answer = await fetch(`${running.url}/health/ready`)
  t.strictSame([answer.status, await answer.json()], [503, example])
})

t.test('What follows from the settings is at the head of the document', async t => {
  const { document } = await start(t, { DPOP_ALGS: ['ES256', 'PS256'] })
  const { info: { title, license, description }, tags, components: { securitySchemes, parameters } } = document
  t.equal(document.openapi, '3.1.0')
  t.strictSame({ title, license }, { title: 'Holdfast', license: { name: 'MIT', identifier: 'MIT' } })
  t.match(
    description,
    /^A small JSON API .* Each security scheme lists the scopes that it needs\. HEAD works wherever GET does\.$/
  )
  t.strictSame(tags, [
    { name: 'API', description: 'Resources, public and protected.' },
    { name: 'Discovery', description: 'What clients can find out by themselves.' },
    { name: 'Operation', description: 'For load balancers and operators.' }
  ])
  t.strictSame(securitySchemes, {
    Bearer: {
      type: 'http',
      scheme: 'bearer',
      description: 'A JWT access token from the identity provider (RFC 6750).'
    },
    DPoP: {
      type: 'http',
      scheme: 'DPoP',
      description:
        'An access token that is bound to a key of the client, with a proof made with that key in the DPoP ' +
        'header (RFC 9449). Accepted algorithms of proofs: ES256, PS256.'
    }
  })
  t.match(parameters, {
    DPoP: {
      name: exactly('DPoP'),
      in: exactly('header'),
      required: false,
      description: /^A fresh proof for exactly this request\. /,
      schema: { type: exactly('string'), maxLength: 8192 }
    }
  })
  t.strictSame(Object.keys(document.paths), Object.keys(document.paths).sort())
  const { Bearer } =
    (await start(t, { CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'loopback' })).document.components.securitySchemes
  t.match(
    Bearer!.description,
    /RFC 6750\)\. A token that is bound to a client certificate is accepted only over a connection with that certificate \(RFC 8705\)\.$/
  )
})

t.test('A constant of a schema stays one, and every other route has its operation', async t => {
  const { document } = await start(t, {}, app => {
    app.register(async app => {
      app.get('/constant', {
        schema: { response: { 200: { type: 'object', properties: { kind: { const: 'note' } } } } }
      }, () => ({ kind: 'note' }))
      app.route({ method: ['PUT', 'POST'], url: '/both', onRequest: app.authenticate(), handler: () => null })
    })
  })
  t.hasStrict(operationAt(document, '/constant').responses['200'], {
    description: 'OK',
    content: { 'application/json': { schema: { properties: { kind: { const: 'note' } } } } }
  })
  for (const method of ['put', 'post']) {
    const { operationId, parameters, responses } = document.paths['/both']![method]!
    t.strictSame([operationId, parameters, Object.keys(responses)], ['putBoth', [{
      $ref: '#/components/parameters/DPoP'
    }], ['200', '401', '429', '503']], 'the parts that the guard adds appear once')
  }
})

t.test('A route without words of its own is named by the end of its path, under API', async t => {
  const ends = { '/deep/notes': 'notes', '/deep/notes/*': 'notes/*', '/*': '*' }
  const { document } = await start(t, {}, app => {
    app.register(async app => {
      for (const url of Object.keys(ends)) app.get(url, () => null)
    })
  })
  for (const [url, end] of Object.entries(ends)) {
    const { summary, tags } = operationAt(document, url.replace('*', '{path}'))
    t.strictSame({ summary, tags }, { summary: end, tags: ['API'] })
  }
  t.hasStrict(operationAt(document, '/deep/notes/{path}').parameters, [{ in: 'path', name: 'path', example: '7' }])
  for (const url of ['/health/live', '/health/ready']) {
    t.strictSame(operationAt(document, url).tags, ['Operation'])
  }
})

t.test('The headers of pages stay with the pages', async t => {
  const { app } = await start(t)
  for (const url of ['/api/public', '/health/live', '/metrics']) {
    t.equal((await app.inject(url)).headers['content-security-policy'], undefined, url)
  }
  t.equal((await app.inject('/docs/json')).headers['cross-origin-resource-policy'], 'cross-origin')
})

t.test('A gate lists its rules, with what each asks for, on the page and for programs', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' })
  const statementKey = join(t.testdir({ 'key.pem': key }), 'key.pem')
  const { document, app } = await start(t, {
    GATE: {
      statementKey,
      upstream: 'http://127.0.0.1:9',
      rules: [
        { path: '/open/*', methods: ['GET'], allow: 'anyone' },
        { path: '/<orders>', scope: 'read', audience: 'orders' },
        { path: '/mcp', mcp: { tools: ['drop_*'] }, maxAgeSeconds: 60 },
        { path: '/mcp', mcp: {} }
      ]
    }
  })
  t.strictSame((await lint(document)).filter(problem => !problem.startsWith('no-unused-components')), [])
  const rules = [
    { path: '/open/*', methods: ['GET', 'HEAD'], needs: 'Nothing: no token is looked at.' },
    { path: '/<orders>', needs: 'Needs a valid access token with `read`. The token is for the audience `orders`.' },
    {
      path: '/mcp',
      methods: ['POST'],
      messages: ['tools/call drop_*'],
      needs: 'Needs a valid access token. The token also needs a login at most 60 seconds ago.'
    },
    { path: '/mcp', messages: ['all others'], needs: 'Needs a valid access token.' }
  ]
  t.strictSame(document['x-rules'], rules)
  const { body } = await app.inject('/docs')
  t.match(body, containing('<h2>Rules</h2>'))
  for (const name of ['Operation', 'Needs', 'Meaning', 'Path', 'Methods']) t.match(body, containing(`<th>${name}</th>`))
  t.match(body, containing('<code>/&lt;orders&gt;</code></td><td>all</td>'))
  t.match(body, containing('with <code>read</code>. The token is for the audience <code>orders</code>.'))
  t.notOk('x-rules' in (await start(t)).document)
})
