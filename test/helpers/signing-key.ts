import { createSecretKey, type KeyObject } from 'node:crypto'
import type { SigningKey } from '../../lib/guard/jose/signed-jwt.ts'

/** A public key as the service holds it. */
export function signingKeyOf (
  key: KeyObject,
  kid: string | undefined,
  algs: SigningKey['algs'] = ['RS256']
): SigningKey {
  return { kid, key, pem: key.export({ format: 'pem', type: 'spki' }) as string, algs }
}

/** One that is never tried. @param pem to know it by */
export function untriedKey (
  pem = '',
  kid: string | undefined = undefined,
  algs: SigningKey['algs'] = []
): SigningKey {
  return { kid, key: createSecretKey(Buffer.alloc(1)), pem, algs }
}
