import t from 'tap'
import { createLogClock } from '../../../lib/revocation/log-clock.ts'

/** A clock of a log, of an instance whose steady clock the test moves and whose system clock leaps. */
function open () {
  const at = { steadyMs: 5_000, seconds: 1_000_000 }
  const clock = createLogClock({ now: () => at.seconds, steadyMs: () => at.steadyMs })
  return { at, clock }
}

t.test('Until the store has a value, the clock is that of the system', t => {
  const { at, clock } = open()
  t.equal(clock.nowMs(), 1_000_000_000)
  at.seconds = 2_000_000
  t.strictSame(clock.offer(), ['', '2000000000'])
  t.end()
})

t.test('A value that this instance has offered counts from its offer, and leaps of the system change nothing', t => {
  const { at, clock } = open()
  const [, offered] = clock.offer()
  at.steadyMs += 300
  clock.see(offered)
  at.seconds = 1
  t.equal(clock.nowMs(), 1_000_000_300, 'the way to the store counts')
  at.steadyMs += 700.5
  t.equal(clock.nowMs(), 1_000_001_000.5)
  t.strictSame(clock.offer(), [offered, '1000001000'], 'whole milliseconds are offered')
  t.end()
})

t.test('A value of another instance counts from when it is seen, and once', t => {
  const { at, clock } = open()
  clock.offer()
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
