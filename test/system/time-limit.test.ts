import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'

/** A start of tap must be over in a fifth of it, also on a busy machine. All waiting is at once. */
const SECONDS = 60

/** Runs one file of tests by tap, with our settings of it, in a project of its own. */
function runTests (text: string, reporter = 'tap'): Promise<{ code: number | null, output: string }> {
  const project = mkdtempSync(join(tmpdir(), 'time-limit-'))
  t.teardown(() => rmSync(project, { recursive: true, force: true }))
  for (
    const name of [
      '.taprc',
      'package.json',
      'cli/strip-types.js',
      'test/less-work.js',
      'test/uncounted-children.js',
      'test/time-limit.js',
      'test/progress.ts',
      'test/reporter.js'
    ]
  ) cpSync(join(root, name), join(project, name))
  symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'))
  mkdirSync(join(project, 'test/plugins'))
  writeFileSync(join(project, 'test/plugins/hanging.test.ts'), `import t from 'tap'\n${text}`)
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^_?TAP/.test(name) && name !== 'NODE_OPTIONS')
  )
  return new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [
        'node_modules/@tapjs/run/dist/esm/index.js',
        '--disable-coverage',
        `--reporter=${reporter}`,
        `--timeout=${SECONDS}`,
        'test/plugins/hanging.test.ts'
      ],
      { cwd: project, env },
      (_error, stdout, stderr) => {
        resolve({ code: child.exitCode, output: stdout + stderr })
      }
    )
  })
}

const QUICK = "t.test('A quick one', async t => { t.pass() })\n"
const rows: ReadonlyArray<{ title: string, test: string }> = [
  { title: 'waits', test: 'async t => { for (;;) await new Promise(resolve => setTimeout(resolve, 5)) }' },
  { title: 'blocks its process', test: 'async t => { for (;;); }' }
]

const slow = (results: number): string =>
  `t.test('A slow one', async t => {
  for (let left = ${results}; left > 0; left--) {
    await new Promise(resolve => setTimeout(resolve, ${SECONDS * 600}))
    t.pass()
  }
})\n`
const slowRun = runTests(slow(1) + slow(2))
const runs = rows.map(({ title, test }) => ({
  title,
  run: runTests(`${QUICK}t.test('The one that hangs', ${test})\n${QUICK}`)
}))
const lossRun = runTests(
  "import { nameLoss } from '../time-limit.js'\nnameLoss('test/a.test.ts', ['b.test.ts', 'c.test.ts'])\n" +
    `${QUICK}t.test('The one that hangs', ${rows[1]!.test})\n`,
  './test/reporter.js'
)

/** What happens while the test waits. */
const uncaught: ReadonlyArray<{ title: string, cause: string }> = [
  { title: 'is thrown in a timer', cause: "setTimeout(() => { throw new Error('lost') }, 1)" },
  { title: 'is thrown in a callback', cause: "fs.readFile('package.json', () => { throw new Error('lost') })" },
  { title: 'rejects a promise of nobody', cause: "Promise.reject(new Error('lost'))" },
  {
    title: 'is thrown inside a test of a test',
    cause: "await t.test('Inner', async t => { setTimeout(() => { throw new Error('lost') }, 1); await wait() })"
  }
]
const lost = uncaught.map(({ title, cause }) => ({
  title,
  run: runTests(
    "import fs from 'node:fs'\nconst wait = () => new Promise(resolve => setTimeout(resolve, 2000))\n" +
      `${QUICK}t.test('The one that fails', async t => { t.pass(); ${cause}; await wait() })\n${QUICK}`
  )
}))

for (const { title, run } of runs) {
  t.test(`A test that ${title} without end is named, and its process ended`, async t => {
    const { code, output } = await run
    t.equal(code, 1)
    t.strictSame(output.match(/^No progress within .*$/mg), [
      `No progress within ${SECONDS * 0.8} s: The one that hangs`
    ])
    t.match(output, /^ +ok 1 - A quick one/m, 'the twin')
    t.match(output, /^not ok test\/plugins\/hanging\.test\.ts: it hangs$/m)
  })
}

t.test('A file that hangs is a failure of the run, with the files that do not run for it', async t => {
  const { code, output } = await lossRun
  t.equal(code, 1)
  t.match(output, /^not ok test\/a\.test\.ts: it hangs; not run for it: b\.test\.ts, c\.test\.ts$/m)
  t.match(output, /^not ok - test\/plugins\/hanging\.test\.ts: its process was ended by SIGKILL$/m)
  t.match(output, /^# \{ total: 2, pass: 1, fail: 1 \}$/m)
})

t.test('The limit begins anew with each test, and with each result', async t => {
  const { code, output } = await slowRun
  t.equal(code, 0, output)
})

for (const { title, run } of lost) {
  t.test(`An error that nobody catches fails the test that runs: it ${title}`, async t => {
    const { code, output } = await run
    t.equal(code, 1)
    t.match(output, /^ +not ok \d+ - lost/m)
    t.match(output, /^ +not ok 2 - The one that fails/m)
    t.equal(output.match(/^ +ok \d+ - A quick one/mg)?.length, 2, 'the twins')
  })
}
