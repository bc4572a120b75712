import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { EXAMPLE_CLIENT, messageSchema, profileSchema, withExample } from '../../schemas/answers.ts'

const root = join(import.meta.dirname, '..', '..')
const readJson = (path: string): unknown => JSON.parse(readFileSync(join(root, path), 'utf8'))

/** What the owner of this clone says of their own routes: see test/own/README.md. */
export const ownRoutes = readJson('test/own/routes.json') as {
  public: readonly string[],
  replaced: readonly string[]
}

/** The sample routes that this clone still has, by the names of their files in routes/api. */
export const samples: ReadonlySet<string> = new Set((readJson('test/helpers/samples.json') as string[])
  .filter(name => !ownRoutes.replaced.includes(name) && existsSync(join(root, `routes/api/${name}.ts`))))

/** Whether a file of routes/api is a sample route, by its path in there. */
export const isSample = (path: string): boolean => samples.has(path.slice(1).replace(/\.ts$/, ''))

/** The sample routes that may be deleted, as far as other tests request them: paths, guard and body. */
const STAND_INS: ReadonlyArray<
  { name: string, paths: string[], summary: string, guard: (app: FastifyInstance) => object, schema: object }
> = [
  {
    name: 'admin',
    paths: ['/admin', '/admin/*'],
    summary: 'What administrators may read',
    guard: app => app.requireScope('admin'),
    schema: messageSchema
  },
  {
    name: 'profile',
    paths: ['/profile'],
    summary: 'What the token says of who calls',
    guard: app => app.authenticate(),
    schema: profileSchema
  },
  {
    name: 'protected',
    paths: ['/protected'],
    summary: 'What anyone with a token may read',
    guard: app => app.authenticate(),
    schema: messageSchema
  },
  {
    name: 'users',
    paths: ['/users', '/users/*'],
    summary: 'What those may read who read or write users',
    guard: app => app.requireScope({ any: ['read:users', 'write:users'] }),
    schema: messageSchema
  }
]

const MESSAGE = { message: 'A stand-in.' }
const PROFILE = {
  user_id: EXAMPLE_CLIENT.sub,
  email: EXAMPLE_CLIENT.email,
  permissions: EXAMPLE_CLIENT.permissions,
  custom_claim: null
}

/** Adds a route to an app for each sample route that is gone, so that the tests of the guard go on without it. */
export function addStandIns (app: FastifyInstance) {
  app.register(async app => {
    app.addHook('onRequest', async (_request, reply) => {
      reply.cacheControl('no-store')
    })
    for (const { paths, summary, guard, schema } of STAND_INS.filter(({ name }) => !samples.has(name))) {
      for (const path of paths) {
        app.get(path, {
          onRequest: guard(app) as never,
          schema: { summary, response: { 200: withExample(schema, schema === profileSchema ? PROFILE : MESSAGE) } }
        }, ({ user }) => ({
          ...MESSAGE,
          ...PROFILE,
          ...EXAMPLE_CLIENT,
          user_id: user.sub
        }))
      }
    }
  }, { prefix: '/api' })
}
