import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { createSecureServer, createServer } from 'node:http2'
import type { Http2SecureServer, Http2Server, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { createServer as createHttp1Server } from 'node:https'
import { connect, createServer as createNetServer, Socket } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import tls from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import { Exchange, UpstreamError } from '../../lib/gate/exchange.ts'
import { createHttp1Carrier } from '../../lib/gate/upstream-http1.ts'
import { Http2Carrier } from '../../lib/gate/upstream-http2.ts'
import { startApp } from '../helpers/app.ts'
import type { LogLine } from '../helpers/app.ts'
import { bearerLines } from '../helpers/call.ts'
import { startIssuer } from '../helpers/issuer.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

type OnStream = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void

const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/any/*' }, { path: '/socket', upgrade: true }]
const [cert, key] = ['cert', 'key'].map(part => readFileSync(new URL(`../fixtures/provider.${part}.pem`, import.meta.url), 'utf8'))

async function listen (t: Test, server: Http2Server | Http2SecureServer | Server, port = 0): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => { sockets.add(socket.on('error', () => {})) })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

async function startGate (t: Test, upstream: string, gate: object = {}, issuer?: Issuer) {
  const running = await startApp(t, issuer ?? await startIssuer(t), { GATE: { upstream, rules: RULES, ...gate } })
  const { host } = new URL(running.url)
  const head = (target: string, lines: readonly string[] = [], method = 'GET'): string[] => [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...lines]
  return { ...running, host, head, send: (target: string, lines: readonly string[] = [], method = 'GET') => sendRaw(running.url, head(target, ['Connection: close', ...lines], method)) }
}

/** A gate before an upstream that speaks HTTP/2 at once. */
async function startSite (t: Test, answer: OnStream, gate: object = {}, settings: object = {}) {
  const server = createServer({ settings })
  const sessions: ServerHttp2Session[] = []
  const sockets: Socket[] = []
  server.on('connection', socket => sockets.push(socket))
  server.on('session', session => { sessions.push(session.on('error', () => {})) })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    answer(stream, headers)
  })
  const port = await listen(t, server)
  const site = await startGate(t, `http://127.0.0.1:${port}`, { upstreamProtocol: 'h2', ...gate })
  return { ...site, server, sessions, sockets, port }
}

/** The servers here have a certificate that no authority has signed. */
function trustFixture (t: Test): void {
  const connectTls = tls.connect
  t.teardown(() => { tls.connect = connectTls })
  tls.connect = ((options: object, ...rest: []) => connectTls({ ...options, ca: cert }, ...rest)) as typeof tls.connect
}

function open (t: Test, url: string, lines: readonly string[]): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`))
  t.teardown(() => { socket.destroy() })
  return socket.on('error', () => {})
}

function ok (stream: ServerHttp2Stream, body = 'ok'): void {
  stream.respond({ ':status': 200, 'content-type': 'text/plain' })
  stream.end(body)
}

/** What the log says of requests that failed: each error with its cause. */
function failuresIn (log: readonly LogLine[]): string[] {
  return log.filter(({ msg }) => msg === 'request failed').map(({ err }) => (err as Error).message)
}

/** A frame that ends a stream at once (RFC 9113 section 6.4). */
function reset (id: number, code: number): Buffer {
  const frame = Buffer.from([0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0])
  frame.writeUInt32BE(id, 5)
  frame.writeUInt32BE(code, 9)
  return frame
}

t.test('A request reaches an upstream over HTTP/2 as it is, and its answer the client.', async t => {
  const arrived: Array<{ headers: IncomingHttpHeaders, body: string, trailers: boolean }> = []
  const { send, host, sessions } = await startSite(t, (stream, headers) => {
    let body = ''
    let trailers = false
    stream.on('trailers', () => { trailers = true })
    stream.on('data', chunk => { body += chunk }).on('end', () => {
      arrived.push({ headers, body, trailers })
      if (headers[':path'] === '/open/empty') return stream.respond({ ':status': 204 }, { endStream: true })
      if (headers[':path'] === '/open/same') {
        stream.respond({ ':status': 304, 'content-length': '25', etag: '"x"' })
        return stream.end()
      }
      stream.additionalHeaders({ ':status': 103, link: '</a.css>; rel=preload' })
      stream.respond({ ':status': 201, 'content-type': 'text/plain', 'content-length': '2', 'set-cookie': ['a=1', 'b=2'] }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-trailer': 'x' }))
      stream.end('ok')
    })
  })
  const lines = ['Cookie: a=1', 'Cookie: b=2', 'Content-Type: a/b', 'Content-Type: c/d', 'TE: trailers', 'Keep-Alive: x', 'X-Auth-Subject: root', 'X-Bytes: \u00e3']
  const answer = await send('/open/x?y=%2F', [...lines, 'Transfer-Encoding: chunked', '', '2', 'ab', '0', 'X-Auth-Subject: root'], 'POST')
  t.equal(answer.status, 103)
  t.equal(answer.headers.link, '</a.css>; rel=preload')
  t.match(answer.body, /^HTTP\/1.1 201 /)
  t.match(answer.body, /\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n/i)
  t.match(answer.body, /\r\n\r\nok$/)
  t.notMatch(answer.body, /x-trailer|:status/i)
  const [first] = arrived
  t.match(first, {
    body: 'ab',
    trailers: false,
    headers: { ':method': 'POST', ':path': '/open/x?y=%2F', ':authority': host, ':scheme': 'http', cookie: 'a=1; b=2', 'content-type': 'a/b, c/d', 'x-auth-subject': '', 'x-bytes': '\u00e3', 'x-forwarded-host': host }
  })
  for (const name of ['te', 'keep-alive', 'connection', 'host', 'transfer-encoding']) t.notOk(name in first!.headers, name)
  t.match(await send('/open/empty'), { status: 204, body: '' })
  t.match(await send('/open/same'), { status: 304, body: '' })
  t.match((await send('/open/x', [], 'HEAD')).body, /^HTTP\/1.1 201 [^]*content-length: 2\r\n[^]*\r\n\r\n$/i)
  t.equal(sessions.length, 1, 'one connection carries them all')
  t.equal((await send('/any/x')).status, 401)
  t.equal(arrived.length, 4, 'what is refused does not reach the upstream')
})

t.test('Answers come while a body is written over TLS, and no session has more than 500 requests.', async t => {
  trustFixture(t)
  const server = createSecureServer({ key: key!, cert: cert! })
  const counts: number[] = []
  server.on('session', session => {
    const index = counts.push(0) - 1
    session.on('error', () => {})
    // One more than a gate sends: what is on its way then would be refused.
    session.on('stream', () => { if (++counts[index]! === 501) session.close() })
  })
  server.on('stream', stream => { stream.on('error', () => {}).resume().on('end', () => ok(stream, 'x'.repeat(200))) })
  const { url } = await startGate(t, `https://127.0.0.1:${await listen(t, server)}`)
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  t.teardown(() => agent.destroy())
  const ask = (body = ''): Promise<number> => new Promise((resolve, reject) => {
    const request = httpRequest(`${url}/open/x`, { agent: body === '' && agent, method: body === '' ? 'GET' : 'POST' }, response => response.resume().on('end', () => resolve(response.statusCode!)))
    request.on('error', reject).end(body)
  })
  const uploads = [ask('x'.repeat(64 * 1024 * 1024)), ask('x'.repeat(64 * 1024 * 1024))]
  const statuses = await Promise.all([...Array.from({ length: 1200 }, () => ask()), ...uploads])
  t.same(statuses.filter(status => status !== 200), [])
  t.same(counts, [500, 500, 202])
})

t.test('A stream that is reset breaks its answer off, and is never sent again.', async t => {
  let seen = 0
  const { send, sockets, log } = await startSite(t, (stream, { ':path': path, 'x-code': code }) => {
    seen++
    const end = (): void => { sockets[0]!.write(reset(stream.id!, Number(code))) }
    if (path === '/open/before') return end()
    if (path === '/open/gone') return stream.session!.destroy()
    stream.respond({ ':status': 200, 'content-type': 'text/plain', ...(path === '/open/short' ? { 'content-length': '10' } : {}) })
    if (path !== '/open/middle') return stream.end('half')
    stream.write('half')
    setTimeout(end, 50)
  })
  // Chunks tell whether an answer is whole.
  t.match((await send('/open/whole')).body, /half\r\n0\r\n\r\n$/)
  for (const code of [0, 2, 7, 8]) {
    const { status, body } = await send('/open/middle', [`X-Code: ${code}`])
    t.equal(status, 200)
    t.notMatch(body, /0\r\n\r\n$/, `code ${code} is no end`)
    t.equal((await send('/open/before', [`X-Code: ${code}`])).status, 502, `code ${code}`)
  }
  const short = await send('/open/short').catch(() => ({ body: '' }))
  t.notMatch(short.body, /half\r\n0/)
  t.equal((await send('/open/gone')).status, 502)
  t.equal(seen, 11, 'each came once')
  t.match(failuresIn(log), [/^The upstream failed: The stream was closed before its end/, /: Stream closed with error code NGHTTP2_INTERNAL_ERROR/], 'with the reason that the upstream gave')
  t.match((await send('/open/whole')).body, /half/, 'on a new connection')
})

t.test('A session that goes away ends what it has begun, and nothing else.', async t => {
  const streams: ServerHttp2Stream[] = []
  const { url, head, send, sessions, server } = await startSite(t, (stream, { ':path': path }) => {
    streams.push(stream)
    if (path === '/open/next') return ok(stream)
    stream.respond({ ':status': 200, 'content-type': 'text/plain', 'content-length': '8' })
    stream.write('half')
    server.emit('begun')
  })
  const first = open(t, url, head('/open/run', ['Connection: close']))
  let text = ''
  first.on('data', chunk => { text += chunk })
  while (!text.endsWith('half')) await once(first, 'data')
  sessions[0]!.goaway(0, 2 ** 31 - 1)
  await new Promise(resolve => sessions[0]!.ping(resolve))
  t.equal((await send('/open/next')).body, '2\r\nok\r\n0\r\n\r\n')
  t.equal(sessions.length, 2, 'another session')
  streams[0]!.end('rest')
  await once(first, 'close')
  t.match(text, /halfrest$/)
  const refused = send('/open/run')
  await once(server, 'begun')
  sessions[1]!.goaway(0, 1)
  t.notMatch((await refused).body, /rest/, 'what the session says that it has not done')
  t.equal(streams.length, 3, 'is not repeated')
})

t.test('The upstream says how many streams a session has. Further requests get another session.', async t => {
  const streams: ServerHttp2Stream[] = []
  const { send, sessions, server } = await startSite(t, stream => {
    streams.push(stream)
    server.emit('arrived')
  }, {}, { maxConcurrentStreams: 2 })
  const answers = Array.from({ length: 5 }, (_, i) => send(`/open/${i}`))
  while (streams.length < 5) await once(server, 'arrived')
  t.equal(sessions.length, 3)
  for (const stream of streams) ok(stream)
  t.same((await Promise.all(answers)).map(({ status }) => status), [200, 200, 200, 200, 200])
})

t.test('An upstream that takes no streams is asked for one session only.', async t => {
  const { send, sessions, log } = await startSite(t, stream => ok(stream), {}, { maxConcurrentStreams: 0 })
  t.equal((await send('/open/x')).status, 502)
  t.same(failuresIn(log), ['The upstream failed: The upstream takes no requests'])
  t.equal(sessions.length, 1)
})

t.test('A request that waits for a stream gets it later if no further session can be opened.', async t => {
  const streams: ServerHttp2Stream[] = []
  const { send, sessions, server } = await startSite(t, stream => {
    streams.push(stream)
    server.emit('arrived')
  }, {}, { maxConcurrentStreams: 1 })
  const first = send('/open/1')
  await once(server, 'arrived')
  // No further connection is accepted.
  server.close()
  const second = send('/open/2')
  await new Promise(resolve => setTimeout(resolve, 300))
  t.equal(streams.length, 1)
  ok(streams[0]!)
  t.equal((await first).status, 200)
  if (streams.length < 2) await once(server, 'arrived')
  ok(streams[1]!)
  t.equal((await second).status, 200)
  t.equal(sessions.length, 1)
})

t.test('An answer that cannot be passed on is 502, and a silence that is too long 504.', async t => {
  const { send, sessions, log } = await startSite(t, (stream, { ':path': path, 'x-size': size }) => {
    if (path === '/open/head') {
      return stream.respond({ ':status': 200, 'content-type': 'text/plain', 'x-big': 'a'.repeat(Number(size)) }, { endStream: true })
    }
    if (path === '/open/lines') {
      return stream.respond({ ':status': 200, 'content-type': 'text/plain', ...Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`x-${n}`, 'a'])) }, { endStream: true })
    }
    if (path === '/open/100') {
      stream.additionalHeaders({ ':status': 100 })
      return ok(stream)
    }
    if (path === '/open/half') stream.respond({ ':status': 200, 'content-type': 'text/plain', 'content-length': '10' })
    if (path === '/open/half') return stream.write('half')
    if (path !== '/open/silent') ok(stream)
  }, { timeoutSeconds: 1 })
  t.equal((await send('/open/x')).status, 200)
  // 16 KiB of names and values: beside this one there are a type and a date.
  const most = 16 * 1024 - 'x-big'.length - 'content-typetext/plain'.length - 'date'.length - new Date().toUTCString().length
  t.equal((await send('/open/head', [`X-Size: ${most}`])).status, 200)
  t.equal((await send('/open/head', [`X-Size: ${most + 1}`])).status, 502)
  t.equal((await send('/open/lines')).headers['x-499'], 'a', 'many lines are no large head')
  t.equal((await send('/open/100')).status, 502)
  t.equal(sessions.length, 1)
  t.equal((await send('/open/silent')).status, 504)
  t.match(await send('/open/half'), { status: 200, body: /^half$/ })
  t.equal(sessions.length, 2, 'a session that was silent gets no further request')
  t.equal((await send('/open/x')).status, 200)
  t.same(failuresIn(log), ['The head of the answer is too large', 'The upstream answered with status 100', 'The upstream is too slow'])
})

t.test('An upstream that is not there, is something else, or says nothing.', async t => {
  const issuer = await startIssuer(t)
  const answers: Record<string, (socket: Socket) => void> = { http1: socket => socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n'), closed: socket => socket.destroy(), silent () {} }
  for (const [title, answer] of Object.entries(answers)) {
    const server = createNetServer(answer)
    const port = await listen(t, server)
    const { send, log } = await startGate(t, `http://127.0.0.1:${port}`, { upstreamProtocol: 'h2', timeoutSeconds: 1 }, issuer)
    t.equal((await send('/open/x')).status, title === 'silent' ? 504 : 502, title)
    t.match(failuresIn(log), [{ http1: /^The upstream failed: Protocol error/, closed: 'The upstream failed: The upstream closed the connection', silent: 'The upstream is too slow' }[title]])
    if (title !== 'http1') continue
    await new Promise(resolve => server.close(resolve))
    t.equal((await send('/open/x')).status, 502, 'gone')
    const later = createServer()
    later.on('stream', stream => ok(stream))
    await listen(t, later, port)
    t.equal((await send('/open/x')).status, 200, 'back')
  }
})

t.test('A client that hangs up ends its stream, and no other.', async t => {
  const gone: string[] = []
  const { url, head, send, server, sessions } = await startSite(t, (stream, { ':path': path }) => {
    if (path === '/open/x') return ok(stream)
    stream.resume().once('close', () => { gone.push(path!); server.emit('gone') })
    if (path === '/open/stream') {
      stream.respond({ ':status': 200, 'content-type': 'text/event-stream' })
      stream.write('data: 1\n\n')
    }
    server.emit('begun')
  })
  for (const [target, lines] of [['/open/wait', []], ['/open/stream', []], ['/open/body', ['Content-Length: 9', '', 'a']]] as const) {
    const begun = once(server, 'begun')
    const socket = open(t, url, head(target, lines, lines.length > 0 ? 'POST' : 'GET'))
    await begun
    if (target === '/open/stream') t.match(String((await once(socket, 'data'))[0]), /200 OK/)
    const ended = once(server, 'gone')
    socket.destroy()
    await ended
  }
  t.same(gone, ['/open/wait', '/open/stream', '/open/body'])
  t.equal((await send('/open/x')).status, 200)
  t.equal(sessions.length, 1)
})

t.test('Bodies stream both ways, and a reader that is slow makes the upstream wait.', async t => {
  const size = 20 * 1024 * 1024
  const most = 8 * 1024 * 1024
  const { url, head, send, server, sessions } = await startSite(t, (stream, { ':path': path }) => {
    if (path === '/open/echo') {
      stream.respond({ ':status': 200 })
      return stream.pipe(stream)
    }
    if (path === '/open/early') {
      stream.respond({ ':status': 403, 'content-type': 'text/plain' })
      stream.resume().end('no')
      return stream.once('close', () => server.emit('early', stream.rstCode))
    }
    if (path === '/open/x') return ok(stream)
    stream.respond({ ':status': 200 })
    let sent = 0
    const more = (): void => {
      while (sent < size) {
        sent += 65_536
        if (!stream.write(Buffer.alloc(65_536))) return
      }
    }
    stream.on('drain', more)
    more()
    server.emit('slow', () => sent)
  }, { timeoutSeconds: 1 })
  const request = httpRequest(`${url}/open/echo`, { method: 'POST' })
  request.end(Buffer.alloc(size, 'x'))
  const [response] = await once(request, 'response')
  let got = 0
  for await (const chunk of response) got += chunk.length
  t.equal(got, size)

  const slow = once(server, 'slow')
  const reader = open(t, url, head('/open/slow', ['Connection: close']))
  reader.pause()
  const [sentSoFar] = await slow as [() => number]
  // Longer than the upstream may be silent: the silence is ours.
  await new Promise(resolve => setTimeout(resolve, 1_500))
  t.ok(sentSoFar() < most, `${sentSoFar()} bytes`)
  t.equal((await send('/open/x')).status, 200, 'others do not wait')
  let read = 0
  reader.on('data', chunk => { read += chunk.length }).resume()
  while (read < sentSoFar()) await once(reader, 'data')
  t.ok(read > 0)
  reader.destroy()

  const early = once(server, 'early')
  const upload = httpRequest(`${url}/open/early`, { method: 'POST', headers: { 'content-length': String(size) } })
  upload.on('error', () => {}).write('begin')
  const [refusal] = await once(upload, 'response')
  t.equal(refusal.statusCode, 403)
  t.same(await early, [8], 'the upstream need not take the rest')
  upload.destroy()
  t.equal(sessions.length, 1)
})

t.test('Over TLS the upstream chooses, and is asked again when it could not be reached.', async t => {
  trustFixture(t)
  const issuer = await startIssuer(t)
  const versions: string[] = []
  const asks: string[] = []
  const both = (): Http2SecureServer => createSecureServer({ key: key!, cert: cert!, allowHTTP1: true }, (request, response) => {
    versions.push(request.httpVersion)
    response.end('ok')
  }).on('upgrade', (request, socket) => {
    asks.push(request.httpVersion)
    socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n')
  })
  const server = both()
  const port = await listen(t, server)
  const upstream = `https://127.0.0.1:${port}`
  const auto = await startGate(t, upstream, {}, issuer)
  for (const path of ['/open/a', '/open/b']) t.equal((await auto.send(path)).status, 200)
  t.same(versions.splice(0), ['2.0', '2.0'])
  t.match(await sendRaw(auto.url, auto.head('/socket', ['Connection: Upgrade', 'Upgrade: websocket', ...bearerLines(issuer.token())])), { status: 426 })
  t.same(asks, ['1.1'], 'another protocol is asked for on a connection of its own')
  const plain = await startGate(t, upstream, { upstreamProtocol: 'http1' }, issuer)
  t.equal((await plain.send('/open/a')).status, 200)
  t.same(versions.splice(0), ['1.1'], 'unless a setting says it')
  const misnamed = await startGate(t, `https://127.0.0.2:${port}`, {}, issuer)
  t.equal((await misnamed.send('/open/a')).status, 502, 'the certificate has another name')
  t.same(versions, [])

  const old = createHttp1Server({ key: key!, cert: cert! }, (request, response) => {
    versions.push(request.httpVersion)
    response.setHeader('connection', 'close').end('ok')
  })
  let connections = 0
  old.on('secureConnection', () => { connections++ })
  const oldPort = await listen(t, old)
  const oldSite = await startGate(t, `https://127.0.0.1:${oldPort}`, {}, issuer)
  for (const path of ['/open/a', '/open/b']) t.equal((await oldSite.send(path)).status, 200)
  t.same(versions.splice(0), ['1.1', '1.1'])
  t.equal(connections, 2, 'the connection that asked is used')
  const strict = await startGate(t, `https://127.0.0.1:${oldPort}`, { upstreamProtocol: 'h2' }, issuer)
  t.equal((await strict.send('/open/a')).status, 502)
  const mute = await startGate(t, `https://127.0.0.1:${await listen(t, tls.createServer({ key: key!, cert: cert! }))}`, { upstreamProtocol: 'h2' }, issuer)
  t.equal((await mute.send('/open/a')).status, 502, 'an upstream that chooses nothing')
  t.same(failuresIn(mute.log), ['The upstream failed: The upstream does not speak HTTP/2'])

  await new Promise(resolve => old.close(resolve))
  t.equal((await oldSite.send('/open/a')).status, 502)
  await listen(t, both(), oldPort)
  t.equal((await oldSite.send('/open/a')).status, 200)
  t.same(versions, ['2.0'])
})

t.test('A connection that breaks off before a request has it is no fault of the process.', async t => {
  const carrier = createHttp1Carrier('https://upstream.example', 1000)
  t.teardown(() => carrier.close())
  const socket = new Socket()
  const closed = new Promise(resolve => socket.once('close', resolve))
  carrier.take(socket)
  socket.destroy(new Error('reset'))
  await closed
  t.ok(carrier.isChosen, 'what the upstream has chosen still holds')
})

t.test('The carrier closes sessions that nobody uses, and bounds what waits.', async t => {
  const sessions: ServerHttp2Session[] = []
  const server = createServer()
  server.on('session', session => sessions.push(session))
  server.on('stream', stream => ok(stream))
  const origin = `http://127.0.0.1:${await listen(t, server)}`
  const timers: Array<{ ms: number, run: () => void }> = []
  const carrier = new Http2Carrier({
    origin,
    timeoutMs: 1000,
    after (ms, run) {
      const timer = { ms, run }
      timers.push(timer)
      return () => { if (timers.includes(timer)) timers.splice(timers.indexOf(timer), 1) }
    }
  })
  t.teardown(() => carrier.close())
  const carry = (headers: readonly string[] = [], exchange = new Exchange(() => {})): Exchange => {
    carrier.carry({ method: 'GET', target: '/', headers, body: undefined }, exchange)
    return exchange
  }
  const { body } = await carry().answer
  await once(body.resume(), 'end')
  while (!timers.some(({ ms }) => ms === 4_000)) await new Promise(resolve => setImmediate(resolve))
  t.same(timers.map(({ ms }) => ms), [4_000], 'the time limits have ended')
  t.match(sessions[0]!.remoteSettings, { enablePush: false, initialWindowSize: 256 * 1024 })
  t.ok(sessions[0]!.state.remoteWindowSize! > 15 * 1024 * 1024, 'one stream that is full does not stop the others')
  const next = await carry().answer
  t.same(timers.map(({ ms }) => ms), [1_000], 'a session that is used is not idle')
  await once(next.body.resume(), 'end')
  while (!timers.some(({ ms }) => ms === 4_000)) await new Promise(resolve => setImmediate(resolve))
  await t.rejects(carry(['te', 'gzip']).answer, { statusCode: 502, cause: { code: 'ERR_HTTP2_INVALID_CONNECTION_HEADERS' } })
  for (const statusCode of [499, 504] as const) {
    const ended = new Exchange(() => {})
    ended.end(new UpstreamError(statusCode, 'gone'))
    await t.rejects(carry([], ended).answer, { name: 'UpstreamError', statusCode })
  }
  while (!timers.some(({ ms }) => ms === 4_000)) await new Promise(resolve => setImmediate(resolve))
  const closed = once(sessions[0]!, 'close')
  timers.find(({ ms }) => ms === 4_000)!.run()
  await closed

  const hanging = createNetServer(() => {})
  const arrived = once(hanging, 'connection')
  const slow = new Http2Carrier({ origin: `http://127.0.0.1:${await listen(t, hanging)}`, timeoutMs: 1000, after: (ms, run) => { timers.push({ ms, run }); return () => {} } })
  const patient = new Exchange(() => {})
  slow.carry({ method: 'GET', target: '/', headers: [], body: undefined }, patient)
  await arrived
  timers.find(({ ms }) => ms === 1_000)!.run()
  await t.rejects(patient.answer, { statusCode: 502, cause: { message: 'The upstream is too slow' } }, 'a connection that is never open is given up')
  await slow.close()

  const silent = new Http2Carrier({ origin: `http://127.0.0.1:${await listen(t, createNetServer(() => {}))}`, timeoutMs: 1000, after: (_ms, run) => { timers.push({ ms: 1, run }); return () => {} } })
  const waiting = Array.from({ length: 1_000 }, () => new Exchange(() => {}))
  for (const exchange of waiting) silent.carry({ method: 'GET', target: '/', headers: [], body: undefined }, exchange)
  const last = new Exchange(() => {})
  silent.carry({ method: 'GET', target: '/', headers: [], body: undefined }, last)
  await t.rejects(last.answer, { statusCode: 502, message: 'Too many requests wait for the upstream' })
  waiting[0]!.end(new UpstreamError(499, 'gone'))
  await t.rejects(waiting[0]!.answer, { name: 'UpstreamError', statusCode: 499 })
  await silent.close()
  await t.rejects(waiting[1]!.answer, { statusCode: 502, message: 'The upstream failed' })

  for (const name of ['http://127.0.0.1', 'https://127.0.0.1']) {
    const early = new Http2Carrier({ origin: name, timeoutMs: 1000, after: () => () => {} })
    const exchange = new Exchange(() => {})
    early.carry({ method: 'GET', target: '/', headers: [], body: undefined }, exchange)
    await early.close()
    await t.rejects(exchange.answer, { cause: { message: 'The gate stops' } }, `${name}: a connection that is being opened does not hold up the end`)
  }
  const endless = createServer()
  endless.on('stream', stream => stream.respond({ ':status': 200 }))
  const stopped = new Http2Carrier({ origin: `http://127.0.0.1:${await listen(t, endless)}`, timeoutMs: 1000, after: () => () => {} })
  const running = new Exchange(() => {})
  stopped.carry({ method: 'GET', target: '/', headers: [], body: undefined }, running)
  const failed = once((await running.answer).body, 'error')
  await stopped.close()
  t.match(await failed, [{ statusCode: 502 }], 'a stop ends what still runs')
  const talkative = createServer()
  talkative.on('stream', stream => {
    stream.respond({ ':status': 200 })
    for (let i = 0; i < 20; i++) stream.write('more')
    stream.end()
  })
  timers.length = 0
  const brief = new Http2Carrier({ origin: `http://127.0.0.1:${await listen(t, talkative)}`, timeoutMs: 1000, after: (ms, run) => { timers.push({ ms, run }); return () => {} } })
  t.teardown(() => brief.close())
  let chunks = 0
  const satisfied = new class extends Exchange {
    override onResponseData (...args: Parameters<Exchange['onResponseData']>): void {
      chunks++
      super.onResponseData(...args)
      args[0].abort(new UpstreamError(499, 'gone'))
    }
  }(() => {})
  brief.carry({ method: 'GET', target: '/', headers: [], body: undefined }, satisfied)
  const { body: rest } = await satisfied.answer
  t.match(await once(rest.resume(), 'end').catch(error => error), { statusCode: 502 })
  while (!timers.some(({ ms }) => ms === 4_000)) await new Promise(resolve => setImmediate(resolve))
  t.equal(chunks, 1, 'what comes after the end of a request is dropped')
  const http1 = createHttp1Carrier(origin, 1000)
  const spare = connect(Number(new URL(origin).port), '127.0.0.1')
  http1.take(spare)
  await http1.close()
  t.ok(spare.destroyed, 'a connection that nobody has used ends')
})

/** A carrier to a server that keeps its streams until the test answers them. */
async function openCarrier (t: Test, settings: object = {}) {
  const streams: ServerHttp2Stream[] = []
  const sessions: ServerHttp2Session[] = []
  const server = createServer({ settings })
  server.on('session', session => { sessions.push(session.on('error', () => {})) })
  server.on('stream', stream => {
    streams.push(stream.on('error', () => {}))
    server.emit('arrived')
  })
  const carrier = new Http2Carrier({ origin: `http://127.0.0.1:${await listen(t, server)}`, timeoutMs: 60_000, after: () => () => {} })
  t.teardown(() => carrier.close())
  const carry = (headers: readonly string[] = []): Promise<number> => {
    const exchange = new Exchange(() => {})
    carrier.carry({ method: 'GET', target: '/', headers, body: undefined }, exchange)
    return exchange.answer.then(async ({ status, body }) => {
      await once(body.resume(), 'end')
      return status
    })
  }
  const arrived = async (count: number): Promise<void> => { while (streams.length < count) await once(server, 'arrived') }
  return { streams, sessions, carry, arrived }
}

t.test('There are at most 100 streams on a session, and 100 sessions.', async t => {
  const wide = await openCarrier(t)
  const many = Array.from({ length: 101 }, () => wide.carry())
  await wide.arrived(101)
  t.equal(wide.sessions.length, 2, 'whatever the upstream allows')
  for (const stream of wide.streams) ok(stream)
  t.ok((await Promise.all(many)).every(status => status === 200))

  const narrow = await openCarrier(t, { maxConcurrentStreams: 1 })
  const waiting = Array.from({ length: 102 }, () => narrow.carry())
  await narrow.arrived(100)
  await new Promise(resolve => setTimeout(resolve, 100))
  t.same([narrow.streams.length, narrow.sessions.length], [100, 100], 'the others wait')
  for (const stream of narrow.streams.slice()) ok(stream)
  await narrow.arrived(102)
  for (const stream of narrow.streams.slice(100)) ok(stream)
  t.ok((await Promise.all(waiting)).every(status => status === 200))
  t.equal(narrow.sessions.length, 100)
})

t.test('The size of a request says nothing about the one before.', async t => {
  const { streams, sessions, carry, arrived } = await openCarrier(t)
  const sizes: number[] = []
  for (let n = 1; n <= 4; n++) {
    const before = sessions[0]?.socket.bytesRead ?? 0
    const answer = carry(['x-secret', 'abcdefgh'.repeat(30)])
    await arrived(n)
    sizes.push(sessions[0]!.socket.bytesRead - before)
    ok(streams[n - 1]!)
    t.equal(await answer, 200)
  }
  t.ok(sizes.at(-1)! > 100, `the same header is sent as a whole again: ${sizes.join()} bytes`)
})
