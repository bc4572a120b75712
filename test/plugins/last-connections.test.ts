import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { mock } from 'node:test'
import Fastify from 'fastify'
import t from 'tap'
import closing from '../../plugins/closing.ts'
import connections from '../../plugins/connections.ts'
import { closeGraceDelay } from '../../start-options.ts'
import { startApp } from '../helpers/app.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'

const DRAIN_MS = 500
const QUIET_MS = 500
const HEAD = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n'

/** The service with a route that answers when it may, and connections to it. The clock is stopped from here on. */
async function start (t: Parameters<typeof startApp>[0], values: object = {}) {
  const entered: Array<() => void> = []
  const { app, url, log } = await startApp(t, await startIssuer(t), { LOG_LEVEL: 'info', ...values }, app => {
    app.get('/slow', async () => {
      await new Promise<void>(resolve => {
        entered.push(resolve)
      })
      return 'answer'
    })
  })
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())

  const port = Number(new URL(url).port)

  async function open (text: string) {
    const accepted = once(app.server, 'connection')
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    const seen = { text: '', open: true }
    const ended = new Promise<void>(resolve =>
      socket.on('close', () => {
        seen.open = false
        resolve()
      })
    )
    socket.on('data', chunk => {
      seen.text += chunk
    }).on('error', () => {})
    t.teardown(() => {
      socket.destroy()
    })
    await accepted
    return Object.assign(seen, { socket, ended })
  }

  async function until (isTrue: () => boolean) {
    while (!isTrue()) await turn()
  }

  /** What waits goes on between two steps of the clock. */
  async function pass (ms: number) {
    mock.timers.tick(ms)
    for (let turns = 20; turns > 0; turns--) await turn()
  }

  return { app, port, open, until, pass, entered, log }
}

t.test(
  'Closing ends connections that owe no answer, answers what is in flight, and finally ends requests that never ' +
    'became complete',
  async t => {
    const { app, port, open, until, pass, entered, log } = await start(t)
    const silent = await open('')
    const half = await open('GET /slow HTTP/1.1\r\nHo')
    const next = await open('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /slow')
    const idle = await open('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n')
    const bodiless = await open(
      'POST /slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n'
    )
    const inFlight = await open(HEAD)
    await until(() => entered.length === 1 && next.text !== '' && idle.text !== '')

    let isClosed = false
    const closed = app.close().then(() => {
      isClosed = true
    })
    await pass(0)
    await pass(DRAIN_MS - 1)
    const late = await open('GET /slow HTTP/1.1\r\n')
    const drained = [silent, half, next, idle, bodiless, inFlight, late]
    t.ok(drained.every(connection => connection.open), 'while it drains each connection is kept')

    await pass(1)
    await t.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
    await pass(QUIET_MS - 1)
    t.ok(
      [silent, half, next, idle, bodiless, inFlight, late].every(connection => connection.open),
      'a request that is on its way may arrive'
    )
    late.socket.write('Host: x\r\n\r\n')
    await until(() => entered.length === 2)

    await pass(1)
    await Promise.all([silent.ended, half.ended, next.ended, idle.ended])
    t.ok([bodiless, inFlight, late].every(connection => connection.open), 'what is to be answered is')
    for (const enter of entered) enter()
    await Promise.all([inFlight.ended, late.ended])
    t.match(inFlight.text, /^HTTP\/1\.1 200 .*\r\n\r\nanswer$/s)
    t.match(late.text, /^HTTP\/1\.1 200 .*\r\nconnection: close\r\n.*\r\n\r\nanswer$/si)

    t.ok(bodiless.open && !isClosed, 'the body may still come')
    await pass(closeGraceDelay - DRAIN_MS - QUIET_MS - 1000)
    await bodiless.ended
    await closed
    t.pass('closed a second before the process would be ended with an error')
    t.hasStrict(log.at(-2), { method: 'POST', end: 'shutdown', status: 499 })
    t.hasStrict(log.at(-1), { event: 'closed', cut: 1 })
  }
)

t.test('A connection that begins another request after its last answer is ended too', async t => {
  const { app, open, until, pass, entered } = await start(t)
  const connection = await open(HEAD)
  await until(() => entered.length === 1)
  const closed = app.close()
  await pass(0)
  await pass(DRAIN_MS)
  await pass(QUIET_MS)
  // Kept after its answer, as it would be with more time between the two.
  app.server.keepAliveTimeout = 60_000
  connection.socket.write('GET /sl')
  entered[0]!()
  await until(() => connection.text.endsWith('answer'))
  t.ok(connection.open)
  await pass(QUIET_MS)
  await connection.ended
  await closed
})

t.test(
  'The limits of closing keep no process alive, and end with it; an app that never listened has nothing to wait ' +
    'for',
  async t => {
    const { app } = await startApp(t, await startIssuer(t))
    const [later, again] = [mock.method(globalThis, 'setTimeout'), mock.method(globalThis, 'setInterval')]
    const [ended, stopped] = [mock.method(globalThis, 'clearTimeout'), mock.method(globalThis, 'clearInterval')]
    t.teardown(() => mock.restoreAll())
    await app.close()
    const quiet = again.mock.calls.find(({ arguments: [, ms] }) => ms === QUIET_MS)!.result
    const last = later.mock.calls.find(({ arguments: [, ms] }) => ms === closeGraceDelay - 1000 - DRAIN_MS)!.result
    t.strictSame([quiet!.hasRef(), last!.hasRef()], [false, false])
    t.ok(stopped.mock.calls.some(({ arguments: [timer] }) => timer === quiet))
    t.ok(ended.mock.calls.some(({ arguments: [timer] }) => timer === last))

    const idle = Fastify()
    await idle.register(connections).register(closing)
    await idle.ready()
    const before = later.mock.callCount()
    await idle.close()
    t.notOk(later.mock.calls.slice(before).some(({ arguments: [, ms] }) => ms === DRAIN_MS))
  }
)

t.test('What is open at a gate when the process ends is no failure of its upstream', async t => {
  const upstream = await startUpstream(t, (request, response) => {
    if (request.url === '/events') response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: a\n\n')
  })
  const rules = [{ path: '/*', allow: 'anyone' }]
  const { app, open, until, pass, log } = await start(t, { GATE: { upstream: upstream.origin, rules } })
  const stream = await open('GET /events HTTP/1.1\r\nHost: x\r\n\r\n')
  const waiting = await open('GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => stream.text.includes('data: a') && upstream.connections === 2)
  const closed = app.close()
  await pass(0)
  await pass(DRAIN_MS)
  await pass(closeGraceDelay - DRAIN_MS - 1000)
  await Promise.all([stream.ended, waiting.ended, closed])
  t.strictSame(
    log.filter(({ end }) => end).map(({ end, status }) => [end, status]).sort(),
    [['shutdown', 200], ['shutdown', 499]]
  )
  t.notOk(log.some(({ msg }) => msg === 'request failed'))
  t.hasStrict(log.at(-1), { event: 'closed', cut: 2 })
})
