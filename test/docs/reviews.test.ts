import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { holdsTest, root, textOf } from '../helpers/documents.ts'

/** The tests that a page names by title and file. */
const namedIn = (page: string) =>
  [...page.matchAll(/\[([^\]]+)\]\((?:\.\.\/)+(test\/[\w./-]+\.test\.ts)\)/g)]
    .map(([, title, file]) => ({ title: title!, file: file! })).filter(({ title, file }) => title !== file)

const isThere = ({ title, file }: { title: string, file: string }) =>
  existsSync(join(root, file)) && holdsTest(file, title)

t.test('Each test that lab/reports/fapi.md and lab/reports/reviews.md name exists, under that title.', async t => {
  for (
    const { page, least } of [{ page: 'lab/reports/fapi.md', least: 25 }, {
      page: 'lab/reports/reviews.md',
      least: 70
    }]
  ) {
    const named = namedIn(textOf(page))
    t.ok(named.length >= least, `${page}: ${named.length}`)
    t.strictSame(named.filter(test => !isThere(test)), [], page)
  }
  t.strictSame(namedIn('[Which tokens pass](../../test/plugins/tokens.test.ts)').map(isThere), [true])
  t.strictSame(
    namedIn('[Which tokens fail](../../test/plugins/tokens.test.ts)').map(isThere),
    [false],
    'the twin: another title does not exist'
  )
  t.strictSame(
    namedIn('[Which tokens pass](../../test/plugins/none.test.ts)').map(isThere),
    [false],
    'nor is another file'
  )
})
