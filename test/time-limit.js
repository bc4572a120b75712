import { Worker } from 'node:worker_threads'
import t from 'tap'

const LOOK_MS = 1000
const LIMIT_MS = t.options.timeout

/** What the watch sees of this thread: how often progress was made, and then the name of the test. */
const shared = new SharedArrayBuffer(1024)
const progress = new Int32Array(shared, 0, 2)
const nameBytes = new Uint8Array(shared, progress.byteLength)
const encoder = new TextEncoder()

/**
 * Names a test even if it blocks its process, and then ends the process: tap itself can do neither unless the test lets
 * it.
 */
const watch = new Worker(
  `
  const { workerData: { shared, ms } } = require('node:worker_threads')
  const [progress, nameBytes] = [new Int32Array(shared, 0, 2), new Uint8Array(shared, 8)]
  let [last, since, isNamed] = [-1, 0, false]
  setInterval(() => {
    const count = Atomics.load(progress, 0)
    if (count === 0) return
    if (count !== last) [last, since, isNamed] = [count, performance.now(), false]
    const silentMs = performance.now() - since
    if (silentMs >= ms * 0.8 && !isNamed) {
      isNamed = true
      const name = Buffer.from(nameBytes.subarray(0, progress[1]))
      require('node:fs').writeSync(2, 'No progress within ' + ms * 0.8 / 1000 + ' s: ' + name + '\\n')
    }
    if (silentMs >= ms * 1.5) process.kill(process.pid, 'SIGKILL')
  }, ms / 40)
`,
  { eval: true, execArgv: [], env: {}, workerData: { shared, ms: LIMIT_MS } }
)
watch.unref()

/**
 * For the process as a whole, in the runner: while that reads what other processes have sent, it hears of no progress.
 */
const MANY = 5

/** The tests that have begun and not ended: that of the process, and each inside the one before. */
let tests = [t]
let seen = 0

// tap limits the time of a process, which many files may share, and of each test. All these limits begin anew with
// each test and with each result: what is slow on a busy machine goes on, and what hangs is ended.
function renew () {
  t.setTimeout(LIMIT_MS * MANY)
  // The tests take theirs from here.
  t.options.timeout = LIMIT_MS
  for (const test of tests) if (test !== t && test.options.timeout) test.setTimeout(test.options.timeout)
  Atomics.add(progress, 0, 1)
}

function follow (test) {
  test.on('subtestStart', inner => {
    tests.push(inner)
    if (test === t) progress[1] = encoder.encodeInto(inner.name, nameBytes).written
    renew()
    follow(inner)
  })
  test.on('subtestEnd', inner => {
    tests = tests.filter(other => other !== inner)
  })
}
follow(t)

// What nobody catches fails the test that runs.
process.on('uncaughtException', error => tests.at(-1).threw(error))

// tap has an event for a result only when the next line comes.
setInterval(() => {
  const results = tests.reduce((sum, { count }) => sum + count, 0)
  if (results !== seen) renew()
  seen = results
}, LOOK_MS).unref()
