import { once } from 'node:events'
import { connect } from 'node:net'
import type { ClientHttp2Session } from 'node:http2'
import t, { type Test } from 'tap'
import { createGrpcServer, GRPC_LIMITS, type GrpcServer } from '../../plugins/gate-grpc/grpc-server.ts'
import { answerTo, beginCall, callGrpc, frame, openGrpc, ping } from '../helpers/grpc-client.ts'

const ANSWERS_OF_TURN = 16

const PATH = '/test.Service/Ask'
const CALM = { code: 'ERR_HTTP2_STREAM_ERROR', message: 'Stream closed with error code NGHTTP2_ENHANCE_YOUR_CALM' }
const REFUSED = { code: 'ERR_HTTP2_STREAM_ERROR', message: 'Stream closed with error code NGHTTP2_REFUSED_STREAM' }
const { messageBytes, bytesOfConnection, bytes, connections, callsOfConnection, calls, callMs, idleMs } = GRPC_LIMITS

interface Running {
  server: GrpcServer
  port: number
  /** Messages that were answered. */
  asked: Buffer[]
  /** Moves the clock, and lets the server look at it. */
  pass (ms: number): void
  /** Runs what the server has put off. */
  runLater (): void
  /** From now on no answer is made before this is resolved. */
  hold (): () => void
  open (): Promise<ClientHttp2Session>
}

async function start (t: Test): Promise<Running> {
  let nowMs = 0
  let sweep = () => {}
  let later = () => {}
  let held = Promise.resolve()
  const asked: Buffer[] = []
  const server = createGrpcServer({
    path: PATH,
    accepts: address => address === '127.0.0.1',
    async answer (message) {
      asked.push(message)
      await held
      return message
    },
    onFault: error => {
      throw error
    },
    onError: error => {
      throw error
    }
  }, {
    steadyMs: () => nowMs,
    every (_ms, run) {
      sweep = run
      return () => {
        sweep = () => {}
      }
    },
    after (_ms, run) {
      later = run
      return () => {
        later = () => {}
      }
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()!
  t.teardown(async () => {
    const closed = server.close()
    later()
    await closed
  })
  return {
    server,
    port,
    asked,
    pass (ms) {
      nowMs += ms
      sweep()
    },
    runLater: () => later(),
    hold () {
      let release = () => {}
      held = new Promise(resolve => {
        release = resolve
      })
      return release
    },
    open: () => openGrpc(t, port)
  }
}

const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise(setImmediate)
}

/** A raw connection, and what it has received so far. */
async function openRaw (t: Test, { server, port }: Running) {
  const before = server.connections
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  let size = 0
  socket.on('data', chunk => {
    size += chunk.length
  })
  await once(socket, 'connect')
  await until(() => server.connections > before)
  return { socket, received: () => size }
}

t.test('A message may come in any pieces, and only one of the stated length is answered.', async t => {
  const running = await start(t)
  const client = await running.open()
  const whole = frame(Buffer.from('request!'))
  t.strictSame((await callGrpc(client, PATH, whole)).message, Buffer.from('request!'))

  const stream = beginCall(client, PATH)
  const answer = answerTo(stream)
  for (const byte of whole) {
    await new Promise(resolve => stream.write(Buffer.from([byte]), resolve))
    await ping(client)
  }
  stream.end()
  t.strictSame((await answer).message, Buffer.from('request!'), 'byte by byte')
  t.strictSame((await callGrpc(client, PATH, frame(Buffer.alloc(0)))).message, Buffer.alloc(0), 'an empty one')
  t.equal(running.asked.length, 3)

  const wrong: ReadonlyArray<readonly [title: string, body: Buffer]> = [
    ['nothing', Buffer.alloc(0)],
    ['half a head', whole.subarray(0, 4)],
    ['a byte less', whole.subarray(0, -1)],
    ['a byte more', Buffer.concat([whole, Buffer.alloc(1)])],
    ['compressed', Buffer.concat([Buffer.from([1]), whole.subarray(1)])]
  ]
  for (const [title, body] of wrong) t.equal((await callGrpc(client, PATH, body)).status, '3', title)
  t.equal((await callGrpc(client, '/test.Service/Other', whole)).status, '12')
  t.equal(running.asked.length, 3)
})

t.test('A call that is refused before its end is over at once.', async t => {
  const running = await start(t)
  const client = await running.open()
  for (
    const [status, path, body] of [['3', PATH, Buffer.from([1, 0, 0, 0, 9])], [
      '12',
      '/test.Service/Other',
      frame(Buffer.alloc(0), 9)
    ]] as const
  ) {
    const stream = beginCall(client, path)
    const answer = answerTo(stream)
    stream.write(body)
    t.equal((await answer).status, status)
  }
})

t.test('A message is refused by the length that it states, and before it is sent.', async t => {
  const running = await start(t)
  const client = await running.open()
  t.equal((await callGrpc(client, PATH, frame(Buffer.alloc(messageBytes)))).message.length, messageBytes)
  const stream = beginCall(client, PATH)
  const answer = answerTo(stream)
  stream.write(frame(Buffer.alloc(0), messageBytes + 1))
  await t.rejects(answer, CALM)
  t.equal(running.asked.length, 1)
})

t.test('The messages of one connection, and those of all, are limited in bytes.', async t => {
  const running = await start(t)
  const fill = async (client: ClientHttp2Session, size: number) => {
    const ends: Array<() => Promise<unknown>> = []
    for (let left = size; left > 0; left -= messageBytes) {
      const stream = beginCall(client, PATH)
      const answer = answerTo(stream)
      // Some are never ended.
      answer.catch(() => {})
      stream.write(frame(Buffer.alloc(0), messageBytes))
      ends.push(() => {
        stream.end(Buffer.alloc(messageBytes))
        return answer
      })
    }
    await ping(client)
    return () => Promise.all(ends.map(end => end()))
  }
  const one = await running.open()
  const end = await fill(one, bytesOfConnection)
  await t.rejects(callGrpc(one, PATH, frame(Buffer.alloc(1))), CALM, 'no byte more on that connection')
  t.equal((await callGrpc(one, PATH, frame(Buffer.alloc(0)))).status, '0')
  const others = await Promise.all(Array.from({ length: bytes / bytesOfConnection - 1 }, running.open))
  const last = await running.open()
  t.equal((await callGrpc(last, PATH, frame(Buffer.alloc(1)))).status, '0', 'another one has room')
  await Promise.all(others.map(other => fill(other, bytesOfConnection)))
  await t.rejects(callGrpc(last, PATH, frame(Buffer.alloc(1))), CALM, 'until all together have too much')
  await end()
  t.equal((await callGrpc(last, PATH, frame(Buffer.alloc(1)))).status, '0', 'what is answered makes room')
  t.equal((await callGrpc(one, PATH, frame(Buffer.alloc(1)))).status, '0')
})

t.test('A connection has a maximum number of calls at once, cancelled ones included.', async t => {
  const running = await start(t)
  const release = running.hold()
  const client = await running.open()
  const cancelled = Array.from({ length: callsOfConnection }, () => {
    const stream = beginCall(client, PATH)
    stream.on('error', () => {})
    stream.end(frame(Buffer.alloc(0)))
    return stream
  })
  await until(() => running.asked.length === callsOfConnection)
  for (const stream of cancelled) stream.close()
  await Promise.all(cancelled.map(stream => once(stream, 'close')))
  // Newer releases of Node hold a cancelled stream for longer, and refuse the next one by themselves.
  const { message } = await callGrpc(client, PATH, frame(Buffer.alloc(0))).then(
    () => ({ message: 'answered' }),
    (error: Error) => error
  )
  t.ok([REFUSED.message, CALM.message].includes(message), message)
  release()
  await new Promise(setImmediate)
  t.equal((await callGrpc(client, PATH, frame(Buffer.alloc(0)))).status, '0', 'after their answers there is room')
  t.equal(running.asked.length, callsOfConnection + 1)
})

t.test('A flood of calls leaves turns of the event loop to everything else.', async t => {
  const running = await start(t)
  const client = await running.open()
  const perTurn: number[] = []
  let isOver = false
  const count = (before: number) => {
    perTurn.push(running.asked.length - before)
    if (!isOver) setImmediate(count, running.asked.length)
  }
  setImmediate(count, 0)
  const answers = await Promise.all(
    Array.from({ length: callsOfConnection }, () => callGrpc(client, PATH, frame(Buffer.alloc(0))))
  )
  isOver = true
  t.strictSame(new Set(answers.map(({ status }) => status)), new Set(['0']))
  t.equal(Math.max(...perTurn), ANSWERS_OF_TURN)
})

t.test('A call that is cancelled before its turn is not answered.', async t => {
  const running = await start(t)
  const client = await running.open()
  const before = Array.from({ length: callsOfConnection - 1 }, () => callGrpc(client, PATH, frame(Buffer.from('kept'))))
  const stream = beginCall(client, PATH)
  stream.on('error', () => {})
  stream.end(frame(Buffer.from('taken back')))
  stream.close(8)
  await Promise.all([once(stream, 'close'), ...before])
  t.equal((await callGrpc(client, PATH, frame(Buffer.from('kept')))).status, '0')
  t.strictSame(new Set(running.asked.map(String)), new Set(['kept']))
})

t.test('All connections together have a maximum number of calls at once.', async t => {
  const running = await start(t)
  const clients = await Promise.all(Array.from({ length: calls / callsOfConnection }, running.open))
  const streams = clients.flatMap(client =>
    Array.from({ length: callsOfConnection }, () => {
      const stream = beginCall(client, PATH)
      stream.on('error', () => {})
      return stream
    })
  )
  await Promise.all(clients.map(ping))
  const other = await running.open()
  await t.rejects(callGrpc(other, PATH, frame(Buffer.alloc(0))), REFUSED)
  const first = answerTo(streams[0]!)
  streams[0]!.end(frame(Buffer.alloc(0)))
  await first
  t.equal((await callGrpc(other, PATH, frame(Buffer.alloc(0)))).status, '0')
})

t.test('The number of concurrent connections is limited.', async t => {
  const running = await start(t)
  const raw = []
  for (let index = 0; index < connections; index++) raw.push(await openRaw(t, running))
  const over = connect(running.port, '127.0.0.1')
  over.on('error', () => {})
  await once(over, 'close')
  t.equal(running.server.connections, connections)
  raw[0]!.socket.destroy()
  await until(() => running.server.connections === connections - 1)
  t.equal((await callGrpc(await running.open(), PATH, frame(Buffer.alloc(0)))).status, '0')
})

t.test('A call has a time limit, until its answer is taken.', async t => {
  const running = await start(t)
  for (const unsent of [1, 9]) {
    const client = await running.open()
    const stream = beginCall(client, PATH)
    stream.on('error', () => {})
    stream.write(frame(Buffer.alloc(0), unsent))
    await ping(client)
    running.pass(callMs)
    t.equal(running.server.connections, 1)
    const ended = once(client, 'close')
    running.pass(1)
    await Promise.all([ended, until(() => running.server.connections === 0)])
  }
})

t.test('A connection without an answer is given up: it may be silent, send pings, or cancel its calls.', async t => {
  const running = await start(t)
  const asking = await running.open()
  t.equal((await callGrpc(asking, PATH, frame(Buffer.alloc(0)))).status, '0')
  const { socket } = await openRaw(t, running)
  const pinging = await running.open()
  running.pass(idleMs)
  const release = running.hold()
  const { length } = running.asked
  const taken = beginCall(pinging, PATH)
  taken.on('error', () => {})
  taken.end(frame(Buffer.alloc(0)))
  await until(() => running.asked.length > length)
  taken.close(8)
  await once(taken, 'close')
  await ping(pinging)
  release()
  await ping(pinging)
  t.equal((await callGrpc(asking, PATH, frame(Buffer.alloc(0)))).status, '0')
  t.equal(running.server.connections, 3, 'until the limit')
  const ended = [socket, pinging].map(each => once(each, 'close'))
  running.pass(1)
  running.pass(2000)
  // Both have been asked to leave. The silent one does not.
  running.pass(8000)
  await Promise.all(ended)
  await until(() => running.server.connections === 1)
  t.equal((await callGrpc(asking, PATH, frame(Buffer.alloc(0)))).status, '0', 'the one that asks stays')
})

t.test('An answer that its peer does not read, or cancels, keeps no connection.', async t => {
  const running = await start(t)
  const deaf = await openGrpc(t, running.port, { settings: { initialWindowSize: 0 } })
  running.pass(idleMs)
  const stream = beginCall(deaf, PATH)
  stream.on('error', () => {})
  stream.end(frame(Buffer.from('request!')))
  await once(stream, 'response')
  stream.close(8)
  await once(stream, 'close')
  await ping(deaf)
  const closed = once(deaf, 'close')
  running.pass(1)
  running.pass(2000)
  running.pass(8000)
  await closed
  await until(() => running.server.connections === 0)
})

t.test('A call that was under way when its connection was given up is answered.', async t => {
  const running = await start(t)
  const client = await running.open()
  const notice = once(client, 'goaway')
  running.pass(idleMs)
  const stream = beginCall(client, PATH)
  const answer = answerTo(stream)
  await ping(client)
  running.pass(1)
  running.pass(2000)
  stream.end(frame(Buffer.from('late')))
  t.strictSame((await answer).message, Buffer.from('late'))
  const [code, lastStream] = await notice
  t.strictSame([code, lastStream], [0, 2 ** 31 - 1], 'the notice still allows every stream')
})

t.test('Closing waits for answers that are due, accepts nothing more, and ends connections that stay open.', async t => {
  const running = await start(t)
  const release = running.hold()
  const client = await running.open()
  const answer = callGrpc(client, PATH, frame(Buffer.from('due')))
  await until(() => running.asked.length === 1)
  let isClosed = false
  const closed = running.server.close().then(() => {
    isClosed = true
  })
  await once(client, 'goaway')
  t.equal(isClosed, false)
  t.equal(running.server.address(), undefined)
  release()
  t.strictSame((await answer).message, Buffer.from('due'))
  await closed
  t.equal(running.server.connections, 0)

  const stuck = await start(t)
  stuck.hold()
  const deaf = await stuck.open()
  const unanswered = callGrpc(deaf, PATH, frame(Buffer.from('due')))
  await until(() => stuck.asked.length === 1)
  const ended = stuck.server.close()
  stuck.runLater()
  await Promise.all([t.rejects(unanswered), ended])
  t.equal(stuck.server.connections, 0)
})
