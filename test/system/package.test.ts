import { execFile, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { readBlocks, root } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'

/**
 * The package in apps of many kinds: each is a real app that starts and answers, from the tarball that the pages tell people to make. The
 * short rows run with `npm run test:system`; `npm run test:package` (PACKAGE_MATRIX=all) has all of them.
 */

const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
const isWhole = process.env['PACKAGE_MATRIX'] === 'all'
// npm and the bundlers take their time.
t.setTimeout(900_000)
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const { NODE_OPTIONS: _options, TAP: _tap, ...env } = process.env
const run = promisify(execFile)

async function expectSuccess (cwd: string, command: string, ...args: string[]): Promise<string> {
  try {
    return (await run(command, args, { cwd, env, maxBuffer: 1 << 26 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string, stderr?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`)
  }
}

const install = (cwd: string, ...packages: string[]) => expectSuccess(cwd, 'npm', 'i', '--no-audit', '--no-fund', '--prefer-offline', ...packages)
const linesOf = (page: string): string[] => readBlocks(page).filter(({ language }) => language === 'sh').flatMap(({ text }) => text.split('\n')).filter(line => /\.tgz|npm run package/.test(line))

function project (name: string, files: Readonly<Record<string, string>>): string {
  const cwd = join(folder, name)
  mkdirSync(cwd, { recursive: true })
  for (const [file, text] of Object.entries({ 'package.json': JSON.stringify({ name, private: true, type: 'module' }), ...files })) writeFileSync(join(cwd, file), text)
  return cwd
}

/** Six requests, with nonces required: one is accepted. */
const PROBES = `
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
  app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub)
  const client = await idp.dpopClient({ scope: 'a' })
  const results = [await client.inject(app, '/'), await client.replay(app, '/'), await client.stolen(app, '/'), await app.inject('/')]
  for (const token of [await idp.expiredToken(), await idp.wrongKeyToken()]) results.push(await app.inject({ url: '/', headers: { authorization: 'Bearer ' + token } }))
  console.log(...results.map(({ statusCode }) => statusCode))
  await app.close()
`
const ESM = `import Fastify from 'fastify'\nimport holdfast from 'holdfast'\nimport { createTestIssuer } from 'holdfast/testing'\n${PROBES}`
const CJS = `const Fastify = require('fastify')\nconst holdfast = require('holdfast')\nconst { createTestIssuer } = require('holdfast/testing')\nasync function main () {${PROBES}}\nmain()`
const ANSWERS = /^200 401 401 401 401 401$/m

const clone = join(folder, 'holdfast')

t.test('Each line of the pages that installs or runs a package works as it is printed.', async t => {
  mkdirSync(clone)
  const files = (await expectSuccess(root, 'git', 'ls-files', '-co', '--exclude-standard')).trim().split('\n')
  for (const file of files) {
    mkdirSync(join(clone, file, '..'), { recursive: true })
    copyFileSync(join(root, file), join(clone, file))
  }
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'))
  const app = project('app', { 'index.js': ESM })

  const lines = new Set([...linesOf('docs/guide/plugin.md'), ...linesOf('packages/holdfast-cli/README.md'), ...linesOf('docs/guide/gate.md')])
  t.equal(lines.size, 5)
  for (const line of [...lines].sort((a, b) => Number(b.startsWith('npm run package')) - Number(a.startsWith('npm run package')))) {
    if (line.startsWith('npm run package')) {
      await expectSuccess(clone, 'sh', '-c', line)
    } else if (line.startsWith('npm i ')) {
      await expectSuccess(app, 'sh', '-c', line)
      t.match(await expectSuccess(app, process.execPath, 'index.js'), ANSWERS, line)
    } else {
      const port = String(await freePort())
      const service = spawn('sh', ['-c', `exec ${line.replace(/^(\S+=\S+ )+/, 'env $&')}`], { cwd: clone, env: { ...env, PORT: port, npm_config_yes: 'true' }, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
      await new Promise<void>((resolve, reject) => {
        service.stdout.on('data', chunk => { if (String(chunk).includes('Server listening')) resolve() })
        service.once('exit', () => reject(new Error(line)))
      })
      t.equal((await fetch(`http://localhost:${port}/api/private`)).status, 401, line)
      process.kill(-service.pid!, 'SIGTERM')
    }
  }
})

const tarball = (): string => join(clone, readdirSync(clone).find(file => /^holdfast-\d/.test(file))!)

t.test('Bundlers make one program of it, which starts and answers without ioredis.', async t => {
  const requireInModules = 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url)'
  const more = isWhole ? ['rollup', 'rolldown', '@vercel/ncc', '@rollup/plugin-node-resolve', '@rollup/plugin-commonjs', '@rollup/plugin-json'] : []
  const cwd = project('bundled', {
    'app.js': ESM,
    'app.cjs': CJS,
    'rollup.config.js': `import commonjs from '@rollup/plugin-commonjs'\nimport json from '@rollup/plugin-json'\nimport resolve from '@rollup/plugin-node-resolve'\nexport default { input: 'app.js', output: { file: 'out/rollup.mjs', format: 'es', inlineDynamicImports: true, banner: ${JSON.stringify(requireInModules)} }, external: [/^node:/], plugins: [resolve({ preferBuiltins: true }), commonjs({ ignoreDynamicRequires: true, ignore: ['node:sqlite'] }), json()] }`,
    'webpack.cjs': "require('webpack')({ entry: './app.cjs', target: 'node20', mode: 'development', devtool: false, output: { path: __dirname + '/out', filename: 'webpack.cjs' } }, (error, stats) => { if (error || stats.hasErrors()) throw error ?? new Error(stats.toString('errors-only')) })"
  })
  await install(cwd, tarball(), 'fastify', 'esbuild', 'webpack', ...more)
  const rows: ReadonlyArray<readonly [file: string, ...command: string[]]> = [
    ['esbuild.mjs', 'npx', 'esbuild', 'app.js', '--bundle', '--platform=node', '--format=esm', '--outfile=out/esbuild.mjs', `--banner:js=${requireInModules}`],
    ['esbuild.cjs', 'npx', 'esbuild', 'app.cjs', '--bundle', '--platform=node', '--outfile=out/esbuild.cjs'],
    ['webpack.cjs', process.execPath, 'webpack.cjs'],
    ...isWhole
      ? [
          ['rollup.mjs', 'npx', 'rollup', '-c'],
          ['app.js', 'npx', 'rolldown', 'app.js', '--platform', 'node', '--format', 'esm', '-d', 'out'],
          ['index.cjs', 'npx', 'ncc', 'build', 'app.cjs', '-o', 'out']
        ] as const
      : []
  ]
  for (const [, command, ...args] of rows) await expectSuccess(cwd, command!, ...args)
  // Where no package is: a bundle that needs one fails.
  writeFileSync(join(cwd, 'out/package.json'), '{"type":"module"}')
  rmSync(join(cwd, 'node_modules'), { recursive: true })
  for (const [file] of rows) t.match(await expectSuccess(join(cwd, 'out'), process.execPath, file), ANSWERS, file)
})

t.test('A test issuer and a refusal of another copy of the package are recognised.', async t => {
  const cwd = project('copies', {
    'index.js': `
import { createRequire } from 'node:module'
import Fastify from 'fastify'
const [one, two] = ['./one/', './two/'].map(place => createRequire(new URL(place, import.meta.url)))
const { createTestIssuer } = one('holdfast/testing')
const beside = two('holdfast/testing')
const holdfast = two('holdfast')
const idp = await createTestIssuer()
const app = Fastify()
globalThis.fetch = () => { throw new Error('the network was asked') }
const second = await beside.createTestIssuer({ issuer: 'https://second.test/', beside: idp })
await app.register(holdfast, second.options)
const { Refusal } = one('holdfast')
app.get('/', { onRequest: app.authenticate(), errorHandler: (error, _request, reply) => reply.code(error.statusCode).send(String(error instanceof Refusal)) }, request => request.auth.issuer)
console.log(holdfast !== one('holdfast'), (await (await idp.dpopClient()).inject(app, '/')).body, (await (await second.dpopClient()).inject(app, '/')).body, (await app.inject('/')).body, new TypeError() instanceof Refusal)
await app.close()`
  })
  await install(cwd, 'fastify')
  for (const name of ['one', 'two']) await install(project(`copies/${name}`, {}), tarball(), 'fastify')
  t.match(await expectSuccess(cwd, process.execPath, 'index.js'), /^true https:\/\/issuer\.test\/ https:\/\/second\.test\/ true false$/m)
})

const FRAMEWORKS = `
import 'reflect-metadata'
import proxy from '@fastify/http-proxy'
import swagger from '@fastify/swagger'
import { FastifyOtelInstrumentation } from '@fastify/otel'
import { Controller, Get, Module, Req, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { initTRPC } from '@trpc/server'
import { fastifyTRPCPlugin } from '@trpc/server/adapters/fastify'
import Fastify from 'fastify'
import holdfast from 'holdfast'
import { createTestIssuer } from 'holdfast/testing'
import mercurius from 'mercurius'

async function ask (name, app, idp, url) {
  const client = await idp.dpopClient({ scope: 'a' })
  const { statusCode, headers } = await app.inject({ url, headers: client.headers('GET', 'http://localhost' + url.split('?')[0]) })
  const named = [statusCode, 'www-authenticate' in headers ? 'challenge' : '', 'dpop-nonce' in headers ? 'nonce' : ''].join(' ')
  console.log(name + ': ' + named + ', then ' + (await client.inject(app, url)).statusCode)
}
const nonces = ({ options }) => ({ ...options, dpop: { nonce: 'required' } })
async function withApp (name, url, prepare, first = async () => {}) {
  const idp = await createTestIssuer()
  const app = Fastify()
  await first(app)
  await app.register(holdfast, nonces(idp))
  await prepare(app)
  await ask(name, app, idp, url)
  return app
}

await withApp('mercurius', '/graphql?query={who}', app => app.register(mercurius, {
  schema: 'type Query { who: String }',
  context: async request => { await request.requireScope('a'); return { sub: request.user.sub } },
  resolvers: { Query: { who: (_root, _args, { sub }) => sub } }
}))

const trpc = initTRPC.context().create()
const router = trpc.router({ who: trpc.procedure.query(({ ctx }) => ctx.sub) })
await withApp('tRPC', '/trpc/who', app => app.register(async scope => {
  scope.addHook('onRequest', scope.requireScope('a'))
  scope.register(fastifyTRPCPlugin, { prefix: '/trpc', trpcOptions: { router, createContext: ({ req }) => ({ sub: req.user.sub }) } })
}))

class Guard {
  async canActivate (context) {
    await context.switchToHttp().getRequest().requireScope('a')
    return true
  }
}
for (const [name, isClass] of [['Nest, by a guard class', true], ['Nest, by a hook', false]]) {
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
  await ask(name, app, idp, '/who')
}

const upstream = Fastify()
upstream.get('/*', () => 'upstream')
const target = await upstream.listen({ port: 0 })
await (await withApp('@fastify/http-proxy', '/out/', app => app.register(proxy, { upstream: target, prefix: '/out', preHandler: app.requireScope('a') }))).close()
await upstream.close()

const traced = await withApp('@fastify/otel', '/', app => { app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub) }, async app => {
  await app.register(new FastifyOtelInstrumentation().plugin())
  await app.register(swagger, { openapi: { openapi: '3.1.0', info: { title: 'App', version: '1' } } })
})
console.log('@fastify/otel: ' + traced.swagger().paths['/'].get.security.flatMap(Object.keys))
`

t.test('Refusals reach the client through frameworks, so that one that needs a nonce gets in.', async t => {
  const cwd = project('frameworks', { 'index.js': FRAMEWORKS })
  await install(cwd, tarball(), 'fastify', 'mercurius', 'graphql', '@trpc/server', '@fastify/http-proxy', '@fastify/otel', '@opentelemetry/api', '@fastify/swagger', '@nestjs/common@11', '@nestjs/core@11', '@nestjs/platform-fastify@11', 'reflect-metadata', 'rxjs')
  const lines = (await expectSuccess(cwd, process.execPath, 'index.js')).trim().split('\n')
  const expected = ['mercurius: 401 challenge nonce, then 200', 'tRPC: 401 challenge nonce, then 200', 'Nest, by a guard class: 401 challenge nonce, then 200', 'Nest, by a hook: 401 challenge nonce, then 200', '@fastify/http-proxy: 401 challenge nonce, then 200', '@fastify/otel: 401 challenge nonce, then 200', '@fastify/otel: Bearer,DPoP']
  for (const line of expected) t.ok(lines.includes(line), `${line}\n${lines.join('\n')}`)
})
