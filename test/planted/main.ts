/**
 * `npm run test:planted -- --only 'RFC 9449 11.1'`: plants each fault, runs the tests that must see it, and prints the
 * table. `--only` takes a point or the path of a source. Ends with status 1 if a test does not fail, or fails without
 * the fault as well.
 */
import { readOptions } from '../../bench/options.js'
import { FAULTS, testsOf } from './faults.ts'
import type { Fault, NamedTest } from './faults.ts'
import { runTest, runWithFault } from './plant.ts'

const { only } = readOptions({ only: { type: 'string', default: '' } })

const sound = new Map<string, boolean>()
/** Whether a test passes as it is: otherwise its failure says nothing. */
async function isSound (test: NamedTest): Promise<boolean> {
  const key = `${test.file}: ${test.title}`
  if (!sound.has(key)) sound.set(key, (await runTest(test)).end === 'passed')
  return sound.get(key)!
}

async function judge (fault: Fault, test: NamedTest): Promise<string> {
  if (!await isSound(test)) return 'FAILS WITHOUT IT'
  const { end, failure } = await runWithFault(test, fault)
  if (end === 'passed') return 'NOT SEEN'
  return end === 'failed'
    ? `seen: ${(failure ?? 'the file does not load').slice(0, 60).replaceAll('|', '/')}`
    : 'seen: it does not end'
}

const chosen = FAULTS.filter(({ point, file }) => only === '' || point.startsWith(only) || file.startsWith(only))
console.log('| point | fault | test | |\n| --- | --- | --- | --- |')
let pairs = 0
let unseen = 0
for (const fault of chosen) {
  for (const test of testsOf(fault)) {
    const verdict = await judge(fault, test)
    pairs++
    if (!verdict.startsWith('seen: ')) unseen++
    console.log(`| ${fault.point} | ${fault.fault} | ${test.title} | ${verdict} |`)
  }
}
console.log(`\n${chosen.length} faults, ${pairs} tests run with one, ${unseen} of them do not see it`)
process.exitCode = unseen === 0 ? 0 : 1
