import type { Cluster, Redis } from 'ioredis'
import type { LogPosition, OnRevocationEntry, RevocationEntry } from './log.ts'

/** The stream of entries. The names share a slot of a cluster. */
export const LOG = '{holdfast:revocation}:log'
/** Blocks outlive the log, whose old entries are trimmed. */
export const BLOCKS = '{holdfast:revocation}:blocks'
/** A random text that is lost with the data, and never written twice: that it changes shows that a server was emptied. */
export const EPOCH = '{holdfast:revocation}:epoch'
/** Exists while instances may still be restoring what an emptied server has lost. */
export const SETTLING = '{holdfast:revocation}:settling'
/** Entries of one answer. */
export const PAGE = 1000

/** KEYS: log, blocks, epoch, settling. ARGV: seconds to keep, a new epoch, milliseconds to settle, entries. The clock is the server's: an instance with a wrong one must not trim. */
export const APPEND = `
local oldest = (tonumber(redis.call('TIME')[1]) - tonumber(ARGV[1])) * 1000
local ids = {}
for i = 4, #ARGV do
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
if redis.call('SET', KEYS[3], ARGV[2], 'NX') then redis.call('SET', KEYS[4], '1', 'PX', ARGV[3]) end
return ids`

/** The id of an entry, and its fields: `e` and the entry as JSON. */
export type Row = readonly [id: string, fields: readonly string[]]

export type RedisClient = Redis | Cluster

/** A command to Redis. Rejects if there is no answer. */
export type RedisCall = (command: string, ...args: string[]) => Promise<unknown>

export function callOf (client: RedisClient): RedisCall {
  return (command, ...args) => (client as Redis).call(command, ...args)
}

/**
 * Reads all of the log, oldest first, then the blocks. Blocks are read before the log and passed on after it, in the place of the entry
 * that was the newest before them: nothing in the log up to there undoes them.
 */
export async function readLog (call: RedisCall, onRow: (row: Row) => void): Promise<void> {
  const newest = (await call('xrevrange', LOG, '+', '-', 'COUNT', '1') as Row[])[0]?.[0] ?? '0-0'
  const found = await call('hgetall', BLOCKS) as string[] | Record<string, string>
  const blocks = Array.isArray(found) ? found.filter((_, index) => index % 2 === 1) : Object.values(found)
  await readRows(call, onRow)
  for (const text of blocks) onRow([newest, ['e', text]])
}

/** Reads all of the log without the blocks, oldest first. */
async function readRows (call: RedisCall, onRow: (row: Row) => void): Promise<void> {
  let from = '-'
  for (;;) {
    const rows = await call('xrange', LOG, from, '+', 'COUNT', String(PAGE)) as Row[]
    rows.forEach(onRow)
    if (rows.length < PAGE) return
    from = `(${rows.at(-1)![0]}`
  }
}

/** Passes an entry on, unless no instance of this version has written it. */
export function takeEntry ([id, [, text]]: Row, losses: number, onEntry: OnRevocationEntry): void {
  let entry: RevocationEntry
  try {
    const { key, effect, at, recordedAt, event, source, sender = '', standing = 'other' } = JSON.parse(text!)
    if (typeof key !== 'string' || typeof effect !== 'string' || !Number.isFinite(at) || !Number.isFinite(recordedAt)) return
    entry = { key, effect: effect as RevocationEntry['effect'], at, recordedAt, event, source, sender, standing }
  } catch {
    return
  }
  onEntry(entry, positionOf(id, losses))
}

/** The later of two ids. */
export function newerOf (one: string, other: string): string {
  return positionOf(other, 0) > positionOf(one, 0) ? other : one
}

/**
 * The id of Redis, `milliseconds-sequence`, as a text that sorts like it, and that is one piece in memory.
 * @param losses times that the data were lost: an id of before and one of after do not compare
 */
export function positionOf (id: string, losses: number): LogPosition {
  const [ms, sequence] = id.split('-')
  return [String(losses).padStart(6, '0'), ms!.padStart(16, '0'), sequence!.padStart(12, '0')].join('-')
}
