import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'

export type Answer = ReturnType<typeof readAnswer>

/** What the answer of a service says about why it refused: `WWW-Authenticate`, and the body where that says nothing. */
export function readAnswer ({ challenge = '', body = '' }: { challenge?: string, body?: string }) {
  const parameter = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(challenge)?.[1]
  const words = (name: string) => parameter(name)?.split(' ').filter(word => word !== '')
  const maxAge = parameter('max_age') ?? ''
  return {
    /** The reason under which this service logs the refusal; another service gives none. */
    reason: reasonOf(challenge, body),
    /** The scopes that are missing. */
    scopes: words('scope'),
    /** The kinds of login of which one is asked for (RFC 9470 section 3). */
    acrValues: words('acr_values'),
    /** Seconds that the login may be old (RFC 9470 section 3). */
    maxAgeSeconds: /^\d{1,9}$/.test(maxAge) ? Number(maxAge) : undefined
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
