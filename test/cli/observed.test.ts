import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { recordedOutputs } from '../helpers/recorded.ts'
import { observed } from '../../cli/observed.ts'
const recorded = recordedOutputs(t, import.meta.filename)

async function run (argv: readonly string[], input = ''): Promise<{ code: number, text: string }> {
  const record = recorded(argv)
  let text = ''
  const code = await observed(argv, {
    env: {},
    out: { write: (part: string) => { text += part } },
    program: 'holdfast',
    input: Readable.from([Buffer.from(input)])
  })
  record(`${text}code ${code}`)
  return { code, text }
}

const LOG = [
  '{"level":30,"time":1790000001000,"reason":"credentials_missing","enforced":false,"status":401,"route":"/orders/:id","msg":"m"}',
  '{"level":30,"time":1790000000000,"reason":"credentials_missing","enforced":false,"status":401,"route":"/orders/:id","msg":"m"}',
  '{"level":30,"time":1790000002000,"reason":"no_rule","enforced":false,"status":404,"msg":"m"}',
  '{"level":30,"time":1790000002000,"reason":"no_rule","msg":"request refused"}',
  'npm WARN no JSON',
  '',
  '[1]'
].join('\n')
const AUDIT = [
  '{"time":"2026-11-26T08:00:00.000Z","event":"decision","decision":"observed","reason":"scope_missing","status":403,"client":"app","route":"/a"}',
  '{"time":"2026-11-26T08:00:01.000Z","event":"decision","decision":"observed","reason":"scope_missing","status":403,"client":"\\u001b[2J","route":"/a"}',
  '{"time":"2026-11-26T08:00:01.000Z","event":"decision","decision":"admitted","client":"app","route":"/a"}'
].join('\r\n')

const NO_RULE = {
  route: null,
  reason: 'no_rule',
  client: null,
  status: 404,
  count: 1,
  first: '2026-09-21T14:13:22.000Z',
  last: '2026-09-21T14:13:22.000Z'
}
const MISSING = {
  ...NO_RULE,
  route: '/orders/:id',
  reason: 'credentials_missing',
  status: 401,
  count: 2,
  first: '2026-09-21T14:13:20.000Z',
  last: '2026-09-21T14:13:21.000Z'
}

t.test('Who would have been refused is told by rule, reason and client', async t => {
  const { code, text } = await run(['--json'], LOG)
  t.equal(code, 0)
  t.strictSame(JSON.parse(text), { rows: [MISSING, NO_RULE], unreadable: 2 })
  t.strictSame(await run([], LOG), {
    code: 0,
    text: 'Would have been refused:\n' +
      '2 x 401 credentials_missing, rule /orders/:id, client null, 2026-09-21T14:13:20.000Z to 2026-09-21T14:13:21.000Z\n' +
      '1 x 404 no_rule, rule null, client null, 2026-09-21T14:13:22.000Z to 2026-09-21T14:13:22.000Z\n' +
      'Lines that could not be read: 2\n'
  })
  t.strictSame(await run([]), { code: 0, text: 'Would have been refused: nobody\nLines that could not be read: 0\n' })
})

t.test('Several files are one report, and lines of the audit count before those of the log', async t => {
  const directory = t.testdir({ log: LOG, 'audit.log': AUDIT, 'audit.log.1': AUDIT })
  const path = (name: string) => join(directory, name)
  const { rows } = JSON.parse((await run(['--json', path('log'), path('audit.log'), path('audit.log.1')])).text)
  t.strictSame(rows.map(({ client, count }: any) => [client, count]), [['app', 2], ['\u001b[2J', 2]])
  t.notOk((await run([path('audit.log')])).text.includes('\u001b'), 'no line steers a terminal')
  for (const name of ['nothing', '.']) {
    const { code, text } = await run([path(name)])
    t.equal(code, 1)
    t.match(text, /cannot be read: E(?:NOENT|ISDIR)/)
  }
})

t.test('A line without a time counts, and says nothing of first and last', async t => {
  for (const [time, at] of [[null, null], [0, '1970-01-01T00:00:00.000Z']] as const) {
    const { text } = await run(['--json'], JSON.stringify({ time, reason: 'no_rule', enforced: false, status: 404 }))
    t.strictSame(JSON.parse(text).rows, [{ ...NO_RULE, first: at, last: at }])
  }
})

t.test('A line without a status, or with a member that is no text, cannot be read', async t => {
  const line = { decision: 'observed', reason: 'no_rule', status: 404, route: null, client: 'app' }
  const wrongs = [{ reason: undefined }, { reason: 7 }, { status: undefined }, { status: '404' }, { route: {} }, { client: ['app'] }]
  for (const wrong of [...wrongs, { decision: undefined, enforced: false, reason: {} }]) {
    const { text } = await run(['--json'], JSON.stringify({ ...line, ...wrong }))
    t.strictSame(JSON.parse(text), { rows: [], unreadable: 1 }, JSON.stringify(wrong))
  }
  for (const input of [JSON.stringify(line), `${JSON.stringify(line)}\n{"decision":"observed"}`]) {
    const { rows, unreadable } = JSON.parse((await run(['--json'], input)).text)
    t.strictSame([rows.length, rows[0].reason, unreadable], [1, 'no_rule', input.split('\n').length - 1])
  }
})
