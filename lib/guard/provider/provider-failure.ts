import { carries } from '../../base/kind.ts'
import { isTlsCode } from '../../base/tls-code.ts'

/**
 * Why a fetch of the signing keys failed. The words are stable: operators see them in logs and metrics, and
 * docs/reference/monitoring.md explains each.
 */
export const PROVIDER_FAILURES = [
  'deadline',
  'unreachable',
  'tls',
  'proxy',
  'status',
  'redirect',
  'content_encoding',
  'too_large',
  'not_json',
  'discovery_malformed',
  'discovery_issuer',
  'jwks_uri_refused',
  'set_malformed',
  'set_too_many_keys',
  'file_unreadable',
  'introspection_endpoint',
  'introspection_malformed',
  'introspection_signature',
  'introspection_expired',
  'foreign_address',
  'stream_missing',
  'unexpected'
] as const

export type ProviderFailureWord = (typeof PROVIDER_FAILURES)[number]

/**
 * What a log line says of a failure beside its word. Text that the provider sent is in it only as `printable` writes
 * it.
 */
export interface FailureFacts {
  /** The URL of the request, without its query. */
  readonly url?: string
  /** Host and port of the proxy between, if there was one. */
  readonly proxy?: string
  /** Of the answer, if there was a whole one. */
  readonly status?: number
  readonly contentType?: string
  readonly expected?: string
  readonly found?: string
}

const kProviderFailure = Symbol.for('holdfast.ProviderFailure')

/**
 * Thrown inside a fetch of keys. `detail` is a status or an error code, and never holds a byte that the provider sent.
 */
export class ProviderFailure extends Error {
  /** @internal */
  static override [Symbol.hasInstance] = carries(kProviderFailure)
  /** @internal */
  readonly [kProviderFailure] = true
  override readonly name = 'ProviderFailure'
  readonly word: ProviderFailureWord
  readonly detail: string | number | undefined
  readonly facts: FailureFacts

  constructor (word: ProviderFailureWord, detail?: string | number, facts: FailureFacts = {}) {
    super(detail === undefined ? word : `${word}: ${detail}`)
    this.word = word
    this.detail = detail
    this.facts = facts
  }

  /** The same failure with more facts. */
  with (facts: FailureFacts | undefined): ProviderFailure {
    return new ProviderFailure(this.word, this.detail, { ...facts, ...this.facts })
  }
}

/**
 * The failure behind an error of a request. It uses error codes, not messages: the text of messages changes between
 * versions.
 */
export function failureOf (error: unknown): ProviderFailure {
  if (error instanceof ProviderFailure) return error
  // Some errors of the HTTP parser have no code.
  const { code: given, name } = error as Error & { code?: string }
  const code = given ?? name
  // If we did not abort the request, only a proxy that refuses the tunnel can have aborted it.
  if (code === 'UND_ERR_ABORTED') return new ProviderFailure('proxy')
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return new ProviderFailure('too_large')
  if (isTlsCode(code)) return new ProviderFailure('tls', code)
  return new ProviderFailure('unreachable', code)
}
