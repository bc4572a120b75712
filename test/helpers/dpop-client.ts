import {
  createHash,
  constants,
  generateKeyPairSync,
  randomUUID,
  sign,
  type KeyObject,
  type SignKeyObjectInput
} from 'node:crypto'
import { calculateJwkThumbprint, type JWK } from 'jose'
import type { Overrides } from './issuer.ts'
import { encodeJws } from './jws.ts'
import { takeRsaKey } from './rsa-keys.ts'

/** How each algorithm is signed with, independently of the code under test. */
const SIGNERS: Record<
  string,
  {
    make: () => { privateKey: KeyObject, publicKey: KeyObject },
    digest: string | null,
    options?: Partial<SignKeyObjectInput>
  }
> = {
  ES256: {
    make: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    digest: 'sha256',
    options: { dsaEncoding: 'ieee-p1363' }
  },
  ES384: {
    make: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
    digest: 'sha384',
    options: { dsaEncoding: 'ieee-p1363' }
  },
  ES512: {
    make: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
    digest: 'sha512',
    options: { dsaEncoding: 'ieee-p1363' }
  },
  RS256: { make: takeRsaKey, digest: 'sha256' },
  RS384: { make: takeRsaKey, digest: 'sha384' },
  RS512: { make: takeRsaKey, digest: 'sha512' },
  PS256: { make: takeRsaKey, digest: 'sha256', options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 } },
  PS384: { make: takeRsaKey, digest: 'sha384', options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 } },
  PS512: { make: takeRsaKey, digest: 'sha512', options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 64 } },
  EdDSA: { make: () => generateKeyPairSync('ed25519'), digest: null },
  Ed25519: { make: () => generateKeyPairSync('ed25519'), digest: null },
  Ed448: { make: () => generateKeyPairSync('ed448'), digest: null },
  // Since Node 24.7.
  'ML-DSA-44': {
    make: () => (generateKeyPairSync as (type: string) => ReturnType<typeof takeRsaKey>)('ml-dsa-44'),
    digest: null
  }
}

export interface ProofParts {
  token: string
  url: string
  method?: string
  /** Extra or other members; `undefined` leaves one out. */
  header?: Overrides
  claims?: Overrides
}

export interface DpopClient {
  alg: string
  jwk: JWK
  jkt: string
  /** The claim of a token that is bound to the key. */
  cnf: { jkt: string }
  sign (input: Buffer): Buffer
  /** A fresh proof that passes, but for the overrides. */
  proof (parts: ProofParts): string
}

/** A client with a key of its own. `alg` is one of DPOP_ALGS, or Ed448 for EdDSA with that curve. */
export async function createDpopClient (alg = 'ES256'): Promise<DpopClient> {
  const { make, digest, options } = SIGNERS[alg]!
  const { privateKey, publicKey } = make()
  const jwk = publicKey.export({ format: 'jwk' }) as JWK
  const headerAlg = alg === 'Ed448' ? 'EdDSA' : alg
  const jkt = await calculateJwkThumbprint(jwk)
  const client: DpopClient = {
    alg: headerAlg,
    jwk,
    jkt,
    cnf: { jkt },
    sign: input => sign(digest, input, { key: privateKey, ...options }),
    proof ({ token, url, method = 'GET', header = {}, claims = {} }) {
      return encodeJws(
        { typ: 'dpop+jwt', alg: headerAlg, jwk, ...header },
        { jti: randomUUID(), htm: method, htu: url, iat: Math.floor(Date.now() / 1000), ath: hashOf(token), ...claims },
        client.sign
      )
    }
  }
  return client
}

export const hashOf = (token: string): string => createHash('sha256').update(token).digest('base64url')
