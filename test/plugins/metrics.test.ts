import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { METRICS } from '../../lib/report/metrics/catalog.ts'
import type { Variables } from '../helpers/variables.ts'
import { shareResult } from '../../plugins/metrics.ts'
import { startApp } from '../helpers/app.ts'
import { advanceClock } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'

const TEXT_MAX_AGE_MS = 1000

async function start (
  t: Test,
  settings: Variables = {},
  prepare?: Parameters<typeof startApp>[3]
) {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, settings, prepare)
  const scrape = async () => {
    advanceClock(t, TEXT_MAX_AGE_MS)
    return (await fetch(`${running.url}/metrics`)).text()
  }
  return { ...running, issuer, scrape }
}

/** The value of one series, or undefined if there is none. */
function valueOf (text: string, series: string) {
  const line = text.split('\n').find(line => line.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

t.test('Requests are counted by route pattern, method, status and scheme', async t => {
  const { url, issuer, scrape } = await start(t)
  const client = await createDpopClient()
  const bound = issuer.token({ cnf: client.cnf })
  const bearer = { authorization: `Bearer ${issuer.token({ scope: 'admin' })}` }
  await fetch(`${url}/api/admin/one`, { headers: bearer })
  await fetch(`${url}/api/admin/two?x=1`, { headers: bearer })
  await fetch(`${url}/api/private`, {
    headers: { authorization: `DPoP ${bound}`, dpop: client.proof({ token: bound, url: `${url}/api/private` }) }
  })
  await fetch(`${url}/api/private`, { headers: { authorization: `DPoP ${bound}` } })
  await fetch(`${url}/api/private`)
  await fetch(`${url}/api/private`, { method: 'HEAD', headers: bearer })
  await fetch(`${url}/api/public`, { headers: bearer })
  await fetch(`${url}/made/up`)
  await fetch(`${url}/made/up/too`, { headers: bearer })
  await fetch(`${url}/%zz`)

  const text = await scrape()
  const counts: ReadonlyArray<readonly [labels: string, count: number]> = [
    ['method="GET",route="/api/admin/*",status="200",scheme="bearer",end="answered"', 2],
    ['method="GET",route="/api/private",status="200",scheme="dpop",end="answered"', 1],
    ['method="GET",route="/api/private",status="401",scheme="dpop",end="answered"', 1],
    ['method="GET",route="/api/private",status="401",scheme="none",end="answered"', 1],
    ['method="HEAD",route="/api/private",status="200",scheme="bearer",end="answered"', 1],
    ['method="GET",route="/api/public",status="200",scheme="none",end="answered"', 1],
    ['method="GET",route="unknown",status="404",scheme="none",end="answered"', 2],
    ['method="GET",route="unknown",status="400",scheme="none",end="answered"', 1]
  ]
  for (const [labels, count] of counts) t.equal(valueOf(text, `holdfast_requests_total{${labels}}`), count, labels)
  t.equal(
    text.split('\n').filter(line => line.startsWith('holdfast_requests_total{')).length,
    counts.length,
    'and nothing else is'
  )
  t.equal(valueOf(text, 'holdfast_request_duration_seconds_count{method="GET",route="/api/private"}'), 3)
  const ofTokens = '0.00005 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.1 0.5 +Inf'
  for (const [series, bounds] of [
    ['request_duration_seconds_bucket{method="GET",route="/api/private",', '0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 +Inf'],
    ['verification_duration_seconds_bucket{kind="token",', ofTokens],
    ['verification_duration_seconds_bucket{kind="proof",', ofTokens],
    ['replay_record_duration_seconds_bucket{', '0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.2 0.5 +Inf']
  ] as const) {
    const lines = text.split('\n').filter(line => line.startsWith(`holdfast_${series}`))
    t.equal(lines.map(line => /le="([^"]*)"/.exec(line)![1]).join(' '), bounds, series)
  }
  t.equal(valueOf(text, 'holdfast_refusals_total{reason="proof_missing"}'), 1)
  t.equal(valueOf(text, 'holdfast_refusals_total{reason="credentials_missing"}'), 1)
  t.equal(valueOf(text, 'holdfast_refusals_total{reason="htu_mismatch"}'), 0)
  t.equal(valueOf(text, 'holdfast_verification_duration_seconds_count{kind="token"}'), 2)
  t.equal(valueOf(text, 'holdfast_verification_duration_seconds_count{kind="proof"}'), 1)
  t.equal(valueOf(text, 'holdfast_cache_hits_total{cache="tokens"}'), 3)
  t.equal(valueOf(text, 'holdfast_cache_misses_total{cache="tokens"}'), 2)
  t.equal(valueOf(text, 'holdfast_replay_records_total{outcome="first"}'), 1)
  t.notOk(
    valueOf(text, 'holdfast_replay_record_duration_seconds_count'),
    'a store in this process takes no time worth measuring'
  )
  t.ok(valueOf(text, 'holdfast_connections')! >= 1)
})

t.test('A flood of made-up paths, methods and tokens makes no new series', async t => {
  const { app, issuer, scrape } = await start(t)
  const seriesOf = (text: string) => text.split('\n').filter(line => line.startsWith('holdfast_')).length
  const round = async (word: string) => {
    await app.inject({ url: `/${word}`, method: 'PROPFIND' })
    await app.inject({
      url: `/api/admin/${word}`,
      headers: { authorization: `Bearer ${issuer.token({ scope: word })}` }
    })
    await app.inject({ url: '/api/private', headers: { authorization: `${word} ${word}` } })
  }
  await round('first')
  await scrape()
  const before = seriesOf(await scrape())
  for (let i = 0; i < 20; i++) await round(`word-${i}`)
  t.equal(seriesOf(await scrape()), before)
})

t.test('A route with several methods is counted under each', async t => {
  const { app, scrape } = await start(t, {}, app => {
    app.register(async app => {
      app.route({
        method: ['POST', 'PUT'],
        url: '/both',
        onResponse: (_request, _reply, done) => done(),
        handler: () => 'done'
      })
    })
  })
  await app.inject({ url: '/both', method: 'PUT' })
  const text = await scrape()
  t.equal(
    valueOf(text, 'holdfast_requests_total{method="PUT",route="/both",status="200",scheme="none",end="answered"}'),
    1
  )
  t.equal(
    valueOf(text, 'holdfast_requests_total{method="POST",route="/both",status="200",scheme="none",end="answered"}'),
    undefined
  )
})

t.test('The answer is the text format of Prometheus, and must not be stored', async t => {
  const { url } = await start(t)
  const answer = await fetch(`${url}/metrics`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const text = await answer.text()
  for (
    const name of ['nodejs_eventloop_lag_p99_seconds', 'process_resident_memory_bytes', 'process_cpu_seconds_total']
  ) t.ok(text.includes(`\n# TYPE ${name} `), name)
})

t.test('A flood of scrapes is answered with one text, which is made anew after a second', async t => {
  const { app } = await start(t)
  const scrape = async () => (await app.inject('/metrics')).body
  const PUBLIC = 'holdfast_requests_total{method="GET",route="/api/public",status="200",scheme="none",end="answered"}'

  const [first, ...others] = await Promise.all(Array.from({ length: 20 }, scrape))
  await app.inject('/api/public')
  for (const text of [...others, await scrape()]) t.equal(text, first)

  advanceClock(t, TEXT_MAX_AGE_MS)
  const later = await scrape()
  t.equal(valueOf(later, PUBLIC), 1)
  t.equal(valueOf(first!, PUBLIC), undefined)
})

t.test('Metrics that could not be made are made for the next scrape', async t => {
  const { app, log } = await start(t)
  const { shed } = app.pressure
  Object.defineProperty(app.pressure, 'shed', {
    configurable: true,
    get () {
      throw new Error('not now')
    }
  })
  t.equal((await app.inject('/metrics')).statusCode, 500)
  t.hasStrict(log.filter(({ level }) => level >= 50), [{ msg: 'request failed', err: { message: 'not now' } }])
  Object.defineProperty(app.pressure, 'shed', { value: shed })
  t.equal((await app.inject('/metrics')).statusCode, 200)
})

t.test('With the provider down metrics answer, and say so', async t => {
  const issuer = await startIssuer(t)
  issuer.outage = 503
  const { app, url } = await startApp(t, issuer)
  await app.inject({ url: '/api/private', headers: { authorization: `Bearer ${issuer.token()}` } })
  const text = await (await fetch(`${url}/metrics`)).text()
  t.equal(valueOf(text, 'holdfast_keys_status{status="empty"}'), 1)
  t.equal(valueOf(text, 'holdfast_refusals_total{reason="keys_unavailable"}'), 1)
  t.equal(
    valueOf(
      text,
      'holdfast_requests_total{method="GET",route="/api/private",status="503",scheme="bearer",end="answered"}'
    ),
    1
  )
})

t.test('With a shared replay store the time of each record is measured', async t => {
  const { url, issuer, scrape, log } = await start(t, { DPOP_REPLAY: 'redis://127.0.0.1:1' })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf })
  const answer = await fetch(`${url}/api/private`, {
    headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: `${url}/api/private` }) }
  })
  t.equal(answer.status, 503)
  t.hasStrict(log.find(({ event }) => event === 'replay_unavailable'), { level: 40, msg: 'replay unavailable' })
  const text = await scrape()
  t.equal(valueOf(text, 'holdfast_replay_record_duration_seconds_count'), 1)
  t.equal(valueOf(text, 'holdfast_replay_ready{kind="redis"}'), 0)
})

t.test('METRICS=off leaves neither the route nor a count', async t => {
  const { app, url } = await start(t, { METRICS: 'off' })
  t.equal((await fetch(`${url}/metrics`)).status, 404)
  t.equal((await fetch(`${url}/api/private`)).status, 401)
  t.equal(app.holdfastGuard.tally, undefined)
})

t.test('docs/reference/monitoring.md lists every metric of our own, with its type, and no other', async t => {
  const text = readFileSync(new URL('../../docs/reference/monitoring.md', import.meta.url), 'utf8')
  const rows = [...text.matchAll(/^\| `(holdfast_\w+)` \| (\w+) \|/gm)].map(([, name, type]) => `${name} ${type}`)
  t.strictSame(rows, METRICS.map(({ name, type }) => `${name} ${type}`))
})

t.test('A shared result is made once for all callers within its time, which begins when it is made', async t => {
  let now = 0
  let made = 0
  const finish: Array<(error?: Error) => void> = []
  const share = shareResult(
    () =>
      new Promise<number>((resolve, reject) => {
        finish.push(error => error ? reject(error) : resolve(++made))
      }),
    1000,
    () => now
  )
  const end = (error?: Error) => {
    finish.shift()!(error)
  }

  const first = [share(), share()]
  now = 5000
  first.push(share())
  t.equal(finish.length, 1, 'one at a time, however long it takes')
  end()
  t.strictSame(await Promise.all(first), [1, 1, 1])
  now = 5999
  t.equal(await share(), 1)

  now = 6000
  const second = [share(), share()]
  t.equal(finish.length, 1, 'made anew when its time is over')
  end(new Error('not now'))
  t.strictSame((await Promise.allSettled(second)).map(({ status }) => status), ['rejected', 'rejected'])

  const third = share()
  end()
  t.equal(await third, 2, 'and an error is not kept')
})
