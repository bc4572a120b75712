import { isUtf8 } from 'node:buffer'
import type { KeyObject } from 'node:crypto'
import { isJsonObject, type JsonObject } from '../../base/json.ts'
import type { JwsAlg } from './signature.ts'

/** The three segments of a JWS in compact form (RFC 7515 section 3.1), still encoded. */
export interface CompactJws {
  readonly header: string
  readonly payload: string
  readonly signature: string
}

const BASE64URL = /^[A-Za-z0-9_-]+$/
// The characters that a text may end with, by length modulo 4: their bits beyond the last whole byte are zero.
const LAST_CHARACTERS = [undefined, '', 'AQgw', 'AEIMQUYcgkosw048']

/** Whether base64url encoding without padding can have produced the text (RFC 4648 section 5, RFC 7515 section 2). */
export function isCanonicalBase64url (text: string): boolean {
  if (!BASE64URL.test(text)) return false
  const last = LAST_CHARACTERS[text.length % 4]
  return last === undefined || last.includes(text[text.length - 1]!)
}

/** Splits a compact JWS. Undefined unless it is three non-empty segments of canonical base64url without padding. */
export function splitCompactJws (text: string): CompactJws | undefined {
  const first = text.indexOf('.')
  const second = text.indexOf('.', first + 1)
  if (first < 1 || second === -1) return undefined
  const header = text.slice(0, first)
  const payload = text.slice(first + 1, second)
  const signature = text.slice(second + 1)
  if (!isCanonicalBase64url(header) || !isCanonicalBase64url(payload) || !isCanonicalBase64url(signature)) {
    return undefined
  }
  return { header, payload, signature }
}

/** A segment that holds a JSON object. */
export function encodeJson (value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

/** Decodes a segment that holds a JSON object in UTF-8. Undefined for anything else. */
export function decodeJsonObject (segment: string): JsonObject | undefined {
  const bytes = Buffer.from(segment, 'base64url')
  if (!isUtf8(bytes)) return undefined
  return parseObject(bytes.toString('utf8'))
}

function parseObject (text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

// It replaces bytes that are no UTF-8, and drops a byte order mark.
const LENIENT_UTF8 = new TextDecoder()

/**
 * Whether a text is a JWT, well-formed or not: its first segment decodes to a JSON object with `alg`. Any other token
 * is opaque, and so is an encrypted JWT, which only its issuer can read: five segments whose header has `enc` (RFC 7516
 * section 9). The decoding is as lenient as that of any provider. If it were not, one changed character would send a
 * JWT to the provider as an opaque token, past the accepted algorithms, and with the binding that the answer happens to
 * name.
 */
export function isJwt (text: string): boolean {
  const segments = text.split('.')
  // Both alphabets, padding, spare bits and other characters in between are accepted.
  const bytes = Buffer.from(segments.find(segment => segment !== '') ?? '', 'base64')
  const header = parseObject(LENIENT_UTF8.decode(bytes))
  if (!header || !Object.hasOwn(header, 'alg')) return false
  return segments.length !== 5 || !Object.hasOwn(header, 'enc')
}

/**
 * Compares a `typ` header with a media type. Case makes no difference, and `application/` may be left out (RFC 7515
 * section 4.1.9).
 */
export function isMediaType (typ: unknown, expected: string): boolean {
  if (typeof typ !== 'string') return false
  const lower = typ.toLowerCase()
  return lower === expected || lower === `application/${expected}`
}

/** The content of a signed JWT. Its signature has not been verified. */
export interface JwtContent {
  readonly header: JsonObject
  readonly claims: JsonObject
}

/** Decodes a JWT that is split already. Undefined unless header and claims are JSON objects. */
export function decodeJwt (jws: CompactJws | undefined): JwtContent | undefined {
  const header = jws && decodeJsonObject(jws.header)
  const claims = header && decodeJsonObject(jws!.payload)
  return claims && { header, claims }
}

/** Reads a JWT (RFC 7519 section 7.2). Undefined unless it is well-formed. */
export function readJwt (text: string): JwtContent | undefined {
  return decodeJwt(splitCompactJws(text))
}

/** Whether a `typ` is that of one kind of JWT: no other kind may pass for it (RFC 8725 section 3.11). */
type TypeRule = (typ: unknown) => boolean

/**
 * What a header must say. `alg` is compared literally. No extension is understood here (`crit`, RFC 7515 section
 * 4.1.11), so no unencoded payload either (RFC 7797).
 */
export const HEADER_CHECKS = {
  typ: ({ typ }: JsonObject, _algs: readonly JwsAlg[], isType: TypeRule) => isType(typ),
  alg: ({ alg }: JsonObject, algs: readonly JwsAlg[]) => algs.some(name => name === alg),
  crit: ({ crit, b64 }: JsonObject) => crit === undefined && b64 === undefined,
  kid: ({ kid }: JsonObject) => kid === undefined || typeof kid === 'string'
}

export type HeaderCheck = keyof typeof HEADER_CHECKS

/** The names of algorithms that exist, so that nothing else of a header comes into a log. */
const ALG_NAME = /^(?:none|(?:[EHPR]S)(?:256|384|512)|ES256K|EdDSA|Ed25519|Ed448|ML-DSA-\d\d)$/

/** For the log: the accepted algorithms, and the one that a header names. */
export function algDetail ({ alg }: JsonObject, algs: readonly JwsAlg[]) {
  return { expected: algs.join(' '), found: typeof alg === 'string' && ALG_NAME.test(alg) ? alg : 'no known name' }
}

/** The first check that a header fails, or undefined if it passes all. @param algs the accepted algorithms */
export function headerFault (header: JsonObject, algs: readonly JwsAlg[], isType: TypeRule): HeaderCheck | undefined {
  for (const name of Object.keys(HEADER_CHECKS) as HeaderCheck[]) {
    if (!HEADER_CHECKS[name](header, algs, isType)) return name
  }
  return undefined
}

/**
 * Compares `exp` and `nbf` with the clock (RFC 7519 sections 4.1.4 and 4.1.5). One that is missing passes.
 * @param now Unix seconds
 * @param toleranceSeconds by which clocks may differ
 * @returns which of them is against it, with a detail for logs, or undefined if it is valid
 */
export function timeFault (
  { exp = Infinity, nbf = -Infinity }: { exp?: number, nbf?: number },
  now: number,
  toleranceSeconds: number
) {
  if (now >= exp + toleranceSeconds) {
    return { claim: 'exp', detail: { expected: `exp after ${Math.floor(now - toleranceSeconds)}`, found: exp } }
  }
  if (now < nbf - toleranceSeconds) {
    return { claim: 'nbf', detail: { expected: `nbf up to ${Math.floor(now + toleranceSeconds)}`, found: nbf } }
  }
  return undefined
}

/**
 * A key that signs JWTs. It is the same object for as long as the key stays in its set unchanged, so caches may refer
 * to it.
 */
export interface SigningKey {
  readonly kid: string | undefined
  readonly key: KeyObject
  /** The same key as SPKI in PEM. */
  readonly pem: string
  /** The algorithms that the key may verify. No other is ever tried with it. */
  readonly algs: readonly JwsAlg[]
}

/** The keys of those who sign JWTs. */
export interface SignerKeys {
  /**
   * The keys at hand that may have signed a token with this `kid`, or without one, by this algorithm: at most 8. Never
   * waits.
   */
  candidates (kid: string | undefined, alg: JwsAlg): readonly SigningKey[]
  /**
   * Called if `candidates` has found no key, or none that has signed the token: a provider may put a new key under an
   * old `kid`. Returns the candidates after at most one fetch, which all waiting callers share. Empty if the provider
   * publishes no such key, by its answer now or to a fetch before. Rejects with Refusal `keys_unavailable` if that
   * cannot be known.
   */
  fetchCandidates (kid: string | undefined, alg: JwsAlg): Promise<readonly SigningKey[]>
}

/**
 * The key that has signed a token by this algorithm, or undefined (RFC 7515 section 5.2). The caller has checked that
 * the token names the algorithm and that the keys are made for it.
 */
export type SignerFinder = (token: string, keys: readonly SigningKey[], alg: JwsAlg) => SigningKey | undefined

/**
 * Finds the key that has signed a JWT: among those at hand at once, else after a fetch. Keys that were tried are not
 * tried again, or a forged token would cost twice as much.
 * @param header one that has passed `headerFault`
 * @returns or why there is none: no key is published that may have signed it, or its signature is wrong
 */
export function signerOf (
  text: string,
  header: JsonObject,
  keys: SignerKeys,
  findSigner: SignerFinder
): SigningKey | Promise<SigningKey | 'key_unknown' | 'signature'> {
  const { kid, alg } = header as { readonly kid: string | undefined, readonly alg: JwsAlg }
  const find = (candidates: readonly SigningKey[]) =>
    candidates.length > 0 ? findSigner(text, candidates, alg) : undefined
  const tried = keys.candidates(kid, alg)
  return find(tried) ??
    keys.fetchCandidates(kid, alg).then(fetched =>
      find(fetched.filter(key => !tried.includes(key))) ?? (fetched.length === 0 ? 'key_unknown' : 'signature')
    )
}
