import { createPrivateKey, createPublicKey, sign, type KeyObject } from 'node:crypto'
import { encodeJson } from '../guard/jose/signed-jwt.ts'
import { thumbprint, type PublicJwk } from '../guard/jose/public-key.ts'
import type { Surroundings } from '../base/surroundings.ts'
import type { Caller } from './identity-headers.ts'

const LIFETIME_SECONDS = 60
const JTI_BYTES = 16

/** The request that a statement is about. Exported for the declarations of the package. */
export interface StatedRequest {
  /** The address of the gate, as its reader knows it. */
  readonly issuer: string
  /** Who is to read it. */
  readonly audience: string
  readonly method: string
  /** Without the query, as the client sent it. */
  readonly path: string
}

/** A key that signs, and as it is published. */
export interface StatementKey {
  readonly key: KeyObject
  readonly jwk: { readonly kid: string }
}

export type StatementSigner = ReturnType<typeof createStatementSigner>

/**
 * Makes what signs who sends a request, so that an upstream need not trust the network between.
 * @param keys the first signs, all are published
 */
export function createStatementSigner (
  keys: readonly StatementKey[],
  { now, randomBytes }: Pick<Surroundings, 'now' | 'randomBytes'>
) {
  const { key, jwk: { kid } } = keys[0]!
  const header = encodeJson({ alg: 'ES256', typ: 'JWT', kid })

  return {
    /** The key set with which a statement is verified (RFC 7517). */
    keySet: { keys: [...new Map(keys.map(({ jwk }) => [jwk.kid, jwk])).values()] },
    /** An ES256 JWT (RFC 7519). It expires after 60 s. */
    sign (
      { claims: { sub }, scopes, issuer }: Caller,
      { issuer: iss, audience: aud, method, path }: StatedRequest
    ): string {
      const iat = Math.floor(now())
      const jti = randomBytes(JTI_BYTES).toString('base64url')
      // Two issuers may have the same `sub` for different people (RFC 9493 section 3.2.3).
      const claims = {
        iss,
        aud,
        sub,
        sub_id: { format: 'iss_sub', iss: issuer, sub },
        scope: scopes.join(' '),
        method,
        path,
        iat,
        exp: iat + LIFETIME_SECONDS,
        jti
      }
      const input = `${header}.${encodeJson(claims)}`
      return `${input}.${sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
    }
  }
}

/** Reads a private key in PKCS#8 and PEM form, EC P-256. Returns undefined if it is anything else. */
export function readStatementKey (pem: string): StatementKey | undefined {
  if (!pem.includes('-----BEGIN PRIVATE KEY-----')) return undefined
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    return undefined
  }
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') return undefined
  const { kty, crv, x, y } = createPublicKey(key).export({ format: 'jwk' })
  const kid = thumbprint({ crv, kty, x, y } as PublicJwk)
  return { key, jwk: { kty, crv, x, y, kid, alg: 'ES256', use: 'sig' } as StatementKey['jwk'] }
}
