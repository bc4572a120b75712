import type { RevocationEntry } from './entry.ts'
import { createShares } from './shares.ts'
import type { SharesOptions } from './shares.ts'
import { fullName, holderOf, issuerOfKey, KINDS, mergeRecords, originOf } from './store/record.ts'
import type { Part, RevocationRecord } from './store/record.ts'
import type { RevocationFacts } from './target.ts'

/** What refuses a token, for people. */
export interface Revocation {
  readonly event: string
  readonly source: string
  /** Unix seconds. */
  readonly at: number
}

export interface ViewOptions extends SharesOptions {
  /** The transmitters whose news are held. */
  readonly transmitters?: readonly string[]
  /** Seconds for which cutoffs and ends are kept: the retention and twice the tolerance. Blocks live until lifted. */
  readonly lifeSeconds: number
  /**
   * Seconds by which clocks may differ: they are added to the moment of a sender that is not the tokens' own issuer.
   */
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
  /** Milliseconds of a clock that is never set. */
  readonly steadyMs: () => number
  /** Seconds of the clock of the store. */
  readonly seconds: () => number
  /** Called for what is new of the stream of a transmitter. */
  readonly onNews?: (news: Pick<RevocationEntry, 'source' | 'event' | 'at'>) => void
}

/**
 * A part of a record. There may be two million, so its fields are small integers, which need no objects of their own:
 * the number of its kind and the milliseconds of its moment are one.
 */
interface Segment {
  readonly code: number
  readonly second: number
  readonly heard: number
  readonly life: number
  readonly origin: string
  readonly next: Segment | undefined
}

/** A record, with its first part. */
interface Held extends Segment {
  readonly holder: string
  readonly since: number
  /** The call by which the store is known to have it. */
  call: number
}

/** That the store is not known to have it. */
const UNSAID = 2 ** 30
const numberOf = (kind: string): number => KINDS.indexOf(kind)
const [OTHERS_CUTOFF, OTHERS_LOGIN, CUTOFF, LOGIN] = ['C', 'L', 'c', 'l'].map(numberOf) as
  [number, number, number, number]
const [BLOCKED, ENABLED, ENDED, UNDONE, NEWS] = ['b', 'n', 'e', 'u', 's'].map(numberOf) as
  [number, number, number, number, number]
const SPAN = 16
/** Keys that are looked at for each record that comes, and while there is no room. */
const SWEEP = 4
const FULL_SWEEP = 10_000
const MAX_ORIGINS = 1000
/** The tables: of cutoffs and ends, of blocks, and of what was undone. */
const isIn = [
  (kind: number) => kind !== BLOCKED && kind !== ENABLED && kind !== UNDONE && kind !== NEWS,
  (kind: number) => kind === BLOCKED || kind === ENABLED,
  (kind: number) => kind === UNDONE
] as const
const TABLE_OF: Readonly<Record<string, number>> = { block: 1, enable: 1, undo: 2 }

export type View = ReturnType<typeof createView>

/**
 * The view of one process of what has been revoked: the records of its issuers. It forgets one only when it is over, by
 * its own end: the store refuses an event for which there is no room.
 */
export function createView (
  { max, issuers, transmitters = [], lifeSeconds, clockToleranceSeconds, now, steadyMs, seconds, onNews }: ViewOptions
) {
  const byKey = new Map<string, Held>()
  const shares = isIn.map(() => createShares({ max, issuers }))
  const names = issuers && new Set([...issuers, ...transmitters, '*'])
  const interned = new Map<string, string>()
  /** Keys of which the store may know less, the newest last. */
  let unsaid: string[] = []
  let swept = byKey.entries()
  let version = 0
  /** What the system's clock showed first: while it leaps ahead, nothing is forgotten. */
  const first = { now: now(), steadyMs: steadyMs() }
  const earliestNow = (): number => Math.min(now(), first.now + (steadyMs() - first.steadyMs) / 1000)

  /** Each record of the store has texts of its own. */
  function intern (text: string): string {
    const known = interned.get(text)
    if (known !== undefined) return known
    if (interned.size >= MAX_ORIGINS) interned.clear()
    interned.set(text, text)
    return text
  }

  function recordOf (held: Held): RevocationRecord {
    const parts: Part[] = []
    for (let part: Segment | undefined = held; part; part = part.next) {
      const { code, second, heard, life, origin } = part
      parts.push({
        kind: KINDS[code % SPAN]!,
        at: second * 1000 + Math.floor(code / SPAN),
        heard,
        life,
        origin
      })
    }
    return { holder: held.holder, since: held.since, parts }
  }

  function segmentOf ({ kind, at, heard, life, origin }: Part, next: Segment | undefined): Segment {
    const second = Math.floor(at / 1000)
    return {
      code: numberOf(kind) + (at - second * 1000) * SPAN,
      second,
      heard,
      life,
      origin: intern(origin),
      next
    }
  }

  function heldOf ({ holder, since, parts }: RevocationRecord, call: number): Held {
    let next: Segment | undefined
    for (let n = parts.length - 1; n > 0; n--) next = segmentOf(parts[n]!, next)
    const { code, second, heard, life, origin } = segmentOf(parts[0]!, next)
    // In one literal: one that began with a spread would take twice the memory.
    return { code, second, heard, life, origin, next, holder: intern(holder), since, call }
  }

  function has (held: Held | undefined, table: number): boolean {
    for (let part: Segment | undefined = held; part; part = part.next) if (isIn[table]!(part.code % SPAN)) return true
    return false
  }

  function count (key: string, held: Held | undefined, by: number): void {
    if (!held) return
    shares.forEach((each, table) => {
      if (has(held, table)) each.change(fullName(held.holder, key), by)
    })
  }

  function set (key: string, held: Held | undefined): void {
    const known = byKey.get(key)
    if (!known || !held || known.holder !== held.holder || known.next || held.next || known.code !== held.code) {
      count(key, known, -1)
      count(key, held, 1)
    }
    // What was changed last stands last.
    if (known) byKey.delete(key)
    if (held) byKey.set(key, held)
  }

  const find = (held: Segment | undefined, kind: number): Segment | undefined => {
    for (let part = held; part; part = part.next) if (part.code % SPAN === kind) return part
    return undefined
  }
  const momentOf = ({ second, code }: Segment): number => second * 1000 + Math.floor(code / SPAN)
  const isLifted = (held: Held): boolean => {
    const [blocked, enabled] = [find(held, BLOCKED), find(held, ENABLED)]
    return !blocked || (enabled !== undefined && momentOf(enabled) > momentOf(blocked))
  }
  const isOver = (part: Segment, unixSeconds: number): boolean =>
    part.heard + part.life <= seconds() && momentOf(part) / 1000 + part.life <= unixSeconds

  /**
   * Looks at some of the keys, each time at the next: what is over is found in time that does not depend on how much is
   * kept.
   */
  function sweep (steps: number): void {
    const unixSeconds = earliestNow()
    for (let n = 0; n < steps; n++) {
      const { done, value } = swept.next()
      if (done) {
        swept = byKey.entries()
        return
      }
      const [key, held] = value
      let part: Segment | undefined = held
      while (part && isOver(part, unixSeconds)) part = part.next
      if (!part && isLifted(held)) set(key, undefined)
    }
  }

  /** What is new of a record, for tokens and for people. */
  function note (key: string, known: RevocationRecord | undefined, merged: RevocationRecord): void {
    for (const part of merged.parts) {
      const before = known?.parts.find(({ kind }) => kind === part.kind)
      const isNew = !before || part.at > before.at ||
        (part.heard > before.heard && before.heard + before.life <= seconds())
      if (!isNew && before.origin === part.origin) continue
      version++
      if (part.kind === 's') onNews?.({ ...originOf(part, key), at: part.at / 1000 })
    }
  }

  /** What refuses a token. @param latest the last `iat` or `auth_time` that a right clock can have given */
  function refusing (held: Held, { issuedAt, loginAt }: RevocationFacts, latest: number): Segment | undefined {
    for (let part: Segment | undefined = held; part; part = part.next) {
      const kind = part.code % SPAN
      if (kind === BLOCKED) {
        const enabled = find(held, ENABLED)
        // What lifts a block has no effect before its time: the clock of its sender may be wrong.
        if (!enabled || momentOf(enabled) <= momentOf(part) || momentOf(enabled) / 1000 > latest) return part
      }
      const isLogin = kind === LOGIN || kind === OTHERS_LOGIN
      if (kind !== ENDED && kind !== CUTOFF && kind !== OTHERS_CUTOFF && !isLogin) continue
      if (isOver(part, earliestNow())) continue
      if (kind === ENDED) return part
      const moment = part.second + (kind === OTHERS_CUTOFF || kind === OTHERS_LOGIN ? clockToleranceSeconds : 0)
      // Nothing says that a token without `iat`, or with one in the future, is newer.
      if (issuedAt === undefined || issuedAt > latest || Math.floor(issuedAt) <= moment) return part
      if (isLogin && loginAt !== undefined && (loginAt > latest || Math.floor(loginAt) <= moment)) return part
    }
    return undefined
  }

  return {
    issuers: issuers ?? [],
    lifeSeconds,
    seconds,
    /**
     * Merges what the store says of a key, if any of this service's tokens can have it.
     * @param call the call that it came by
     * @param isWhole whether it is all that the store has now
     */
    take (key: string, stored: RevocationRecord, call: number, isWhole: boolean): void {
      const issuer = issuerOfKey(key)
      if (stored.parts.length === 0 || (names && issuer !== undefined && !names.has(issuer))) return
      const known = byKey.get(key)
      if (!known && stored.parts.every(part => part.life >= lifeSeconds)) {
        note(key, undefined, stored)
        set(key, heldOf(stored, call))
        return
      }
      const before = known && recordOf(known)
      // What is over by what others ask for stays over.
      const longer = stored.parts.map(part =>
        part.life >= lifeSeconds || part.heard + part.life <= seconds() ? part : { ...part, life: lifeSeconds }
      )
      const isLonger = longer.some((part, n) => part !== stored.parts[n])
      const merged = before
        ? mergeRecords(before, { ...stored, parts: longer })
        : isLonger ? { ...stored, parts: longer } : stored
      const isMore = isLonger || (isWhole && before !== undefined && !isSame(merged, stored))
      const held = heldOf(merged, isMore ? UNSAID : call)
      if (!isMore && known && !isSame(merged, stored)) held.call = known.call
      note(key, before, merged)
      set(key, held)
      if (isMore) unsaid.push(key)
      sweep(SWEEP)
    },
    /** What this process knows of a key. */
    recordOf: (key: string): RevocationRecord | undefined => {
      const held = byKey.get(key)
      return held && recordOf(held)
    },
    /** From now on, what came by later calls than this one is said to the store. */
    lose (call: number): void {
      unsaid = []
      for (const [key, held] of byKey) {
        if (held.call <= call) continue
        held.call = UNSAID
        unsaid.push(key)
      }
    },
    hasUnsaid: (): boolean => unsaid.length > 0,
    /** What the store may not know, the newest first. It is taken to know it once it has answered. */
    unsaid (limit: number): Array<readonly [key: string, record: RevocationRecord]> {
      const found: Array<readonly [string, RevocationRecord]> = []
      while (found.length < limit && unsaid.length > 0) {
        const key = unsaid.pop()!
        const held = byKey.get(key)
        if (held?.call === UNSAID) found.push([key, recordOf(held)])
      }
      return found
    },
    /** The store has what was said, or has not. */
    said (keys: readonly string[], call: number | undefined): void {
      if (call === undefined) unsaid.push(...keys)
      else for (const key of keys) { const held = byKey.get(key); if (held) held.call = call }
    },
    /**
     * Changes with each record that changes something. A token that was not revoked at one version is not revoked for
     * as long as it stays the same.
     */
    version: (): number => version,
    /**
     * Keeps room for new keys of these entries until what is returned is called: many may be on their way to the store
     * at once. Undefined if they do not fit.
     * @param entries of one event: their effect is the same
     */
    reserve (entries: readonly RevocationEntry[]): (() => void) | undefined {
      const { effect } = entries[0]!
      if (effect === 'state') return () => {}
      const table = TABLE_OF[effect] ?? 0
      const share = shares[table]!
      const holders = entries.filter(({ key }) => !has(byKey.get(key), table)).map(holderOf)
      const release = (): void => holders.forEach(holder => share.change(holder, -1))
      const isRoom = (): boolean => [...new Set(holders)].every(share.isWithin)
      holders.forEach(holder => share.change(holder, 1))
      if (isRoom()) return release
      sweep(FULL_SWEEP)
      if (isRoom()) return release
      release()
      return undefined
    },
    /** What refuses a token. Undefined if nothing does. Times of tokens are compared in whole seconds. */
    revocationOf (facts: RevocationFacts): Revocation | undefined {
      if (byKey.size === 0) return undefined
      const latest = now() + clockToleranceSeconds
      for (const key of facts.keys) {
        const held = byKey.get(key)
        const part = held && refusing(held, facts, latest)
        if (part) return { ...originOf(part, key), at: part.second }
      }
      return undefined
    },
    /** Forgets some of what is over. It is called now and then, so that what is over goes although nothing comes. */
    sweep: (): void => sweep(FULL_SWEEP / 10),
    /** A time that is not ahead of the right one, though the system's clock leaps. Unix seconds. */
    earliestNow,
    /** The number of keys with a cutoff or an end, and of those with a block. */
    size: (): number => shares[0]!.size() + shares[1]!.size()
  }
}

function isSame (one: RevocationRecord, other: RevocationRecord): boolean {
  return one.holder === other.holder && one.since === other.since && one.parts.length === other.parts.length &&
    one.parts.every((part, n) => {
      const { kind, at, heard, life, origin } = other.parts[n]!
      return part.kind === kind && part.at === at && part.heard === heard && part.life === life &&
        part.origin === origin
    })
}
