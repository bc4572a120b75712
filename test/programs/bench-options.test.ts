import { spawnSync } from 'node:child_process'
import t from 'tap'
import { root } from '../helpers/documents.ts'

const REFUSED: ReadonlyArray<{ file: string, args: string[], says: string }> = [
  { file: 'bench/run.js', args: ['--no-such-option'], says: "Unknown option '--no-such-option'." },
  { file: 'bench/run.js', args: ['quick'], says: "Unexpected argument 'quick'." },
  { file: 'bench/run.js', args: ['--part'], says: "Option '--part <value>' argument missing." },
  {
    file: 'bench/run.js',
    args: ['--part', 'comapre'],
    says: '--part comapre is unknown: it is one of compare, gate, refusals, mixed, start, growth, revocation.'
  },
  { file: 'bench/hostile.js', args: ['--kind', 'none'], says: '--kind none is unknown: it is one of ' },
  { file: 'lab/history/main.ts', args: ['--second', '1'], says: "Unknown option '--second'." },
  { file: 'test/fuzz/fuzz.ts', args: ['--second', '1'], says: "Unknown option '--second'." },
  { file: 'test/fuzz/fuzz-parsers.ts', args: ['--second', '1'], says: "Unknown option '--second'." },
  { file: 'test/mutation/main.ts', args: ['--change'], says: "Unknown option '--change'." }
]

const run = (file: string, args: readonly string[]) =>
  spawnSync(process.execPath, ['--import', './cli/strip-types.js', file, ...args], { cwd: root, encoding: 'utf8' })

for (const { file, args, says } of REFUSED) {
  t.test(`${file} ${args.join(' ')} ends with one sentence, and no stack.`, async t => {
    const { status, stdout, stderr } = run(file, args)
    t.equal(status, 2)
    t.equal(stdout, '')
    t.equal(stderr, says.endsWith('.') ? `${says}\n` : `${stderr.split('\n', 1)[0]}\n`, 'one line')
    t.ok(stderr.startsWith(says), stderr)
  })
}

t.test('An option that is known is taken.', async t => {
  t.match(run('bench/run.js', ['--help']), { status: 0, stdout: /^npm run bench -- / })
  t.match(run('test/mutation/main.ts', ['--help']), {
    status: 0,
    stdout: /The code is 1 if a folder is below its target\.\n$/
  })
})
