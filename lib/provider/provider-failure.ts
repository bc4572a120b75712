/**
 * Why a fetch of the signing keys failed. The words are stable: operators see them in logs and metrics, and docs/operating.md
 * explains each.
 */
export const PROVIDER_FAILURES = Object.freeze([
  'deadline', 'unreachable', 'tls', 'proxy', 'status', 'redirect', 'content_encoding', 'too_large', 'not_json',
  'discovery_malformed', 'discovery_issuer', 'jwks_uri_refused', 'set_malformed', 'set_too_many_keys', 'unexpected'
] as const)

export type ProviderFailureWord = (typeof PROVIDER_FAILURES)[number]

/** Thrown inside a fetch of keys. `detail` is a status or an error code. It never holds a byte that the provider sent. */
export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure'
  readonly word: ProviderFailureWord
  readonly detail: string | number | undefined

  constructor (word: ProviderFailureWord, detail?: string | number) {
    super(detail === undefined ? word : `${word}: ${detail}`)
    this.word = word
    this.detail = detail
  }
}
