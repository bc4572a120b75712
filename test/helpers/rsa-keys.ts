import crypto, { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import type { KeyPairKeyObjectResult } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const ready = readFileSync(new URL('../fixtures/rsa.keys.pem', import.meta.url), 'utf8').split(
  /(?<=-----END PRIVATE KEY-----\n)/
)

/**
 * An RSA key of 2048 bits that is not in use in this process yet. Making one takes up to a second of the processor, so
 * the first ones come from a file.
 */
export function takeRsaKey (): KeyPairKeyObjectResult {
  const pem = ready.shift()
  if (pem === undefined) return generateKeyPairSync('rsa', { modulusLength: 2048 })
  const privateKey = createPrivateKey(pem)
  return { privateKey, publicKey: createPublicKey(privateKey) }
}

/**
 * From now on code under test takes its RSA keys from the file as well, if it makes them by the promise of
 * `generateKeyPair`.
 */
export function useReadyKeys (): void {
  const make = promisify(crypto.generateKeyPair) as (type: string, options: object) => Promise<KeyPairKeyObjectResult>
  Object.defineProperty(crypto.generateKeyPair, promisify.custom, {
    configurable: true,
    value: async (type: string, options: object) => type === 'rsa' ? takeRsaKey() : make(type, options)
  })
}
