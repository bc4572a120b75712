import { Refusal } from '../refusal.ts'
import { faultOf } from './redis-faults.ts'
import type { RedisFault } from './redis-faults.ts'
import type { LinkListeners, RedisLink } from './redis-link.ts'
import { LATE_CLAIM_SECONDS } from './replay-store.ts'
import type { ClaimDone, ReplayStore } from './replay-store.ts'

/** A claim is decided or refused after this long, whatever the server does. */
const CLAIM_MS = 200
/** The same for a claim that finds the very first connection still being made. */
const FIRST_CLAIM_MS = 250
const GRACE_MS = 20
const MOST_WAITING = 10_000
/** How often a store that is down is tried; one that is up and idle, every fourth time. */
const PROBE_MS = 250
const IDLE_BEATS = 4
/** A server that refuses some claims and takes others is called up again when it has refused none for this long. */
const CALM_MS = 1000
const PREFIX = 'holdfast:'
/** 128 bits of the id: half the memory of the whole, and still beyond anyone's search. */
const KEY_BYTES = 16
const PROBE_KEY = `${PREFIX}probe`
const PROBE_TTL_SECONDS = 10
const LONGEST_TTL_SECONDS = 10 * 366 * 86_400

export interface RedisStoreOptions {
  /** Opens the connection; see `openRedisLink`. */
  open: (listeners: LinkListeners) => RedisLink
  /** Unix seconds. */
  now: () => number
  /** Told once for each change: with the fault when the store cannot be used, with null when it can. */
  onChange: (fault: RedisFault | null) => void
}

/** A command on its way, or a claim that waits for the first connection; `done` is gone once answered. */
interface Pending {
  readonly key: string
  readonly ttlSeconds: number
  readonly ifAbsent: boolean
  readonly deadlineMs: number
  done: ClaimDone | null
  next: Pending | null
}

/**
 * The replay store of many instances: one `SET key 1 NX EX ttl` for each claim, on one connection, in batches under load.
 * A claim that gets no clear answer in time is refused with `replay_unavailable`; it may have been recorded, so that the
 * client must come back with a new proof. A server that may evict keys is not used: it would forget records.
 */
export function createRedisStore ({ open, now, onChange }: RedisStoreOptions): ReplayStore {
  /** Commands in the order of their deadlines. Those at the head are not answered yet. */
  let head: Pending | null = null
  let tail: Pending | null = null
  let timer: NodeJS.Timeout | undefined
  let waiting: Pending[] | null = []
  let usable = false
  let fault: RedisFault | 'connecting' | 'closed' | null = 'connecting'
  let faultAt = -Infinity
  let isAnswered = false
  let idleBeats = 0
  let isAsking = false
  let claims = 0
  let seen = 0
  let refused = 0

  const link = open({ ready: checkPolicy, error: error => fail(faultOf(error)), close: lose })
  const heart = setInterval(beat, PROBE_MS)
  heart.unref()

  /** Starts the clock of a command. */
  function enqueue (pending: Pending): void {
    if (tail) tail.next = pending
    else head = pending
    tail = pending
    timer ??= setTimeout(beforeExpiry, pending.deadlineMs - performance.now())
  }

  /** After a stall of this process, answers lie unread in the socket: they are read before anything is given up. */
  function beforeExpiry (): void {
    timer = setTimeout(expire, GRACE_MS)
  }

  /** Refuses what has waited too long. Runs once for the deadline of a head, not once for each command. */
  function expire (): void {
    const nowMs = performance.now()
    timer = undefined
    while (head && head.deadlineMs <= nowMs) {
      const due: Pending = head
      fail('timeout')
      conclude(due, undefined)
    }
    if (head) timer = setTimeout(beforeExpiry, head.deadlineMs - nowMs)
  }

  function send (pending: Pending): void {
    link.set(pending.key, pending.ttlSeconds, pending.ifAbsent, (error, reply) => {
      if (!error && (reply === 'OK' || reply === null)) {
        isAnswered = true
        return conclude(pending, reply === 'OK')
      }
      // An answer that comes too late is no news, and a connection that breaks tells its own reason.
      if (pending.done && link.ready) fail(error ? faultOf(error) ?? 'unreachable' : 'not_redis')
      conclude(pending, undefined)
    })
  }

  /** Gives the answer, once; undefined stands for none. */
  function conclude (pending: Pending, first: boolean | undefined): void {
    const { done } = pending
    if (!done) return
    pending.done = null
    while (head && head.done === null) {
      const answered: Pending = head
      head = head.next
      // An answered command that the collector has not found yet would keep every later one alive.
      answered.next = null
    }
    if (!head) tail = null
    if (first === undefined) {
      if (pending.ifAbsent) refused++
      return done(new Refusal('replay_unavailable'))
    }
    if (!first) seen++
    done(null, first)
  }

  /** The last step to a usable connection: whether the server would rather refuse a record than forget one. */
  function checkPolicy (): void {
    if (isAsking) return
    isAsking = true
    link.memoryInfo((error, info) => {
      isAsking = false
      if (!link.ready || fault === 'closed') return
      // A server that does not tell is believed.
      if (!error && evicts(String(info))) return fail('evicts')
      usable = true
      probe()
      const claimsWaiting = waiting
      waiting = null
      claimsWaiting?.forEach(send)
    })
  }

  function probe (): void {
    const pending: Pending = { key: PROBE_KEY, ttlSeconds: PROBE_TTL_SECONDS, ifAbsent: false, deadlineMs: performance.now() + CLAIM_MS, done: probed, next: null }
    enqueue(pending)
    send(pending)
  }

  function probed (refusal: Refusal | null): void {
    if (refusal || fault === null || fault === 'closed' || performance.now() - faultAt < CALM_MS) return
    fault = null
    onChange(null)
  }

  function beat (): void {
    idleBeats = isAnswered ? 0 : idleBeats + 1
    isAnswered = false
    if (!link.ready) return
    if (!usable) checkPolicy()
    else if (fault !== null || idleBeats >= IDLE_BEATS) probe()
  }

  function fail (reason: RedisFault | null): void {
    // An error without a reason goes before the end of the connection, which is told as well.
    if (fault === 'closed' || reason === null) return
    if (link.ready) faultAt = performance.now()
    const claimsWaiting = waiting
    waiting = null
    claimsWaiting?.forEach(pending => conclude(pending, undefined))
    if (fault === reason) return
    fault = reason
    onChange(reason)
  }

  /** The connection is gone, for a reason that an error has named, or without a word. */
  function lose (): void {
    usable = false
    faultAt = -Infinity
    if (fault === null || fault === 'connecting') fail('unreachable')
  }

  return {
    claim (id, _jkt, expiresAt, done) {
      claims++
      const ttlSeconds = Math.min(Math.ceil(expiresAt - now()) + LATE_CLAIM_SECONDS, LONGEST_TTL_SECONDS)
      const isTaken = usable || (waiting !== null && waiting.length < MOST_WAITING)
      if (!isTaken || !(ttlSeconds > 0)) {
        refused++
        return done(new Refusal('replay_unavailable'))
      }
      const deadlineMs = performance.now() + (usable ? CLAIM_MS : FIRST_CLAIM_MS)
      const pending: Pending = { key: PREFIX + Buffer.from(id.slice(0, KEY_BYTES), 'latin1').toString('base64url'), ttlSeconds, ifAbsent: true, deadlineMs, done, next: null }
      enqueue(pending)
      if (usable) send(pending)
      else waiting!.push(pending)
    },
    state: () => ({ kind: 'redis', ready: fault === null, reason: fault ?? undefined, claims, seen, refused }),
    close () {
      fault = 'closed'
      usable = false
      waiting = null
      clearInterval(heart)
      while (head) conclude(head, undefined)
      link.close()
    }
  }
}

/** Reads `INFO memory`: whether the server has a limit and a policy of forgetting keys to stay below it. */
function evicts (info: string): boolean {
  const valueOf = (name: string): string | undefined => info.split(`\n${name}:`, 2)[1]?.split('\r', 1)[0]
  const policy = valueOf('maxmemory_policy')
  return policy !== undefined && policy !== 'noeviction' && valueOf('maxmemory') !== '0'
}
