import type { LogPosition } from './cutoffs.ts'
import type { RevocationEntry } from './entry.ts'
import type { OnRevocationEntry } from './log.ts'

/** The stream of entries. The names share a slot of a cluster. */
export const LOG = '{holdfast:revocation}:log'
/** Blocks outlive the log, whose old entries are trimmed. */
export const BLOCKS = '{holdfast:revocation}:blocks'
/** Entries of one answer. */
export const PAGE = 1000

/** The id of an entry, and its fields: `e` and the entry as JSON. */
export type Row = readonly [id: string, fields: readonly string[]]

/** A command to Redis. Rejects if there is no answer. */
export type RedisCall = (command: string, ...args: string[]) => Promise<unknown>

/** Reads all of the log, oldest first. */
export async function readRows (call: RedisCall, onRow: (row: Row) => void): Promise<void> {
  let from = '-'
  for (;;) {
    const rows = await call('xrange', LOG, from, '+', 'COUNT', String(PAGE)) as Row[]
    rows.forEach(onRow)
    if (rows.length < PAGE) return
    from = `(${rows.at(-1)![0]}`
  }
}

/** Reads the blocks. They are to be taken after the log: what stands there now is not undone by anything in the log so far. */
export async function readBlocks (call: RedisCall): Promise<(onEntry: OnRevocationEntry) => void> {
  const blocks = await call('hgetall', BLOCKS) as string[] | Record<string, string>
  const [newest] = await call('xrevrange', LOG, '+', '-', 'COUNT', '1') as Row[]
  const position = newest?.[0] ?? '0-0'
  return onEntry => {
    for (const text of valuesOf(blocks)) takeEntry([position, ['e', text]], onEntry)
  }
}

/** Passes an entry on, unless no instance of this version has written it. */
export function takeEntry ([id, [, text]]: Row, onEntry: OnRevocationEntry): void {
  const entry = parseEntry(text!)
  if (entry) onEntry(entry, positionOf(id))
}

/** The id of Redis, `milliseconds-sequence`, as a text that sorts like it. */
export function positionOf (id: string): LogPosition {
  const [ms, sequence] = id.split('-')
  return `${ms!.padStart(16, '0')}-${sequence!.padStart(12, '0')}`
}

function valuesOf (hash: string[] | Record<string, string>): string[] {
  return Array.isArray(hash) ? hash.filter((_, index) => index % 2 === 1) : Object.values(hash)
}

/** Undefined for what no instance of this version has written. */
function parseEntry (text: string): RevocationEntry | undefined {
  try {
    const { key, effect, at, recordedAt, event, source } = JSON.parse(text)
    const isUsable = typeof key === 'string' && typeof effect === 'string' && typeof at === 'number' && typeof recordedAt === 'number'
    return isUsable ? { key, effect, at, recordedAt, event, source } as RevocationEntry : undefined
  } catch {
    return undefined
  }
}
