import { Worker } from 'node:worker_threads'
import t from 'tap'

/** Names a test also if it blocks its process: tap itself tells of a test when the test lets it. */
const watch = new Worker(`
  let timer
  require('node:worker_threads').parentPort.on('message', ({ name, ms }) => {
    clearTimeout(timer)
    timer = setTimeout(() => require('node:fs').writeSync(2, 'Not ended within ' + ms / 1000 + ' s: ' + name + '\\n'), ms)
  })
`, { eval: true, execArgv: [], env: {} })
watch.unref()

// tap limits the time of a process, and many files may share one. The limit begins anew with each test, here and in the runner, so it
// is that of one test.
t.on('subtestStart', ({ name }) => {
  const ms = t.options.timeout
  t.setTimeout(ms)
  // The runner ends the process by the whole limit, and must not be first.
  watch.postMessage({ name, ms: ms * 0.8 })
})
