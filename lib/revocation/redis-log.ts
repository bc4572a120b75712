import { faultOf } from '../redis/redis-faults.ts'
import type { LinkListeners, RedisLink } from '../redis/redis-link.ts'
import type { Surroundings } from '../surroundings.ts'
import type { Cutoffs } from './cutoffs.ts'
import { RevocationLogError } from './log.ts'
import type { OnRevocationEntry, RevocationEntry, RevocationLog } from './log.ts'
import { createLogClock } from './log-clock.ts'
import { isBefore, PAGE, readEntry, writeEntry } from './redis-entries.ts'
import { createRewriter } from './redis-rewriter.ts'
import { APPEND, CLEANED, CLOCK, EPOCH, FIND, LEAD, LOG, READ, SETTLING } from './redis-scripts.ts'

const LEADER = '{holdfast:revocation}:leader:'
const START = '0-0'

/** A wait for new entries. It is shorter than the time after which the connection counts as dead. */
const BLOCK_MS = 200
const APPEND_MS = 1000
const RETRY_MS = 100
/**
 * An instance that is connected looks at the log this often at least, and one that is not tries to connect each 500 ms.
 */
const SETTLE_MS = 3 * BLOCK_MS
const SETTLE_STEP_MS = 50
/** Between two steps of cleaning: requests come first. */
const CLEAN_STEP_MS = 20
/** Places that are remembered, to find out how much a server has lost. */
const MAX_CHECKPOINTS = 128

export interface RedisLogOptions {
  /** Opens a connection; see `reachRedis`. */
  readonly open: (listeners: LinkListeners) => Pick<RedisLink, 'call' | 'close'>
  readonly surroundings: Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'randomBytes'>
  readonly onEntry: OnRevocationEntry
  /**
   * What this process knows, for a server that has lost it, and so that what no longer counts can go out of the log.
   */
  readonly kept: Pick<Cutoffs, 'held' | 'heldOf' | 'dropUpTo' | 'sweep' | 'size'>
  /** Called once for each change: with the fault if the log cannot be read, with null if it can. */
  readonly onChange: (fault: string | null) => void
}

type Page = readonly [
  epoch: string,
  isSettling: number,
  clock: string,
  cleaned: string,
  length: number,
  isThere: number,
  last: string,
  texts: readonly string[]
]

/** An answer counts from the moment of its request: it may have waited until this process had time for it. */
interface AskedPage {
  readonly askedMs: number
  readonly page: Page
}

/**
 * A log that instances share: a stream in Redis, which each instance reads once, from its own place on, and applies in
 * its order. Publish and subscribe alone would lose what is published while an instance is away.
 */
export function createRedisLog ({ open, surroundings, onEntry, kept, onChange }: RedisLogOptions): RevocationLog {
  const { steadyMs, after, randomBytes } = surroundings
  const instance = randomText()
  const clock = createLogClock(surroundings)
  /**
   * When the log last answered. Negative infinity until all of it was read, and while it gets back what it has lost.
   */
  let heardMs = -Infinity
  /** Why the log cannot be read. */
  let fault: string | null = null
  /** Of the data that is read. Empty until it was found. */
  let epoch = ''
  /** Counts the losses of data that this process has seen. */
  let losses = 0
  /** Up to which entry the log was read, and how many entries this process has read or written again so far. */
  let lastId = START
  let place = 0
  /** Earlier values of the two, the newest last. */
  let checkpoints: Array<readonly [id: string, place: number]> = []
  /** Whether instances had the time to restore what the log may have lost before this one has started. */
  let isSettled = false
  /** What was last changed up to this place is no longer in the log, and is to be forgotten. */
  let overtaken: number | undefined
  /** The next page, asked for while the one before it is applied. */
  let nextPage: Promise<AskedPage> | undefined
  let isClosed = false
  /** Counts the connections of the reader. Work of an earlier one must not go on. */
  let turn = 0
  const isCurrent = (own: number): boolean => own === turn && !isClosed
  /**
   * Senders that wait until this process has read what they have written, by the last text of it; and until it has read
   * up to an id.
   */
  const written = new Map<string, () => void>()
  const waiting = new Set<() => void>()

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
  const rewriter = createRewriter({
    call,
    kept,
    settleMs: SETTLE_MS,
    read: () => ({ lastId, place }),
    write: ({ entry, ageSeconds }) => writeEntry(entry, clock.nowMs() - ageSeconds * 1000),
    take (last, texts, afterTexts) {
      takeNext(texts)
      afterTexts()
      moveTo(last)
    },
    nextPlace: () => ++place
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
      if (!isSettled) {
        after(SETTLE_MS, () => {
          isSettled = true
        })
      }
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
    const { askedMs, page } = await (nextPage ?? readPage(lastId))
    nextPage = undefined
    if (!isCurrent(own)) return
    const [foundEpoch, isSettling, time, cleaned, length, isThere, last, texts] = page
    clock.see(time)
    epoch ||= foundEpoch
    if (foundEpoch !== epoch || isThere === 0) {
      return await recover(own, foundEpoch, foundEpoch === epoch && isBefore(lastId, cleaned))
    }
    const isWhole = texts.length < PAGE
    if (!isWhole) {
      nextPage = readPage(last)
      nextPage.catch(() => {})
    }
    takeNext(texts)
    moveTo(last)
    if (!isWhole) return
    if (overtaken !== undefined) {
      kept.dropUpTo(overtaken)
      overtaken = undefined
    } else if (rewriter.isRestoring()) {
      await rewriter.restoreSome()
    } else {
      heardMs = isSettling === 1 || !isSettled ? -Infinity : askedMs
      kept.sweep()
      const isCleaning = await rewriter.cleanSome(length, lead)
      await waitForNews(isCleaning ? CLEAN_STEP_MS : heardMs === -Infinity ? SETTLE_STEP_MS : BLOCK_MS)
      // Only then: a server that reads the log may still refuse a command of this step, and says so each time.
      if (heardMs !== -Infinity) report(null)
    }
  }

  async function readPage (from: string): Promise<AskedPage> {
    const askedMs = steadyMs()
    const isBehind = rewriter.isRestoring() || overtaken !== undefined
    const page = await call(
      'eval',
      READ,
      '5',
      LOG,
      EPOCH,
      SETTLING,
      CLOCK,
      CLEANED,
      from,
      String(PAGE),
      randomText(),
      String(SETTLE_MS),
      isBehind ? '1' : '0',
      ...clock.offer()
    ) as Page
    return { askedMs, page }
  }

  async function waitForNews (ms: number): Promise<void> {
    await call('xread', 'COUNT', '1', 'BLOCK', String(ms), 'STREAMS', LOG, lastId)
  }

  /**
   * Goes back to where the log and this process part: the log was emptied, or a server has lost the end of it. What
   * only this process knows is then written again. If the log was cleaned beyond the place of this process, it is read
   * anew, and what it no longer has goes.
   */
  async function recover (own: number, foundEpoch: string, isCleaned: boolean): Promise<void> {
    heardMs = -Infinity
    losses++
    wake()
    const upTo = place
    const isOvertaken = isCleaned && !rewriter.isRestoring()
    const ids = isOvertaken ? [] : checkpoints.map(([id]) => id).reverse()
    const at = ids.length === 0 ? 0 : await call('eval', FIND, '1', LOG, ...ids) as number
    if (!isCurrent(own)) return
    epoch = foundEpoch
    const common = at === 0 ? undefined : checkpoints.at(-at)
    checkpoints = common ? checkpoints.slice(0, checkpoints.length - at + 1) : []
    lastId = common?.[0] ?? START
    overtaken = isOvertaken ? upTo : undefined
    if (!isOvertaken) rewriter.restore(common?.[1] ?? -1, upTo)
  }

  function takeNext (texts: readonly string[]): void {
    const nowMs = clock.nowMs()
    for (const text of texts) {
      const stored = readEntry(text)
      place++
      if (stored) onEntry(stored, Math.max(0, (nowMs - stored.t) / 1000), place)
      // To look up a text, all of it is hashed: of a million entries at start nobody waits for one.
      if (written.size > 0) written.get(text)?.()
    }
  }

  function moveTo (id: string): void {
    if (id === lastId) return
    lastId = id
    checkpoints.push([id, place])
    // The older, the fewer are needed.
    if (checkpoints.length > MAX_CHECKPOINTS) {
      checkpoints = checkpoints.filter((_, index) => index % 2 === 0 || index > MAX_CHECKPOINTS / 2)
    }
    wake()
  }

  function wake (): void {
    for (const look of waiting) look()
  }

  /** Resolves with false after the time that a sender waits. */
  async function within (done: Promise<void>): Promise<boolean> {
    return await Promise.race([done.then(() => true), pause(APPEND_MS).then(() => false)])
  }

  /** Whether this process has read up to an id in time. */
  async function reads (id: string): Promise<boolean> {
    let look!: () => void
    const isRead = await within(
      new Promise(resolve => {
        look = () => {
          if (!isBefore(lastId, id)) resolve()
        }
        waiting.add(look)
        look()
      })
    )
    waiting.delete(look)
    return isRead
  }

  function randomText (): string {
    return randomBytes(12).toString('base64url')
  }

  function pause (ms: number): Promise<undefined> {
    return new Promise(resolve => {
      after(ms, () => resolve(undefined))
    })
  }

  /** The answer to a command of a sender. Undefined if there is none in time. */
  async function answer (command: string, ...args: string[]): Promise<unknown> {
    return await Promise.race([writer.call(command, ...args).catch(() => undefined), pause(APPEND_MS)])
  }

  async function lead (task: string, seconds: number): Promise<boolean> {
    return await answer('eval', LEAD, '1', LEADER + task, instance, String(seconds * 1000)) === 1
  }

  return {
    async append (entries: readonly RevocationEntry[]) {
      const texts = entries.map(entry => writeEntry(entry, clock.nowMs()))
      const last = texts.at(-1)!
      // Whatever becomes of the log meanwhile: what this process has read, it restores.
      const isRead = within(
        new Promise(resolve => {
          written.set(last, resolve)
        })
      )
      const id = await answer('eval', APPEND, '3', LOG, EPOCH, SETTLING, randomText(), String(SETTLE_MS), ...texts)
      const isStored = id !== undefined && await isRead
      written.delete(last)
      if (!isStored) throw new RevocationLogError('the log of revocations cannot be written')
    },
    async sync () {
      const before = losses
      const rows = await answer('xrevrange', LOG, '+', '-', 'COUNT', '1') as
        | ReadonlyArray<readonly [id: string]>
        | undefined
      const last = rows?.[0]?.[0] ?? START
      // What this process has read, the log may have lost.
      const isWhole = rows !== undefined && !isBefore(last, lastId) && await reads(last) && losses === before &&
        heardMs !== -Infinity
      if (!isWhole) throw new RevocationLogError('the log of revocations cannot be read')
    },
    hasLost: () => losses > 0,
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
