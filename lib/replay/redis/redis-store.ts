import { Refusal } from '../../refusal.ts'
import { faultOf, policyOf } from './redis-faults.ts'
import type { RedisFault, MemoryAnswer } from './redis-faults.ts'
import type { LinkListeners, RedisLink } from './redis-link.ts'
import { LATE_RECORD_SECONDS } from '../replay-store.ts'
import type { RecordDone, ReplayStore } from '../replay-store.ts'

/** A record is decided or refused after this long, whatever the server does. */
const RECORD_MS = 200
/** The same for a record that finds the very first connection still being made. */
const FIRST_RECORD_MS = 250
const GRACE_MS = 20
const MOST_WAITING = 10_000
/** How often a store that is down is tried; one that is up and idle, every fourth time. */
const PROBE_MS = 250
const IDLE_BEATS = 4
/** The policy of eviction can be changed while the server runs, so it is asked for once a second, idle or not. */
const POLICY_BEATS = 4
/** A server that refuses some claims and takes others is called up again when it has refused none for this long. */
const CALM_MS = 1000
const PREFIX = 'holdfast:'
/** 128 bits of the id: half the memory of the whole, and still beyond anyone's search. */
const KEY_BYTES = 16
const PROBE_KEY = `${PREFIX}probe`
const PROBE_TTL_SECONDS = 10
const LONGEST_TTL_SECONDS = 10 * 366 * 86_400

/** Time as it passes, for waiting. */
export interface StoreTimers {
  /** Milliseconds from any start, never set back. */
  nowMs (): number
  /** Runs something once. */
  after (ms: number, run: () => void): void
  /** Runs something again and again, without keeping the process alive, until what it returns is called. */
  every (ms: number, run: () => void): () => void
}

export interface RedisStoreOptions {
  /** Opens the connection; see `openRedisLink`. */
  open: (listeners: LinkListeners) => RedisLink
  /** Unix seconds. */
  now: () => number
  timers: StoreTimers
  /** Told once for each change: with the fault when the store cannot be used, with null when it can. */
  onChange: (fault: RedisFault | null) => void
  /** Told when a server does not say any more, or never said, whether it evicts. */
  onPolicyUnknown: () => void
}

/** A command on its way, or a record that waits for the first connection; `done` is gone once answered. */
interface Pending {
  readonly key: string
  readonly ttlSeconds: number
  readonly ifAbsent: boolean
  readonly deadlineMs: number
  done: RecordDone | null
  next: Pending | null
}

/**
 * The replay store of many instances: one `SET key 1 NX EX ttl` for each record, on one connection, in batches under load.
 * A record that gets no clear answer in time is refused with `replay_unavailable`; it may have been recorded, so that the
 * client must come back with a new proof. A server that may evict keys is not used: it would forget records.
 * One that does not say is used, and readiness tells.
 */
export function createRedisStore ({ open, now, timers, onChange, onPolicyUnknown }: RedisStoreOptions): ReplayStore {
  /** Commands in the order of their deadlines. Those at the head are not answered yet. */
  let head: Pending | null = null
  let tail: Pending | null = null
  let isTimed = false
  let waiting: Pending[] | null = []
  let usable = false
  let fault: RedisFault | 'connecting' | 'closed' | null = 'connecting'
  let faultAt = -Infinity
  let isAnswered = false
  let idleBeats = 0
  let isAsking = false
  let beatsSinceAsked = 0
  let isPolicyUnknown = false
  let claims = 0
  let seen = 0
  let refused = 0

  const link = open({ ready: askPolicy, error: error => fail(faultOf(error)), close: lose })
  const stopHeart = timers.every(PROBE_MS, beat)

  /** Starts the clock of a command. */
  function enqueue (pending: Pending): void {
    if (tail) tail.next = pending
    else head = pending
    tail = pending
    if (!isTimed) expireAt(pending.deadlineMs)
  }

  /** After a stall of this process, answers lie unread in the socket: they are read before anything is given up. */
  function expireAt (deadlineMs: number): void {
    isTimed = true
    timers.after(deadlineMs - timers.nowMs(), () => timers.after(GRACE_MS, expire))
  }

  /** Refuses what has waited too long. Runs once for the deadline of a head, not once for each command. */
  function expire (): void {
    const nowMs = timers.nowMs()
    while (head && head.deadlineMs <= nowMs) {
      const due: Pending = head
      fail('timeout')
      conclude(due, undefined)
    }
    isTimed = false
    if (head) expireAt(head.deadlineMs)
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

  /** Asks whether the server would rather refuse a record than forget one. */
  function askPolicy (): void {
    if (isAsking) return
    isAsking = true
    beatsSinceAsked = 0
    link.memoryInfo(answers => {
      isAsking = false
      if (link.ready && fault !== 'closed') judgePolicy(answers)
    })
  }

  /** The last step to a usable connection, and the end of one that was. */
  function judgePolicy (answers: readonly MemoryAnswer[]): void {
    const policy = policyOf(answers)
    if (policy === null) return answers.slice(0, 1).forEach(({ error }) => fail(faultOf(error!)))
    if (policy === 'evicts') {
      usable = false
      return fail('evicts')
    }
    if (policy === 'unknown' && !isPolicyUnknown) onPolicyUnknown()
    isPolicyUnknown = policy === 'unknown'
    if (usable) return
    usable = true
    probe()
    const claimsWaiting = waiting
    waiting = null
    claimsWaiting?.forEach(send)
  }

  function probe (): void {
    const pending: Pending = { key: PROBE_KEY, ttlSeconds: PROBE_TTL_SECONDS, ifAbsent: false, deadlineMs: timers.nowMs() + RECORD_MS, done: probed, next: null }
    enqueue(pending)
    send(pending)
  }

  function probed (refusal: Refusal | null): void {
    if (refusal || fault === null || fault === 'closed' || timers.nowMs() - faultAt < CALM_MS) return
    fault = null
    onChange(null)
  }

  function beat (): void {
    idleBeats = isAnswered ? 0 : idleBeats + 1
    isAnswered = false
    if (!link.ready) return
    if (!usable || ++beatsSinceAsked >= POLICY_BEATS) askPolicy()
    if (usable && (fault !== null || idleBeats >= IDLE_BEATS)) probe()
  }

  function fail (reason: RedisFault | null): void {
    // An error without a reason goes before the end of the connection, which is told as well.
    if (fault === 'closed' || reason === null) return
    if (link.ready) faultAt = timers.nowMs()
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
    record (id, _jkt, expiresAt, done) {
      claims++
      const ttlSeconds = Math.min(Math.ceil(expiresAt - now()) + LATE_RECORD_SECONDS, LONGEST_TTL_SECONDS)
      const isTaken = usable || (waiting !== null && waiting.length < MOST_WAITING)
      if (!isTaken || !(ttlSeconds > 0)) {
        refused++
        return done(new Refusal('replay_unavailable'))
      }
      const deadlineMs = timers.nowMs() + (usable ? RECORD_MS : FIRST_RECORD_MS)
      const pending: Pending = { key: PREFIX + Buffer.from(id.slice(0, KEY_BYTES), 'latin1').toString('base64url'), ttlSeconds, ifAbsent: true, deadlineMs, done, next: null }
      enqueue(pending)
      if (usable) send(pending)
      else waiting!.push(pending)
    },
    state: () => ({ kind: 'redis', ready: fault === null, reason: fault ?? (isPolicyUnknown ? 'policy_unknown' : undefined), claims, seen, refused }),
    close () {
      fault = 'closed'
      usable = false
      waiting = null
      stopHeart()
      while (head) conclude(head, undefined)
      link.close()
    }
  }
}
