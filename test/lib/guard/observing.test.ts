import t from 'tap'
import { createObserving, endOfDay } from '../../../lib/guard/observing.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { Clock } from '../../helpers/clock.ts'

t.test('A day ends at 00:00 UTC after it, and what is no day never does.', async t => {
  t.equal(endOfDay('2027-01-15'), Date.UTC(2027, 0, 16) / 1000)
  t.equal(endOfDay('2028-02-29'), Date.UTC(2028, 2, 1) / 1000)
  for (const text of ['off', '', '2027-02-29', '2027-1-5', '2027-01-15T00:00', ' 2027-01-15', '2027-13-01', 'on']) {
    t.ok(Number.isNaN(endOfDay(text)), text)
  }
})

t.test('A look-up without an answer delays one request by a second, and none while it fails.', async t => {
  const clock = new Clock()
  const observing = createObserving('2030-01-02', clock)
  const answers: Array<(outcome: number | Error) => void> = []
  const find = observing.patient(
    () => new Promise<number>((resolve, reject) => {
      answers.push(outcome => outcome instanceof Error ? reject(outcome) : resolve(outcome))
    }),
    'keys_unavailable'
  )
  const first = find()
  t.equal(clock.nextMs, 700)
  clock.advance(700)
  await t.rejects(first, new Refusal('keys_unavailable'))
  const second = find()
  t.equal(clock.nextMs, 0, 'it is known to fail')
  clock.advance(0)
  await t.rejects(second, new Refusal('keys_unavailable'))
  answers[1]!(2)
  await new Promise(setImmediate)
  const third = find()
  t.equal(clock.nextMs, 700, 'it has answered')
  answers[2]!(3)
  t.equal(await third, 3)
  const fourth = find()
  answers[3]!(new Refusal('keys_unavailable'))
  await t.rejects(fourth)
  const fifth = find()
  t.equal(clock.nextMs, 0)
  answers[4]!(5)
  t.equal(await fifth, 5, 'an answer in time counts')

  clock.advance(2 * 86_400_000)
  t.notOk(observing.isOn())
  find().catch(() => {})
  t.equal(clock.nextMs, Infinity, 'later it is waited for, as always')
})

t.test('A look-up that fails for itself alone says nothing of the next one.', async t => {
  const clock = new Clock()
  const observing = createObserving('2030-01-02', clock)
  const find = observing.patient(
    (error: Error) => Promise.reject(error),
    'introspection_unavailable',
    error => (error as Error).message === 'away'
  )
  for (const [message, nextMs] of [['one', 700], ['away', 700], ['one', 0]] as const) {
    const found = find(new Error(message))
    t.equal(clock.nextMs, nextMs, `before ${message}`)
    await t.rejects(found, { message })
  }
  find(new Error('one')).catch(() => {})
  t.equal(clock.nextMs, 0, 'nor does it say that there are answers again')
})
