import { REFUSALS, type RefusalReason } from '../refusal.ts'
import type { Requirement } from './requirement/requirement.ts'
import { scopesOf, type RouteGuard } from './requirement/route-guard.ts'
import { offeredSchemes, type AuthScheme, type DpopMode } from './credentials.ts'

interface ChallengePolicy {
  readonly mode: DpopMode
  readonly algs: readonly string[]
  /** RFC 9728 section 5.1. It is always a URL from the settings: no byte of a request goes into a header. */
  readonly resourceMetadataUrl: string | undefined
}

interface RefusalContext {
  /** The scheme that the client used, if it is one of ours. */
  readonly scheme: AuthScheme | undefined
  /** The requirement that was judged. */
  readonly requirement: Requirement
  /** All guards of the route, if they are known: the challenge names every scope at once. */
  readonly guard?: RouteGuard
  readonly nonce?: string
  /** Seconds after which the client may send the request again, if it may. */
  readonly retryAfterSeconds?: number
}

export type Challenges = ReturnType<typeof createChallenges>

/** Each text is made once and kept: one for each reason and scheme, and one for each requirement and route. */
export function createChallenges ({ mode, algs, resourceMetadataUrl }: ChallengePolicy) {
  const accepted = parameter('algs', algs.join(' '))
  const metadata = resourceMetadataUrl ? [parameter('resource_metadata', resourceMetadataUrl)] : []
  const made = new WeakMap<Requirement, WeakMap<object, Map<string, string>>>()

  function textOf (reason: RefusalReason, context: RefusalContext) {
    const { requirement, guard = requirement } = context
    let routes = made.get(requirement)
    if (!routes) made.set(requirement, routes = new WeakMap())
    let texts = routes.get(guard)
    if (!texts) routes.set(guard, texts = new Map())
    const name = `${reason} ${context.scheme}`
    let text = texts.get(name)
    if (text === undefined) texts.set(name, text = challengesFor(reason, context))
    return text
  }

  function challengesFor (reason: RefusalReason, context: RefusalContext) {
    const { error } = REFUSALS[reason]
    const told = toldTo(reason, context)
    // Clients of today find this error only in a header that holds one challenge.
    if (error === 'use_dpop_nonce') return challenge('DPoP', [...told, accepted])
    return offeredSchemes(mode).map(scheme =>
      challenge(scheme, [
        ...error && scheme !== context.scheme ? [] : told,
        ...metadata,
        ...scheme === 'DPoP' ? [accepted] : []
      ])
    ).join(', ')
  }

  /**
   * Returns the headers for a refusal: one WWW-Authenticate line with the challenges of the mode, or Retry-After if the
   * client may send the request again.
   */
  return function challenges (reason: RefusalReason, context: RefusalContext): Readonly<Record<string, string>> {
    const { status, error } = REFUSALS[reason]
    if (status === 429 || status === 503) {
      return { 'retry-after': String(Math.max(1, Math.ceil(context.retryAfterSeconds ?? 1))) }
    }
    const text = textOf(reason, context)
    return error === 'use_dpop_nonce'
      ? { 'www-authenticate': text, 'dpop-nonce': context.nonce! }
      : { 'www-authenticate': text }
  }
}

/**
 * What a challenge says of the request: its error, and what the client must request. A missing claim has no parameter,
 * and the scopes would mislead the client. One without a token gets the scopes too, so that it requests all at once.
 */
function toldTo (reason: RefusalReason, context: RefusalContext): string[] {
  const { error, description } = REFUSALS[reason]
  if (!error) return scopeParameter(context)
  const parameters = [parameter('error', error), parameter('error_description', description)]
  if (reason === 'scope_missing') parameters.push(...scopeParameter(context))
  if (error === 'insufficient_user_authentication') {
    // RFC 9470 section 3: the whole login that the route needs, whatever was missing, so that one login is enough.
    const { acr, maxAgeSeconds } = context.requirement
    if (acr) parameters.push(parameter('acr_values', acr.join(' ')))
    if (maxAgeSeconds !== undefined) parameters.push(parameter('max_age', maxAgeSeconds))
  }
  return parameters
}

/** The scopes of the route (RFC 6750 section 3). */
function scopeParameter ({ requirement, guard = [] }: RefusalContext): string[] {
  const scopes = new Set([...guard, requirement].flatMap(scopesOf))
  return scopes.size === 0 ? [] : [parameter('scope', [...scopes].join(' '))]
}

/** No value holds a quote or a back-slash: each is a fixed text or a setting that was checked before. */
function parameter (name: string, value: string | number): string {
  return `${name}="${value}"`
}

/** One challenge (RFC 9110 section 11.3). */
function challenge (scheme: AuthScheme, parameters: readonly string[]): string {
  return parameters.length === 0 ? scheme : `${scheme} ${parameters.join(', ')}`
}
