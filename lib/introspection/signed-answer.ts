import { decodeJsonObject, isMediaType, splitCompactJws } from '../jose/jws.ts'
import { isJsonObject } from '../json.ts'
import type { JwsAlg } from '../jose/signature.ts'
import type { KeySource, SigningKey } from '../provider/key-source.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import type { ReadAnswer } from './introspector.ts'

export interface SignedAnswerOptions {
  /** The spellings of the issuer. */
  readonly issuers: readonly string[]
  /** Accepted values of `alg`. */
  readonly algs: readonly JwsAlg[]
  readonly clientId: string
  readonly keys: Pick<KeySource, 'candidates' | 'fetchCandidates'>
  readonly findSigner: (token: string, keys: readonly SigningKey[], alg: JwsAlg) => SigningKey | undefined
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
    const jws = splitCompactJws(jwt)
    const { typ, alg, kid, crit, b64 } = (jws && decodeJsonObject(jws.header)) ?? {}
    const { iss, aud, exp = Infinity, nbf = -Infinity, token_introspection: members } =
      (jws && decodeJsonObject(jws.payload)) ?? {}
    const accepted = algs.find(name => name === alg)
    const isForUs = aud === clientId || (Array.isArray(aud) && aud.includes(clientId))
    const isUsable = isMediaType(typ, 'token-introspection+jwt') && crit === undefined && b64 === undefined &&
      (kid === undefined || typeof kid === 'string') && issuers.includes(iss as string) && isForUs &&
      typeof exp === 'number' && typeof nbf === 'number'
    if (!accepted || !isUsable || !isJsonObject(members)) throw new ProviderFailure('introspection_malformed')
    if (now() >= exp + clockToleranceSeconds || now() < nbf - clockToleranceSeconds) {
      throw new ProviderFailure('introspection_expired')
    }
    const isSignedByOneOf = (candidates: readonly SigningKey[]): boolean =>
      findSigner(jwt, candidates, accepted) !== undefined
    if (
      !isSignedByOneOf(keys.candidates(kid, accepted)) && !isSignedByOneOf(await keys.fetchCandidates(kid, accepted))
    ) throw new ProviderFailure('introspection_signature')
    return { members, expiresAt: exp }
  }
}
