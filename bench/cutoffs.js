/**
 * What a cutoff costs in memory: bytes for each user with one, and for each session that has ended. Run:
 * `npm run build && node --expose-gc bench/cutoffs.js [number]`. As a child process of the benchmark it sends `{ number, bytesEach, sessionBytesEach }`.
 */
import { createCutoffs } from '../dist/lib/revocation/cutoffs.js'
import { positionOf } from '../dist/lib/revocation/redis-entries.js'
import { keyOf } from '../dist/lib/revocation/target.js'

const number = Number(process.argv[2] ?? 1_000_000)
if (!globalThis.gc) {
  console.error('node --expose-gc is needed to tell bytes from garbage')
  process.exit(1)
}

const now = 1_800_000_000

function measure (kind, effect) {
  const cutoffs = createCutoffs({ max: number, retentionSeconds: 86_400, now: () => now })
  globalThis.gc()
  const before = process.memoryUsage().heapUsed
  for (let n = 0; n < number; n++) {
    // As it comes from the log: each text is new.
    const { key, event, source } = JSON.parse(JSON.stringify({ key: keyOf([kind, 'https://tenant.example/', `f81d4fae-7dec-11d0-a765-${String(n).padStart(12, '0')}`]), event: 'session-revoked', source: 'https://tenant.example/' }))
    cutoffs.apply({ key, effect, at: now, recordedAt: now, event, source }, positionOf(`${now * 1000}-${n}`, 0))
  }
  globalThis.gc()
  const bytes = (process.memoryUsage().heapUsed - before) / number
  if (cutoffs.size() !== number) throw new Error(`${cutoffs.size()} are kept`)
  return bytes
}

const result = { number, bytesEach: measure('sub', 'cutoff'), sessionBytesEach: measure('sid', 'end') }
if (process.send) process.send(result)
else console.log(result)
