import { decodeJsonObject, isMediaType, splitCompactJws } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import type { JwsAlg } from '../jose/signature.ts'
import type { KeySource, SigningKey } from '../provider/key-source.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'

export interface SignedAnswerOptions {
  /** The spellings of the issuer. */
  readonly issuers: readonly string[]
  /** Accepted values of `alg`. */
  readonly algs: readonly JwsAlg[]
  readonly clientId: string
  readonly keys: Pick<KeySource, 'candidates' | 'fetchCandidates'>
  readonly verifySignature: (token: string, pem: string, alg: JwsAlg) => boolean
}

/**
 * Makes the reader of answers that are JWTs (RFC 9701 section 5). It returns `token_introspection`. A token of the same issuer is
 * not an answer, so `typ` is checked first.
 * @throws ProviderFailure introspection_malformed, introspection_signature
 */
export function createSignedAnswerReader (options: SignedAnswerOptions): (jwt: string) => Promise<JsonObject> {
  return async jwt => {
    const { alg, kid, answer } = readSignedAnswer(jwt.trim(), options)
    const isSignedBy = ({ pem }: SigningKey): boolean => options.verifySignature(jwt.trim(), pem, alg)
    if (options.keys.candidates(kid, alg).some(isSignedBy)) return answer
    const candidates = await options.keys.fetchCandidates(kid, alg)
    if (!candidates.some(isSignedBy)) throw new ProviderFailure('introspection_signature')
    return answer
  }
}

interface SignedAnswer {
  readonly alg: JwsAlg
  readonly kid: string | undefined
  readonly answer: JsonObject
}

function readSignedAnswer (jwt: string, { issuers, algs, clientId }: SignedAnswerOptions): SignedAnswer {
  const jws = splitCompactJws(jwt)
  const { typ, alg, kid, crit, b64 } = (jws && decodeJsonObject(jws.header)) ?? {}
  const { iss, aud, token_introspection: answer } = (jws && decodeJsonObject(jws.payload)) ?? {}
  const accepted = algs.find(name => name === alg)
  const isForUs = aud === clientId || (Array.isArray(aud) && aud.includes(clientId))
  const isUsable = isMediaType(typ, 'token-introspection+jwt') && crit === undefined && b64 === undefined &&
    (kid === undefined || typeof kid === 'string') && issuers.includes(iss as string) && isForUs
  if (!accepted || !isUsable || typeof answer !== 'object' || answer === null || Array.isArray(answer)) throw new ProviderFailure('introspection_malformed')
  return { alg: accepted, kid: kid as string | undefined, answer: answer as JsonObject }
}
