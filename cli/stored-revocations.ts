import { setTimeout as delay } from 'node:timers/promises'
import { createRevocationView } from '../lib/assembly/create-revocation.ts'
import { reachRedis } from '../lib/redis/reach-redis.ts'
import { faultOf, policyOf } from '../lib/redis/redis-faults.ts'
import type { MemoryAnswer, RedisFault } from '../lib/redis/redis-faults.ts'
import type { RedisCall, RedisLink } from '../lib/redis/redis-link.ts'
import { createMemoryLog } from '../lib/revocation/log.ts'
import { PAGE, readEntry } from '../lib/revocation/redis-entries.ts'
import type { RevocationEntry } from '../lib/revocation/log.ts'
import { LOG } from '../lib/revocation/redis-scripts.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { RedisPlace } from '../lib/redis/redis-url.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'

const LONGEST_MS = 2000
const STEP_MS = 25

/** The commands that instances send, in scripts and beside them. A user of Redis needs the right to each. */
export const COMMANDS = [
  'EVAL',
  'GET',
  'PTTL',
  'SET',
  'TIME',
  'XADD',
  'XDEL',
  'XLEN',
  'XRANGE',
  'XREAD',
  'XREVRANGE'
] as const

/**
 * Tries each command at a key of its own, which is gone after a second. That it holds no stream is an error too, and
 * one that says nothing of rights.
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
try('PTTL', key)
try('XADD', key, '1-1', 'e', '1')
try('XLEN', key)
try('XRANGE', key, '-', '+')
try('XREVRANGE', key, '+', '-')
try('XREAD', 'STREAMS', key, '0')
try('XDEL', key, '1-1')
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
  const { cutoffs, judge } = createRevocationView({ ...revocation, outage: 'serve' }, {
    ...settings.idp,
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
export function readStore (
  store: RedisPlace,
  onEntry: (entry: RevocationEntry) => void
): Promise<string | undefined> {
  return using(
    store,
    ({ call }) => readLog(call, onEntry),
    ({ message }, hosts) => `Redis at ${hosts.join(', ')}: ${message}`
  )
}

/** Reads all of the log by commands that change nothing, oldest first. */
async function readLog (call: RedisCall, onEntry: (entry: RevocationEntry) => void): Promise<undefined> {
  for (let from = '-'; ;) {
    const rows = await call('xrange', LOG, from, '+', 'COUNT', PAGE) as ReadonlyArray<
      readonly [id: string, fields: readonly string[]]
    >
    for (const [, [, text]] of rows) {
      const stored = readEntry(text ?? '')
      if (stored) onEntry(stored)
    }
    if (rows.length < PAGE) return
    from = `(${rows.at(-1)![0]}`
  }
}

/** What was found of a Redis that is to hold revocations. */
export interface TriedStore {
  /** Why instances cannot use it, or that it does not say whether it evicts. */
  readonly reason?: RedisFault | 'policy_unknown' | undefined
  /** Commands that the user has no right to. */
  readonly lacking: readonly string[]
}

/** Tries whether a Redis keeps what is written, and whether its user has the right to all that instances do there. */
export function tryStore (store: RedisPlace): Promise<TriedStore> {
  return using(store, async link => {
    const policy = policyOf(await new Promise<readonly MemoryAnswer[]>(resolve => link.memoryInfo(resolve)))
    const replies = await link.call('eval', TRY_COMMANDS, 1, '{holdfast:revocation}:probe') as ReadonlyArray<
      readonly [name: string, error: string]
    >
    const refused = replies.map(([command, message]) => ({
      command,
      fault: faultOf(Object.assign(new Error(message), { name: 'ReplyError' }))!
    }))
    const other = refused.find(({ fault }) => fault !== 'auth' && fault !== 'refused_write')?.fault
    return {
      reason: policy === 'evicts' ? policy : other ?? (policy === 'keeps' ? undefined : 'policy_unknown'),
      lacking: refused.filter(({ fault }) => fault === 'auth').map(({ command }) => command)
    }
  }, error => ({ reason: faultOf(error) ?? 'unreachable', lacking: [] }))
}

/** @param failing says what it means that there is no connection, or that `work` rejects */
async function using<Found> (
  store: RedisPlace,
  work: (link: RedisLink) => Promise<Found>,
  failing: (error: Error, hosts: readonly string[]) => Found
): Promise<Found> {
  const { hosts, open } = await reachRedis(store, 'revocation.store', processSurroundings)
  let last = new Error('no answer')
  const link = open({
    ready () {},
    error (error) {
      last = error
    },
    close () {}
  })
  try {
    for (let waitedMs = 0; waitedMs < LONGEST_MS && !link.ready; waitedMs += STEP_MS) await delay(STEP_MS)
    return link.ready ? await work(link) : failing(last, hosts)
  } catch (error) {
    return failing(error as Error, hosts)
  } finally {
    link.close()
  }
}
