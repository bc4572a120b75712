import { faultOf } from '../redis/redis-faults.ts'
import type { LinkListeners, RedisLink } from '../redis/redis-link.ts'
import type { Surroundings } from '../surroundings.ts'
import type { Cutoffs } from './cutoffs.ts'
import type { OnRevocationEntry, RevocationLog } from './log.ts'
import { createLogClock } from './log-clock.ts'
import { createLogPlace } from './log-place.ts'
import { isBefore, PAGE, readEntry } from './redis-entries.ts'
import { createRewriter } from './redis-rewriter.ts'
import { BLOCK_MS, CLEANED, CLOCK, EPOCH, FIND, LOG, READ, SETTLE_MS } from './redis-scripts.ts'
import { createLogWriter } from './redis-writer.ts'

const RETRY_MS = 100
const SETTLE_STEP_MS = 50
/** Between steps of cleaning, and of waiting for entries of others. */
const STEP_MS = 20
const CATCH_UP_STEPS = 25

export interface RedisLogOptions {
  /** Opens a connection; see `reachRedis`. */
  readonly open: (listeners: LinkListeners) => Pick<RedisLink, 'call' | 'close'>
  readonly surroundings: Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'randomBytes'>
  readonly onEntry: OnRevocationEntry
  /**
   * What this process knows, for a server that has lost it, and so that what no longer counts can go out of the log.
   */
  readonly kept: Cutoffs
  /** Called once for each change: with the fault if the log cannot be read, with null if it can. */
  readonly onChange: (fault: string | null) => void
}

type Page = readonly [
  epoch: string,
  clock: string,
  cleaned: string,
  length: number,
  isThere: number,
  last: string,
  texts: readonly string[]
]

/**
 * A log that instances share: a stream in Redis, which each instance reads once, from its own place on, and applies in
 * its order. Publish and subscribe alone would lose what is published while an instance is away.
 */
export function createRedisLog ({ open, surroundings, onEntry, kept, onChange }: RedisLogOptions): RevocationLog {
  const { steadyMs, after, randomBytes } = surroundings
  const clock = createLogClock(surroundings)
  const place = createLogPlace()
  /**
   * When the log last answered. Negative infinity until all of it was read, and while it gets back what it has lost.
   */
  let heardMs = -Infinity
  /** Why the log cannot be read. */
  let fault: string | null = null
  /** The one that was seen last. */
  let epoch = ''
  /** The last one that had stayed for long enough: while it is the current one, nobody is restoring anything. */
  let settledEpoch: string | undefined
  let hasLost = false
  /** What was last changed up to this place is no longer in the log, and is to be forgotten. */
  let overtaken: number | undefined
  /** The next page, asked for while the one before it is applied. */
  let nextPage: ReturnType<typeof readPage> | undefined
  let isClosed = false
  /** Counts the connections of the reader. Work of an earlier one must not go on. */
  let turn = 0
  const isCurrent = (own: number): boolean => own === turn && !isClosed

  const writer = open({ ready () {}, error () {}, close () {} })
  const reader = open({
    ready () {
      follow(++turn)
    },
    error: fail,
    close () {
      turn++
      report(fault ?? 'unreachable')
    }
  })
  const { call } = reader
  const { append, lastId, lead, took } = createLogWriter({
    call: writer.call,
    clock,
    after,
    instance: randomText()
  })
  const rewriter = createRewriter({
    call,
    kept,
    place,
    lead,
    clock,
    take: takeNext,
    randomText
  })

  /** An error that only says that there is no connection hides no reason that is known. */
  function fail (error: Error): void {
    report(faultOf(error) ?? fault ?? 'unreachable')
  }

  function report (now: string | null): void {
    if (isClosed || now === fault) return
    fault = now
    onChange(now)
  }

  /** Reads the log from its place on, until the connection ends. */
  async function follow (own: number): Promise<void> {
    nextPage = undefined
    try {
      while (isCurrent(own)) await step(own)
    } catch (error) {
      if (!isCurrent(own)) return
      fail(error as Error)
      after(RETRY_MS, () => {
        if (isCurrent(own)) follow(++turn)
      })
    }
  }

  /** One page, and then what is to be done. Requests come between two steps. */
  async function step (own: number): Promise<void> {
    const { askedMs, page } = await (nextPage ?? readPage(place.id()))
    nextPage = undefined
    if (!isCurrent(own)) return
    const [foundEpoch, time, cleaned, length, isThere, last, texts] = page
    clock.see(time)
    if (foundEpoch !== epoch) {
      epoch = foundEpoch
      after(SETTLE_MS, () => {
        settledEpoch = foundEpoch
      })
    }
    if (isThere === 0) return await recover(own, isBefore(place.id(), cleaned))
    const isWhole = texts.length < PAGE
    if (!isWhole) {
      nextPage = readPage(last)
      nextPage.catch(() => {})
    }
    takeNext(texts)
    place.moveTo(last)
    if (!isWhole) return
    if (overtaken !== undefined) {
      kept.dropUpTo(overtaken)
      overtaken = undefined
    } else if (rewriter.isRestoring()) {
      await rewriter.restoreSome()
    } else {
      heardMs = epoch === settledEpoch ? askedMs : -Infinity
      kept.sweep()
      const isCleaning = await rewriter.cleanSome(length)
      await waitForEntries(isCleaning ? STEP_MS : heardMs === -Infinity ? SETTLE_STEP_MS : BLOCK_MS)
      // Only then: a server that reads the log may still refuse a command of this step, and says so each time.
      if (heardMs !== -Infinity) report(null)
    }
  }

  /** An answer counts from the moment of its request: it may have waited until this process had time for it. */
  async function readPage (from: string) {
    const askedMs = steadyMs()
    const page = await call(
      'eval',
      READ,
      4,
      LOG,
      EPOCH,
      CLOCK,
      CLEANED,
      from,
      PAGE,
      randomText(),
      // Who reads the log anew has nothing that others wait for.
      rewriter.isRestoring() ? 1 : 0,
      ...clock.offer()
    ) as Page
    return { askedMs, page }
  }

  async function waitForEntries (ms: number): Promise<void> {
    await call('xread', 'COUNT', 1, 'BLOCK', ms, 'STREAMS', LOG, place.id())
  }

  /**
   * Goes back to where the log and this process part: the log was emptied, or a server has lost the end of it. What
   * only this process knows is then written again. If the log was cleaned beyond the place of this process, it is read
   * anew, and what it no longer has goes.
   */
  async function recover (own: number, isCleaned: boolean): Promise<void> {
    heardMs = -Infinity
    hasLost = true
    const upTo = place.count()
    const isOvertaken = isCleaned && !rewriter.isRestoring()
    const ids = isOvertaken ? [] : place.earlier()
    const at = ids.length === 0 ? 0 : await call('eval', FIND, 1, LOG, ...ids) as number
    if (!isCurrent(own)) return
    const common = place.goBack(at)
    overtaken = isOvertaken ? upTo : undefined
    if (!isOvertaken) rewriter.restore(common, upTo)
  }

  function takeNext (texts: readonly string[]): void {
    const nowMs = clock.nowMs()
    for (const text of texts) {
      const stored = readEntry(text)
      const at = place.next()
      if (stored) onEntry(stored, Math.max(0, (nowMs - stored.t) / 1000), at)
      took(text)
    }
  }

  function randomText (): string {
    return randomBytes(12).toString('base64url')
  }

  return {
    append,
    async isInStep () {
      const last = await lastId()
      // What this process has read, the log may have lost.
      if (last === undefined || isBefore(last, place.id())) return false
      // What another has just written, this process is about to read.
      for (let step = 0; step < CATCH_UP_STEPS && isBefore(place.id(), last); step++) {
        await new Promise<void>(resolve => {
          after(STEP_MS, resolve)
        })
      }
      return !isBefore(place.id(), last) && heardMs !== -Infinity
    },
    hasLost: () => hasLost,
    lead,
    ageMs: () => steadyMs() - heardMs,
    fault: () => fault ?? undefined,
    close () {
      isClosed = true
      writer.close()
      reader.close()
    }
  }
}
