import { Worker } from 'node:worker_threads'
import t from 'tap'

/** Names a test even if it blocks its process: tap itself reports a test only when the test lets it. */
const watch = new Worker(`
  let timer
  require('node:worker_threads').parentPort.on('message', ({ name, ms }) => {
    clearTimeout(timer)
    timer = setTimeout(() => require('node:fs').writeSync(2, 'No progress within ' + ms / 1000 + ' s: ' + name + '\\n'), ms)
  })
`, { eval: true, execArgv: [], env: {} })
watch.unref()

const LOOK_MS = 1000

/** The tests that have begun and not ended: that of the process, and each inside the one before. */
let tests = [t]
/** Of the last one that has begun, whatever is inside it. */
let name = t.name
let seen = 0

// tap limits the time of a process, which many files may share, and of each test. All these limits begin anew with each test and with each
// result: what is slow on a busy machine goes on, and what hangs is ended.
function renew () {
  for (const test of tests) if (test.options.timeout) test.setTimeout(test.options.timeout)
  // The runner ends the process by the whole limit, and must not be first.
  watch.postMessage({ name, ms: t.options.timeout * 0.8 })
}

function follow (test) {
  test.on('subtestStart', inner => {
    tests.push(inner)
    if (test === t) name = inner.name
    renew()
    follow(inner)
  })
  test.on('subtestEnd', inner => { tests = tests.filter(other => other !== inner) })
}
follow(t)

// tap has an event for a result only when the next line comes.
setInterval(() => {
  const results = tests.reduce((sum, { count }) => sum + count, 0)
  if (results !== seen) renew()
  seen = results
}, LOOK_MS).unref()
