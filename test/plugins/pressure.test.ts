import { readFileSync } from 'node:fs'
import { maxHeaderSize } from 'node:http'
import { mock } from 'node:test'
import t from 'tap'
import { serverOptions } from '../../holdfast.ts'
import { startApp } from '../helpers/app.ts'
import { advanceClock } from '../helpers/clock.ts'
import { startIssuer } from '../helpers/issuer.ts'

const MAX_EVENT_LOOP_DELAY_MS = 500
const RETRY_AFTER_SECONDS = 3
const SAMPLE_MS = 3000
const MAX_WAITING = 32
const TEXT_MAX_AGE_MS = 1000

/** The service, and a hand on what it takes for the delay of its event loop. */
async function start (t: Parameters<typeof startApp>[0], settings = {}) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { TRUST_PROXY: '192.0.2.1', ...settings })
  const measure = { eventLoopDelay: 0, rssBytes: 0, heapUsed: 0, eventLoopUtilized: 1 }
  running.app.memoryUsage = () => measure
  return { ...running, issuer, measure }
}

t.test('Under overload every route of the API is turned away before its guard, and comes back after it', async t => {
  const { app, measure, log } = await start(t)
  measure.eventLoopDelay = MAX_EVENT_LOOP_DELAY_MS
  t.equal((await app.inject('/api/public')).statusCode, 200, 'at the limit it still answers')

  measure.eventLoopDelay = MAX_EVENT_LOOP_DELAY_MS + 1
  for (const url of ['/api/public', '/api/private', '/api/private-scoped']) {
    const answer = await app.inject(url)
    t.equal(answer.statusCode, 503, url)
    t.equal(answer.headers['retry-after'], String(RETRY_AFTER_SECONDS), url)
    t.equal(answer.headers['cache-control'], 'no-store', url)
    t.equal(answer.headers['www-authenticate'], undefined, 'a 503 carries no challenge')
    t.strictSame(answer.json(), {
      statusCode: 503,
      error: 'Service Unavailable',
      message: 'The service is overloaded.'
    })
  }
  t.equal(app.pressure.shed, 3)

  measure.eventLoopDelay = 0
  t.equal((await app.inject('/api/public')).statusCode, 200)
  t.hasStrict(log.filter(({ level }) => level === 40), [{
    event: 'overload_began',
    eventLoopDelayMs: 501,
    msg: 'overload began'
  }, { event: 'overload_ended', shed: 3, msg: 'overload ended' }])
  t.equal(log.filter(({ level }) => level >= 40).length, 2, 'two lines in all, not one for each request')
})

t.test('The delay is measured over the whole sample', async t => {
  const later = mock.method(globalThis, 'setTimeout')
  t.teardown(() => mock.restoreAll())
  const { app } = await startApp(t, await startIssuer(t))
  t.ok(later.mock.calls.some(({ arguments: [, ms] }) => ms === SAMPLE_MS))
  t.equal(app.hasDecorator('memoryUsage'), true)
})

t.test('The endpoints for operators and balancers answer under overload', async t => {
  const { app, measure } = await start(t)
  measure.eventLoopDelay = Infinity
  for (const url of ['/metrics', '/docs', '/docs/json', '/health/live', '/.well-known/oauth-protected-resource']) {
    t.equal((await app.inject(url)).statusCode, 200, url)
  }
  t.hasStrict((await app.inject('/health/ready')).json().checks, { process: 'ok' })
  t.match((await app.inject('/metrics')).body, /^holdfast_requests_shed_total 0$/m)
  await app.inject('/api/public')
  advanceClock(t, TEXT_MAX_AGE_MS)
  t.match((await app.inject('/metrics')).body, /^holdfast_requests_shed_total 1$/m)
})

t.test('The body of a request that is turned away has the configured form', async t => {
  const { app, measure } = await start(t, { ERROR_BODY: 'detailed' })
  measure.eventLoopDelay = Infinity
  t.strictSame((await app.inject('/api/private')).json(), { detail: 'The service is overloaded.' })
})

t.test('docs/reference/monitoring.md states the limits that hold', async t => {
  const { app } = await start(t)
  const text = readFileSync(new URL('../../docs/reference/monitoring.md', import.meta.url), 'utf8')
  const { bodyLimit, requestTimeout, keepAliveTimeout, connectionTimeout, http } = serverOptions(app.settings)
  const rows: ReadonlyArray<readonly [limit: string, value: string]> = [
    ['all headers of a request', `${maxHeaderSize / 1024} KiB`],
    ['body', `${bodyLimit! / 1024} KiB`],
    ['time to send the headers', `${http.headersTimeout! / 1000} s`],
    ['time to send the whole request', `${requestTimeout! / 1000} s`],
    ['idle connection', `${keepAliveTimeout! / 1000} s`],
    ['time without a byte taken of an answer', `${connectionTimeout! / 1000} s`],
    ['unanswered requests on one connection', `${MAX_WAITING + 1}`],
    ['open connections', '10 000'],
    ['delay of the event loop', `${MAX_EVENT_LOOP_DELAY_MS} ms on average over ${SAMPLE_MS / 1000} s`]
  ]
  for (const [limit, value] of rows) t.ok(text.includes(`\n| ${limit} | ${value}`), limit)
  t.ok(text.includes(`\`Retry-After: ${RETRY_AFTER_SECONDS}\``))
})
