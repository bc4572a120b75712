import { constants } from 'node:crypto'
import type { SigningOptions } from 'node:crypto'

/** The values of `alg` that are known here (RFC 7518 section 3.1, RFC 8037, RFC 9864). */
export const JWS_ALGS = ['ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512', 'EdDSA', 'Ed25519'] as const

export type JwsAlg = (typeof JWS_ALGS)[number]

/** What a JWS algorithm asks of a key, and how node:crypto is told to verify with it (RFC 7518 section 3.1, RFC 8037, RFC 9864). */
export interface AlgorithmSpec {
  readonly kty: 'EC' | 'RSA' | 'OKP'
  /** The curves that go with it; none for RSA. */
  readonly crvs: readonly string[]
  /** Digest name, or null where the algorithm has its own. */
  readonly digest: string | null
  /** Bytes of an ECDSA signature in JOSE form, half for each of r and s. */
  readonly signatureBytes?: number
  /** Options beside the key: padding and salt of RSASSA-PSS. */
  readonly signing?: SigningOptions
}

const ec = (crv: string, digest: string, signatureBytes: number): AlgorithmSpec => ({ kty: 'EC', crvs: [crv], digest, signatureBytes })
const rsa = (digest: string): AlgorithmSpec => ({ kty: 'RSA', crvs: [], digest })
const pss = (digest: string, saltLength: number): AlgorithmSpec =>
  ({ kty: 'RSA', crvs: [], digest, signing: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength } })

export const ALGORITHMS: Readonly<Record<JwsAlg, AlgorithmSpec>> = {
  ES256: ec('P-256', 'sha256', 64),
  ES384: ec('P-384', 'sha384', 96),
  ES512: ec('P-521', 'sha512', 132),
  PS256: pss('sha256', 32),
  PS384: pss('sha384', 48),
  PS512: pss('sha512', 64),
  RS256: rsa('sha256'),
  RS384: rsa('sha384'),
  RS512: rsa('sha512'),
  EdDSA: { kty: 'OKP', crvs: ['Ed25519', 'Ed448'], digest: null },
  Ed25519: { kty: 'OKP', crvs: ['Ed25519'], digest: null }
}
