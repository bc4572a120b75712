import { parseEnv } from 'node:util'
import t from 'tap'
import { applyDotenv, parseDotenv } from '../../../lib/settings/dotenv.ts'

const BOM = '\uFEFF'

t.test('Every form of an assignment is read, on each Node.', async t => {
  const cases: ReadonlyArray<readonly [text: string, variables: Record<string, string>]> = [
    ['', {}],
    [BOM, {}],
    ['A=1', { A: '1' }],
    ['A=1\nB=2\n', { A: '1', B: '2' }],
    ['A=1\r\nB=2\r\n', { A: '1', B: '2' }],
    ['A=1\rB=2', { A: '1', B: '2' }],
    [`${BOM}A=1\nB=2`, { A: '1', B: '2' }],
    [`${BOM}${BOM}A=1`, { A: '1' }],
    [`A=1\n${BOM}B=2`, { A: '1', B: '2' }],
    [`${BOM}# remark\nA=1`, { A: '1' }],
    [`${BOM}\nA=1`, { A: '1' }],
    ['# remark\nA=1', { A: '1' }],
    ['#\nA=1', { A: '1' }],
    ['\t # A=2\nA=1', { A: '1' }],
    ['# one\u2028line\nA=1', { A: '1' }],
    ['A=1\n\n  \t\n\nB=2', { A: '1', B: '2' }],
    ['A=1\n\n   \nB=2', { A: '1', B: '2' }],
    ['  A=1\n\tB=2', { A: '1', B: '2' }],
    ['A = 1\nB\t=\t2\t\nC= 3 \n', { A: '1', B: '2', C: '3' }],
    ['export A=1\nexport  B=2\nexport\tC=3\n  export D=4', { A: '1', B: '2', C: '3', D: '4' }],
    ['export=1', { export: '1' }],
    ['A=\nB=2', { A: '', B: '2' }],
    ['A= \nB=2', { A: '', B: '2' }],
    ['A=\t\r\nB=2', { A: '', B: '2' }],
    ['A=""\nB=\'\'\nC=``', { A: '', B: '', C: '' }],
    ['A=1 # remark\nB=2# remark\nC=#3\nD= # 4', { A: '1', B: '2', C: '', D: '' }],
    ['A="1 # 2" # remark\nB=\'3 # 4\'# remark\nC= " 5 " ', { A: '1 # 2', B: '3 # 4', C: ' 5 ' }],
    ['A="1\n# 2\nB=3"\nC=4', { A: '1\n# 2\nB=3', C: '4' }],
    ['A=\'1\r\n2\'\r\nB=3', { A: '1\n2', B: '3' }],
    ['A="1\\n2"\nB=\'1\\n2\'\nC=1\\n2', { A: '1\n2', B: '1\\n2', C: '1\\n2' }],
    ['A=`it\'s "1"`\nB=it\'s\nC=1"2"', { A: 'it\'s "1"', B: 'it\'s', C: '1"2"' }],
    ['A=b=c\nB=$A\nC=a b', { A: 'b=c', B: '$A', C: 'a b' }],
    ['A=1\nA=2', { A: '2' }],
    ['A_1=ü\n_b=2', { A_1: 'ü', _b: '2' }]
  ]
  for (const [text, variables] of cases) {
    // A line separator in a title would cut the report.
    const title = JSON.stringify(text).replaceAll('\u2028', '\\u2028')
    t.strictSame(parseDotenv(text), { variables, problems: [] }, title)
    // fastify-cli has Node read the file first, which misreads some of it.
    const environment = { ...parseEnv(text) }
    applyDotenv(environment, text)
    t.strictSame(environment, { ...variables }, `${title} in the environment`)
  }
})

t.test('Any other line is named by its number and never quoted, and the lines around it are read.', async t => {
  const lines = [
    'S3CRET',
    'S3CRET: 1',
    'set S3CRET=1',
    '\u00A0S3CRET=1',
    'S3CRET\u00A0=1',
    '\u00A0',
    '\u200BS3CRET=1',
    '\fS3CRET=1',
    '=s3cret',
    'S3-CRET=1',
    's3.cret=1',
    '1S3CRET=1',
    'S3CRÈT=1',
    'export S3CRET',
    'EXPORT S3CRET=1',
    'S3CRET 1',
    '// s3cret',
    '; s3cret',
    '[s3cret]',
    '{"S3CRET":1}',
    'S3CRET="1',
    'S3CRET=\'1',
    'S3CRET=`1',
    'S3CRET="1"2',
    'S3CRET= "1" 2',
    'S3CRET="a\\"b"',
    '\0S\x003\0'
  ]
  for (const line of lines) {
    for (const end of ['\n', '\r\n', '\r']) {
      const problems = ['.env, line 3: expected NAME=value, a comment or a blank line']
      t.strictSame(parseDotenv(['A=1', '# remark', line, 'B=2'].join(end)), {
        variables: { A: '1', B: '2' },
        problems
      }, JSON.stringify(line))
    }
  }
  t.equal(parseDotenv('x\n\ny').problems.length, 2, 'each such line')
})

t.test('What the process was given beats the file, unless it is empty.', async t => {
  const environment = { ...parseEnv('A= \nB=2\nC=3'), A: 'mine', C: '' }
  applyDotenv(environment, 'A= \nB=2\nC=3')
  t.strictSame(environment, { A: 'mine', B: '2', C: '3' })
})
