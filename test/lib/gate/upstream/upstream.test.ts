import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import type { Dispatcher } from 'undici'
import {
  type AnswerBody,
  streamOf,
  UpstreamError,
  type AnswerHeaders,
  type UpstreamAnswer
} from '../../../../lib/gate/upstream/answer.ts'
import { UpstreamExchange } from '../../../../lib/gate/upstream/exchange.ts'
import { createUpstream } from '../../../../lib/gate/upstream/upstream.ts'
import { listen } from '../../../helpers/listen.ts'

/** A clock and timers that go on when the test says so. */
function createTimers () {
  const waiting = new Set<{ atMs: number, run: () => void }>()
  let nowMs = 0
  const surroundings = {
    steadyMs: () => nowMs,
    after (ms: number, run: () => void) {
      const timer = { atMs: nowMs + ms, run }
      waiting.add(timer)
      return () => {
        waiting.delete(timer)
      }
    }
  }
  const advance = (ms: number) => {
    nowMs += ms
    for (const timer of waiting) if (timer.atMs <= nowMs && waiting.delete(timer)) timer.run()
  }
  return { surroundings, waiting, advance }
}

t.test('Whoever is silent for the whole time limit ends the request, and each sign of life begins it anew.', async t => {
  let answering: ServerResponse
  const server = createServer((_request, response) => {
    answering = response
    server.emit('arrived')
  })
  const port = await listen(t, server)
  const { surroundings, waiting, advance } = createTimers()
  const upstream = createUpstream({
    origin: `http://127.0.0.1:${port}`,
    timeoutSeconds: 7,
    idleSeconds: 4,
    bodyLimit: 4,
    surroundings
  })
  t.teardown(() => upstream.close())
  const send = (body?: Readable, onInterim = () => {}) =>
    upstream.send({ method: 'POST', target: '/', headers: [], body, timeoutSeconds: 7, onInterim })
  const read = async ({ body }: UpstreamAnswer) =>
    String(Buffer.isBuffer(body) ? body : Buffer.concat(await body.toArray()))
  const turn = () => new Promise(setImmediate)

  const source = new PassThrough()
  const { answer } = send(source)
  advance(6999)
  source.write('a')
  await once(server, 'arrived')
  advance(6999)
  t.equal(waiting.size, 1, 'the body has gone on')
  answering!.writeHead(200)
  answering!.write('x')
  const answered = await answer
  advance(6999)
  t.equal(waiting.size, 1, 'the answer has begun')
  source.end('bc')
  while (!source.readableEnded) await turn()
  const rest = read(answered)
  advance(6999)
  answering!.end('y')
  t.equal(await rest, 'xy')
  t.equal(waiting.size, 0, 'the end of the answer ends it')

  const stalled = send()
  await once(server, 'arrived')
  answering!.writeHead(200)
  answering!.write('half')
  const half = await stalled.answer
  const failed = read(half)
  while (streamIn(half).readableLength > 0) await turn()
  advance(7000)
  await t.rejects(failed, { statusCode: 504, message: 'The upstream is too slow' }, 'silence between two bytes')

  const unread = async () => {
    const { answer } = send()
    await once(server, 'arrived')
    answering!.writeHead(200)
    answering!.write(Buffer.alloc(256 * 1024))
    const kept = await answer
    while (streamIn(kept).readableLength < streamIn(kept).readableHighWaterMark) await turn()
    advance(7000)
    advance(7000)
    t.equal(streamIn(kept).destroyed, false, 'a client that does not read is not the upstream')
    return kept
  }
  const kept = await unread()
  answering!.end('y')
  t.equal((await read(kept)).length, 256 * 1024 + 1)

  const resumed = await unread()
  const end = { isReached: false }
  const broken = read(resumed).finally(() => {
    end.isReached = true
  })
  const rejected = t.rejects(
    broken,
    { statusCode: 504, message: 'The upstream is too slow' },
    'once it reads again, the upstream has its limit again'
  )
  // When it has read the last byte, only the stream knows.
  for (; !end.isReached; advance(7000)) await turn()
  await rejected

  for (const type of ['text/event-stream', 'Text/Event-Stream; charset=utf-8']) {
    const events = send()
    await once(server, 'arrived')
    advance(6999)
    answering!.writeHead(200, { 'content-type': type }).flushHeaders()
    const stream = await events.answer
    t.equal(waiting.size, 0, `${type} has no limit once its head has come`)
    const all = read(stream)
    advance(100_000)
    answering!.end('data: 1')
    t.equal(await all, 'data: 1')
  }
  const silentError = send()
  await once(server, 'arrived')
  answering!.writeHead(500, { 'content-type': 'text/event-stream' }).flushHeaders()
  const over = t.rejects(read(await silentError.answer), { name: 'UpstreamError', statusCode: 504 }, 'an error has one')
  advance(7000)
  await over
  const late = send()
  advance(7000)
  await t.rejects(late.answer, { statusCode: 504, message: 'The upstream is too slow' }, 'until then it has one')

  let hinted: ReturnType<typeof send>
  const hint = new Promise<void>(resolve => {
    hinted = send(undefined, resolve)
  })
  await once(server, 'arrived')
  advance(6999)
  answering!.writeProcessing()
  await hint
  advance(6999)
  t.equal(waiting.size, 1, 'an interim answer is a sign of life')
  advance(1)
  await t.rejects(hinted!.answer, { statusCode: 504, message: 'The upstream is too slow' })
  t.equal(waiting.size, 0)

  const silent = new PassThrough()
  const { answer: unanswered } = send(silent)
  silent.write('a')
  await once(server, 'arrived')
  await turn()
  advance(7000)
  await t.rejects(
    unanswered,
    { statusCode: 408, message: 'The body of the request is too slow.' },
    'the client has not sent all of its body'
  )

  const { answer: taken } = send(Readable.from(['a', 'b']))
  await once(server, 'arrived')
  await turn()
  advance(7000)
  await t.rejects(taken, { statusCode: 504, message: 'The upstream is too slow' }, 'the twin: it has')

  const large = new PassThrough()
  const refused = send(large)
  large.write('abcde')
  await t.rejects(refused.answer, {
    name: 'UpstreamError',
    statusCode: 413,
    message: 'The body of the request is too large.',
    headers: { connection: 'close' }
  })
  t.equal(waiting.size, 0)
  large.end('more than is read')
  await once(large, 'end')
  t.pass('the rest is read and dropped, so that the client can send it')

  const gone = new PassThrough()
  const cut = send(gone)
  gone.write('a')
  gone.destroy(new Error('gone'))
  await t.rejects(cut.answer, { name: 'UpstreamError', statusCode: 502 }, 'a body that breaks off ends the request')
})

/** An exchange whose time does not run out. */
function createExchange (onInterim: (status: number, headers: AnswerHeaders) => void = () => {}, told: unknown[] = []) {
  const connection = {
    awaitHead () {},
    pause () {
      told.push('pause')
    },
    resume () {
      told.push('resume')
    },
    isCut: () => false
  }
  const surroundings = { after: () => () => {}, steadyMs: () => 0 }
  return new UpstreamExchange({ timeoutMs: 1, ...surroundings, onInterim, connectionNow: () => connection })
}

t.test('A request that would be sent a second time fails.', async t => {
  const aborted: unknown[] = []
  const controller = () =>
    ({
      abort (reason: unknown) {
        aborted.push(reason)
      }
    }) as unknown as Dispatcher.DispatchController
  const sent = createExchange()
  sent.onRequestStart(controller())
  t.strictSame(aborted, [])
  sent.onRequestStart(controller())
  await t.rejects(sent.answer, { name: 'UpstreamError', statusCode: 502 })
  t.equal(aborted.length, 2, 'neither goes on')

  const ended = createExchange()
  ended.end(new UpstreamError(504, 'late'))
  await t.rejects(ended.answer, { name: 'UpstreamError', statusCode: 504 })
  ended.onRequestStart(controller())
  t.hasStrict(aborted[2], { statusCode: 504 }, 'one that has ended does not begin')

  const unread = createExchange()
  const upstream = controller()
  unread.onRequestStart(upstream)
  unread.onResponseStart(upstream, 200, {})
  const body = streamIn(await unread.answer)
  body.destroy()
  await new Promise(resolve => body.once('close', resolve))
  t.hasStrict(aborted[3], { statusCode: 499 }, 'the upstream need not go on if nobody reads')
})

t.test('The upstream is asked for no more while the reader of an answer has not taken what came.', async t => {
  const told: string[] = []
  const controller = {} as Dispatcher.DispatchController
  const exchange = createExchange(undefined, told)
  exchange.onRequestStart(controller)
  exchange.onResponseStart(controller, 200, {})
  const body = streamIn(await exchange.answer)
  const turn = () => new Promise(setImmediate)
  for (
    const [reader, paused] of [[new PassThrough({ highWaterMark: 4 }), ['pause']], [
      new PassThrough({ highWaterMark: 1024 }),
      []
    ]] as const
  ) {
    body.pipe(reader)
    await turn()
    told.length = 0
    exchange.onResponseData(controller, Buffer.from('chunk'))
    t.strictSame(told, paused)
    t.equal(body.readableLength, 0, 'nothing waits on this side')
    t.equal(String(reader.read()), 'chunk')
    await turn()
    t.equal(told.at(-1), 'resume', 'as soon as it is taken, more may come')
    body.unpipe(reader)
  }
})

t.test('A connection that ends while its answer waits for a slow reader ends nothing else.', async t => {
  const HEAD = 'HTTP/1.1 200 OK\r\nConnection: close\r\n'
  const WHOLE = [70_010]
  const CUT = ['UpstreamError']
  type Row = readonly [head: string, body: Buffer | undefined, how: 'end' | 'reset' | 'late', expected: readonly unknown[]]
  const rows: readonly Row[] = [
    [HEAD, undefined, 'end', WHOLE],
    [`${HEAD}Content-Length: 70010\r\n`, undefined, 'end', WHOLE],
    [`${HEAD}Content-Length: 70011\r\n`, undefined, 'end', CUT],
    // Of a reset that comes together with bytes libuv may tell as of an end.
    [HEAD, undefined, 'reset', [...WHOLE, ...CUT]],
    [HEAD, Buffer.from('a'), 'reset', [...WHOLE, ...CUT]],
    [HEAD, undefined, 'late', CUT],
    [HEAD, Buffer.from('a'), 'late', WHOLE]
  ]
  for (const [head, body, how, expected] of rows) {
    const server = createTcpServer(socket => {
      socket.on('error', () => {}).once('data', () => {
        socket.write(`${head}\r\n${'x'.repeat(70_000)}`)
        server.once('more', () => socket.write('y'.repeat(10), () => server.emit('sent')))
        server.once('end', () => {
          const ended = () => server.emit('ended')
          // Node's own reset comes behind an end, which may be read before it.
          if (how === 'end') socket.end(ended)
          else (socket as unknown as { _handle: { reset (done: () => void): void } })._handle.reset(ended)
        })
      })
    })
    const upstream = createUpstream({
      origin: `http://127.0.0.1:${await listen(t, server)}`,
      timeoutSeconds: 7,
      idleSeconds: 4,
      bodyLimit: Infinity,
      surroundings: createTimers().surroundings
    })
    t.teardown(() => upstream.close())
    const tell = async (what: string, told: string) => {
      const done = once(server, told)
      server.emit(what)
      await done
    }
    const request = { method: 'PUT', target: '/', headers: [], body, timeoutSeconds: 7, onInterim () {} }
    const answer = streamIn(await upstream.send(request).answer).on('error', () => {})
    while (!(answer as AnswerBody).isHeld) await new Promise(setImmediate)
    await tell('more', 'sent')
    if (how !== 'late') await tell('end', 'ended')
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
    const taken: Buffer[] = []
    const isTaken = () => Buffer.concat(taken).length === 70_010
    const seen = new Promise(resolve => {
      if (answer.errored) resolve(answer.errored.name)
      answer.on('data', chunk => taken.push(chunk))
        .on('end', () => resolve(Buffer.concat(taken).length))
        .on('error', ({ name }) => resolve(name))
    })
    if (how === 'late') {
      while (!isTaken()) await new Promise(setImmediate)
      await tell('end', 'ended')
    }
    const found = await seen
    t.ok(expected.includes(found), `${head} ${body} ${how}: ${found}`)
  }
})

/** The body of an answer that has not come at once. */
function streamIn ({ body }: UpstreamAnswer) {
  if (Buffer.isBuffer(body)) throw new Error('all of it has come')
  return body
}

/** An exchange that has begun, and what it has done to its connection. */
function beginExchange () {
  const done: unknown[] = []
  const interim: unknown[] = []
  const controller = {
    abort: ({ statusCode, message }: UpstreamError) => {
      done.push(`${statusCode} ${message}`)
    }
  } as unknown as Dispatcher.DispatchController
  const exchange = createExchange((status, headers) => {
    interim.push([status, headers])
  }, done)
  exchange.onRequestStart(controller)
  const outcome = exchange.answer.then(
    ({ status }) => String(status),
    ({ statusCode, message }: UpstreamError) => `failed with ${statusCode}: ${message}`
  )
  return { exchange, controller, outcome, done, interim }
}

t.test('Which answers are interim, which are final, and which are none.', async t => {
  for (const status of [200, 304, 599]) {
    const { exchange, controller, outcome, done, interim } = beginExchange()
    exchange.onResponseStart(controller, status, {})
    t.equal(await outcome, String(status))
    t.strictSame([done, interim], [[], []])
  }
  for (const status of [101, 600, 999]) {
    const { exchange, controller, outcome, done, interim } = beginExchange()
    exchange.onResponseStart(controller, status, {})
    t.equal(await outcome, `failed with 502: The upstream answered with status ${status}`)
    t.strictSame(
      [done, interim],
      [[`502 The upstream answered with status ${status}`], []],
      'the request does not go on'
    )
  }
  for (const status of [102, 103, 199]) {
    const { exchange, controller, outcome, interim } = beginExchange()
    exchange.onResponseStart(controller, status, { link: 'a' })
    t.strictSame(interim, [[status, { link: 'a' }]])
    exchange.onResponseStart(controller, 204, {})
    t.equal(await outcome, '204', 'the final answer is still to come')
  }
})

t.test('The body of an answer is taken as fast as it is read, and ends once.', async t => {
  const { exchange, controller, done } = beginExchange()
  exchange.onResponseStart(controller, 200, {})
  const body = streamIn(await exchange.answer)
  exchange.onResponseData(controller, Buffer.from('a'))
  t.strictSame(done, [], 'a small chunk does not stop the upstream')
  exchange.onResponseData(controller, Buffer.alloc(1024 * 1024))
  t.strictSame(done, ['pause'], 'a large one does')
  t.equal(body.read(body.readableLength).length, 1024 * 1024 + 1)
  t.equal(done.at(-1), 'resume')
  exchange.onResponseEnd()
  exchange.onResponseError(controller, new Error('closed'))
  exchange.onResponseEnd()
  await once(body.resume(), 'end')
  body.destroy()
  await new Promise(setImmediate)
  t.notOk(done.includes('499 The client has gone'), 'what has ended is not broken off')
})

t.test('An answer that comes at once is no stream; one that comes in part, or fails at once, is one.', async t => {
  for (const pieces of [[], ['a'], ['a', 'b']]) {
    const { exchange, controller } = beginExchange()
    exchange.onResponseStart(controller, 200, {})
    for (const piece of pieces) exchange.onResponseData(controller, Buffer.from(piece))
    exchange.onResponseEnd()
    const { body } = await exchange.answer
    t.ok(Buffer.isBuffer(body))
    t.equal(String(body), pieces.join(''))
    t.strictSame(String(Buffer.concat(await streamOf(body).toArray())), pieces.join(''), 'as a stream')
  }
  const part = beginExchange()
  part.exchange.onResponseStart(part.controller, 200, {})
  part.exchange.onResponseData(part.controller, Buffer.from('a'))
  const body = streamIn(await part.exchange.answer)
  t.equal(streamOf(body), body)
  t.equal(String(body.read()), 'a')
  part.exchange.onResponseEnd()
  await once(body.resume(), 'end')

  const broken = beginExchange()
  broken.exchange.onResponseStart(broken.controller, 200, {})
  broken.exchange.onResponseError(broken.controller, new Error('reset'))
  const [error] = await once(streamIn(await broken.exchange.answer), 'error')
  t.equal(error.statusCode, 502)
})

t.test('An answer that breaks off fails for its first reason.', async t => {
  const { exchange, controller, done } = beginExchange()
  exchange.onResponseStart(controller, 200, {})
  const body = streamIn(await exchange.answer)
  const failed = once(body, 'error')
  const cause = new Error('reset')
  exchange.onResponseError(controller, cause)
  exchange.end(new UpstreamError(504, 'late'))
  const [error] = await failed
  t.strictSame([error.name, error.statusCode, error.message, error.cause], [
    'UpstreamError',
    502,
    'The upstream failed',
    cause
  ])
  t.strictSame(done, ['502 The upstream failed', '502 The upstream failed'], 'no other reason is given later')

  const unmodified = beginExchange()
  unmodified.exchange.onResponseStart(unmodified.controller, 304, {})
  const answer = await unmodified.exchange.answer
  t.strictSame(answer.body, Buffer.alloc(0), 'an answer of 304 has no body to wait for')

  const again = beginExchange()
  again.exchange.onRequestStart(again.controller)
  t.equal(await again.outcome, 'failed with 502: The upstream failed', 'a second sending')
})

t.test('An upstream that does not speak TLS is waited for, until it ends the connection.', async t => {
  const server = createTcpServer(socket => {
    setTimeout(() => socket.destroy(), 100)
  })
  const port = await listen(t, server)
  const upstream = createUpstream({
    origin: `https://127.0.0.1:${port}`,
    timeoutSeconds: 20,
    idleSeconds: 4,
    bodyLimit: 4,
    surroundings: createTimers().surroundings
  })
  t.teardown(() => upstream.close())
  const { answer } = upstream.send({
    method: 'GET',
    target: '/',
    headers: [],
    body: undefined,
    timeoutSeconds: 20,
    onInterim () {}
  })
  await t.rejects(answer, { statusCode: 502, cause: { code: 'ECONNRESET' } })
})
