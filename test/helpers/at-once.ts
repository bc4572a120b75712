import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'

/** Each has connections and servers of its own. */
const JOBS = 4

/** For tests that mostly wait, and change nothing that others of their process see: several run at once. */
export function testsAtOnce (): Pick<Test, 'test'> {
  const added: Array<Parameters<Test['test']>> = []
  t.test('at once', { jobs: JOBS }, async t => {
    // The file adds them meanwhile.
    await turn()
    for (const given of added) t.test(...given)
  })
  return { test: ((...given: Parameters<Test['test']>) => added.push(given)) as unknown as Test['test'] }
}
