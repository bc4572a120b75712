import { writeSync } from 'node:fs'
import { relative } from 'node:path'
import t from 'tap'

// Of a file that moves the clock, the true time.
const now = performance.now.bind(performance)

let counted = { pass: 0, fail: 0 }
let since = now()
let hasSaid = false

/** A line for a file of tests that has ended: of those that share a process the runner learns only when all have. */
export function sayEnded (file: string) {
  const { pass, fail } = t.counts
  const failed = fail - counted.fail
  const seconds = ((now() - since) / 1000).toFixed(1)
  writeSync(
    2,
    `${failed === 0 ? 'ok' : 'not ok'} ${file}: ${pass - counted.pass} passed${
      failed === 0 ? '' : `, ${failed} failed`
    }, ${seconds} s\n`
  )
  counted = { pass, fail }
  since = now()
  hasSaid = true
}

// For a file that has a process of its own.
process.on('exit', () => {
  if (!hasSaid) sayEnded(relative(process.cwd(), process.argv[1]!))
})
