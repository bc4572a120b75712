import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { satisfies } from 'semver'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const read = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8'))

interface Locked {
  version?: string
  dev?: boolean
  engines?: { node?: string }
  resolved?: string
  deprecated?: string
  hasInstallScript?: boolean
}

const locked = (file: string) =>
  Object.entries(read(file).packages as Record<string, Locked>)

/** The packages that npm would warn of on that version of Node: the first lines that a newcomer sees. */
const misfits = (entries: Array<[path: string, entry: Locked]>, version: string) =>
  entries.filter(([, { engines }]) => !satisfies(version, engines?.node ?? '*')).map(([path, { version, engines }]) =>
    `${path}@${version} wants ${engines!.node}`
  )

t.test('No installed package requires another Node than we promise, and none is deprecated.', async t => {
  const promised = read('package.json').engines.node
  for (const lock of ['package-lock.json', 'bench/package-lock.json']) {
    const entries = locked(lock)
    t.ok(entries.length > 50, lock)
    // The linter requires 22.13; what runs in production accepts any 22.
    for (const version of ['20.19.0', '22.13.0', '24.0.0', '26.0.0']) {
      t.ok(satisfies(version, promised), `${version} is promised`)
      // What the benchmark compares us with may be behind.
      if (version === '26.0.0' && lock !== 'package-lock.json') continue
      t.strictSame(misfits(entries, version), [], `${lock} on Node ${version}`)
    }
    t.strictSame(entries.filter(([, { deprecated }]) => deprecated !== undefined).map(([path]) => path), [])
    t.strictSame(
      entries.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path),
      [],
      'and none is tied to the address of a registry'
    )
  }
  const entries = locked('package-lock.json')
  t.strictSame(misfits(entries.filter(([, { dev }]) => !dev), '22.0.0'), [], 'in production on Node 22.0.0')
  t.not(misfits(entries, '18.20.8').length, 0, 'the twin: Node 18 would not do')
})

// npm 11 named esbuild at `npm ci`, which fetches a program when it is installed.
t.test('No installed package runs an install script.', async t => {
  const withScripts = (entries: Array<[path: string, entry: Locked]>) =>
    entries.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path)
  for (const lock of ['package-lock.json', 'bench/package-lock.json']) {
    t.strictSame(withScripts(locked(lock).filter(([path]) => path !== '')), [], lock)
  }
  t.strictSame(
    withScripts([['node_modules/esbuild', { hasInstallScript: true }]]),
    ['node_modules/esbuild'],
    'the twin: one would be seen'
  )
})

/** Runs a file of ours in a Node that says it is of that version. */
function runOn (version: string, args: string[]) {
  const disguise = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
  return new Promise(resolve => {
    const preload = `data:text/javascript,${encodeURIComponent(disguise)}`
    const child = execFile(
      process.execPath,
      ['--import', preload, ...args],
      { cwd: root },
      (_error, _stdout, stderr) => resolve({ code: child.exitCode, stderr })
    )
  })
}

t.test('A Node that is too old gets one sentence, before anything is loaded.', async t => {
  const { scripts } = read('package.json') as { scripts: Record<string, string> }
  const programs = ['check-node', 'compile', 'run'].map(name => `cli/${name}.cjs`)
  for (const name of ['prestart', 'pregate', 'gate', 'pretest', 'dev', 'call', 'explain']) {
    t.ok(programs.includes(scripts[name]!.split(' ').find(word => word.startsWith('cli/'))!), name)
  }
  for (const version of ['18.20.8', '20.18.3']) {
    const sentence = { code: 1, stderr: `Holdfast needs Node 20.19 or newer, and this is Node ${version}.\n` }
    for (const program of programs) t.strictSame(await runOn(version, [program, 'cli/main.ts']), sentence, program)
  }
  for (const version of ['20.19.0', '22.0.0', '24.0.0', '26.0.0']) {
    t.strictSame(await runOn(version, ['cli/check-node.cjs']), { code: 0, stderr: '' }, version)
  }
})
