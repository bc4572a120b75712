import type { RevocationEffect, RevocationEntry } from '../entry.ts'
import { issuerOfKey } from '../target.ts'

/**
 * What a part of a record says, by its letter. `c`: a cutoff. `l`: a cutoff of logins too. `C`, `L`: the same of a
 * sender that is not the tokens' own issuer. `e`: an end. `b`, `n`: blocked and enabled. `u`: undone. `s`: news of a
 * stream.
 */
export const KINDS = 'CLbcelnsu'
const KIND_OF: Readonly<Record<RevocationEffect, string>> = {
  cutoff: 'c',
  login: 'l',
  end: 'e',
  block: 'b',
  enable: 'n',
  undo: 'u',
  state: 's'
}

export interface Part {
  readonly kind: string
  /** The moment of the event, in Unix milliseconds. */
  readonly at: number
  /** When it arrived, in seconds of the clock of the store, rounded up. */
  readonly heard: number
  /** Seconds for which it is kept from then on. */
  life: number
  /** The event and its source (see `originOf`), for people. */
  readonly origin: string
}

/** All that stands for a key. Records merge by maximum: order, repeats and races of writers do not matter. */
export interface RevocationRecord {
  /** The sender that named the key first, and when, in Unix seconds. */
  readonly holder: string
  readonly since: number
  /** At most one of a kind, in the order of `KINDS`. */
  readonly parts: readonly Part[]
}

/**
 * How what a sender says is merged. `event`: it counts after each undo so far, and a repeat changes nothing.
 * `operator`: the same, at the later of our clock and the store's. `undo`: after all that stands. `restore`: as it
 * stood.
 */
export type MergeMode = 'event' | 'operator' | 'undo' | 'restore'

/** The clocks at the moment of a merge: seconds of the store's own, and Unix milliseconds. */
interface MergeClocks {
  readonly seconds: number
  readonly unixMs: number
}

const MAX_MOMENT_MS = 99_999_999_999_999
const MAX_TEXT = 500
/** News are needed by instances that start later, whatever the retention. */
const MIN_NEWS_SECONDS = 3600

/** Who a key counts for: an issuer by its name, and any other sender by its name behind a star. */
export function holderOf ({ sender, standing }: Pick<RevocationEntry, 'sender' | 'standing'>): string {
  return standing === 'other' ? `* ${sender}` : sender
}

/** A name as records have it: short if it is the issuer in the key. */
function shortName (name: string, issuer: string | undefined): string {
  if (name === issuer) return ''
  if (name === `${issuer}/`) return '/'
  return Buffer.from(name.slice(0, MAX_TEXT)).toString().replace(/\p{Cc}/gu, ' ')
}

/** A name that a record has shortened. @param issuer the one in the key */
export function fullName (name: string, issuer: string | undefined): string {
  return name === '' ? `${issuer}` : name === '/' ? `${issuer}/` : name
}

/** The event and the source of a part. */
export function originOf ({ origin }: Pick<Part, 'origin'>, key: string): { event: string, source: string } {
  const [event = '', source = ''] = origin.split('\t')
  return { event, source: fullName(source, issuerOfKey(key)) }
}

/**
 * The record of an entry alone.
 * @param heard the seconds of the clock of the store
 */
export function recordOf (
  entry: RevocationEntry,
  { heard, life, now }: Pick<Part, 'heard' | 'life'> & { readonly now: number }
): RevocationRecord {
  const { key, effect, at, event, source } = entry
  const issuer = issuerOfKey(key)
  const isOther = entry.standing !== 'issuer' && (effect === 'cutoff' || effect === 'login')
  return {
    holder: shortName(holderOf(entry), issuer),
    since: Math.floor(now),
    parts: [{
      kind: isOther ? KIND_OF[effect].toUpperCase() : KIND_OF[effect],
      at: Math.max(0, Math.min(Math.round(at * 1000), MAX_MOMENT_MS)),
      heard,
      life: effect === 'state' ? Math.max(life, MIN_NEWS_SECONDS) : life,
      origin: `${event}\t${shortName(source, issuer)}`
    }]
  }
}

/** The part of a kind. */
export function partOf (record: RevocationRecord | undefined, kind: string): Part | undefined {
  return record?.parts.find(part => part.kind === kind)
}

const undoneAt = (record: RevocationRecord) => partOf(record, 'u')?.at ?? -Infinity
const isBefore = (text: string, other: string) => Buffer.compare(Buffer.from(text), Buffer.from(other)) < 0

/** Of two parts of a kind. */
function latest (one: Part, other: Part): Part {
  const isOther = other.at > one.at || (other.at === one.at && isBefore(one.origin, other.origin))
  return {
    ...isOther ? other : one,
    heard: Math.max(one.heard, other.heard),
    life: Math.max(one.life, other.life)
  }
}

/**
 * What two records say together. What was undone in one of them does not count in the other, unless it arrived later.
 * @param isAfter whether the second one counts after each undo
 */
export function mergeRecords (one: RevocationRecord, other: RevocationRecord, isAfter = false): RevocationRecord {
  const undone = Math.max(undoneAt(one), undoneAt(other))
  const undoneHeard = Math.max(...[one, other].map(record => partOf(record, 'u')?.heard ?? -1))
  const byKind = new Map<string, Part>()
  for (const record of [one, other]) {
    const isUndone = undoneAt(record) < undone && !(isAfter && record === other)
    for (const part of record.parts) {
      if (isUndone && part.kind !== 'u' && part.heard <= undoneHeard) continue
      const known = byKind.get(part.kind)
      byKind.set(part.kind, known ? latest(known, part) : part)
    }
  }
  const isFirst = isAfter || one.since < other.since ||
    (one.since === other.since && !isBefore(other.holder, one.holder))
  return {
    holder: isFirst ? one.holder : other.holder,
    since: isFirst ? one.since : other.since,
    parts: [...byKind.values()].sort((a, b) => a.kind < b.kind ? -1 : 1)
  }
}

/** What stands once something is merged into the store. The script `MERGE` does the same. */
export function mergeInto (
  stored: RevocationRecord | undefined,
  given: RevocationRecord,
  mode: MergeMode,
  { seconds, unixMs }: MergeClocks
): RevocationRecord {
  const undone = mode === 'undo' && stored ? stored.parts : []
  const least = mode === 'undo' ? Math.max(unixMs, ...undone.map(({ at }) => at + 1)) : mode === 'operator' ? unixMs : 0
  // What is undone has arrived before, and is over before, however far ahead it is dated.
  const heard = Math.max(0, ...undone.map(part => part.heard))
  const parts = given.parts.map(part =>
    part.kind === 'u' && mode !== 'undo'
      ? part
      : { ...part, at: Math.max(part.at, least), heard: Math.max(part.heard, heard) }
  )
  if (!stored) return { ...given, parts }
  const isAfter = mode === 'event' || mode === 'operator'
  const isKnown = isAfter && undoneAt(given) <= undoneAt(stored)
  const isRepeat = (part: Part) =>
    isKnown && stored.parts.some(({ kind, at, heard, life }) =>
      kind === part.kind && at === part.at && life >= part.life && heard + life > seconds
    )
  return mergeRecords(stored, { ...given, parts: parts.filter(part => !isRepeat(part)) }, isAfter)
}

/** As the store has it. */
export function writeRecord ({ holder, since, parts }: RevocationRecord): string {
  let text = `${holder}\t${since}`
  for (const { kind, at, heard, life, origin } of parts) text += `\n${kind}\t${at}\t${heard}\t${life}\t${origin}`
  return text
}

const ORIGIN = /^[a-z][\w-]{0,63}(?: [\w-]{16})?\t[^\t]{0,600}$/
const MAX_DIGITS = 15
const TAB = 9
const LINE = 10

/**
 * Reads a record. Undefined unless an instance can have written it: others who write to the store must not reach people
 * through it. A million are read at start, so it makes no lists and texts on its way.
 * @param offset what is added to the seconds of the clock of the store
 */
export function readRecord (text: string, offset = 0): RevocationRecord | undefined {
  let place = text.indexOf('\t')
  if (place < 0 || place > 600) return undefined
  const holder = text.slice(0, place)
  const parts: Part[] = []
  const since = readNumber()
  for (let last = ''; place < text.length;) {
    const kind = text.charAt(place + 1)
    const isHead = text.charCodeAt(place) === LINE && KINDS.includes(kind) && kind > last
    place += 2
    const at = readNumber()
    const heard = readNumber()
    const life = readNumber()
    const end = text.indexOf('\n', place)
    const origin = text.slice(place + 1, end < 0 ? undefined : end)
    if (!isHead || !(at + heard + life >= 0) || !ORIGIN.test(origin)) return undefined
    place += origin.length + 1
    parts.push({ kind, at, heard: heard + offset, life, origin })
    last = kind
  }
  return since >= 0 ? { holder, since, parts } : undefined

  /** The number between a tab here and what ends it. NaN if there is none. */
  function readNumber () {
    if (text.charCodeAt(place) !== TAB) return NaN
    const start = place + 1
    let end = start
    let value = 0
    for (; end < text.length; end++) {
      const digit = text.charCodeAt(end) - 48
      if (digit < 0 || digit > 9) break
      value = value * 10 + digit
    }
    place = end
    return end > start && end - start <= MAX_DIGITS ? value : NaN
  }
}

/**
 * Whether a record says nothing any more. A block lives until it is lifted.
 * @param seconds of the clock of the store
 * @param now Unix seconds
 */
export function isRecordOver (record: RevocationRecord, seconds: number, now: number): boolean {
  const enabledAt = partOf(record, 'n')?.at ?? -1
  return record.parts.every(part => isPartOver(part, seconds, now) && (part.kind !== 'b' || enabledAt > part.at))
}

/** Whether the time for which a part is kept is over. Times are as above. */
export function isPartOver ({ heard, life, at }: Part, seconds: number, now: number): boolean {
  return heard + life <= seconds && at / 1000 + life <= now
}
