import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'

/** What the answer of a service says about why it refused, and what it accepts. */
export interface Answer {
  /** The reason under which this service logs the refusal; another service gives none. */
  readonly reason: RefusalReason | undefined
  /** The `error` of the challenge (RFC 6750 section 3.1, RFC 9449 section 7.1). */
  readonly error: string | undefined
  /** The schemes that are offered. */
  readonly schemes: readonly string[]
  /** The algorithms that proofs may have. */
  readonly algs: readonly string[] | undefined
  /** The scopes that are missing. */
  readonly scopes: readonly string[] | undefined
  /** The kinds of login of which one is asked for (RFC 9470 section 3). */
  readonly acrValues: readonly string[] | undefined
  /** Seconds that the login may be old (RFC 9470 section 3). */
  readonly maxAgeSeconds: number | undefined
  /** Names the process that answered. */
  readonly nonce: string | undefined
}

/** Reads `WWW-Authenticate`, the body where that says nothing, and `DPoP-Nonce`. */
export function readAnswer (
  { challenge = '', body = '', nonce }: {
    readonly challenge?: string | undefined,
    readonly body?: string,
    readonly nonce?: string | undefined
  }
): Answer {
  const bare = challenge.replace(/"[^"]*"/g, '""')
  const parameter = (name: string): string | undefined => new RegExp(`\\b${name}="([^"]*)"`).exec(challenge)?.[1]
  const words = (name: string): string[] | undefined => parameter(name)?.split(' ').filter(word => word !== '')
  const maxAge = parameter('max_age') ?? ''
  return {
    reason: reasonOf(challenge, body),
    error: parameter('error'),
    schemes: ['Bearer', 'DPoP'].filter(scheme => new RegExp(`(?:^|, *)${scheme}\\b`, 'i').test(bare)),
    algs: words('algs'),
    scopes: words('scope'),
    acrValues: words('acr_values'),
    maxAgeSeconds: /^\d{1,9}$/.test(maxAge) ? Number(maxAge) : undefined,
    nonce
  }
}

/** What the route needs, as far as the answer says; undefined if it says nothing. */
export function requirementsIn ({ scopes, acrValues, maxAgeSeconds }: Answer): readonly Requirement[] | undefined {
  const requirement: Requirement = {
    ...scopes && { scope: scopes },
    ...acrValues && { acr: acrValues },
    ...maxAgeSeconds !== undefined && { maxAgeSeconds }
  }
  return Object.keys(requirement).length === 0 ? undefined : [requirement]
}

/** Each reason has one public sentence, so the sentence names the reason. */
function reasonOf (challenge: string, body: string): RefusalReason | undefined {
  const reasons = Object.keys(REFUSALS) as RefusalReason[]
  return reasons.find(reason => challenge.includes(`"${REFUSALS[reason].description}"`)) ??
    reasons.find(reason => body.includes(JSON.stringify(REFUSALS[reason].description)))
}
