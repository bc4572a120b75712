import { Refusal } from '../../refusal.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import { faultOf, policyOf, type RedisFault, type MemoryAnswer } from '../redis/redis-faults.ts'
import type { LinkListeners, RedisLink } from '../redis/redis-link.ts'
import { LATE_RECORD_SECONDS, type RecordDone, type ReplayStore } from './replay-store.ts'

/** After this time a record is decided or refused, whatever the server does. */
const RECORD_MS = 200
/** The limit for a record that arrives while the very first connection is being made. */
const FIRST_RECORD_MS = 250
const GRACE_MS = 20
const MAX_WAITING = 10_000
/** How often a store that is down is tested. A store that is up is tested every fourth time, idle or not. */
const BEAT_MS = 250
const BEATS_WHILE_UP = 4
/**
 * If a server refuses some records and accepts others, it counts as available again after it has refused none for this
 * long.
 */
const CALM_MS = 1000
const PREFIX = 'holdfast:'
/** 128 bits of the id: half the memory of the whole id, and still too many to search. */
const KEY_BYTES = 16
const PROBE_KEY = `${PREFIX}probe`
const PROBE_TTL_SECONDS = 10
const MAX_TTL_SECONDS = 10 * 366 * 86_400

interface RedisStoreOptions {
  /** Opens the connection; see `reachRedis`. */
  open: (listeners: LinkListeners) => Omit<RedisLink, 'call'>
  surroundings: Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'every'>
  /** Called once for each change: with the fault if the store cannot be used, with null if it can. */
  onChange: (fault: RedisFault | null) => void
  /** Called if a server does not say whether it evicts, or no longer says it. */
  onPolicyUnknown: () => void
}

/** A command that was sent, or a record that waits for the first connection. */
interface Command {
  readonly key: string
  readonly ttlSeconds: number
  readonly ifAbsent: boolean
  readonly deadlineMs: number
  readonly done: RecordDone
}

/**
 * The replay store of many instances: one `SET key 1 NX EX ttl` for each record, on one connection, in batches under
 * load. A record that gets no clear answer in time is refused with `replay_unavailable`. It may have been recorded, so
 * the client must send a new proof. If a server may evict keys, it is not used, because it would forget records. If the
 * server does not say, it is assumed to keep them; readiness reports this.
 */
export function createRedisStore (
  { open, surroundings, onChange, onPolicyUnknown }: RedisStoreOptions
): ReplayStore {
  const { now, steadyMs, after, every } = surroundings
  /** Commands without an answer, in the order of their deadlines. */
  const pending = new Set<Command>()
  let isTimed = false
  let usable = false
  /** Until the very first connection is usable or has failed, this is `connecting`. Only then do records wait. */
  let fault: RedisFault | 'connecting' | 'closed' | null = 'connecting'
  let faultAt = -Infinity
  let beats = 0
  let isAsking = false
  let isPolicyUnknown = false
  let records = 0
  let seen = 0
  let refused = 0

  const link = open({ ready: askPolicy, error: error => fail(faultOf(error)), close: lose })
  const stopHeart = every(BEAT_MS, beat)

  /** Starts the time limit of a command, and sends it, unless it waits for the first connection. */
  function begin (command: Command) {
    pending.add(command)
    if (!isTimed) expireAt(command.deadlineMs)
    if (usable) send(command)
  }

  /** If this process has stalled, the socket holds unread answers. They are read before any command is given up. */
  function expireAt (deadlineMs: number) {
    isTimed = true
    after(deadlineMs - steadyMs(), () => {
      after(GRACE_MS, expire)
    })
  }

  /**
   * Refuses the commands that have waited too long. It runs once for the deadline of the oldest one, not once for each
   * command.
   */
  function expire () {
    const nowMs = steadyMs()
    for (const command of pending) {
      if (command.deadlineMs > nowMs) return expireAt(command.deadlineMs)
      fail('timeout')
      conclude(command, undefined)
    }
    isTimed = false
  }

  function send (command: Command) {
    link.set(command.key, command.ttlSeconds, command.ifAbsent, (error, reply) => {
      if (!error && (reply === 'OK' || reply === null)) return conclude(command, reply === 'OK')
      // A late answer is ignored here: its timeout was reported. A broken connection reports its own reason.
      if (pending.has(command) && link.ready) fail(error ? faultOf(error) ?? 'unreachable' : 'not_redis')
      conclude(command, undefined)
    })
  }

  /** Gives the answer once. undefined means that there was no clear answer. */
  function conclude (command: Command, first: boolean | undefined) {
    if (!pending.delete(command)) return
    if (first === undefined) {
      if (command.ifAbsent) refused++
      return command.done(new Refusal('replay_unavailable'))
    }
    if (!first) seen++
    command.done(null, first)
  }

  /** Asks whether the server would rather refuse a record than forget one. */
  function askPolicy () {
    if (isAsking) return
    isAsking = true
    link.memoryInfo(answers => {
      isAsking = false
      if (link.ready && fault !== 'closed') judgePolicy(answers)
    })
  }

  /** Judges the answers. This is the last step before a connection is used, and it can also end its use. */
  function judgePolicy (answers: readonly MemoryAnswer[]) {
    const policy = policyOf(answers)
    if (policy === null) return answers.slice(0, 1).forEach(({ error }) => fail(faultOf(error!)))
    if (policy === 'evicts') {
      fail('evicts')
      usable = false
      return
    }
    if (policy === 'unknown' && !isPolicyUnknown) onPolicyUnknown()
    isPolicyUnknown = policy === 'unknown'
    if (usable) return
    usable = true
    // Later, what is pending has been sent: it must not be sent twice.
    if (fault === 'connecting') [...pending].forEach(send)
    probe()
  }

  function probe () {
    begin({
      key: PROBE_KEY,
      ttlSeconds: PROBE_TTL_SECONDS,
      ifAbsent: false,
      deadlineMs: steadyMs() + RECORD_MS,
      done: probed
    })
  }

  function refusePending () {
    for (const command of pending) conclude(command, undefined)
  }

  function probed (refusal: Refusal | null) {
    if (refusal || fault === null || steadyMs() - faultAt < CALM_MS) return
    fault = null
    onChange(null)
  }

  /** The server may refuse to write, and its policy may change, while it runs. */
  function beat () {
    beats++
    if (!link.ready || (fault === null && beats % BEATS_WHILE_UP !== 0)) return
    askPolicy()
    if (usable) probe()
  }

  function fail (reason: RedisFault | null) {
    // An error without a reason comes just before the connection closes. The close is reported as well.
    if (fault === 'closed' || reason === null) return
    if (link.ready) faultAt = steadyMs()
    if (fault === reason) return
    // What was sent on a usable connection gets an answer or an error of its own.
    const isWaiting = fault === 'connecting' && !usable
    fault = reason
    if (isWaiting) refusePending()
    onChange(reason)
  }

  /** The connection has closed. An error may have named the reason before. */
  function lose () {
    faultAt = -Infinity
    if (fault === null || fault === 'connecting') fail('unreachable')
    usable = false
  }

  return {
    record (id, _jkt, expiresAt, done) {
      records++
      const ttlSeconds = Math.min(Math.ceil(expiresAt - now()) + LATE_RECORD_SECONDS, MAX_TTL_SECONDS)
      const isTaken = usable || (fault === 'connecting' && pending.size < MAX_WAITING)
      if (!isTaken || !(ttlSeconds > 0)) {
        refused++
        return done(new Refusal('replay_unavailable'))
      }
      begin({
        key: PREFIX + Buffer.from(id.slice(0, KEY_BYTES), 'latin1').toString('base64url'),
        ttlSeconds,
        ifAbsent: true,
        deadlineMs: steadyMs() + (usable ? RECORD_MS : FIRST_RECORD_MS),
        done
      })
    },
    state: () => ({
      kind: 'redis',
      ready: fault === null,
      reason: fault ?? (isPolicyUnknown ? 'policy_unknown' : undefined),
      records,
      seen,
      refused
    }),
    close () {
      fault = 'closed'
      usable = false
      stopHeart()
      refusePending()
      link.close()
    }
  }
}
