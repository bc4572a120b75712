import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { freePort } from '../helpers/free-port.ts'
import { listen } from '../helpers/listen.ts'
import { satisfies } from 'semver'
import t from 'tap'
import { readBlocks, root } from '../helpers/documents.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { expectSuccess, install, outsideEnv, pack, projectsIn, run } from '../helpers/package-apps.ts'
import { compilePackage, judgePackage } from '../helpers/package-contents.ts'
import { NODE10_APP, TYPED_APPS } from '../helpers/typed-apps.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/**
 * The packages as others get them: packed here, installed in folders outside the repository from npm, and used as
 * docs/guide/plugin.md says. tap starts files in the order of their names, and this one takes longest: by its name it
 * is among the first.
 */

const folder = temporaryFolder(t, 'consumer')
// npm and the compilers take their time.
t.setTimeout(900_000)

const countOf = async (cwd: string) =>
  (await expectSuccess(cwd, 'npm', ['ls', '--all', '--parseable', '--omit=dev'])).split('\n').filter(line =>
    line.includes('node_modules')
  ).length
const countUnder = async (cwd: string, name: string) =>
  (await expectSuccess(cwd, 'npm', ['query', `#${name}, #${name} *`])).split('\n').filter(line =>
    line.startsWith('    "location": ')
  ).length

const project = projectsIn(folder)
const consumer = (name: string, type: 'module' | 'commonjs', files: Record<string, string>) =>
  project(name, { 'package.json': JSON.stringify({ name, private: true, type }), ...files })

/** A project whose packages are those of the first one. `service` and `cli` have only their own dependencies. */
function sharing (name: string, type: 'module' | 'commonjs', files: Record<string, string>) {
  const cwd = consumer(name, type, files)
  symlinkSync(join(folder, 'esm', 'node_modules'), join(cwd, 'node_modules'))
  return cwd
}

/** What the projects develop with: several compilers in one folder, and all of it by one run of npm. */
const TOOLS = {
  ...Object.fromEntries(['6.0', '5.9', '5.4'].map(version => [`typescript-${version}`, `npm:typescript@${version}`])),
  // Of the range that each version of vitest requires.
  '@types/node': '22',
  publint: '*',
  '@arethetypeswrong/cli': '*',
  vitest: '*',
  tsx: '*',
  pino: '*',
  typebox: '*',
  '@fastify/type-provider-typebox': '*',
  '@fastify/type-provider-json-schema-to-ts': '*'
}
const compile = (cwd: string, version: string, ...args: string[]) =>
  expectSuccess(cwd, process.execPath, [`node_modules/typescript-${version}/bin/tsc`, ...args])

/** The snippets of the guide, each under the name in its first line. */
const GUIDE = Object.fromEntries(
  readBlocks('docs/guide/plugin.md').filter(({ language }) => language === 'ts').map((
    { text }
  ) => [/^\/\/ (\S+): /.exec(text)![1]!, text])
)
/** How the guide runs its tests, each line with the Nodes that can. */
const TEST_COMMANDS = readBlocks('docs/guide/plugin.md').flatMap(({ text }) => text.split('\n')).flatMap(line => {
  const [, command, since = '0'] = /^(.* --test \S+) # (?:any Node|Node (\d+\.\d+) or newer)$/.exec(line) ?? []
  return command === undefined ? [] : [{ command, isMeant: satisfies(process.versions.node, `>=${since}`) }]
})
const TSCONFIG = JSON.stringify({
  compilerOptions: {
    strict: true,
    skipLibCheck: false,
    skipDefaultLibCheck: true,
    module: 'nodenext',
    target: 'es2022',
    types: ['node'],
    rootDir: '.',
    outDir: 'out'
  },
  include: ['*.ts']
})

/** Lines that must not compile, each beside one that does. */
const MISTAKES = `
import Fastify from 'fastify'
import holdfast from 'holdfast'
export function mistakes () {
  const app = Fastify()
  app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'x' } })
  // @ts-expect-error a misspelt option
  app.register(holdfast, { idp: { domian: 'tenant.example', audience: 'x' } })
  app.register(holdfast, { IDP_DOMAIN: process.env.IDP_DOMAIN, IDP_AUDIENCE: 'x' })
  // @ts-expect-error both forms
  app.register(holdfast, { idp: { domain: 'tenant.example' }, IDP_AUDIENCE: 'x' })
  app.get('/', request => request.user.sub)
  // @ts-expect-error a misspelt claim
  app.get('/', request => request.user.subb)
  app.get('/', request => request.auth?.expiresAt)
  // @ts-expect-error there may be no verified caller
  app.get('/', request => request.auth.expiresAt)
}
`

/** The file, and all of the package that it imports before it runs. */
function ownModulesOf (file: string, found = new Set<string>()) {
  if (found.has(file)) return found
  found.add(file)
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/^(?:import|export|\}).*["'](\.[^"']+)["'];?$/gm)) {
    ownModulesOf(join(dirname(file), path!), found)
  }
  return found
}

let tarballs: Record<string, string> = {}

t.test('Both packages can be packed, and hold what they need and no more.', async t => {
  tarballs = await pack(() => root, folder)
  for (const name of ['holdfast', 'holdfast-cli']) {
    const files = (await expectSuccess(folder, 'tar', ['tzf', tarballs[name]!])).trim().split('\n')
    for (const file of ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md']) {
      t.ok(files.includes(`package/${file}`), `${name}: ${file}`)
    }
    t.strictSame(files.filter(file => /\/(?:test|bench|dev)\/|(?<!\.d)\.ts$|node_modules|\.env/.test(file)), [], name)
  }
})

t.test('Each file of the packages is a file of the repository, or compiled from one.', async t => {
  for (const name of ['holdfast', 'holdfast-cli']) {
    const unpacked = join(folder, `unpacked-${name}`)
    mkdirSync(unpacked)
    await expectSuccess(folder, 'tar', ['xzf', tarballs[name]!, '--strip-components', '1', '-C', unpacked])
    const judge = (files: ReadonlyMap<string, string>) => judgePackage(unpacked, `packages/${name}`, files)
    const made = compilePackage(`packages/${name}`, join(folder, `compiled-${name}`))
    t.strictSame(judge(made), [], name)
    t.strictSame(
      [...made.keys()].filter(file => !existsSync(join(unpacked, 'dist', file))),
      [],
      `${name}: and nothing is left out`
    )

    const [first] = made.keys()
    t.strictSame(judge(new Map([...made, [first!, `${made.get(first!)} `]])), [{
      file: `dist/${first}`,
      fault: 'not what the compiler makes'
    }], 'the twin: one byte more is found')
    made.delete(first!)
    t.strictSame(judge(made), [{ file: `dist/${first}`, fault: 'no source' }], 'and so is a file from nowhere')
  }
})

t.test('A project in ES modules, with TypeScript 6 and 5, follows the guide.', async t => {
  const manifest = JSON.stringify({ name: 'esm', private: true, type: 'module', devDependencies: TOOLS })
  const cwd = consumer('esm', 'module', {
    ...GUIDE,
    'mistakes.ts': MISTAKES,
    'tsconfig.json': TSCONFIG,
    'package.json': manifest
  })
  await install(cwd, tarballs['holdfast']!, 'fastify')
  const own = await countUnder(cwd, 'fastify')
  const brought = await countOf(cwd) - own
  t.comment(`holdfast brings ${brought} packages beside the ${own} of fastify`)
  t.ok(brought <= 6, `${brought} packages, itself among them`)
  await compile(cwd, '6.0')
  t.match(
    await expectSuccess(cwd, process.execPath, ['--test', 'out/orders.test.js', 'out/issuers.test.js']),
    /pass 2\b/
  )
  t.equal(TEST_COMMANDS.length, 2)
  for (const { command, isMeant } of TEST_COMMANDS) {
    if (isMeant) t.match(await expectSuccess(cwd, 'sh', ['-c', command]), /pass 1\b/, command)
  }
  t.ok(ownModulesOf(join(cwd, 'node_modules/holdfast/index.mjs')).size <= 3, 'an app waits for few files at its start')
  const script =
    "import { app } from './out/server.js'; const url = await app.listen({ port: 0 }); const answer = await " +
    "fetch(url + '/orders'); console.log(answer.status, answer.headers.get('www-authenticate')); await " +
    'app.close()'
  t.match(await expectSuccess(cwd, process.execPath, ['--input-type=module', '-e', script]), /^401 Bearer/m)

  t.match(await expectSuccess(cwd, 'npx', ['publint', '--strict', 'node_modules/holdfast']), /All good!/)
  await expectSuccess(cwd, 'npx', ['attw', '--profile', 'node16', tarballs['holdfast']!])

  const withoutPeers =
    "import Fastify from 'fastify'; import service from 'holdfast/service'; await Fastify().register(service, { " +
    "idp: { domain: 'tenant.example', audience: 'x' } })"
  t.match(await run(cwd, process.execPath, ['--input-type=module', '-e', withoutPeers]), {
    code: 1,
    output: /Error: holdfast\/service needs packages that are not installed: npm i @fastify\/autoload @fastify\/cors /
  })
  const withoutRedis =
    "import Fastify from 'fastify'; import holdfast from 'holdfast'; await Fastify().register(holdfast, { idp: { " +
    "domain: 'tenant.example', audience: 'x' }, dpop: { replay: 'redis://127.0.0.1' } })"
  t.match(await run(cwd, process.execPath, ['--input-type=module', '-e', withoutRedis]), {
    code: 1,
    output: /the package ioredis is not installed: npm i ioredis/
  })

  await compile(cwd, '5.4', '--noEmit')
})

t.test('The types are compatible with those of other plugins.', async t => {
  // An app may have its own. It is an optional peer, so it is not there before the packages have been counted.
  await install(join(folder, 'esm'), '--save-dev', '@fastify/jwt')
  await Promise.all(
    Object.entries(TYPED_APPS).map(async ([name, files], index) => {
      const cwd = sharing(`typed-${index}`, 'module', { ...files, 'tsconfig.json': TSCONFIG })
      const { code, output } = await run(cwd, process.execPath, ['node_modules/typescript-6.0/bin/tsc', '--noEmit'])
      t.equal(code, 0, code === 0 ? name : `${name}\n${output}`)
    })
  )
})

t.test('A compiler that finds packages as Node 10 did finds all of this one.', async t => {
  const tsconfig = JSON.stringify({
    compilerOptions: {
      strict: true,
      skipLibCheck: false,
      skipDefaultLibCheck: true,
      module: 'commonjs',
      moduleResolution: 'node10',
      esModuleInterop: true,
      target: 'es2022',
      types: ['node'],
      rootDir: '.',
      outDir: 'out'
    },
    include: ['*.ts']
  })
  const cwd = sharing('node10', 'commonjs', { ...NODE10_APP, 'tsconfig.json': tsconfig })
  for (const version of ['5.4', '5.9']) await compile(cwd, version)
  t.equal(await expectSuccess(cwd, process.execPath, ['out/orders.test.js']), 'user-1 function Refusal\n')
})

t.test('It installs beside the packages of apps, and runs with the oldest Fastify 5 and the newest.', async t => {
  const script = `
const Fastify = require('fastify')
const { createTestIssuer } = require('holdfast/testing')
async function main () {
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(require('holdfast'), { ...idp.options, dpop: { nonce: 'required' } })
  app.get('/hook', { onRequest: app.requireScope('a') }, request => request.user.sub)
  app.get('/inside', async request => { await request.requireScope('a'); return request.auth.scheme })
  const client = await idp.dpopClient({ scope: 'a' })
  const results = []
  for (const url of ['/hook', '/inside']) results.push((await client.inject(app, url)).body, (await client.replay(app, url)).statusCode, (await client.stolen(app, url)).statusCode, (await app.inject(url)).statusCode)
  console.log(app.version, ...results)
}
main()
`
  await Promise.all(['5.0.0', '~5.8.0', '5'].map(async version => {
    const cwd = consumer(`fastify-${version.replace(/\W/g, '')}`, 'commonjs', { 'run.js': script })
    await install(cwd, `fastify@${version}`, 'ioredis@5', 'prom-client@14', '@fastify/swagger@8', tarballs['holdfast']!)
    t.match(
      await expectSuccess(cwd, process.execPath, ['run.js']),
      /^5\.\d+\.\d+ user-1 401 401 401 DPoP 401 401 401$/m,
      version
    )
  }))
})

t.test('The test of the guide also runs in vitest.', async t => {
  const cwd = sharing('vitest', 'module', {
    'orders.test.ts': GUIDE['orders.test.ts']!.replace("'node:test'", "'vitest'")
  })
  t.match(await expectSuccess(cwd, 'npx', ['vitest', 'run', '--no-color']), /Tests +1 passed/)
})

t.test('A project in CommonJS gets the same plugin, typed too.', async t => {
  const plain = `
const assert = require('node:assert')
const Fastify = require('fastify')
const holdfast = require('holdfast')
const { createTestIssuer } = require('holdfast/testing')
async function main () {
  for (const [entry, module] of [[holdfast, await import('holdfast')], [require('holdfast/testing'), await import('holdfast/testing')]]) {
    assert.deepEqual(Object.keys(entry).sort(), Object.keys(module).sort())
    for (const name of Object.keys(entry)) assert.equal(entry[name], module[name])
  }
  const idp = await createTestIssuer()
  const app = Fastify()
  await app.register(holdfast, idp.options)
  app.get('/', { onRequest: app.authenticate() }, request => request.user.sub)
  const client = await idp.dpopClient()
  console.log((await client.inject(app, '/')).body, (await client.stolen(app, '/')).statusCode)
}
main()
`
  const { 'server.ts': _server, 'dev.ts': _dev, ...typed } = GUIDE
  const cwd = sharing('cjs', 'commonjs', {
    ...typed,
    'mistakes.ts': MISTAKES,
    'tsconfig.json': TSCONFIG,
    'plain.js': plain
  })
  t.match(await expectSuccess(cwd, process.execPath, ['plain.js']), /^user-1 401$/m)
  await compile(cwd, '5.9')
  t.match(
    await expectSuccess(cwd, process.execPath, ['--test', 'out/orders.test.js', 'out/issuers.test.js']),
    /pass 2\b/
  )
  const fastify4 = consumer('fastify4', 'commonjs', {
    'old.js': "require('fastify')().register(require('holdfast'), { idp: { domain: 'tenant.example', audience: 'x' } " +
      '}).ready(error => { console.log(error.message) })'
  })
  await install(fastify4, '--force', tarballs['holdfast']!, 'fastify@4')
  t.match((await run(fastify4, process.execPath, ['old.js'])).output, /expected '>=5 <7' fastify version/)
})

t.test('The command runs the service in an empty folder, with two settings, and calls, explains and checks it.', async t => {
  const issuer = await startIssuer(t)
  const cwd = consumer('cli', 'module', {})
  await install(cwd, tarballs['holdfast-cli']!)
  const empty = join(cwd, 'empty')
  mkdirSync(empty)
  const holdfast = join(cwd, 'node_modules/.bin/holdfast')
  t.match(await expectSuccess(empty, holdfast, ['--version']), /^\d+\.\d+\.\d+\n$/)
  t.match(await expectSuccess(empty, holdfast, ['start', '--help']), /--port NUMBER/)
  t.match(await expectSuccess(empty, holdfast, ['--help']), /holdfast start /)
  for (const tool of ['gate', 'call', 'revoke', 'stream', 'explain', 'check']) {
    t.match(await expectSuccess(empty, holdfast, [tool, '--help']), new RegExp(`\\n  holdfast ${tool}\\b`))
  }
  t.match(await run(empty, holdfast, ['gate']), {
    code: 1,
    output: /Which service is to be guarded\? Say --upstream URL/
  })
  t.match(await run(empty, holdfast, ['strat']), { code: 1, output: /There is no tool strat; did you mean start\?/ })
  t.match(await run(empty, holdfast, ['start', '--prt', '1']), {
    code: 1,
    output: /There is no option --prt; did you mean --port\?/
  })
  t.match(await run(empty, holdfast, ['start']), { code: 1, output: /IDP_DOMAIN \(idp.domain\) is not set/ })

  const port = await freePort()
  const settings = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: issuer.audience }
  const service = spawn(holdfast, ['start', '--port', String(port)], {
    cwd: empty,
    env: { ...outsideEnv, ...settings },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = new Promise<number | null>(resolve => service.once('exit', resolve))
  await new Promise<void>(resolve =>
    service.stdout.on('data', chunk => {
      if (String(chunk).includes('Server listening')) resolve()
    })
  )
  t.equal((await fetch(`http://localhost:${port}/api/public`)).status, 200)
  t.equal((await fetch(`http://localhost:${port}/api/private`)).status, 401)
  const call = ['call', 'GET', '/api/private', '--url', `http://localhost:${port}`]
  t.match(await run(empty, holdfast, call, { CALL_TOKEN: issuer.token() }), { code: 0, output: /200 OK/ })
  t.match(await run(empty, holdfast, call, { CALL_TOKEN: issuer.token({ exp: 1 }) }), {
    code: 1,
    output: /token_expired/
  })
  const explain = (token: string) => {
    const line = ['curl', `http://localhost:${port}/api/private`, '-H', `Authorization: Bearer ${token}`]
    return run(empty, holdfast, ['explain', ...line], settings)
  }
  t.hasStrict(await explain(issuer.token()), { code: 0 })
  t.match(await explain(issuer.token({ exp: 1 })), { code: 1, output: /token_expired/ })
  t.match(await run(empty, holdfast, ['check'], { ...settings, PUBLIC_URL: 'https://api.example' }), {
    code: 0,
    output: /All is well/
  })
  t.match(await run(empty, holdfast, ['check'], { ...settings, IDP_ISSUER: `${issuer.url}none/` }), {
    code: 1,
    output: /wrong/
  })
  service.kill('SIGTERM')
  t.equal(await ended, 0)

  const upstream = createServer(({ method, url, headers }, answer) =>
    answer.end(`${method} ${url} ${headers['x-auth-subject']}`)
  )
  const upstreamPort = await listen(t, upstream)
  const to = `http://127.0.0.1:${upstreamPort}`
  const gate = spawn(holdfast, ['gate', '--upstream', to, '--port', String(port)], {
    cwd: empty,
    env: { ...outsideEnv, ...settings },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const gateEnded = new Promise<number | null>(resolve => gate.once('exit', resolve))
  await new Promise<void>(resolve =>
    gate.stdout.on('data', chunk => {
      if (String(chunk).includes('Server listening')) resolve()
    })
  )
  t.equal((await fetch(`http://localhost:${port}/orders/7`)).status, 401)
  const passed = await fetch(`http://localhost:${port}/orders/7`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${issuer.token()}` }
  })
  t.strictSame([passed.status, await passed.text()], [200, 'DELETE /orders/7 user-1'])
  t.match(await run(empty, holdfast, ['gate', '--upstream', to, '--explain', 'GET', '/orders/7']), {
    code: 0,
    output: /The rule for an upstream without rules holds/
  })
  gate.kill('SIGTERM')
  t.equal(await gateEnded, 0)

  const whole = consumer('service', 'module', {
    'use.js':
      "import Fastify from 'fastify'; import service from 'holdfast/service'; import { createTestIssuer } from " +
      "'holdfast/testing'; const idp = await createTestIssuer(); const app = Fastify(); await " +
      "app.register(service, idp.options); const client = await idp.dpopClient({ scope: 'read:messages' }); " +
      "console.log((await client.inject(app, '/api/private-scoped')).statusCode); await app.close(); const { " +
      "SettingsError } = await import('holdfast'); await Fastify().register(service, {}).then(() => {}, error => " +
      'console.log(error instanceof SettingsError)); const gate = Fastify(); await gate.register(service, { ' +
      "...idp.options, gate: { rules: [{ path: '/open', allow: 'anyone' }] } }); console.log((await " +
      "gate.inject('/verify/forwarded')).statusCode); await gate.close()"
  })
  await install(
    whole,
    tarballs['holdfast']!,
    'fastify',
    '@fastify/autoload',
    '@fastify/cors',
    '@fastify/env',
    '@fastify/helmet',
    '@fastify/sensible',
    '@fastify/swagger',
    '@fastify/under-pressure',
    'prom-client'
  )
  t.match(await expectSuccess(whole, process.execPath, ['use.js']), /^200\ntrue\n403$/m)
})
