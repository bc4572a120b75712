import { channel } from 'node:diagnostics_channel'
import dns from 'node:dns'
import { once } from 'node:events'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { mock } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { testsAtOnce } from '../helpers/at-once.ts'
import { holdTimers, stopClock } from '../helpers/clock.ts'
import { containing } from '../helpers/containing.ts'
import { LINGER_MS } from '../../server/connections.ts'
import { endSilent } from '../../server/node-members.ts'
import { startApp } from '../helpers/app.ts'
import type { Variables } from '../helpers/variables.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const waiting = testsAtOnce()

const MAX_WAITING = 32
const MAX_WAITING_BYTES = 32 * 1024 * 1024
const MAX_CONNECTIONS = 10_000

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
  const answers = () => seen.text.split('HTTP/1.1 200 ').length - 1
  return Object.assign(seen, {
    socket,
    answers,
    ended: new Promise<void>(resolve => socket.once('end', resolve).once('close', () => resolve()))
  })
}

async function until (isTrue: () => boolean) {
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

t.test('Pipelined requests are answered one after the other, and one too many ends the connection', async t => {
  const { port, entered } = await start(t)
  const patient = open(t, port, SLOW.repeat(MAX_WAITING + 1))
  for (let turn = 0; turn <= MAX_WAITING; turn++) {
    await until(() => entered.length > turn)
    t.equal(entered.length, turn + 1, 'nothing is done for a request before its turn')
    entered[turn]!()
  }
  await until(() => patient.answers() === MAX_WAITING + 1)
  patient.socket.write(LIVE.repeat(MAX_WAITING + 1))
  await until(() => patient.answers() === (MAX_WAITING + 1) * 2)

  // Beyond the one too many, a further one has been read with it.
  for (const text of [SLOW.repeat(MAX_WAITING + 3), SLOW + 'GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(MAX_WAITING + 2)]) {
    const before = entered.length
    const greedy = open(t, port, text)
    await greedy.ended
    t.equal(greedy.text, '')
    t.equal(entered.length, before + 1, 'only the first came to a handler')
  }
})

t.test('A client that pipelines a few at a time behind a slow answer is answered, with large cookies too', async t => {
  const { port, entered } = await start(t)
  const large = LIVE.replace('\r\n\r\n', `\r\nCookie: ${'c'.repeat(12_000)}\r\n\r\n`)
  const client = open(t, port, SLOW)
  for (let turn = 0; turn < 7; turn++) {
    client.socket.write(large.repeat(4))
    await delay(10)
  }
  await until(() => entered.length === 1)
  entered[0]!()
  await until(() => client.answers() === 29)
})

waiting.test('What waits on all connections is limited, and the end of a connection gives back what it held', async t => {
  const { app, port, entered } = await start(t)
  const large = LIVE.replace('\r\n\r\n', `\r\nCookie: ${'c'.repeat(15_000)}\r\n\r\n`)
  const fill = async (text = large) => {
    for (;;) {
      const [client, before] = [open(t, port, SLOW), entered.length]
      await until(() => entered.length > before)
      const connection = [...app.connections.open].at(-1)!
      client.socket.write(text.repeat(MAX_WAITING))
      const size = SLOW.length + text.length * MAX_WAITING
      await until(() => connection.destroyed || connection.bytesRead === size)
      if (connection.destroyed) return client
      held.add(client)
    }
  }
  const held = new Set<ReturnType<typeof open>>()
  t.equal((await fill()).text, '', 'the one too many is ended')
  const most = MAX_WAITING_BYTES / (MAX_WAITING * 15_000)
  t.ok(held.size > most / 2 && held.size <= most, `${held.size} of ${most}`)
  t.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200, 'who does not pipeline is served')
  const letGo = async () => {
    for (const { socket } of held) socket.destroy()
    for (const enter of entered) enter()
    held.clear()
    await until(() => app.connections.open.size < 3)
  }
  await letGo()
  await fill('POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
  t.equal(held.size, 15, 'a body of unknown length counts as 64 KB')
  await letGo()
  const next = open(t, port, large.repeat(4))
  await until(() => next.answers() === 4)
})

waiting.test('A client that has gone with requests that wait is noticed, and none of them begins', async t => {
  const { app, port, entered } = await start(t)
  const gone = open(t, port, SLOW.repeat(20))
  await until(() => entered.length === 1)
  const [connection] = app.connections.open
  gone.socket.destroy()
  // It ends with the error of the second probe.
  await new Promise(resolve => connection!.once('close', resolve))
  entered[0]!()
  await delay(10)
  t.equal(entered.length, 1)
})

waiting.test('A client that has shut its sending side gets its answers, after it was asked whether it is there', async t => {
  const { port, entered } = await start(t)
  const client = open(t, port, SLOW + LIVE)
  client.socket.end()
  await until(() => entered.length === 1 && client.text.split('HTTP/1.1 100 Continue\r\n\r\n').length === 3)
  entered[0]!()
  await client.ended
  t.equal(client.answers(), 2)
  const old = open(t, port, 'GET /slow HTTP/1.0\r\n\r\n')
  old.socket.end()
  await until(() => entered.length === 2)
  await delay(1_200)
  entered[1]!()
  await old.ended
  t.match(old.text, /^HTTP\/1\.1 200 /, 'HTTP/1.0 knows no interim answers')
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

t.test('A connection that stays holds nothing of a request whose body has come', async t => {
  const { app, port } = await start(t)
  let last: WeakRef<object> | undefined
  app.server.on('request', request => {
    last = new WeakRef(request)
  })
  const post = 'POST /api/private HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n'
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  for (const [before, after] of [['abcd', ''], ['', 'abcd']] as const) {
    const client = open(t, port, post + before)
    await until(() => client.text !== '')
    client.socket.write(after)
    for (let turn = 0; turn < 50 && last!.deref(); turn++) {
      await delay(20)
      collectGarbage()
    }
    t.notOk(last!.deref(), before)
    t.notOk(client.socket.destroyed)
  }
})

t.test('An answer that ends its connection reaches a client that sends all of its body first', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, (_request, response) => {
    response.end('early')
  })
  const GATE = { upstream: upstream.origin, rules: [{ path: '/*', methods: ['POST'], allow: 'anyone' }] }
  const [service, gate] = [{}, { GATE }].map(values => startApp(t, issuer, values))
  for (
    const [running, line, answer] of [
      [service, 'GET /health/live', /^HTTP\/1.1 200 [^]*connection: close/i],
      [service, 'POST /none', /^HTTP\/1.1 404 /],
      [gate, 'PUT /none', /^HTTP\/1.1 404 /],
      [gate, 'POST /x', /^HTTP\/1.1 200 [^]*early$/]
    ] as const
  ) {
    const socket = connect(Number(new URL((await running!).url).port)).on('error', () => {})
    const lines = [`${line} HTTP/1.1`, 'Host: x', 'Connection: close', `Content-Length: ${BIG_BYTES}`]
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    await new Promise(resolve => socket.write(Buffer.alloc(BIG_BYTES), resolve))
    t.match(await textOf(socket), answer, line)
  }
})

t.test('A connection that reads nothing of its answers is ended; one that reads a little now and then gets all of it', async t => {
  const passTime = stopClock(t)
  const { app, port } = await start(t)
  const request = 'GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
  const accepted: Socket[] = []
  app.server.on('connection', socket => accepted.push(socket))
  const slow = open(t, port, request)
  slow.socket.pause()
  await until(() => accepted.length === 1)
  const deaf = open(t, port, request)
  deaf.socket.pause()
  await until(() => accepted.length === 2)

  // The system holds some megabytes: it asks the service for more only when it has room again.
  const queued = () => (accepted[0] as Socket & { _handle: { writeQueueSize: number } | null })._handle?.writeQueueSize
  while (!accepted[1]!.destroyed) {
    for (const before = queued(); queued() === before; await delay(1)) {
      slow.socket.once('data', () => slow.socket.pause()).resume()
    }
    passTime(8_000)
    endSilent(app.connections.open)
    await delay(5)
  }
  t.notOk(accepted[0]!.destroyed)
  slow.socket.resume()
  await slow.ended
  t.ok(slow.bytes > BIG_BYTES, 'the whole answer')
})

waiting.test(
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
    for (const method of ['CONNECT', 'BREW', 'PLAY']) {
      t.hasStrict(await sendRaw(url, [`${method} /api/public HTTP/1.1`, 'Host: x']), {
        status: 404,
        body: '{"statusCode":404,"error":"Not Found","message":"There is no such resource."}'
      }, method)
    }
    const lines = log.filter(({ msg }) => msg === 'request unreadable')
    t.strictSame(lines.map(({ level, status, code }) => [level, status, code]), [
      [30, 431, 'HPE_HEADER_OVERFLOW'],
      [30, 400, 'HPE_INVALID_METHOD'],
      [30, 404, 'CONNECT'],
      [30, 404, 'HPE_INVALID_METHOD'],
      [30, 404, 'HPE_INVALID_CONSTANT']
    ])
    t.notMatch(JSON.stringify(lines), containing(groups(300).slice(0, 20)))
    t.strictSame(app.connections.unreadable, { 400: 1, 404: 3, 408: 0, 431: 1 })
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
const addressesOf = (app: FastifyInstance) => app.addresses() as AddressInfo[]

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

  t.equal(await ask(SLOW.repeat(MAX_WAITING + 2)), '')
  for (const enter of entered) enter()
  const upgrading = open(
    t,
    port,
    'GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
    SECOND
  )
  await until(() => upgrading.answers() === 1)
  upgrading.socket.destroy()
  const expecting = LIVE.replace('Host', 'Expect: more\r\nConnection: close\r\nHost')
  t.match(await ask(expecting), /^HTTP\/1\.1 200 .*cache-control: no-store/s)
  const hostless = SLOW.replace('Host: x\r\n', '')
  for (const text of ['no HTTP\r\n\r\n', hostless, LIVE + hostless]) {
    t.match(await ask(text), /HTTP\/1\.1 400 .*Cache-Control: no-store.*The request is not valid HTTP/s, text)
  }
  t.equal(app.connections.unreadable[400], 3)
  const lines = (count: number) =>
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

t.test('A CONNECT behind a request that is not answered ends the connection: its answer would be taken for the other.', async t => {
  const { url, app } = await startApp(t, await startIssuer(t))
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname).setEncoding('latin1')
  let text = ''
  socket.on('data', part => { text += part }).on('error', () => {})
  socket.write('GET /api/private HTTP/1.1\r\nHost: x\r\n\r\nCONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(socket, 'close')
  t.notMatch(text, / 404 /)
  t.equal(app.connections.unreadable[404], 0)
})
