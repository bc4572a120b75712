import t from 'tap'
import { createAffinityWatch, type MissingAffinity } from '../../../lib/guard/affinity.ts'
import type { Guard, Identity } from '../../../lib/guard/guard.ts'
import { Refusal } from '../../../lib/refusal.ts'
import type { AuthScheme } from '../../../lib/guard/credentials.ts'

const MINUTE_MS = 60_000

function prepare () {
  let nowMs = 7
  let outcome: Parameters<Parameters<Guard>[1]>
  const warnings: MissingAffinity[] = []
  const watch = createAffinityWatch({
    nowMs: () => nowMs,
    onEvent: ({ name: _name, ...counts }) => {
      warnings.push(counts)
    }
  })
  const guards = [1, 2].map(() => watch((_request, done) => done(...outcome)))
  const settle = (...given: typeof outcome) => (times: number) => {
    outcome = given
    let changed = 0
    const done = (error: Error | null, identity?: Identity) => {
      if (error !== given[0] || identity !== given[1]) changed++
    }
    for (let n = 0; n < times; n++) guards[n % 2]!({} as never, done)
    t.equal(changed, 0, 'what the guard has found out goes on as it is')
  }
  return {
    warnings,
    wait (minutes: number) {
      nowMs += minutes * MINUTE_MS
    },
    accept: (times: number, scheme: AuthScheme = 'DPoP') => settle(null, { scheme } as Identity)(times),
    move: settle(new Refusal('nonce_of_another_instance')),
    refuse: settle(new Refusal('nonce_stale'))
  }
}

t.test(
  'More than one nonce of another instance for twenty accepted requests, in ten minutes with 100 of these, gives ' +
    'one warning.',
  async t => {
    const rows: Array<[warnings: MissingAffinity[], accepted: number, moved: number]> = [
      [[{ accepted: 100, moved: 6 }], 100, 6],
      [[], 100, 5],
      [[], 99, 99],
      [[{ accepted: 200, moved: 11 }], 200, 11],
      [[], 200, 10],
      [[], 0, 200]
    ]
    for (const [warnings, accepted, moved] of rows) {
      const watch = prepare()
      watch.wait(5)
      watch.accept(accepted)
      watch.move(moved)
      watch.accept(500, 'Bearer')
      watch.refuse(500)
      t.strictSame(watch.warnings, [], 'not before the ten minutes are over')
      watch.wait(10)
      watch.accept(1)
      t.strictSame(watch.warnings, warnings, `${accepted} and ${moved}`)
      watch.move(500)
      watch.accept(100)
      watch.wait(10)
      watch.accept(1)
      t.equal(watch.warnings.length, 1, 'a later ten minutes are judged too, and after a warning there is none')
    }
  }
)

t.test(
  'Requests in the first five minutes after the start are not counted, not even with those of the next ten ' +
    'minutes.',
  async t => {
    const watch = prepare()
    watch.wait(4.99)
    watch.accept(100)
    watch.move(100)
    watch.wait(0.01)
    watch.accept(100)
    watch.wait(10)
    watch.move(100)
    watch.wait(10)
    watch.accept(1)
    t.strictSame(watch.warnings, [])
  }
)
