import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { Refusal } from '../../refusal.ts'
import type { VerifiedToken } from '../token/verified-tokens.ts'
import type { ScopeGranters } from './implied-scopes.ts'
import type {
  AuthorizationDetail,
  ClaimRule,
  ClaimValue,
  DetailRequirement,
  Requirement
} from './requirement.ts'

/** What is judged of a token. */
type Grant = Pick<VerifiedToken, 'scopes' | 'claims'>

interface JudgeOptions {
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
  return function judge (grant: Grant, requirement: Requirement) {
    const { acr, maxAgeSeconds, scope, anyScope, claims, authorizationDetails } = requirement
    if (acr) verifyAcr(grant, acr)
    if (maxAgeSeconds !== undefined) verifyAge(grant, maxAgeSeconds, options)
    if (scope ?? anyScope) verifyScopes(grant, requirement, options)
    if (!claims && !authorizationDetails) return undefined
    const questions = [
      ...(claims ?? []).map(rule => verifyClaim(grant, rule)),
      ...(authorizationDetails ?? []).map(detail => verifyDetail(grant, detail))
    ].filter(question => question !== undefined)
    return questions.length === 0 ? undefined : ask(questions)
  }
}

function verifyAcr ({ claims }: Grant, acr: readonly string[]) {
  if (typeof claims.acr !== 'string' || !acr.includes(claims.acr)) throw new Refusal('acr_missing')
}

function verifyAge ({ claims }: Grant, maxAgeSeconds: number, { clockToleranceSeconds, now }: JudgeOptions) {
  const { auth_time: time } = claims
  const judgedAt = now()
  const isTime = typeof time === 'number' && time >= 0
  // In whole seconds, as providers write them: otherwise an age of 0 would never be met.
  const isRecent = isTime && time <= judgedAt + clockToleranceSeconds && time >= Math.floor(judgedAt) - maxAgeSeconds
  if (!isRecent) throw new Refusal('authentication_too_old')
}

function verifyScopes ({ scopes }: Grant, { scope, anyScope }: Requirement, { granters }: JudgeOptions) {
  const isMissing = (name: string) => !isScopeGranted(name, scopes, granters)
  const missing = scope?.filter(isMissing) ?? []
  if (anyScope?.every(isMissing)) missing.push(...anyScope)
  if (missing.length > 0) throw new Refusal('scope_missing', { detail: { missing: missing.join(' ') } })
}

/** Whether a token with these scopes counts as having the scope: it has the scope itself, or one that implies it. */
export function isScopeGranted (name: string, scopes: readonly string[], granters: ScopeGranters): boolean {
  return scopes.includes(name) || granters(name).some(granter => scopes.includes(granter))
}

/** A predicate, which must accept one of these parts of a token. */
interface Question {
  /** For the log. */
  readonly about: string
  readonly answers: ReadonlyArray<() => unknown>
  readonly refusal: () => Refusal
}

function verifyClaim ({ claims }: Grant, { name, allowed, isAllowed }: ClaimRule): Question | undefined {
  const claim = findClaim(claims, name)
  const refusal = () => new Refusal('claim_mismatch', { detail: { claim: name } })
  const isMet = claim !== undefined && (!allowed || [claim].flat().some(value => allowed.includes(value as ClaimValue)))
  if (!isMet) throw refusal()
  return isAllowed && { about: `claim ${name}`, answers: [() => isAllowed(claim)], refusal }
}

/**
 * The claim of that name. If there is none, a name with dots is a path into objects: `realm_access.roles`. Members may
 * have dots in their names (`kubernetes.io.namespace`): at each object the longest own member is taken with which the
 * rest begins, whole or up to a dot, with no way back to a shorter one. The path leads through no list. It is undefined
 * if there is no such claim or member: JSON has no such value.
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

function verifyDetail ({ claims }: Grant, { type, check }: DetailRequirement): Question | undefined {
  const parts = detailsOf(claims, type)
  const refusal = () => new Refusal('authorization_details_missing', { detail: { type } })
  if (parts.length === 0) throw refusal()
  return check && { about: `authorization detail ${type}`, answers: parts.map(part => () => check(part)), refusal }
}

/** The elements of that type (RFC 9396 section 2). A claim or an element of another form grants nothing. */
function detailsOf ({ authorization_details: details }: Grant['claims'], type: string): readonly AuthorizationDetail[] {
  return Array.isArray(details)
    ? details.filter(detail => detail !== null && Object.hasOwn(detail, 'type') && detail.type === type)
    : []
}

async function ask (questions: readonly Question[]) {
  for (const question of questions) if (!await isAccepted(question)) throw question.refusal()
}

/**
 * Any value other than `true` refuses: a truthy one may be an unchecked object. An error of a predicate is wrapped,
 * because it may have a status of its own, or be undefined.
 */
async function isAccepted ({ about, answers }: Question): Promise<boolean> {
  try {
    for (const answer of answers) if (await answer() === true) return true
    return false
  } catch (cause) {
    throw new Error(`The predicate for the ${about} failed`, { cause })
  }
}
