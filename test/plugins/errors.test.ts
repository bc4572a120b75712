import { readdirSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import fc from 'fast-check'
import Fastify, { type FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import t from 'tap'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import { REFUSALS } from '../../lib/refusal.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { isSample } from '../helpers/samples.ts'
import { until } from '../helpers/until.ts'
import { sendRaw } from '../helpers/wire.ts'

t.test('A fault of any route is answered in the configured form, without its text, and logged', async t => {
  const issuer = await startIssuer(t)
  const paths = ['/unknown']
  const { app, log } = await startApp(t, issuer, { ERROR_BODY: 'detailed' }, undefined, app => {
    app.addHook('onRoute', ({ method, url }) => {
      if (method === 'GET') paths.push(url)
    })
    app.addHook(
      'onRequest',
      (request, _reply, done) => done(request.headers.fault ? new Error('an internal text') : undefined)
    )
  })
  t.ok(paths.length > 10)
  for (const path of paths) {
    const logged = log.filter(({ msg }) => msg === 'request failed').length
    const answer = await app.inject({ url: path, headers: { fault: 'yes' } })
    t.strictSame([answer.statusCode, answer.json()], [500, { detail: 'Internal Server Error' }], path)
    t.equal(log.filter(({ msg }) => msg === 'request failed').length, logged + 1, path)
  }
  t.equal((await app.inject('/metrics')).statusCode, 200, 'the twin, without a fault')
  t.equal((await app.inject('/unknown')).statusCode, 404)
})

t.test('A refusal because the service cannot decide has its own sentence, in either form, and is not logged as a fault', async t => {
  const issuer = await startIssuer(t)
  issuer.outage = 500
  const headers = { authorization: `Bearer ${issuer.token()}` }
  const sentence = REFUSALS.keys_unavailable.description
  for (
    const [ERROR_BODY, expected] of [
      ['default', { statusCode: 503, error: 'Service Unavailable', message: sentence }],
      ['detailed', { detail: sentence }]
    ] as const
  ) {
    const { app, log } = await startApp(t, issuer, { ERROR_BODY })
    const answer = await app.inject({ url: '/api/private', headers })
    t.strictSame([answer.statusCode, answer.json()], [503, expected])
    t.equal(answer.headers['cache-control'], 'no-store')
    t.notOk(log.some(({ msg }) => msg === 'request failed'))
  }
})

const NEEDED: Record<string, readonly string[]> = {
  closing: ['connections'],
  'holdfast-audit': ['holdfast-auth'],
  gate: ['connections', 'holdfast-auth'],
  'gate-grpc': ['gate', 'closing'],
  metrics: ['holdfast-auth', 'holdfast-audit', 'pressure', 'connections', 'request-end'],
  openapi: ['holdfast-auth'],
  'request-end': ['holdfast-auth', 'gate'],
  'request-log': ['request-end'],
  tracing: ['holdfast-auth']
}

/** These come with the npm package too. An app may have a plugin of its own with such a name. */
const OF_THE_GUARD = ['auth', 'audit']

t.test('Each plugin has the name of its file, and does not load without those that it needs', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer)
  const folder = join(import.meta.dirname, '..', '..', 'plugins')
  for (const file of readdirSync(folder).filter(file => file.endsWith('.ts'))) {
    const base = basename(file, '.ts')
    const name = OF_THE_GUARD.includes(base) ? `holdfast-${base}` : base
    t.ok(app.hasPlugin(name), name)
    const { default: plugin } = await import(join(folder, file))
    t.equal(
      plugin[Symbol.for('plugin-meta')].fastify,
      name === 'holdfast-auth' ? '>=5 <7' : undefined,
      'the plugin for other apps names the versions of Fastify that it fits'
    )
    for (const missing of NEEDED[name] ?? []) {
      const bare = Fastify()
      for (const other of NEEDED[name]!) if (other !== missing) bare.register(fp(async () => {}, { name: other }))
      await t.rejects(async () => {
        await bare.register(plugin)
      }, { message: `The dependency '${missing}' of plugin '${name}' is not registered` })
    }
  }
})

t.test('What plugins add to a request exists from its beginning', async t => {
  const { app } = await startApp(t, await startIssuer(t), {}, app => {
    app.get('/members', ({ auth, gated, mcpMatches }) => ({ auth, gated, mcpMatches }))
  })
  t.strictSame((await app.inject('/members')).json(), { auth: null, gated: null, mcpMatches: null })
  for (const name of ['auth', 'gated', 'mcpMatches', 'user']) t.equal(app.hasRequestDecorator(name), true, name)
})

t.test('An error keeps its status if that is one of an error, and its text if the client is at fault', async t => {
  const issuer = await startIssuer(t)
  const { app } = await startApp(t, issuer, {}, app => {
    app.get('/fails/:status', request => {
      const { status } = request.params as { status: string }
      throw Object.assign(new Error('its text'), status === 'none' ? {} : { statusCode: Number(status) })
    })
  })
  const rows: ReadonlyArray<readonly [given: string, status: number, message: string]> = [
    ['400', 400, 'its text'],
    ['499', 499, 'its text'],
    ['500', 500, 'Internal Server Error'],
    ['501', 501, 'Not Implemented'],
    ['599', 599, 'Error'],
    ['600', 500, 'Internal Server Error'],
    ['399', 500, 'Internal Server Error'],
    ['200', 500, 'Internal Server Error'],
    ['none', 500, 'Internal Server Error']
  ]
  for (const [given, status, message] of rows) {
    const answer = await app.inject(`/fails/${given}`)
    t.hasStrict([answer.statusCode, answer.json(), answer.headers], [status, { message }, {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store'
    }], given)
  }
})

t.test('A target that cannot be routed is 400, and 403 for a forward-auth proxy', async t => {
  const issuer = await startIssuer(t)
  const { app: gate } = await startApp(t, issuer, { GATE: { rules: [] }, TRUST_PROXY: 'loopback' })
  const { app } = await startApp(t, issuer)
  const statusOf = async (app: FastifyInstance, url: string) => (await app.inject(url)).statusCode
  t.strictSame(await Promise.all(['/verify/envoy/%zz', '/%zz', '/%zz/verify/'].map(url => statusOf(gate, url))), [
    403,
    400,
    400
  ])
  t.match(
    (await gate.inject('/metrics')).body,
    /^holdfast_refusals_total\{reason="target_path"\} 1$/m,
    'without an upstream only proxies have a door at a gate'
  )
  t.strictSame(await Promise.all(['/verify/envoy/%zz', '/%zz'].map(url => statusOf(app, url))), [400, 400])
})

t.test('A target that cannot be routed does no harm to a service below another plugin, as fastify-cli loads it', async t => {
  const settings = await readSettings({ IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: AUDIENCE })
  const log: object[] = []
  const app = createApp(t, {
    ...serverOptions(settings),
    pluginTimeout: 0,
    logger: {
      level: 'info',
      stream: {
        write: (line: string) => {
          log.push(JSON.parse(line))
        }
      }
    }
  })
  await app.register(async scope => {
    await scope.register(holdfast, { settings, isServed: isSample })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  t.equal((await fetch(`http://127.0.0.1:${port}/%ff`)).status, 400)
  await until('it has ended', () => log.some(line => 'end' in line))
  t.hasStrict(log.filter(line => 'end' in line), [{ method: 'GET', status: 400, end: 'answered' }])
  t.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200)
})

t.test('Any bytes in place of a request are answered 400, and the next request is served', async t => {
  const { url } = await startApp(t, await startIssuer(t))
  const byte = fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code))
  const property = fc.asyncProperty(fc.string({ unit: byte, maxLength: 100 }), async bytes => {
    // A line break at the start is skipped by the parser, which then waits for more.
    const { status, body } = await sendRaw(url, [`"${bytes}`])
    return status === 400 && JSON.parse(body).statusCode === 400
  })
  await t.resolves(fc.assert(property, { seed: Number(process.env['FC_SEED'] ?? 9449), numRuns: 40 }))
  t.equal((await fetch(`${url}/api/public`)).status, 200)
})
