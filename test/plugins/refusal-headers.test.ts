import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { Refusal } from '../../lib/refusal.ts'
import { putRefusalHeaders, type AnswerInWaiting } from '../../plugins/auth/refusal-headers.ts'
import { createApp } from '../helpers/app.ts'

/** An app of others with the guard, nonces required, and an error handler that knows nothing of headers. */
async function start (t: Test, prepare: (app: FastifyInstance) => void) {
  const idp = await createTestIssuer()
  const app = createApp(t)
  await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
  prepare(app)
  return { app, idp, client: await idp.dpopClient({ scope: 'a' }) }
}

/** What of an answer the client needs to try again. */
function seen (
  { statusCode, headers }: { statusCode: number, headers: Record<string, unknown> }
) {
  return [
    statusCode,
    headers['www-authenticate'] === undefined ? 'no challenge' : 'challenge',
    headers['dpop-nonce'] === undefined ? 'no nonce' : 'nonce'
  ].join(' ')
}

const ask = async (request: FastifyRequest) => request.require({ scope: 'a' })
const refusalOf = async (request: FastifyRequest) =>
  ask(request).then(() => undefined, error => error as Refusal)

/** What a handler makes of a refusal, and what the client sees. */
const HANDLERS: ReadonlyArray<
  readonly [title: string, handler: (request: FastifyRequest, reply: FastifyReply) => unknown, expected: string]
> = [
  ['throws it', ask, '401 challenge nonce'],
  [
    'answers with its status',
    async (request, reply) => reply.code((await refusalOf(request))!.statusCode).send({ ours: true }),
    '401 challenge nonce'
  ],
  ['answers with another error', async (request, reply) => {
    await refusalOf(request)
    return reply.code(418).send('tea')
  }, '418 challenge nonce'],
  ['has a fault of its own', async request => {
    await refusalOf(request)
    throw new Error('broken')
  }, '500 no challenge nonce'],
  ['sends a Response of 502', async (request, reply) => {
    await refusalOf(request)
    return reply.send(new Response('no', { status: 502 }))
  }, '502 no challenge nonce'],
  ['sends a Response of 401', async (request, reply) => {
    await refusalOf(request)
    return reply.send(new Response('no', { status: 401 }))
  }, '401 challenge nonce'],
  ['sends a stream of 401', async (request, reply) => {
    await refusalOf(request)
    return reply.code(401).send(new Blob(['no']).stream())
  }, '401 challenge nonce'],
  ['answers without its own status', async request => {
    await refusalOf(request)
    return 'open'
  }, '200 no challenge no nonce'],
  ['is refused twice, and answers all the same', async request => {
    await refusalOf(request)
    await refusalOf(request)
    return 'open'
  }, '200 no challenge no nonce'],
  ['answers 204', async (request, reply) => {
    await refusalOf(request)
    return reply.code(204).send()
  }, '204 no challenge no nonce'],
  ['redirects', async (request, reply) => {
    await refusalOf(request)
    return reply.redirect('/login')
  }, '302 no challenge no nonce'],
  ['sends a Response of 200', async (request, reply) => {
    await refusalOf(request)
    return reply.code(401).send(new Response('yes'))
  }, '200 no challenge no nonce'],
  ['sends a stream of 200', async (request, reply) => {
    await refusalOf(request)
    return reply.send(new Blob(['yes']).stream())
  }, '200 no challenge no nonce'],
  ['writes a challenge of its own on 200', async (request, reply) => {
    await refusalOf(request)
    return reply.header('www-authenticate', 'Own').send('odd')
  }, '200 challenge no nonce']
]

t.test('The headers of a refusal stand on the answer, whoever handles the error, and leave one below 400.', async t => {
  const { app, client } = await start(t, app => {
    for (const [index, [, handler]] of HANDLERS.entries()) app.get(`/${index}`, handler)
  })
  for (const [index, [title, , expected]] of HANDLERS.entries()) {
    const headers = client.headers('GET', `http://localhost/${index}`)
    const answer = await app.inject({ url: `/${index}`, headers })
    t.equal(seen(answer), expected, title)
    t.equal(answer.headers['cache-control'], answer.statusCode < 400 ? undefined : 'no-store', title)
  }
  t.equal(seen(await client.inject(app, '/0')), '200 no challenge no nonce', 'the twin: with the nonce')
})

t.test('What the app itself says of caching stays where the request passes after its refusal.', async t => {
  const { app } = await start(t, app => {
    app.register(async scope => {
      scope.addHook('onRequest', async (_request, reply) => {
        reply.header('cache-control', 'no-store')
      })
      scope.get('/before', async request => {
        await refusalOf(request)
        return 'open'
      })
    })
    app.get('/after', async (request, reply) => {
      await refusalOf(request)
      return reply.header('cache-control', 'private').send(new Blob(['open']).stream())
    })
  })
  for (const [url, expected] of [['/before', 'no-store'], ['/after', 'private']] as const) {
    const { statusCode, headers } = await app.inject(url)
    t.strictSame([statusCode, headers['cache-control']], [200, expected], url)
  }
})

t.test('A guard before the handler leaves its headers to whatever handles errors there.', async t => {
  const { app, client } = await start(t, app => {
    app.register(async scope => {
      scope.setErrorHandler((error: Refusal, _request, reply) =>
        reply.code(error.statusCode).send({ error: error.reason })
      )
      scope.get('/child', { onRequest: scope.requireScope('a') }, () => 'in')
      scope.get('/changed', {
        onRequest: scope.requireScope('a'),
        onSend: async (_request, reply, payload) => {
          reply.code(200)
          return payload
        }
      }, () => 'in')
    })
    app.register(async scope => {
      scope.setErrorHandler((_error, _request, reply) => {
        reply.hijack()
        reply.raw.writeHead(401, { 'content-type': 'text/plain' }).end('raw')
      })
      scope.get('/hijacked', { onRequest: scope.requireScope('a') }, () => 'in')
    })
  })
  for (
    const [path, first, then] of [
      ['/child', '401 challenge nonce', '200 no challenge no nonce'],
      ['/changed', '200 no challenge no nonce', '200 no challenge no nonce'],
      ['/hijacked', '401 no challenge no nonce', '401 no challenge no nonce']
    ] as const
  ) {
    t.equal(
      seen(await app.inject({ url: path, headers: client.headers('GET', `http://localhost${path}`) })),
      first,
      path
    )
    t.equal(seen(await client.inject(app, path)), then, `${path}, by a client that takes the nonce`)
  }
})

t.test('A hook that the app has added before the guard may call it, and work on.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
  const slow = async (request: FastifyRequest) => {
    await request.authenticate()
    // Open answers are looked at four times a second.
    await delay(600)
  }
  app.register(async scope => {
    scope.addHook('onRequest', slow).get('/below', () => 'in')
  })
  app.addHook('onRequest', slow)
  await app.register(holdfast, { ...idp.options, revocation: {} })
  app.setErrorHandler((error: Refusal, _request, reply) => reply.code(error.statusCode).send(error.reason))
  app.get('/', () => 'in')
  const authorization = `Bearer ${await idp.token()}`
  for (const url of ['/', '/below']) {
    const refused = await app.inject(url)
    t.strictSame([seen(refused), refused.headers['cache-control']], ['401 challenge no nonce', 'no-store'], url)
    t.equal((await app.inject({ url, headers: { authorization } })).body, 'in', url)
  }
})

t.test('A guard may stand at a route outside of its scope.', async t => {
  const idp = await createTestIssuer()
  const app = createApp(t)
  await app.register(async scope => {
    await scope.register(holdfast, { ...idp.options, revocation: {} })
    const onRequest = scope.authenticate()
    app.get('/', { onRequest }, () => delay(600, 'in'))
  })
  const refused = await app.inject('/')
  t.strictSame([seen(refused), refused.headers['cache-control']], ['401 challenge no nonce', 'no-store'])
  const headers = { authorization: `Bearer ${await idp.token()}` }
  t.equal((await app.inject({ url: '/', headers })).body, 'in')
})

t.test('A refusal has the form of http-errors.', async t => {
  const rows: ReadonlyArray<readonly [refusal: Refusal, status: number, expose: boolean]> = [
    [new Refusal('credentials_missing'), 401, true],
    [new Refusal('scope_missing'), 403, true],
    [new Refusal('rate_limited'), 429, true],
    [new Refusal('keys_unavailable'), 503, false]
  ]
  for (const [refusal, status, expose] of rows) {
    const { status: own, statusCode, expose: shown } = { ...refusal }
    t.strictSame({ own, statusCode, shown }, { own: status, statusCode: status, shown: expose }, refusal.reason)
  }
  const headers = { 'retry-after': '1' }
  t.strictSame(new Refusal('rate_limited', { headers }).headers, headers)
})

t.test('Nothing is put on an answer that is on its way.', async t => {
  const values: object[] = []
  const raw = { headersSent: true, removeHeader () {}, writeHead: () => raw } as unknown as AnswerInWaiting['raw']
  putRefusalHeaders({ raw, hasHeader: () => false, headers: value => values.push(value) }, { 'www-authenticate': 'Bearer' })
  t.strictSame(values, [])
})

t.test('An answer of success that is written as a list of headers has no challenge.', async t => {
  const { app } = await start(t, app => {
    app.get('/:status', async (request, reply) => {
      await request.authenticate().catch(() => {})
      const { status } = request.params as { status: string }
      const list = Object.entries({ 'x-mark': '1', ...status !== '204' && reply.getHeaders() }).flat() as string[]
      reply.hijack()
      reply.raw.writeHead(Number(status), list)
      reply.raw.end()
    })
  })
  for (const status of ['401', '200', '204']) {
    const { headers } = await app.inject(`/${status}`)
    t.equal('www-authenticate' in headers, status === '401', status)
    t.equal('cache-control' in headers, status === '401', status)
    t.equal(headers['x-mark'], '1', status)
  }
  const own = await app.inject({ url: '/500' })
  t.equal(own.headers['cache-control'], 'no-store', 'no-store stays with a fault')
  t.notOk('www-authenticate' in own.headers)
})
