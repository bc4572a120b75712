/**
 * Apps of other people, as TypeScript sees them. Each is a project of its own, because declarations hold for a whole
 * project. They are texts: the declarations of one would hold for the tests, too.
 */

const OPTIONS = "{ idp: { domain: 'tenant.example', audience: 'https://api.example' } }"

/** Declarations for statements about types. */
const STATEMENTS = `
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
declare function holds<Statement extends true> (statement?: Statement): void
`

/** The routes of an app with another server or logger. */
const guarded = (app: string) => `
import Fastify from 'fastify'
import holdfast from 'holdfast'
${app}
export async function start () {
  await app.register(holdfast, ${OPTIONS})
  app.addHook('onRequest', app.authenticate())
  app.addHook('preHandler', app.authenticate)
  app.get('/one', { onRequest: app.requireScope('a') }, request => request.user.sub)
  app.get('/bare', { onRequest: app.authenticate }, request => request.user.sub)
  app.get('/several', { onRequest: [app.authenticate(), app.require({ acr: 'x' })], preHandler: app.requireScope({ any: ['a', 'b'] }) }, request => request.auth?.expiresAt)
  app.get('/inside', async request => { await request.requireScope('a'); return request.user.acr })
  app.route({ method: 'GET', url: '/route', onRequest: app.requireScope('a'), handler: request => request.user.client_id })
}
`

/** An app that signs tokens of its own. */
const ownJwt = (declared: string, ofUser: string) => `
import Fastify from 'fastify'
import jwt from '@fastify/jwt'
import holdfast from 'holdfast'
import type { AccessTokenClaims } from 'holdfast'
${STATEMENTS}
${declared}
export async function start () {
  const app = Fastify()
  await app.register(jwt, { secret: 'a secret of the app', decoratorName: 'session' })
  await app.register(holdfast, ${OPTIONS})
  app.jwt.sign({ hello: 1 })
  app.get('/', { onRequest: app.authenticate() }, request => {
    holds<Equal<typeof request.user, ${ofUser}>>()
    return request.user
  })
}
export type Claims = AccessTokenClaims
`
const declareJwt = (members: string) => `declare module '@fastify/jwt' { interface FastifyJWT { ${members} } }`

const inTypeBox = `
import Fastify from 'fastify'
import holdfast from 'holdfast'
import { Type } from 'typebox'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
export async function start () {
  const app = Fastify().withTypeProvider<TypeBoxTypeProvider>()
  await app.register(holdfast, ${OPTIONS})
  app.get('/', { onRequest: app.requireScope('a'), schema: { querystring: Type.Object({ page: Type.Number() }) } }, request => request.query.page.toFixed() + request.user.sub)
}
`

const inClaims = `
import type { FastifyRequest } from 'fastify'
import './blue.js'
import './red.js'
${STATEMENTS}
export function look ({ user }: FastifyRequest) {
  holds<Equal<typeof user['https://api.example/team'], string | undefined>>()
  holds<Equal<typeof user.level, number | undefined>>()
  holds<Equal<typeof user.roles, readonly string[] | undefined>>()
  // @ts-expect-error a misspelt claim
  return user.levle
}
`

/** The files of each project. Apps whose declarations do not contradict each other share one. */
export const TYPED_APPS: Record<string, Record<string, string>> = {
  'loggers, servers, providers of types, an @fastify/jwt, and two plugins that declare claims': {
    'logger.ts': guarded("import { pino } from 'pino'\nconst app = Fastify({ loggerInstance: pino() })"),
    'http2.ts': guarded('const app = Fastify({ http2: true })'),
    'http2-logger.ts': guarded(
      "import { pino } from 'pino'\nconst app = Fastify({ http2: true, https: {}, loggerInstance: pino() })"
    ),
    'https.ts': guarded('const app = Fastify({ https: {} })'),
    'typebox.ts': inTypeBox,
    'typebox-routes.ts': guarded(
      "import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'\nconst app = " +
        'Fastify().withTypeProvider<TypeBoxTypeProvider>()'
    ),
    'json-schema.ts': guarded(
      "import type { JsonSchemaToTsProvider } from '@fastify/type-provider-json-schema-to-ts'\nconst app = " +
        'Fastify().withTypeProvider<JsonSchemaToTsProvider>()'
    ),
    'jwt.ts': ownJwt('', 'AccessTokenClaims'),
    'blue.ts': "import 'holdfast'\ndeclare module 'holdfast' { interface AccessTokenClaims { readonly " +
      "'https://api.example/team'?: string, readonly roles?: readonly string[] } }\n",
    'red.ts': "import 'holdfast'\ndeclare module 'holdfast' { interface AccessTokenClaims { readonly " +
      "'https://api.example/team'?: string, readonly level?: number } }\n",
    'claims.ts': inClaims
  },
  'an @fastify/jwt with a declared payload': {
    'app.ts': ownJwt(declareJwt('payload: { hello: number }'), 'AccessTokenClaims')
  },
  'an @fastify/jwt with a declared user': {
    'app.ts': ownJwt(declareJwt('user: { name: string }'), '{ name: string }')
  },
  'an @fastify/jwt with both declared': {
    'app.ts': `${ownJwt(declareJwt('payload: { hello: number }, user: { name: string }'), '{ name: string }')}
export function mistake (app: import('fastify').FastifyInstance) {
  // @ts-expect-error what the app declares holds
  app.jwt.sign({ hello: 'x' })
}
`
  }
}

/** A project in CommonJS whose compiler finds packages as Node 10 did, by `main` and `types`. */
export const NODE10_APP: Record<string, string> = {
  'app.ts': guarded('const app = Fastify()'),
  'orders.test.ts': `
import Fastify from 'fastify'
import holdfast, { Refusal } from 'holdfast'
import service from 'holdfast/service'
import { createTestIssuer } from 'holdfast/testing'
async function main (): Promise<void> {
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(holdfast, idp.options)
  app.get('/', { onRequest: app.authenticate() }, request => request.user.sub)
  const client = await idp.dpopClient()
  console.log((await client.inject(app, '/')).body, typeof service, Refusal.name)
}
main()
`
}
