import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import t from 'tap'
import { keepAlive } from '../../../lib/gate/keep-alive.ts'
import type { AnswerHeaders, UpstreamAnswer } from '../../../lib/gate/upstream/answer.ts'
import { Clock } from '../../helpers/clock.ts'

const EVENTS = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'yes' }
const MARK = '\u00ef\u00bb\u00bf'

const kept = (clock: Clock, body: UpstreamAnswer['body'], headers: AnswerHeaders = EVENTS, method = 'GET', status = 200) =>
  keepAlive({ status, headers, body }, method, { after: clock.after, steadyMs: clock.steadyMs, everyMs: 15_000 })

/** What a stream gives for each piece of the upstream, with 15 s after each. */
async function readSlowly (pieces: readonly string[]) {
  const clock = new Clock()
  const source = new PassThrough()
  if (pieces[0] !== '') source.write(pieces[0]!, 'latin1')
  const body = kept(clock, source).body as Readable
  const read = () => (body.read() as Buffer | null)?.toString('latin1') ?? ''
  const seen: string[] = []
  for (const piece of pieces) {
    if (seen.length > 0) source.write(piece, 'latin1')
    await new Promise(setImmediate)
    const given = read()
    clock.advance(15_000)
    seen.push(given + read())
  }
  source.end()
  body.resume()
  await once(body, 'end')
  t.equal(clock.timers.size, 0, 'no timer is left')
  return seen
}

t.test('A silent stream gets comments, and never inside an event.', async t => {
  const rows: Array<[title: string, pieces: string[], expected: string[]]> = [
    ['nothing but the head', ['', ''], [':\n\n:\n\n', ':\n\n']],
    ['an event with the head', ['data: 1\n\n', 'data: 2\n\n'], ['data: 1\n\n:\n\n', 'data: 2\n\n:\n\n']],
    ['an event cut in the middle', ['data: 1\n', 'da', 'ta: 2\n', '\n'], ['data: 1\n', 'da', 'ta: 2\n', '\n:\n\n']],
    ['a line cut behind its return', ['data: 1\r', '\n', '\r', '\n'], ['data: 1\r', '\n', '\r:\n\n', '\n:\n\n']],
    ['returns alone', ['data: 1\r', 'data: 2\r', '\r', 'id'], ['data: 1\r', 'data: 2\r', '\r:\n\n', 'id']],
    ['a comment of the upstream', [': o', 'k\n', 'id: 5\n'], [': o', 'k\n:\n\n', 'id: 5\n']],
    ['a comment inside an event', ['data: 1\n: ok\n', '\n'], ['data: 1\n: ok\n', '\n:\n\n']],
    ['a byte order mark', [`${MARK}data: 1\n\n`], ['data: 1\n\n:\n\n']],
    ['one in pieces', ['\u00ef\u00bb', '\u00bfda', 'ta\n\n'], [':\n\n', 'da', 'ta\n\n:\n\n']],
    ['what begins as one', ['\u00ef\u00bb', 'x', '\n\n'], [':\n\n', '\u00ef\u00bbx', '\n\n:\n\n']],
    ['one that is not at the beginning', ['\n', MARK], ['\n:\n\n', MARK]]
  ]
  for (const [title, pieces, expected] of rows) t.strictSame(await readSlowly(pieces), expected, title)
})

t.test('Silence is counted from the last byte, and what waits for its reader needs no comment.', async t => {
  const clock = new Clock()
  const source = new PassThrough()
  const body = kept(clock, source).body as Readable
  t.equal(String(body.read()), ':\n\n')
  clock.advance(14_999)
  source.write('\n')
  await new Promise(setImmediate)
  t.equal(String(body.read()), '\n')
  clock.advance(14_999)
  t.equal(body.read(), null)
  clock.advance(1)
  clock.advance(60_000)
  t.equal(String(body.read()), ':\n\n', 'one, however long nobody reads')
  source.destroy(new Error('broken'))
  t.equal((await once(body, 'error') as [Error])[0].message, 'broken')
  t.equal(clock.timers.size, 0)
})

t.test('Comments are for streams of events alone that anyone can read.', async t => {
  const clock = new Clock()
  const whole = Buffer.from('\ufeffdata: 1\n\n')
  const read = kept(clock, whole)
  t.equal(String(read.body), 'data: 1\n\n')
  t.equal(read.headers['x-accel-buffering'], 'no')
  for (
    const [headers, method, status] of [
      [EVENTS, 'HEAD', 200],
      [EVENTS, 'GET', 201],
      [{ ...EVENTS, 'content-length': '12' }, 'GET', 200],
      [{ ...EVENTS, 'content-encoding': 'gzip' }, 'GET', 200],
      [{ ...EVENTS, 'content-type': 'text/event-streams' }, 'GET', 200]
    ] as const
  ) {
    const answer = kept(clock, whole, headers, method, status)
    t.equal(answer.headers, headers)
    t.equal(answer.body, whole)
  }
  t.equal(clock.timers.size, 0)
  const body = new PassThrough()
  const none = keepAlive({ status: 200, headers: EVENTS, body }, 'GET', { ...clock, everyMs: 0 })
  clock.advance(60_000)
  t.equal((none.body as Readable).read(), null)
  t.equal(none.headers['x-accel-buffering'], 'no')
  body.destroy()
})
