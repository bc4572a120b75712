import crypto, {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  type KeyPairKeyObjectResult
} from 'node:crypto'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const ready = readFileSync(new URL('../fixtures/rsa.keys.pem', import.meta.url), 'utf8').split(
  /(?<=-----END PRIVATE KEY-----\n)/
)
let taken = 0

/**
 * An RSA key of 2048 bits. Making one takes up to a second of the processor, so they come from a file of 64, each in
 * its turn.
 */
export function takeRsaKey (): KeyPairKeyObjectResult {
  const pem = ready[taken++ % ready.length]!
  const privateKey = createPrivateKey(pem)
  return { privateKey, publicKey: createPublicKey(privateKey) }
}

/**
 * From now on code under test takes its RSA keys from the file as well, if it makes them by the promise of
 * `generateKeyPair` or by WebCrypto.
 */
export function useReadyKeys () {
  const make = promisify(crypto.generateKeyPair) as (type: string, options: object) => Promise<KeyPairKeyObjectResult>
  Object.defineProperty(crypto.generateKeyPair, promisify.custom, {
    configurable: true,
    value: async (type: string, options: object) => type === 'rsa' ? takeRsaKey() : make(type, options)
  })
  const { subtle } = crypto.webcrypto
  const generate = subtle.generateKey.bind(subtle) as (...args: unknown[]) => Promise<unknown>
  subtle.generateKey = (async (algorithm: { name: string }, extractable: boolean, usages: readonly string[]) => {
    if (!algorithm.name.startsWith('RSA')) return generate(algorithm, extractable, usages)
    const { privateKey, publicKey } = takeRsaKey()
    const read = (key: KeyObject, isExtractable: boolean, usage: 'sign' | 'verify') =>
      subtle.importKey('jwk', key.export({ format: 'jwk' }), algorithm, isExtractable, [usage])
    return { privateKey: await read(privateKey, extractable, 'sign'), publicKey: await read(publicKey, true, 'verify') }
  }) as typeof subtle.generateKey
}
