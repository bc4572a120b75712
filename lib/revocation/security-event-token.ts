import {
  decodeJwt,
  headerFault,
  isMediaType,
  signerOf,
  splitCompactJws,
  type JwtContent,
  type SignerFinder,
  type SignerKeys
} from '../guard/jose/signed-jwt.ts'
import type { KeySource } from '../guard/provider/key-source.ts'
import { countMembers, isJsonObject, type JsonBounds, type JsonObject } from '../base/json.ts'
import type { JwsAlg } from '../guard/jose/signature.ts'
import type { SecurityEvent } from './effects.ts'
import { SetError } from './set-error.ts'
import { UndecidedError } from './store/store.ts'

/** The signatures of security event tokens: SSF has them apart from those of access tokens. */
export const EVENT_ALGS: readonly JwsAlg[] = Object.freeze(['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'])

/** Of one token. */
export const MAX_SET_BYTES = 64 * 1024

/** A subject of 100 identifiers, the maximum, has some 400 values. */
const BOUNDS: JsonBounds = { maxDepth: 64, maxValues: 1000 }

/**
 * Whether JSON holds more than any event needs.
 * @param json UTF-8. It need not be JSON
 */
export function isBeyondEvents (json: Uint8Array): boolean {
  return countMembers(json, BOUNDS) === undefined
}

/** A signed token of a sender of events, before its signature has been verified. */
export interface UnverifiedSet extends JwtContent {
  readonly text: string
}

/** The parts of a token that is sent to us. @throws SetError */
export function readSet (text: string): UnverifiedSet {
  const jws = splitCompactJws(text)
  if (jws && [jws.header, jws.payload].some(part => isBeyondEvents(Buffer.from(part, 'base64url')))) {
    throw new SetError('The token holds too many values.')
  }
  const content = decodeJwt(jws)
  if (!content) throw new SetError('The body is not a well-formed JWT.')
  return { text, ...content }
}

/** What a token of one sender must say. */
export interface SetRules {
  /** Spellings of its issuer. */
  readonly issuers: readonly string[]
  /** One of them is enough. Undefined until the stream, which names them, is known. */
  readonly audience: string | readonly string[] | undefined
  /** Accepted values of `alg`. */
  readonly algs: readonly JwsAlg[]
  /** The media type in `typ`, such as `secevent+jwt`. */
  readonly type: string
  /** Whether `typ` may be absent, or the `JWT` of any token. */
  readonly isUntyped: boolean
}

/** Whether a token is meant for one of these audiences. */
export function isFor ({ claims: { aud } }: UnverifiedSet, audience: SetRules['audience']): boolean {
  const named = [aud].flat()
  return audience !== undefined && [audience].flat().some(name => named.includes(name))
}

/** @throws SetError */
export function unknownIssuer (): never {
  throw new SetError('The token was issued by another issuer.', 'invalid_issuer')
}

/**
 * Checks all that needs no key, so that a token that cannot pass causes no call (RFC 8417 section 2, RFC 8935 section
 * 2.3).
 * @throws SetError, or UndecidedError if the audience is not known yet
 */
export function checkSet (
  set: UnverifiedSet,
  { issuers, audience, algs, type, isUntyped }: SetRules
): void {
  const { header, claims } = set
  const isType = (typ: unknown) =>
    isMediaType(typ, type) || (isUntyped && (typ === undefined || isMediaType(typ, 'jwt')))
  const fault = headerFault(header, algs, isType)
  if (fault === 'typ') throw new SetError(`The typ of the token is not ${type}.`)
  if (fault === 'alg') {
    throw new SetError('The token is signed with an algorithm that is not accepted here.', 'invalid_key')
  }
  if (fault) throw new SetError('The header of the token cannot be understood.')
  const { iss, iat, jti } = claims
  if (!issuers.includes(iss as string)) unknownIssuer()
  // Until the stream is known, nothing can be said against the token.
  if (audience === undefined) {
    throw new UndecidedError('the stream of the sender, which names the audience, is not known yet')
  }
  if (!isFor(set, audience)) {
    throw new SetError('The token is meant for another audience.', 'invalid_audience')
  }
  if (typeof iat !== 'number' || !Number.isFinite(iat)) throw new SetError('The token has no iat.')
  if (typeof jti !== 'string' || jti === '') throw new SetError('The token has no jti.')
}

/**
 * The one event of a security event token. `sub` and `exp` would make it one that could pass for another kind of token
 * (SSF 1.0 sections 4.1.2 and 4.1.7).
 * @throws SetError
 */
export function eventIn ({ claims }: UnverifiedSet): SecurityEvent {
  if (claims.sub !== undefined || claims.exp !== undefined) {
    throw new SetError('A security event token has no sub and no exp.')
  }
  const { events } = claims
  const types = isJsonObject(events) ? Object.keys(events) : []
  const event = types.length === 1 ? (events as JsonObject)[types[0]!] : undefined
  if (!isJsonObject(event)) throw new SetError('The token does not have exactly one event.')
  return { type: types[0]!, event, claims }
}

/**
 * Fewer than for an access token: whoever sends events is known, and has one or two keys. A forged event must not cost
 * five accepted ones.
 */
const MAX_TRIED_KEYS = 4
/** Each key that is tried hashes the whole token. */
const MAX_TRIED_CHARACTERS = 8 * 1024

/** A set of keys that is older than a token by more may lack its key. */
const NEW_KEY_SECONDS = 5

/** The keys of a sender, and when they were fetched. */
export type SenderKeys = SignerKeys & Pick<KeySource, 'state'>

/**
 * Verifies the signature under the first keys of the sender that may be meant. A token beyond 8 KiB is not tried under
 * several keys.
 * @throws SetError invalid_key; Refusal keys_unavailable if the keys cannot be fetched now, or UndecidedError if they
 * may not be fetched again yet: forged tokens, which anyone can send, must not cost an event of a new key
 */
export async function verifySetSignature (
  { text, header, claims }: UnverifiedSet,
  keys: SenderKeys,
  findSigner: SignerFinder
): Promise<void> {
  const signer = await signerOf(text, header, keys, (text, candidates, alg) => {
    if (candidates.length > 1 && text.length > MAX_TRIED_CHARACTERS) {
      throw new SetError('A token of this size must name its key.', 'invalid_key')
    }
    return findSigner(text, candidates.slice(0, MAX_TRIED_KEYS), alg)
  })
  if (typeof signer === 'string') {
    const { fetchedAt, lastFailure } = keys.state()
    const isOlder = signer === 'key_unknown' && claims.iat as number > fetchedAt! + NEW_KEY_SECONDS
    // There may be another key under an old name, too.
    if (isOlder || lastFailure !== undefined) {
      throw new UndecidedError('the key of the sender may be newer than those that were fetched')
    }
    throw new SetError('The signature of the token cannot be verified with a key of its issuer.', 'invalid_key')
  }
}
