import type { JsonObject } from '../jose/jws.ts'
import { keyOf } from './entry.ts'
import type { RevocationEffect, RevocationEntry, RevocationTarget } from './entry.ts'
import { eventName, meaningOf, VERIFICATION } from './event-types.ts'
import { readSubject, SubjectError } from './subject.ts'
import type { Subject, SubjectRules } from './subject.ts'

/** An event of a security event token whose signature is right. */
export interface SecurityEvent {
  /** The URI of its type. */
  readonly type: string
  readonly event: JsonObject
  /** Of the token: `sub_id`, `toe`, `iat`. */
  readonly claims: JsonObject
}

/**
 * What became of an event: `applied`, or why it has no effect. `unmapped`: nothing in an access token can be compared with its subject.
 * `foreign`: its sender may not speak for its subject, or a critical member is not understood. `none`: the event asks for nothing.
 */
export type EventOutcome = 'applied' | 'unmapped' | 'foreign' | 'none' | 'unknown' | 'state'

export interface EventEffects {
  readonly outcome: EventOutcome
  /** Empty unless the event is applied. */
  readonly entries: readonly RevocationEntry[]
}

/** Values above it are milliseconds: Okta sends them. */
const MAX_SECONDS = 1e11

/**
 * The moment of an event: `event_timestamp`, else `toe`, else `iat`, in Unix seconds. A moment in the future is now.
 * @throws SubjectError if one of them is no time
 */
export function momentOf (event: JsonObject, { toe, iat }: JsonObject, now: number): number {
  const given = event.event_timestamp ?? toe ?? iat
  if (typeof given !== 'number' || !Number.isFinite(given) || given < 0) throw new SubjectError('the time of the event is no time')
  return Math.min(given > MAX_SECONDS ? given / 1000 : given, now)
}

/**
 * What an event changes.
 * @param now Unix seconds
 * @throws SubjectError if the event cannot be understood
 */
export function effectsOf ({ type, event, claims }: SecurityEvent, rules: SubjectRules, now: number): EventEffects {
  const meaning = meaningOf(type, event)
  if (meaning === undefined || meaning === 'none' || meaning === 'state') return { outcome: meaning ?? 'unknown', entries: [] }
  const at = momentOf(event, claims, now)
  const subject = readSubject(claims.sub_id ?? event.subject, rules, meaning === 'session')
  if (!subject) return { outcome: 'foreign', entries: [] }
  const changes = changesOf(meaning, subject)
  if (changes.length === 0) return { outcome: 'unmapped', entries: [] }
  return { outcome: 'applied', entries: entriesOf(changes, { at, recordedAt: now, event: eventName(type), source: rules.sender }) }
}

const STATUSES: readonly unknown[] = ['enabled', 'paused', 'disabled']

/**
 * What an event says of its stream (SSF 1.0 section 8.1): that it was verified, or its status. Empty for a status that there is not.
 * @param sender as the settings name it
 * @param now Unix seconds
 * @throws SubjectError
 */
export function streamEntries ({ type, event, claims }: SecurityEvent, sender: string, now: number): readonly RevocationEntry[] {
  const news = type === VERIFICATION ? 'verification' : event.status
  if (type !== VERIFICATION && !STATUSES.includes(news)) return []
  return [{ key: `stream ${sender}`, effect: 'state', at: momentOf(event, claims, now), recordedAt: now, event: news as string, source: sender }]
}

/** One thing that is revoked, and how. */
export interface Change {
  readonly effect: RevocationEffect
  readonly target: RevocationTarget
}

/** The entries of changes. Targets with the same key make one. */
export function entriesOf (changes: readonly Change[], common: Omit<RevocationEntry, 'key' | 'effect'>): readonly RevocationEntry[] {
  const byKey = new Map(changes.map(({ effect, target }) => {
    const key = keyOf(target)
    return [`${effect} ${key}`, { key, effect, ...common }]
  }))
  return [...byKey.values()]
}

function changesOf (meaning: 'session' | 'user' | 'device' | 'block' | 'enable', subject: Subject): readonly Change[] {
  const { user, session, token, device, other, isAllSessions } = subject
  if (meaning === 'session') {
    if (session.length > 0 && !isAllSessions) return all('end', session)
    return user.length > 0 ? all('login', user) : narrowest('login')
  }
  if (meaning === 'device' && device.length > 0) return all('cutoff', device)
  const effect = meaning === 'block' || meaning === 'enable' ? meaning : 'cutoff'
  return user.length > 0 ? all(effect, user) : narrowest(effect)

  /** Without a user, what is named most closely. A token and a session have no life of their own, so they end. */
  function narrowest (effect: RevocationEffect): readonly Change[] {
    if (effect === 'enable') return []
    if (token.length > 0) return all('end', token)
    if (session.length > 0) return all('end', session)
    return all(effect, device.length > 0 ? device : other)
  }
}

function all (effect: RevocationEffect, targets: readonly RevocationTarget[]): readonly Change[] {
  return targets.map(target => ({ effect, target }))
}
