import { execFile, execFileSync, type ExecFileException } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { root, textOf } from '../helpers/documents.ts'

/** No test here has a registry, an engine for containers or GitHub: stand-ins note how they are called. */

interface Step {
  uses?: string
  run?: string
  with?: Record<string, unknown>
}
interface Job {
  permissions: Record<string, string>
  environment?: string
  needs?: string | readonly string[]
  steps: readonly Step[]
}

const RELEASE = '.github/workflows/release.yml'
const SCRIPTS = '.ci/release'
const { jobs, permissions } = parse(textOf(RELEASE)) as {
  jobs: Record<string, Job>,
  permissions: object
}
const stepsOf = (...names: string[]) => names.flatMap(name => jobs[name]!.steps)

/** The lines of a workflow that use an action without naming one commit and its release. */
const unpinned = (text: string) =>
  text.split('\n').filter(line =>
    /\buses:/.test(line) && !/^ *- uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line)
  )

t.test('Each action is pinned by commit, and one action has one pin.', async t => {
  const files = readdirSync(join(root, '.github/workflows')).map(name => textOf(`.github/workflows/${name}`))
  for (const text of files) t.strictSame(unpinned(text), [])
  t.strictSame(unpinned('      - uses: actions/checkout@v7'), ['      - uses: actions/checkout@v7'], 'a tag is found')
  const pins = new Set(files.flatMap(text => [...text.matchAll(/uses: (.+)$/gm)].map(([, pin]) => pin!)))
  const names = [...pins].map(pin => pin.split('@')[0])
  t.strictSame(names.filter((name, at) => names.indexOf(name) !== at), [])
})

t.test('Each job has the rights that it needs, and no secret.', async t => {
  t.strictSame(permissions, {})
  t.strictSame(Object.fromEntries(Object.entries(jobs).map(([name, job]) => [name, job.permissions])), {
    pack: { contents: 'read' },
    publish: { contents: 'read', 'id-token': 'write' },
    image: { contents: 'read', 'id-token': 'write', packages: 'write' },
    page: { contents: 'write' },
    docs: { contents: 'write' }
  })
  t.notMatch(textOf(RELEASE), /secrets\.|NODE_AUTH_TOKEN/)
  t.equal(jobs['publish']!.environment, 'npm', 'as the trusted publisher is told')
  const withRights = stepsOf('publish', 'image', 'page', 'docs').map(({ run }) => run ?? '')
  t.strictSame(withRights.filter(run => /\bnpm (?:ci|cit|i|install|run|test)\b/.test(run)), [], 'none runs code of others')
  t.ok(stepsOf('pack').some(({ run }) => run === 'npm cit'), 'which the first one does')
})

t.test('Each step is one line, of programs or of a script that is tested here.', async t => {
  const runs = Object.keys(jobs).flatMap(name => stepsOf(name)).flatMap(({ run }) => run ?? [])
  t.strictSame(runs.filter(run => run.trim().includes('\n')), [])
  const named = runs.flatMap(run => /\.ci\/release\/(\w+)/.exec(run)?.[1] ?? [])
  const scripts = readdirSync(join(root, SCRIPTS))
  t.strictSame([...named].sort(), [...scripts].sort())
  const tests = `${textOf('test/deploy/release.test.ts')}${textOf('test/system/package.test.ts')}`
  t.strictSame(scripts.filter(name => !tests.includes(`'${name}', [`) && !tests.includes(`${SCRIPTS}/${name}`)), [])
})

interface Outcome {
  status: number
  output: string
}

/** Runs a script of the release with stand-ins for some programs: each is a shell script that sees `$CALLS`. */
async function run (
  name: string,
  args: readonly string[],
  { cwd = root, programs = {}, env = {} }: {
    cwd?: string,
    programs?: Record<string, string>,
    env?: Record<string, string>
  } = {}
): Promise<Outcome> {
  const folder = join(t.testdirName, 'programs', name + Object.keys(programs).join(''))
  mkdirSync(folder, { recursive: true })
  for (const [program, body] of Object.entries(programs)) {
    writeFileSync(join(folder, program), `#!/usr/bin/env bash\necho "${program} $*" >>"$CALLS"\n${body}\n`, { mode: 0o755 })
  }
  return await new Promise(resolve =>
    execFile(join(cwd, SCRIPTS, name), args, {
      cwd,
      env: { ...process.env, ...env, PATH: `${folder}${delimiter}${process.env['PATH']}` }
    }, (error: ExecFileException | null, stdout, stderr) =>
      resolve({ status: error ? Number(error.code) : 0, output: stdout + stderr }))
  )
}

t.testdir()
const callsIn = (file: string) => existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []

t.test('version: the tag names the version of each package.', async t => {
  const { version } = JSON.parse(textOf('package.json')) as { version: string }
  t.strictSame(await run('version', [`v${version}`]), { status: 0, output: '' })
  t.strictSame(await run('version', ['v99.0.0']), {
    status: 1,
    output: `package.json has v${version}, the tag is v99.0.0\n`
  })
})

const DIGEST = `sha256:${'0a'.repeat(32)}`
/** What buildx is asked for, and whether it reports a digest. */
const docker = (digest: string) =>
  'case "$1 $2" in\n' +
  `  "buildx build") while [ "$1" != --metadata-file ]; do shift; done; echo '{${digest}}' >"$2";;\n` +
  '  "buildx imagetools") echo "{}";;\n  login*) cat >>"$CALLS";;\nesac'

async function makeImage (t: Test, digest: string) {
  const calls = join(t.testdir(), 'calls')
  const bill = join(dirname(calls), 'bill.json')
  const outcome = await run('image', ['ghcr.io/holdfast/holdfast', 'v1.2.3', bill], {
    programs: { docker: docker(digest), cosign: '' },
    env: { CALLS: calls, GITHUB_ACTOR: 'ann', GITHUB_SHA: 'abc', REGISTRY_TOKEN: 'hush' }
  })
  return { ...outcome, calls: callsIn(calls), bill: existsSync(bill) ? readFileSync(bill, 'utf8') : undefined }
}

t.test('image: both processors, with provenance and bill, signed by digest.', async t => {
  const { status, calls, bill, output } = await makeImage(t, `"containerimage.digest":"${DIGEST}"`)
  t.equal(status, 0, output)
  t.equal(calls[0], 'docker login ghcr.io --username ann --password-stdin')
  t.equal(calls[1], 'hush', 'the token is no argument')
  t.match(
    calls[2],
    /^docker buildx build --platform linux\/amd64,linux\/arm64 --build-arg COMMIT=abc --provenance mode=max --sbom true --tag ghcr\.io\/holdfast\/holdfast:1\.2\.3 --metadata-file \S+ --push \.$/
  )
  t.strictSame(calls.slice(3), [
    `cosign sign --yes ghcr.io/holdfast/holdfast@${DIGEST}`,
    `docker buildx imagetools inspect ghcr.io/holdfast/holdfast@${DIGEST} --format {{ json .SBOM }}`
  ])
  t.equal(bill, '{}\n')
})

t.test('image: without a digest nothing is signed.', async t => {
  const { status, calls, bill } = await makeImage(t, '')
  t.equal(status, 1)
  t.strictSame(calls.filter(call => call.startsWith('cosign')), [])
  t.equal(bill, undefined)
})

t.test('publish: what is published already is passed over if it has the same bytes.', async t => {
  const folder = t.testdir({ package: { 'package.json': '{"name":"some","version":"1.0.0"}' } })
  const packed = join(folder, 'some-1.0.0.tgz')
  execFileSync('tar', ['-czf', packed, '-C', folder, 'package'])
  const integrity = `sha512-${createHash('sha512').update(readFileSync(packed)).digest('base64')}`
  const publish = async (published: string, file = packed) => {
    const calls = join(folder, `calls-${published.length}`)
    const outcome = await run('publish', [file], {
      programs: { npm: `[ "$1" != view ] || { echo "${published}"; }` },
      env: { CALLS: calls }
    })
    return { status: outcome.status, calls: callsIn(calls) }
  }
  const asked = 'npm view some@1.0.0 dist.integrity'
  const published = `npm publish ${packed} --access public --provenance`
  t.strictSame(await publish(''), { status: 0, calls: [asked, published] })
  t.strictSame(await publish(integrity), { status: 0, calls: [asked] })
  t.strictSame(await publish('sha512-other'), { status: 0, calls: [asked, published] }, 'npm refuses other bytes')
  t.strictSame(await publish('-', join(folder, 'none.tgz')), { status: 1, calls: [] })
})

t.test('docs: main names the packages once they are published, by one commit.', async t => {
  const folder = t.testdir({ clone: {} })
  const clone = join(folder, 'clone')
  const { PAGES } = await import('../../packages/name-published.js' as string) as { PAGES: readonly string[] }
  for (const file of [...PAGES, 'packages/name-published.js', `${SCRIPTS}/docs`]) {
    mkdirSync(dirname(join(clone, file)), { recursive: true })
    cpSync(join(root, file), join(clone, file))
  }
  writeFileSync(join(clone, 'package.json'), '{"type":"module"}')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], { cwd: clone, encoding: 'utf8' })
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', join(folder, 'origin')])
  git('init', '--quiet', '--initial-branch=main')
  git('add', '--all')
  git('commit', '--quiet', '--message', 'first')
  git('remote', 'add', 'origin', join(folder, 'origin'))
  git('push', '--quiet', '--set-upstream', 'origin', 'main')

  t.strictSame(await run('docs', [], { cwd: clone }), { status: 0, output: '' })
  t.equal(git('log', '--format=%s', 'origin/main'), 'docs: install the packages from npm\nfirst\n')
  t.match(git('show', 'origin/main:docs/guide/plugin.md'), /^npm i holdfast fastify$/m)
  t.strictSame(await run('docs', [], { cwd: clone }), { status: 0, output: '' }, 'again')
  t.equal(git('rev-list', '--count', 'origin/main'), '2\n')
})
