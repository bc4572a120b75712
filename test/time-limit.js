import { relative } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'

const LOOK_MS = 1000
const LIMIT_MS = t.options.timeout

/** What the watch sees of this thread: how often progress was made, the name of the test, and what its end means. */
const shared = new SharedArrayBuffer(65_536)
const progress = new Int32Array(shared, 0, 4)
const nameBytes = new Uint8Array(shared, 16, 1008)
const lossBytes = new Uint8Array(shared, 1024)
const encoder = new TextEncoder()

/** What is said if the process is ended. `unrun` are the files that would have run after it. */
export function nameLoss (file, unrun = []) {
  const others = unrun.length === 0 ? '' : `; not run for it: ${unrun.join(', ')}`
  progress[2] = encoder.encodeInto(`not ok ${file}: it hangs${others}`, lossBytes).written
}
nameLoss(relative(process.cwd(), process.argv[1] ?? ''))

/**
 * Names a test even if it blocks its process, and then ends the process: tap itself can do neither unless the test lets
 * it.
 */
const watch = new Worker(
  `
  const { workerData: { shared, ms } } = require('node:worker_threads')
  const [progress, nameBytes, lossBytes] = [new Int32Array(shared, 0, 4), new Uint8Array(shared, 16), new Uint8Array(shared, 1024)]
  const say = (text, bytes, size) => require('node:fs').writeSync(2, text + Buffer.from(bytes.subarray(0, size)) + '\\n')
  let [last, since, isNamed] = [-1, 0, false]
  setInterval(() => {
    const count = Atomics.load(progress, 0)
    if (count === 0) return
    if (count !== last) [last, since, isNamed] = [count, performance.now(), false]
    const silentMs = performance.now() - since
    if (silentMs >= ms * 0.8 && !isNamed) {
      isNamed = true
      say('No progress within ' + ms * 0.8 / 1000 + ' s: ', nameBytes, progress[1])
    }
    if (silentMs < ms * 1.5) return
    say('', lossBytes, progress[2])
    process.kill(process.pid, 'SIGKILL')
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
