import { isJsonObject } from '../json.ts'
import type { JsonObject } from '../json.ts'
import { Refusal } from '../refusal.ts'
import type { VerifiedToken } from '../token/verified-tokens.ts'
import type { ScopeGranters } from './implied-scopes.ts'
import type {
  AuthorizationDetail,
  ClaimRule,
  ClaimValue,
  DetailRequirement,
  Predicate,
  Requirement
} from './requirement.ts'

/** What is judged of a token. */
export type Grant = Pick<VerifiedToken, 'scopes' | 'claims'>

export interface JudgeOptions {
  readonly granters: ScopeGranters
  /** Seconds by which clocks may differ: an `auth_time` may be that far in the future. */
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
}

export type Judge = ReturnType<typeof createJudge>

/**
 * Step-up (401, RFC 9470) takes precedence over 403. Predicates are called last, in the order in which they are
 * written.
 */
export function createJudge (options: JudgeOptions) {
  /**
   * Decides whether a token meets a requirement. Returns a promise only if the requirement holds a predicate.
   * @throws Refusal acr_missing, authentication_too_old, scope_missing, claim_mismatch, authorization_details_missing
   */
  return function judge (grant: Grant, requirement: Requirement): Promise<void> | undefined {
    const { acr, maxAgeSeconds, scope, anyScope, claims, authorizationDetails } = requirement
    if (acr) verifyAcr(grant, acr)
    if (maxAgeSeconds !== undefined) verifyAge(grant, maxAgeSeconds, options)
    if (scope ?? anyScope) verifyScopes(grant, requirement, options)
    if (claims) { for (const rule of claims) verifyClaim(grant, rule) }
    if (authorizationDetails) { for (const detail of authorizationDetails) verifyDetail(grant, detail) }
    return needsPredicates(requirement) ? callPredicates(grant, requirement) : undefined
  }
}

function verifyAcr ({ claims }: Grant, acr: readonly string[]): void {
  if (typeof claims.acr !== 'string' || !acr.includes(claims.acr)) throw new Refusal('acr_missing')
}

function verifyAge ({ claims }: Grant, maxAgeSeconds: number, { clockToleranceSeconds, now }: JudgeOptions): void {
  const { auth_time: time } = claims
  const judgedAt = now()
  const isTime = typeof time === 'number' && time >= 0
  // In whole seconds, as providers write them: otherwise an age of 0 would never be met.
  const isRecent = isTime && time <= judgedAt + clockToleranceSeconds && time >= Math.floor(judgedAt) - maxAgeSeconds
  if (!isRecent) throw new Refusal('authentication_too_old')
}

function verifyScopes ({ scopes }: Grant, { scope, anyScope }: Requirement, { granters }: JudgeOptions): void {
  const isGranted = (name: string): boolean => isScopeGranted(name, scopes, granters)
  if (scope && !scope.every(isGranted)) throw new Refusal('scope_missing')
  if (anyScope && !anyScope.some(isGranted)) throw new Refusal('scope_missing')
}

/** Whether a token with these scopes counts as having the scope: it has the scope itself, or one that implies it. */
export function isScopeGranted (name: string, scopes: readonly string[], granters: ScopeGranters): boolean {
  return scopes.includes(name) || granters(name).some(granter => scopes.includes(granter))
}

function verifyClaim ({ claims }: Grant, { name, allowed }: ClaimRule): void {
  const claim = findClaim(claims, name)
  const isMet = claim !== undefined && (!allowed || [claim].flat().some(value => allowed.includes(value as ClaimValue)))
  if (!isMet) throw new Refusal('claim_mismatch', { detail: { claim: name } })
}

/**
 * The claim of that name. If there is none, a name with dots is a path into objects: `realm_access.roles`. Members may
 * have dots in their names (`kubernetes.io.namespace`): at each object the longest own member is taken with which the
 * rest begins, whole or up to a dot, with no way back to a shorter one. The path leads through no list. Undefined if
 * there is no such claim or member: JSON has no such value.
 */
export function findClaim (claims: Readonly<Record<string, unknown>>, name: string): unknown {
  let part: unknown = claims
  let rest: string | undefined = name
  while (rest !== undefined) {
    const member: string | undefined = isJsonObject(part) ? longestMember(part, rest) : undefined
    if (member === undefined) return undefined
    part = (part as JsonObject)[member]
    rest = member.length === rest.length ? undefined : rest.slice(member.length + 1)
  }
  return part
}

/** Names such as __proto__ must not find what every object inherits. */
function longestMember (object: JsonObject, name: string): string | undefined {
  let end = name.length
  while (end !== -1 && !Object.hasOwn(object, name.slice(0, end))) end = end === 0 ? -1 : name.lastIndexOf('.', end - 1)
  return end === -1 ? undefined : name.slice(0, end)
}

function verifyDetail ({ claims }: Grant, { type }: DetailRequirement): void {
  if (detailsOf(claims, type).length === 0) throw new Refusal('authorization_details_missing', { detail: { type } })
}

/** The elements of that type (RFC 9396 section 2). A claim or an element of another form grants nothing. */
function detailsOf ({ authorization_details: details }: Grant['claims'], type: string): readonly AuthorizationDetail[] {
  return Array.isArray(details)
    ? details.filter(detail => detail !== null && Object.hasOwn(detail, 'type') && detail.type === type)
    : []
}

function needsPredicates ({ claims, authorizationDetails }: Requirement): boolean {
  return claims?.some(({ isAllowed }) => isAllowed) === true ||
    authorizationDetails?.some(({ check }) => check) === true
}

async function callPredicates ({ claims }: Grant, requirement: Requirement): Promise<void> {
  for (const { name, isAllowed } of requirement.claims ?? []) {
    if (isAllowed && !await accepts(`claim ${name}`, isAllowed, findClaim(claims, name))) {
      throw new Refusal('claim_mismatch', { detail: { claim: name } })
    }
  }
  for (const { type, check } of requirement.authorizationDetails ?? []) {
    if (check && !await anyPasses(check, type, detailsOf(claims, type))) {
      throw new Refusal('authorization_details_missing', { detail: { type } })
    }
  }
}

async function anyPasses (
  check: Predicate<AuthorizationDetail>,
  type: string,
  details: readonly AuthorizationDetail[]
): Promise<boolean> {
  for (const detail of details) if (await accepts(`authorization detail ${type}`, check, detail)) return true
  return false
}

/**
 * Any value other than `true` refuses: a truthy one may be an unchecked object. An error of a predicate is wrapped,
 * because it may have a status of its own, or be undefined.
 */
async function accepts<Part> (name: string, predicate: Predicate<Part>, part: Part): Promise<boolean> {
  try {
    return await predicate(part) === true
  } catch (cause) {
    throw new Error(`The predicate for the ${name} failed`, { cause })
  }
}
