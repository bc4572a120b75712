/**
 * Compiles one package of this folder into its own dist/, before npm packs it: its `prepack` runs this in its folder.
 * The arguments are files of the repository that the package also holds.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const root = join(import.meta.dirname, '..')
const OPTION_TYPES = 'dist/lib/settings/option-types.d.ts'
const compiler = findCompiler()

rmSync('dist', { recursive: true, force: true })
// `npm run lint` judges the types, in CI and before a release.
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.json', '--noCheck'], { stdio: 'inherit' })
if (status !== 0) process.exit(1)

// What the source derives from the tables of settings, an editor shows with a docstring for each option.
if (existsSync(OPTION_TYPES)) {
  const { makeOptionTypes } = await import('../dev/generate/plugin-options.ts')
  writeFileSync(OPTION_TYPES, makeOptionTypes())
}
// The compiler writes `.js` into the imports of code only. Compilers before 5.7 do not find a declaration by `.ts`.
for (const file of readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.d.ts'))) {
  const path = join('dist', file)
  writeFileSync(path, readFileSync(path, 'utf8').replace(/((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js'))
}
for (const file of ['LICENSE', 'CHANGELOG.md', ...process.argv.slice(2)]) {
  mkdirSync(dirname(file), { recursive: true })
  copyFileSync(join(root, file), file)
}

function findCompiler () {
  try {
    return createRequire(import.meta.url).resolve('typescript/bin/tsc')
  } catch {
    console.error('Not packed: the compiler is not installed. npm ci --include=dev installs it.')
    process.exit(1)
  }
}
