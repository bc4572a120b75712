import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { holdsTest, root, textOf } from '../helpers/documents.ts'

/** The tests that a page names by title and file. */
const namedIn = (page: string): Array<{ title: string, file: string }> =>
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

/** Each section with the points that its source numbers, so that none is left out. */
const REVIEWED: ReadonlyArray<{ title: string, points: readonly string[] }> = [
  { title: 'RFC 9449 section 11: DPoP', points: Array.from({ length: 11 }, (_, at) => `11.${at + 1}`) },
  { title: 'RFC 8725 section 3: JSON Web Tokens', points: Array.from({ length: 12 }, (_, at) => `3.${at + 1}`) },
  {
    title: 'RFC 9700: what binds a resource server',
    points: ['2.2.1', '2.3', '2.6', '4.3.2', '4.9.1', '4.9.2', '4.10.1', '4.10.2', '4.13', '4.15']
  },
  {
    title: 'RFC 9728 section 7: metadata of the resource',
    points: Array.from({ length: 10 }, (_, at) => `7.${at + 1}`)
  },
  { title: 'OWASP API Security Top 10 (2023)', points: Array.from({ length: 10 }, (_, at) => `API${at + 1}`) }
]

t.test(
  'lab/reports/reviews.md leaves no point of a review out, and each row names a test or says that there is ' +
    'nothing to show.',
  async t => {
    const page = textOf('lab/reports/reviews.md')
    for (const { title, points } of REVIEWED) {
      const section = page.split(`### ${title}\n`)[1]!.split(/\n##/)[0]!
      const rows = section.split('\n').filter(line => line.startsWith('| ')).slice(2).map(line => line.split(' | '))
      t.strictSame(rows.map(([point]) => point!.split(' ')[1]), points, title)
      for (const [point, what, shown] of rows) {
        t.ok(
          namedIn(shown!).length > 0 ||
            (shown === 'nothing to show |' && /^(?:Not ours: |Served unsigned)/.test(what!)),
          point!
        )
      }
    }
  }
)
