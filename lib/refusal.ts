import { inspect } from 'node:util'
import { STATUS_CODES } from 'node:http'
import { carries } from './base/kind.ts'

/**
 * Every reason to refuse a request, in one table: what the client gets (status, error code and one fixed sentence) and
 * the name that operators find in logs and metrics. docs/reference/errors.md explains each reason. A test keeps the two
 * equal.
 */
export interface RefusalKind {
  /** 401 or 403: the request is at fault. 429: there are too many requests. 503: we could not decide. */
  readonly status: 401 | 403 | 429 | 503
  /**
   * The `error` of the challenge (RFC 6750 section 3.1, RFC 9449 section 7.1, RFC 9470 section 3), or null if the
   * challenge has none.
   */
  readonly error:
    | 'invalid_request'
    | 'invalid_token'
    | 'invalid_dpop_proof'
    | 'use_dpop_nonce'
    | 'insufficient_user_authentication'
    | 'insufficient_scope'
    | null
  /** The public sentence: `message` of the body and `error_description` of the challenge. */
  readonly description: string
}

/** Reasons with one status and one error code, each with its public sentence. */
const kinds = <Reason extends string>(
  status: RefusalKind['status'],
  error: RefusalKind['error'],
  sentences: Readonly<Record<Reason, string>>
): Readonly<Record<Reason, RefusalKind>> => {
  const all = Object.entries<string>(sentences).map(([reason, description]) =>
    [reason, Object.freeze({ status, error, description })] as const)
  return Object.fromEntries(all) as Record<Reason, RefusalKind>
}

/**
 * Every reason, with its status, its error code and its public sentence, in the order of docs/reference/errors.md,
 * which says what to do about each.
 */
export const REFUSALS = Object.freeze({
  // Credentials: RFC 6750 section 3.1, RFC 9110 section 11.
  ...kinds(401, null, {
    credentials_missing: 'This resource needs an access token.',
    scheme_not_offered: 'This authorization scheme is not accepted here.'
  }),
  ...kinds(401, 'invalid_request', {
    headers_uncounted: 'The request has too many header lines.',
    authorization_repeated: 'The request has more than one Authorization header.',
    authorization_malformed: 'The Authorization header is not a scheme followed by one token.'
  }),
  // Access tokens: RFC 7519, RFC 9068, RFC 9449 section 6.
  ...kinds(401, 'invalid_token', {
    token_malformed: 'The access token is not a well-formed JWT.',
    token_algorithm: 'The access token is signed with an algorithm that is not accepted here.',
    token_type: 'The access token has a typ that is not accepted here.',
    token_kind: 'The token is not an access token.',
    token_critical: 'The access token names a critical header that is not understood here.',
    token_claim_invalid: 'A claim of the access token is missing or of the wrong type.',
    token_issuer: 'The access token was issued by another issuer.',
    token_audience: 'The access token is meant for another audience.',
    token_expired: 'The access token has expired.',
    token_not_yet_valid: 'The access token is not valid yet.',
    token_binding_unusable: 'The access token is bound in a way that cannot be checked here.',
    token_key_unknown: 'The access token is signed with a key that its issuer does not publish.',
    token_signature: 'The signature of the access token is wrong.',
    token_bound: 'The access token is bound to a key and must be sent with the DPoP scheme.',
    token_unbound: 'The access token is not bound to a key and cannot be sent with the DPoP scheme.',
    token_not_sender_constrained:
      'The access token is bound to neither a key nor a certificate, and only bound tokens are accepted here.',
    // The certificate that a token is bound to: RFC 8705 section 3.
    certificate_missing: 'The access token is bound to a certificate, and the client has shown none.',
    certificate_unreadable: 'The access token is bound to a certificate, and the one that was passed on cannot be ' +
      'read.',
    certificate_mismatch: 'The access token is bound to another certificate.',
    // What the provider says about the token: RFC 7662 section 2.2.
    token_inactive: 'The issuer says that the access token is not active.',
    token_contradicted: 'What the issuer says about the access token contradicts its claims.',
    // Taken back before its time.
    token_revoked: 'The access token has been revoked.',
    token_too_long: 'The access token is valid for longer than revocations are remembered here.',
    domain_has_scheme: 'No access token can be verified, because the configured domain starts with a scheme.'
  }),
  // The proof that belongs to the token: RFC 9449 sections 4.3 and 7.
  ...kinds(401, 'invalid_request', {
    proof_beside_bearer: 'A DPoP proof cannot be used with the Bearer scheme.',
    proof_missing: 'The DPoP scheme needs a DPoP header with a proof.',
    proof_repeated: 'The request has more than one DPoP header.'
  }),
  ...kinds(401, 'invalid_dpop_proof', {
    proof_malformed: 'The DPoP proof is not a well-formed JWT.',
    proof_too_large: 'The DPoP proof is larger than 8 KiB.',
    proof_type: 'The typ of the DPoP proof is not dpop+jwt.',
    proof_algorithm: 'The DPoP proof is signed with an algorithm that is not accepted here.',
    proof_critical: 'The DPoP proof names critical headers, and none is accepted here.',
    proof_key: 'The jwk of the DPoP proof is not a public key of the kind that its algorithm needs.',
    proof_claim_invalid: 'A claim of the DPoP proof is missing or of the wrong type.',
    proof_expired: 'The DPoP proof has expired.',
    proof_not_yet_valid: 'The DPoP proof is not valid yet.',
    htm_mismatch: 'The htm of the DPoP proof is not the method of the request.',
    htu_invalid: 'The htu of the DPoP proof is not an absolute http or https URL.',
    htu_mismatch: 'The htu of the DPoP proof is not the URL of the request.',
    iat_too_old: 'The iat of the DPoP proof is too far in the past.',
    iat_in_future: 'The iat of the DPoP proof is too far in the future.',
    ath_mismatch: 'The ath of the DPoP proof is not the hash of the access token.'
  }),
  ...kinds(401, 'invalid_token', {
    jkt_mismatch: 'The access token is not bound to the key of the DPoP proof.'
  }),
  ...kinds(401, 'invalid_dpop_proof', {
    proof_signature: 'The signature of the DPoP proof is wrong.'
  }),
  ...kinds(401, 'use_dpop_nonce', {
    nonce_missing: 'The DPoP proof needs a nonce from this server.',
    nonce_stale: 'The nonce of the DPoP proof is not a recent one from this server.',
    nonce_of_another_instance: 'The nonce of the DPoP proof was made by another instance of this server.'
  }),
  ...kinds(401, 'invalid_dpop_proof', {
    proof_replayed: 'The DPoP proof has been used before.'
  }),
  // The URL that the client used is uncertain (RFC 9110 section 7.1).
  ...kinds(401, 'invalid_request', {
    host_invalid: 'The host of the request is not valid.',
    host_repeated: 'The request has more than one Host header.',
    target_authority: 'The request target does not agree with the Host header and the connection.',
    target_path: 'The path of the request is not in its normal form, or can be read as another one.',
    forwarded_invalid: 'A forwarded header of the request is not valid.'
  }),
  // The login behind the token: RFC 9470 section 3.
  ...kinds(401, 'insufficient_user_authentication', {
    acr_missing: 'This resource needs a login of another kind.',
    authentication_too_old: 'This resource needs a more recent login.'
  }),
  // Authorization: RFC 6750 section 3.1.
  ...kinds(403, 'insufficient_scope', {
    scope_missing: 'The access token lacks a permission that this resource needs.',
    claim_mismatch: 'A claim of the access token does not have a value that this resource needs.',
    authorization_details_missing: 'The access token lacks an authorization detail that this resource needs.'
  }),
  // Too many requests from one client: RFC 6585 section 4.
  ...kinds(429, null, {
    rate_limited: 'This client has sent too many requests. It may continue after the time in Retry-After.',
    replay_share_exceeded:
      'This client has more recent proofs than its share of the replay store. It may continue when the oldest have ' +
      'expired.'
  }),
  // We could not decide; the client may try again.
  ...kinds(503, null, {
    revocation_unknown: 'Cannot currently determine whether the access token has been revoked.',
    issuers_unavailable: 'Cannot currently determine whether this issuer is trusted.',
    keys_unavailable: 'The keys of the identity provider cannot be reached.',
    introspection_unavailable: 'Token introspection is unavailable.',
    replay_unavailable: 'The replay store cannot be reached.',
    replay_full: 'The replay store is full.'
  })
})

/** Why a request was refused: a stable word, for logs, metrics and error handlers. */
export type RefusalReason = keyof typeof REFUSALS

/** The details that a log line may hold beside the reason: never a token, a proof or a key. */
export type RefusalDetail = Readonly<Record<string, string | number>>

/** What a refusal says beside its reason. */
type RefusalFields = Partial<Pick<Refusal, 'detail' | 'retryAfterSeconds' | 'issuer' | 'headers'>>

const kRefusal = Symbol.for('holdfast.Refusal')

/**
 * Every check of the guard throws it. Its message is the public sentence. It never changes: several requests may share
 * one. It has the form of http-errors, which frameworks know. `instanceof` also recognises a refusal of another copy of
 * this package.
 * @example
 * app.setErrorHandler((error, _request, reply) => {
 *   if (!(error instanceof Refusal)) throw error
 *   return reply.code(error.statusCode).send({ reason: error.reason })
 * })
 */
export class Refusal extends Error {
  /** For logs. */
  override readonly name = 'Refusal'
  /** @internal */
  static override [Symbol.hasInstance] = carries(kRefusal)
  /** @internal */
  readonly [kRefusal] = true
  /** Why the request was refused. */
  readonly reason: RefusalReason
  /** More about the reason, for the log only. */
  readonly detail: RefusalDetail | undefined
  /**
   * Seconds after which the client may usefully send the request again, for 429 and 503, or undefined if the time is
   * unknown.
   */
  readonly retryAfterSeconds: number | undefined
  /** The issuer of the token, as the settings name it, or undefined if it was not known yet. */
  readonly issuer: string | undefined
  /** Headers of the answer, from the code that knows the settings. Fastify sends them along with the error. */
  readonly headers: Readonly<Record<string, string>> | undefined
  /** The status of the answer. */
  readonly statusCode: RefusalKind['status']
  /** The same. */
  readonly status: RefusalKind['status']
  /** Whether the message is for the client. A framework may hide it if the fault is not the client's. */
  readonly expose: boolean

  constructor (reason: RefusalReason, { detail, retryAfterSeconds, issuer, headers }: RefusalFields = {}) {
    // A refusal is an answer, not a fault. Without a stack it costs no more than an accepted request.
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
    super(REFUSALS[reason].description)
    Error.stackTraceLimit = limit
    this.reason = reason
    this.detail = detail
    this.retryAfterSeconds = retryAfterSeconds
    this.issuer = issuer
    this.headers = headers
    this.statusCode = this.status = REFUSALS[reason].status
    this.expose = this.status < 500
  }

  /**
   * For a framework that logs what is thrown: a line.
   * @internal
   */
  [inspect.custom] (): string {
    return `${this.name} ${this.reason}: ${this.message}`
  }

  /**
   * The same refusal with these fields.
   * @example throw refusal.with({ headers: { ...refusal.headers, 'x-help': 'https://help.example' } })
   */
  with (fields: RefusalFields): Refusal {
    return new Refusal(this.reason, {
      detail: this.detail,
      retryAfterSeconds: this.retryAfterSeconds,
      issuer: this.issuer,
      headers: this.headers,
      ...fields
    })
  }
}

/**
 * A refusal names the issuer of the token, as the settings do. It is a copy, because requests may share the refusal.
 * Any other error is a fault, and is returned as it is.
 */
export function refusalOfIssuer (error: Error, issuer: string | undefined): Error {
  return error instanceof Refusal ? error.with({ issuer }) : error
}

export type ErrorBodyForm = 'default' | 'detailed'

const DETAILED_MESSAGES: Readonly<Record<number, string>> = {
  401: 'A valid access token is needed.',
  403: 'The access token lacks a permission.'
}

/**
 * The JSON body of an error. `default` is Fastify's own form. `detailed` answers 401 and 403 with `{ error, message,
 * details }` and every other status with `{ detail }`.
 * @param message our own sentence. If there is none, the name of the status is used.
 */
export function errorBody (form: ErrorBodyForm, status: number, message?: string): object {
  const error = STATUS_CODES[status] ?? 'Error'
  if (form === 'default') return { statusCode: status, error, message: message ?? error }
  const general = DETAILED_MESSAGES[status]
  return general ? { error, message: general, details: message ?? error } : { detail: message ?? error }
}

/** The bodies of all refusals, as JSON text. */
export function refusalBodies (form: ErrorBodyForm): Readonly<Record<RefusalReason, string>> {
  const texts = Object.entries(REFUSALS).map((
    [reason, { status, description }]
  ) => [reason, JSON.stringify(errorBody(form, status, description))])
  return Object.fromEntries(texts)
}
