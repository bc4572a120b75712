import asyncHooks from 'node:async_hooks'
import Module, { syncBuiltinESMExports } from 'node:module'
import { setFlagsFromString } from 'node:v8'

// Most functions run too seldom in a test to repay the optimizing compiler: it took an eighth of the processor's time.
setFlagsFromString(
  process.version.startsWith('v20.') ? '--interrupt-budget=600000' : '--invocation-count-for-turbofan=30000'
)
// tap has each stack looked up in source maps, which took as much. Types are only blanked out, so lines keep their
// numbers without.
process.setSourceMapsEnabled(false)

// Fastify looks for the name of each plain function that is registered among all modules in memory.
const displayName = Symbol.for('fastify.display-name')
// eslint-disable-next-line no-extend-native
Object.defineProperty(Function.prototype, displayName, {
  configurable: true,
  get () {
    return this.name || 'anonymous'
  },
  set (value) {
    Object.defineProperty(this, displayName, { value, configurable: true, enumerable: true, writable: true })
  }
})

// tap follows each promise and each callback to the test that it is from, for the case that it throws. That took a
// seventh of the processor's time. Tests run one after the other, so time-limit.js knows which one it is.
const { createHook } = asyncHooks
asyncHooks.createHook = callbacks =>
  new Error().stack.includes('async-hook-domain') ? { enable () {}, disable () {} } : createHook(callbacks)
syncBuiltinESMExports()

// Hundreds of apps are started, each of which has the same plugins and nearly the same settings. autoload lists their
// folders, asks another thread for the module of each plugin and looks for three files to learn its kind; the validator
// makes code of the schema of the settings, and the serializer of each answer's: once is enough.
const CHANGED = {
  '/@fastify/autoload/index.js': text =>
    text.replaceAll('import(pathToFileURL(file).href)', '(kept[file] ??= import(pathToFileURL(file).href))').replace(
      'await getPackageType(options.dir)',
      'await (types[options.dir] ??= getPackageType(options.dir))'
    ) + '\nconst kept = {}, types = {}',
  '/@fastify/autoload/lib/find-plugins.js': text =>
    text.replace('await readdir(dir, { withFileTypes: true })', 'await (kept[dir] ??= readdir(dir, { withFileTypes: true }))') +
    '\nconst kept = {}',
  '/@fastify/fast-json-stringify-compiler/standalone.js': text =>
    text.replace('return fastJsonStringify(schema, fjsOpts)', 'return kept[JSON.stringify([schema, fjsOpts])] ??= fastJsonStringify(schema, fjsOpts)') +
    '\nconst kept = {}',
  // No work, but patience: a pause of the machine is not a server that has gone silent.
  '/ioredis/built/Redis.js': text => text.replace('}, this.options.socketTimeout)', '}, this.options.socketTimeout * 6)'),
  '/node_modules/ajv/dist/core.js': text => `${text}\n;(${keepValidators})(Ajv)`
}
const { _compile: compile } = Module.prototype
Module.prototype._compile = function (text, file, ...rest) {
  const [, change] = Object.entries(CHANGED).find(([end]) => file.endsWith(end)) ?? []
  return compile.call(this, change ? change(text) : text, file, ...rest)
}

/** Of the schemas that lib/settings judges by, which alone are not optimized. */
function keepValidators ({ prototype }) {
  const { compile } = prototype
  const keptFor = new WeakMap()
  prototype.compile = function (schema, ...rest) {
    const { code, formats } = this.opts
    if (code?.optimize !== 0) return compile.call(this, schema, ...rest)
    let kept = keptFor.get(formats)
    if (!kept || kept.size === 64) keptFor.set(formats, kept = new Map())
    const key = JSON.stringify(schema)
    if (!kept.has(key)) kept.set(key, compile.call(this, schema, ...rest))
    return kept.get(key)
  }
}
