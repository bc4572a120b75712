import t from 'tap'
import { createStoreClock } from '../../../../lib/revocation/store/clock.ts'

/** Instances by one steady clock, whose calls take a time. */
function start () {
  const time = { ms: 0 }
  const join = (startedAt: number) => createStoreClock({ now: () => startedAt, steadyMs: () => time.ms })
  return {
    time,
    join,
    /** A call of an instance: what the store then shows, by this count. */
    ask (clock: ReturnType<typeof join>, from: string, to: string, storedMs: number, tookMs: number) {
      const offered = clock.offer(from)
      const shown = from === to ? Math.max(storedMs, offered) : storedMs
      time.ms += tookMs
      clock.see(to, shown, 0)
      return shown
    }
  }
}

t.test('A store that is emptied again and again makes nothing last longer', async t => {
  const { time, join, ask } = start()
  const [one, two] = [join(1_700_000_000), join(1_600_000_000)]
  let shown = ask(one, '', '0', one.offer(''), 100)
  shown = ask(two, '', '0', shown, 100)
  const [seconds, ms] = [one.seconds(), time.ms]
  for (let n = 1; n <= 20; n++) {
    const from = `${n - 1}`
    time.ms += 1000
    const [first, second] = n % 2 ? [one, two] : [two, one]
    // Whoever is ahead begins the next count.
    shown = ask(first, from, `${n}`, first.offer(from), 300)
    shown = ask(second, from, `${n}`, shown, 300)
    for (const clock of [first, second, first, second]) shown = ask(clock, `${n}`, `${n}`, shown, 5)
  }
  const passed = (time.ms - ms) / 1000
  for (const clock of [one, two]) {
    t.ok(Math.abs(clock.seconds() - seconds - passed) < 1, `${clock.seconds() - seconds} s after ${passed}`)
  }
})

t.test('Of two counts, ages are the same, and no clock goes ahead of the steady one', async t => {
  for (const difference of [0, 400, -400, 86_400_000, -86_400_700]) {
    const { time, join, ask } = start()
    const one = join(1_700_000_000)
    ask(one, '', 'a', 1_700_000_000_000, 0)
    const heard = Math.ceil(one.seconds())
    time.ms += 10_000
    ask(one, 'a', 'b', 1_700_000_000_000 + difference, 0)
    const age = one.seconds() - heard
    t.ok(age <= 10.05 && age > 9, `${difference}: ${age}`)
    const written = heard - one.offsetOf('b')
    t.ok(Math.abs(one.offer('b') / 1000 - written - age) < 0.001, 'so it is in the store')
    t.ok(Number.isInteger(written))
  }
})

t.test('Of three clocks that can be set, one may be wrong; without a store it is the lower one', async t => {
  const time = { ms: 5000, now: 1000 }
  const start = () => createStoreClock({ now: () => time.now, steadyMs: () => time.ms })
  const right = start()
  time.now = 200
  const behind = start()
  Object.assign(time, { ms: 7000, now: 1002 })
  t.strictSame([right.agreedNow(), behind.agreedNow()], [1002, 202])
  time.now = 9000
  t.equal(right.agreedNow(), 1002, 'ours leaps')
  time.now = 1001
  t.equal(right.agreedNow(), 1001)
  for (const clock of [right, behind]) clock.see('a', 1, 1_002_000)
  Object.assign(time, { ms: 8000, now: 1003 })
  t.strictSame([right.agreedNow(), behind.agreedNow()], [1003, 1003])
  for (const leap of [3600, -3600]) {
    time.now = 1003 + leap
    t.equal(right.agreedNow(), 1003, 'ours leaps')
    time.now = 1003
    right.see('a', 1, (1003 + leap) * 1000)
    t.equal(right.agreedNow(), 1003, 'that of the store leaps')
    right.see('a', 1, 1_003_000)
  }
})

t.test('Without a store, a clock that has stayed as it was set for an hour is right', async t => {
  const time = { ms: 0, now: 1000 }
  const clock = createStoreClock({ now: () => time.now, steadyMs: () => time.ms })
  const after = (seconds: number, now: number): number => {
    time.ms += seconds * 1000
    time.now = now
    return clock.agreedNow()
  }
  t.strictSame([after(100, 1_000_000), after(3599, 1_003_599)], [1100, 4699], 'it may leap')
  t.equal(after(0, 4699), 4699, 'it has leaped')
  t.strictSame([after(1, 1_000_000), after(3599, 1_003_599), after(1, 1_003_600)], [4700, 8299, 1_003_600], 'it was set')
  t.strictSame([after(3600, 1_007_255), after(60, 1_007_300)], [1_007_200, 1_007_260], 'one that is a little wrong is not set')
})

t.test('Where the clock of the store leaps with ours, both are right once they have stayed so for an hour', async t => {
  const time = { ms: 0, now: 1000 }
  const clock = createStoreClock({ now: () => time.now, steadyMs: () => time.ms })
  const after = (seconds: number, now: number, ofStore: number): number => {
    time.ms += seconds * 1000
    time.now = now
    clock.see('a', 1000 + time.ms, ofStore * 1000)
    return clock.agreedNow()
  }
  t.equal(after(0, 1000, 1000), 1000)
  t.equal(after(100, 1_000_000, 1_000_000), 1100, 'they may be that of one machine')
  t.equal(after(1, 1_000_001, 1101), 1101, 'the twin: one of them')
  t.strictSame([after(1, 1_000_002, 1_000_002), after(3599, 1_003_601, 1_003_601)], [1102, 4701])
  t.equal(after(1, 1_003_602, 1_003_602), 1_003_602, 'they were set')
  t.equal(after(1, 9, 1_003_603), 1_003_603, 'from then on, one of them may leap')
})
