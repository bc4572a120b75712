import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { validate } from 'dockerfile-utils'
import t from 'tap'
import { containing } from '../helpers/containing.ts'
import { root, textOf } from '../helpers/documents.ts'

/** What the generator writes, and refuses to. test/matrix/starter.test.ts installs and runs it. */

const GENERATOR = join(root, 'packages/create-holdfast/create.js')
const KINDS = { ts: [], js: ['--js'], gate: ['--gate'] } as const
const templateOf = (kind: string): Record<string, Record<string, string>> =>
  JSON.parse(textOf(`packages/create-holdfast/template/${kind}/package.json`))

const create = (cwd: string, ...args: string[]) => createWith({}, cwd, ...args)
const createWith = (env: NodeJS.ProcessEnv, cwd: string, ...args: string[]) =>
  spawnSync(process.execPath, [GENERATOR, ...args], { cwd, encoding: 'utf8', env: { ...process.env, ...env } })

t.test('A project has at most ten files of its own, and a README that is read in a minute.', async t => {
  const folder = t.testdir()
  for (const [kind, options] of Object.entries(KINDS)) {
    const name = `of-${kind}`
    const { status, stdout } = create(folder, name, ...options)
    t.equal(status, 0)
    t.equal(stdout, `${name} is written. Next:\n\n  cd ${name}\n  npm install\n  npm test\n`)
    const files = readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).filter(file =>
      statSync(join(folder, name, file)).isFile()
    )
    t.ok(files.length <= 10, `${kind}: ${files.join(' ')}`)
    for (const file of ['.gitignore', '.dockerignore', '.env.example', 'Dockerfile', 'README.md', 'package.json']) {
      t.ok(files.includes(file), `${kind}: ${file}`)
    }
    const read = (file: string) => readFileSync(join(folder, name, file), 'utf8')
    t.ok(read('README.md').split(/\s+/).length <= 200, `${kind}: ${read('README.md').split(/\s+/).length} words`)
    t.strictSame(validate(read('Dockerfile')), [], `${kind}: the linter has nothing to say of the Dockerfile`)
    t.match(read('Dockerfile'), /^ENV FASTIFY_ADDRESS=::$/m, `${kind}: Podman does not make fastify-cli leave localhost`)
    t.match(read('.dockerignore'), /^\.env$/m, 'no secret gets into an image')
    t.match(read('.gitignore'), /^\.env$/m)
    t.equal(JSON.parse(read('package.json')).name, name)
    t.strictSame(files.filter(file => /my-api/.test(read(file))), [])
    t.equal(files.some(file => file.endsWith('.ts')), kind === 'ts')
  }
})

t.test('It overwrites nothing, and says what it does not understand.', async t => {
  const folder = t.testdir({ taken: { 'a.txt': 'mine' }, file: '' })
  const ROWS: ReadonlyArray<readonly [args: readonly string[], why: string]> = [
    [[], 'Which folder?'],
    [['taken'], 'taken is there already'],
    [['file'], 'file is there already'],
    [['a', 'b'], 'b is too much'],
    [['Upper'], '"Upper" cannot be the name of a package'],
    [['a b'], '"a b" cannot be'],
    [['.hidden'], '".hidden" cannot be'],
    [['a', '--gat'], "Unknown option '--gat'"],
    [['a', '--packed', '.'], 'npm run package writes it']
  ]
  for (const [args, why] of ROWS) {
    const { status, stderr } = create(folder, ...args)
    t.equal(status, 1, why)
    t.match(stderr, containing(why))
  }
  for (const option of ['js', 'gate', 'packed']) {
    const { status, stderr } = createWith({ [`npm_config_${option}`]: 'true' }, folder, 'a')
    t.equal(status, 1)
    t.match(stderr, containing(`npm has kept --${option} for itself. Write -- before the options.`))
  }
  t.strictSame(readdirSync(folder).sort(), ['file', 'taken'], 'nothing was written')
  t.strictSame(readdirSync(join(folder, 'taken')), ['a.txt'])
  mkdirSync(join(folder, 'empty'))
  t.equal(create(folder, 'empty').status, 0, 'an empty folder is taken')
  for (const file of ['cloned/.git/config', 'linked/.git']) {
    mkdirSync(join(folder, file, '..'), { recursive: true })
    writeFileSync(join(folder, file), 'url = my-api')
    t.equal(create(folder, file.split('/')[0]!).status, 0, 'so is an empty repository')
    t.equal(readFileSync(join(folder, file), 'utf8'), 'url = my-api', 'which stays as it is')
  }
  t.match(create(folder, 'my work/api').stdout, containing('  cd "my work/api"\n'), 'a shell takes it as one folder')
  t.match(create(folder, '--help').stdout, /npm create holdfast@latest my-api -- --gate/)
})

t.test('With --packed, only the packages of the repository come from files.', async t => {
  const { version } = JSON.parse(textOf('package.json')) as { version: string }
  const tarballs = ['holdfast', 'holdfast-cli'].map(name => `${name}-${version}.tgz`)
  for (const [kind, options] of Object.entries(KINDS)) {
    const folder = t.testdir()
    for (const file of tarballs) writeFileSync(join(folder, file), '')
    t.equal(create(folder, 'a', '--packed', '.', ...options).status, 0)
    const made = JSON.parse(readFileSync(join(folder, 'a/package.json'), 'utf8'))
    const template = templateOf(kind)
    for (const part of ['dependencies', 'devDependencies']) {
      for (const [name, range] of Object.entries(template[part] ?? {})) {
        const isOurs = name.startsWith('holdfast')
        t.equal(made[part][name], isOurs ? `file:${name}-${version}.tgz` : range, `${kind}: ${name}`)
        if (isOurs) t.ok(existsSync(join(folder, 'a', `${name}-${version}.tgz`)))
      }
    }
  }
})

t.test('The templates need the versions that the repository is tested with.', async t => {
  const own = JSON.parse(textOf('package.json')) as Record<string, Record<string, string>> & { version: string }
  const tested = { ...own['dependencies'], ...own['devDependencies'] }
  for (const kind of Object.keys(KINDS)) {
    const { dependencies, devDependencies, engines, scripts } = templateOf(kind)
    t.strictSame(engines, own['engines'])
    t.notMatch(Object.keys(scripts!).join(' '), /\b(?:pre|post)/, 'yarn runs no such script')
    for (const [name, range] of Object.entries({ ...dependencies, ...devDependencies })) {
      t.equal(range, name.startsWith('holdfast') ? `^${own.version}` : tested[name], `${kind}: ${name}`)
    }
  }
})
