import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'

const TAP = JSON.stringify(join(root, 'node_modules/tap/dist/esm/index.js'))
const LIMIT = JSON.stringify(join(root, 'test/time-limit.js'))

t.test('A file that hangs is ended and named, with the files that did not run for it, and others run.', async t => {
  const folder = t.testdir({
    'hangs.test.ts': `import t from ${TAP}
import { nameLoss } from ${LIMIT}
t.test('it never ends', () => {
  nameLoss('first.test.ts', ['second.test.ts', 'third.test.ts'])
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
})`,
    'passes.test.ts': `import t from ${TAP}
t.pass('the twin')`
  })
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^_?TAP|^NODE_OPTIONS$/.test(name)))
  const { code, output } = await new Promise<{ code: unknown, output: string }>(resolve => {
    execFile(
      process.execPath,
      [
        join(root, 'node_modules/.bin/tap'),
        '--timeout=20',
        ...['hangs', 'passes'].map(name => join(folder, `${name}.test.ts`))
      ],
      { cwd: root, env },
      (error, stdout, stderr) => resolve({ code: error?.code, output: stdout + stderr })
    )
  })
  t.equal(code, 1, output)
  t.match(output, /^No progress within 16 s: it never ends$/m)
  t.match(output, /^not ok first\.test\.ts: it hangs; not run for it: second\.test\.ts, third\.test\.ts$/m)
  t.match(output, /^not ok - .*hangs\.test\.ts: its process was ended by SIGKILL$/m)
  t.match(output, /^# \{ total: \d, pass: 1, fail: \d \}$/m)
})
