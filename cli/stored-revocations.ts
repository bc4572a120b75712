import { setTimeout as delay } from 'node:timers/promises'
import { createRevocationView } from '../lib/assembly/create-revocation.ts'
import { reachRedis } from '../lib/guard/redis/reach-redis.ts'
import { faultOf, policyOf, type MemoryAnswer, type RedisFault } from '../lib/guard/redis/redis-faults.ts'
import type { RedisLink } from '../lib/guard/redis/redis-link.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { RedisPlace } from '../lib/guard/redis/redis-url.ts'
import { createMemoryStore } from '../lib/revocation/store/memory-store.ts'
import { readRecord, writeRecord, type RevocationRecord } from '../lib/revocation/store/record.ts'
import { readPage } from '../lib/revocation/store/redis-calls.ts'
import { PREFIX, STATE } from '../lib/revocation/store/scripts.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { processSurroundings } from '../server/surroundings.ts'

/** Stores try again four times a second. */
const LONGEST_MS = 2000
const PROBES = ['text', 'hash', 'stream'].map(type => `${PREFIX}probe:${type}`)
const STEP_MS = 25

/**
 * Tries each command at keys of its own, which are gone at the end. KEYS: a text, a hash, a stream. Returns what was
 * refused: pairs of a name and its error.
 */
const TRY_COMMANDS = `
local refused = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then refused[#refused + 1] = { name, reply.err } end
end
local text, hash, stream = KEYS[1], KEYS[2], KEYS[3]
try('TIME')
try('INFO', 'server')
try('SET', text, '1', 'PX', '1000')
try('GET', text)
try('PTTL', text)
try('EXISTS', text)
try('HSET', hash, 'f', '1')
try('HSETNX', hash, 'f', '1')
try('HGET', hash, 'f')
try('HMGET', hash, 'f')
try('HGETALL', hash)
try('HSCAN', hash, '0')
try('HDEL', hash, 'f')
try('XADD', stream, '1-1', 'e', '1')
try('XLEN', stream)
try('XRANGE', stream, '-', '+')
try('XREAD', 'STREAMS', stream, '0')
try('XTRIM', stream, 'MAXLEN', '0')
try('UNLINK', text, hash, stream)
return refused`

/** The commands that instances send, in scripts and beside them. A user of Redis needs the right to each. */
export const COMMANDS = ['EVAL', ...Array.from(TRY_COMMANDS.matchAll(/^try\('(\w+)'/gm), ([, name]) => name!)].sort()

/**
 * What stood in the store of revocations at a time. A sentence if it cannot be read. It is undefined if it is the
 * memory of the service, or if nothing can be revoked. Nothing is written.
 * @param now Unix seconds
 */
export async function readStoredRevocations (
  settings: Settings,
  now: number
): Promise<Pick<Revocations, 'refusalOf'> | string | undefined> {
  const { revocation } = settings
  if (!revocation || revocation.store === 'memory') return undefined
  const earlier = Date.now() / 1000 - now
  let seconds = 0
  const { view, judge } = createRevocationView({ ...revocation, outage: 'serve' }, {
    ...settings.idp,
    now: () => now,
    agreedNow: () => now,
    seconds: () => seconds
  })
  const fault = await readStore(revocation.store, (key, record, clockSeconds) => {
    seconds = clockSeconds - earlier
    // What arrived later, the service did not know then.
    const parts = record.parts.filter(({ heard }) => heard <= Math.ceil(seconds))
    view.take(key, writeRecord({ ...record, parts }), 0, false)
  })
  return fault === undefined
    ? judge(createMemoryStore(view, { now: () => now }))
    : `The store of revocations cannot be read: ${fault}.`
}

/**
 * Reads the records of a Redis once. Returns what stood in the way.
 * @param onRecord gets the seconds of the clock of the store too
 */
export function readStore (
  store: RedisPlace,
  onRecord: (key: string, record: RevocationRecord, clockSeconds: number) => void
): Promise<string | undefined> {
  return using(
    store,
    async ({ call }) => {
      const [clockMs] = await call('hmget', STATE, 'clock') as [string | null]
      for (let cursor = ''; cursor !== '0';) {
        const { next, found } = await readPage(call, cursor || '0')
        for (let n = 0; n < found.length; n += 2) {
          const record = readRecord(found[n + 1]!)
          if (record) onRecord(found[n]!, record, Number(clockMs) / 1000)
        }
        cursor = next
      }
      return undefined
    },
    ({ message }, hosts) => `Redis at ${hosts.join(', ')}: ${message}`
  )
}

/** What was found of a Redis that is to hold revocations. */
interface TriedStore {
  /** Why instances cannot use it, or that it does not say whether it evicts. */
  readonly reason?: RedisFault | 'policy_unknown'
  /** Commands that the user has no right to. */
  readonly lacking: readonly string[]
}

/** Tries whether a Redis keeps what is written, and whether its user has the right to all that instances do there. */
export function tryStore (store: RedisPlace): Promise<TriedStore> {
  return using(store, async link => {
    const policy = policyOf(await new Promise<readonly MemoryAnswer[]>(resolve => link.memoryInfo(resolve)))
    const replies = await link.call('eval', TRY_COMMANDS, 3, ...PROBES) as ReadonlyArray<
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

/** Waits for a store, but not for long. Resolves with whether it is ready. */
export async function isSoon (isReady: () => boolean): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < LONGEST_MS && !isReady(); waitedMs += STEP_MS) await delay(STEP_MS)
  return isReady()
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
    return await isSoon(() => link.ready) ? await work(link) : failing(last, hosts)
  } catch (error) {
    return failing(error as Error, hosts)
  } finally {
    link.close()
  }
}
