import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

// Fetches clients in other languages into the cache of the user, and runs all clients against all servers through the
// gate.

const root = join(import.meta.dirname, '..', '..')
const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'holdfast', 'mcp')
const [packages, go, python] = ['npm', 'go', 'py'].map(name => join(folder, name)) as [string, string, string]

function run (cwd: string, command: string, ...args: string[]) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw error ?? new Error(`${command} ${args.join(' ')} has failed`)
}

for (const path of [packages, go]) mkdirSync(path, { recursive: true })
writeFileSync(join(packages, 'package.json'), '{"private":true}')
// Inspector needs Node 22.
run(
  packages,
  'npm',
  'install',
  '--no-audit',
  '--no-fund',
  '--ignore-scripts',
  '--engine-strict=false',
  'mcp-remote@0.15',
  '@modelcontextprotocol/inspector@2',
  '@modelcontextprotocol/conformance@0.1',
  'conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12',
  `node-${process.platform}-${process.arch}@22`
)
run(folder, 'python3', '-m', 'venv', python)
run(folder, join(python, 'bin', 'pip'), 'install', '-q', 'mcp>=2,<3', 'fastmcp>=4,<5')
cpSync(join(import.meta.dirname, 'go'), go, { recursive: true })
run(go, 'go', 'build', '-o', 'agent', '.')

const table = join(folder, 'table.md')
const files = ['test/programs/mcp-clients.test.ts', 'test/system/gate-clients.test.ts']
const tap = spawn(join(root, 'node_modules', '.bin', 'tap'), ['--timeout=900', ...files], {
  cwd: root,
  env: { ...process.env, MCP_PROGRAMS: folder, MCP_TABLE: table },
  stdio: 'inherit'
})
process.exitCode = await new Promise<number>(resolve => tap.on('exit', code => resolve(code ?? 1)))
process.stdout.write(readFileSync(table, 'utf8'))
