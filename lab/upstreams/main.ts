import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { FOLDER, pathIn, services } from './services.ts'

// Installs the services of examples/upstreams in the cache of the user, by their own lines, and runs all of them behind
// a gate.

const root = join(import.meta.dirname, '..', '..')
const installed = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'holdfast', 'upstreams')

function run (folder: string, line: string) {
  const { status } = spawnSync('bash', ['-c', line], {
    cwd: folder,
    env: { ...process.env, PATH: pathIn(folder) },
    stdio: ['ignore', 'inherit', 'inherit']
  })
  if (status !== 0) throw new Error(`In ${folder} this has failed: ${line}`)
}

mkdirSync(installed, { recursive: true })
for (const { folder, install, starts } of services) {
  const copy = join(installed, folder)
  cpSync(join(FOLDER, folder), copy, { recursive: true })
  if (folder === 'python') run(copy, 'test -d venv || python3 -m venv venv')
  if (install.startsWith('apt ')) {
    for (const start of starts) run(copy, `command -v ${start.split(' ', 1)[0]} || { echo '${install}'; false; }`)
  } else run(copy, install)
}

const table = join(installed, 'table.txt')
rmSync(table, { force: true })
const tap = spawn(join(root, 'node_modules', '.bin', 'tap'), ['--timeout=600', 'test/system/upstreams.test.ts'], {
  cwd: root,
  env: { ...process.env, UPSTREAM_PROGRAMS: installed, UPSTREAM_TABLE: table },
  stdio: 'inherit'
})
process.exitCode = await new Promise<number>(resolve => tap.on('exit', code => resolve(code ?? 1)))
process.stdout.write(readFileSync(table, 'utf8'))
