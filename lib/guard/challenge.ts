import { REFUSALS } from '../refusal.ts'
import type { RefusalReason } from '../refusal.ts'
import type { Requirement } from '../requirement/requirement.ts'
import { scopesOf } from '../requirement/route-guard.ts'
import type { RouteGuard } from '../requirement/route-guard.ts'
import { offeredSchemes } from '../credentials.ts'
import type { AuthScheme, DpopMode } from '../credentials.ts'

export interface ChallengePolicy {
  readonly mode: DpopMode
  readonly algs: readonly string[]
  /** RFC 9728 section 5.1. It is always a URL from the settings: no byte of a request goes into a header. */
  readonly resourceMetadataUrl: string | undefined
}

export interface RefusalContext {
  /** The scheme that the client used, if it is one of ours. */
  readonly scheme: AuthScheme | undefined
  /** The requirement that was judged. */
  readonly requirement: Requirement
  /** All guards of the route, if they are known: the challenge names every scope at once. */
  readonly guard?: RouteGuard | undefined
  readonly nonce?: string | undefined
  /** Seconds after which the client may send the request again, if it may. */
  readonly retryAfterSeconds?: number | undefined
}

type Parameters = ReadonlyArray<readonly [name: string, value: string]>

export type Challenges = ReturnType<typeof createChallenges>

/** Each text is made once and kept: one for each reason and scheme, and one for each requirement and route. */
export function createChallenges (policy: ChallengePolicy) {
  const made = new WeakMap<Requirement, WeakMap<object, Map<string, string>>>()

  const textOf = (reason: RefusalReason, context: RefusalContext): string => {
    const { requirement, guard = requirement } = context
    let routes = made.get(requirement)
    if (!routes) made.set(requirement, routes = new WeakMap())
    let texts = routes.get(guard)
    if (!texts) routes.set(guard, texts = new Map())
    const name = `${reason} ${context.scheme}`
    let text = texts.get(name)
    if (text === undefined) texts.set(name, text = challengesFor(reason, policy, context))
    return text
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

function challengesFor (reason: RefusalReason, policy: ChallengePolicy, context: RefusalContext): string {
  const { error } = REFUSALS[reason]
  // Clients of today find this error only in a header that holds one challenge.
  if (error === 'use_dpop_nonce') return challenge('DPoP', [...errorParameters(reason, context), algsOf(policy)])
  return offeredSchemes(policy.mode).map(scheme =>
    challenge(scheme, [
      ...(error && scheme === context.scheme ? errorParameters(reason, context) : []),
      ...(error ? [] : scopeParameter(context)),
      ...(policy.resourceMetadataUrl ? [['resource_metadata', policy.resourceMetadataUrl] as const] : []),
      ...(scheme === 'DPoP' ? [algsOf(policy)] : [])
    ])
  ).join(', ')
}

function errorParameters (reason: RefusalReason, context: RefusalContext): Parameters {
  const { error, description } = REFUSALS[reason]
  return [['error', error!], ['error_description', description], ...neededParameters(reason, context)]
}

/** What the client must request. A missing claim has no parameter, and the scopes would mislead the client. */
function neededParameters (reason: RefusalReason, context: RefusalContext): Parameters {
  if (reason === 'scope_missing') return scopeParameter(context)
  if (REFUSALS[reason].error !== 'insufficient_user_authentication') return []
  const { acr, maxAgeSeconds } = context.requirement
  // RFC 9470 section 3: the whole login that the route needs, whatever was missing, so that one login is enough.
  return [
    ...(acr ? [['acr_values', acr.join(' ')] as const] : []),
    ...(maxAgeSeconds === undefined ? [] : [['max_age', String(maxAgeSeconds)] as const])
  ]
}

/**
 * The scopes of the route (RFC 6750 section 3). A client without a token gets them too, so that it requests all of them
 * at once.
 */
function scopeParameter ({ requirement, guard }: RefusalContext): Parameters {
  const scopes = new Set([...guard ?? [], requirement].flatMap(scopesOf))
  return scopes.size === 0 ? [] : [['scope', [...scopes].join(' ')]]
}

function algsOf ({ algs }: ChallengePolicy): Parameters[number] {
  return ['algs', algs.join(' ')]
}

/**
 * One challenge (RFC 9110 section 11.3). No value holds a quote or a back-slash: each is a fixed text or a setting that
 * was checked before.
 */
function challenge (scheme: AuthScheme, parameters: Parameters): string {
  return parameters.length === 0
    ? scheme
    : `${scheme} ${parameters.map(([name, value]) => `${name}="${value}"`).join(', ')}`
}
