import { writeSync } from 'node:fs'
import t from 'tap'

let counted = { pass: 0, fail: 0 }
let since = performance.now()
let cpu = process.cpuUsage()
let said = false

/** A line for a file of tests that has ended: of those that share a process the runner learns only when all have. */
export function fileEnded (name) {
  const { pass, fail } = t.counts
  const seconds = (performance.now() - since) / 1000
  const c = process.cpuUsage(cpu)
  const failed = fail - counted.fail
  writeSync(2, `${failed === 0 ? 'ok' : 'not ok'} ${name}: ${pass - counted.pass} passed${failed === 0 ? '' : `, ${failed} failed`}, ${seconds.toFixed(1)} s cpu=${((c.user + c.system) / 1e6).toFixed(2)}\n`)
  counted = { pass, fail }
  since = performance.now()
  cpu = process.cpuUsage()
  said = true
}

process.on('exit', () => { if (!said) fileEnded(t.name) })
