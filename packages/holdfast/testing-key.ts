import { generateKeyPair, sign } from 'node:crypto'
import { promisify } from 'node:util'

/** A fresh RSA key that signs with RS256. */
export interface TestKey {
  /** The public key, as a key set publishes it. */
  readonly jwk: object
  /** A signed JWT. @param typ its media type */
  sign (typ: string, claims: object): string
}

const KEY_ID = 'test-key'

export async function makeTestKey (): Promise<TestKey> {
  const { privateKey, publicKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })
  return {
    jwk: { ...publicKey.export({ format: 'jwk' }), kid: KEY_ID, use: 'sig', alg: 'RS256' },
    sign (typ, claims) {
      const input = [{ alg: 'RS256', typ, kid: KEY_ID }, claims].map(part =>
        Buffer.from(JSON.stringify(part)).toString('base64url')
      ).join('.')
      return `${input}.${sign('sha256', Buffer.from(input), privateKey).toString('base64url')}`
    }
  }
}
