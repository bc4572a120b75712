import type { RedisCall } from '../redis/redis-link.ts'
import type { Cutoffs, Held } from './cutoffs.ts'
import type { LogClock } from './log-clock.ts'
import type { LogPlace } from './log-place.ts'
import type { RevocationLog } from './log.ts'
import { PAGE, readEntry, writeEntry } from './redis-entries.ts'
import { CLEANED, EPOCH, LOG, REWRITE } from './redis-scripts.ts'

/** Entries that are written again at once: a step must let requests through. */
const CHUNK = 500
/** The log may hold so many entries beside those that say what stands, or a quarter of them. */
const MIN_WASTE = 10_000

export interface RewriterOptions {
  readonly call: RedisCall
  readonly kept: Cutoffs
  readonly place: LogPlace
  readonly clock: LogClock
  /** Applies what came meanwhile. */
  readonly take: (texts: readonly string[]) => void
  readonly lead: RevocationLog['lead']
  readonly randomText: () => string
}

/**
 * Writes again what this process knows: to a server that has lost it, and so that the front of the log can go, by which
 * it stays about as long as what stands. No clock decides what goes. Both are done in small steps, and what others have
 * written meanwhile is not written twice.
 */
export function createRewriter ({ call, kept, place, clock, take, lead, randomText }: RewriterOptions) {
  let restoring: {
    readonly after: number,
    readonly upTo: number,
    readonly rest: Iterator<Held, void>,
    pending: Held[]
  } | undefined
  /** What was last changed up to a place is written again, while the log is cleaned up to an id. */
  let cleaning: { readonly upTo: number, readonly lastId: string } | undefined

  /** Returns whether it was written. @param epoch a new one, so that others wait, or the empty text */
  async function rewrite (
    held: readonly Held[],
    gone: readonly string[],
    epoch: string,
    mostCame: number
  ): Promise<boolean> {
    const [isWritten, last, texts] = await call(
      'eval',
      REWRITE,
      3,
      LOG,
      EPOCH,
      CLEANED,
      place.id(),
      mostCame,
      epoch,
      gone.length,
      ...gone,
      ...held.map(({ entry, ageSeconds }) => writeEntry(entry, clock.nowMs() - ageSeconds * 1000))
    ) as [number, string, string[]]
    const places = held.map(({ merged }) => merged.place)
    take(texts)
    // What has come says more than what was written.
    if (isWritten === 1) {
      held.forEach(({ merged }, index) => {
        if (merged.place === places[index]) merged.place = place.next()
      })
    }
    place.moveTo(last)
    return isWritten === 1
  }

  return {
    isRestoring: (): boolean => restoring !== undefined,
    /** From now on, what was last changed at places after `after` and up to `upTo` is written again. */
    restore (after: number, upTo: number): void {
      // What an earlier loss has left to write is not lost by another one.
      const from = Math.min(after, restoring?.after ?? after)
      restoring = { after: from, upTo, rest: kept.held(from, upTo), pending: [] }
    },
    async restoreSome (): Promise<void> {
      const { upTo, rest } = restoring!
      // What others have restored meanwhile has a later place.
      const pending = restoring!.pending.filter(({ merged }) => merged.place <= upTo)
      while (pending.length < CHUNK) {
        const { done, value } = rest.next()
        if (done) break
        pending.push(value)
      }
      restoring!.pending = pending
      if (pending.length === 0) restoring = undefined
      else if (await rewrite(pending, [], randomText(), CHUNK / 10)) restoring!.pending = []
    },
    /** Cleans some of the front of the log, if it is this instance's turn. Returns whether there may be more. */
    async cleanSome (length: number): Promise<boolean> {
      if (!cleaning && length <= MIN_WASTE + kept.size() * 1.25) return false
      if (!await lead('clean')) {
        cleaning = undefined
        return false
      }
      cleaning ??= { upTo: place.count(), lastId: place.id() }
      const { upTo, lastId } = cleaning
      const rows = await call('xrange', LOG, '-', `(${lastId}`, 'COUNT', CHUNK) as ReadonlyArray<
        readonly [id: string, fields: readonly string[]]
      >
      const keys = new Set(rows.map(([, [, text]]) => readEntry(text!)?.key))
      const held = [...keys].flatMap(key => key === undefined ? [] : kept.heldOf(key)).filter(({ merged }) =>
        merged.place <= upTo
      )
      if (rows.length > 0) await rewrite(held, rows.map(([id]) => id), '', PAGE)
      if (rows.length < CHUNK) cleaning = undefined
      return cleaning !== undefined
    }
  }
}
