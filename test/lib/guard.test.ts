import t from 'tap'
import { createJudge } from '../../lib/guard/requirement/judge.ts'
import { createRateLimit } from '../../lib/guard/rate-limit.ts'

t.test('A limit holds to its last request and to the last millisecond of its minute.', async t => {
  let nowMs = 0
  const limit = createRateLimit({ max: 2, nowMs: () => nowMs })
  t.strictSame([limit.take('a'), limit.take('a'), limit.take('a')], [undefined, undefined, 60])
  limit.giveBack('a')
  t.equal(limit.take('a'), undefined)
  nowMs = 59_999
  t.equal(limit.take('a'), 0.001)
  nowMs = 60_000
  t.equal(limit.take('a'), undefined, 'the next minute begins with the first request after the last one')
  nowMs = 119_999
  t.equal(limit.take('a'), undefined)
  t.equal(limit.take('a'), 0.001)
  for (let i = 0; i < 60_000; i++) limit.take(`other-${i}`)
  t.equal(limit.take('a'), undefined, 'without a number of its own it forgets the oldest of 50 000 clients')
})

t.test('A login is recent enough to the very second.', async t => {
  const judge = createJudge({ granters: () => [], clockToleranceSeconds: 5, now: () => 1000.9 })
  const rows = [[940, true], [939.9, false], [1005.9, true], [1006, false], [-1, false], [NaN, false]] as const
  for (const [authTime, isRecent] of rows) {
    const grant = { scopes: [], claims: { iss: 'i', sub: 's', aud: 'a', exp: 1, auth_time: authTime } }
    const act = () => judge(grant, { maxAgeSeconds: 60 })
    if (isRecent) t.doesNotThrow(act, String(authTime))
    else t.throws(act, { name: 'Refusal', reason: 'authentication_too_old' }, String(authTime))
  }
})
