/**
 * `npm run fuzz -- --seconds N --seed N`: as many requests as fit. `--number N` makes one case of the seed again and
 * prints it. `--requests N` ends after so many, `--from N` begins with that case. Ends with status 1 if a difference is
 * unexplained.
 */
import { readOptions } from '../../bench/options.js'
import { openDifferential, type Case } from './differential.ts'

const values = readOptions({
  seconds: { type: 'string', default: '60' },
  seed: { type: 'string' },
  number: { type: 'string' },
  from: { type: 'string', default: '0' },
  requests: { type: 'string' }
})
const seed = Number(values.seed ?? Math.floor(performance.timeOrigin) % 1e9)
const mostRequests = values.requests === undefined ? Infinity : Number(values.requests)
const mostMs = values.requests === undefined ? Number(values.seconds) * 1000 : Infinity
const PROGRESS_MS = 10_000
const MOST_SHOWN = 20

const { run, close } = await openDifferential(seed)
const tally = { requests: 0, passed: 0, refused: 0, again: 0 }
const differences = new Map<string, number>()
const faults: Array<{ number: number, found: Case }> = []

function count (number: number, cases: readonly Case[]) {
  for (const found of cases) {
    if (found.isCopy) tally.again++
    else tally.requests++
    if (found.isCopy && !found.fault) continue
    if (found.difference) differences.set(found.difference, (differences.get(found.difference) ?? 0) + 1)
    else if (found.fault) report({ number, found })
    else tally[found.ours === undefined ? 'passed' : 'refused']++
  }
}

function report (fault: { number: number, found: Case }) {
  faults.push(fault)
  console.log(show(fault))
}

const show = ({ number, found }: { number: number, found: Case }) =>
  `# unexplained: --seed ${seed} --number ${number}: ` +
  `${found.fault}\n${JSON.stringify(found, (_, value) => value === undefined ? null : value, 2)}`

if (values.number !== undefined) {
  const cases = await run(Number(values.number))
  for (const found of cases) console.log(JSON.stringify(found, (_, value) => value === undefined ? null : value, 2))
  count(Number(values.number), cases)
} else {
  const start = performance.now()
  let shownAt = start
  for (
    let number = Number(values.from);
    tally.requests < mostRequests && performance.now() - start < mostMs && faults.length < MOST_SHOWN;
    number++
  ) {
    count(number, await run(number))
    if (performance.now() - shownAt < PROGRESS_MS) continue
    shownAt = performance.now()
    console.log(
      `# seed ${seed}: ${tally.requests} requests in ${Math.round((shownAt - start) / 1000)} s, ${faults.length} ` +
        'unexplained'
    )
  }
  const seconds = (performance.now() - start) / 1000
  for (const [name, times] of [...differences].sort(([, a], [, b]) => b - a)) console.log(`# ${times} times: ${name}`)
  const explained = [...differences.values()].reduce((sum, times) => sum + times, 0)
  console.log(
    `# seed ${seed}: ${tally.requests} requests in ${Math.round(seconds)} s ` +
      `(${Math.round(tally.requests / seconds)} a second): both accept ${tally.passed}, both refuse ` +
      `${tally.refused}, explained ${explained}, unexplained ${faults.length}. ${tally.again} accepted proofs were ` +
      'sent again, and refused'
  )
  console.log(`# { total: 1, pass: ${faults.length === 0 ? 1 : 0}, fail: ${faults.length === 0 ? 0 : 1} }`)
}
await close()
process.exitCode = faults.length === 0 ? 0 : 1
