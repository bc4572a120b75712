/**
 * Apps of other people, with frameworks. Each prints what a client without a nonce gets, and with what it ends once it
 * has one.
 */

const ASK = `
async function ask (name, app, idp, url) {
  const client = await idp.dpopClient({ scope: 'a' })
  const { statusCode, headers } = await app.inject({ url, headers: client.headers('GET', 'http://localhost' + url.split('?')[0]) })
  console.log(name + ': ' + seen(statusCode, headers) + ', then ' + (await client.inject(app, url)).statusCode)
}
const seen = (status, headers) => [status, 'www-authenticate' in headers ? 'challenge' : '', 'dpop-nonce' in headers ? 'nonce' : ''].join(' ')
const nonces = ({ options }) => ({ ...options, dpop: { nonce: 'required' } })
`

/** A guard class, and a hook, of the Nest that is installed. */
export const NEST = `
import 'reflect-metadata'
import { createRequire } from 'node:module'
import { Controller, Get, Module, Req, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import holdfast from 'holdfast'
import { createTestIssuer } from 'holdfast/testing'
${ASK}
const [major] = createRequire(import.meta.url)('@nestjs/core/package.json').version.split('.')
class Guard {
  async canActivate (context) {
    await context.switchToHttp().getRequest().requireScope('a')
    return true
  }
}
for (const [name, isClass] of [['by a guard class', true], ['by a hook', false]]) {
  class Who { who (request) { return request.user.sub } }
  const of = [Who.prototype, 'who', Object.getOwnPropertyDescriptor(Who.prototype, 'who')]
  Controller('who')(Who)
  Get()(...of)
  Req()(Who.prototype, 'who', 0)
  if (isClass) UseGuards(Guard)(...of)
  class Root {}
  Module({ controllers: [Who] })(Root)
  const idp = await createTestIssuer()
  const nest = await NestFactory.create(Root, new FastifyAdapter(), { logger: false })
  await nest.register(holdfast, nonces(idp))
  const app = nest.getHttpAdapter().getInstance()
  if (!isClass) app.addHook('onRequest', app.requireScope('a'))
  await nest.init()
  await app.ready()
  await ask('Nest ' + major + ', ' + name, app, idp, '/who')
}
`

/** The same in TypeScript: Nest brings a Fastify of its own, with types of its own. */
export const NEST_TYPED = `
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import holdfast from 'holdfast'
import service from 'holdfast/service'
const nest = await NestFactory.create<NestFastifyApplication>(class Root {}, new FastifyAdapter())
const idp = { domain: 'tenant.example', audience: 'https://api.example' }
await nest.register(holdfast, { idp })
await nest.register(service, { prefix: '/svc', idp })
// @ts-expect-error a misspelt option is none
await nest.register(holdfast, { idp: { domains: 'tenant.example' } })
`

/** All the others: their packages can be installed beside each other. */
export const FRAMEWORKS = `
import { once } from 'node:events'
import { createBullBoard } from '@bull-board/api'
import { FastifyAdapter as BullBoard } from '@bull-board/fastify'
import cookie from '@fastify/cookie'
import express from '@fastify/express'
import proxy from '@fastify/http-proxy'
import { Authenticator, Strategy } from '@fastify/passport'
import session from '@fastify/session'
import swagger from '@fastify/swagger'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import { initTRPC } from '@trpc/server'
import { fastifyTRPCPlugin } from '@trpc/server/adapters/fastify'
import Fastify from 'fastify'
import holdfast from 'holdfast'
import { createTestIssuer } from 'holdfast/testing'
import mercurius from 'mercurius'
import WebSocket from 'ws'
${ASK}
async function withApp (name, url, prepare, first = async () => {}) {
  const idp = await createTestIssuer()
  const app = Fastify()
  await first(app)
  await app.register(holdfast, nonces(idp))
  await prepare(app)
  await ask(name, app, idp, url)
  return app
}

await withApp('mercurius, in the context', '/graphql?query={who}', app => app.register(mercurius, {
  schema: 'type Query { who: String }',
  context: async request => { await request.requireScope('a'); return { sub: request.user.sub } },
  resolvers: { Query: { who: (_root, _args, { sub }) => sub } }
}))
for (const [name, type] of [['may be null', 'String'], ['is never null', 'String!']]) {
  await withApp('mercurius, in the resolver of a field that ' + name, '/graphql?query={who}', app => app.register(mercurius, {
    schema: 'type Query { who: ' + type + ' }',
    resolvers: { Query: { who: async (_root, _args, { reply: { request } }) => { await request.requireScope('a'); return request.user.sub } } }
  }))
}
{
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(holdfast, nonces(idp))
  await app.register(async scope => {
    scope.addHook('onRequest', scope.requireScope('a'))
    scope.register(mercurius, {
      schema: 'type Query { who: String } type Subscription { named: String }',
      subscription: { context: (_socket, request) => ({ sub: request.user.sub }) },
      resolvers: { Subscription: { named: { subscribe: async function * (_root, _args, { sub }) { yield { named: sub } } } } }
    })
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const client = await idp.dpopClient({ scope: 'a', sub: 'ann' })
  const open = nonce => new WebSocket(url.replace('http', 'ws') + '/graphql', 'graphql-transport-ws', { headers: client.headers('GET', url + '/graphql', nonce) })
  const [request, refused] = await once(open(), 'unexpected-response')
  request.destroy()
  const socket = open(refused.headers['dpop-nonce'])
  await once(socket, 'open')
  socket.send('{"type":"connection_init"}')
  await once(socket, 'message')
  socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query: 'subscription { named }' } }))
  const [message] = await once(socket, 'message')
  console.log('mercurius, a subscription: ' + seen(refused.statusCode, refused.headers) + ', then ' + (JSON.parse(message).payload.data.named === 'ann' ? 200 : message))
  socket.terminate()
}

const trpc = initTRPC.context().create()
const router = trpc.router({ who: trpc.procedure.query(({ ctx }) => ctx.sub) })
await withApp('tRPC', '/trpc/who', app => app.register(async scope => {
  scope.addHook('onRequest', scope.requireScope('a'))
  scope.register(fastifyTRPCPlugin, { prefix: '/trpc', trpcOptions: { router, createContext: ({ req }) => ({ sub: req.user.sub }) } })
}))

const board = new BullBoard()
board.setBasePath('/queues')
createBullBoard({ queues: [], serverAdapter: board })
await withApp('@bull-board/fastify', '/queues/api/queues', app => app.register(async scope => {
  scope.addHook('onRequest', scope.requireScope('a'))
  scope.register(board.registerPlugin(), { prefix: '/queues' })
}))

await withApp('an error handler of a scope', '/inside/', app => app.register(async scope => {
  scope.setErrorHandler((error, _request, reply) => reply.code(error.status).send({ own: error.reason }))
  scope.get('/', { onRequest: scope.requireScope('a') }, request => request.user.sub)
}, { prefix: '/inside' }))

// Express answers in a hook of its own.
await withApp('@fastify/express', '/old', async app => {
  app.addHook('onRequest', app.requireScope('a'))
  await app.register(express)
  app.use('/old', (_request, response) => response.end('express'))
})

const upstream = Fastify()
upstream.get('/*', () => 'upstream')
const target = await upstream.listen({ port: 0 })
await (await withApp('@fastify/http-proxy', '/out/', app => app.register(proxy, { upstream: target, prefix: '/out', preHandler: app.requireScope('a') }))).close()

const traced = await withApp('@fastify/otel', '/', async app => {
  await app.register(new FastifyOtelInstrumentation().plugin())
  app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub)
}, app => app.register(swagger, { openapi: { openapi: '3.1.0', info: { title: 'App', version: '1' } } }))
console.log('@fastify/otel: ' + traced.swagger().paths['/'].get.security.flatMap(Object.keys))

{
  // Ben has a session, and the token is Ann's.
  const idp = await createTestIssuer()
  const app = Fastify()
  const passport = new Authenticator()
  passport.use('form', Object.assign(Object.create(Strategy.prototype), { name: 'form', authenticate (request) { this.success({ sub: request.query.as }) } }))
  passport.registerUserSerializer(async ({ sub }) => sub)
  passport.registerUserDeserializer(async sub => ({ sub }))
  await app.register(cookie)
  await app.register(session, { secret: 's'.repeat(32), cookie: { secure: false } })
  await app.register(passport.initialize())
  await app.register(passport.secureSession())
  await app.register(holdfast, idp.options)
  const who = ({ user, auth }) => user.sub + ' ' + (auth?.scopes.join() ?? '-')
  app.get('/login', { preValidation: passport.authenticate('form', { authInfo: false }) }, request => request.user.sub)
  app.get('/token', { onRequest: app.requireScope('a') }, who)
  app.get('/inside', async request => { await request.requireScope('a'); return who(request) })
  app.get('/both', { onRequest: app.requireScope('a'), preValidation: passport.authenticate('session') }, who)
  app.get('/session', who)
  const login = await app.inject('/login?as=ben')
  const headers = { cookie: login.headers['set-cookie'].split(';')[0], authorization: 'Bearer ' + await idp.token({ sub: 'ann', scope: 'a' }) }
  for (const url of ['/token', '/inside', '/both', '/session']) console.log('@fastify/passport, ' + url + ': ' + (await app.inject({ url, headers })).body)
  console.log('@fastify/passport, /session without a token: ' + (await app.inject({ url: '/session', headers: { cookie: headers.cookie } })).body)
}
// @fastify/websocket does not end a handshake that its client has given up.
process.exit()
`
