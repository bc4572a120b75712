/**
 * What a cutoff costs in memory: bytes for each user with one, and for each session that has ended. Run: `npm run build
 * && node --expose-gc bench/cutoffs.js [number]`. As a child process of the benchmark it sends `{ number, bytesEach,
 * sessionBytesEach }`.
 */
import { createCutoffs } from '../dist/lib/revocation/cutoffs.js'
import { keyOf } from '../dist/lib/revocation/target.js'

const number = Number(process.argv[2] ?? 1_000_000)
if (!globalThis.gc) {
  console.error('node --expose-gc is needed to tell bytes from garbage')
  process.exit(1)
}

const now = 1_800_000_000
const ISSUER = 'https://tenant.example'

function measure (kind, effect) {
  const cutoffs = createCutoffs({
    max: number,
    issuers: [ISSUER],
    retentionSeconds: 86_400,
    clockToleranceSeconds: 5,
    now: () => now,
    steadyMs: () => 0
  })
  globalThis.gc()
  const before = process.memoryUsage().heapUsed
  for (let n = 0; n < number; n++) {
    // As it comes from the log: each text is new.
    const { key, ...origin } = JSON.parse(
      JSON.stringify({
        key: keyOf([kind, ISSUER, `f81d4fae-7dec-11d0-a765-${String(n).padStart(12, '0')}`]),
        event: 'session-revoked',
        source: ISSUER,
        sender: ISSUER,
        standing: 'issuer'
      })
    )
    cutoffs.apply({ key, effect, at: now, recordedAt: now, ...origin }, 0, n)
  }
  globalThis.gc()
  const bytes = (process.memoryUsage().heapUsed - before) / number
  if (cutoffs.size() !== number) throw new Error(`${cutoffs.size()} are kept`)
  return bytes
}

const result = { number, bytesEach: measure('sub', 'cutoff'), sessionBytesEach: measure('sid', 'end') }
if (process.send) process.send(result)
else console.log(result)
