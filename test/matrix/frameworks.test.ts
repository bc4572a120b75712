import { readBlocks } from '../helpers/documents.ts'
import { expectSuccess, install, packHoldfast } from '../helpers/package-apps.ts'
import { fetchRuntime } from '../helpers/runtimes.ts'
import t from 'tap'

/** The recipes of docs/guide/plugin.md, each in its framework, without Fastify. */

t.setTimeout(900_000)

const { project, tarball } = await packHoldfast(t)
const RECIPES = Object.fromEntries(
  readBlocks('docs/guide/plugin.md').filter(({ language }) => language === 'js').map((
    { text }
  ) => [/^\/\/ (\S+\.js): /.exec(text)![1]!, text])
)
const PACKAGES = [
  'express@5',
  'express4@npm:express@4',
  'koa',
  'hono',
  '@hono/node-server',
  '@nestjs/core',
  '@nestjs/common',
  '@nestjs/platform-express',
  'reflect-metadata',
  'rxjs',
  '@trpc/server',
  '@modelcontextprotocol/sdk@1',
  'zod'
]

/** Nest without a compiler: what its decorators do. */
const NEST = `
import 'reflect-metadata'
import { Controller, Get, Module, Req } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { needs } from './nest.js'
export async function serve (guard) {
  class Orders { find (req) { return req.caller.sub } }
  Req()(Orders.prototype, 'find', 0)
  Get()(Orders.prototype, 'find', Object.getOwnPropertyDescriptor(Orders.prototype, 'find'))
  Controller('orders')(Orders)
  class App {}
  Module({ controllers: [Orders] })(App)
  const app = await NestFactory.create(App, { logger: false })
  app.useGlobalGuards(needs(guard, { scope: 'read:orders' }))
  await app.listen(0)
  return app.getHttpServer()
}
`

/** Hono as Deno serves it. */
const HONO_ON_DENO = `
import { Hono } from 'hono'
import { getConnInfo } from 'hono/deno'
export async function serve (guard) {
  const app = new Hono()
  app.get('/orders', async c => {
    const verdict = await guard.check(c.req.raw, { scope: 'read:orders' }, { peer: getConnInfo(c).remote.address })
    if (!verdict.admitted) return c.body(verdict.body, verdict.status, verdict.headers)
    return c.text(verdict.user.sub, 200, verdict.headers)
  })
  const server = Deno.serve({ port: 0, hostname: '127.0.0.1', onListen () {} }, app.fetch)
  return { listening: true, address: () => server.addr, close: () => server.shutdown() }
}
`

const CALL = `
import { once } from 'node:events'
import { createGuard } from 'holdfast/guard'
import { createTestIssuer } from 'holdfast/testing'
const silent = { info () {}, warn () {}, error () {}, debug () {} }
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'orders', arguments: {} } })
const MCP = { method: 'POST', body, headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' } }
for (const name of process.argv.slice(2)) {
  const idp = await createTestIssuer()
  const guard = await createGuard({ ...idp.options, logger: silent })
  const server = await (await import('./' + name + '.js')).serve(guard)
  if (!server.listening) await once(server, 'listening')
  const url = 'http://127.0.0.1:' + server.address().port + '/orders?page=2'
  const own = name === 'mcp' ? MCP : { method: 'GET' }
  const client = await idp.dpopClient({ scope: 'read:orders', sub: 'ann' })
  const good = client.headers(own.method, url)
  const found = []
  for (const headers of [
    good,
    good,
    client.headers(own.method, url.replace('orders', 'x')),
    { authorization: 'Bearer ' + await idp.token() },
    { authorization: 'Bearer ' + await idp.token({ scope: 'read:orders', sub: 'ann' }) },
    {}
  ]) {
    const answer = await fetch(url, { ...own, headers: { ...own.headers, ...headers } })
    const text = await answer.text()
    const challenge = /error="(.+?)"/.exec(answer.headers.get('www-authenticate'))?.[1]
    if (answer.status === 200) found.push('200 ' + text.includes('ann'))
    else found.push([answer.status, JSON.parse(text).statusCode === answer.status, challenge, answer.headers.get('cache-control'), answer.headers.get('content-type')].join(' '))
  }
  console.log(name, found.join(', '))
  server.closeAllConnections?.()
  server.close()
  await guard.close()
}
process.exit()
`

const REFUSED = 'no-store application/json; charset=utf-8'
const FOUND = [
  '200 true',
  `401 true invalid_dpop_proof ${REFUSED}`,
  `401 true invalid_dpop_proof ${REFUSED}`,
  `403 true insufficient_scope ${REFUSED}`,
  '200 true',
  `401 true  ${REFUSED}`
].join(', ')

t.test('The recipes of the guide guard each framework, where Fastify is not installed.', async t => {
  const cwd = project('frameworks', {
    ...RECIPES,
    'express-4.js': RECIPES['express.js']!.replace("from 'express'", "from 'express4'"),
    'nest-app.js': NEST,
    'hono-on-deno.js': HONO_ON_DENO,
    'call.js': CALL
  })
  await install(cwd, tarball, ...PACKAGES)
  await t.rejects(expectSuccess(cwd, 'npm', ['ls', 'fastify']), /empty/)
  const names = [...Object.keys(RECIPES).map(file => file.slice(0, -3)).filter(name => name !== 'nest'), 'express-4', 'nest-app']
  t.equal(names.length, 8)
  t.strictSame(
    (await expectSuccess(cwd, process.execPath, ['call.js', ...names])).trim().split('\n'),
    names.map(name => `${name} ${FOUND}`)
  )
  t.equal(
    await expectSuccess(cwd, await fetchRuntime(t, 'deno'), ['run', '-A', 'call.js', 'hono-on-deno']),
    `hono-on-deno ${FOUND}\n`
  )
})
