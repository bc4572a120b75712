import { setTimeout as delay } from 'node:timers/promises'
import { createRevocationView } from '../lib/assembly/create-revocation.ts'
import { faultOf } from '../lib/redis/redis-faults.ts'
import { hostsOf, parseRedisUrl } from '../lib/redis/redis-url.ts'
import { createMemoryLog } from '../lib/revocation/log.ts'
import { callOf, PAGE, readEntry, readOldBlocks } from '../lib/revocation/redis-entries.ts'
import type { RedisCall } from '../lib/revocation/redis-entries.ts'
import type { RevocationEntry } from '../lib/revocation/log.ts'
import { LOG } from '../lib/revocation/redis-scripts.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { Settings } from '../lib/settings/settings.ts'

const LONGEST_MS = 2000
const STEP_MS = 25

/** The commands that instances send, in scripts and beside them. A user of Redis needs the right to each. */
export const COMMANDS = [
  'EVAL',
  'EXISTS',
  'GET',
  'HDEL',
  'HSCAN',
  'PTTL',
  'SET',
  'TIME',
  'UNLINK',
  'XADD',
  'XDEL',
  'XLEN',
  'XRANGE',
  'XREAD',
  'XREVRANGE'
] as const

/**
 * Tries each command at a key of its own, which is gone then.
 * KEYS: the key. Returns what was refused: pairs of a name and its error.
 */
const TRY_COMMANDS = `
local refused = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then refused[#refused + 1] = { name, reply.err } end
end
local key = KEYS[1]
try('TIME')
try('SET', key, '1', 'PX', '1000')
try('GET', key)
try('EXISTS', key)
try('PTTL', key)
try('UNLINK', key)
try('XADD', key, '1-1', 'e', '1')
try('XLEN', key)
try('XRANGE', key, '-', '+')
try('XREVRANGE', key, '+', '-')
try('XREAD', 'STREAMS', key, '0')
try('XDEL', key, '1-1')
try('UNLINK', key)
try('HDEL', key, 'e')
try('HSCAN', key, '0')
return refused`

/**
 * What stood in the store of revocations at a time. A sentence if it cannot be read. Undefined if it is the memory of
 * the service, or if nothing can be revoked. Nothing is written.
 * @param now Unix seconds
 */
export async function readStoredRevocations (
  settings: Settings,
  now: number
): Promise<Pick<Revocations, 'refusalOf'> | string | undefined> {
  const { revocation } = settings
  if (!revocation || revocation.store === 'memory') return undefined
  const { cutoffs, judge } = createRevocationView({ ...revocation, outage: 'serve' }, settings, {
    now: () => now,
    steadyMs: () => now * 1000
  })
  // What was recorded later, the service did not know then.
  const fault = await readStore(revocation.store, entry => {
    if (entry.recordedAt <= now) cutoffs.apply(entry, now - entry.recordedAt, 0)
  })
  return fault === undefined
    ? judge(createMemoryLog(cutoffs.apply))
    : `The store of revocations cannot be read: ${fault}.`
}

/** Reads the log of a Redis once. Returns what stood in the way. */
export async function readStore (
  store: string,
  onEntry: (entry: RevocationEntry) => void
): Promise<string | undefined> {
  return await calling(store, call => readLog(call, onEntry))
}

/** Reads all of the log by commands that change nothing, oldest first. Blocks of version 1 come first. */
async function readLog (call: RedisCall, onEntry: (entry: RevocationEntry) => void): Promise<void> {
  const take = (text: string | undefined): void => {
    const stored = readEntry(text ?? '')
    if (stored) onEntry(stored)
  }
  await readOldBlocks(call, take)
  for (let from = '-'; ;) {
    const rows = await call('xrange', LOG, from, '+', 'COUNT', String(PAGE)) as ReadonlyArray<
      readonly [id: string, fields: readonly string[]]
    >
    for (const [, [, text]] of rows) take(text)
    if (rows.length < PAGE) return
    from = `(${rows.at(-1)![0]}`
  }
}

/** Tries whether the user of a Redis has the right to all that instances do there. Returns what stands in the way. */
export async function tryRights (store: string): Promise<string | undefined> {
  return await calling(store, async call => {
    const refused = await call('eval', TRY_COMMANDS, '1', '{holdfast:revocation}:probe') as Array<
      readonly [name: string, error: string]
    >
    const names = refused.filter(([, message]) =>
      faultOf(Object.assign(new Error(message), { name: 'ReplyError' })) === 'auth'
    ).map(([name]) => name)
    if (names.length > 0) throw new Error(`the user has no right to ${names.join(', ')}`)
  })
}

/** @param work what it rejects with is said in the sentence that is returned */
async function calling (store: string, work: (call: RedisCall) => Promise<void>): Promise<string | undefined> {
  const target = parseRedisUrl(store)
  const { openRedisClient } = await import('../lib/redis/redis-link.ts')
  const link = { isReady: false, fault: 'no answer' }
  const { client, close } = openRedisClient(target, {
    ready () {
      link.isReady = true
    },
    error ({ message }) {
      link.fault = message
    },
    close () {}
  }, () => performance.now())
  try {
    for (let waitedMs = 0; waitedMs < LONGEST_MS && !link.isReady; waitedMs += STEP_MS) await delay(STEP_MS)
    if (!link.isReady) return `Redis at ${hostsOf(target).join(', ')}: ${link.fault}`
    await work(callOf(client))
    return undefined
  } catch (error) {
    return `Redis at ${hostsOf(target).join(', ')}: ${(error as Error).message}`
  } finally {
    close()
  }
}
