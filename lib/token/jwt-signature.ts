import { createPublicKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { ALGORITHMS, indexOfSigner } from '../jose/signature.ts'
import type { JwsAlg } from '../jose/signature.ts'
import type { SigningKey } from '../provider/key-set.ts'

/**
 * The key that has signed a token by this algorithm, or undefined (RFC 7515 section 5.2). The caller has checked that
 * the token names the algorithm and that the keys are made for it.
 */
export type SignerFinder = (token: string, keys: readonly SigningKey[], alg: JwsAlg) => SigningKey | undefined

/** Makes the function that parses keys, each once. */
export function createKeyParser (): (key: SigningKey) => KeyObject {
  const objects = new WeakMap<SigningKey, KeyObject>()
  return key => {
    const object = objects.get(key) ?? createPublicKey(key.pem)
    objects.set(key, object)
    return object
  }
}

/**
 * Makes the function that finds the signer of a token by node:crypto. It parses each key once, and decodes a token once
 * however many keys are possible.
 */
export function createSignerFinder (parseKey = createKeyParser()): SignerFinder {
  return (token, keys, alg) => {
    const end = token.lastIndexOf('.')
    return keys[indexOfSigner(ALGORITHMS[alg], keys.map(parseKey), token.slice(0, end), token.slice(end + 1))]
  }
}
