import { isJsonObject } from '../base/json.ts'
import { findClaim } from '../guard/requirement/judge.ts'
import type { ClaimValue } from '../guard/requirement/requirement.ts'

/** As the settings say what an argument of a tool must be. */
export type ArgumentOption =
  | ClaimValue
  | readonly ClaimValue[]
  | {
    /** The text that it begins with, code unit by code unit. */
    readonly startsWith: string
  }
  | {
    /** The claim of the caller that it equals, or one of whose list. */
    readonly claim: string
  }

/** What a rule asks for one argument of a tool: one of these. */
export interface ArgumentRule {
  readonly name: string
  /** It is one of these. */
  readonly allowed?: readonly ClaimValue[]
  /** It is a text that begins so. */
  readonly startsWith?: string
  /** It is the value of that claim of the caller, or one of its list. */
  readonly claim?: string
}

/** An argument of a call. `value` is undefined where there is none that can fit. */
export interface AskedArgument {
  readonly rule: ArgumentRule
  readonly value: ClaimValue | undefined
}

/**
 * Reads `mcp.arguments` of a rule.
 * @throws TypeError whose message names the argument and what it takes
 */
export function parseArguments (given: unknown): readonly ArgumentRule[] {
  const entries = isJsonObject(given) ? Object.entries(given) : []
  if (entries.length === 0) throw new TypeError('it takes an object with one or more arguments')
  return entries.map(([name, asked]) => {
    if (isJsonObject(asked)) {
      const [[kind, text] = [], ...others] = Object.entries(asked)
      const isKnown = kind === 'startsWith' || kind === 'claim'
      if (isKnown && typeof text === 'string' && text !== '' && others.length === 0) return { name, [kind]: text }
    } else {
      const allowed: unknown[] = [asked].flat()
      if (allowed.length > 0 && allowed.every(isValue)) return { name, allowed }
    }
    throw new TypeError(
      `the argument ${JSON.stringify(name)} takes a text, a number, a boolean, a list of one or more of these, ` +
        '{ startsWith: TEXT } or { claim: NAME }'
    )
  })
}

/** An integer beyond 2^53 is another number after it has been read, and which one depends on the program. */
function isValue (value: unknown): value is ClaimValue {
  return typeof value === 'string' || typeof value === 'boolean' ||
    (Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)))
}

/** Some programs end a text at U+0000, or drop controls, or what they cannot encode: half a surrogate pair. */
export const DROPPED: RegExp = /[\p{Cc}\p{Cs}]/u
/** A segment that leads out of its folder, for these too. Some programs take a backslash for a slash. */
const LEADS_OUT = /(?:^|[/\\\p{Cc}\p{Cs}])\.[\p{Cc}\p{Cs}]*\.(?:$|[/\\\p{Cc}\p{Cs}])/u

/** The same for two names that differ in case only. */
export const inOneCase = (name: string): string => name.toUpperCase().toLowerCase()

/**
 * Takes from a call what its rule asks about, and nothing else: all of its JSON would need much memory.
 * @param given `params.arguments`. It may be anything
 */
export function pickArguments (rules: readonly ArgumentRule[], given: unknown): readonly AskedArgument[] {
  const members = isJsonObject(given) ? given : {}
  const names = Object.keys(members).map(inOneCase)
  const arePlain = !names.some(name => DROPPED.test(name))
  return rules.map(rule => {
    const { name } = rule
    // Some parsers take a member of another case for the one that they look for.
    const isClear = arePlain && Object.hasOwn(members, name) &&
      names.filter(other => other === inOneCase(name)).length === 1
    return { rule, value: isClear && isValue(members[name]) ? members[name] : undefined }
  })
}

/**
 * Whether an argument is what its rule asks for: code unit by code unit, and of the same type.
 * @param claims of the caller. Empty for an anonymous request
 */
export function doesFit ({ rule, value }: AskedArgument, claims: Readonly<Record<string, unknown>>): boolean {
  const { allowed, startsWith, claim } = rule
  if (value === undefined) return false
  if (startsWith !== undefined) {
    if (typeof value !== 'string' || !value.startsWith(startsWith)) return false
    return !startsWith.endsWith('/') || !LEADS_OUT.test(value)
  }
  const wanted: unknown = claim === undefined ? allowed : findClaim(claims, claim)
  return [wanted].flat().includes(value)
}
