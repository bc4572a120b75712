import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { validate } from 'dockerfile-utils'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { containing } from '../helpers/containing.ts'
import { closeGraceDelay } from '../../start-options.ts'
import { parseCommand, readBlocks } from '../helpers/documents.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import { outputOf } from '../helpers/programs.ts'

const text = readFileSync('Dockerfile', 'utf8')
const scripts = JSON.parse(readFileSync('package.json', 'utf8')).scripts as Record<string, string>
const lineOf = (instruction: string) =>
  text.split('\n').findLast(line => line.startsWith(`${instruction} `)) ?? ''

/** The files that a Dockerfile copies out of its build context, and where to. */
function copiedBy (dockerfile: string) {
  return [...dockerfile.matchAll(/^COPY (?!--from)(.+) (\S+)$/gm)].map(([, files, to]) => ({
    files: files!.split(' '),
    to: to!
  }))
}

t.test('The Dockerfile passes its linter', async t => {
  for (const file of ['Dockerfile', 'deploy/provider.Dockerfile']) {
    t.strictSame(validate(readFileSync(file, 'utf8')), [], `the linter has nothing to say of ${file}`)
  }
  for (const [, tag] of text.matchAll(/^FROM (\S+)/gm)) {
    t.match(tag, /^node:24\.\d+\.\d+-bookworm-slim$/, 'a pinned slim base')
  }
  t.equal(lineOf('USER'), 'USER 1000', 'a number, so that runAsNonRoot holds')
  t.notMatch(text, /curl|wget/, 'nothing is downloaded and no client is left in the image')
})

t.test('The image starts what npm start starts', async t => {
  const command = JSON.parse(lineOf('CMD').slice(4)) as string[]
  t.equal(command[0], 'node_modules/.bin/fastify', 'fastify itself, so that SIGTERM arrives')
  t.equal(['fastify', ...command.slice(1)].join(' '), scripts.start)
  t.equal(lineOf('ENTRYPOINT'), 'ENTRYPOINT ["tini", "--"]')
})

t.test('The address of the image takes connections over IPv4 and IPv6, and gate.grpcPort does', async t => {
  const host = /^ENV FASTIFY_ADDRESS=(\S+)$/m.exec(text)![1]!
  const { app } = await startApp(
    t,
    await startIssuer(t),
    { GATE: { rules: [{ path: '/open/*', allow: 'anyone' }], grpcPort: 0 }, TRUST_PROXY: 'loopback' },
    undefined,
    undefined,
    host
  )
  while (!app.grpcAddress()) await new Promise(setImmediate)
  const { port } = app.server.address() as AddressInfo
  for (const address of ['127.0.0.1', '[::1]']) {
    const { status } = await fetch(`http://${address}:${port}/verify/nginx`, {
      headers: { 'x-original-method': 'GET', 'x-original-url': 'http://api.example/open/x' }
    })
    t.equal(status, 200, `${address} may ask`)
    const socket = connect(app.grpcAddress()!.port, address.replace(/[[\]]/g, ''))
    await once(socket, 'connect')
    socket.destroy()
  }
})

t.test('The build context holds what the build copies, and no more', async t => {
  const copied = copiedBy(text).flatMap(({ files }) => files.map(file => `!${file}`))
  t.strictSame(readFileSync('.dockerignore', 'utf8').trim().split('\n').sort(), ['*', ...new Set(copied)].sort())
})

t.test('The health check of the image asks where this service says that it lives', async t => {
  const [command, ...words] = JSON.parse(/^HEALTHCHECK .*\n +CMD (.+)$/m.exec(text)![1]!) as string[]
  t.equal(command, 'node')
  const compiled = '/app/dist/start-options.js'
  t.ok(words.at(-1)!.includes(`'${compiled}'`))
  const source = pathToFileURL(join(process.cwd(), 'start-options.ts')).href
  const answering: { path?: string } = {}
  const server = createServer((request, response) => {
    response.writeHead(request.url === answering.path ? 200 : 404).end()
  })
  const port = await listen(t, server)
  const CONFIG_FILE = join(t.testdir({ 'gate.yaml': 'gate:\n  ownPrefix: /_gate\n' }), 'gate.yaml')
  const code = async (path: string, env: NodeJS.ProcessEnv) => {
    answering.path = path
    const child = spawn(
      process.execPath,
      ['--import', join(process.cwd(), 'cli/strip-types.js'), ...words.map(word => word.replace(compiled, source))],
      { env: { ...process.env, PORT: String(port), ...env }, stdio: 'ignore' }
    )
    return (await once(child, 'exit'))[0] as number
  }
  t.equal(await code('/_gate/health/live', { CONFIG_FILE }), 0, 'a gate with a prefix for its own paths')
  t.equal(await code('/health/live', { CONFIG_FILE }), 1, 'what its upstream answers does not count')
  t.equal(await code('/health/live', {}), 0, 'the service')
})

t.test('The local provider starts from the files that its image has, and no others', async t => {
  const ignored = readFileSync('deploy/provider.Dockerfile.dockerignore', 'utf8').trim().split('\n')
  t.equal(ignored[0], '*')
  const dockerfile = readFileSync('deploy/provider.Dockerfile', 'utf8')
  const folder = t.testdir()
  for (const { files, to } of copiedBy(dockerfile)) {
    for (const file of files) {
      t.ok(ignored.includes(`!${file}`), `${file} is in the build context`)
      cpSync(file, join(folder, to, to.endsWith('/') ? file.split('/').at(-1)! : ''), { recursive: true })
    }
  }
  const [program, ...words] = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(dockerfile)![1]!) as string[]
  t.equal(program, 'node')
  // The loader of the commands stands in for a Node that runs TypeScript itself. Packages are found further up.
  const child = spawn(process.execPath, ['--import', join(process.cwd(), 'cli/strip-types.js'), ...words, '--port', '0'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const output = outputOf(child)
  const closed = new Promise(resolve => child.on('close', resolve))
  const started = new Promise<void>(resolve =>
    child.stdout.on('data', () => {
      if (output().includes('npm run call')) resolve()
    })
  )
  await Promise.race([started, closed])
  t.match(output(), /^The local tenant is at http:\/\/localhost:\d+\n/)
  child.kill('SIGTERM')
  t.equal(await closed, 0, 'and ends when it is asked to')
})

t.test('The manual builds this image and runs it with no more than it needs', async t => {
  const lines = readBlocks('docs/guide/operating.md').flatMap(({ text }) => text.split('\n')).filter(line =>
    line.startsWith('docker ')
  )
  const [build = [], run = []] = lines.map(line => parseCommand(line).words)
  const after = (words: readonly string[], option: string) => words[words.indexOf(option) + 1]

  t.equal(build.slice(0, 2).join(' '), 'docker build')
  t.match(
    text,
    containing(`ARG ${after(build, '--build-arg')!.split('=')[0]}=`),
    'the argument is one of the Dockerfile'
  )
  t.match(text, containing('ENV HOLDFAST_COMMIT=$COMMIT'))
  t.equal(build.at(-1), '.')

  t.equal(run.slice(0, 2).join(' '), 'docker run')
  t.equal(run.at(-1), after(build, '--tag'), 'it runs what was built')
  t.ok(run.includes('--read-only'))
  t.strictSame([after(run, '--cap-drop'), after(run, '--security-opt')], ['ALL', 'no-new-privileges'])
  t.ok(Number(after(run, '--stop-timeout')) * 1000 > closeGraceDelay)
  t.equal(after(run, '--publish'), '127.0.0.1:8000:8000')
  t.hasStrict(lineOf('EXPOSE').split(' '), ['EXPOSE', '8000'])
  t.ok(existsSync(`examples/settings/${after(run, '--env-file')}.example`))
})
