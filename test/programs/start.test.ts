import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import {
  APP,
  GOOD,
  START,
  build,
  fastify,
  root,
  run,
  startService,
  type Environment,
  type Service
} from '../helpers/compiled-service.ts'
import { createApp } from '../helpers/app.ts'
import { bearerLines } from '../helpers/call.ts'
import { containing } from '../helpers/containing.ts'
import { readProse } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { startHostileProvider } from '../helpers/hostile-provider.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { sendRaw } from '../helpers/wire.ts'
import { listen } from '../helpers/listen.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

await build()

function isRefused (port: number) {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.on('error', () => resolve(true))
  })
}

t.test('A start may take longer than Fastify gives a plugin, and one that takes too long says so.', async t => {
  // Timers of that length are over at once.
  const inHaste = (ms: number) => ({
    NODE_OPTIONS: `--import=data:text/javascript,${
      encodeURIComponent(
        `const set = globalThis.setTimeout; globalThis.setTimeout = (run, ms, ...rest) => set(run, ms === ${ms} ` +
          '? 0 : ms, ...rest)'
      )
    }`
  })
  const { url } = await startService(t, { ...GOOD, PORT: String(await freePort()), ...inHaste(10_000) })
  t.equal((await fetch(`${url}/health/live`)).status, 200)
  const { code, stderr } = await fastify(
    [...START],
    { ...GOOD, PORT: String(await freePort()), ...inHaste(120_000) },
    t.testdir()
  )
  t.equal(code, 1)
  t.equal(
    stderr,
    'The service has not started within 120 s: the machine is too busy, or a plugin or route of yours waits for ' +
      'something that does not come.\n'
  )
})

t.test('A start with unusable settings says why and nothing else.', async t => {
  const directory = t.testdir({
    folder: {},
    empty: {},
    unknown: { 'config.yaml': 'idp:\n  domain: tenant.example\n  audiance: x\n' },
    broken: { 'config.json': '{\n  "idp": {\n    "domain": "tenant.example",,\n  }\n}' },
    dotenv: { '.env': 'IDP_DOMAIN=tenant.example\nDPOP_NONCE_SECRET=s3cret\n' },
    misspelt: { '.env': 'IDP_DPOP_MOD=REQUIRED\n' },
    store: { 'config.yaml': 'dpop:\n  replay: { url: "rediss://localhost", ca: { file: none.pem } }\n' }
  })
  const cases: Array<{ cwd: string, env?: Environment, lines: string[] }> = [
    {
      cwd: 'empty',
      env: { IDP_AUDIENCE: '' },
      lines: ['IDP_DOMAIN (idp.domain) is not set; ', 'IDP_AUDIENCE (idp.audience) is not set; ']
    },
    { cwd: 'empty', env: { CONFIG_FILE: '../folder' }, lines: ['../folder cannot be read (EISDIR)'] },
    {
      cwd: 'unknown',
      lines: [
        'config.yaml, line 3: unknown key "idp.audiance"; did you mean idp.audience?',
        'IDP_AUDIENCE (idp.audience) is not set; '
      ]
    },
    { cwd: 'broken', lines: ['config.json, line 3: syntax error ('] },
    {
      cwd: 'dotenv',
      lines: [
        'DPOP_NONCE_SECRET (dpop.nonceSecret) is not usable (its value is not shown); ',
        'IDP_AUDIENCE (idp.audience) is not set; '
      ]
    },
    {
      cwd: 'misspelt',
      env: { ...GOOD, DPOP_MODE: 'REQUIRED' },
      lines: [
        'unknown variable "DPOP_MODE"; did you mean IDP_DPOP_MODE?',
        'unknown variable "IDP_DPOP_MOD"; did you mean IDP_DPOP_MODE?'
      ]
    },
    { cwd: 'empty', env: { ...GOOD, TRUST_PROXY: '1' }, lines: ['TRUST_PROXY (server.trustProxy) is "1"; '] },
    {
      cwd: 'empty',
      env: { ...GOOD, CLIENT_CERTIFICATE: 'nginx' },
      lines: [
        'CLIENT_CERTIFICATE (server.clientCertificate) is "nginx", but TRUST_PROXY (server.trustProxy) trusts no peer'
      ]
    },
    {
      cwd: 'empty',
      env: { ...GOOD, CLIENT_CERTIFICATE: 'socket', LOG_LEVEL: 'silent' },
      lines: ['CLIENT_CERTIFICATE (server.clientCertificate) is "socket", but this server does not end TLS']
    },
    {
      cwd: 'empty',
      env: { ...GOOD, IDP_KEYS_FILE: 'none.json', LOG_LEVEL: 'silent' },
      lines: ['IDP_KEYS_FILE (idp.keysFile) is "none.json", which is not usable']
    },
    {
      cwd: 'store',
      env: { ...GOOD, LOG_LEVEL: 'silent' },
      lines: ['DPOP_REPLAY (dpop.replay) has a cert, key or ca that is not usable (ENOENT)']
    }
  ]
  const expectLines = (text: string, lines: string[]) => {
    const [head, ...problems] = text.trimEnd().split('\n')
    t.equal(head, 'The settings are not usable:')
    t.ok(
      problems.length === lines.length && lines.every((line, index) => problems[index]!.startsWith(`  - ${line}`)),
      text
    )
  }
  // Some are found while the app loads, and some later. The command reports both kinds.
  const started = cases.filter(({ cwd, env }) => cwd === 'unknown' || env?.LOG_LEVEL)
  t.equal(started.length, 4)
  for (const { cwd, env = {}, lines } of started) {
    const { code, stdout, stderr } = await fastify(START, env, join(directory, cwd))
    t.equal(code, 1)
    t.equal(stdout, '')
    expectLines(stderr, lines)
  }
  // One process for the others: the app is read anew under each query, and throws what the command has reported above.
  const others = cases.filter(one => !started.includes(one))
  const { code, stdout, stderr } = await run(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `
    import path from 'node:path'
    const messages = []
    for (const [index, { cwd, env }] of ${JSON.stringify(others)}.entries()) {
      process.chdir(path.join(${JSON.stringify(directory)}, cwd))
      Object.assign(process.env, env)
      await import(${JSON.stringify(pathToFileURL(APP).href)} + '?' + index).then(() => messages.push('it has loaded'), ({ message }) => messages.push(message))
      for (const name of Object.keys(env ?? {})) delete process.env[name]
    }
    console.log(JSON.stringify(messages))`
    ],
    {},
    directory
  )
  t.equal(code, 0, stderr)
  const messages = JSON.parse(stdout) as string[]
  for (const [index, { lines }] of others.entries()) expectLines(messages[index]!, lines)
})

t.test('The service starts with what .env says, whatever Node has made of it, or does not start.', async t => {
  const directory = t.testdir({ taken: {}, secret: {}, wide: {} })
  const write = (folder: string, bytes: string | Buffer) =>
    writeFileSync(join(directory, folder, '.env'), bytes)
  write('taken', '\uFEFF# mine\nIDP_DPOP_MODE=REQUIRED\nIDP_CUSTOM_CLAIM= \nPORT=0\n')
  const { log } = await startService(t, GOOD, [], join(directory, 'taken'))
  t.hasStrict(log().filter(({ event }) => event === 'settings_in_force'), [{ dpopMode: 'REQUIRED' }])
  write('secret', 'IDP_DPOP_MODE: s3cret\nIDP_ALGS=RS256\n')
  write('wide', Buffer.from('\uFEFFIDP_DPOP_MODE=REQUIRED\n', 'utf16le'))
  for (
    const [folder, problem] of [
      ['secret', '.env, line 1: expected NAME=value, a comment or a blank line'],
      ['wide', '.env cannot be read (NOT_UTF8)']
    ] as const
  ) {
    const { code, stderr } = await fastify(START, GOOD, join(directory, folder))
    t.strictSame({ code, stderr }, { code: 1, stderr: `The settings are not usable:\n  - ${problem}\n` }, folder)
  }
})

t.test('The port follows from PORT, and without it from the profile, wherever that is set.', async t => {
  const directory = t.testdir({
    empty: {},
    file: { 'config.yaml': 'api:\n  profile: 2\n' },
    dotenv: { '.env': 'API_PROFILE=2\n' },
    broken: { 'config.yaml': 'api: [' }
  })
  const cases: Array<{ cwd: string, env?: Environment, port: string }> = [
    { cwd: 'empty', port: '8000' },
    { cwd: 'empty', env: { API_PROFILE: '2' }, port: '8080' },
    { cwd: 'file', port: '8080' },
    { cwd: 'dotenv', port: '8080' },
    { cwd: 'broken', port: '8000' },
    { cwd: 'empty', env: { API_PROFILE: '2', PORT: '9000' }, port: '9000' },
    { cwd: 'empty', env: { PORT: '0' }, port: '0' }
  ]
  // One process for all: the module is read anew under each query.
  const script = `
    const ports = []
    for (const [index, { cwd, env }] of ${JSON.stringify(cases)}.entries()) {
      process.chdir(path.join(${JSON.stringify(directory)}, cwd))
      for (const name of ['PORT', 'API_PROFILE']) delete process.env[name]
      Object.assign(process.env, env)
      ports.push((await import(${JSON.stringify(pathToFileURL(join(root, 'dist/start-options.js')).href)} + '?' + index)).port)
    }
    console.log(ports.join(' '))`
  const { stdout } = await run(
    process.execPath,
    ['--input-type=module', '-e', `import path from 'node:path'\n${script}`],
    {},
    directory
  )
  t.strictSame(stdout.trim().split(' '), cases.map(({ port }) => port))
})

t.test('The port of the command line beats PORT.', async t => {
  const port = await freePort()
  t.equal((await startService(t, { ...GOOD, PORT: '9' }, ['-p', String(port)])).port, port)
})

t.test('What is in plugins/own holds for every route, whatever the names of files, and is there before them.', async t => {
  const directory = t.testdir()
  cpSync(join(root, 'dist'), directory, { recursive: true })
  mkdirSync(join(directory, 'plugins/own/deep'), { recursive: true })
  writeFileSync(join(directory, 'plugins/own/zz.js'), `export default async app => {
    app.decorate('pool', 'a pool')
    app.addHook('onRequest', async (_request, reply) => { reply.header('x-own', '1') })
    app.setErrorHandler((error, _request, reply) => reply.code(error.statusCode ?? 500).send({ mine: true }))
  }`)
  writeFileSync(
    join(directory, 'plugins/own/deep/a.js'),
    "export default async app => { app.addHook('onRoute', route => { route.bodyLimit ??= 10 }) }"
  )
  writeFileSync(join(directory, 'routes/api/aa.js'), `export default async app => {
    const { pool } = app
    app.post('/aa', () => ({ pool }))
  }`)
  const { holdfast, readSettings, serverOptions } =
    await import(pathToFileURL(join(directory, 'holdfast.js')).href) as typeof import('../../holdfast.ts')
  const settings = await readSettings({ ...GOOD, LOG_LEVEL: 'silent' })
  const app = createApp(t, serverOptions(settings))
  await app.register(holdfast, { settings })
  const post = (payload: object) => app.inject({ method: 'POST', url: '/api/aa', payload })
  t.hasStrict(await post({}).then(answer => answer.json()), { pool: 'a pool' })
  t.equal((await post({ text: '0123456789' })).statusCode, 413)
  for (const path of ['private', 'private-scoped']) {
    const { statusCode, headers, body } = await app.inject(`/api/${path}`)
    t.strictSame([statusCode, headers['x-own'], body], [401, '1', '{"mine":true}'], path)
    t.ok(headers['www-authenticate'], 'the challenge stays')
  }
  t.equal((await app.inject('/health/live')).headers['x-own'], '1')
})

/** Stands before the keys of an issuer, counts connections and answers only when it may. */
async function startGate (t: Test, issuer: Issuer) {
  let connections = 0
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  const server = createServer((_request, response) => {
    opened.then(() => response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) })))
  })
  server.on('connection', () => connections++)
  const port = await listen(t, server)
  return { host: `127.0.0.1:${port}`, connections: () => connections, open }
}

t.test('After SIGTERM a request in flight is answered, new connections are refused, and the exit code is 0.', async t => {
  const issuer = await startIssuer(t)
  const gate = await startGate(t, issuer)
  const { url, port, terminate, ended } = await startService(t, {
    ...GOOD,
    IDP_ISSUER: issuer.url,
    IDP_JWKS_URI: `http://${gate.host}/keys`,
    PORT: '0'
  })
  const answer = fetch(`${url}/api/private`, { headers: { authorization: `Bearer ${issuer.token()}` } })
  // The service has heard of it by the time that it answers a later one.
  await fetch(`${url}/health/live`)
  terminate()
  while (!await isRefused(port)) await delay(20)
  gate.open()
  t.equal((await answer).status, 200)
  t.hasStrict(await (await answer).json(), { user_id: 'user-1' })
  t.strictSame(await ended, { code: 0, stderr: '' })
})

/** A connection on which nothing is done after these bytes. It is open when the service has answered a later one. */
async function openConnection (t: Test, { url, port }: Service, bytes: string) {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}).resume().write(bytes)
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  await fetch(`${url}/health/live`)
}

/**
 * A service that was stopped while a body was still to come. It has nine seconds for that, in which the other tests go
 * on.
 */
let unfinished: Service
const wholeFile = t

t.test('No connection on which no whole request has come keeps the process from ending with exit code 0.', async t => {
  const service = await startService(t, { ...GOOD, PORT: '0' })
  unfinished = await startService(wholeFile, { ...GOOD, PORT: '0' })
  const live = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n'
  for (const bytes of ['', 'GET /api/public HTTP/1.1\r\nHo', live, `${live}GET /api`]) {
    await openConnection(t, service, bytes)
  }
  await openConnection(
    wholeFile,
    unfinished,
    'POST /api/public HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n'
  )
  unfinished.terminate()
  service.terminate()
  const first = await Promise.race([service, unfinished].map(async one => {
    await one.ended
    return one
  }))
  t.equal(first, service, 'it ends long before it would have to')
  t.strictSame(await service.ended, { code: 0, stderr: '' })
})

/**
 * The clone as it is after an install, with or without the compiler. Not within the clone: npm would find the compiler
 * of that.
 */
function copyInstall (t: Test, { compiler, built }: { compiler: boolean, built: boolean }) {
  const directory = temporaryFolder(t, 'start')
  mkdirSync(join(directory, 'node_modules/.bin'), { recursive: true })
  const packages = readdirSync(join(root, 'node_modules')).filter(name => name !== '.bin')
  const programs = ['fastify', 'tsc'].map(name => join('.bin', name))
  for (const name of [...packages, ...programs].filter(name => compiler || !/typescript$|tsc$/.test(name))) {
    symlinkSync(join(root, 'node_modules', name), join(directory, 'node_modules', name))
  }
  for (const file of ['package.json', 'cli/check-node.cjs', 'cli/compile.cjs', ...built ? ['dist'] : []]) {
    cpSync(join(root, file), join(directory, file), { recursive: true })
  }
  const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.build.json'), 'utf8')) as { compilerOptions: object }
  writeFileSync(
    join(directory, 'tsconfig.build.json'),
    JSON.stringify({
      include: ['*.ts', 'routes'],
      compilerOptions: { ...compilerOptions, rewriteRelativeImportExtensions: true }
    })
  )
  return directory
}

const WITHOUT_COMPILER =
  'dist/ was not compiled from these sources, and the compiler is not installed: run npm ci --include=dev.\n'
const npm = (cwd: string, ...args: string[]) =>
  run('npm', [...args, '--loglevel=error'], { IDP_DOMAIN: 'tenant.example/' }, cwd)

t.test('An install without the compiler starts what is compiled, and says what is missing if it is not.', async t => {
  const image = copyInstall(t, { compiler: false, built: true })
  t.hasStrict(await npm(image, 'run', 'prepare'), { code: 0 }, 'what npm ci runs')
  t.match(await npm(image, 'start'), { code: 1, stderr: /The settings are not usable:\n/ }, 'without any source')
  writeFileSync(join(image, 'app.ts'), '')
  for (const script of ['start', 'run gate', 'run build']) {
    t.strictSame(await npm(image, ...script.split(' ')).then(({ code, stderr }) => ({ code, stderr })), {
      code: 1,
      stderr: WITHOUT_COMPILER
    }, script)
  }
  t.ok(existsSync(join(image, 'dist/holdfast.js')), 'what there is stays')
})

t.test('What starts is what the sources say now, whatever the times of files.', async t => {
  const clone = copyInstall(t, { compiler: true, built: false })
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(clone, file)), { recursive: true })
    writeFileSync(join(clone, file), text)
    utimesSync(join(clone, file), 1e9, 1e9)
  }
  const compiled = () =>
    readdirSync(join(clone, 'dist'), { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.js')).sort()
  const prestart = () => run(process.execPath, ['cli/compile.cjs'], {}, clone)
  const compiles = async (title: string, files: string[]) => {
    t.strictSame(await prestart(), { code: 0, stdout: '', stderr: '' }, title)
    t.strictSame(compiled(), files.sort(), title)
  }
  write('app.ts', 'export const guard = 1')
  write('routes/api/one.ts', 'export default 1')
  t.equal((await npm(clone, 'run', 'prepare')).code, 0)
  await compiles('a new clone', ['app.js', 'routes/api/one.js'])
  const { ino } = statSync(join(clone, 'dist'))
  await compiles('nothing has changed', ['app.js', 'routes/api/one.js'])
  t.equal(statSync(join(clone, 'dist')).ino, ino, 'and nothing is compiled')

  write('app.ts', 'export const guard = 2')
  await compiles('a source is another one, with the time and the size of before', ['app.js', 'routes/api/one.js'])
  t.match(readFileSync(join(clone, 'dist/app.js'), 'utf8'), /guard = 2/)
  write('routes/api/deep/two.ts', 'export default 2')
  await compiles('a new source', ['app.js', 'routes/api/one.js', 'routes/api/deep/two.js'])
  write('routes/api/plain.js', "export * from './one.ts'")
  const all = ['app.js', 'routes/api/one.js', 'routes/api/deep/two.js', 'routes/api/plain.js']
  await compiles('a source in JavaScript', all)
  t.match(readFileSync(join(clone, 'dist/routes/api/plain.js'), 'utf8'), /\.\/one\.js/)
  rmSync(join(clone, 'routes/api/plain.js'))
  rmSync(join(clone, 'routes/api/one.ts'))
  await compiles('a source is gone', ['app.js', 'routes/api/deep/two.js'])
  write('dist/routes/api/three.js', '')
  await compiles('a compiled file has no source', ['app.js', 'routes/api/deep/two.js'])
  rmSync(join(clone, 'dist/routes'), { recursive: true })
  await compiles('a compiled file is missing', ['app.js', 'routes/api/deep/two.js'])
  write('dist/app.js', 'export const guard = 0')
  await compiles('a compiled file is another one', ['app.js', 'routes/api/deep/two.js'])
  t.match(readFileSync(join(clone, 'dist/app.js'), 'utf8'), /guard = 2/)

  write('app.ts', 'export const guard = (')
  for (const title of ['a source does not compile', 'nor the next time']) {
    t.match(await prestart(), { code: 1, stdout: /app\.ts\(1,/, stderr: /^The sources do not compile\.\n$/ }, title)
  }
  write('app.ts', 'export const guard = 2')
  t.equal((await prestart()).code, 0)
  t.strictSame(readdirSync(clone).filter(name => name.startsWith('.dist')), [], 'nothing is left behind')
  write('app.ts', 'export const guard = 3')
  const codes = (await Promise.all(Array.from({ length: 4 }, prestart))).map(({ code }) => code)
  t.strictSame(codes, [0, 0, 0, 0], 'several may start at once')
  t.strictSame(readdirSync(clone).filter(name => name.startsWith('.dist')), [], 'and leave nothing behind')
  t.match(readFileSync(join(clone, 'dist/app.js'), 'utf8'), /guard = 3/)
})

t.test('A clone without its packages, or without those for development, gets one sentence.', async t => {
  const clone = (...packages: string[]) => {
    const directory = temporaryFolder(t, 'start')
    for (const file of ['package.json', ...['check-node', 'compile', 'run'].map(name => `cli/${name}.cjs`)]) {
      cpSync(join(root, file), join(directory, file))
    }
    for (const name of packages) {
      mkdirSync(join(directory, 'node_modules', name), { recursive: true })
      writeFileSync(join(directory, 'node_modules', name, 'index.js'), '')
    }
    return directory
  }
  const npm = async (cwd: string, ...args: string[]) => {
    const { code, stderr } = await run('npm', [...args, '--loglevel=error'], {}, cwd)
    t.equal(code, 1)
    return stderr
  }
  for (const args of [['start'], ['run', 'dev'], ['run', 'call'], ['test']]) {
    t.equal(await npm(clone(), ...args), 'The packages are not installed: run npm ci.\n', args.join(' '))
  }
  const cwd = clone()
  writeFileSync(
    join(cwd, 'pnp.cjs'),
    "const m = require('module')\nconst resolve = m._resolveFilename\n" +
      "m._resolveFilename = (name, ...rest) => name === 'fastify' ? __filename : resolve(name, ...rest)\n"
  )
  const { code } = await run(process.execPath, ['-r', './pnp.cjs', 'cli/check-node.cjs'], {}, cwd)
  t.equal(code, 0, 'yarn keeps packages in an archive')
  for (const args of [['run', 'dev'], ['test']]) {
    t.equal(
      await npm(clone('fastify'), ...args),
      'The packages for development are not installed: run npm ci --include=dev.\n',
      args.join(' ')
    )
  }
})

t.test('A port that is in use gets one sentence.', async t => {
  const { url, port } = await startService(t, { ...GOOD, PORT: '0' })
  const { code, stderr } = await fastify(
    [...START, '--address', '127.0.0.1'],
    { ...GOOD, PORT: String(port) },
    t.testdir()
  )
  t.equal(code, 1)
  t.equal(
    stderr,
    `Port ${port} of 127.0.0.1 is in use by another program: end it, or set PORT or --port to a port that is free.\n`
  )
  t.equal((await fetch(`${url}/api/public`)).status, 200, 'the other program is as it was')

  const directory = t.testdir({ 'config.yaml': `gate:\n  grpcPort: ${port}\n  rules: [{ path: /* }]\n` })
  const gate = await fastify(
    [...START, '--address', '127.0.0.1'],
    { ...GOOD, PORT: '0', TRUST_PROXY: 'loopback' },
    directory
  )
  t.equal(gate.code, 1)
  t.equal(
    gate.stderr,
    `Port ${port} of 127.0.0.1 is in use by another program: end it, or set gate.grpcPort to a port that is free.\n`
  )
})

t.test('A provider certificate of a private authority is refused, and accepted with NODE_EXTRA_CA_CERTS.', async t => {
  const provider = await startHostileProvider({ tls: true })
  t.teardown(provider.close)
  const { privateKey, jwk } = makeIssuerKey('k1')
  provider.publish(jwk)
  const claims = { iss: provider.issuer, aud: AUDIENCE, sub: 'user-1', exp: Math.floor(Date.now() / 1000) + 600 }
  const authorization = `Bearer ${encodeJws({ alg: 'RS256', kid: 'k1' }, claims, input => sign('sha256', input, privateKey))}`
  const authority = { NODE_EXTRA_CA_CERTS: join(import.meta.dirname, '../fixtures/provider.cert.pem') }
  for (const [env, status] of [[{}, 503], [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 503], [authority, 200]] as const) {
    const { url } = await startService(t, { IDP_ISSUER: provider.issuer, IDP_AUDIENCE: AUDIENCE, PORT: '0', ...env })
    t.equal((await fetch(`${url}/api/private`, { headers: { authorization } })).status, status, JSON.stringify(env))
  }
})

t.test('A domain with a scheme is warned about, and every token is refused without a call to anyone.', async t => {
  const issuer = await startIssuer(t)
  const gate = await startGate(t, issuer)
  gate.open()
  const authorization = `Bearer ${issuer.token()}`
  const settings = {
    IDP_ISSUER: issuer.url,
    IDP_JWKS_URI: `http://${gate.host}/keys`,
    IDP_AUDIENCE: AUDIENCE,
    PORT: '0'
  }

  const good = await startService(t, settings)
  t.equal((await fetch(`${good.url}/api/private`, { headers: { authorization } })).status, 200)
  t.equal(gate.connections(), 1)
  t.notMatch(good.log(), [{ msg: /IDP_DOMAIN/ }])

  const bad = await startService(t, { ...settings, IDP_DOMAIN: `HTTPS://${gate.host}` })
  const answer = await fetch(`${bad.url}/api/private`, { headers: { authorization } })
  t.equal(answer.status, 401)
  t.match(answer.headers.get('www-authenticate'), containing('error="invalid_token"'))
  t.equal((await fetch(`${bad.url}/api/public`)).status, 200)
  t.match(bad.log().filter(({ level }) => level === 40), [{
    msg: /^IDP_DOMAIN starts with a scheme, .* without https:\/\/$/
  }, { msg: /Host is believed/ }])
  bad.terminate()
  t.strictSame(await bad.ended, { code: 0, stderr: '' })
  t.equal(gate.connections(), 1)
  t.strictSame(issuer.requests, [])
})

t.test('fastify print-routes and fastify print-plugins show the app.', async t => {
  const routes = await fastify(['print-routes', APP], GOOD, t.testdir())
  t.equal(routes.code, 0, routes.stderr)
  t.match(routes.stdout, /p(ublic|rivate).*\(GET, HEAD\)/)
  const plugins = await fastify(['print-plugins', APP], GOOD, t.testdir())
  t.equal(plugins.code, 0, plugins.stderr)
  t.match(plugins.stdout, /\bholdfast\b/)
  t.match(plugins.stdout, /\bauth\b/)
})

t.test('A connection whose body does not come is ended in time for exit code 0.', async t => {
  t.strictSame(await unfinished.ended, { code: 0, stderr: '' })
})

t.test('A token of 300 groups is 431 with what Node allows, and passes with the flag of the manual.', async t => {
  const issuer = await startIssuer(t)
  const groups = Array.from({ length: 300 }, (_, at) => `group-${at}-${'x'.repeat(36)}`)
  const [, flag] = /`NODE_OPTIONS=(--max-http-header-size=\d+)`/.exec(readProse('docs/reference/troubleshooting.md'))!
  const statusOf = async (environment: Environment, claims: { groups: string[] }) => {
    const { url, terminate, ended } = await startService(t, {
      ...GOOD,
      IDP_ISSUER: issuer.url,
      PORT: '0',
      ...environment
    })
    const { status } = await sendRaw(url, [
      'GET /api/private HTTP/1.1',
      'Host: x',
      'Connection: close',
      ...bearerLines(issuer.token(claims))
    ])
    terminate()
    await ended
    return status
  }
  t.strictSame([
    await statusOf({}, { groups }),
    await statusOf({ NODE_OPTIONS: flag! }, { groups }),
    await statusOf({}, { groups: groups.slice(0, 30) })
  ], [431, 200, 200])
})
