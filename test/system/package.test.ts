import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readBlocks, root } from '../helpers/documents.ts'
import { FRAMEWORKS, NEST, NEST_TYPED } from '../helpers/framework-apps.ts'
import { freePort } from '../helpers/free-port.ts'
import {
  ANSWERS,
  CJS,
  copyRepository,
  ESM,
  expectSuccess,
  install,
  outsideEnv,
  projectsIn
} from '../helpers/package-apps.ts'

/**
 * The package in apps of many kinds: each is a real app that starts and answers, from the tarball that the pages tell
 * people to make. The short rows run with `npm run test:system`; `npm run test:package` (PACKAGE_MATRIX=all) has all of
 * them.
 */

const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
const isWhole = process.env['PACKAGE_MATRIX'] === 'all'
// npm and the bundlers take their time.
t.setTimeout(900_000)
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const project = projectsIn(folder)
const linesOf = (page: string) =>
  readBlocks(page).filter(({ language }) => language === 'sh').flatMap(({ text }) => text.split('\n')).filter(line =>
    /\.tgz|npm run package|npm pkg|npm i holdfast|npx -y holdfast-cli/.test(line)
  )
let clone = ''

t.test('Each line of the pages that installs or runs a package works as it is printed.', async t => {
  clone = await copyRepository(folder)
  // As `npm init` of npm 11 writes it.
  const app = project('app', { 'index.js': ESM, 'package.json': '{"type":"commonjs"}' })

  const lines = new Set([
    ...linesOf('docs/guide/plugin.md'),
    ...linesOf('packages/holdfast-cli/README.md'),
    ...linesOf('docs/guide/gate.md')
  ])
  const isPublished = ![...lines].some(line => line.startsWith('npm run package'))
  t.equal(lines.size, isPublished ? 4 : 5)
  // The rows below want the tarball all the same.
  if (isPublished) await expectSuccess(clone, 'npm', ['run', 'package'])
  for (
    const line of [...lines].sort((a, b) =>
      Number(b.startsWith('npm run package')) - Number(a.startsWith('npm run package'))
    )
  ) {
    if (line.startsWith('npm run package')) {
      await expectSuccess(clone, 'sh', ['-c', line])
    } else if (line.startsWith('npm pkg ')) await expectSuccess(app, 'sh', ['-c', line])
    else if (line.startsWith('npm i ')) {
      await expectSuccess(app, 'sh', ['-c', line])
      t.match(await expectSuccess(app, process.execPath, ['index.js']), ANSWERS, line)
    } else {
      const port = String(await freePort())
      const service = spawn('sh', ['-c', `exec ${line.replace(/^(\S+=\S+ )+/, 'env $&')}`], {
        cwd: clone,
        env: { ...outsideEnv, PORT: port },
        stdio: ['ignore', 'pipe', 'inherit'],
        detached: true
      })
      await new Promise<void>((resolve, reject) => {
        service.stdout.on('data', chunk => {
          if (String(chunk).includes('Server listening')) resolve()
        })
        service.once('exit', () => reject(new Error(line)))
      })
      t.equal((await fetch(`http://localhost:${port}/api/private`)).status, 401, line)
      process.kill(-service.pid!, 'SIGTERM')
    }
  }
})

const tarball = () => join(clone, readdirSync(clone).find(file => /^holdfast-\d.*\.tgz$/.test(file))!)

t.test('What a release does with the packed packages: a bill of materials each, and a publication that npm accepts.', async t => {
  const packed = readdirSync(clone).filter(file => file.endsWith('.tgz'))
  t.ok(packed.length >= 2, packed.join(' '))
  await expectSuccess(clone, '.ci/release/bills', packed)
  for (const file of packed) {
    const bill = JSON.parse(readFileSync(join(clone, file.replace(/tgz$/, 'cdx.json')), 'utf8')) as {
      bomFormat: string,
      metadata: { component: { name: string, version: string } },
      components: Array<{ name: string }>
    }
    t.equal(bill.bomFormat, 'CycloneDX')
    t.equal(`${bill.metadata.component.name}-${bill.metadata.component.version}.tgz`, file)
    const { dependencies = {} } = JSON.parse(
      await expectSuccess(clone, 'tar', ['-xzOf', file, 'package/package.json'])
    ) as { dependencies?: Record<string, string> }
    const named = new Set(bill.components.map(({ name }) => name))
    t.strictSame(Object.keys(dependencies).filter(name => !named.has(name)), [], file)
    t.match(await expectSuccess(clone, 'npm', ['publish', `./${file}`, '--dry-run', '--access', 'public']), /^\+ \S+@/m)
  }
})

t.test('Bundlers make one program of it, which starts and answers without ioredis.', async t => {
  const requireInModules =
    'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url)'
  const more = isWhole
    ? [
        'rollup',
        'rolldown',
        '@vercel/ncc',
        '@rollup/plugin-node-resolve',
        '@rollup/plugin-commonjs',
        '@rollup/plugin-json'
      ]
    : []
  const cwd = project('bundled', {
    'app.js': ESM,
    'app.cjs': CJS,
    'rollup.config.js':
      'import commonjs from \'@rollup/plugin-commonjs\'\nimport json from \'@rollup/plugin-json\'\nimport resolve ' +
      'from \'@rollup/plugin-node-resolve\'\nexport default { input: \'app.js\', output: { file: \'out/rollup.mjs\', ' +
      `format: 'es', inlineDynamicImports: true, banner: ${JSON.stringify(requireInModules)} }, external: ` +
      '[/^node:/], plugins: [resolve({ preferBuiltins: true }), commonjs({ ignoreDynamicRequires: true, ignore: ' +
      '[\'node:sqlite\'] }), json()] }',
    'webpack.cjs':
      "require('webpack')({ entry: './app.cjs', target: 'node20', mode: 'development', devtool: false, output: { " +
      "path: __dirname + '/out', filename: 'webpack.cjs' } }, (error, stats) => { if (error || " +
      "stats.hasErrors()) throw error ?? new Error(stats.toString('errors-only')) })"
  })
  await install(cwd, tarball(), 'fastify', 'esbuild', 'webpack', ...more)
  const rows: ReadonlyArray<readonly [file: string, ...command: string[]]> = [
    [
      'esbuild.mjs',
      'npx',
      'esbuild',
      'app.js',
      '--bundle',
      '--platform=node',
      '--format=esm',
      '--outfile=out/esbuild.mjs',
      `--banner:js=${requireInModules}`
    ],
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
  for (const [, command, ...args] of rows) await expectSuccess(cwd, command!, args)
  // Where no package is: a bundle that needs one fails.
  writeFileSync(join(cwd, 'out/package.json'), '{"type":"module"}')
  rmSync(join(cwd, 'node_modules'), { recursive: true })
  for (const [file] of rows) t.match(await expectSuccess(join(cwd, 'out'), process.execPath, [file]), ANSWERS, file)
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
  await install(project('copies/one', {}), tarball(), 'fastify')
  cpSync(join(cwd, 'one'), join(cwd, 'two'), { recursive: true, verbatimSymlinks: true })
  mkdirSync(join(cwd, 'node_modules'))
  symlinkSync(join(cwd, 'one/node_modules/fastify'), join(cwd, 'node_modules/fastify'))
  t.match(
    await expectSuccess(cwd, process.execPath, ['index.js']),
    /^true https:\/\/issuer\.test\/ https:\/\/second\.test\/ true false$/m
  )
})

/** What a framework's app has printed, against what it must have. */
function compare (t: Test, output: string, expected: readonly string[]) {
  const lines = output.trim().split('\n')
  for (const line of expected) t.ok(lines.includes(line), `${line}\n${lines.join('\n')}`)
}
const GETS_IN = '401 challenge nonce, then 200'

t.test('Refusals reach the client through frameworks, so that one that needs a nonce gets in.', async t => {
  const cwd = project('frameworks', { 'index.js': FRAMEWORKS })
  const packages = [
    'mercurius',
    'graphql@16',
    'ws',
    '@trpc/server',
    '@bull-board/api',
    '@bull-board/fastify',
    '@fastify/express',
    '@fastify/http-proxy',
    '@fastify/otel',
    '@opentelemetry/api',
    '@fastify/swagger'
  ]
  await install(cwd, tarball(), 'fastify', ...packages, '@fastify/passport', '@fastify/session', '@fastify/cookie')
  const rows = [
    'mercurius, in the context',
    'mercurius, in the resolver of a field that is never null',
    'mercurius, a subscription',
    'tRPC',
    '@bull-board/fastify',
    'an error handler of a scope',
    '@fastify/express',
    '@fastify/http-proxy',
    '@fastify/otel'
  ]
  const people = [
    '/token: ann a',
    '/inside: ann a',
    '/both: ann a',
    '/session: ben -',
    '/session without a token: ben -'
  ]
  compare(t, await expectSuccess(cwd, process.execPath, ['index.js']), [
    ...rows.map(row => `${row}: ${GETS_IN}`),
    'mercurius, in the resolver of a field that may be null: 200  , then 200',
    '@fastify/otel: Bearer,DPoP',
    ...people.map(row => `@fastify/passport, ${row}`)
  ])
})

t.test('The same through Nest.', async t => {
  for (const version of isWhole ? ['11', '12'] : ['12']) {
    const cwd = project(`nest-${version}`, { 'index.js': NEST, 'typed.ts': NEST_TYPED })
    await install(
      cwd,
      tarball(),
      'fastify',
      ...['common', 'core', 'platform-fastify'].map(name => `@nestjs/${name}@${version}`),
      'reflect-metadata',
      'rxjs'
    )
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2022', 'typed.ts']
    await expectSuccess(cwd, process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...options])
    compare(t, await expectSuccess(cwd, process.execPath, ['index.js']), [
      `Nest ${version}, by a guard class: ${GETS_IN}`,
      `Nest ${version}, by a hook: ${GETS_IN}`
    ])
  }
})
