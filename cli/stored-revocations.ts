import { setTimeout as delay } from 'node:timers/promises'
import { createRevocationView } from '../lib/assembly/create-revocation.ts'
import { hostsOf, parseReplayUrl } from '../lib/replay/redis/replay-url.ts'
import { createMemoryLog } from '../lib/revocation/log.ts'
import { callOf, readLog } from '../lib/revocation/redis-entries.ts'
import type { RevocationEntry } from '../lib/revocation/log.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { Settings } from '../lib/settings/settings.ts'

const LONGEST_MS = 2000
const STEP_MS = 25

/**
 * What stood in the store of revocations at a time. A sentence if it cannot be read. Undefined if it is the memory of the service, or if
 * nothing can be revoked. Nothing is written.
 * @param now Unix seconds
 */
export async function readStoredRevocations (settings: Settings, now: number): Promise<Pick<Revocations, 'refusalOf'> | string | undefined> {
  const { revocation } = settings
  if (!revocation || revocation.store === 'memory') return undefined
  const { cutoffs, judge } = createRevocationView({ ...revocation, outage: 'serve' }, settings, { now: () => now, steadyMs: () => now * 1000 })
  // What was recorded later, the service did not know then.
  const fault = await readStore(revocation.store, entry => { if (entry.recordedAt <= now) cutoffs.apply(entry, now - entry.recordedAt, 0) })
  return fault === undefined ? judge(createMemoryLog(cutoffs.apply)) : `The store of revocations cannot be read: ${fault}.`
}

/** Reads the log of a Redis once. Returns what stood in the way. */
export async function readStore (store: string, onEntry: (entry: RevocationEntry) => void): Promise<string | undefined> {
  const target = parseReplayUrl(store)
  const { openRedisClient } = await import('../lib/replay/redis/redis-link.ts')
  const link = { isReady: false, fault: 'no answer' }
  const { client, close } = openRedisClient(target, { ready () { link.isReady = true }, error ({ message }) { link.fault = message }, close () {} }, () => performance.now())
  try {
    for (let waitedMs = 0; waitedMs < LONGEST_MS && !link.isReady; waitedMs += STEP_MS) await delay(STEP_MS)
    if (!link.isReady) return `Redis at ${hostsOf(target).join(', ')}: ${link.fault}`
    await readLog(callOf(client), onEntry)
    return undefined
  } catch (error) {
    return `Redis at ${hostsOf(target).join(', ')}: ${(error as Error).message}`
  } finally {
    close()
  }
}
