/**
 * What the memory store of replays costs: bytes for each record, time of a record, and the longest pause while it
 * fills, while its records die, and while it fills again. Run: `npm run build && node --expose-gc bench/replay.js
 * [records] [keys]`. As a child process of the benchmark it sends `{ records, bytesEach, freeingMs, longestMs }`.
 */
import { randomBytes } from 'node:crypto'
import { createMemoryStore } from '../dist/lib/guard/replay/memory-store.js'

const records = Number(process.argv[2] ?? 1_000_000)
const keyCount = Number(process.argv[3] ?? Math.max(5, records / 10))
const WINDOW = 330

if (!globalThis.gc) {
  console.error('node --expose-gc is needed to tell bytes from garbage')
  process.exit(1)
}

let time = 1_700_000_000
const ids = randomBytes(2 ** 16 * 32)
const id = Buffer.alloc(32)

/** A new id each time without the cost of making 32 random bytes. */
function nextId (n) {
  ids.copy(id, 0, (n % 2 ** 16) * 32, (n % 2 ** 16) * 32 + 32)
  for (let at = 0; at < 16; at += 4) id.writeInt32LE(id.readInt32LE(at) ^ Math.imul(n, 0x9e3779b1 + at), at)
  return id.toString('binary')
}

const keys = Array.from({ length: keyCount }, () => randomBytes(32).toString('base64url'))
const nextKey = n => keys[n % keyCount]

function memory () {
  globalThis.gc()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

const before = memory()
const pausesMs = []
const store = createMemoryStore({ max: records, randomBytes, now: () => time, steadyMs: () => time * 1000 })
let made = 0

/**
 * Makes `count` records over `seconds` of the virtual clock, and prints the mean and an upper bound for the longest:
 * the worst 64 in a row, garbage collection included. Those during which the kernel gave the core to another process
 * are left out.
 */
function run (title, count, seconds) {
  let longest = 0
  let refused = 0
  let total = 0
  for (let n = 0; n < count; n += 64) {
    const switches = process.resourceUsage().involuntaryContextSwitches
    const start = process.hrtime.bigint()
    for (let k = 0; k < 64; k++) {
      time += seconds / count
      store.record(nextId(made), nextKey(made++), time + WINDOW, (refusal, first) => {
        if (refusal || !first) refused++
      })
    }
    const took = Number(process.hrtime.bigint() - start) / 1e3
    total += took
    if (took > longest && process.resourceUsage().involuntaryContextSwitches === switches) longest = took
  }
  const { entries, bytes } = store.state()
  console.log([
    title.padEnd(34),
    `${entries} live`.padStart(14),
    `${(bytes / Math.max(1, entries)).toFixed(1)} bytes each`.padStart(18),
    `mean ${(total / count).toFixed(2)} us`.padStart(14),
    `worst 64 ${(longest / 1e3).toFixed(2)} ms`.padStart(17),
    refused ? `${refused} refused` : ''
  ].join('  '))
  pausesMs.push(longest / 1e3)
  return longest / 1e3
}

run('fill', records, 60)
const bytesEach = (memory() - before) / records
console.log(
  `measured by the process: ${bytesEach.toFixed(1)} bytes a record, counters and tables of the store included`
)
run('full: refuses', 10_000, 1)
time += WINDOW + 10
const freeingMs = run('all dead at once, then a trickle', 2_000, 1)
run('refill', records - 2_048, 60)
time += WINDOW / 2
run('half a window later: still full', 1_000, 1)
time += WINDOW / 2
run('steady flow', records * 3, WINDOW * 3.2)
store.close()
process.send?.({ records, bytesEach, freeingMs, longestMs: Math.max(...pausesMs) })
