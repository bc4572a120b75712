import { createBacklog } from './backlog.ts'
import type { RevocationEntry } from './entry.ts'
import { createShares, type SharesOptions } from './shares.ts'
import {
  fullName,
  holderOf,
  isPartOver,
  isRecordOver,
  mergeRecords,
  originOf,
  partOf,
  readRecord,
  writeRecord,
  type Part,
  type RevocationRecord
} from './store/record.ts'
import { claimOfKey, issuerOfKey, type RevocationFacts } from './target.ts'

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
  /** Unix seconds by which what is over is forgotten: see the clock of the store. */
  readonly agreedNow: () => number
  /** Seconds of the clock of the store. */
  readonly seconds: () => number
  /** Called for what is new of the stream of a transmitter. */
  readonly onNews?: (news: Pick<RevocationEntry, 'key' | 'source' | 'event' | 'at'>) => void
}

/** Keys that are looked at for each record that comes, and while there is no room. */
const SWEEP = 4
const FULL_SWEEP = 1000
/** Keys that are compared at once with what the store has shown. Requests must come between. */
const COMPARED = 20_000
/** The kinds in each table: of cutoffs and ends, of blocks, and of what was undone. */
const TABLES = ['CLcel', 'bn', 'u']
const NONE: ReadonlySet<string> = new Set()
const TABLE_OF: Readonly<Record<string, number>> = { block: 1, enable: 1, undo: 2 }
const has = (record: RevocationRecord | undefined, table: number) =>
  record?.parts.some(({ kind }) => TABLES[table]!.includes(kind)) === true

export type View = ReturnType<typeof createView>

/**
 * The view of one process of what has been revoked: the records of its issuers. It forgets one only when it is over, by
 * its own end: the store refuses an event for which there is no room.
 */
export function createView (
  { max, issuers, transmitters = [], lifeSeconds, clockToleranceSeconds, now, agreedNow, seconds, onNews }: ViewOptions
) {
  /** The records as they are written: there may be two million, and few of them are ever asked for. */
  const byKey = new Map<string, string>()
  /** By issuer, without a trailing slash: the claims that its records have named. */
  const claims = new Map<string, Set<string>>()
  const shares = TABLES.map(() => createShares({ max, issuers }))
  /** A name that was hashed before is found in less time. */
  const names = issuers && new Map([...issuers, ...transmitters, '*'].map(name => [name, name]))
  /** Of these, only news are held. */
  const senders = new Set(transmitters.filter(name => issuers?.includes(name) === false))
  const backlog = createBacklog(byKey)
  /**
   * Keys that the store has shown since it is read anew, and those that are not compared with them yet. Undefined if
   * nothing is forgotten for that.
   */
  let anew: { readonly seen: Set<string>, left?: ReturnType<typeof byKey.entries> } | undefined
  /** Not of `byKey` yet: the engine keeps each table that the map has outgrown for an iterator that has not moved. */
  let swept = new Map<string, string>().entries()
  let version = 0

  function recordOf (key: string): RevocationRecord | undefined {
    const text = byKey.get(key)
    return text === undefined ? undefined : readRecord(text)
  }

  function count (record: RevocationRecord, issuer: string | undefined, by: number) {
    const holder = fullName(record.holder, issuer)
    for (const [table, share] of shares.entries()) if (has(record, table)) share.change(holder, by)
  }

  function forget (key: string, text: string) {
    count(readRecord(text)!, issuerOfKey(key), -1)
    byKey.delete(key)
  }

  /**
   * Looks at some of the keys, each time at the next: what is over is found in time that does not depend on how much is
   * kept.
   */
  function sweep (steps: number) {
    const [unixSeconds, ownSeconds] = [agreedNow(), seconds()]
    for (let n = 0; n < steps; n++) {
      const { done, value } = swept.next()
      if (done) {
        swept = byKey.entries()
        return
      }
      const [key, text] = value
      if (isRecordOver(readRecord(text)!, ownSeconds, unixSeconds)) forget(key, text)
    }
  }

  /** What is new of a record, for tokens and for people. */
  function note (key: string, known: RevocationRecord | undefined, merged: RevocationRecord) {
    for (const part of merged.parts) {
      const before = partOf(known, part.kind)
      const isNew = !before || part.at > before.at ||
        (part.heard > before.heard && before.heard + before.life <= seconds())
      if (!isNew && before.origin === part.origin) continue
      version++
      if (part.kind === 's') onNews?.({ ...originOf(part, key), key, at: part.at / 1000 })
    }
  }

  /** What refuses a token that has not expired by our clock. Where that leaps ahead, it ends before its records do. */
  function refusing (
    record: RevocationRecord,
    { issuedAt, loginAt }: RevocationFacts,
    unixSeconds: number
  ): Part | undefined {
    const latest = unixSeconds + clockToleranceSeconds
    const enabledAt = partOf(record, 'n')?.at ?? -1
    return record.parts.find(part => {
      const { kind, at } = part
      // What lifts a block has no effect before its time: the clock of its sender may be wrong.
      if (kind === 'b') return enabledAt <= at || enabledAt / 1000 > latest
      if (!TABLES[0]!.includes(kind) || isPartOver(part, seconds(), unixSeconds)) return false
      const moment = Math.floor(at / 1000) + (kind === 'C' || kind === 'L' ? clockToleranceSeconds : 0)
      const isLater = (time: number) => time <= latest && Math.floor(time) > moment
      // Nothing says that a token without `iat`, or with one in the future, is newer.
      return kind === 'e' || issuedAt === undefined || !isLater(issuedAt) ||
        ((kind === 'l' || kind === 'L') && loginAt !== undefined && !isLater(loginAt))
    })
  }

  return {
    issuers: issuers ?? [],
    lifeSeconds,
    seconds,
    /**
     * Merges what the store says of a key, if any of this service's tokens can have it.
     * @param text the record, as it is written
     * @param call the call that it came by
     * @param isWhole whether it is all that the store has now
     */
    take (key: string, text: string, call: number, isWhole: boolean) {
      const knownText = byKey.get(key)
      anew?.seen.add(key)
      if (knownText === text) return backlog.hear(key, call)
      const named = issuerOfKey(key)
      const issuer = names && named !== undefined ? names.get(named) : named
      if (issuer !== named) return
      const stored = readRecord(text)
      if (!stored || stored.parts.length === 0) return
      if (senders.has(named!) && stored.parts.some(({ kind }) => kind !== 's')) return
      let isLonger = false
      for (const part of stored.parts) {
        // What is over by what others ask for stays over.
        if (part.life >= lifeSeconds || isPartOver(part, seconds(), agreedNow())) continue
        part.life = lifeSeconds
        isLonger = true
      }
      const known = knownText === undefined ? undefined : readRecord(knownText)
      const merged = known ? mergeRecords(known, stored) : stored
      const written = known || isLonger ? writeRecord(merged) : text
      const claim = known ? undefined : claimOfKey(key)
      if (claim !== undefined) claims.set(issuer!, (claims.get(issuer!) ?? new Set()).add(claim))
      note(key, known, merged)
      if (known) {
        count(known, issuer, -1)
        // What was changed last stands last.
        byKey.delete(key)
      }
      count(merged, issuer, 1)
      byKey.set(key, written)
      if (isLonger || (isWhole && written !== text)) backlog.add(key)
      else if (written === text) backlog.hear(key, call)
      if (known || call === 0) sweep(SWEEP)
    },
    /** What this process knows of a key. */
    recordOf,
    /**
     * The claims that records name in the tokens of an issuer, without a trailing slash. Whoever has stored them may
     * have had other settings than this process.
     */
    claimsOf: (issuer: string): ReadonlySet<string> => claims.get(issuer) ?? NONE,
    /** From now on, what came by later calls than this one is said to the store. */
    lose (call: number) {
      anew = undefined
      backlog.lose(call)
    },
    /** The store, which has lost nothing, is read anew. */
    expectAll () {
      anew = backlog.hasSome() ? undefined : { seen: new Set() }
    },
    /**
     * The store was read: what it has not shown is over there, or was lifted and is over. Returns whether all of that
     * is forgotten: each call forgets some of it.
     */
    forgetUnseen (): boolean {
      if (!anew) return true
      // Not earlier: see `swept`.
      anew.left ??= byKey.entries()
      for (let n = 0; n < COMPARED; n++) {
        const { done, value } = anew.left.next()
        if (done) {
          anew = undefined
          return true
        }
        const [key, text] = value
        if (!anew.seen.has(key)) forget(key, text)
      }
      return false
    },
    /** What the store may not know. */
    backlog,
    /**
     * Changes with each record that changes something. A token that was not revoked at one version is not revoked for
     * as long as it stays the same.
     */
    version: (): number => version,
    /**
     * Keeps room for new keys of these entries until what is returned is called: many may be on their way to the store
     * at once. Returns undefined if they do not fit.
     * @param entries of one event: their effect is the same
     */
    reserve (entries: readonly RevocationEntry[]): (() => void) | undefined {
      const { effect } = entries[0]!
      if (effect === 'state') return () => {}
      const table = TABLE_OF[effect] ?? 0
      const share = shares[table]!
      const holders = entries.filter(({ key }) => !has(recordOf(key), table)).map(holderOf)
      const release = () => holders.forEach(holder => share.change(holder, -1))
      const isRoom = () => [...new Set(holders)].every(share.isWithin)
      holders.forEach(holder => share.change(holder, 1))
      if (isRoom()) return release
      sweep(FULL_SWEEP)
      if (isRoom()) return release
      release()
      return undefined
    },
    /** What refuses a token, or undefined if nothing does. Times of tokens are compared in whole seconds. */
    revocationOf (facts: RevocationFacts): Revocation | undefined {
      if (byKey.size === 0) return undefined
      for (const key of facts.keys) {
        const record = recordOf(key)
        const part = record && refusing(record, facts, now())
        if (part) return { ...originOf(part, key), at: Math.floor(part.at / 1000) }
      }
      return undefined
    },
    /** Forgets some of what is over. It is called now and then, so that what is over goes although nothing comes. */
    sweep: () => sweep(FULL_SWEEP),
    /** The number of keys with a cutoff or an end, and of those with a block. */
    size: (): number => shares[0]!.size() + shares[1]!.size()
  }
}
