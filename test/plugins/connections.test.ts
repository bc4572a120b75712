import { channel } from 'node:diagnostics_channel'
import dns from 'node:dns'
import { once } from 'node:events'
import { createServer, ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { mock } from 'node:test'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { holdTimers } from '../helpers/clock.ts'
import { containing } from '../helpers/containing.ts'
import {
  owedAnswer,
  inTurn,
  MAX_UNANSWERED,
  QUEUE_KEEP_ALIVE_MS,
  createQueuedResponse
} from '../../server/queued-response.ts'
import { LINGER_MS } from '../../server/unread-body.ts'
import { MAX_STALLED, STALL_MS } from '../../server/stalled-answers.ts'
import { MAX_CONNECTIONS } from '../../plugins/connections.ts'
import { startApp } from '../helpers/app.ts'
import type { Variables } from '../helpers/variables.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const SLOW = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n'
const LIVE = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n'
const BIG_BYTES = 32 * 1024 * 1024

/** A connection of a client that leaves its own side open whatever the service does, and what it has read. */
function open (t: Test, port: number, text: string, host = '127.0.0.1') {
  const socket = connect({ port, host, allowHalfOpen: true })
  const seen = { text: '', bytes: 0 }
  socket.on('error', () => {}).on('data', chunk => {
    seen.bytes += chunk.length
    if (seen.bytes < 100_000) seen.text += chunk
  })
  socket.write(text)
  t.teardown(() => {
    socket.destroy()
  })
  const answers = (): number => seen.text.split('HTTP/1.1 200 ').length - 1
  return Object.assign(seen, {
    socket,
    answers,
    ended: new Promise<void>(resolve => socket.once('end', resolve).once('close', () => resolve()))
  })
}

async function until (isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await delay(5)
}

type Prepare = NonNullable<Parameters<typeof startApp>[4]>

/** The service with a route that answers when it may, and one whose answer no buffer holds. */
async function start (t: Test, before?: Prepare) {
  const entered: Array<() => void> = []
  const { app, url } = await startApp(t, await startIssuer(t), {}, app => {
    app.get('/slow', async () => {
      await new Promise<void>(resolve => {
        entered.push(resolve)
      })
      return 'answer'
    })
    app.get('/big', () => Buffer.alloc(BIG_BYTES))
  }, before)
  return { app, entered, port: Number(new URL(url).port) }
}

t.test('A connection has a maximum number of unanswered requests, and is ended with one more', async t => {
  const { port, entered } = await start(t)
  const patient = open(t, port, SLOW.repeat(MAX_UNANSWERED))
  for (let turn = 0; turn < MAX_UNANSWERED; turn++) {
    await until(() => entered.length > turn)
    t.equal(entered.length, turn + 1, 'nothing is done for a request before its turn')
    entered[turn]!()
  }
  await until(() => patient.answers() === MAX_UNANSWERED)
  patient.socket.write(LIVE.repeat(MAX_UNANSWERED))
  await until(() => patient.answers() === MAX_UNANSWERED * 2)

  const rows: ReadonlyArray<readonly [title: string, text: string]> = [
    ['of a route', SLOW.repeat(MAX_UNANSWERED + 20)],
    ['that Fastify refuses', SLOW + 'GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(MAX_UNANSWERED)],
    ['that Node answers by itself', SLOW + 'GET / HTTP/1.1\r\n\r\n'.repeat(MAX_UNANSWERED)]
  ]
  for (const [title, text] of rows) {
    const greedy = open(t, port, text)
    await greedy.ended
    t.equal(greedy.text, '', title)
  }
  t.equal(entered.length, MAX_UNANSWERED + rows.length, 'of each only the first came to a handler')
})

const QueuedResponse = createQueuedResponse()

t.test('A connection is ended also if Node should come to keep its parser elsewhere', async t => {
  const socket = Object.assign(new Socket(), { _httpMessage: {} })
  for (let count = 0; count < MAX_UNANSWERED; count++) {
    t.notOk(socket.destroyed)
    t.type(new QueuedResponse(messageOn(socket)), ServerResponse)
  }
  t.ok(socket.destroyed)
})

/** A request of a connection that owes an answer. */
function messageOn (socket: Socket, headers: Record<string, string> = {}): IncomingMessage {
  return {
    socket,
    method: 'GET',
    url: '/',
    rawHeaders: Object.entries(headers).flat(),
    headers
  } as unknown as IncomingMessage
}

t.test('The bytes waiting on one connection are limited, and so are those of one address, and those on all', async t => {
  const rows: ReadonlyArray<readonly [title: string, headers: Record<string, string>, taken: number]> = [
    ['header lines', { 'x-a': 'a'.repeat(4_000) }, 5],
    ['bodies with a length', { 'content-length': '16000' }, 5],
    ['a body larger than what Node reads of it', { 'content-length': '99999999' }, 1],
    ['a body without a length', { 'transfer-encoding': 'chunked' }, 1]
  ]
  const used: Socket[] = []
  const busy = (remoteAddress?: string): Socket => {
    const socket = Object.defineProperty(Object.assign(new Socket(), { _httpMessage: {} }), 'remoteAddress', {
      value: remoteAddress
    })
    used.push(socket)
    return socket
  }
  for (const [title, headers, taken] of rows) {
    const socket = busy()
    let count = 0
    for (; !socket.destroyed; count++) new QueuedResponse(messageOn(socket, headers)).removeAllListeners()
    t.equal(count, taken + 1, title)
  }
  const closed = used.map(socket => once(socket, 'close'))
  await Promise.all(closed)
  const many = (addressOf: (count: number) => string): number => {
    for (let count = 0; ; count++) {
      const socket = busy(addressOf(count))
      for (let turn = 0; turn < 5; turn++) {
        new QueuedResponse(messageOn(socket, { 'x-a': 'a'.repeat(4_000) })).removeAllListeners()
      }
      if (socket.destroyed) return count
    }
  }
  const end = (sockets: Socket[]) =>
    Promise.all(sockets.map(socket => socket.destroyed && socket.closed ? undefined : once(socket.destroy(), 'close')))
  const bytes = 5 * (4 * (4_000 + 3 + 1) + 2_560)
  const most = Math.floor(2 * 1024 * 1024 / bytes)
  const mostOfAddress = Math.floor(512 * 1024 / bytes)
  const anyOf = (count: number): string => `192.0.2.${count % 20}`
  t.equal(many(anyOf), most, 'the connection of the one too many is ended')
  await end(used.splice(0))
  t.equal(many(anyOf), most, 'the end of a connection gives back what it held')
  await end(used.splice(0))
  t.equal(many(() => '192.0.2.1'), mostOfAddress, 'one address has a quarter')
  const other = busy('192.0.2.2')
  new QueuedResponse(messageOn(other, { 'x-a': 'a'.repeat(4_000) })).removeAllListeners()
  t.notOk(other.destroyed, 'and another one has room')
  await Promise.all(used.map(socket => once(socket.destroy(), 'close')))
})

t.test('A pipeline that waits is not read until some of it is answered, and then all of it is', async t => {
  const { app, port, entered } = await start(t)
  const client = open(t, port, SLOW + LIVE.repeat(MAX_UNANSWERED / 2))
  await until(() => entered.length === 1)
  const [connection] = app.connections.open
  await until(() => connection!.isPaused())
  // Together with the others they would be too many. They wait outside.
  client.socket.write(LIVE.repeat(MAX_UNANSWERED - 4))
  await delay(50)
  t.equal(connection!.destroyed, false)
  entered[0]!()
  await until(() => client.answers() === 1 + MAX_UNANSWERED * 1.5 - 4)
  t.equal(connection!.isPaused(), false)
})

t.test('A pipeline whose connection is ended at the turn of a request is not read any more', async t => {
  const answers: ServerResponse[] = []
  const server = createServer(
    { ServerResponse: QueuedResponse },
    inTurn(({ socket }, response) => {
      if (answers.push(response) === 2) socket.destroy()
    })
  ).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const client = open(t, (server.address() as AddressInfo).port, LIVE.repeat(1 + MAX_UNANSWERED / 2))
  const [connection] = await once(server, 'connection') as [Socket]
  await until(() => connection.isPaused())
  answers[0]!.end()
  await client.ended
  await delay(10)
  t.strictSame([answers.length, connection.isPaused()], [2, true])
})

t.test('A connection that sends requests and reads nothing of their answers is ended, whatever it sends', async t => {
  const { app, port } = await start(t, app => {
    app.server.setTimeout(1500)
  })
  const deaf = open(t, port, 'GET /big HTTP/1.1\r\nHost: x\r\n\r\n')
  deaf.socket.pause()
  const [connection] = await once(app.server, 'connection') as [Socket]
  const sending = setInterval(() => deaf.socket.write(LIVE), 200)
  t.teardown(() => clearInterval(sending))
  await once(connection, 'close')
  t.ok(deaf.bytes < BIG_BYTES, 'Node itself would take each request for a sign of life')
})

t.test('A connection whose limit a route has removed keeps its requests', async t => {
  const { app, port, entered } = await start(t, app => {
    app.server.setTimeout(0)
  })
  const patient = open(t, port, SLOW + LIVE)
  const [connection] = await once(app.server, 'connection') as [Socket]
  await until(() => entered.length === 1)
  t.equal(connection.timeout ?? 0, 0)
  await delay(100)
  entered[0]!()
  await until(() => patient.answers() === 2)
})

t.test('A connection without waiting requests is not treated as a slow client', async t => {
  const { port } = await start(t, app => {
    app.server.setTimeout(1000)
  })
  const pipelined = open(t, port, LIVE.repeat(2))
  await until(() => pipelined.answers() === 2)
  await delay(600)
  pipelined.socket.write(LIVE.repeat(2))
  await until(() => pipelined.answers() === 4)
})

t.test(
  'A connection whose requests have waited is kept for a short time, and one that sends the next request after ' +
    'its answer for long',
  async t => {
    const { app, port } = await start(t)
    const [patient, pipelined] = [open(t, port, LIVE), open(t, port, LIVE.repeat(2))]
    await until(() => patient.answers() === 1 && pipelined.answers() === 2)
    await until(() => [...app.connections.open].some(({ timeout }) => timeout === QUEUE_KEEP_ALIVE_MS))
    t.strictSame([...app.connections.open].map(({ timeout }) => timeout! <= QUEUE_KEEP_ALIVE_MS).sort(), [false, true])
    pipelined.socket.write(LIVE.repeat(2))
    await until(() => pipelined.answers() === 4)
    t.notOk(pipelined.socket.destroyed)
    pipelined.socket.write(LIVE)
    await until(() => pipelined.answers() === 5)
    await until(() => [...app.connections.open].every(({ timeout }) => timeout !== app.server.timeout))
    t.strictSame(
      [...app.connections.open].map(({ timeout }) => timeout! <= QUEUE_KEEP_ALIVE_MS).sort(),
      [false, true],
      'a single request does not change that'
    )
  }
)

t.test('An answer whose last piece is not read counts as stalled', async t => {
  const big = Buffer.alloc(16 * 1024 * 1024)
  const { app, port } = await start(t, app => {
    app.server.setTimeout(0)
    app.get('/whole', () => big)
  })
  const passTime = holdTimers(t, STALL_MS)
  const deaf = Array.from({ length: MAX_STALLED + 1 }, () => {
    const client = open(t, port, 'GET /whole HTTP/1.1\r\nHost: x\r\n\r\n')
    client.socket.pause()
    return client
  })
  await until(() => app.connections.open.size === deaf.length)
  await until(() => {
    passTime()
    return app.connections.open.size === MAX_STALLED
  })
  t.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200)
})

t.test('A body that goes on after its answer must end soon, and then its connection goes on', async t => {
  const { port } = await start(t)
  const passTime = holdTimers(t, LINGER_MS)
  const post = 'POST /api/private HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\na'
  const [dribbling, ending] = [open(t, port, post.replace(': 4', ': 400')), open(t, port, post)]
  const drip = setInterval(() => dribbling.socket.write('a'), 50)
  t.teardown(() => clearInterval(drip))
  await until(() => dribbling.text !== '' && ending.text !== '')
  ending.socket.write(`bcd${LIVE}`)
  await until(() => ending.answers() === 1)
  let isOver = false
  dribbling.ended.then(() => {
    isOver = true
  })
  await until(() => {
    passTime()
    return isOver
  })
  t.equal(dribbling.text.split('HTTP/1.1 ').length, 2, 'no second answer')
  ending.socket.write(LIVE)
  await until(() => ending.answers() === 2)
})

t.test('Private members of Node lead from a connection to its answer and to its parser', async t => {
  const { app, port, entered } = await start(t)
  const client = open(t, port, SLOW)
  await until(() => entered.length === 1)
  const [connection] = app.connections.open as unknown as Iterable<Socket & { parser: { onIncoming: unknown } }>
  t.equal(
    owedAnswer(connection!)!.constructor.name,
    QueuedResponse.name,
    'without it nothing would be bounded, and closing would end requests in flight'
  )
  t.type(
    connection!.parser.onIncoming,
    'function',
    'without it the rest of a piece with too many requests would be parsed in vain'
  )
  entered[0]!()
  await until(() => client.answers() === 1)
  t.equal(owedAnswer(connection!), undefined)
})

t.test('A connection that reads nothing of its answers is ended; one that reads a little now and then gets all of it', async t => {
  const { app, port } = await start(t, app => {
    app.server.setTimeout(1500)
  })
  const request = 'GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
  const accepted: Socket[] = []
  app.server.on('connection', socket => accepted.push(socket))
  const slow = open(t, port, request)
  slow.socket.pause()
  await until(() => accepted.length === 1)
  const deaf = open(t, port, request)
  deaf.socket.pause()
  await until(() => accepted.length === 2)

  const ended = once(accepted[1]!, 'close').then(() => true)
  while (!await Promise.race([ended, delay(20, false)])) {
    slow.socket.once('data', () => slow.socket.pause())
    slow.socket.resume()
  }
  slow.socket.resume()
  await slow.ended
  t.ok(slow.bytes > BIG_BYTES, 'the whole answer')
})

t.test(
  'A request that is not complete in time is ended soon after, even if bytes still come and the client never ' +
    'closes',
  async t => {
    const { app, port } = await start(t, app => {
      app.server.headersTimeout = 100
    })
    const silent = open(t, port, '')
    const dripping = open(t, port, 'GET / HTTP/1.1\r\nX: ')
    const drip = setInterval(() => dripping.socket.write('x'), 20)
    t.teardown(() => clearInterval(drip))
    const closed = new Promise<void>(resolve => dripping.socket.once('close', () => resolve()))
    await Promise.all([silent.ended, dripping.ended])
    t.match(silent.text, /^HTTP\/1\.1 408 /)
    t.match(dripping.text, /^HTTP\/1\.1 408 /)
    t.equal(app.connections.unreadable[408], 2)
    await closed
    t.pass('it is not kept')
  }
)

t.test(
  'A request that cannot be read, as with a token of 300 groups, is one line and one count, and holds no byte of ' +
    'it',
  async t => {
    const { log, url, app } = await startApp(t, await startIssuer(t))
    const groups = (count: number) =>
      Buffer.from(JSON.stringify(Array.from({ length: count }, (_, at) => `group-${at}-${'x'.repeat(36)}`))).toString(
        'base64url'
      )
    const ask = (token: string) =>
      sendRaw(url, ['GET /api/public HTTP/1.1', 'Host: x', 'Connection: close', `Authorization: Bearer ${token}`])
    t.equal((await ask(groups(30))).status, 200)
    t.equal((await ask(groups(300))).status, 431)
    t.equal((await sendRaw(url, ['no HTTP'])).status, 400)
    const lines = log.filter(({ msg }) => msg === 'request unreadable')
    t.strictSame(lines.map(({ level, status, code }) => [level, status, code]), [[30, 431, 'HPE_HEADER_OVERFLOW'], [
      30,
      400,
      'HPE_INVALID_METHOD'
    ]])
    t.notMatch(JSON.stringify(lines), containing(groups(300).slice(0, 20)))
    t.strictSame(app.connections.unreadable, { 400: 1, 408: 0, 431: 1 })
    t.match(
      await (await fetch(`${url}/metrics`)).text(),
      containing('holdfast_requests_unreadable_total{status="431"} 1\n')
    )
  }
)

t.test('Connections are limited, and those beyond are counted', async t => {
  const { app, port } = await start(t)
  t.equal(app.server.maxConnections, MAX_CONNECTIONS)
  app.server.maxConnections = 1
  const first = open(t, port, LIVE)
  await until(() => first.answers() === 1)
  await open(t, port, LIVE).ended
  t.equal(app.connections.dropped, 1)
  first.socket.destroy()
  await until(() => app.connections.open.size === 0)
  const metrics = open(t, port, 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  await metrics.ended
  t.strictSame(metrics.text.match(/^holdfast_connections(?:_dropped_total)? .*$/gm), [
    'holdfast_connections 1',
    'holdfast_connections_dropped_total 1'
  ])
  await until(() => app.connections.open.size === 0)
  const second = open(t, port, LIVE)
  await until(() => second.answers() === 1)
})

const SECOND = '127.0.0.2'
const addressesOf = (app: FastifyInstance): AddressInfo[] => app.addresses() as AddressInfo[]

/** The service on `localhost`, which here has two addresses; so Fastify makes it two servers. */
async function startTwice (t: Test, before?: Prepare, values: Variables = {}) {
  const { lookup } = dns
  mock.method(
    dns,
    'lookup',
    (host: string, options: { all?: boolean }, done: (error: null, addresses: object[]) => void) => {
      // From 22 on, Node resolves all addresses, even for an address.
      if (host !== 'localhost' || !options.all) return lookup(host, options as never, done as never)
      done(null, [{ address: '127.0.0.1', family: 4 }, { address: SECOND, family: 4 }])
    }
  )
  t.teardown(() => mock.restoreAll())
  const entered: Array<() => void> = []
  const { app } = await startApp(
    t,
    await startIssuer(t),
    values,
    app => {
      app.get('/slow', async () => {
        await new Promise<void>(resolve => {
          entered.push(resolve)
        })
        return 'answer'
      })
    },
    before,
    'localhost'
  )
  t.strictSame(addressesOf(app).map(({ address }) => address).sort(), ['127.0.0.1', SECOND])
  return { app, entered, port: addressesOf(app)[0]!.port }
}

t.test('Each limit holds on a second server as on the first', async t => {
  const { app, entered, port } = await startTwice(t, app => {
    app.server.maxHeadersCount = 20
  })
  const ask = async (text: string) => {
    const connection = open(t, port, text, SECOND)
    await connection.ended
    return connection.text
  }
  const first = open(t, port, LIVE)
  const second = open(t, port, LIVE, SECOND)
  await until(() => first.answers() + second.answers() === 2)
  t.equal(app.connections.open.size, 2)
  const metrics = await app.inject('/metrics')
  t.match(metrics.body, /^holdfast_connections 2$/m)

  t.equal(await ask(SLOW.repeat(MAX_UNANSWERED + 1)), '')
  for (const enter of entered) enter()
  const upgrading = open(
    t,
    port,
    'GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
    SECOND
  )
  await until(() => upgrading.answers() === 1)
  upgrading.socket.destroy()
  t.match(await ask('no HTTP\r\n\r\n'), /^HTTP\/1\.1 400 .*The request is not valid HTTP/s)
  const lines = (count: number): string =>
    `GET /api/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${'A:\r\n'.repeat(count)}\r\n`
  t.match(await ask(lines(17)), containing('This resource needs an access token.'))
  t.match(await ask(lines(18)), containing('The request has too many header lines.'))

  for (const { headersTimeout, requestTimeout, timeout, keepAliveTimeout, maxConnections } of app.connections.servers) {
    t.strictSame({ headersTimeout, requestTimeout, timeout, keepAliveTimeout, maxConnections }, {
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      timeout: 30_000,
      keepAliveTimeout: 72_000,
      maxConnections: MAX_CONNECTIONS
    })
  }
  t.equal(app.connections.servers.size, 2)
  for (const server of app.connections.servers) {
    t.equal(server.listenerCount('clientError'), 2, 'one count of what is no HTTP, and one answer to it')
  }

  await until(() => app.connections.open.size === 2)
  app.server.maxConnections = 2
  await open(t, port, LIVE, SECOND).ended
  t.equal(app.connections.dropped, 1, 'there are two, one on each')
  for (const server of app.connections.servers) server.maxConnections = 1
  await open(t, port, LIVE, SECOND).ended
  t.equal(app.connections.dropped, 2, 'also those that Node itself refuses')
})

t.test('A second server passes upgrades on if the app handles them', async t => {
  const { port } = await startTwice(t, app => {
    app.server.on('upgrade', (_request, socket) => socket.end('taken'))
  })
  const upgrading = open(t, port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n', SECOND)
  await upgrading.ended
  t.equal(upgrading.text, 'taken')
})

t.test('On a second server of a gate too, a client gets 100 only when its request has passed', async t => {
  const upstream = await startUpstream(t)
  const { port } = await startTwice(t, undefined, {
    GATE: { upstream: upstream.origin, rules: [{ path: '/any/*' }, { path: '/open/*', allow: 'anyone' }] }
  })
  const ask = (path: string, host: string) =>
    open(
      t,
      port,
      `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`,
      host
    )
  for (const host of ['127.0.0.1', SECOND]) {
    const refused = ask('/any/x', host)
    await refused.ended
    t.match(refused.text, /^HTTP\/1\.1 401 /, host)
    const passed = ask('/open/x', host)
    await until(() => passed.text !== '')
    t.equal(passed.text, 'HTTP/1.1 100 Continue\r\n\r\n')
    passed.socket.write('ok')
    await passed.ended
    t.equal(passed.answers(), 1)
  }
})

t.test('Closing answers what is in flight on a second server, accepts nothing new, and ends the rest', async t => {
  const { app, entered, port } = await startTwice(t)
  const inFlight = open(t, port, SLOW, SECOND)
  const idle = open(t, port, LIVE, SECOND)
  const half = open(t, port, 'GET /slow HTTP/1.1\r\nHo', SECOND)
  await until(() => entered.length === 1 && idle.answers() === 1 && app.connections.open.size === 3)
  let isClosed = false
  const closed = app.close().then(() => {
    isClosed = true
  })
  await Promise.all([idle.ended, half.ended])
  await t.rejects(once(connect(port, SECOND), 'connect'), { code: 'ECONNREFUSED' })
  t.notOk(isClosed)
  entered[0]!()
  await inFlight.ended
  t.match(inFlight.text, /\r\n\r\nanswer$/)
  inFlight.socket.destroy()
  await closed
  const { servers, open: { size } } = app.connections
  const socket = { server: app.server, once () {}, destroy () {} }
  channel('net.server.socket').publish({ socket })
  t.equal(app.connections.open.size, size, 'afterwards nothing is counted')
  t.equal(servers.size, 2, 'and no server of another kind was taken for one of the app')
})

t.test('A second server without a connection before the close accepts one connection at most', async t => {
  const { app, entered, port } = await startTwice(t)
  const inFlight = open(t, port, SLOW)
  await until(() => entered.length === 1)
  const closed = app.close()
  await until(() => !app.server.listening)
  const late = open(t, port, LIVE, SECOND)
  await until(() => late.answers() === 1)
  await t.rejects(once(connect(port, SECOND), 'connect'), { code: 'ECONNREFUSED' })
  entered[0]!()
  await inFlight.ended
  await closed
})
