import '../../../cli/strip-types.js'
import { register } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Test } from 'tap'

// Runs files of tests one after the other, as the parent asks. What takes longest, to load the packages, is done once.
const [folder] = process.argv.slice(2)
const run = new SharedArrayBuffer(4)
register('./warm-loader.js', import.meta.url, { data: { run, folder } })

process.on('message', async ({ number, file, only, env }) => {
  Atomics.store(new Int32Array(run), 0, number)
  // For processes that a test starts.
  Object.assign(process.env, env)
  const root = new Test({
    name: file,
    bail: true,
    grep: only === undefined ? [] : [new RegExp(only)],
    timeout: 600_000
  })
  globalThis[Symbol.for('holdfast.mutation.tap')] = root
  root.on('data', text => process.stdout.write(String(text)))
  const ended = new Promise(resolve => root.on('end', resolve))
  try {
    await import(pathToFileURL(file).href)
    root.end()
    await ended
  } catch (error) {
    process.stdout.write(`not ok 1 - ${String(error).replaceAll('\n', ' ')}\n`)
  }
  process.stdout.write(
    '',
    () => process.send({ number, passed: root.results?.ok === true, bytes: process.memoryUsage.rss() })
  )
})
process.on('disconnect', () => process.exit())
process.send({ number: 0 })
