import { Worker } from 'node:worker_threads'
import t from 'tap'

/** How often the limit is renewed at most, while results come. */
const STEP_MS = 1000

/** Names a test also if it blocks its process: tap itself tells of a test when the test lets it. */
const watch = new Worker(`
  let timer
  require('node:worker_threads').parentPort.on('message', ({ name, ms }) => {
    clearTimeout(timer)
    timer = setTimeout(() => require('node:fs').writeSync(2, 'No progress within ' + ms / 1000 + ' s: ' + name + '\\n'), ms)
  })
`, { eval: true, execArgv: [], env: {} })
watch.unref()

let renewedAt = -Infinity

// tap limits the time of a process, and many files may share one. The limit is renewed with each test and with each result, here and in the
// runner: what is slow on a busy machine goes on, and what hangs is ended.
function renew (name) {
  const ms = t.options.timeout
  renewedAt = performance.now()
  t.setTimeout(ms)
  // The runner ends the process by the whole limit, and must not be first.
  watch.postMessage({ name, ms: ms * 0.8 })
}

function follow (test, name) {
  renew(name)
  test.on('subtestStart', inner => follow(inner, name))
  test.on('result', () => { if (performance.now() - renewedAt > STEP_MS) renew(name) })
}
t.on('subtestStart', test => follow(test, test.name))
