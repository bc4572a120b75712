import { createConfig, lintFromString } from '@redocly/openapi-core'
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import holdfast, { type HoldfastOptions } from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { createApp } from '../helpers/app.ts'

type Operation = Record<string, unknown> & { responses: Record<string, { description: string }> }
interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { securitySchemes?: Record<string, { type: string }> }
  securityDefinitions?: Record<string, { type: string }>
}

/** As a client gets the document: what JSON says of it. */
const documentOf = (app: FastifyInstance): Document => JSON.parse(JSON.stringify(app.swagger()))

type Made = Partial<Record<keyof typeof ORDERS, Document>>
const ORDERS = { before: true, after: false }
const OPENAPI_31: FastifyDynamicSwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: { title: 'Orders', version: '1', license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: 'https://api.example' }]
  }
}

/** An app with @fastify/swagger before or after the plugin, and routes after both. */
async function appWith (
  t: Test,
  order: keyof typeof ORDERS,
  swaggerOptions: FastifyDynamicSwaggerOptions,
  options: HoldfastOptions,
  addRoutes: (app: FastifyInstance) => void
) {
  const app = createApp(t)
  if (ORDERS[order]) await app.register(swagger, swaggerOptions)
  await app.register(holdfast, options)
  if (!ORDERS[order]) await app.register(swagger, swaggerOptions)
  addRoutes(app)
  await app.ready()
  return app
}

async function lint (document: Document) {
  const config = await createConfig({
    extends: ['recommended'],
    rules: { 'operation-4xx-response': 'off', 'operation-operationId': 'off', 'operation-summary': 'off' }
  })
  const problems = await lintFromString({ source: JSON.stringify(document), config })
  return problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer}`)
}

const either = (...scopes: string[]) => [{ Bearer: scopes }, { DPoP: scopes }]
const addOrders = (app: FastifyInstance) => {
  const item = { type: 'object', properties: { id: { type: 'string' } } }
  app.get('/open', { schema: { description: 'Open to all.', security: [] } }, () => 'open')
  app.get('/orders', { onRequest: app.requireScope('read:orders') }, () => 'orders')
  app.get('/orders/:id', {
    onRequest: app.require({ anyScope: ['read:orders', 'admin'], claims: { tenant: 'a' } }),
    schema: {
      summary: 'One order',
      params: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
      response: { 200: item }
    }
  }, () => ({ id: '7', more: true }))
  app.get('/maybe', { onRequest: app.require({ optional: true }) }, request => request.auth?.issuer ?? 'guest')
  app.get('/own', {
    onRequest: app.authenticate(),
    schema: {
      description: 'As the app says.',
      security: [{}],
      headers: { type: 'object', properties: { DPoP: { type: 'string' } } },
      response: { 200: { type: 'string' }, 401: { type: 'string', description: 'Its own words' } }
    }
  }, () => 'own')
  app.register(async scope => {
    scope.route({ method: ['PUT', 'PATCH'], url: '/settings', handler: () => 'set' })
    scope.addHook('onRequest', scope.requireScope('admin'))
  })
}

t.test('The document of an app with its own @fastify/swagger shows the guards, whichever is registered first.', async t => {
  const idp = await createTestIssuer()
  const made: Made = {}
  for (const order of ['before', 'after'] as const) {
    const app = await appWith(t, order, OPENAPI_31, idp.options, addOrders)
    const document = made[order] = documentOf(app)
    const at = (path: string, method = 'get') => document.paths[path]![method]!
    t.strictSame(await lint(document), [], order)
    t.strictSame(Object.keys(document.components.securitySchemes!), ['Bearer', 'DPoP'])
    t.strictSame(at('/open'), {
      description: 'Open to all.',
      security: [],
      responses: { 200: { description: 'Default Response' } }
    }, 'nothing is said of an open route')
    t.strictSame(at('/orders').security, either('read:orders'))
    t.equal(at('/orders').description, 'Needs a valid access token with `read:orders`.')
    t.strictSame(Object.keys(at('/orders').responses), ['200', '401', '403', '429', '503'])
    t.strictSame(at('/orders').responses['401'], {
      description: 'The credentials are missing or were refused.',
      headers: {
        'WWW-Authenticate': {
          description: 'The challenges of the accepted schemes, in one line (RFC 6750, RFC 9449 section 7.1).',
          schema: { type: 'string' }
        }
      }
    })
    t.strictSame((at('/orders').responses['503'] as { headers?: object }).headers, {
      'Retry-After': { description: 'Seconds to wait before the next try.', schema: { type: 'integer' } }
    })
    t.strictSame(
      (at('/orders').parameters as Array<{ name: string, required: boolean }>).map((
        { name, required }
      ) => [name, required]),
      [['DPoP', false]]
    )
    t.strictSame(at('/orders/{id}').security, [{ Bearer: ['read:orders'] }, { Bearer: ['admin'] }, {
      DPoP: ['read:orders']
    }, { DPoP: ['admin'] }])
    t.equal(at('/orders/{id}').summary, 'One order')
    t.strictSame(at('/orders/{id}')['x-requirements'], [{
      anyScope: ['read:orders', 'admin'],
      claims: { tenant: ['a'] }
    }])
    t.strictSame(at('/maybe').security, [{}, { Bearer: [] }, { DPoP: [] }])
    t.strictSame(Object.keys(at('/maybe').responses), ['200', '401', '429', '503'], 'no 403: only a token is required')
    t.strictSame(at('/own').security, [{}], 'what the app says stays')
    t.equal(at('/own').description, 'As the app says.')
    t.equal(at('/own').responses['401']!.description, 'Its own words')
    t.equal((at('/own').parameters as object[]).length, 1)
    t.strictSame(at('/settings', 'patch').security, either('admin'), 'a hook around the route')
    t.strictSame(at('/settings', 'put'), at('/settings', 'patch'))
    t.notMatch(JSON.stringify(document), /x-holdfast-guard/)
    t.strictSame(parse(app.swagger({ yaml: true })), document, 'YAML says the same')
    t.equal(app.swagger(), app.swagger(), 'it is made once')

    const answer = await app.inject({
      url: '/orders/7',
      headers: { authorization: `Bearer ${await idp.token({ scope: 'admin', tenant: 'a' })}` }
    })
    t.strictSame([answer.statusCode, answer.json()], [200, { id: '7' }], 'the schema of the answer holds')
    t.strictSame((await app.inject('/orders/7')).json(), {
      statusCode: 401,
      error: 'Unauthorized',
      message: 'This resource needs an access token.'
    }, 'and the body of a refusal is whole')
  }
  t.strictSame(made.before, made.after)
})

t.test('Versions whose security cannot name scopes have them beside it.', async t => {
  const idp = await createTestIssuer()
  const options = {
    ...idp.options,
    idp: { ...idp.options.idp, dpopMode: 'REQUIRED' },
    dpop: { replay: 'off' }
  } as const
  const rows: ReadonlyArray<readonly [version: string, options: FastifyDynamicSwaggerOptions]> = [
    ['3.0', {
      openapi: {
        info: { title: 'Orders', version: '1', license: { name: 'MIT', url: 'https://api.example/license' } },
        servers: [{ url: 'https://api.example' }]
      }
    }],
    ['2.0', {
      swagger: {
        info: { title: 'Orders', version: '1', license: { name: 'MIT', url: 'https://api.example/license' } },
        host: 'api.example',
        schemes: ['https']
      }
    }]
  ]
  for (const [version, swaggerOptions] of rows) {
    for (const order of ['before', 'after'] as const) {
      const document = documentOf(
        await appWith(t, order, swaggerOptions, options, app => {
          app.get('/orders', { onRequest: app.requireScope('read:orders') }, () => 'orders')
          app.get('/any', { onRequest: app.authenticate() }, () => 'any')
          app.get('/maybe', { onRequest: app.require({ optional: true }) }, () => 'maybe')
        })
      )
      const at = (path: string) => document.paths[path]!.get!
      t.strictSame(await lint(document), [], version)
      t.strictSame(Object.keys(at('/orders').responses), ['200', '401', '403', '503'], 'nothing is limited')
      t.strictSame(at('/orders').security, [{ DPoP: [] }])
      t.strictSame(at('/orders')['x-requirements'], [{ scope: ['read:orders'] }])
      t.strictSame(at('/any')['x-requirements'], undefined)
      t.strictSame(at('/maybe').security, [{}, { DPoP: [] }])
      const proof = {
        name: 'DPoP',
        in: 'header',
        description:
          'A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP ' +
          'scheme (RFC 9449 section 4).',
        required: true
      }
      t.strictSame(at('/orders').parameters, [
        version === '2.0' ? { ...proof, type: 'string' } : { ...proof, schema: { type: 'string' } }
      ])
      t.hasStrict(at('/maybe').parameters, [{ required: false }])
      t.strictSame(
        Object.entries(document.securityDefinitions ?? document.components.securitySchemes!).map((
          [name, { type }]
        ) => [name, type]),
        [['DPoP', version === '2.0' ? 'apiKey' : 'http']]
      )
    }
  }
})

t.test('Scopes with guards of their own, and routes that the document leaves out.', async t => {
  const [red, blue] = [
    await createTestIssuer({ issuer: 'https://red.test/' }),
    await createTestIssuer({ issuer: 'https://blue.test/' })
  ]
  const app = createApp(t)
  await app.register(swagger, {
    ...OPENAPI_31,
    exposeHeadRoutes: true,
    transformObject: document => structuredClone((document as { openapiObject: object }).openapiObject)
  })
  await app.register(async scope => {
    await scope.register(holdfast, {
      ...red.options,
      idp: { ...red.options.idp, dpopMode: 'DISABLED' },
      server: { rateLimit: 100, clientCertificate: 'client-cert', trustProxy: true }
    })
    scope.get('/orders', { onRequest: scope.requireScope('red'), schema: { operationId: 'redOrders' } }, () => 'red')
  }, { prefix: '/red' })
  await app.register(async scope => {
    await scope.register(holdfast, blue.options)
    scope.get('/orders', { onRequest: scope.requireScope('blue') }, () => 'blue')
    scope.get('/hidden', { onRequest: scope.requireScope('blue'), schema: { hide: true } }, () => 'blue')
  }, { prefix: '/blue' })
  await app.ready()
  const document = documentOf(app)
  t.strictSame(document.paths['/red/orders']!.get!.security, [{ Bearer: ['red'] }])
  t.strictSame(
    document.paths['/red/orders']!.head!.security,
    [{ Bearer: ['red'] }],
    'a HEAD whose operation was copied'
  )
  t.strictSame(Object.keys(document.paths['/red/orders']!.get!.responses), ['200', '401', '403', '429', '503'])
  t.strictSame(document.paths['/red/orders']!.get!.parameters, undefined)
  t.strictSame(document.paths['/blue/orders']!.get!.security, either('blue'))
  t.equal('/blue/hidden' in document.paths, false)
  t.strictSame(parse(app.swagger({ yaml: true })), document)
})

t.test('Without guards, or without @fastify/swagger under its own name, nothing changes.', async t => {
  const idp = await createTestIssuer()
  const plain = await appWith(t, 'before', OPENAPI_31, idp.options, app => app.get('/open', () => 'open'))
  t.strictSame(documentOf(plain).components, { schemas: {} })

  const hidden = await appWith(
    t,
    'before',
    OPENAPI_31,
    idp.options,
    app => app.get('/hidden', { onRequest: app.authenticate(), schema: { hide: true } }, () => 'hidden')
  )
  t.strictSame(documentOf(hidden).components, { schemas: {} })
  t.strictSame(parse(hidden.swagger({ yaml: true })), documentOf(hidden))

  const fixed = await appWith(
    t,
    'after',
    {
      mode: 'static',
      specification: { document: { openapi: '3.1.0', info: { title: 'Fixed', version: '1' } } as never }
    } as never,
    idp.options,
    app => app.get('/orders', { onRequest: app.authenticate() }, () => 'orders')
  )
  t.strictSame(documentOf(fixed), { openapi: '3.1.0', info: { title: 'Fixed', version: '1' } })

  const named = await appWith(
    t,
    'before',
    { ...OPENAPI_31, decorator: 'description' } as never,
    idp.options,
    app => app.get('/orders', { onRequest: app.authenticate() }, () => 'orders')
  )
  t.strictSame(JSON.parse(JSON.stringify((named as unknown as { description (): object }).description())).paths, {
    '/orders': { get: { responses: { 200: { description: 'Default Response' } } } }
  })

  const other = createApp(t)
  other.decorate('swagger' as never, 'a word of the app' as never)
  await other.register(holdfast, idp.options)
  other.get('/orders', { onRequest: other.authenticate() }, () => 'orders')
  t.equal((await other.inject('/orders')).statusCode, 401)
  t.equal(other.swagger as unknown, 'a word of the app')
})

t.test('Another plugin may give a route a config of its own', async t => {
  const { options } = await createTestIssuer()
  const app = createApp(t)
  await app.register(swagger, OPENAPI_31)
  await app.register(holdfast, options)
  app.addHook('onRoute', route => {
    if (route.url === '/none') delete route.config
    else route.config = { rateLimit: { max: 7 } } as object
  })
  for (const url of ['/orders', '/none']) app.get(url, { onRequest: app.requireScope('read:orders') }, () => url)
  await app.ready()
  const { paths } = documentOf(app)
  for (const url of ['/orders', '/none']) {
    t.strictSame(paths[url]!.get!.security, either('read:orders'))
    t.match((await app.inject(url)).headers['www-authenticate'], /scope="read:orders"/)
  }
})
