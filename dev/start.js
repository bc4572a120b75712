// The one file here that is not TypeScript: it compiles the others, where that is not done yet, and starts one.
import '../check-node.cjs'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const built = join(root, '.dev', 'tsbuildinfo')

const FOLDERS = ['lib', 'plugins', 'routes', 'dev']

const [tool = 'run', ...argv] = process.argv.slice(2)
compile()
const { main } = await import(`../.dev/dev/${tool}.js`)
await main(argv)

function compile () {
  const builtMs = existsSync(built) ? statSync(built).mtimeMs : 0
  const sources = [...FOLDERS, ...readdirSync(root).filter((name) => /\.ts$|^tsconfig.*\.json$/.test(name))]
  if (sources.every((name) => newestMs(join(root, name)) <= builtMs)) return
  const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'))
  // Types are not checked here: `npm run dev` does it while it runs already, and stops nobody from trying what they wrote.
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.dev.json', '--noCheck'], { cwd: root, encoding: 'utf8' })
  if (status !== 0) process.stderr.write(stdout)
}

function newestMs (path) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return 0
  if (!stats.isDirectory()) return stats.mtimeMs
  // The time of a directory tells of files that are gone.
  return Math.max(stats.mtimeMs, ...readdirSync(path).map((name) => newestMs(join(path, name))))
}
