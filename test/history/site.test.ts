import t from 'tap'
import { createRandom } from '../fuzz/random.ts'
import { excuse, sumUp, type Entry, type Ledger, type Window } from '../../lab/history/site/ledger.ts'
import { plan } from '../../lab/history/site/plan.ts'
import { findGrown, MAY_GROW } from '../../lab/history/site/vitals.ts'

const GOOD: Entry = {
  kind: 'DPoP',
  role: 'good',
  needs: ['nginx', 'redis'],
  startMs: 100,
  endMs: 110,
  outcome: '200',
  jti: 'a'
}
const HOSTILE: Entry = {
  kind: 'forged token',
  role: 'hostile',
  needs: [],
  startMs: 100,
  endMs: 110,
  outcome: '401 invalid_token'
}
const WINDOW: Window = { fault: 'Redis is killed', part: 'redis', excuses: ['503'], startMs: 50, endMs: 105 }
const EMPTY: Ledger = { entries: [], windows: [], accepted: [], arrived: [] }

t.test('A ledger in order has no violation.', async t => {
  const entries = [GOOD, HOSTILE, { ...GOOD, outcome: '503', jti: 'b' }]
  t.strictSame(
    sumUp({
      ...EMPTY,
      entries,
      windows: [WINDOW],
      accepted: ['a'],
      arrived: [{ kind: 'good', id: '1' }, { kind: 'good', id: '2' }]
    }),
    {
      requests: 3,
      good: 2,
      excused: 1,
      hostile: 1,
      copies: 0,
      acceptedProofs: 1,
      violations: []
    }
  )
})

t.test('Anything that is not as it must be is a violation.', async t => {
  const rows: ReadonlyArray<readonly [expected: string, ledger: Partial<Ledger>]> = [
    ['a good request was refused: DPoP, 503, 100 to 110 ms', { entries: [{ ...GOOD, outcome: '503' }] }],
    ['a good request was refused: DPoP, 401 invalid_token, 100 to 110 ms', {
      entries: [{ ...GOOD, outcome: '401 invalid_token' }],
      windows: [WINDOW]
    }],
    ['a 500: DPoP, 500, 100 to 110 ms', {
      entries: [{ ...GOOD, outcome: '500' }],
      windows: [{ ...WINDOW, excuses: ['500'] }]
    }],
    ['a 500: forged token, 500, 100 to 110 ms', { entries: [{ ...HOSTILE, outcome: '500' }] }],
    ['a hostile request has passed: forged token, 200, 100 to 110 ms', {
      entries: [{ ...HOSTILE, outcome: '200' }],
      windows: [WINDOW]
    }],
    ['no server has counted it: DPoP, 200, 100 to 110 ms', { entries: [GOOD] }],
    ['a proof was accepted twice: a', { accepted: ['a', 'b', 'a'] }],
    ['a request has reached the upstream twice: 1', {
      arrived: [{ kind: 'good', id: '1' }, { kind: 'good', id: '1' }]
    }],
    ['a hostile request has reached the upstream', { arrived: [{ kind: 'hostile', id: '1' }] }]
  ]
  for (const [expected, ledger] of rows) t.strictSame(sumUp({ ...EMPTY, ...ledger }).violations, [expected])
})

t.test('A fault excuses only what it touches, in its time, with its outcome.', async t => {
  const refused = { ...GOOD, outcome: '503' }
  t.equal(excuse(refused, [WINDOW]), WINDOW)
  t.equal(excuse({ ...refused, outcome: '401 invalid_token' }, [WINDOW]), undefined, 'another outcome')
  t.equal(excuse({ ...refused, needs: ['nginx'] }, [WINDOW]), undefined, 'another part')
  t.equal(excuse({ ...refused, startMs: 106 }, [WINDOW]), undefined, 'after it')
  t.equal(excuse({ ...refused, startMs: 30, endMs: 49 }, [WINDOW]), undefined, 'before it')
  t.equal(excuse({ ...refused, startMs: 30, endMs: 50 }, [WINDOW]), WINDOW, 'it ended within')
})

t.test('A plan follows from its seed, and has each fault before any comes again.', async t => {
  const faults = ['a', 'b', 'c', 'd'].map(name => ({ name, lastsMs: [100, 200] as const }))
  const take = (seed: number): unknown[] => {
    const steps = plan(faults, createRandom(seed))
    return Array.from({ length: 12 }, () => steps.next().value)
  }
  const steps = take(1) as Array<{ fault: { name: string }, pauseMs: number, lastsMs: number }>
  t.strictSame(steps, take(1))
  t.strictNotSame(steps, take(2))
  for (const from of [0, 4, 8]) {
    t.strictSame(steps.slice(from, from + 4).map(({ fault }) => fault.name).sort(), ['a', 'b', 'c', 'd'])
  }
  for (const { pauseMs, lastsMs } of steps) t.ok(lastsMs >= 100 && lastsMs <= 200 && pauseMs > 0)
})

t.test('The memory of an instance may grow up to a limit.', async t => {
  const before = { descriptors: 30, timers: 5, heapMb: 30, rssMb: 120 }
  const after = { ...before, timers: before.timers + MAY_GROW.timers }
  t.strictSame(findGrown('a', before, after), [])
  t.strictSame(findGrown('a', before, { ...after, timers: after.timers + 1 }), ['timers of a have grown from 5 to 31'])
})
