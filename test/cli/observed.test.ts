import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { recordedOutputs } from '../helpers/recorded.ts'
import { observed } from '../../cli/observed.ts'
import { recordedRun } from '../helpers/shown.ts'
const recorded = recordedOutputs(t, import.meta.filename)

function run (argv: readonly string[], input = '') {
  return recordedRun(recorded(argv), out =>
    observed(argv, { env: {}, out, program: 'holdfast', input: Readable.from([Buffer.from(input)]) }))
}

const LOG = [
  '{"level":30,"reqId":"a1","time":1795680000000,"reason":"scope_missing","enforced":false,"status":403,"route":"/a","msg":"m"}',
  '{"level":30,"time":1790000001000,"reason":"credentials_missing","enforced":false,"status":401,"route":"/orders/:id","msg":"m"}',
  '{"level":30,"time":1790000000000,"reason":"credentials_missing","enforced":false,"status":401,"route":"/orders/:id","msg":"m"}',
  '{"level":30,"time":1790000002000,"reason":"no_rule","enforced":false,"status":404,"msg":"m"}',
  '{"level":30,"time":1790000002000,"reason":"no_rule","msg":"request refused"}',
  'npm WARN no JSON',
  '',
  '[1]'
].join('\n')
const AUDIT = [
  '{"time":"2026-11-26T08:00:00.000Z","event":"decision","id":"a1","decision":"observed","reason":"scope_missing","status":403,"client":"app","route":"/a"}',
  '{"time":"2026-11-26T08:00:01.000Z","event":"decision","decision":"observed","reason":"scope_missing","status":403,"client":"\\u001b[2J","route":"/a"}',
  '{"time":"2026-11-26T08:00:01.000Z","event":"decision","decision":"admitted","client":"app","route":"/a"}'
].join('\r\n')

t.test('Who would have been refused is told by rule, reason and client', async t => {
  for (const argv of [['--json'], []]) {
    t.equal((await run(argv, LOG)).code, 0)
    t.equal((await run(argv)).code, 0)
  }
})

t.test('A request counts once, whether the log names it, the audit, or both', async t => {
  const line = (reqId: string) => JSON.stringify({ reqId, time: 1, reason: 'no_rule', enforced: false, status: 404 })
  const audited = (id: string) =>
    JSON.stringify({ id, time: 2, decision: 'observed', reason: 'no_rule', status: 404, client: 'app' })
  const counts = async (...lines: string[]) => {
    const { rows } = JSON.parse((await run(['--json'], lines.join('\n'))).text)
    return rows.map(({ client, count }: { client: string | null, count: number }) => [client, count])
  }
  t.strictSame(await counts(line('a'), audited('a'), audited('b'), line('b')), [['app', 2]])
  t.strictSame(await counts(line('a'), line('b'), audited('b')), [['app', 1], [null, 1]], 'the audit was off')
  t.strictSame(await counts(line('a'), line('a'), audited('a')), [['app', 1], [null, 1]], 'an id came back')
  t.strictSame(await counts(...Array<string>(3).fill(line('a')), audited('a'), audited('a')), [['app', 2], [null, 1]])
})

t.test('Several files are one report, and lines of the audit count before those of the log', async t => {
  const directory = t.testdir({ log: LOG, 'audit.log': AUDIT, 'audit.log.1': AUDIT })
  const path = (name: string) => join(directory, name)
  t.equal((await run(['--json', path('log'), path('audit.log'), path('audit.log.1')])).code, 0)
  t.notOk((await run([path('audit.log')])).text.includes('\u001b'), 'no line steers a terminal')
  for (const name of ['nothing', '.']) t.equal((await run([path(name)])).code, 1)
})

t.test('A line without a time counts, and says nothing of first and last', async t => {
  for (const time of [null, 0]) {
    await run(['--json'], JSON.stringify({ time, reason: 'no_rule', enforced: false, status: 404 }))
  }
  const line = (time?: number) => JSON.stringify({ time, reason: 'no_rule', enforced: false, status: 404 })
  for (const times of [[1], [2, 1, 3], [undefined, 1], [1, undefined], [2, undefined, 1, 3, undefined]]) {
    const { first, last } = JSON.parse((await run(['--json'], times.map(line).join('\n'))).text).rows[0]
    const known = times.filter(time => time !== undefined)
    t.strictSame([first, last].map(Date.parse), [Math.min(...known), Math.max(...known)])
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
    t.equal((await run(['--json'], input)).code, 0)
  }
})
