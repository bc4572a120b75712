import asyncHooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'
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
