import crypto, { KeyObject } from 'node:crypto'
import { createRequire, syncBuiltinESMExports } from 'node:module'

/**
 * @fastify/jwt takes these functions once, when it is loaded: what it does would not be counted, and a count of zero
 * would look as good as a true one.
 */
if (Object.keys(createRequire(import.meta.url).cache).some(file => /[\\/]node_modules[\\/]fast-jwt[\\/]/.test(file))) {
  throw new Error(
    'test/helpers/verifications.ts must be loaded before @fastify/jwt: import it first in the batch of the test'
  )
}

let kept = 0
let anew = 0

/**
 * Not mock.method(), which keeps the arguments and a stack of each call: a batch makes many, with keys and tokens in
 * them.
 */
function tally (name: 'verify' | 'createVerify' | 'createPublicKey', add: (args: readonly unknown[]) => void) {
  const original = crypto[name] as (...args: unknown[]) => unknown
  Object.assign(crypto, {
    [name]: (...args: unknown[]) => {
      add(args)
      return Reflect.apply(original, crypto, args)
    }
  })
}
tally('verify', ([, , key]) => {
  if (key instanceof KeyObject || (key as { key?: unknown }).key instanceof KeyObject) kept++
  else anew++
})
tally('createVerify', () => {
  anew++
})
tally('createPublicKey', ([key]) => {
  if (typeof key === 'string') anew++
})
syncBuiltinESMExports()

/**
 * What signatures have cost in this process, in verifications and not in time. `kept`: verifications under a key that
 * had been parsed before. `anew`: keys parsed from PEM, and verifications that do so.
 */
export function countVerifications (): { kept: number, anew: number } {
  return { kept, anew }
}
