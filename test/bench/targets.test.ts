import t from 'tap'
import { judge } from '../../bench/targets.js'

const TARGET = 'the dearest refused security event, CPU against an accepted one'
const kind = (ratio: number, beyondBytes: number, large = false, status = 400) => ({
  ratio,
  beyondBytes,
  large,
  status
})

const verdictOf = (...hostile: Array<ReturnType<typeof kind>>) =>
  judge({ revocation: { rows: [], hostile } }).filter(({ name }) => name === TARGET).map(({ value, met }) => ({
    value,
    met
  }))

t.test('The dearest event that is refused counts, a large one without what Node spends on its bytes', t => {
  t.strictSame(verdictOf(kind(1, 0.5), kind(5, 4)), [{ value: 5, met: true }])
  t.strictSame(verdictOf(kind(5.1, 4), kind(1, 1)), [{ value: 5.1, met: false }])
  t.strictSame(verdictOf(kind(20, 4.5, true), kind(2, 1)), [{ value: 4.5, met: true }])
  t.strictSame(verdictOf(kind(20, 5.5, true)), [{ value: 5.5, met: false }])
  t.strictSame(verdictOf(kind(10, 9, false, 204), kind(3, 2, false, 401)), [{ value: 3, met: true }])
  t.strictSame(judge({}), [], 'what was not measured is not judged')
  t.end()
})
