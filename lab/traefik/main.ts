import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { readOptions } from '../../bench/options.js'
import { buildTraefik } from './build.ts'

const root = join(import.meta.dirname, '..', '..')
const FILES = ['gate', 'gate-faults', 'gate-own', 'certificates'].map(name =>
  `test/system/${name}.test.ts`
)

const { 'only-build': onlyBuild } = readOptions({ 'only-build': { type: 'boolean', default: false } })

const program = process.env.TRAEFIK ?? await buildTraefik()
console.log(`${program}\n${spawnSync(program, ['version'], { encoding: 'utf8' }).stdout}`)
if (!onlyBuild) {
  const tap = join(root, 'node_modules', '.bin', 'tap')
  const child = spawn(tap, ['--disable-coverage', '--timeout=600', '--grep=traefik', ...FILES], {
    cwd: root,
    env: { ...process.env, TRAEFIK: program },
    stdio: 'inherit'
  })
  process.exitCode = await new Promise<number>(resolve => child.on('exit', code => resolve(code ?? 1)))
}
