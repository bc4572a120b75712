import {
  headerFault,
  isMediaType,
  readJwt,
  signerOf,
  timeFault,
  type SignerFinder,
  type SignerKeys
} from '../jose/signed-jwt.ts'
import { isJsonObject } from '../../base/json.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import type { ReadAnswer } from './introspector.ts'

interface SignedAnswerOptions {
  /** The spellings of the issuer. */
  readonly issuers: readonly string[]
  /** Accepted values of `alg`. */
  readonly algs: readonly JwsAlg[]
  readonly clientId: string
  readonly keys: SignerKeys
  readonly findSigner: SignerFinder
  /** Seconds by which clocks may differ. */
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
}

/**
 * Makes the reader of answers that are JWTs (RFC 9701 section 5). It returns `token_introspection`, and the `exp` of
 * the answer itself. A token of the same issuer is not an answer, so `typ` is checked first.
 * @throws ProviderFailure introspection_malformed, introspection_expired, introspection_signature
 */
export function createSignedAnswerReader (
  { issuers, algs, clientId, keys, findSigner, clockToleranceSeconds, now }: SignedAnswerOptions
): (jwt: string) => Promise<ReadAnswer> {
  return async text => {
    const jwt = text.trim()
    const { header, claims } = readJwt(jwt) ?? malformed()
    const { iss, aud, exp = Infinity, nbf = -Infinity, token_introspection: members } = claims
    const isForUs = [aud].flat().includes(clientId)
    if (
      headerFault(header, algs, isAnswerType) || !issuers.includes(iss as string) || !isForUs ||
      typeof exp !== 'number' || typeof nbf !== 'number' || !isJsonObject(members)
    ) return malformed()
    if (timeFault({ exp, nbf }, now(), clockToleranceSeconds)) throw new ProviderFailure('introspection_expired')
    const signer = await signerOf(jwt, header, keys, findSigner)
    if (typeof signer === 'string') throw new ProviderFailure('introspection_signature')
    return { members, expiresAt: exp }
  }
}

function isAnswerType (typ: unknown): boolean {
  return isMediaType(typ, 'token-introspection+jwt')
}

function malformed (): never {
  throw new ProviderFailure('introspection_malformed')
}
