/**
 * Joins the compiled files of the package in this folder. The `prepack` of a package runs this in its folder, after
 * build.js.
 *
 * The plugin, the guard without Fastify, and the tools for tests, become one file of CommonJS each: loading some ninety
 * modules takes longer than running them, every bundler and test runner takes CommonJS, and the packages that the guard
 * needs later are loaded by a `require` that bundlers see. The service stays in ES modules, because autoload finds its
 * plugins and routes by their paths.
 */
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { build } from 'esbuild-wasm'

const compiled = readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.js')).map(
  name => join('dist', name)
)
const ENTRIES = Object.fromEntries(
  [['plugin', 'index'], ['guard', 'guard'], ['testing', 'testing']].map((
    [name, source]
  ) => [name, `dist/packages/holdfast/${source}.js`])
)

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  packages: 'external',
  // A log or a stack shows the names of the classes.
  keepNames: true,
  charset: 'utf8',
  // What is in a tsconfig.json nearby decides nothing: it would make another file in another folder.
  tsconfigRaw: { compilerOptions: { alwaysStrict: true } },
  logLevel: 'warning',
  write: false
}

/** In CommonJS, `require` is there. */
const plainRequire = {
  name: 'plain-require',
  setup ({ onLoad }) {
    onLoad({ filter: /[\\/]dist[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(/^import \{ createRequire \} from 'node:module';$/m, '').replace(
        /^const require = createRequire\(import\.meta\.url\);$/m,
        ''
      )
    }))
  }
}

/**
 * An app without Redis need not have its client. Bundlers pass over a package that is not there if it is required
 * inside `try`.
 */
const optionalRedis = {
  name: 'optional-redis',
  setup ({ onLoad, onResolve }) {
    onResolve(
      { filter: /^ioredis$/ },
      ({ namespace }) =>
        namespace === 'optional' ? { path: 'ioredis', external: true } : { path: 'ioredis', namespace: 'optional' }
    )
    onLoad(
      { filter: /.*/, namespace: 'optional' },
      () => ({ contents: 'try { module.exports = require("ioredis") } catch (error) { throw error }' })
    )
  }
}

const joined = await build({
  ...common,
  entryPoints: ENTRIES,
  outdir: 'dist',
  outExtension: { '.js': '.cjs' },
  format: 'cjs',
  // What `import` gets is then the exports themselves, by every bundler.
  footer: { js: 'module.exports = { ...module.exports };' },
  plugins: [plainRequire, optionalRedis]
})
const service = await build({
  ...common,
  entryPoints: compiled.filter(file => /^dist\/(?:plugins|routes)\/|^dist\/holdfast\.js$|\/service\.js$/.test(file)),
  // Each of them loads what the guard loads, so all of that is in the same file.
  inject: ['dist/plugins/auth.js', 'dist/routes/revocation.js'],
  outbase: 'dist',
  outdir: 'dist',
  chunkNames: 'shared/[hash]',
  splitting: true,
  format: 'esm'
})

for (const { path, text } of joined.outputFiles) {
  if (text.includes('import_meta')) throw new Error(`${path} uses import.meta, which CommonJS does not have`)
}
for (const file of compiled) rmSync(file)
for (const { path, contents } of [...joined.outputFiles, ...service.outputFiles]) {
  mkdirSync(dirname(resolve(path)), { recursive: true })
  writeFileSync(path, contents)
}
