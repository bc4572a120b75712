import { createHash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { CryptoKey, JWK } from 'jose'

/** A key that lives as long as the process, and a proof signed with it (RFC 9449 section 4.2). */
export interface ProofKey {
  readonly alg: string
  readonly privateKey: CryptoKey
  readonly jwk: JWK
  /** RFC 7638: what `cnf.jkt` of a token bound to this key holds. */
  readonly thumbprint: string
}

export interface ProofInput {
  method: string
  url: string
  nonce?: string | undefined
  /** The access token that the proof goes with; none for the token endpoint. */
  token?: string | undefined
  /** Seconds since the epoch; now when absent. */
  iat?: number
}

export async function createProofKey (alg = 'ES256'): Promise<ProofKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: false })
  const jwk = await exportJWK(publicKey)
  return { alg, privateKey, jwk, thumbprint: await calculateJwkThumbprint(jwk) }
}

export async function createProof (key: ProofKey, { method, url, nonce, token, iat = now() }: ProofInput): Promise<string> {
  const claims = {
    htm: method,
    htu: withoutQuery(url),
    ...token !== undefined && { ath: createHash('sha256').update(token).digest('base64url') },
    ...nonce !== undefined && { nonce }
  }
  return new SignJWT(claims)
    .setProtectedHeader({ typ: 'dpop+jwt', alg: key.alg, jwk: key.jwk })
    .setJti(randomUUID())
    .setIssuedAt(iat)
    .sign(key.privateKey)
}

const now = (): number => Math.floor(Date.now() / 1000)

const withoutQuery = (url: string): string => url.split(/[?#]/, 1)[0] ?? url
