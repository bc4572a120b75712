import { createPublicKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { ALGORITHMS, indexOfSigner } from '../jose/signature.ts'
import type { JwsAlg } from '../jose/signature.ts'
import type { SigningKey } from '../provider/key-source.ts'
import type { SignatureVerifier } from './jwt-signature.ts'

/**
 * The key that has signed a token by this algorithm, or undefined (RFC 7515 section 5.2). The caller has checked that the token names the
 * algorithm and that the keys are made for it.
 */
export type SignerFinder = (token: string, keys: readonly SigningKey[], alg: JwsAlg) => SigningKey | undefined

/**
 * Makes the function that finds the signer of a token. If several keys are possible, node:crypto finds the one: it parses each key once and
 * decodes a token once. A forged token fails under all of them, and must not cost as much as that many accepted ones.
 * @param verify confirms the one key that is left
 */
export function createSignerFinder (verify: SignatureVerifier): SignerFinder {
  const objects = new WeakMap<SigningKey, KeyObject>()

  function objectOf (key: SigningKey): KeyObject {
    const object = objects.get(key) ?? createPublicKey(key.pem)
    objects.set(key, object)
    return object
  }

  function findCandidate (token: string, keys: readonly SigningKey[], alg: JwsAlg): SigningKey | undefined {
    if (keys.length < 2) return keys[0]
    const end = token.lastIndexOf('.')
    return keys[indexOfSigner(ALGORITHMS[alg], keys.map(objectOf), token.slice(0, end), token.slice(end + 1))]
  }

  return (token, keys, alg) => {
    const key = findCandidate(token, keys, alg)
    return key && verify(token, key.pem, alg) ? key : undefined
  }
}
