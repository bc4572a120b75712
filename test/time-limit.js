import { Worker } from 'node:worker_threads'
import t from 'tap'

/**
 * Names a test even if it blocks its process, and then ends the process: tap itself can do neither unless the test lets
 * it.
 */
const watch = new Worker(
  `
  let timers = []
  require('node:worker_threads').parentPort.on('message', ({ name, ms }) => {
    timers.forEach(clearTimeout)
    timers = [
      setTimeout(() => require('node:fs').writeSync(2, 'No progress within ' + ms * 0.8 / 1000 + ' s: ' + name + '\\n'), ms * 0.8),
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), ms * 1.5)
    ]
  })
`,
  { eval: true, execArgv: [], env: {} }
)
watch.unref()

const LOOK_MS = 1000
const LIMIT_MS = t.options.timeout
/**
 * For the process as a whole, in the runner: while that reads what other processes have sent, it hears of no progress.
 */
const MANY = 5

/** The tests that have begun and not ended: that of the process, and each inside the one before. */
let tests = [t]
/** Of the last one that has begun, whatever is inside it. */
let name = t.name
let seen = 0

// tap limits the time of a process, which many files may share, and of each test. All these limits begin anew with
// each test and with each result: what is slow on a busy machine goes on, and what hangs is ended.
function renew () {
  t.setTimeout(LIMIT_MS * MANY)
  // The tests take theirs from here.
  t.options.timeout = LIMIT_MS
  for (const test of tests) if (test !== t && test.options.timeout) test.setTimeout(test.options.timeout)
  watch.postMessage({ name, ms: LIMIT_MS })
}

function follow (test) {
  test.on('subtestStart', inner => {
    tests.push(inner)
    if (test === t) name = inner.name
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
