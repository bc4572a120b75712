import { Redis } from 'ioredis'
import { recordOf, writeRecord } from '../dist/lib/revocation/store/record.js'
import { RECORDS } from '../dist/lib/revocation/store/scripts.js'
import { keyOf } from '../dist/lib/revocation/target.js'
import { createMint } from './tokens.js'

const BATCH = 2000
/** Users in one request: as many as one subject may name. */
const EACH = 100

/** A connection that outlives a Redis that restarts. */
export const connectRedis = url =>
  new Redis(url, { lazyConnect: true, retryStrategy: times => times > 100 ? null : 50 }).on('error', () => {})

/** How many records the store has. */
export const storeSize = redis => redis.hlen(RECORDS)

/** Writes records as instances do, and fast: each of a user of its own, from number `first` on. */
export const writeRecords = async (redis, issuer, first, number, effect) => {
  const now = Math.floor(Date.now() / 1000)
  const sender = issuer.replace(/\/$/, '')
  for (let n = first; n < first + number; n += BATCH) {
    const pipeline = redis.pipeline()
    for (let i = n; i < Math.min(n + BATCH, first + number); i++) {
      const key = keyOf(['sub', issuer, `f81d4fae-7dec-11d0-a765-${String(i).padStart(12, '0')}`])
      const entry = { key, effect, at: now, event: 'session-revoked', source: issuer, sender, standing: 'issuer' }
      pipeline.hset(RECORDS, key, writeRecord(recordOf(entry, { heard: now, life: 86_410, now })))
    }
    await pipeline.exec()
  }
}

/** Has an operator revoke so many users, none of whom sends a request. */
export const revoke = async (bench, { port }, number) => {
  const authorization = `Bearer ${createMint(bench.provider)({ scope: 'revoke' })}`
  const iss = bench.provider.issuer
  for (let first = 0; first < number; first += EACH) {
    const identifiers = Array.from(
      { length: EACH },
      (_, n) => ({ format: 'iss_sub', iss, sub: `revoked|${first + n}` })
    )
    const { status } = await fetch(`http://127.0.0.1:${port}/revocation/subjects`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ sub_id: { format: 'aliases', identifiers } })
    })
    if (status !== 204) throw new Error(`a revocation was answered ${status}`)
  }
}
