import type { Cluster, Redis } from 'ioredis'
import { faultOf } from '../replay/redis/redis-faults.ts'
import type { LinkListeners } from '../replay/redis/redis-link.ts'
import type { Surroundings } from '../surroundings.ts'
import { RevocationLogError } from './log.ts'
import type { OnRevocationEntry, RevocationEntry, RevocationLog } from './log.ts'
import { BLOCKS, LOG, PAGE, positionOf, readLog, readRows, takeEntry } from './redis-entries.ts'
import type { Row } from './redis-entries.ts'

/** A random text that is lost with the data, which shows that a server was emptied. */
const EPOCH = '{holdfast:revocation}:epoch'
const LEADER = '{holdfast:revocation}:leader:'

/** A wait for new entries. It is shorter than the time after which the connection counts as dead. */
const BLOCK_MS = 200
const APPEND_MS = 1000
const RETRY_MS = 100
/** An instance that finds no data cannot know whether others are about to restore theirs, each as soon as it has connected again. */
const SETTLE_MS = 3 * BLOCK_MS

/** KEYS: log, blocks, epoch. ARGV: seconds to keep, a new epoch, entries. The clock is the server's: an instance with a wrong one must not trim. */
const APPEND = `
local oldest = (tonumber(redis.call('TIME')[1]) - tonumber(ARGV[1])) * 1000
local ids = {}
for i = 3, #ARGV do
  local entry = cjson.decode(ARGV[i])
  ids[#ids + 1] = redis.call('XADD', KEYS[1], 'MINID', '~', string.format('%.0f', math.max(oldest, 0)), '*', 'e', ARGV[i])
  if entry.effect == 'undo' then
    redis.call('HDEL', KEYS[2], 'block ' .. entry.key, 'enable ' .. entry.key)
  elseif entry.effect == 'block' or entry.effect == 'enable' then
    local field = entry.effect .. ' ' .. entry.key
    local known = redis.call('HGET', KEYS[2], field)
    if not known or cjson.decode(known).at <= entry.at then redis.call('HSET', KEYS[2], field, ARGV[i]) end
  end
end
redis.call('SET', KEYS[3], ARGV[2], 'NX')
return ids`

/** KEYS: leader. ARGV: this instance, milliseconds. */
const LEAD = `
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

type Client = Redis | Cluster

export interface RedisLogOptions {
  /** Opens a connection; see `openRedisClient`. */
  readonly open: (listeners: LinkListeners) => { readonly client: Client, readonly close: () => void }
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
  const instance = randomBytes(12).toString('base64url')
  /** When the log last answered. Negative infinity until all of it was read. */
  let heardMs = -Infinity
  let fault: string | null | undefined
  let epoch: string | null = null
  let lastId = '0-0'
  let isClosed = false
  /** Counts the connections of the reader. Work of an earlier one must not go on. */
  let turn = 0
  const isCurrent = (own: number): boolean => own === turn && !isClosed
  const isLoaded = (): boolean => heardMs !== -Infinity
  const ageMs = (): number => steadyMs() - heardMs

  const writer = open({ ready () {}, error () {}, close () {} })
  const reader = open({
    ready () { follow(++turn) },
    error: fail,
    close () {
      turn++
      report(fault ?? 'unreachable')
    }
  })

  /** An error that only says that there is no connection hides no reason that is known. */
  function fail (error: Error): void {
    report(faultOf(error) ?? fault ?? 'unreachable')
  }

  function report (now: string | null): void {
    if (isClosed || now === fault || (now === null && fault === undefined)) return
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

  async function load (own: number): Promise<void> {
    const found = await call('get', EPOCH) as string | null
    const newest = lastId
    // A replica that was promoted may lack the last entries, and a server that was emptied lacks all.
    const isWhole = isLoaded() && found === epoch && (newest === '0-0' || (await call('xrange', LOG, newest, newest) as Row[]).length > 0)
    if (isLoaded() && !isWhole) {
      const entries = kept()
      for (let i = 0; i < entries.length; i += PAGE) await write(reader.client, entries.slice(i, i + PAGE))
      // The clock of another server may be behind, and so may its ids.
      lastId = '0-0'
    }
    const askedMs = steadyMs()
    await readLog(call, takeRow)
    if (found === null) {
      await call('set', EPOCH, instance, 'NX')
      if (!isLoaded()) await pause(SETTLE_MS)
      await readRows(call, takeRow)
    }
    // The epoch found at first: if the data were lost during the reading, the next look at the epoch shows it.
    const current = found ?? await call('get', EPOCH) as string | null
    if (!isCurrent(own)) return
    epoch = current
    heard(askedMs)
  }

  async function readNews (own: number): Promise<void> {
    const askedMs = steadyMs()
    const asked = call('get', EPOCH)
    const came = call('xread', 'COUNT', String(PAGE), 'BLOCK', String(BLOCK_MS), 'STREAMS', LOG, lastId)
    // Both are awaited, so that no rejection is unhandled.
    const [found, streams] = await Promise.all([asked, came]) as [string | null, Array<[string, Row[]]> | null]
    if (!isCurrent(own)) return
    heard(askedMs)
    for (const [, rows] of streams ?? []) rows.forEach(takeRow)
    if (found !== epoch) await load(own)
  }

  /** An answer counts from the moment of its request: it may have waited until this process had time for it. */
  function heard (askedMs: number): void {
    heardMs = askedMs
    report(null)
  }

  function takeRow (row: Row): void {
    takeEntry(row, onEntry)
    if (positionOf(row[0]) > positionOf(lastId)) lastId = row[0]
  }

  function call (command: string, ...args: string[]): Promise<unknown> {
    return (reader.client as Redis).call(command, ...args)
  }

  async function write (client: Client, entries: readonly RevocationEntry[]): Promise<readonly string[]> {
    return await client.eval(APPEND, 3, LOG, BLOCKS, EPOCH, String(Math.ceil(retentionSeconds)), instance, ...entries.map(entry => JSON.stringify(entry))) as string[]
  }

  function pause (ms: number): Promise<void> {
    return new Promise(resolve => { after(ms, resolve) })
  }

  return {
    async append (entries) {
      let ids: readonly string[] | undefined
      try {
        ids = await Promise.race([write(writer.client, entries), pause(APPEND_MS).then(() => undefined)])
      } catch {}
      if (!ids) throw new RevocationLogError('the log of revocations cannot be written')
      entries.forEach((entry, index) => onEntry(entry, positionOf(ids[index]!)))
    },
    async lead (task, seconds) {
      try {
        return await writer.client.eval(LEAD, 1, LEADER + task, instance, String(seconds * 1000)) === 1
      } catch {
        return false
      }
    },
    ageMs,
    state: () => ({ kind: 'redis', isLoaded: isLoaded(), ageSeconds: ageMs() / 1000, fault: fault ?? undefined }),
    close () {
      isClosed = true
      writer.close()
      reader.close()
    }
  }
}
