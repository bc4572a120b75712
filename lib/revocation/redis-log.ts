import { faultOf } from '../replay/redis/redis-faults.ts'
import type { LinkListeners } from '../replay/redis/redis-link.ts'
import type { Surroundings } from '../surroundings.ts'
import { RevocationLogError } from './log.ts'
import type { OnRevocationEntry, RevocationEntry, RevocationLog } from './log.ts'
import { APPEND, BLOCKS, callOf, EPOCH, LOG, newerOf, PAGE, positionOf, readLog, SETTLING, takeEntry } from './redis-entries.ts'
import type { RedisCall, RedisClient, Row } from './redis-entries.ts'

const LEADER = '{holdfast:revocation}:leader:'

/** A wait for new entries. It is shorter than the time after which the connection counts as dead. */
const BLOCK_MS = 200
const APPEND_MS = 1000
const RETRY_MS = 100
/** An instance that is connected looks at the epoch this often at least, and one that is not tries to connect each 500 ms. */
const SETTLE_MS = 3 * BLOCK_MS
const SETTLE_STEP_MS = 50

/** KEYS: leader. ARGV: this instance, milliseconds. */
const LEAD = `
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

export interface RedisLogOptions {
  /** Opens a connection; see `openRedisClient`. */
  readonly open: (listeners: LinkListeners) => { readonly client: RedisClient, readonly close: () => void }
  readonly surroundings: Pick<Surroundings, 'steadyMs' | 'after' | 'randomBytes'>
  /** Seconds for which an entry is kept. */
  readonly retentionSeconds: number
  readonly onEntry: OnRevocationEntry
  /** All that this process keeps, for a server that has lost it. */
  readonly kept: () => readonly RevocationEntry[]
  /** Called once for each change: with the fault if the log cannot be read, with null if it can. */
  readonly onChange: (fault: string | null) => void
}

/**
 * A log that instances share: a stream in Redis, which each instance reads from its own place, all of it at its start and after each new
 * connection. Publish and subscribe alone would lose what is published while an instance is away.
 */
export function createRedisLog ({ open, surroundings, retentionSeconds, onEntry, kept, onChange }: RedisLogOptions): RevocationLog {
  const { steadyMs, after, randomBytes } = surroundings
  const instance = randomText()
  /** When the log last answered. Negative infinity until all of it was read, and while it gets back what it has lost. */
  let heardMs = -Infinity
  /** Why the log cannot be read. */
  let fault: string | null = null
  /** Of the data that is read. Null until it was found. */
  let epoch: string | null = null
  /** Counts the losses of data that this process has seen. The ids of what was lost do not compare with new ones. */
  let losses = 0
  /** Up to which entry the log was read. */
  let lastId = '0-0'
  /** The newest entry that this process has read or written. */
  let newestId = '0-0'
  let isClosed = false
  /** Counts the connections of the reader. Work of an earlier one must not go on. */
  let turn = 0
  const isCurrent = (own: number): boolean => own === turn && !isClosed

  const writer = open({ ready () {}, error () {}, close () {} })
  const reader = open({
    ready () { follow(++turn) },
    error: fail,
    close () {
      turn++
      report(fault ?? 'unreachable')
    }
  })
  const call = callOf(reader.client)
  const callWriter = callOf(writer.client)

  /** An error that only says that there is no connection hides no reason that is known. */
  function fail (error: Error): void {
    report(faultOf(error) ?? fault ?? 'unreachable')
  }

  function report (now: string | null): void {
    if (isClosed || now === fault) return
    fault = now
    onChange(now)
  }

  /** Reads all entries, then new ones, until the connection ends. */
  async function follow (own: number): Promise<void> {
    try {
      await load(own)
      while (isCurrent(own)) await readNews(own)
    } catch (error) {
      if (!isCurrent(own)) return
      fail(error as Error)
      after(RETRY_MS, () => { if (isCurrent(own)) follow(++turn) })
    }
  }

  /** Reads all of the log, after all instances had the time to restore what it has lost. */
  async function load (own: number): Promise<void> {
    const found = await findEpoch()
    if (newestId !== '0-0' && !(found === epoch && await hasNewest())) await restore()
    epoch = found
    // Entries may be missing although the epoch is there, as after a restart from an older copy: whoever has them needs time to connect.
    if (heardMs === -Infinity) await pause(SETTLE_MS)
    while (await call('get', SETTLING) !== null) {
      heardMs = -Infinity
      await pause(SETTLE_STEP_MS)
    }
    const askedMs = steadyMs()
    await readLog(call, takeRow)
    // Data that were lost meanwhile may be those of others, which this process has not read.
    const isWhole = await call('get', EPOCH) === found
    if (!isCurrent(own)) return
    if (isWhole) heard(askedMs)
    else await load(own)
  }

  /** The epoch of the data. Whoever finds none begins one. */
  async function findEpoch (): Promise<string> {
    for (;;) {
      const found = await call('get', EPOCH) as string | null
      if (found !== null) return found
      await keepWaiting()
      await call('set', EPOCH, randomText(), 'NX')
    }
  }

  /** A replica that was promoted may lack the last entries. */
  async function hasNewest (): Promise<boolean> {
    return (await call('xrange', LOG, newestId, newestId) as Row[]).length > 0
  }

  /** Writes all that this process keeps to a server that has lost it. No view counts as whole until a while after the last such write. */
  async function restore (): Promise<void> {
    heardMs = -Infinity
    losses++
    // Before the entries are listed, which may take a while.
    await keepWaiting()
    const entries = kept()
    let written = '0-0'
    for (let i = 0; i < entries.length; i += PAGE) {
      await keepWaiting()
      written = (await write(call, entries.slice(i, i + PAGE))).at(-1)!
    }
    // The clock of another server may be behind, and so may its ids.
    lastId = '0-0'
    newestId = written
  }

  async function readNews (own: number): Promise<void> {
    const askedMs = steadyMs()
    const asked = call('get', EPOCH)
    const settling = call('get', SETTLING)
    const came = call('xread', 'COUNT', String(PAGE), 'BLOCK', String(BLOCK_MS), 'STREAMS', LOG, lastId)
    // All are awaited, so that no rejection is unhandled.
    const [found, restoring, streams] = await Promise.all([asked, settling, came]) as [string | null, string | null, Array<[string, Row[]]> | null]
    if (!isCurrent(own)) return
    if (found !== epoch) return await load(own)
    const rows = streams?.[0]?.[1] ?? []
    rows.forEach(takeRow)
    if (restoring !== null) heardMs = -Infinity
    // After a whole page there may be more.
    else if (rows.length < PAGE) heard(askedMs)
  }

  /** An answer counts from the moment of its request: it may have waited until this process had time for it. */
  function heard (askedMs: number): void {
    heardMs = askedMs
    report(null)
  }

  function takeRow (row: Row): void {
    takeEntry(row, losses, onEntry)
    lastId = newerOf(lastId, row[0])
    newestId = newerOf(newestId, row[0])
  }

  /** From now on for a while, no instance takes what is stored for whole. */
  function keepWaiting (): Promise<unknown> {
    return call('set', SETTLING, '1', 'PX', String(SETTLE_MS))
  }

  function randomText (): string {
    return randomBytes(12).toString('base64url')
  }

  /** @returns the ids of the entries */
  async function write (through: RedisCall, entries: readonly RevocationEntry[]): Promise<readonly string[]> {
    const texts = entries.map(entry => JSON.stringify(entry))
    return await through('eval', APPEND, '4', LOG, BLOCKS, EPOCH, SETTLING, String(Math.ceil(retentionSeconds)), randomText(), String(SETTLE_MS), ...texts) as string[]
  }

  function pause (ms: number): Promise<void> {
    return new Promise(resolve => { after(ms, resolve) })
  }

  return {
    async append (entries) {
      const before = losses
      let ids: readonly string[] | undefined
      try {
        ids = await Promise.race([write(callWriter, entries), pause(APPEND_MS).then(() => undefined)])
      } catch {}
      // What was written before a loss of data may be lost, and was not yet among what is restored.
      if (!ids || losses !== before) throw new RevocationLogError('the log of revocations cannot be written')
      newestId = newerOf(newestId, ids.at(-1)!)
      entries.forEach((entry, index) => onEntry(entry, positionOf(ids[index]!, losses)))
    },
    async lead (task, seconds) {
      try {
        return await callWriter('eval', LEAD, '1', LEADER + task, instance, String(seconds * 1000)) === 1
      } catch {
        return false
      }
    },
    ageMs: () => steadyMs() - heardMs,
    fault: () => fault ?? undefined,
    close () {
      isClosed = true
      writer.close()
      reader.close()
    }
  }
}
