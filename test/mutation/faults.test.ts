import t from 'tap'
import { existsSync } from 'node:fs'
import { holdsTest } from '../helpers/documents.ts'
import { FAULTS, testsOf, testsOfPoints } from './faults.ts'
import { withFault } from './planted.ts'

t.test('Each fault applies to one place of the current sources, and its tests exist', t => {
  const points = testsOfPoints()
  // A sample route may be deleted, and its fault with it.
  for (const fault of FAULTS.filter(({ file }) => !file.startsWith('routes/api/') || existsSync(file))) {
    t.doesNotThrow(() => withFault(fault), `${fault.point}: ${fault.fault}`)
    for (const { file, title } of testsOf(fault, points)) {
      t.ok(title === file || holdsTest(file, title), `${fault.point}: ${title}`)
    }
  }
  t.throws(() => withFault({ ...FAULTS[0]!, text: 'nowhere' }), /has the text 0 times/)
  t.throws(() => withFault({ ...FAULTS[0]!, text: '' }), /times/)
  t.throws(() => withFault({ ...FAULTS[0]!, replacement: FAULTS[0]!.text }), /nothing is changed/)
  t.throws(() => testsOf({ ...FAULTS[0]!, seenBy: ['test/none.test.ts'] }), /names no test/)
  t.end()
})

t.test('Each test that test/reports/reviews.md names for a point has a fault that it must see', t => {
  const points = testsOfPoints()
  t.ok(points.size >= 60, `${points.size} points`)
  const planted = new Set(
    FAULTS.flatMap(fault => testsOf(fault, points).map(({ file, title }) => `${fault.point} ${file}: ${title}`))
  )
  const named = [...points].flatMap(([point, tests]) => tests.map(({ file, title }) => `${point} ${file}: ${title}`))
  t.strictSame(named.filter(test => !planted.has(test)), [])
  t.end()
})
