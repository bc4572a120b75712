import { EventEmitter, once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, createServer, request as httpRequest, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createRequire } from 'node:module'
import { connect, createServer as createNetServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { mock } from 'node:test'
import tls from 'node:tls'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { testsAtOnce } from '../helpers/at-once.ts'
import { exactly } from '../helpers/containing.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { advanceClock, atAnotherTime, holdTimers, stopClock } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import { until } from '../helpers/until.ts'
import { startUpstream, type Answerer } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

const waiting = testsAtOnce()

const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/any/*' }, { path: '/socket', upgrade: true }]

async function startSite (t: Test, gate: object, answer?: Answerer, values: object = {}) {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const running = await startApp(t, issuer, { GATE: { upstream: upstream.origin, rules: RULES, ...gate }, ...values })
  const { host } = new URL(running.url)
  const head = (target: string, lines: readonly string[] = [], method = 'GET') =>
    [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...lines]
  const token = bearerLines(issuer.token())
  return {
    ...running,
    issuer,
    upstream,
    token,
    /** Lines that ask for another protocol. */
    upgrade: ['Connection: Upgrade', 'Upgrade: x', ...token],
    closed: () => until('every connection is closed', () => running.app.connections.open.size === 0),
    head,
    send: (target: string, lines: readonly string[] = [], method = 'GET') =>
      sendRaw(running.url, head(target, ['Connection: close', ...lines], method))
  }
}

function open (t: Test, url: string, lines: readonly string[]) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`))
  t.teardown(() => {
    socket.destroy()
  })
  return socket
}

/** Collects what a socket receives. */
function collect (socket: Socket) {
  const got = { text: '' }
  socket.on('data', chunk => {
    got.text += chunk
  })
  return {
    got,
    async holds (part: string) {
      while (!got.text.includes(part)) await once(socket, 'data')
    }
  }
}

/** Seconds of the rules for what takes too long. What must come in time has the usual limit. */
const HASTY = { timeoutSeconds: 1 }

waiting.test('An upstream that is down is 502, and one that is silent is 504.', async t => {
  const rules = [{ path: '/open/silent', allow: 'anyone', ...HASTY }, ...RULES]
  const { send, upstream, log } = await startSite(t, { rules }, () => {})
  const silent = await send('/open/silent')
  t.equal(silent.status, 504)
  t.strictSame(JSON.parse(silent.body), { statusCode: 504, error: 'Gateway Timeout', message: 'Gateway Timeout' })
  upstream.server.closeAllConnections()
  await new Promise(resolve => upstream.server.close(resolve))
  t.equal((await send('/open/gone')).status, 502)
  t.match(log.filter(({ msg }) => msg === 'request failed'), [
    { level: 40, status: 504, fault: exactly('The upstream is too slow'), cause: exactly('timeout'), err: undefined },
    { level: 40, status: 502, fault: exactly('The upstream failed'), cause: exactly('ECONNREFUSED'), err: undefined }
  ])
  t.strictSame(log.filter(({ level }) => level >= 50), [], 'it is no error of ours')
})

/** Seconds that no other limit has. */
const USUAL_SECONDS = 29

t.test('A pause that is too long breaks the answer off.', async t => {
  const pass = holdTimers(t, USUAL_SECONDS * 1000)
  const { url, head } = await startSite(t, { timeoutSeconds: USUAL_SECONDS }, (_request, response) => {
    response.writeHead(200, { 'content-length': '10' }).write('half')
  })
  const socket = open(t, url, head('/open/half')).on('error', () => {})
  const closed = new Promise(resolve => socket.once('close', resolve))
  const { got, holds } = collect(socket)
  await holds('half')
  pass()
  await closed
  t.match(got.text, /^HTTP\/1.1 200 [^]*\r\n\r\nhalf$/)
})

t.test('A rule may have a time limit of its own, and an event stream has none once its head has come.', async t => {
  const pass = holdTimers(t, USUAL_SECONDS * 1000)
  const arrived = new Map<string, ServerResponse>()
  const coming = new EventEmitter()
  const { url, head, send, app } = await startSite(t, {
    timeoutSeconds: USUAL_SECONDS,
    rules: [{ path: '/long', allow: 'anyone', timeoutSeconds: 60 }, ...RULES]
  }, (request, response) => {
    arrived.set(request.url!, response)
    if (request.url === '/open/events') response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    coming.emit('request')
  })
  const long = textOf(open(t, url, head('/long', ['Connection: close'])))
  while (!arrived.has('/long')) await once(coming, 'request')
  const limits = () => [...app.connections.open].map(({ timeout }) => timeout)
  t.strictSame(limits(), [65_000], 'the server itself waits for as long')
  const stream = open(t, url, head('/open/events', ['Connection: close']))
  await once(stream, 'data')
  t.strictSame(limits(), [65_000, 0], 'and for any time for the next event')
  const events = textOf(stream)
  const silent = send('/open/silent')
  while (!arrived.has('/open/silent')) await once(coming, 'request')
  pass()
  t.equal((await silent).status, 504, 'by then the limit of the gate is over')
  arrived.get('/long')!.end('at last')
  t.match(await long, /^HTTP\/1.1 200 OK\r\n[^]*at last$/)
  arrived.get('/open/events')!.end('data: 1\n\n')
  t.match(await events, /data: 1\n\n/)
})

t.test('A client that takes nothing of an event stream has the limit of every other.', async t => {
  const { url, head, app } = await startSite(t, { timeoutSeconds: 25 }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const write = () => {
      while (response.write(Buffer.alloc(64 * 1024)));
    }
    response.on('drain', write)
    write()
  })
  const client = open(t, url, head('/open/events'))
  await once(client, 'data')
  client.pause()
  const [socket] = app.connections.open
  const limit = () => socket!.timeout
  while (limit() !== 30_000) await new Promise(resolve => setImmediate(resolve))
  client.resume()
  while (limit() !== 0) await new Promise(resolve => setImmediate(resolve))
  t.pass('and none again when it goes on')
})

t.test('A connection to the upstream is kept idle for as long as is set, and with 0 each request has its own.', async t => {
  const pass = holdTimers(t, 40_000)
  for (const [idleSeconds, connections, line] of [[40, 1, 'keep-alive'], [0, 2, 'close']] as const) {
    const { send, upstream } = await startSite(t, { idleSeconds })
    const closed = new Promise(resolve => upstream.server.once('connection', socket => socket.once('close', resolve)))
    for (const path of ['/open/a', '/open/b']) t.equal((await send(path)).status, 200)
    t.strictSame([upstream.connections, upstream.arrived.map(({ headers }) => headers['connection'])], [
      connections,
      [line, line]
    ])
    pass()
    await closed
  }
})

t.test('The upstream gets the Host of the client, or its own.', async t => {
  for (const host of ['client', 'upstream'] as const) {
    const { send, upstream, url } = await startSite(t, { host })
    const own = new URL(upstream.origin).host
    const { host: used } = new URL(url)
    await send('/open/a', ['Connection: host'])
    t.strictSame(upstream.arrived.map(({ headers }) => [headers['host'], headers['x-forwarded-host']]), [[
      host === 'client' ? used : own,
      used
    ]], host)
  }
})

t.test('An upstream may take as long as the gate allows, even beyond the five minutes of undici.', async t => {
  // Its clock for long waits, which its own tests move as well.
  const { tick } = createRequire(import.meta.url)('undici/lib/util/timers.js') as { tick: (ms: number) => void }
  const upstreamThinks = new EventEmitter()
  const { send } = await startSite(t, { timeoutSeconds: 600 }, (_request, response) => {
    upstreamThinks.emit('begin', response)
  })
  const begun = once(upstreamThinks, 'begin')
  const answer = send('/open/slow')
  const [response] = await begun as [ServerResponse]
  // The first counts from when it is called.
  for (const ms of [0, 400_000]) tick(ms)
  response.end('at last')
  t.match(await answer, { status: 200, body: exactly('at last') })
})

t.test('A body may be as large as the limit, and no larger.', async t => {
  const { send, upstream, url, head } = await startSite(t, { bodyLimit: 4 })
  const chunked = ['Transfer-Encoding: chunked', '']
  t.equal((await send('/open/x', ['Content-Length: 4', '', 'abcd'], 'POST')).status, 200)
  t.match(await send('/open/x', ['Content-Length: 5', '', 'abcde'], 'POST'), {
    status: 413,
    body: /The body of the request is too large\./
  })
  t.equal((await send('/open/x', [...chunked, '4', 'abcd', '0'], 'POST')).status, 200)
  const refused = await send('/open/x', [...chunked, '5', 'abcde', '0'], 'POST')
  t.equal(refused.status, 413)
  t.strictSame(JSON.parse(refused.body), {
    statusCode: 413,
    error: 'Payload Too Large',
    message: 'The body of the request is too large.'
  })
  t.equal((await send('/open/x', ['Expect: 100-continue', 'Content-Length: 4', '', 'abcd'], 'POST')).status, 100)
  t.equal(
    (await send('/open/x', ['Expect: 100-continue', 'Content-Length: 5', '', 'abcde'], 'POST')).status,
    413,
    'no 100 for a body that is too large'
  )
  t.strictSame(upstream.arrived.map(({ body }) => body), ['abcd', 'abcd', 'abcd'])
  for (const lines of [['Content-Length: 5', '', 'abcde'], [...chunked, '5', 'abcde', '0']]) {
    const [chunk] = await once(open(t, url, head('/open/x', lines, 'POST')), 'data')
    t.match(String(chunk), /^HTTP\/1.1 413 [^]*\r\nconnection: close\r\n/i, 'the client may go on sending')
  }
})

t.test('A large body streams both ways.', async t => {
  const { url } = await startSite(t, {}, (request, response) => {
    request.pipe(response)
  })
  const size = 20 * 1024 * 1024
  const request = httpRequest(`${url}/open/echo`, { method: 'POST' })
  request.end(Buffer.alloc(size, 'x'))
  const [response] = await once(request, 'response')
  let got = 0
  for await (const chunk of response) got += chunk.length
  t.equal(got, size)
})

t.test('A client whose large body is not read can send it to its end, and reuse the connection.', async t => {
  const { url } = await startSite(t, {}, (request, response) => {
    response.writeHead(403, { connection: 'close' }).end('no')
    request.destroy()
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => {
    agent.destroy()
  })
  for (const turn of ['first', 'second']) {
    const request = httpRequest(`${url}/open/x`, { method: 'POST', agent })
    request.end(Buffer.alloc(10 * 1024 * 1024, 'x'))
    const [[response]] = await Promise.all([once(request, 'response'), once(request, 'finish')])
    t.match(String(response.statusCode), /^(?:403|502)$/, turn)
    await once(response.resume(), 'end')
  }
})

/** An upstream that answers before it has read the body, and closes, as many do: what is still sent meets a reset. */
function startEarlyUpstream (t: Test, answer: string) {
  const server = createNetServer(socket => {
    socket.on('error', () => {}).once('data', () => {
      socket.pause()
      socket.end(answer, () => socket.destroy())
    })
  })
  return listen(t, server)
}

t.test('An answer that the upstream gives before it has read the body reaches the client, each time.', async t => {
  for (const version of ['1.1', '1.0']) {
    const port = await startEarlyUpstream(
      t,
      `HTTP/${version} 413 Too Large\r\nContent-Type: text/plain\r\nConnection: close\r\n` +
        `${version === '1.1' ? 'Content-Length: 5\r\n' : ''}\r\nearly`
    )
    const { url, log } = await startSite(t, { upstream: `http://127.0.0.1:${port}` })
    for (let turn = 0; turn < 16; turn++) {
      const request = httpRequest(`${url}/open/x`, { method: 'POST' })
      request.end(Buffer.alloc(300 * 1024 * (turn % 4 + 1), 'x'))
      const [response] = await once(request, 'response')
      t.strictSame([response.statusCode, await textOf(response)], [413, 'early'])
    }
    t.notOk(log.some(({ msg }) => msg === 'request failed'), 'and is no failure')
  }
})

t.test('The refusal of a body that is too large reaches a client that goes on sending it, and ends the connection.', async t => {
  const { url, closed } = await startSite(t, { bodyLimit: 1000 })
  for (let turn = 0; turn < 16; turn++) {
    const request = httpRequest(`${url}/open/x`, { method: 'POST', agent: false })
    request.end(Buffer.alloc(3 * 1024 * 1024, 'x'))
    const [response] = await once(request, 'response')
    t.equal(response.statusCode, 413)
    t.equal(response.headers.connection, 'close')
    response.resume()
  }
  // No connection is too silent from here on.
  stopClock(t)
  const { hostname, port } = new URL(url)
  const staying = connect({ host: hostname, port: Number(port), allowHalfOpen: true }).on('error', () => {}).resume()
  staying.write('POST /open/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n')
  await once(staying, 'end')
  staying.write(Buffer.alloc(2000, 'x'))
  await closed()
  staying.destroy()
})

t.test('Interim answers 100 that nobody asked for are left out, however they are cut.', async t => {
  const interim = 'HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n'
  const body = 'HTTP/1.1 100 of the body\r\n\r\n'
  const whole = `${interim}${interim}HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  let cut = 0
  const server = createNetServer(socket => {
    socket.on('error', () => {}).on('data', () => {
      const at = cut
      socket.write(whole.slice(0, at))
      setTimeout(() => socket.write(whole.slice(at)), 2)
    })
  }).setMaxListeners(0)
  const { send } = await startSite(t, { upstream: `http://127.0.0.1:${await listen(t, server)}` })
  const second = interim.length
  for (const at of [0, 1, 11, 12, 13, second - 2, second, second + 5, 2 * second, whole.length]) {
    cut = at
    const { status, body: got } = await send('/open/x')
    t.strictSame([status, got], [200, body], `cut at ${at}`)
  }
})

t.test('An interim answer that does not end is no answer.', async t => {
  const { send, upstream } = await startSite(t, {}, (_request, response) => {
    response.socket!.write(`HTTP/1.1 100 Continue\r\nX-A: ${'a'.repeat(20_000)}`)
  })
  t.equal((await send('/open/x')).status, 502)
  t.equal(upstream.connections, 1)
})

t.test('A client that goes while its request is judged leads to no request to the upstream.', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const held = new EventEmitter()
  const gate = { upstream: upstream.origin, rules: RULES }
  const { url } = await startApp(t, issuer, { GATE: gate }, undefined, app => {
    app.addHook('onRequest', async ({ raw: { socket, headers } }) => {
      if (headers['x-hold'] === undefined) return
      held.emit('request')
      await new Promise(resolve => socket.once('close', resolve))
      held.emit('gone')
    })
  })
  const [socket, gone] = [open(t, url, ['GET /open/x HTTP/1.1', 'Host: localhost', 'X-Hold: 1']), once(held, 'gone')]
  await once(held, 'request')
  // After an orderly end it might wait for its answer.
  socket.resetAndDestroy()
  await gone
  t.equal((await fetch(`${url}/open/y`)).status, 200)
  t.strictSame(upstream.arrived.map(({ target }) => target), ['/open/y'])
})

t.test('A client of HTTP/1.0 need not name the host, unless it has a proof.', async t => {
  const { url, upstream, issuer, token: bearer } = await startSite(t, {})
  t.hasStrict(await sendRaw(url, ['GET /open/x HTTP/1.0']), { status: 200, body: '{"ok":true}' })
  t.hasStrict(await sendRaw(url, ['GET /any/x HTTP/1.0', ...bearer]), { status: 200 })
  t.notOk('x-forwarded-host' in upstream.arrived[0]!.headers)
  t.equal(upstream.arrived[0]!.headers['host'], new URL(upstream.origin).host)
  t.equal((await sendRaw(url, ['GET /none HTTP/1.0'])).status, 404)
  t.equal((await sendRaw(url, ['GET http://a.example/open/x HTTP/1.0'])).status, 400, 'an absolute target')
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const proof = dpopLines(token, client.proof({ token, url: `${url}/any/x` }))
  const refused = await sendRaw(url, ['GET /any/x HTTP/1.0', ...proof])
  t.equal(refused.status, 401)
  t.match(refused.headers['www-authenticate'], /invalid_request/)
  t.equal(upstream.arrived.length, 2)
})

waiting.test('A refused request for another protocol has the limits of any other, and its answer any length.', async t => {
  const large = 'a'.repeat(4 * 1024 * 1024)
  const { url, head, upgrade, upstream, app, closed } = await startSite(t, {})
  upstream.server.on('upgrade', (_request, socket) => {
    socket.on('error', () => {}).end(`HTTP/1.1 426 Upgrade Required\r\nContent-Length: ${large.length}\r\n\r\n${large}`)
  })
  const lines = head('/socket', upgrade)
  t.ok((await textOf(open(t, url, lines))).length > large.length, 'all of it')
  for (const server of app.connections.servers) server.setTimeout(1_000)
  const deaf = open(t, url, lines)
  deaf.pause()
  await until('it is connected', () => app.connections.open.size > 0)
  await closed()
  t.pass('who reads nothing is ended')
})

waiting.test('An answer of another kind to a request for another protocol breaks off after a pause, and no stream of events.', async t => {
  const rules = [{ path: '/socket', upgrade: true, timeoutSeconds: 3 }]
  const { url, head, upgrade, upstream } = await startSite(t, { rules })
  const begun = new Map<unknown, Duplex>()
  upstream.server.on('upgrade', ({ headers }, socket) => {
    const type = headers['x-type']
    begun.set(type, socket.on('error', () => {}))
    socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\n\r\ndata: 1\n\n`)
  })
  const ask = (type: string) => {
    const socket = open(t, url, head('/socket', [...upgrade, `X-Type: ${type}`])).on('error', () => {})
    return { ...collect(socket), closed: new Promise(resolve => socket.once('close', resolve)) }
  }
  const events = ask('text/event-stream')
  await events.holds('data: 1\n\n')
  // It begins later, and so does its pause.
  const other = ask('text/plain')
  await other.closed
  t.match(other.got.text, /^HTTP\/1.1 200 [^]*data: 1\n\n\r\n$/, 'no last chunk')
  begun.get('text/event-stream')!.end('data: 2\n\n')
  await events.holds('data: 2\n\n')
})

t.test('A slow body does not count as a silent upstream.', async t => {
  const pass = holdTimers(t, USUAL_SECONDS * 1000)
  let body = ''
  const { url, upstream, head } = await startSite(t, { timeoutSeconds: USUAL_SECONDS }, (request, response) => {
    request.on('data', chunk => {
      body += chunk
      upstream.server.emit('got')
    }).once('end', () => response.end('ok'))
  })
  const socket = open(t, url, head('/open/x', ['Connection: close', 'Content-Length: 3'], 'POST'))
  await once(socket, 'connect')
  for (const char of 'abc') {
    advanceClock(t, (USUAL_SECONDS - 1) * 1000)
    const got = once(upstream.server, 'got')
    socket.write(char)
    await got
    pass(0)
  }
  const [chunk] = await once(socket, 'data')
  t.match(String(chunk), /^HTTP\/1.1 200 /)
  t.equal(body, 'abc')
})

waiting.test('A client that hangs up ends the request to the upstream, before the answer and in the middle of it.', async t => {
  const gone: string[] = []
  let begun: () => void
  const { url, head, upstream, log } = await startSite(t, {}, (request, response) => {
    response.once('close', () => {
      gone.push(request.url!)
      upstream.server.emit('gone')
    })
    if (request.url === '/open/stream') response.write('data: 1\n\n')
    begun()
  })
  const rows = [
    ['/open/wait', [], 'destroy'],
    ['/open/reset', [], 'resetAndDestroy'],
    ['/open/stream', [], 'destroy'],
    ['/open/body', ['Content-Length: 9', '', 'a'], 'destroy']
  ] as const
  for (const [target, lines, leave] of rows) {
    const beginning = new Promise<void>(resolve => {
      begun = resolve
    })
    const socket = open(t, url, head(target, lines, lines.length > 0 ? 'POST' : 'GET'))
    await beginning
    if (target === '/open/stream') {
      t.match(String((await once(socket, 'data'))[0]), /data: 1/, 'events arrive as they are sent')
    }
    const ended = once(upstream.server, 'gone')
    socket[leave]()
    await ended
  }
  t.strictSame(gone, rows.map(([target]) => target))
  t.notOk(log.some(({ level }) => level >= 50), 'it is no fault of the service')
})

t.test('A request is never sent again on another connection.', async t => {
  let seen = 0
  const { send } = await startSite(t, {}, (request, response) => {
    seen++
    // The second request on a connection finds it closed.
    if (request.socket.bytesWritten > 0) return request.socket.destroy()
    response.end('ok')
  })
  t.equal((await send('/open/a')).status, 200)
  t.equal((await send('/open/b')).status, 502)
  t.equal(seen, 2)
})

waiting.test('A connection is upgraded only under a rule that allows it, and only after it is judged.', async t => {
  const seen: Array<string | undefined> = []
  const rules = [{ path: '/silent', upgrade: true, ...HASTY }, ...RULES]
  const { url, head, token, upstream } = await startSite(t, { rules }, (request, response) => {
    seen.push(request.headers.upgrade)
    response.end('plain')
  }, { DPOP_NONCE: 'required' })
  const echo = (request: { headers: Record<string, string> }, socket: Socket, head: Buffer) => {
    seen.push(request.headers['x-auth-subject'])
    if (request.headers['x-mode'] === 'refuse') {
      return socket.end('HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nX-Why: no\r\nContent-Length: 4\r\n\r\nnope')
    }
    if (request.headers['x-mode'] === 'reset') return socket.destroy()
    if (request.headers['x-mode'] === 'silent') return
    if (request.headers['x-mode'] === 'nameless') return socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
    socket.on('error', () => {})
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' +
        'yes\r\n\r\nfirst;'
    )
    socket.write(head)
    socket.pipe(socket)
  }
  upstream.server.on('upgrade', echo as never)
  const wanted = ['Connection: Upgrade', 'Upgrade: websocket', 'X-Auth-Subject: root']
  const answerTo = (target: string, lines: readonly string[], method = 'GET') =>
    textOf(open(t, url, head(target, lines, method)))

  const socket = open(t, url, head('/socket', [...wanted, ...token]))
  const { got, holds } = collect(socket)
  await holds('first;')
  t.match(
    got.text,
    /^HTTP\/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n[^]*sec-websocket-accept: yes\r\n/i
  )
  socket.write('hello;')
  await holds('hello;')
  t.strictSame(seen, ['user-1'], 'the name of the caller, not the one that was sent')
  socket.end()
  await once(socket, 'close')

  t.match(await answerTo('/socket', wanted), /^HTTP\/1.1 401 [^]*connection: close/i, 'without a token')
  t.equal(seen.length, 1)
  const refused = await answerTo('/socket', [...wanted, ...token, 'X-Mode: refuse'])
  t.match(refused, /^HTTP\/1.1 426 [^]*x-why: no[^]*nope$/i, 'the refusal of the upstream arrives')
  t.match(await answerTo('/socket', [...wanted, ...token, 'X-Mode: reset']), /^HTTP\/1.1 502 /)
  t.match(await answerTo('/silent', [...wanted, ...token, 'X-Mode: silent']), /^HTTP\/1.1 504 /)
  t.match(await answerTo('/socket', [...wanted, ...token, 'X-Mode: nameless']), /^HTTP\/1.1 502 /)
  seen.length = 0
  const large = 'a'.repeat(300_000)
  const body = [`Content-Length: ${large.length}`, '', large]
  const settings = 'HTTP2-Settings: AAMAAABkAAQAAP__'
  const plain: ReadonlyArray<readonly [path: string, upgrade: readonly string[], why: string]> = [
    ['/socket', ['Upgrade: h2c', settings], 'a protocol that carries requests'],
    ['/socket', ['Upgrade: h2 c'], 'no list of protocols'],
    ['/socket', ['Upgrade: websocket', 'Upgrade: h2 c'], 'nor this'],
    ['/any/x', ['Upgrade: websocket'], 'a rule that does not allow it']
  ]
  for (const [path, upgrade, why] of plain) {
    const lines = ['Connection: Upgrade, HTTP2-Settings, close', ...upgrade, ...token]
    t.match(await answerTo(path, lines), /^HTTP\/1.1 200 [^]*plain$/, why)
    t.match(await answerTo(path, [...lines, ...body], 'POST'), /^HTTP\/1.1 200 [^]*plain$/, `${why}, with a body`)
    t.strictSame(seen.splice(0), [undefined, undefined], 'the upstream does not get it')
  }
  const upgrading = ['Connection: close, Upgrade', 'Upgrade: x', ...token]
  t.match(await answerTo('/socket', [...upgrading, ...body], 'POST'), /^HTTP\/1.1 200 /)
  t.match(await answerTo('/any/%2e%2e/x', upgrading), /^HTTP\/1.1 400 /, 'a path without one meaning')
  t.match(
    await answerTo('/socket', [...token, 'Connection: close']),
    /^HTTP\/1.1 200 /,
    'the same rule without an upgrade'
  )
})

t.test('Without rules nothing passes, and the log says so.', async t => {
  const { send, log } = await startSite(t, { rules: [] })
  t.equal((await send('/open/x')).status, 404)
  t.ok(log.some(({ msg }) => /no rules/.test(msg)))
})

t.test('A fault of our own lets nothing pass.', async t => {
  const { send, app, upstream } = await startSite(t, {})
  app.gate!.execute = (_request, _door, done) => done(new Error('broken'))
  t.equal((await send('/open/x')).status, 500)
  t.strictSame(upstream.arrived, [])
})

t.test('The answer that changes the protocol has the next nonce.', async t => {
  const client = await createDpopClient()
  const { url, head, issuer, upstream, send } = await startSite(t, {}, undefined, { DPOP_NONCE: 'required' })
  upstream.server.on('upgrade', (_request, socket) => {
    socket.end(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nDPoP-Nonce: theirs\r\n\r\n'
    )
  })
  const token = issuer.token({ cnf: client.cnf })
  const proven = (nonce?: string) =>
    dpopLines(token, client.proof({ token, url: `${url}/socket`, claims: { nonce } }))
  const older = await atAnotherTime(-120, () => send('/socket', proven()))
  const socket = open(
    t,
    url,
    head('/socket', ['Connection: Upgrade', 'Upgrade: websocket', ...proven(older.headers['dpop-nonce'])])
  )
  const changed = String((await once(socket, 'data'))[0])
  t.match(changed, /^HTTP\/1.1 101 [^]*dpop-nonce: \S+/)
  t.notMatch(changed, /theirs/, 'and no other')
})

t.test('An answer that cannot be passed on is 502, and the next request is answered.', async t => {
  const ok = 'Content-Length: 2\r\n\r\nok'
  const answers: Record<string, readonly [wire: string, status: number, body?: string]> = {
    'a good answer': [`HTTP/1.1 200 OK\r\n${ok}`, 200, 'ok'],
    'bytes above ASCII': [`HTTP/1.1 200 OK\r\nX-Name: "\u00e3\u0081\u0082"\r\n${ok}`, 200, 'ok'],
    'a control character': [`HTTP/1.1 200 OK\r\nX-Name: a\x01b\r\n${ok}`, 502],
    'a name with a space': [`HTTP/1.1 200 OK\r\nX Name: b\r\n${ok}`, 502],
    'two lengths': [`HTTP/1.1 200 OK\r\nContent-Length: 3\r\n${ok}`, 502],
    'a length beside chunks': [`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n${ok}`, 502],
    'a body in chunks': [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
      200,
      '2\r\nok\r\n0\r\n\r\n'
    ],
    'a body in a coding that the client would not learn of': [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok',
      502
    ],
    'such a body in chunks': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', 502],
    'chunks, and a coding in a second line': [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n',
      502
    ],
    'such a body in two lines': [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
      502
    ],
    'a code of its own': [`HTTP/1.1 299 Mine\r\n${ok}`, 299, 'ok'],
    'a code above all classes': [`HTTP/1.1 600 Mine\r\n${ok}`, 502],
    'a code below all classes': [`HTTP/1.1 099 Mine\r\n${ok}`, 502],
    'the code 0': [`HTTP/1.1 000 Mine\r\n${ok}`, 502],
    'a code of two digits': [`HTTP/1.1 20 Mine\r\n${ok}`, 502],
    'a code of four digits': [`HTTP/1.1 2000 Mine\r\n${ok}`, 502],
    'a negative code': [`HTTP/1.1 -99 Mine\r\n${ok}`, 502],
    'no code': [`HTTP/1.1\r\n${ok}`, 502],
    'a pseudo-header': [`HTTP/1.1 200 OK\r\n:status: 099\r\n${ok}`, 502],
    'an interim answer below all classes': [`HTTP/1.1 099 Mine\r\n\r\nHTTP/1.1 200 OK\r\n${ok}`, 502],
    'an interim answer with a code of its own': [`HTTP/1.1 199 Mine\r\n\r\nHTTP/1.1 200 OK\r\n${ok}`, 200, 'ok'],
    'names that are members of each object': [
      `HTTP/1.1 200 OK\r\n__proto__: a\r\n__proto__: b\r\nconstructor: c\r\ntoString: d\r\n${ok}`,
      200,
      'ok'
    ],
    'hints whose names are members of each object': [
      `HTTP/1.1 103 Early Hints\r\n__proto__: a\r\n\r\nHTTP/1.1 200 OK\r\n${ok}`,
      200,
      'ok'
    ],
    'a protocol of another name': [`ICY 200 OK\r\n${ok}`, 502],
    'HTTP/2': ['\0\0\0\x04\0\0\0\0\0', 502],
    'a NUL in a value': [`HTTP/1.1 200 OK\r\nX-Name: a\0b\r\n${ok}`, 502],
    'a line that goes on': [`HTTP/1.1 200 OK\r\nX-Name: a\r\n b\r\n${ok}`, 502],
    'a change of protocol that was not requested': ['HTTP/1.1 101 Switching Protocols\r\n\r\n', 502],
    'a change to a protocol that was not requested': [
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      502
    ],
    'a not-modified answer with the length of what it does not hold': [
      'HTTP/1.1 304 Not Modified\r\nContent-Length: 25\r\nETag: "x"\r\n\r\n',
      304,
      ''
    ],
    'a not-modified answer': ['HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', 304, ''],
    'a body after 204': [`HTTP/1.1 204 No Content\r\n${ok}`, 204, ''],
    'a second answer behind the first': [`HTTP/1.1 200 OK\r\n${ok}HTTP/1.1 200 OK\r\n${ok}`, 200, 'ok'],
    'a head of 15 KB': [`HTTP/1.1 200 OK\r\nX-Name: ${'a'.repeat(15_000)}\r\n${ok}`, 200, 'ok'],
    'a head of 64 KB': [`HTTP/1.1 200 OK\r\nX-Name: ${'a'.repeat(65_536)}\r\n${ok}`, 502],
    'no answer': ['', 502]
  }
  let title = ''
  const { send, log } = await startSite(t, {}, ({ socket }) => {
    const wire = Buffer.from(answers[title]![0], 'latin1')
    // A change of protocol is noticed at once, and not only when the connection ends.
    if (/101/.test(wire.toString('latin1', 0, 20))) socket.write(wire)
    else socket.end(wire)
  })
  for (const [name, [, status, body]] of Object.entries(answers)) {
    title = name
    const answer = await send('/open/x')
    t.equal(answer.status, status, name)
    if (body !== undefined) t.equal(answer.body, body)
    else t.strictSame(JSON.parse(answer.body), { statusCode: 502, error: 'Bad Gateway', message: 'Bad Gateway' })
    if (name === 'names that are members of each object') {
      t.strictSame(
        answer.lines.map(([name]) => name).filter(name => name !== 'date' && name !== 'connection'),
        ['constructor', 'tostring', 'content-length'],
        'no header is made up'
      )
    }
    if (name === 'bytes above ASCII') {
      t.equal(answer.headers['x-name'], '"\u00e3\u0081\u0082"', 'they arrive as they were')
    }
  }
  const failed = log.filter(({ msg }) => msg === 'request failed')
  t.equal(failed.length, Object.values(answers).filter(([, status]) => status === 502).length)
  t.ok(failed.every(({ cause }) => /^\w+$/.test(String(cause))), 'each warning has a cause')
})

t.test('The head of an answer arrives before its body begins.', async t => {
  const { url, head } = await startSite(t, {}, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-name': '\u00fc' }).write(Buffer.alloc(0))
  })
  const socket = open(t, url, head('/open/events'))
  const [start] = await once(socket, 'data')
  t.match(
    start.toString('latin1'),
    /^HTTP\/1.1 200 OK\r\n[^]*content-type: text\/event-stream\r\nx-name: \u00fc\r\n[^]*\r\n\r\n3\r\n:\n\n\r\n$/
  )
})

t.test('A silent stream of events gets comments, whatever its upstream says of buffers.', async t => {
  const pass = holdTimers(t, 7000)
  const { url, head } = await startSite(t, { keepAliveSeconds: 7 }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'yes' }).flushHeaders()
  })
  const socket = open(t, url, head('/open/events'))
  const next = async () => String((await once(socket, 'data'))[0])
  const start = await next()
  t.match(start, /\r\nx-accel-buffering: no\r\n[^]*\r\n\r\n3\r\n:\n\n\r\n$/)
  t.notMatch(start, /buffering: yes/)
  for (let i = 0; i < 2; i++) {
    pass()
    t.equal(await next(), '3\r\n:\n\n\r\n')
  }
})

/** What a count of bytes that move comes to. */
async function stalled (count: () => number) {
  for (let [before, turns] = [-1, 0]; ; turns++) {
    const now = count()
    if (now !== before || now === 0) turns = 0
    // After a pause of the machine, a timer comes before what has arrived.
    else if (turns === 5) return now
    before = now
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

t.test('A client that is silent in its body gets 408, and an upstream that does not take the body is 504.', async t => {
  const pass = holdTimers(t, USUAL_SECONDS * 1000)
  const { url, head, log, app, upstream } = await startSite(t, { timeoutSeconds: USUAL_SECONDS }, request => {
    if (request.url === '/open/read') request.once('data', () => upstream.server.emit('got'))
  })
  const got = once(upstream.server, 'got')
  const slow = open(t, url, head('/open/read', ['Content-Length: 9', '', 'a'], 'POST'))
  await got
  pass()
  const [lines, body] = (await textOf(slow)).split('\r\n\r\n')
  t.equal(lines!.split('\r\n')[0], 'HTTP/1.1 408 Request Timeout')
  t.match(lines, /\r\nconnection: close/i)
  t.strictSame(JSON.parse(body!), {
    statusCode: 408,
    error: 'Request Timeout',
    message: 'The body of the request is too slow.'
  })
  t.strictSame(log.filter(({ level }) => level >= 50), [], 'it is no error of ours')
  const untaken = open(t, url, head('/open/unread', ['Content-Length: 99999999', '', ''], 'POST'))
  await once(untaken, 'connect')
  const answer = once(untaken, 'data')
  untaken.write(Buffer.alloc(32 * 1024 * 1024))
  await stalled(() => [...app.connections.open].at(-1)?.bytesRead ?? 0)
  pass()
  t.match(String((await answer)[0]), /^HTTP\/1.1 504 /)
  t.hasStrict(log.filter(({ msg }) => msg === 'request failed'), [{ level: 40, status: 504 }])
})

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/**
 * What is held once everything else has been collected, or so much of it that at most this is left. Finalizers run
 * between two collections.
 */
async function heldBytes (enough = 0) {
  for (let turn = 1; ; turn++) {
    collectGarbage()
    await new Promise(resolve => setTimeout(resolve, 20))
    const { heapUsed, external } = process.memoryUsage()
    if (turn === 3 || heapUsed + external <= enough) return heapUsed + external
  }
}

type Head = Awaited<ReturnType<typeof startSite>>['head']

const pipelineOf = (head: Head, path: string, count: number) =>
  Array.from({ length: count }, () => [...head(path), '', '']).flat().slice(0, -2)
const HALF = ['Content-Length: 9', '', 'a']
/** Clients of one storm. More pipelines at once from one address would not be taken. */
const CLIENTS = 5
/** What vanishing clients have sent. */
const STORMS: Readonly<Record<string, (head: Head, upgrade: readonly string[]) => readonly string[]>> = {
  'one request': head => head('/open/endless'),
  'a pipeline': head => pipelineOf(head, '/open/endless', 31),
  'half a body': head => head('/open/body', HALF, 'POST'),
  'a pipeline behind half a body':
    head => [...pipelineOf(head, '/open/endless', 5), '', ...head('/open/body', HALF, 'POST')],
  'a request for another protocol': (head, upgrade) => head('/socket', [...upgrade]),
  'another protocol': (head, upgrade) => head('/socket', [...upgrade, 'X-Mode: accept'])
}

/** Those that hold the most at once. `npm run test:programs` has all: memory is measured for seconds. */
const MOST_HELD: ReadonlySet<string> = new Set(['a pipeline behind half a body', 'another protocol'])

for (const [title, linesOf] of Object.entries(STORMS)) {
  if (process.env['FC_RUNS'] === undefined && !MOST_HELD.has(title)) continue
  t.test(`Clients that vanish leave no descriptor, no connection and no memory behind: ${title}.`, async t => {
    const running = new Set<unknown>()
    let most = 0
    const site = await startSite(t, { idleSeconds: 1 }, (request, response) => {
      if (request.url === '/open/x') return response.end('ok')
      running.add(response)
      most = Math.max(most, running.size)
      response.on('error', () => {}).once('close', () => running.delete(response))
      if (request.url === '/open/body') return request.resume()
      const more = () => {
        while (response.write(Buffer.alloc(65_536)));
      }
      response.on('drain', more)
      more()
    })
    const { url, head, upstream, upgrade, send, closed } = site
    upstream.server.on('upgrade', (request, socket: Socket) => {
      running.add(socket)
      socket.on('error', () => {}).once('close', () => running.delete(socket)).once('end', () => socket.destroy())
        .resume()
      if (request.headers['x-mode'] === 'accept') {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n')
      }
    })
    const descriptors = () => readdirSync('/proc/self/fd').length
    const lines = linesOf(head, upgrade)
    const storm = async () => {
      most = 0
      // Not to be kept until the end of the test: each holds a piece that it has not read.
      const sockets = Array.from(
        { length: CLIENTS },
        () => connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
      )
      for (const socket of sockets) socket.write(`${lines.join('\r\n')}\r\n\r\n`)
      while (running.size < CLIENTS) await new Promise(resolve => setTimeout(resolve, 5))
      t.ok(most <= CLIENTS, 'the upstream gets no request before its turn')
      for (const [index, socket] of sockets.entries()) socket[index % 2 === 0 ? 'destroy' : 'resetAndDestroy']()
      await until('the upstream is left alone', () => running.size === 0)
      await closed()
      t.equal((await send('/open/x')).status, 200, 'the next client is served')
      await closed()
    }
    t.equal((await send('/open/x')).status, 200)
    const atRest = descriptors()
    // What the first storm loads is not its own.
    await storm()
    const bound = CLIENTS * 16_384
    let before = await heldBytes()
    let grown = Infinity
    // What other tests load meanwhile comes once; what a client leaves behind comes with each storm.
    for (let turn = 1; turn <= 4 && grown > bound; turn++) {
      await storm()
      // Connections to the upstream that are at rest are kept for a second.
      while (descriptors() > atRest + 2) await new Promise(resolve => setTimeout(resolve, 20))
      const after = await heldBytes(before + bound)
      grown = after - before
      before = after
    }
    t.ok(grown <= bound, `memory is back where it was: ${grown} bytes`)
  })
}

t.test('A client that is refused an upgrade cannot go on sending.', async t => {
  const { url, head, closed } = await startSite(t, {})
  const socket = open(t, url, head('/socket', ['Connection: Upgrade', 'Upgrade: x'])).on('error', () => {})
  await once(socket, 'data')
  const drip = setInterval(() => socket.write('x'), 500)
  t.teardown(() => clearInterval(drip))
  await closed()
  t.pass('its connection is gone')
})

t.test('A request for another protocol behind an unanswered request ends the connection, and nothing else.', async t => {
  const { url, head, send, upstream } = await startSite(t, {}, (request, response) => {
    if (request.url === '/open/wait') upstream.server.emit('waiting')
    else response.end('ok')
  })
  const waiting = once(upstream.server, 'waiting')
  const socket = open(t, url, head('/open/wait'))
  await waiting
  socket.write(`${head('/socket', ['Connection: upgrade', 'Upgrade: websocket']).join('\r\n')}\r\n\r\n`)
  socket.resume()
  await once(socket, 'close')
  t.equal((await send('/open/x')).status, 200)
})

t.test('The certificate of the upstream must have the name of the upstream, whatever Host the client sends.', async t => {
  const [ca, key] = ['cert', 'key'].map(part =>
    readFileSync(new URL(`../fixtures/provider.${part}.pem`, import.meta.url), 'utf8')
  )
  const connectTls = tls.connect
  t.teardown(() => {
    tls.connect = connectTls
  })
  tls.connect = ((options: object, ...rest: []) => connectTls({ ...options, ca }, ...rest)) as typeof tls.connect
  const names: unknown[] = []
  const hosts: unknown[] = []
  const server = createTlsServer({ key: key!, cert: ca! }, (request, response) => {
    hosts.push(request.headers.host)
    response.end('ok')
  })
  server.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n')
  })
  server.on('secureConnection', ({ servername }) => {
    names.push(servername)
  })
  await new Promise<void>(resolve => server.listen(0, resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo

  const named = await startSite(t, { upstream: `https://localhost:${port}` })
  for (const host of ['evil.example', 'idp.test', '127.0.0.1']) {
    const { status } = await sendRaw(named.url, ['GET /open/x HTTP/1.1', `Host: ${host}`, 'Connection: close'])
    t.equal(status, 200, host)
    t.equal(hosts.at(-1), host)
  }
  t.strictSame(names, ['localhost'], 'one connection for all of them')
  t.equal((await named.send('/socket', named.upgrade)).status, 426)
  t.strictSame(names, ['localhost', 'localhost'])

  const address = await startSite(t, { upstream: `https://127.0.0.1:${port}` })
  t.equal((await address.send('/open/x')).status, 200)
  t.equal((await address.send('/socket', address.upgrade)).status, 426)
  t.strictSame(names.slice(2), [false, false], 'an address is no name')

  const other = await startSite(t, { upstream: `https://127.0.0.2:${port}` })
  for (const host of ['localhost', '127.0.0.1']) {
    for (const lines of [['GET /open/x HTTP/1.1', 'Connection: close'], ['GET /socket HTTP/1.1', ...other.upgrade]]) {
      t.equal((await sendRaw(other.url, [...lines, `Host: ${host}`])).status, 502, `${host}: ${lines[0]}`)
    }
  }
})

waiting.test('A client that hangs up before the upstream has answered an upgrade ends the request.', async t => {
  const { app, url, head, upgrade, upstream, log } = await startSite(t, {}, ({ headers }, response) => {
    response.once('close', () => upstream.server.emit(`gone ${headers['x-row']}`))
    upstream.server.emit(`begun ${headers['x-row']}`)
  })
  upstream.server.on('upgrade', (request, socket) => {
    socket.on('error', () => {}).once('end', () => upstream.server.emit(`gone ${request.headers['x-row']}`)).resume()
    if (request.headers['x-mode'] === 'refuse') {
      return socket.write('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\n\r\nno')
    }
    upstream.server.emit(`begun ${request.headers['x-row']}`)
  })
  // For half a request behind the one that is not answered.
  app.server.headersTimeout = 100
  const rows = [
    ['/socket', '', 'destroy'],
    ['/socket', '', 'end'],
    ['/socket', 'early', 'destroy'],
    ['/any/x', '', 'destroy'],
    ['/any/x', 'early', 'end'],
    ['/socket', '', 'resetAndDestroy'],
    ['/any/x', '', 'resetAndDestroy']
  ] as const
  await Promise.all(rows.map(async ([target, early, leave], row) => {
    const begun = once(upstream.server, `begun ${row}`)
    const gone = once(upstream.server, `gone ${row}`)
    const socket = open(t, url, head(target, [...upgrade, `X-Row: ${row}`]))
    await begun
    if (early) socket.write(early)
    socket[leave]()
    await gone
    t.pass(`${target} ${early} ${leave}`)
  }))
  const socket = open(t, url, head('/socket', [...upgrade, 'X-Mode: refuse', 'X-Row: last']))
  await once(socket, 'data')
  const gone = once(upstream.server, 'gone last')
  // After an orderly end it might wait for its answer.
  socket.resetAndDestroy()
  await gone
  t.notOk(log.some(({ level }) => level >= 50))
})

waiting.test('What a client sends before the upgrade arrives after it, and a silent connection stays.', async t => {
  const { url, head, upgrade, upstream, app } = await startSite(t, {})
  const size = 200_000
  let accept: () => void
  const got = { bytes: 0 }
  upstream.server.on('upgrade', (_request, socket: Socket) => {
    accept = () => socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n')
    socket.on('data', chunk => {
      got.bytes += chunk.length
      upstream.server.emit('got')
    })
    upstream.server.emit('begun')
  })
  const begun = once(upstream.server, 'begun')
  const socket = open(t, url, head('/socket', [...upgrade, '', 'x'.repeat(size)]))
  await begun
  const [connection] = [...app.connections.open]
  while (connection!.bytesRead < 64 * 1024) await new Promise(resolve => setImmediate(resolve))
  t.equal(got.bytes, 0)
  accept!()
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 101 /)
  while (got.bytes < size) await once(upstream.server, 'got')
  t.equal(connection!.timeout, 0, 'no limit for silence')
})

t.test(
  'A client that waits for 100 gets it when its request has passed the gate, and a coding that would get lost is ' +
    'refused.',
  async t => {
    const { send, token, upstream, log } = await startSite(t, {})
    const expecting = ['Expect: 100-continue', 'Content-Length: 2', '', 'ok']
    t.equal((await send('/any/x', expecting, 'POST')).status, 401, 'no 100 without a token')
    const passed = await send('/any/x', [...token, ...expecting], 'POST')
    t.equal(passed.status, 100)
    t.match(passed.body, /^HTTP\/1.1 200 /)
    t.notOk('expect' in upstream.arrived[0]!.headers)
    t.equal((await send('/any/x', ['Expect: more'])).status, 401, 'another expectation is ignored')
    t.equal((await send('/any/x', [...token, 'Expect: more', 'Content-Length: 2', '', 'ok'], 'POST')).status, 200)
    const chunks = ['', '2', 'ok', '0']
    t.equal((await send('/any/x', [...token, 'Transfer-Encoding: Chunked', ...chunks], 'POST')).status, 200)
    t.match(await send('/any/x', [...token, 'Transfer-Encoding: gzip, chunked', ...chunks], 'POST'), {
      status: 501,
      body: /Not Implemented/
    })
    t.strictSame(log.filter(({ level }) => level >= 50), [], 'what a client sends is no error of ours')
    t.strictSame(upstream.arrived.map(({ body }) => body), ['ok', 'ok', 'ok'])
    t.notOk('expect' in upstream.arrived[1]!.headers)
  }
)

t.test('In both directions a body that its reader does not take is not held in memory.', async t => {
  const size = 256 * 1024 * 1024
  // What the buffers of four sockets hold, of both sides of two connections.
  const most = 64 * 1024 * 1024
  const { url, head, upstream } = await startSite(t, {}, (request, response) => {
    upstream.server.emit('arrived', request, response)
  })
  const block = Buffer.alloc(1024 * 1024)
  const up = once(upstream.server, 'arrived')
  const sender = open(t, url, head('/open/x', [`Content-Length: ${size}`], 'POST'))
  let left = size / block.length
  const more = () => {
    while (left > 0 && sender.write(block)) left--
  }
  await once(sender, 'connect')
  sender.on('drain', more)
  more()
  await up
  const sent = await stalled(() => sender.bytesWritten)
  t.ok(sent < most, `${sent} bytes sent`)

  const down = once(upstream.server, 'arrived')
  const reader = open(t, url, head('/open/y'))
  const [, response] = await down as [unknown, ServerResponse]
  reader.pause()
  let answered = 0
  const on = () => {
    while (answered < size && response.write(block)) answered += block.length
  }
  response.on('drain', on)
  on()
  t.ok(await stalled(() => answered + 1) < most)
})

t.test('Without a rule that allows another protocol, a request for one is like any other, and its connection goes on.', async t => {
  const { url, head } = await startSite(t, { rules: [{ path: '/open/*', allow: 'anyone' }] })
  const socket = open(t, url, head('/open/a', ['Connection: Upgrade', 'Upgrade: x']))
  const { got, holds } = collect(socket)
  await holds('{"ok":true}')
  t.notMatch(got.text, /connection: close/i)
  socket.write(`${head('/open/b', ['Connection: close']).join('\r\n')}\r\n\r\n`)
  await once(socket, 'close')
  t.equal(got.text.split('HTTP/1.1 200 ').length - 1, 2)
})

t.test('A transfer coding in another HTTP than 1.1 is refused whatever is asked for, and ends the connection.', async t => {
  const { url, upstream, log } = await startSite(t, {})
  const lines = (version: string, path = '/open/x') => [
    `POST ${path} HTTP/${version}`,
    'Host: api.example',
    'Connection: keep-alive',
    'Transfer-Encoding: chunked',
    '',
    '0',
    '',
    'GET /open/next HTTP/1.1',
    'Host: api.example',
    'Connection: close'
  ]
  for (const path of ['/open/x', '/any/x', '/none', '/%2e%2e', '/health/live', '/verify/nginx']) {
    const { status, headers, body } = await sendRaw(url, lines('1.0', path))
    t.strictSame([status, headers['connection']], [400, 'close'], path)
    t.notMatch(body, /HTTP\/1.1/, 'what follows is no request')
  }
  for (const version of ['0.9', '2.0']) t.equal((await sendRaw(url, lines(version))).status, 400, version)
  const told = log.findLast(({ msg }) => msg === 'request unreadable')
  t.hasStrict(told, { status: 400, code: 'CODING_UNEXPECTED' })
  t.equal(upstream.arrived.length, 0)
  t.match((await sendRaw(url, lines('1.1'))).status, 200)
  t.strictSame(upstream.arrived.map(({ target }) => target), ['/open/x', '/open/next'])
})

t.test('A client of HTTP/1.0 cannot ask for another protocol.', async t => {
  const { url, upstream, upgrade } = await startSite(t, {})
  t.hasStrict(await sendRaw(url, ['GET /socket HTTP/1.0', 'Host: api.example', ...upgrade]), { status: 200, body: '{"ok":true}' })
  t.equal(upstream.arrived[0]!.headers['upgrade'], undefined)
})

t.test('A request for another protocol that names no host is refused, though PUBLIC_URL names one.', async t => {
  const { url, upgrade, upstream } = await startSite(t, {}, undefined, { PUBLIC_URL: 'https://api.example' })
  upstream.server.on('upgrade', (_request, socket: Socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n')
  })
  t.equal((await sendRaw(url, ['GET /socket HTTP/1.1', ...upgrade])).status, 400)
  t.equal(upstream.connections, 0)
  t.equal((await sendRaw(url, ['GET /socket HTTP/1.1', 'Host: x', ...upgrade])).status, 101)
})

waiting.test('The bytes of a change of protocol arrive as they are.', async t => {
  const { url, head, upstream, upgrade } = await startSite(t, {})
  upstream.server.on('upgrade', (_request, socket: Socket) => {
    socket.on('error', () => {}).resume()
    socket.write(
      Buffer.from(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\nX-Name: caf\u00e9\r\nX-Two: ' +
          'a\r\nX-Two: b\r\nDPoP-Nonce: c\r\nContent-Length: 2\r\n\r\n',
        'latin1'
      )
    )
  })
  const socket = open(t, url, head('/socket', upgrade))
  const [chunk] = await once(socket, 'data')
  t.equal(
    chunk.toString('latin1'),
    'HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\nx-name: caf\u00e9\r\nx-two: ' +
      'a\r\nx-two: b\r\n\r\n',
    'but for a length, and for a nonce, which is the gate\'s to tell'
  )
})

t.test('X-Forwarded-For has the addresses on the way in order, and is empty for a peer without one.', async t => {
  for (
    const [TRUST_PROXY, addresses] of [
      ['true', '192.0.2.1, 10.0.0.1, 127.0.0.1'],
      ['loopback', '10.0.0.1, 127.0.0.1'],
      ['false', '127.0.0.1']
    ] as const
  ) {
    const { send, upstream } = await startSite(t, {}, undefined, { TRUST_PROXY })
    await send('/open/x', ['X-Forwarded-For: 192.0.2.1, 10.0.0.1'])
    t.equal(upstream.arrived[0]!.headers['x-forwarded-for'], addresses, TRUST_PROXY)
  }
  // The system cuts longer paths off without a word, such as those of t.testdir().
  const folder = temporaryFolder(t, 'gate')
  for (
    const [TRUST_PROXY, addresses, node] of [['false', '', 'unknown'], ['true', '192.0.2.1', '192.0.2.1']] as const
  ) {
    const { app, upstream } = await startSite(t, {}, undefined, { TRUST_PROXY })
    const socketPath = join(folder, TRUST_PROXY)
    const server = createServer((request, response) => app.routing(request, response))
    await new Promise<void>(resolve => server.listen(socketPath, resolve))
    t.teardown(() => server.close())
    const [response] = await once(
      httpRequest({ socketPath, path: '/open/x', headers: { 'X-Forwarded-For': '192.0.2.1' }, agent: false }).end(),
      'response'
    )
    await once(response.resume(), 'end')
    const { headers } = upstream.arrived[0]!
    t.equal(headers['x-forwarded-for'], addresses, `${TRUST_PROXY}, over a socket without an address`)
    t.match(headers.forwarded, new RegExp(`^for=${node};`))
  }
})

t.test('Early hints for a slow client are not kept in memory.', async t => {
  const hint = `HTTP/1.1 103 Early Hints\r\nLink: <${'a'.repeat(8000)}>; rel=preload\r\n\r\n`.repeat(100)
  // Together more than the buffers of the system hold.
  const { url, head, app, upstream } = await startSite(t, {}, ({ socket }) => {
    for (let piece = 0; piece < 50; piece++) socket.write(hint)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', () => upstream.server.emit('written'))
  })
  const written = once(upstream.server, 'written')
  const socket = open(t, url, head('/open/x', ['Connection: close']))
  socket.pause()
  await written
  const [connection] = [...app.connections.open]
  t.ok(connection!.writableLength < 1024 * 1024, `${connection!.writableLength} bytes kept`)
  let text = ''
  for await (const chunk of socket) text = (text + chunk).slice(-200)
  t.match(text, /HTTP\/1.1 200 OK\r\n[^]*ok$/)
})

t.test('An upgraded connection does not hold up the end of the process.', async t => {
  // The last limit of closing, at which also a connection that owes an answer is ended, does not come here.
  const { setTimeout } = globalThis
  mock.method(
    globalThis,
    'setTimeout',
    (run: () => void, ms: number, ...rest: []) => setTimeout(ms === 9000 ? () => {} : run, ms, ...rest)
  )
  t.teardown(() => mock.restoreAll())
  const { url, head, upgrade, upstream, app } = await startSite(t, {})
  const ended = new Promise<void>(resolve =>
    upstream.server.on('upgrade', (_request, socket: Socket) => {
      socket.on('error', () => {}).once('end', resolve).resume()
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n')
    })
  )
  const socket = open(t, url, head('/socket', upgrade))
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 101 /)
  const closed = once(socket, 'close')
  await app.close()
  await Promise.all([closed, ended])
  t.equal(app.connections.open.size, 0)
})

t.test('A client that is refused an upgrade can send its unread body to the end, and its connection ends.', async t => {
  const { url, head, closed } = await startSite(t, {})
  const socket = open(t, url, head('/socket', ['Connection: Upgrade', 'Upgrade: x', '', 'x'.repeat(10 * 1024 * 1024)]))
  const { got } = collect(socket)
  await once(socket, 'close')
  t.match(got.text, /^HTTP\/1.1 401 /)
  await closed()
})

t.test('A small answer passes unchanged, whatever it lacks.', async t => {
  const length = { 'content-length': '2' }
  const heads: Record<string, [status: number, headers: OutgoingHttpHeaders | string[]]> = {
    '/open/typed': [200, { 'content-type': 'text/plain', ...length }],
    '/open/untyped': [200, length],
    '/open/json': [200, { 'content-type': 'application/json', ...length }],
    '/open/none': [204, { 'content-type': 'text/plain' }],
    '/open/malformed': [200, { 'content-type': 'nonsense;;', ...length }],
    '/open/doubled': [200, ['content-type', 'text/html', 'content-type', 'text/plain', 'content-length', '2']],
    '/open/hints': [200, { 'content-type': 'text/plain', ...length }],
    '/open/chunked': [200, { 'content-type': 'text/plain', 'transfer-encoding': 'chunked' }]
  }
  const { send, url: base, head } = await startSite(t, {}, ({ url }, response) => {
    if (url === '/open/hints') {
      response.socket!.write(
        'HTTP/1.1 104 Another\r\nLink: </b>\r\n\r\n' +
          'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Length: 5\r\nX-Hint: a\r\nSet-Cookie: a=1' +
          '\r\nSet-Cookie: b=2\r\n\r\n'
      )
    }
    response.writeHead(...heads[url!]!).end('ok')
  })
  const linesOf = async (path: string) =>
    (await textOf(open(t, base, head(path, ['Connection: close'])))).split('\r\n').filter(line => /^(?:content-type|content-length|link|x-hint|set-cookie):/i.test(line))
  t.strictSame(await linesOf('/open/none'), ['content-type: text/plain'], 'without a body too')
  t.strictSame(await linesOf('/open/malformed'), ['content-type: nonsense;;', 'content-length: 2'])
  t.strictSame(await linesOf('/open/json'), ['content-type: application/json', 'content-length: 2'], 'no charset')
  t.strictSame(await linesOf('/open/doubled'), [
    'content-type: text/html',
    'content-type: text/plain',
    'content-length: 2'
  ])
  t.strictSame((await linesOf('/open/hints')).sort(), [
    'Link: </a>; rel=preload',
    'content-length: 2',
    'content-type: text/plain',
    'x-hint: a'
  ], 'hints have no length and no cookies')
  for (const path of ['/open/typed', '/open/untyped', '/open/chunked']) {
    const { status, headers, body } = await send(path)
    t.equal(status, 200, path)
    t.equal(headers['content-type'], path === '/open/untyped' ? undefined : 'text/plain')
    t.match(body, /ok/)
    const asked = await send(path, [], 'HEAD')
    t.equal(asked.headers['content-length'], path === '/open/chunked' ? undefined : '2', `HEAD ${path}`)
    t.equal(asked.body, '')
  }
})
