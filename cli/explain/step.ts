import type { JsonObject } from '../../lib/base/json.ts'
import type { Examination } from './examination.ts'

/** Thrown by a step that cannot be judged here. The message says why. Later steps can still be judged. */
export class NotChecked extends Error {}

/** The values that a step compared, in the order in which they are shown. */
export type Compared = ReadonlyArray<readonly [label: string, value: string]>

/** What people read of a check. */
export interface StepText {
  /** What holds when the check passes. */
  readonly title: string
  /** What holds when it fails. */
  readonly failed: string
  readonly compared: (examination: Examination) => Compared
}

/** One check of the guard: its own function, with the input that it would get from a live request, and its words. */
export interface Step extends StepText {
  readonly name: string
  /** Whether a request reaches this step, by what is known of it so far. Absent if every request does. */
  readonly applies?: (examination: Examination) => boolean
  /** @throws Refusal, NotChecked */
  readonly run: (examination: Examination) => void | Promise<void>
}

/** @throws NotChecked if an opaque token was not introspected */
export function requireClaims ({ areClaimsUnknown }: Examination): void {
  if (areClaimsUnknown) {
    throw new NotChecked('Only the issuer of an opaque token knows its claims, and it was not asked.')
  }
}

const MAX_CHARACTERS = 600

/** A value as it is shown: text as it is, any other value as JSON, both bounded. */
export function show (value: unknown): string {
  const text = value === undefined ? '(none)' : typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}\u2026 (${text.length} characters)`
}

export function showMembers (object: JsonObject | undefined, names: readonly string[]): Compared {
  return names.map(name => [name, show(object?.[name])])
}

/** Unix seconds as a date, with the distance from the time of judging, which need not be now. */
export function showTime (value: unknown, { options: { now } }: Examination): string {
  if (typeof value !== 'number' || Math.abs(value) > 8.64e12) return show(value)
  const distance = Math.round(value - now)
  return `${value} (${dateOf(value)}, ${distance > 0 ? `${distance} s ahead` : `${Math.abs(distance)} s ago`})`
}

const dateOf = (seconds: number) => new Date(seconds * 1000).toISOString()

/** Members that hold times. */
export function showTimes (object: JsonObject | undefined, names: readonly string[], e: Examination): Compared {
  return names.map(name => [name, showTime(object?.[name], e)])
}

export const tokenClaims = ({ token }: Examination, ...names: string[]) => showMembers(token?.claims, names)
export const tokenTimes = (e: Examination, ...names: string[]) => showTimes(e.token?.claims, names, e)

export const judgedAt = ({ options: { now } }: Examination): Compared[number] =>
  ['judged at', `${now} (${dateOf(now)})`]

/** Whether a text has the form of a JWT. */
export const showForm = (text: string | undefined): Compared => [
  ['characters', show(text?.length)],
  ['segments (3 are needed)', show(text?.split('.').length)]
]
