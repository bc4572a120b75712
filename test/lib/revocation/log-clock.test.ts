import t from 'tap'
import { createLogClock } from '../../../lib/revocation/log-clock.ts'

/** A clock of a log, of an instance whose steady clock the test moves. */
function open () {
  const at = { steadyMs: 5_000 }
  const clock = createLogClock({ steadyMs: () => at.steadyMs })
  return { at, clock }
}

t.test('Until a value was seen, nothing that is written will look older than it is', t => {
  const { at, clock } = open()
  t.equal(clock.nowMs(), Number.MAX_SAFE_INTEGER)
  at.steadyMs += 300
  t.strictSame(clock.offer(), ['', '300'])
  t.end()
})

t.test('Whole milliseconds are offered', t => {
  const { at, clock } = open()
  clock.see('7000')
  at.steadyMs += 700.5
  t.equal(clock.nowMs(), 7_700.5)
  t.strictSame(clock.offer(), ['7000', '7700'])
  t.end()
})

t.test('A value counts from when it is seen, and once', t => {
  const { at, clock } = open()
  at.steadyMs += 300
  clock.see('7000')
  t.equal(clock.nowMs(), 7_000)
  at.steadyMs += 50
  clock.see('7000')
  t.equal(clock.nowMs(), 7_050, 'a value that stays does not hold the clock')
  clock.see('6000')
  t.equal(clock.nowMs(), 6_000)
  t.end()
})
