import type { RedisCall } from '../../guard/redis/redis-link.ts'
import { isJsonObject } from '../../base/json.ts'
import type { RevocationEntry } from '../entry.ts'
import type { View } from '../view.ts'
import { modeOf } from './memory-store.ts'
import { mergeInto, recordOf, writeRecord, type RevocationRecord } from './record.ts'
import type { RedisCalls } from './redis-calls.ts'
import { PREFIX } from './scripts.ts'

const [LOG, CLOCK, ...OTHERS] = ['log', 'clock', 'cleaned', 'epoch'].map(name => PREFIX + name) as [string, string]
const PAGE = 500

/** A row of the log. `also`: the moment of the logins that a cutoff ends too, or at which a block was lifted. */
type Row = RevocationEntry & { readonly also?: number, readonly t: number }

/**
 * Makes records of the log of the version before, in which each event was a row, and then removes it. It may be done
 * again, and by many instances at once: records merge. Returns true.
 * @param onTakeOver called if there was one
 */
export async function takeOverLog (
  { call, calls, view }: { call: RedisCall, calls: RedisCalls, view: View },
  onTakeOver: (() => void) | undefined
): Promise<true> {
  if (await call('exists', LOG) === 0) return true
  const clockMs = Number(await call('get', CLOCK))
  const records = new Map<string, RevocationRecord>()
  for (let from = '-', isMore = true; isMore;) {
    const rows = await call('xrange', LOG, from, '+', 'COUNT', PAGE) as ReadonlyArray<
      readonly [id: string, fields: readonly string[]]
    >
    for (const row of rows.flatMap(([, [, text = '']]) => readRow(text))) {
      const heard = Math.ceil(view.seconds() - Math.max(0, clockMs - row.t) / 1000)
      for (const entry of entriesOf(row, view.issuers)) {
        const record = recordOf(entry, { heard, life: view.lifeSeconds, now: row.t / 1000 })
        records.set(entry.key, mergeInto(records.get(entry.key), record, modeOf(entry), { seconds: heard, unixMs: 0 }))
      }
    }
    from = `(${rows.at(-1)?.[0]}`
    isMore = rows.length === PAGE
  }
  const all = [...records]
  for (let n = 0; n < all.length; n += PAGE) {
    const given = all.slice(n, n + PAGE).map(([key, record]) => ['restore', key, writeRecord(record)] as const)
    if (await calls.merge(call, given) === undefined) throw new Error('the store was emptied')
  }
  await call('unlink', LOG, CLOCK, ...OTHERS)
  onTakeOver?.()
  return true
}

function readRow (text: string): Row[] {
  try {
    const row: unknown = JSON.parse(text)
    return isJsonObject(row) && typeof row.key === 'string' && Number.isFinite(row.at) && Number.isFinite(row.t)
      ? [row as unknown as Row]
      : []
  } catch {
    return []
  }
}

/** What a row says, one thing at a time. */
function entriesOf (row: Row, issuers: readonly string[]): RevocationEntry[] {
  const { also, effect } = row
  // A long key did not say its issuer.
  const keys = row.key.startsWith('[') || effect === 'state' ? [row.key] : issuers.map(name => `${row.key} ${name}`)
  return keys.flatMap(key => [
    { ...row, key },
    ...also === undefined
      ? []
      : [{ ...row, key, effect: effect === 'block' ? 'enable' : 'login', at: also } as const]
  ])
}
