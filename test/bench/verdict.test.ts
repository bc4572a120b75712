import t from 'tap'
import { check, ratiosOf, slowerThan } from '../../bench/verdict.js'

const RECORDED = { bearer: 1, dpop: 1.1 }

/** A run in which Holdfast costs so many times what the bare route and the floor cost. */
function run (bearer: number, dpop: number) {
  return [
    { id: 'bare-bearer', cpuUs: 40 },
    { id: 'floor-dpop', cpuUs: 100 },
    { id: 'holdfast-bearer', cpuUs: 40 * bearer },
    { id: 'holdfast-dpop', cpuUs: 100 * dpop }
  ]
}

async function verdictOf (...runs: Array<ReturnType<typeof run>>) {
  const said: string[] = []
  const left = [...runs]
  const slow = await check({
    recorded: RECORDED,
    tries: 2,
    say: text => said.push(text),
    measure: async () => left.shift()!
  })
  return { slow, said, measured: runs.length - left.length }
}

t.test('The ratios of a run are those to the bare route and to the floor.', t => {
  t.hasStrict(ratiosOf(run(1.2, 1.5)), { bearer: 1.2, dpop: 1.5 })
  t.strictSame(slowerThan(RECORDED, { bearer: 1.2, dpop: 1.2 }), [])
  t.strictSame(slowerThan(RECORDED, { bearer: 1.21, dpop: 1.2 }), ['bearer'])
  t.strictSame(slowerThan(RECORDED, { bearer: NaN, dpop: 1.2 }), ['bearer'], 'what was not measured is not fast')
  t.end()
})

t.test('A check passes at the first fast run, repeats a slow one, and fails if that is slow too.', async t => {
  t.hasStrict(await verdictOf(run(1, 1.1), run(9, 9)), { slow: [], measured: 1 })
  t.hasStrict(await verdictOf(run(1, 1.4), run(1, 1.1)), { slow: [], measured: 2 })
  const failed = await verdictOf(run(1, 1.4), run(1.1, 1.5))
  t.hasStrict(failed, { slow: ['dpop'], measured: 2 })
  t.ok(failed.said.includes('dpop: 1.50, recorded 1.10: slower'), 'it says what was slower')
  t.hasStrict(await verdictOf(run(1, 1.4), run(1.4, 1.1)), { slow: [] }, 'each ratio may have a run of its own')
})
