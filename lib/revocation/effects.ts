import type { JsonObject } from '../base/json.ts'
import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import type { RevocationEffect, RevocationEntry } from './entry.ts'
import { isStreamStatus, newsEntry, VERIFIED } from './transmitter/stream-news.ts'
import { misunderstood } from './set-error.ts'
import { own, readSubject, type Subject, type SubjectPart, type SubjectRules } from './subject.ts'
import { issuerOfKey, keyOf } from './target.ts'

/** An event of a security event token that was verified. */
export interface SecurityEvent {
  /** The URI of its type. */
  readonly type: string
  readonly event: JsonObject
  /** Of the token: `sub_id`, `toe`, `iat`. */
  readonly claims: JsonObject
}

/**
 * What became of an event: `applied`, or why it has no effect. `unmapped`: nothing in an access token can be compared
 * with its subject. `unmatched`: its subject is of an issuer that this service does not have. `foreign`: its sender may
 * not speak for its subject, or a critical member is not understood. `none`: the event asks for nothing.
 */
export type EventOutcome = 'applied' | 'unmapped' | 'unmatched' | 'foreign' | 'none' | 'unknown' | 'state'

const CAEP = 'https://schemas.openid.net/secevent/caep/event-type/'
const RISC = 'https://schemas.openid.net/secevent/risc/event-type/'
const SSF = 'https://schemas.openid.net/secevent/ssf/event-type/'
export const VERIFICATION = `${SSF}verification`
export const STREAM_UPDATED = `${SSF}stream-updated`

/**
 * What an event asks for. `session`: its session ends, or all sessions of the user. `user`: a cutoff of the user.
 * `device`: one of the device. `block`, `enable`: the user is refused from the one until the other. `state`: news of
 * the stream itself. `none`: nothing.
 */
type Meaning = keyof typeof CHOICES | 'state' | 'none'

/** CAEP 1.0 section 3, RISC 1.0 section 2, SSF 1.0 section 8.1. */
const MEANINGS: Readonly<Record<string, Meaning | ((event: JsonObject) => Meaning)>> = Object.freeze({
  [`${CAEP}session-revoked`]: 'session',
  [`${CAEP}token-claims-change`]: 'user',
  [`${CAEP}credential-change`]: ({ change_type: change }) => change === 'create' ? 'none' : 'user',
  [`${CAEP}assurance-level-change`]: ({ change_direction: direction }) => direction === 'increase' ? 'none' : 'user',
  [`${CAEP}device-compliance-change`]: ({ current_status: status }) => status === 'not-compliant' ? 'device' : 'none',
  [`${RISC}sessions-revoked`]: 'user',
  [`${RISC}credential-compromise`]: 'user',
  [`${RISC}account-credential-change-required`]: 'user',
  [`${RISC}identifier-changed`]: 'user',
  [`${RISC}identifier-recycled`]: 'user',
  [`${RISC}account-disabled`]: 'block',
  [`${RISC}account-purged`]: 'block',
  [`${RISC}account-enabled`]: 'enable',
  [VERIFICATION]: 'state',
  [STREAM_UPDATED]: 'state'
})

/** The event types that are requested of a stream. */
export const KNOWN_EVENT_TYPES: readonly string[] = Object.freeze(Object.keys(MEANINGS))

/** The end of a known type, for people and metrics. The text of an unknown one is the sender's. */
export function eventName (type: string): string {
  return Object.hasOwn(MEANINGS, type) ? type.slice(type.lastIndexOf('/') + 1) : 'unknown'
}

type Choice = readonly [effect: RevocationEffect, ...kinds: ReadonlyArray<SubjectPart['kind']>]

/** Without a user, what is named most closely. A token and a session have no life of their own, so they end. */
const narrowest = (
  effect: RevocationEffect
): readonly Choice[] => [['end', 'token'], ['end', 'session'], [effect, 'device'], [effect, 'other']]
const ALL_SESSIONS: readonly Choice[] = [['login', 'user'], ...narrowest('login')]

/** What is done to which parts of a subject, by what is asked for. The first choice of which it names a part counts. */
const CHOICES = {
  session: [['end', 'session'], ...ALL_SESSIONS],
  user: [['cutoff', 'user'], ...narrowest('cutoff')],
  device: [['cutoff', 'device'], ['cutoff', 'user'], ...narrowest('cutoff')],
  block: [['block', 'user'], ...narrowest('block')],
  enable: [['enable', 'user'], ['enable', 'device'], ['enable', 'other']],
  // Of operators. A session or a token of a user is less than the user.
  revoke: [['end', 'session', 'token'], ['cutoff', 'user', 'other']],
  undo: [['undo', 'session', 'token'], ['undo', 'user', 'other']]
} satisfies Readonly<Record<string, readonly Choice[]>>

/**
 * What an event changes. News of the stream (SSF 1.0 section 8.1) are an entry with effect `state`. There are no
 * entries unless the event is applied, or is news.
 * @param rules of its sender, and the name of its stream
 * @param now Unix seconds
 * @throws SetError if the event cannot be understood
 */
export function effectsOf (
  { type, event, claims }: SecurityEvent,
  rules: SubjectRules & { readonly sender: string, readonly stream: string },
  now: number
): { readonly outcome: EventOutcome, readonly entries: readonly RevocationEntry[] } {
  const { sender, stream } = rules
  const known = own(MEANINGS, type) ?? 'unknown'
  const meaning = typeof known === 'function' ? known(event) : known
  if (meaning === 'unknown' || meaning === 'none') return { outcome: meaning, entries: [] }
  if (meaning === 'state') {
    const news = type === VERIFICATION ? VERIFIED : isStreamStatus(event.status) ? event.status : undefined
    if (news === undefined) return { outcome: meaning, entries: [] }
    const moment = momentOf(event, claims)
    // Of two in one second, the later to arrive counts.
    const at = moment >= Math.floor(now) ? now : moment
    return { outcome: meaning, entries: [newsEntry({ sender, stream, event: news, at })] }
  }
  const at = momentOf(event, claims)
  const subject = readSubject(claims.sub_id ?? event.subject, rules, meaning === 'session')
  if (!subject) return { outcome: 'foreign', entries: [] }
  const entries = entriesAbout(subject, meaning, { at, event: eventName(type), sender })
  return { outcome: entries.length === 0 ? 'unmapped' : 'applied', entries }
}

/** What an event, a logout or an operator changes. Empty if the subject names nothing that can be changed so. */
export function entriesAbout (
  subject: Subject,
  asked: keyof typeof CHOICES,
  facts: EntryFacts
): readonly RevocationEntry[] {
  const isAllSessions = asked === 'session' && subject.some(({ kind, target }) => kind === 'session' && !target)
  for (const [effect, ...kinds] of isAllSessions ? ALL_SESSIONS : CHOICES[asked]) {
    const entries = entriesOf(effect, subject.filter(({ kind }) => kinds.includes(kind)), facts)
    if (entries.length > 0) return entries
  }
  return []
}

/** Values above it are milliseconds: Okta sends them. */
const MAX_SECONDS = 1e11

/**
 * The moment of an event as its sender says: `event_timestamp`, else `toe`, else `iat`, in Unix seconds. One in the
 * future stays there: a clock that runs ahead has made the times of the tokens too, or ours is behind.
 * @throws SetError if one of them is no time
 */
export function momentOf (event: JsonObject, { toe, iat }: JsonObject): number {
  const given = event.event_timestamp ?? toe ?? iat
  if (typeof given !== 'number' || !Number.isFinite(given) || given < 0) {
    throw misunderstood('the time of the event is no time')
  }
  return given > MAX_SECONDS ? given / 1000 : given
}

/** What the entries of one event have in common. */
interface EntryFacts extends Pick<RevocationEntry, 'at' | 'event'> {
  /** The issuer of the event, or of the operator's token. */
  readonly sender: string
  /** The `sub` of the operator, if one has sent it. */
  readonly operator?: string
}

/** The entries that do the same to each part. Targets with the same key make one. */
function entriesOf (
  effect: RevocationEffect,
  parts: Subject,
  { at, event, sender: name, operator }: EntryFacts
): readonly RevocationEntry[] {
  const sender = withoutTrailingSlash(name)
  const keys = new Set(parts.flatMap(({ target }) => target ? [keyOf(target)] : []))
  return [...keys].map(key => {
    const isOwn = (issuerOfKey(key) ?? sender) === sender
    const standing = !isOwn ? 'other' : operator === undefined ? 'issuer' : 'operator'
    return { key, effect, at, event, source: operator ?? name, sender, standing }
  })
}
