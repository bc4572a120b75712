import type { RevocationEffect, RevocationEntry } from './log.ts'
import { createMergedTable, FULL_SWEEP, NEVER } from './merged-table.ts'
import type { Merged, Moments, Origin, SharesOptions } from './merged-table.ts'
import type { RevocationFacts } from './target.ts'

/** What refuses a token, for people. */
export interface Revocation {
  readonly event: string
  readonly source: string
  /** Unix seconds. */
  readonly at: number
}

export interface CutoffsOptions extends SharesOptions {
  /** Seconds for which a cutoff is kept. A block is kept until it is lifted. */
  readonly retentionSeconds: number
  /**
   * Seconds by which clocks may differ: they are added to the moment of a sender that is not the tokens' own issuer.
   */
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
  /** Milliseconds of a clock that is never set: by it cutoffs are forgotten. */
  readonly steadyMs: () => number
}

/** What stands for a key, as the one entry that says it all. */
export interface Held {
  readonly entry: RevocationEntry
  readonly ageSeconds: number
  /** The log sets the place once it has written the entry again. */
  readonly merged: Pick<Merged, 'place'>
}

type Said = Pick<RevocationEntry, 'effect' | 'at' | 'also'>

/** Streams whose news are kept. There are as many as transmitters. */
const MAX_NEWS = 1000
/** Keys that are looked at for each entry. */
const SWEEP = 4

export type Cutoffs = ReturnType<typeof createCutoffs>

/**
 * The view of one process of what has been revoked: entries are applied in the order of the log. It never forgets a
 * cutoff that a live token could meet, whatever a clock says: the log refuses an event for which there is no room.
 */
export function createCutoffs (
  { max, issuers, retentionSeconds, clockToleranceSeconds, now, steadyMs }: CutoffsOptions
) {
  /** A cutoff that changes nothing is stored again only if it would outlive the first by more. */
  const renewSeconds = Math.min(60, retentionSeconds / 10)
  const lifeSeconds = retentionSeconds + renewSeconds
  const ageOf = ({ learnedAt }: Pick<Merged, 'learnedAt'>): number => steadyMs() / 1000 - learnedAt
  const isOld = (merged: Merged): boolean => ageOf(merged) >= lifeSeconds
  const marks = createMergedTable({ max, issuers, isOver: isOld })
  // A block that was lifted is kept as long as a cutoff, for events that come late.
  const blocks = createMergedTable({ max, issuers, isOver: block => block.second > block.first && isOld(block) })
  const news = new Map<string, Held>()
  let version = 0

  const tables = [marks, blocks]
  /** Undefined for what is kept in neither. */
  const tableOf = (effect: RevocationEffect): typeof marks | undefined =>
    effect === 'block' || effect === 'enable' ? blocks : effect === 'undo' || effect === 'state' ? undefined : marks
  /** What is added to the moments of a sender. Those of blocks are compared with each other, so nothing is added. */
  const toleranceOf = ({ standing }: Pick<Origin, 'standing'>, table: typeof marks | undefined): number =>
    standing === 'issuer' || table === blocks ? 0 : clockToleranceSeconds

  function momentsOf (entry: RevocationEntry): Moments {
    const { effect, also } = entry
    if (effect === 'end') return { first: NEVER, second: NEVER, ended: true }
    const tolerance = toleranceOf(entry, tableOf(effect))
    const moment = Math.floor(entry.at) + tolerance
    if (effect === 'enable') return { first: NEVER, second: moment, ended: false }
    const second = effect === 'login' ? moment : also === undefined ? NEVER : also + tolerance
    return { first: moment, second, ended: false }
  }

  /** What stands for a key in a table. */
  function heldIn (table: typeof marks, key: string, merged = table.get(key)): Held | undefined {
    if (!merged || (table === marks && isOld(merged))) return undefined
    const ageSeconds = ageOf(merged)
    const recordedAt = Math.floor(now() - ageSeconds)
    return { entry: { key, ...saidBy(table, merged), recordedAt, ...merged.origin }, ageSeconds, merged }
  }

  function saidBy (table: typeof marks, { origin, at, first, second, ended }: Merged): Said {
    if (ended) return { effect: 'end', at }
    if (first === NEVER) return { effect: 'enable', at: second }
    const tolerance = toleranceOf(origin, table)
    if (table === marks && first === second) return { effect: 'login', at: first - tolerance }
    return {
      effect: table === marks ? 'cutoff' : 'block',
      at: first - tolerance,
      ...second !== NEVER && { also: second - tolerance }
    }
  }

  /** @param latest the last `iat` that a right clock can have given */
  function isRefused (
    { first, second, ended }: Merged,
    { issuedAt, loginAt }: RevocationFacts,
    latest: number
  ): boolean {
    if (ended) return true
    // Nothing says that a token without `iat`, or with one in the future, is newer.
    if (first !== NEVER && (issuedAt === undefined || issuedAt > latest || Math.floor(issuedAt) <= first)) return true
    return loginAt !== undefined && Math.floor(loginAt) <= second
  }

  return {
    /**
     * Applies an entry, in the order of the log. What was written again may come again.
     * @param ageSeconds since it was first written
     * @param place counts the entries of the log as this process reads them
     */
    apply (entry: RevocationEntry, ageSeconds: number, place: number): void {
      const { key, effect } = entry
      const table = tableOf(effect)
      if (effect === 'undo') { for (const each of tables) version += Number(each.remove(key)) } else if (!table) {
        const known = news.get(key)?.entry
        // What came late is in the log too, if this process was not in step with it.
        if (known ? entry.at >= known.at : news.size < MAX_NEWS) {
          news.set(key, { entry, ageSeconds: 0, merged: { place } })
        }
      } else if (table === blocks || ageSeconds < lifeSeconds) {
        version += Number(table.merge(entry, momentsOf(entry), Math.ceil(steadyMs() / 1000 - ageSeconds), place))
      }
      for (const each of tables) each.sweep(SWEEP)
    },
    /** Whether an entry would change anything. What would not need not be stored again. */
    isChange (entry: RevocationEntry): boolean {
      const { key, effect, at, event } = entry
      const table = tableOf(effect)
      if (effect === 'undo') return tables.some(each => each.get(key) !== undefined)
      if (!table) {
        const known = news.get(key)?.entry
        return !known || at > known.at || (at === known.at && event !== known.event)
      }
      if (table.isChange(key, momentsOf(entry))) return true
      const age = ageOf(table.get(key)!)
      // It happened after the other was learned, so it is to be kept for as long again.
      return table === marks && age >= renewSeconds && at > now() - age
    },
    /**
     * Changes with each entry that changes something. A token that was not revoked at one version is not revoked for as
     * long as it stays the same.
     */
    version: (): number => version,
    /**
     * Keeps room for new keys of these entries until what is returned is called: many may be on their way to the log at
     * once. Undefined if they do not fit.
     * @param entries of one event: their effect is the same
     */
    reserve (entries: readonly RevocationEntry[]): (() => void) | undefined {
      const table = tableOf(entries[0]!.effect)
      return table ? table.reserve(entries) : () => {}
    },
    /** What refuses a token. Undefined if nothing does. Times of tokens are compared in whole seconds. */
    revocationOf (facts: RevocationFacts): Revocation | undefined {
      if (marks.size() === 0 && blocks.size() === 0) return undefined
      const latest = now() + clockToleranceSeconds
      for (const key of facts.keys) {
        const block = blocks.get(key)
        // What lifts a block has no effect before its time: the clock of its sender may be wrong.
        if (block && block.first !== NEVER && (block.first >= block.second || block.second > latest)) {
          return shownOf(block)
        }
        const mark = marks.get(key)
        if (mark && !isOld(mark) && isRefused(mark, facts, latest)) return shownOf(mark)
      }
      return undefined
    },
    /**
     * What was last changed at places after `after` and up to `upTo`, for a store that has lost it. It may be read in
     * pieces, between other entries.
     */
    * held (after: number, upTo: number): Generator<Held, void> {
      const isWithin = ({ place }: Pick<Merged, 'place'>): boolean => place > after && place <= upTo
      for (const table of tables) {
        for (const [key, merged] of table.entries()) {
          const held = isWithin(merged) && heldIn(table, key, merged)
          if (held) yield held
        }
      }
      for (const state of news.values()) if (isWithin(state.merged)) yield state
    },
    /** What stands for a key. */
    heldOf (key: string): Held[] {
      return [...tables.map(table => heldIn(table, key)), news.get(key)].filter(held => held !== undefined)
    },
    /** Forgets what was last changed at places up to `upTo`: the log no longer has it. */
    dropUpTo (upTo: number): void {
      for (const table of tables) {
        for (const [key, { place }] of table.entries()) if (place <= upTo) table.remove(key)
      }
      version++
    },
    /** Forgets some of what is over. It is called now and then, so that what is over goes although nothing comes. */
    sweep (): void {
      for (const table of tables) table.sweep(FULL_SWEEP / 10)
    },
    /** The number of keys. */
    size: (): number => marks.size() + blocks.size()
  }
}

function shownOf ({ origin: { event, source }, at }: Merged): Revocation {
  return { event, source, at }
}
