import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createServer } from 'node:net'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import t from 'tap'
import { listen, stop } from '../../dev/provider/listen.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** For the compiler, if no other test waits for it. */
const READ_NOTHING = '{ "compilerOptions": { "noEmit": true, "lib": ["es5"], "types": [] }, "files": ["nothing.ts"] }'
/** The watching is tested, so the compiler need not read everything. */
const READ_FRESH = '{ "extends": "./tsconfig.json", "files": ["nothing.ts"], "include": ["routes/api/fresh*.ts"] }'

/** A clone of one's own, to change its code. */
async function copyProject () {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-dev-'))
  const top = (await readdir(root)).filter(name => /\.ts$|^(?:package|tsconfig.*)\.json$/.test(name))
  for (const name of [...top, 'lib', 'plugins', 'routes', 'schemas', 'server', 'cli', 'dev']) {
    await cp(join(root, name), join(directory, name), { recursive: true })
  }
  await writeFile(join(directory, 'tsconfig.build.json'), READ_NOTHING)
  await writeFile(join(directory, 'nothing.ts'), 'export {}\n')
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'), 'dir')
  return directory
}

interface Tool {
  child: ReturnType<typeof spawn>
  output (): string
  /** Waits until the output says so. */
  says (pattern: RegExp): Promise<RegExpExecArray>
}

function start (directory: string, args: string[], env: NodeJS.ProcessEnv = {}): Tool {
  const child = spawn(process.execPath, ['--import', './cli/strip-types.js', ...args], {
    cwd: directory,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', chunk => {
      output += chunk
    })
  }
  return {
    child,
    output: () => output,
    async says (pattern) {
      for (;;) {
        const found = pattern.exec(output)
        if (found !== null) return found
        if (child.exitCode !== null || child.signalCode !== null) {
          throw new Error(`it ended without saying ${pattern}:\n${output}`)
        }
        await delay(50)
      }
    }
  }
}

async function finished (tool: Tool) {
  if (tool.child.exitCode === null) await once(tool.child, 'exit')
  return { code: tool.child.exitCode, output: tool.output() }
}

type CommandLine = readonly [program: string, args: readonly string[], env?: Record<string, string>]

/**
 * Runs command lines one after the other, in one process: to load a program takes longer than what it does here. Each
 * is read anew, under a query.
 */
async function runInTurn (
  directory: string,
  lines: readonly CommandLine[]
): Promise<ReadonlyArray<{ code: number, output: string }>> {
  const code = `
    const print = process.stdout.write.bind(process.stdout)
    const own = { ...process.env }
    const ended = []
    for (const [index, [program, args, env = {}]] of ${JSON.stringify(lines)}.entries()) {
      let output = ''
      process.stdout.write = part => { output += part; return true }
      process.argv = [process.argv[0], program, ...args]
      process.exitCode = 0
      Object.assign(process.env, env)
      await import('./' + program + '?' + index)
      for (const name of Object.keys(env)) if (name in own) process.env[name] = own[name]; else delete process.env[name]
      ended.push({ code: process.exitCode, output })
    }
    process.exitCode = 0
    print(JSON.stringify(ended))`
  const { code: exitCode, output } = await finished(start(directory, ['--input-type=module', '-e', code]))
  if (exitCode !== 0) throw new Error(output)
  return JSON.parse(output)
}

/** The URL and the header lines in a printed curl line. */
const partsOf = (
  line: string
) => [
  /curl -i (\S+)/.exec(line)?.[1] ?? '',
  ...[...line.matchAll(/-H '([^']+)'/g)].map(([, header = '']) => header)
]

/** Runs a printed curl line, by what is in it. */
async function paste (line: string) {
  const [url = '', ...lines] = partsOf(line)
  const headers = lines.map((
    header
  ) => [header.slice(0, header.indexOf(':')), header.slice(header.indexOf(':') + 2)])
  const { status, headers: answer } = await fetch(url, { headers })
  return { status, challenge: answer.get('www-authenticate') }
}

async function until (condition: () => Promise<boolean>) {
  while (!await condition()) await delay(100)
}

const directory = await copyProject()
t.teardown(() => rm(directory, { recursive: true, force: true }))

t.test('npm run dev starts nothing with unusable options and settings, and names them.', async t => {
  const [unusable, misspelt, noPort, badPort, help, unknown, tools, noTool] = await runInTurn(directory, [
    ['dev/serve/run.ts', [], { DPOP_NONCE: 'sometimes' }],
    ['dev/serve/run.ts', ['--prt', '9000']],
    ['dev/serve/run.ts', ['--port', '1023']],
    ['dev/serve/run.ts', [], { PORT: 'x' }],
    ['dev/serve/run.ts', ['--help']],
    ['dev/serve/run.ts', [], { DEV_CLIENT_NAME: 'shop' }],
    ['cli/main.ts', []],
    ['cli/main.ts', ['chek']]
  ])
  t.equal(unusable?.code, 1)
  t.match(
    unusable?.output,
    /DPOP_NONCE .*"sometimes"; allowed: off or required\nnpm run dev -- --help tells more\.\n$/,
    'nothing is started with settings that are not usable'
  )
  t.match(misspelt, { code: 1, output: /There is no option --prt; did you mean --port\?/ })
  t.match(noPort, { code: 1, output: /--port 1023 is not a port/ })
  t.match(badPort, { code: 1, output: /^PORT x is not a port/ })
  t.match(help, { code: 0, output: /--port PORT/ })
  t.match(unknown, { code: 1, output: /^DEV_CLIENT_NAME is not a setting of the local provider/ })
  t.match(tools, { code: 0, output: /call .*\n.*explain .*\n.*check .*\n.*observed .*\n.*revoke / })
  t.match(noTool, { code: 1, output: /There is no tool chek; did you mean check\?/ })
})

t.test('npm run dev starts all of it, prints lines that work, and stops clean.', async t => {
  const port = await freePort()
  const busy = createServer()
  await listen(busy, port)
  t.teardown(() => stop(busy))
  // What getting-started.md has in its last step: the real service's own must not lead this one away.
  await writeFile(
    join(directory, 'config.yaml'),
    'idp:\n  domain: tenant.example\n  audience: https://api.example\n  jwksUri: ' +
      'https://tenant.example/keys\nserver:\n  publicUrl: https://www.example.com/svc\n'
  )
  const dev = start(directory, ['dev/serve/run.ts', '--port', String(port)], {
    DEV_CLIENT_ID: 'shop',
    DEV_CLIENT_SECRET: 'change-me',
    DEV_REDIRECT_URIS: 'http://localhost:3000/callback'
  })
  t.teardown(() => dev.child.kill('SIGKILL'))

  await dev.says(/Bearer token[\s\S]*private-scoped[^\n]*\n[\s\S]*Your client[^\n]*\n/)
  t.notMatch(dev.output(), /request answered/, 'its own calls leave no line in the log')
  const shownLast = dev.output().slice(dev.output().lastIndexOf('curl -i'))
  t.match(shownLast, /\n {2}npm run call [^]*\n {2}API +http/, 'the addresses come behind the long lines')
  const [, api] = await dev.says(/API +(http:\/\/localhost:\d+)/)
  t.match(dev.output(), containing(`Port ${port} is in use`))
  t.not(api, `http://localhost:${port}`)

  t.match(
    dev.output(),
    /Users +ada, grace, linus\n +Your client +shop {2}\(secret change-me; back to http:\/\/localhost:3000\/callback\)\n/
  )
  const preflight = await fetch(`${api}/api/private`, {
    method: 'OPTIONS',
    headers: { origin: 'http://localhost:3000', 'access-control-request-method': 'GET' }
  })
  t.equal(
    preflight.headers.get('access-control-allow-origin'),
    'http://localhost:3000',
    'a page of the client may call the API'
  )

  t.notMatch(dev.output(), containing('evil.example'), 'on loopback no one gets it called by another name')
  const [, provider] = await dev.says(/Provider +(http:\/\/localhost:\d+)/)
  t.match(
    await (await fetch(`${provider}/`)).text(),
    /local identity provider.*openid-configuration/,
    'at the provider too'
  )

  const lines = dev.output().split('\n').filter(line => line.includes('curl -i'))
  t.equal(lines.length, 4)
  for (const line of lines) t.equal((await paste(line)).status, 200)
  const replayed = await paste(lines.find(line => line.includes('DPoP:')) ?? '')
  t.equal(replayed.status, 401)
  t.match(replayed.challenge, /has been used before/)

  const [to = '', ...headers] = partsOf(lines.find(line => line.includes('DPoP:')) ?? '')
  await rm(join(directory, 'config.yaml'))
  await writeFile(
    join(directory, 'captured.txt'),
    [`> GET ${new URL(to).pathname} HTTP/1.1`, `> Host: ${new URL(to).host}`, ...headers.map(header => `> ${header}`)]
      .join('\n')
  )
  const [, providerUrl = '', named = ''] = await dev.says(/Provider +(http:\S+) +\(audience (\S+)\)/)
  const [recent, called, explained, checked] = await runInTurn(directory, [
    ['cli/main.ts', ['call', '--dpop', '/dev/recent-login']],
    ['cli/main.ts', ['call', '--dpop', 'GET', '/api/private-scoped', '--scope', 'read:messages']],
    ['cli/main.ts', ['explain', '--', 'captured.txt']],
    ['cli/main.ts', ['check'], { IDP_ISSUER: providerUrl, IDP_AUDIENCE: named, PUBLIC_URL: api! }]
  ])
  t.match(
    recent,
    { code: 1, output: /\n *401 [^]*\n *Refused: authentication_too_old,[^]*\[requirement\] failed/ },
    'the route that requires a recent login exists'
  )
  t.equal(called?.code, 0, called?.code === 0 ? 'a call goes through' : called!.output)
  t.equal(explained?.code, 0, explained?.code === 0 ? 'and is explained' : explained!.output)
  t.match(explained?.output, /No check failed[^]*\n *\d+ of \d+ passed\./)
  t.notMatch(explained?.output, /signature\]/, 'signatures are checked by the keys and settings of the local tenant')
  t.match(
    checked,
    { code: 0, output: /1 usable key for RS256[^]*clock [^]*agree[^]*All is well(?: but [^\n]*)?\.\n$/ },
    'and so is what the API needs'
  )

  dev.child.kill('SIGINT')
  t.equal((await finished(dev)).code, 0)
  await t.rejects(fetch(`${api}/api/public`), 'nothing listens any more')
  const after = await finished(start(directory, ['cli/main.ts', 'call', '/api/public']))
  t.equal(after.code, 1)
  t.match(after.output, /no local tenant is running/)
})

t.test('npm run dev reloads on change.', async t => {
  const port = await freePort()
  await writeFile(join(directory, 'tsconfig.build.json'), READ_FRESH)
  const dev = start(directory, ['dev/serve/run.ts', '--port', String(port)])
  t.teardown(() => dev.child.kill('SIGKILL'))
  const [, api] = await dev.says(/API +(http:\/\/localhost:\d+)/)
  t.equal(api, `http://localhost:${port}`, 'on the port that is free')

  await dev.says(/Watching the code/)
  const route = join(directory, 'routes', 'api', 'fresh.ts')
  await writeFile(
    route,
    "import type { FastifyPluginAsync } from 'fastify'\nconst fresh: FastifyPluginAsync = async (app) => { " +
      "app.get('/fresh', async () => ({ message: 1 as string })) }\nexport default fresh\n"
  )
  await until(async () => (await fetch(`${api}/api/fresh`).catch(() => undefined))?.status === 200)
  t.match(dev.output(), /^routes\/api\/fresh\.ts has changed: the API starts anew\.$/m)
  await dev.says(/The compiler reports:\nroutes\/api\/fresh\.ts/)
  await rm(route)
  await until(async () => (await fetch(`${api}/api/fresh`).catch(() => undefined))?.status === 404)
  await dev.says(/The compiler has nothing more to report\.\n/)

  await writeFile(join(directory, 'tsconfig.build.json'), READ_NOTHING)
  dev.child.kill('SIGINT')
  t.equal((await finished(dev)).code, 0)
})

t.test('A second npm run dev starts beside the first.', async t => {
  const port = await freePort()
  const dev = start(directory, ['dev/serve/run.ts', '--port', String(port)])
  t.teardown(() => dev.child.kill('SIGKILL'))
  const [, api] = await dev.says(/API +(http:\/\/localhost:\d+)/)
  const second = start(directory, ['dev/serve/run.ts'], { PORT: String(port) })
  t.teardown(() => second.child.kill('SIGKILL'))
  const [, other] = await second.says(
    /npm run call -- --url (\S+) --dpop GET \/api\/private\n[^]*private-scoped[^\n]*\n/
  )
  t.not(other, api, 'a second one is somewhere else')
  await second.says(/(?:curl -i[^\n]*\n[^]*?){4}/)
  const linesOfSecond = second.output().split('\n').filter(line => line.includes('curl -i'))
  t.equal(linesOfSecond.length, 4)
  for (const line of linesOfSecond) t.equal((await paste(line)).status, 200)
  const [first, beside] = await runInTurn(directory, [['cli/main.ts', ['call', '--dpop', '/api/private']], [
    'cli/main.ts',
    ['call', '--url', other!, '--dpop', '/api/private']
  ]])
  t.match(first?.output, new RegExp(`GET ${api}/api/private\n[^]*200 OK`), 'and the tools stay with the first')
  t.match(beside?.output, new RegExp(`GET ${other}/api/private\n[^]*200 OK`))
  second.child.kill('SIGINT')
  t.equal((await finished(second)).code, 0)

  dev.child.kill('SIGINT')
  t.equal((await finished(dev)).code, 0)
})

t.test('The tenant can also start by itself.', async t => {
  const tenant = start(directory, [
    'dev/provider/tenant.ts',
    '--port',
    String(await freePort()),
    '--address',
    '127.0.0.1',
    '--audience',
    'https://api.example',
    '--url',
    'http://localhost:8008'
  ])
  t.teardown(() => tenant.child.kill('SIGKILL'))
  const [, issuer] = await tenant.says(/The local tenant is at (\S+)\n/)
  const [, secret] = await tenant.says(
    /CALL_CLIENT_SECRET=(\S+) npm run call -- --url http:\/\/localhost:8008 --issuer \S+ --audience https:\/\/api\.example --client-id holdfast-cli --dpop GET/
  )
  const token = await fetch(`${issuer}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_id: 'holdfast-cli',
      client_secret: secret,
      audience: 'https://api.example',
      grant_type: 'client_credentials'
    })
  })
  t.equal(token.status, 200)
  tenant.child.kill('SIGTERM')
  t.equal((await finished(tenant)).code, 0)
})

t.test('In a terminal the API logs for people.', async t => {
  const port = await freePort()
  const code = `import { startApi } from './dev/serve/children.ts'
    const api = startApi({ ...process.env, IDP_ISSUER: 'http://127.0.0.1:9/', IDP_AUDIENCE: 'https://api.example', PORT: '${port}' }, { isPretty: true })
    process.once('SIGTERM', () => api.stop())`
  const tool = start(root, ['--input-type=module', '-e', code])
  t.teardown(() => tool.child.kill('SIGKILL'))
  await tool.says(new RegExp(`INFO.*: .*Server listening at http://127\\.0\\.0\\.1:${port}`))
  t.notMatch(tool.output(), /^\{/m, 'no JSON')
  tool.child.kill('SIGTERM')
  t.equal((await finished(tool)).code, 0)
})
