import { faultOf, policyOf, type MemoryAnswer } from '../../guard/redis/redis-faults.ts'
import type { LinkListeners, RedisLink } from '../../guard/redis/redis-link.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { View } from '../view.ts'
import type { StoreClock } from './clock.ts'
import { createRedisCalls } from './redis-calls.ts'
import { createRedisWriter } from './redis-writer.ts'
import { CHANGES } from './scripts.ts'
import type { RevocationStore } from './store.ts'
import { takeOverLog } from './take-over.ts'

const RETRY_MS = 100
/** A wait for news. It is shorter than the time after which a connection counts as dead. */
const BLOCK_MS = 200
/**
 * What was lost is restored by then: an instance that is connected looks at the store each 200 ms at least, and one
 * that is not tries to connect each 500 ms.
 */
const SETTLE_MS = 3 * BLOCK_MS
const STEP_MS = 50
/** Between two looks at the changes while the records are read, and two pages that are looked at for what is over. */
const LOOK_MS = 250
const CLEAN_MS = 1000
/** Between two looks at the policy of the server, which may be set at any time. */
const POLICY_MS = 1000
/** Where a page had more that was over, the next one need not wait. */
const MANY = 100

export interface RedisStoreOptions {
  /** Opens a connection; see `reachRedis`. */
  readonly open: (listeners: LinkListeners) => Pick<RedisLink, 'call' | 'memoryInfo' | 'close'>
  readonly surroundings: Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'randomBytes'>
  readonly clock: StoreClock
  readonly view: View
  /** For so long others wait for an instance that was stopped while it restored what it knows. */
  readonly staleSeconds: number
  /** Called once for each change: with the fault if the store cannot be read, with null if it can. */
  readonly onChange: (fault: string | null) => void
  /** Called once the log of an earlier version has become records. */
  readonly onTakeOver?: () => void
}

/**
 * A store that instances share: records in Redis, which each instance reads once, and then hears of each change. It
 * notices what the store has lost, and gives back what it knows.
 */
export function createRedisStore (options: RedisStoreOptions): RevocationStore {
  const { open, surroundings, clock, view, staleSeconds, onChange } = options
  const { steadyMs, after, randomBytes } = surroundings
  const patienceMs = staleSeconds * 1000
  const randomText = () => randomBytes(12).toString('base64url')
  const instance = randomText()
  const calls = createRedisCalls({ view, clock, instance, randomText })
  /** When the store last answered. Negative infinity until all of it was read, and while what was lost is restored. */
  let heardMs = -Infinity
  /** Why the store cannot be read. */
  let fault: string | null = null
  /** The next page of the records. Undefined once all were read. */
  let cursor: string | undefined = '0'
  let isTakenOver = false
  let isRestoring = false
  /** The epoch that was seen last, and the last one that had stayed for long enough: then no instance is restoring. */
  let epoch = ''
  let settledEpoch: string | undefined
  let cleanAt = { cursor: '0', ms: 0 }
  let policyAtMs = -Infinity
  let isClosed = false
  /** Counts the connections of the reader. Work of an earlier one must not go on. */
  let turn = 0
  const isCurrent = (own: number) => own === turn && !isClosed

  const writing = open({ ready () {}, error () {}, close () {} })
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
  const writer = createRedisWriter({
    call: writing.call,
    calls,
    view,
    surroundings,
    isCurrent: () => heardMs !== -Infinity,
    instance
  })

  /** An error that only says that there is no connection hides no reason that is known. */
  function fail (error: Error) {
    report(faultOf(error) ?? fault ?? 'unreachable')
  }

  function report (now: string | null) {
    if (isClosed || now === fault) return
    fault = now
    onChange(now)
  }

  async function follow (own: number) {
    try {
      while (isCurrent(own)) await (steadyMs() < policyAtMs ? step(own) : verifyPolicy())
    } catch (error) {
      if (!isCurrent(own)) return
      fail(error as Error)
      after(RETRY_MS, () => {
        if (isCurrent(own)) follow(++turn)
      })
    }
  }

  /** @throws Error if the server may forget what it has for want of memory */
  async function verifyPolicy () {
    const answers = await new Promise<readonly MemoryAnswer[]>(resolve => reader.memoryInfo(resolve))
    if (policyOf(answers) === 'evicts') {
      report('evicts')
      throw new Error('the server may evict records')
    }
    policyAtMs = steadyMs() + POLICY_MS
  }

  /** Looks at what has changed, and then does some of what is to be done. Requests come between two steps. */
  async function step (own: number) {
    const askedMs = steadyMs()
    const isRestored = isRestoring && !view.backlog.hasSome()
    const page = await calls.read(call, isRestoring && !isRestored, patienceMs)
    if (!isCurrent(own)) return
    if (page.epoch !== epoch) {
      epoch = page.epoch
      after(SETTLE_MS, () => {
        settledEpoch = page.epoch
      })
    }
    if (page.isLost) {
      heardMs = -Infinity
      isRestoring = true
      return
    }
    if (isRestored) isRestoring = false
    if (page.isBehind) {
      cursor = '0'
      return
    }
    isTakenOver ||= await takeOverLog({ call, calls, view }, options.onTakeOver)
    // What others say meanwhile need not be said.
    if (page.isWhole && view.backlog.hasSome()) {
      await calls.restore(call, forMs(STEP_MS, own), isRestoring ? patienceMs : undefined)
    }
    const isSettled = !isRestoring && !page.isWaited && page.epoch === settledEpoch
    if (!isSettled) heardMs = -Infinity
    if (cursor !== undefined) {
      cursor = await calls.scan(call, cursor, forMs(LOOK_MS, own))
      return
    }
    if (!page.isWhole || view.backlog.hasSome() || isRestoring) return
    if (isSettled) {
      heardMs = askedMs
      await clean()
    }
    view.sweep()
    await call('xread', 'COUNT', 1, 'BLOCK', isSettled ? BLOCK_MS : STEP_MS, 'STREAMS', CHANGES, calls.place())
    // Only then: a server that reads may still refuse a command of this step, and says so each time.
    if (isSettled) report(null)
  }

  /** Whether some work may go on: for so long from now, on this connection. */
  function forMs (ms: number, own: number) {
    const startedMs = steadyMs()
    return () => isCurrent(own) && steadyMs() - startedMs < ms
  }

  /** One instance looks for what is over, a page at a time, of issuers that none of them has too. */
  async function clean () {
    if (steadyMs() < cleanAt.ms || !await writer.lead('clean')) return
    const [cursor, removed] = await calls.clean(call, cleanAt.cursor)
    cleanAt = { cursor, ms: steadyMs() + (removed > MANY ? 0 : CLEAN_MS) }
  }

  return {
    append: writer.append,
    lead: writer.lead,
    ageMs: () => steadyMs() - heardMs,
    fault: () => fault ?? undefined,
    close () {
      isClosed = true
      writer.leave()
      writing.close()
      reader.close()
    }
  }
}
