import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { Refusal } from '../refusal.ts'

// It replaces bytes that are no UTF-8, and drops a byte order mark.
const UTF8 = new TextDecoder()

/**
 * Whether a text is a JWT, well-formed or not: its first segment decodes to a JSON object with `alg`. Any other token is opaque, and so is an
 * encrypted JWT, which only its issuer can read: five segments whose header has `enc` (RFC 7516 section 9). The decoding is as lenient as
 * that of any provider. If it were not, one changed character would send a JWT to the provider as an opaque token, past the accepted
 * algorithms, and with the binding that the answer happens to name.
 */
export function isJwt (text: string): boolean {
  const segments = text.split('.')
  const header = decodeLeniently(segments.find(segment => segment !== '') ?? '')
  if (!header || !Object.hasOwn(header, 'alg')) return false
  return segments.length !== 5 || !Object.hasOwn(header, 'enc')
}

/** Accepts both alphabets, padding, spare bits and other characters in between. */
function decodeLeniently (segment: string): object | undefined {
  try {
    const value: unknown = JSON.parse(UTF8.decode(Buffer.from(segment, 'base64')))
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

const OTHER_KINDS: ReadonlySet<string> = new Set(['refresh', 'offline', 'id', 'refreshtoken', 'offlinetoken', 'idtoken'])

/**
 * Refuses the claims of a token that is no access token: a security event or a logout token, by `events` (RFC 8417 section 2.2, OpenID
 * Connect Back-Channel Logout 1.0 section 2.4), or a refresh, offline or ID token, as providers write it into `token_use`, `typ` and
 * `token_type`: `id`, `Refresh`, `refresh_token`, `urn:ietf:params:oauth:token-type:id_token`.
 * @throws Refusal token_kind
 */
export function verifyKind (claims: JsonObject): void {
  const { token_use: use, typ, token_type: type } = claims
  if (Object.hasOwn(claims, 'events') || [use, typ, type].flat().some(isOtherKind)) throw new Refusal('token_kind')
}

function isOtherKind (name: unknown): boolean {
  return typeof name === 'string' && name.toLowerCase().split(/[^a-z]+/).some(word => OTHER_KINDS.has(word))
}

/**
 * Refuses a token that is no access token by the issuer's answer about it (RFC 7662 section 2.2). A `token_type` is `Bearer` or `DPoP`,
 * in any case; providers write `N_A` for what is no access token. One of `DPoP` needs the key that the token is bound to.
 * @param cnf of the answer, or of the token itself
 * @param isTypeNeeded whether a missing `token_type` is a refusal
 * @throws Refusal token_kind, token_binding_unusable
 */
export function verifyAnsweredKind (answer: JsonObject, cnf: unknown, isTypeNeeded: boolean): void {
  verifyKind(answer)
  const { token_type: type } = answer
  if (type === undefined && !isTypeNeeded) return
  const scheme = typeof type === 'string' ? type.toLowerCase() : undefined
  if (scheme !== 'bearer' && scheme !== 'dpop') throw new Refusal('token_kind')
  if (scheme === 'dpop' && (cnf as JsonObject | null | undefined)?.jkt === undefined) throw new Refusal('token_binding_unusable')
}
