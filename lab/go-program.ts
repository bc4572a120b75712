import { execFile, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { readOptions } from '../bench/options.js'

const ROOT = join(import.meta.dirname, '..')
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast')

/** A program of a Go module. */
export interface GoProgram {
  name: string
  module: string
  version: string
  /** The hash of the module (`h1:` of `go mod download -json`). */
  sum: string
  /** The folder of its `main` in the module. */
  main: string
  /** The variable that holds the version. */
  versionVariable: string
  /** Changes the copy of the module before it is built. */
  change?: (source: string) => void
}

/**
 * Runs tap with the programs, each by the variable that names it (TRAEFIK, OAUTH2_PROXY) or built. Sets the exit code.
 */
export async function testWith (programs: readonly GoProgram[], args: readonly string[]) {
  const { 'only-build': onlyBuild } = readOptions({ 'only-build': { type: 'boolean', default: false } })
  const env = { ...process.env }
  for (const program of programs) {
    const variable = program.name.toUpperCase().replaceAll('-', '_')
    env[variable] ??= await buildGoProgram(program)
    console.log(`${variable}=${env[variable]}`)
  }
  if (!onlyBuild) process.exitCode = await run(ROOT, join('node_modules', '.bin', 'tap'), args, env)
}

/**
 * Builds a program from its Go module, unless the cache of the user has it. Returns its path.
 * @throws if Go is missing or too old, if the module differs from the one recorded, or if the build fails
 */
async function buildGoProgram (
  { name, module, version, sum, main, versionVariable, change }: GoProgram
) {
  const program = join(CACHE, `${name}-${version}`)
  if (existsSync(program)) return program
  mkdirSync(CACHE, { recursive: true })
  const folder = mkdtempSync(join(CACHE, 'build-'))
  try {
    const { stdout } = await promisify(execFile)('go', ['mod', 'download', '-json', `${module}@v${version}`], {
      cwd: folder
    })
    const loaded = JSON.parse(stdout) as { Dir: string, Sum: string }
    if (loaded.Sum !== sum) throw new Error(`the module of ${name} ${version} has the hash ${loaded.Sum}, and not ${sum}`)
    const source = join(folder, 'source')
    cpSync(loaded.Dir, source, { recursive: true })
    // The module cache is read-only.
    await promisify(execFile)('chmod', ['-R', 'u+w', source])
    change?.(source)
    const built = join(folder, name)
    const flags = `-s -w -X ${versionVariable}=${version}`
    const code = await run(source, 'go', ['build', '-trimpath', '-ldflags', flags, '-o', built, main])
    if (code !== 0) throw new Error(`go build ended with ${code}`)
    renameSync(built, program)
    return program
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs a program to its end. Returns its exit code. */
async function run (cwd: string, program: string, args: readonly string[], env = process.env): Promise<number> {
  const child = spawn(program, args, { cwd, env, stdio: 'inherit' })
  return await new Promise((resolve, reject) => child.on('exit', code => resolve(code ?? 1)).on('error', reject))
}
