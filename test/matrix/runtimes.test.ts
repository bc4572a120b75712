import t from 'tap'
import { ANSWERS, CJS, ESM, expectSuccess, install, packHoldfast } from '../helpers/package-apps.ts'
import { LAMBDA, LAMBDA_CALL, NETWORK, RAW, WORKSPACE } from '../helpers/runtime-apps.ts'
import { fetchRuntime } from '../helpers/runtimes.ts'

/**
 * Where else the package is run: other versions of Node, other runtimes, other package managers, a function of AWS
 * Lambda, Jest.
 */

t.setTimeout(900_000)

const { project, tarball } = await packHoldfast(t)
const plain = { 'app.mjs': ESM, 'app.cjs': CJS, 'network.mjs': NETWORK, 'raw.mjs': RAW }
const FETCHED = /^200 ann\n401 /m

t.test('It runs on each Node that is promised.', async t => {
  const cwd = project('nodes', plain)
  await install(cwd, tarball, 'fastify')
  for (const node of [process.execPath, await fetchRuntime(t, 'node@24'), await fetchRuntime(t, 'node@26')]) {
    for (const file of ['app.mjs', 'app.cjs']) {
      t.match(
        await expectSuccess(cwd, node, [file]),
        ANSWERS,
        `${await expectSuccess(cwd, node, ['--version'])} ${file}`
      )
    }
    t.match(await expectSuccess(cwd, node, ['network.mjs']), FETCHED)
  }
})

t.test('It runs on Deno, which answers hostile requests as Node does.', async t => {
  const cwd = project('deno', plain)
  await install(cwd, tarball, 'fastify')
  const deno = await fetchRuntime(t, 'deno')
  const answers = (program: string, ...args: string[]) => expectSuccess(cwd, program, args)
  for (const file of ['app.mjs', 'app.cjs']) t.match(await answers(deno, 'run', '-A', file), ANSWERS, file)
  t.match(await answers(deno, 'run', '-A', 'network.mjs'), FETCHED)
  t.equal(await answers(deno, 'run', '-A', 'raw.mjs'), await answers(process.execPath, 'raw.mjs'))
})

t.test('On Bun the start stops with a sentence.', async t => {
  const cwd = project('bun', plain)
  await install(cwd, tarball, 'fastify')
  await t.rejects(
    expectSuccess(cwd, await fetchRuntime(t, 'bun'), ['run', 'app.mjs']),
    /error: Holdfast does not run on Bun: .* Run the app on Node\.js/
  )
})

t.test("It runs where yarn keeps packages in its cache (Plug'n'Play), in CommonJS.", async t => {
  const cwd = project('pnp', { ...plain, 'package.json': '{"name":"pnp","private":true}', 'yarn.lock': '' })
  const env = {
    YARN_ENABLE_TELEMETRY: '0',
    YARN_ENABLE_GLOBAL_CACHE: 'false',
    YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
    YARN_NPM_REGISTRY_SERVER: (await expectSuccess(cwd, 'npm', ['config', 'get', 'registry'])).trim()
  }
  const yarn = await fetchRuntime(t, 'yarn')
  const call = (...args: string[]) => expectSuccess(cwd, process.execPath, [yarn, ...args], env)
  await call('add', `holdfast@file:${tarball}`, 'fastify')
  t.match(await call('node', '-p', 'process.versions.pnp'), /^\d/m)
  t.match(await call('node', 'app.cjs'), ANSWERS)
})

t.test("Two copies in a workspace of pnpm know each other's test issuers and refusals.", async t => {
  const cwd = project('workspace', WORKSPACE(tarball))
  await expectSuccess(cwd, process.execPath, [await fetchRuntime(t, 'pnpm'), 'install', '--store-dir', './store'], {
    npm_config_registry: (await expectSuccess(cwd, 'npm', ['config', 'get', 'registry'])).trim()
  })
  t.equal(
    await expectSuccess(cwd, process.execPath, ['app/app.js']),
    'true https://issuer.test/ https://second.test/ true\n'
  )
})

t.test('A function of AWS Lambda, as one file, answers events of an HTTP API.', async t => {
  const cwd = project('lambda', { 'handler.js': LAMBDA, 'out/call.mjs': LAMBDA_CALL })
  await install(cwd, tarball, 'fastify', '@fastify/aws-lambda', 'esbuild')
  await expectSuccess(cwd, 'npx', [
    'esbuild',
    'handler.js',
    '--bundle',
    '--platform=node',
    '--format=esm',
    '--outfile=out/handler.mjs',
    '--banner:js=import { createRequire as makeRequire } from "node:module"; const require = ' +
    'makeRequire(import.meta.url)'
  ])
  await expectSuccess(cwd, 'rm', ['-r', 'node_modules'])
  t.equal(
    await expectSuccess(cwd, process.execPath, ['out/call.mjs']),
    [
      '401 challenge nonce',
      '200 {"of":"ann","by":"DPoP"}',
      '401 challenge',
      '200 {"of":"user-1","by":"Bearer"}',
      '403 challenge',
      '401 challenge',
      ''
    ].join('\n'),
    'without a nonce, with one, the same again, Bearer, without the scope, without a token'
  )
})

t.test('Tests run in Jest, on a Node where Jest can load Fastify.', async t => {
  const cwd = project('jest', {
    'package.json': '{"private":true}',
    'orders.test.js': 'test(\'answers\', async () => { const lines = []; const console = { log: (...parts) => ' +
      'lines.push(parts.join(\' \')) ' +
      `};${CJS.replace(/\nmain\(\)$/, '\nawait main()')}\nexpect(lines).toEqual(['200 401 401 401 401 401']) })`
  })
  await install(cwd, tarball, 'fastify', 'jest')
  const node = await fetchRuntime(t, 'node@24')
  await t.resolves(expectSuccess(cwd, node, ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js']))
})
