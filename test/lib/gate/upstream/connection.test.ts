import type { Socket } from 'node:net'
import t from 'tap'
import { adaptConnection } from '../../../../lib/gate/upstream/connection.ts'

/** A socket with these pieces to read, undefined where nothing more has come, and writes that fail with this code. */
function connect (pieces: ReadonlyArray<string | undefined> = [], code?: string) {
  const sizes: unknown[] = []
  const waiting = pieces.map(piece => piece === undefined ? null : Buffer.from(piece))
  const fail = (...given: unknown[]) => {
    const done = given.at(-1) as (error?: Error | null) => void
    done(code === undefined ? null : Object.assign(new Error(code), { code }))
  }
  const socket = {
    read (size?: number) {
      sizes.push(size)
      return waiting.shift() ?? null
    },
    _write: fail,
    _writev: code === 'none' ? undefined : fail
  } as unknown as Socket
  return { socket, sizes, ...adaptConnection(socket, () => {}) }
}

t.test('What an upstream has sent is read although it has closed, and other failures are told', t => {
  const rows: ReadonlyArray<readonly [code: string | undefined, told: string | undefined]> =
    [['EPIPE', undefined], ['ECONNRESET', undefined], ['ETIMEDOUT', 'ETIMEDOUT'], [undefined, undefined]]
  for (const [code, told] of rows) {
    const { socket } = connect([], code)
    const codes: unknown[] = []
    const done = (error?: (Error & { code?: string }) | null) => codes.push(error?.code)
    socket._write('x', 'latin1', done)
    socket._writev!([], done)
    t.strictSame(codes, [told, told], code ?? 'none')
  }
  t.equal(connect([], 'none').socket._writev, undefined)
  t.end()
})

t.test('A reset is no end of an answer, unless the request had a body and all has been read', t => {
  const rows: ReadonlyArray<readonly [state: object, mayReset: boolean, isCut: boolean]> = [
    [{ errored: null, readableLength: 0 }, false, false],
    [{ errored: new Error('reset'), readableLength: 0 }, false, true],
    [{ errored: new Error('reset'), readableLength: 0 }, true, false],
    [{ errored: new Error('reset'), readableLength: 1 }, true, true]
  ]
  for (const [state, mayReset, isCut] of rows) {
    const connection = connect()
    Object.assign(connection.socket, state)
    connection.awaitHead(mayReset)
    t.equal(connection.isCut(), isCut)
  }
  t.end()
})

const CONTINUE = 'HTTP/1.1 100 Continue\r\nA: b\r\n\r\n'
const HINTS = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
const HEAD = 'HTTP/1.1 200 OK\r\n\r\n'
const HUGE = `HTTP/1.1 100${'x'.repeat(16 * 1024 - 12)}`

t.test('Before the head of an answer each 100 is dropped, in whatever pieces it comes, and nothing else', t => {
  const rows: ReadonlyArray<readonly [pieces: Array<string | undefined>, expected: Array<string | undefined>]> = [
    [[HEAD, CONTINUE], [HEAD, CONTINUE]],
    [[CONTINUE + HEAD, 'body'], [HEAD, 'body']],
    [[CONTINUE, HEAD], [HEAD]],
    [[CONTINUE, undefined, HEAD], [undefined, HEAD]],
    [[CONTINUE + CONTINUE + CONTINUE + HEAD], [HEAD]],
    [['HTTP', '/1.1 100', ' Continue\r\n', '\r\nHTTP', '/1.1 200'], ['HTTP/1.1 200']],
    [['HTTP/1.1 1', undefined, '00\r\n\r\nHTTP/1.1 200'], [undefined, 'HTTP/1.1 200']],
    [['HTTQ', HEAD], ['HTTQ', HEAD]],
    [['HTTP/1.1 101 x'], ['HTTP/1.1 101 x']],
    [['HTTP/1.1 10', '2 x'], [undefined]],
    [[`${HINTS}${CONTINUE}${HEAD}`], [HINTS + HEAD]],
    [[HINTS, CONTINUE, `${CONTINUE}${HINTS}`, HEAD, CONTINUE], [HINTS, HINTS, HEAD, CONTINUE]],
    [[HUGE, `\r\n\r\n${HEAD}`], [HEAD]],
    [[HUGE, 'x'], [`${HUGE}x`]]
  ]
  for (const [pieces, expected] of rows) {
    const { socket, sizes, awaitHead } = connect(pieces)
    awaitHead(true)
    const found = expected.map(() => (socket.read(7) as Buffer | null)?.toString())
    t.strictSame(found, expected, pieces.join('|').slice(0, 60))
    t.strictSame(sizes, sizes.map(() => 7))
  }
  t.equal(`${connect([CONTINUE]).socket.read()}`, CONTINUE, 'no head is due')
  t.end()
})
