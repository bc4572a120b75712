import type { RevocationEntry } from './log.ts'

/** Who said what: many keys share one. */
export type Origin = Pick<RevocationEntry, 'event' | 'source' | 'sender' | 'standing'>

/**
 * What an entry sets, in whole seconds. Of a cutoff: the moments for `iat` and for `auth_time`. Of a block: when it
 * began and ended.
 */
export interface Moments {
  first: number
  second: number
  ended: boolean
}

/** Before any moment. A small integer needs no object of its own, as -Infinity does. */
export const NEVER = -1

/**
 * What was merged of the entries for a key. There may be a million, so times are whole seconds, which need no objects
 * of their own.
 */
export interface Merged extends Moments {
  /** Of the event that is shown, and its moment. */
  origin: Origin
  at: number
  /** The sender that named the key first. */
  readonly holder: Holder
  /** Seconds of a clock that is never set. */
  learnedAt: number
  /** The place in the log of the newest entry that says anything new, or all. */
  place: number
}

export interface SharesOptions {
  /** Maximum number of keys in the table. */
  readonly max: number
  /**
   * The token issuers, without a trailing slash. Undefined if the application keeps the list: then those that hold a
   * key count.
   */
  readonly issuers: readonly string[] | undefined
}

export interface MergedTableOptions extends SharesOptions {
  readonly isOver: (merged: Merged) => boolean
}

const MAX_ORIGINS = 1000
/** Keys that are looked at while there is no room. */
export const FULL_SWEEP = 10_000

const isNewer = (moments: Moments, merged: Moments): boolean =>
  moments.first > merged.first || moments.second > merged.second || (moments.ended && !merged.ended)

/** What is known of the keys of one kind. Moments merge by maximum, so repeats and any order are harmless. */
export function createMergedTable ({ max, issuers, isOver }: MergedTableOptions) {
  const byKey = new Map<string, Merged>()
  const shares = createShares({ max, issuers })
  const origins = new Map<string, Origin>()
  let swept = byKey.entries()
  let last: Origin = { event: '', source: '', sender: '', standing: 'other' }

  function originOf ({ event, source, sender, standing }: RevocationEntry): Origin {
    // Many in a row are of one sender.
    if (event === last.event && source === last.source && sender === last.sender && standing === last.standing) {
      return last
    }
    const name = JSON.stringify([event, source, sender, standing])
    last = origins.get(name) ?? { event, source, sender, standing }
    if (origins.size >= MAX_ORIGINS) origins.clear()
    origins.set(name, last)
    return last
  }

  function create (entry: RevocationEntry): Merged {
    const origin = originOf(entry)
    // In one literal: one that began with a spread would take twice the memory.
    const merged: Merged = {
      origin,
      at: NEVER,
      // Of the origin: each entry of the log has texts of its own.
      holder: holderOf(origin),
      learnedAt: NEVER,
      place: NEVER,
      first: NEVER,
      second: NEVER,
      ended: false
    }
    byKey.set(entry.key, merged)
    shares.change(merged.holder, 1)
    return merged
  }

  function remove (key: string): boolean {
    const merged = byKey.get(key)
    if (!merged) return false
    shares.change(merged.holder, -1)
    // Whoever was about to write it again finds it at no place.
    merged.place = Infinity
    return byKey.delete(key)
  }

  /**
   * Looks at some of the keys, each time at the next: what is over is found in time that does not depend on how much is
   * kept.
   */
  function sweep (steps: number): void {
    for (let n = 0; n < steps; n++) {
      const { done, value } = swept.next()
      if (done) {
        swept = byKey.entries()
        return
      }
      if (isOver(value[1])) remove(value[0])
    }
  }

  return {
    get: (key: string): Merged | undefined => byKey.get(key),
    remove,
    /** Whether moments would change what is known. */
    isChange (key: string, moments: Moments): boolean {
      const merged = byKey.get(key)
      return !merged || isNewer(moments, merged)
    },
    /** Merges an entry. Returns whether it has changed anything that tokens are judged by. */
    merge (entry: RevocationEntry, moments: Moments, learnedAt: number, place: number): boolean {
      const merged = byKey.get(entry.key) ?? create(entry)
      const { first, second, ended } = moments
      const isChange = isNewer(moments, merged)
      const at = Math.floor(entry.at)
      // What lifts a block is not shown.
      if (at > merged.at && entry.effect !== 'enable') {
        merged.origin = originOf(entry)
        merged.at = at
      }
      merged.first = Math.max(merged.first, first)
      merged.second = Math.max(merged.second, second)
      merged.ended ||= ended
      merged.learnedAt = Math.max(merged.learnedAt, learnedAt)
      if (isChange) merged.place = place
      else if (merged.ended ? ended : merged.first === first && merged.second === second) {
        merged.place = Math.max(merged.place, place)
      }
      return isChange
    },
    sweep,
    /**
     * Keeps room for the new keys of these entries, in the table and in the part of each sender, until what is returned
     * is called. Undefined if they do not fit.
     */
    reserve (entries: readonly RevocationEntry[]): (() => void) | undefined {
      const holders = entries.filter(({ key }) => !byKey.has(key)).map(holderOf)
      const release = (): void => holders.forEach(holder => shares.change(holder, -1))
      const isRoom = (): boolean => [...new Set(holders)].every(shares.isWithin)
      holders.forEach(holder => shares.change(holder, 1))
      if (isRoom()) return release
      sweep(FULL_SWEEP)
      if (isRoom()) return release
      release()
      return undefined
    },
    entries: (): IterableIterator<[string, Merged]> => byKey.entries(),
    size: (): number => byKey.size
  }
}

/** Who a key counts for: an issuer by its name, and any other sender by its name behind a star. */
type Holder = string

const OTHER = '* '

/** Whose part the key of an entry takes. */
function holderOf ({ sender, standing }: Pick<RevocationEntry, 'sender' | 'standing'>): Holder {
  return standing === 'other' ? OTHER + sender : sender
}

/**
 * Divides the room of a table among senders that do not trust each other: one half is kept for the issuers in equal
 * parts, the other is whoever's that needs it. A sender that is not the tokens' own issuer takes at most a quarter of
 * the table, out of that other half.
 */
function createShares ({ max, issuers }: SharesOptions) {
  /** The number of keys of each. */
  const counts = new Map<Holder, number>()
  const known = issuers && new Set(issuers)
  /** Of an issuer that was taken out of the settings, keys may be left. */
  const isIssuer = (holder: Holder): boolean => known ? known.has(holder) : !holder.startsWith(OTHER)
  const half = max / 2

  return {
    change (holder: Holder, by: number): void {
      const count = (counts.get(holder) ?? 0) + by
      if (count === 0) counts.delete(holder)
      else counts.set(holder, count)
    },
    /** Whether what a holder has is within its part, or there is room for the rest of it. */
    isWithin (holder: Holder): boolean {
      const own = counts.get(holder)!
      const part = half / (known?.size ?? [...counts.keys()].filter(isIssuer).length)
      if (isIssuer(holder) && own <= part) return true
      if (!isIssuer(holder) && own > max / 4) return false
      let beyond = 0
      for (const [other, count] of counts) beyond += isIssuer(other) ? Math.max(0, count - part) : count
      return beyond <= half
    }
  }
}
