/**
 * Joins the compiled files of the package in this folder: what the plugin loads at the start of an app becomes one file. To load each
 * of some ninety modules takes longer than to run them. The `prepack` of a package runs this in its folder, after build.js.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { build } from 'esbuild-wasm'

const compiled = readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.js')).map(name => join('dist', name))
// These are found by their paths: the doors of the package, and what the service loads. They stay where they are.
const entryPoints = compiled.filter(file => /^dist\/(?:packages|plugins|routes)\/|^dist\/holdfast\.js$/.test(file))

const { outputFiles } = await build({
  entryPoints,
  // Each of them loads what the plugin loads, so all of that is in the same file. No class exists twice.
  inject: ['dist/plugins/auth.js', 'dist/plugins/audit.js', 'dist/plugins/token-end.js', 'dist/routes/revocation.js', 'dist/packages/holdfast/app-document.js'],
  outbase: 'dist',
  outdir: 'dist',
  chunkNames: 'shared/[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  packages: 'external',
  // A log or a stack shows the names of the classes.
  keepNames: true,
  charset: 'utf8',
  logLevel: 'warning',
  write: false
})
for (const file of compiled) rmSync(file)
for (const { path, contents } of outputFiles) {
  mkdirSync(dirname(resolve(path)), { recursive: true })
  writeFileSync(path, contents)
}
