/**
 * What a cutoff costs in memory: bytes for each user with one, and for each session that has ended. Run: `npm run build
 * && node --expose-gc bench/cutoffs.js [number]`. As a child process of the benchmark it sends `{ number, bytesEach,
 * sessionBytesEach }`.
 */
import { recordOf, writeRecord } from '../dist/lib/revocation/store/record.js'
import { keyOf } from '../dist/lib/revocation/target.js'
import { createView } from '../dist/lib/revocation/view.js'

const number = Number(process.argv[2] ?? 1_000_000)
if (!globalThis.gc) {
  console.error('node --expose-gc is needed to tell bytes from garbage')
  process.exit(1)
}

const now = 1_800_000_000
const ISSUER = 'https://tenant.example'

function measure (kind, effect) {
  const view = createView({
    max: number,
    issuers: [ISSUER],
    lifeSeconds: 86_410,
    clockToleranceSeconds: 5,
    now: () => now,
    agreedNow: () => now,
    seconds: () => now
  })
  globalThis.gc()
  const before = process.memoryUsage().heapUsed
  for (let n = 0; n < number; n++) {
    const key = keyOf([kind, ISSUER, `f81d4fae-7dec-11d0-a765-${String(n).padStart(12, '0')}`])
    const entry = { key, effect, at: now, event: 'session-revoked', source: ISSUER, sender: ISSUER, standing: 'issuer' }
    // As it comes from the store: each text is new.
    const text = Buffer.from(writeRecord(recordOf(entry, { heard: now, life: 86_410, now }))).toString()
    view.take(Buffer.from(key).toString(), text, n, true)
  }
  globalThis.gc()
  const bytes = (process.memoryUsage().heapUsed - before) / number
  if (view.size() !== number) throw new Error(`${view.size()} are kept`)
  return bytes
}

const result = { number, bytesEach: measure('sub', 'cutoff'), sessionBytesEach: measure('sid', 'end') }
if (process.send) process.send(result)
else console.log(result)
