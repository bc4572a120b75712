import { Redis } from 'ioredis'
import { writeEntry } from '../dist/lib/revocation/redis-entries.js'
import { LOG } from '../dist/lib/revocation/redis-scripts.js'
import { keyOf } from '../dist/lib/revocation/target.js'

const BATCH = 2000

/** A connection that outlives a Redis that restarts. */
export const connectRedis = url =>
  new Redis(url, { lazyConnect: true, retryStrategy: times => times > 100 ? null : 50 }).on('error', () => {})

/** How many entries the log has. */
export const logSize = redis => redis.xlen(LOG)

/** Writes entries as instances do, and fast: each of a user of its own, from number `first` on. */
export const writeEntries = async (redis, issuer, first, number, effect) => {
  const now = Math.floor(Date.now() / 1000)
  const sender = issuer.replace(/\/$/, '')
  for (let n = first; n < first + number; n += BATCH) {
    const pipeline = redis.pipeline()
    for (let i = n; i < Math.min(n + BATCH, first + number); i++) {
      pipeline.xadd(
        LOG,
        '*',
        'e',
        writeEntry({
          key: keyOf(['sub', issuer, `f81d4fae-7dec-11d0-a765-${String(i).padStart(12, '0')}`]),
          effect,
          at: now,
          recordedAt: now,
          event: 'session-revoked',
          source: issuer,
          sender,
          standing: 'issuer'
        }, Date.now())
      )
    }
    await pipeline.exec()
  }
}
