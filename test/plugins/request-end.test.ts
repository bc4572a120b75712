import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call } from '../helpers/call.ts'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream, type Answerer } from '../helpers/upstream.ts'
import { until } from '../helpers/until.ts'

/** Of a token that expires in the test: longer than any start takes. The clock is moved by as much. */
const LIFE_SECONDS = 600

/** The lines about ended requests, without what differs from run to run. */
const endsOf = ({ log }: RunningApp) =>
  log.filter(({ end, route }) => end !== undefined && route !== '/metrics')
    .map(({ method, route, status, end, closedBy, msg }) => ({
      method,
      route,
      status,
      end,
      ...closedBy !== undefined && { closedBy },
      msg
    }))

async function countsOf ({ url }: RunningApp) {
  const text = await (await fetch(`${url}/metrics`)).text()
  return text.split('\n').filter(line =>
    line.startsWith('holdfast_requests_total{') && !line.includes('route="/metrics"')
  )
}

/** Each request has one line and one count: this one, for the last. */
async function expectEnd (t: Test, site: RunningApp, before: number, expected: object) {
  await until('the request has ended', () => endsOf(site).length > before)
  t.strictSame(endsOf(site).slice(before), [expected])
}

function openClient (t: Test, { url }: RunningApp, lines: readonly string[]) {
  const client = connect(Number(new URL(url).port), '127.0.0.1')
  client.on('error', () => {})
  client.write([...lines, '', ''].join('\r\n'))
  t.teardown(() => client.destroy())
  return client
}

/** An upstream that does what its path says. */
const answer: Answerer = (request, response) => {
  const path = request.url!
  if (path === '/api/ok') return response.end('ok')
  if (path === '/api/reset') return request.socket.destroy()
  if (path === '/api/silent' || path === '/api/waiting') return
  response.writeHead(200, { 'content-length': '1000' }).write('part')
  if (path === '/api/short') setImmediate(() => request.socket.end())
  if (path === '/api/broken') setImmediate(() => request.socket.resetAndDestroy())
}

t.test('At a gate each request ends in one line and one count, with how it ended', async t => {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const site = await startApp(t, issuer, {
    GATE: { upstream: upstream.origin, rules: [{ path: '/api/silent', timeoutSeconds: 1 }, { path: '/api/*' }] },
    LOG_LEVEL: 'debug'
  })
  const of = (end: string, status: number) => ({
    method: 'GET',
    route: status === 504 ? '/api/silent' : '/api/*',
    status,
    end,
    msg: end === 'answered' ? 'request answered' : 'request ended'
  })
  const rows = [
    ['/api/ok', 'answered', 200],
    ['/api/reset', 'upstream_failed', 502],
    ['/api/silent', 'upstream_failed', 504],
    ['/api/short', 'upstream_failed', 200],
    ['/api/broken', 'upstream_failed', 200]
  ] as const
  for (const [path, end, status] of rows) {
    const before = endsOf(site).length
    const client = openClient(t, site, [
      `GET ${path} HTTP/1.1`,
      `Host: ${new URL(site.url).host}`,
      'Connection: close',
      ...bearerLines(issuer.token())
    ])
    client.resume()
    await once(client, 'close')
    await expectEnd(t, site, before, of(end, status))
  }
  for (const [path, status] of [['/api/waiting', 499], ['/api/part', 200]] as const) {
    const before = endsOf(site).length
    const arrived = once(upstream.server, 'request') as Promise<[IncomingMessage]>
    const client = openClient(t, site, [
      `GET ${path} HTTP/1.1`,
      `Host: ${new URL(site.url).host}`,
      ...bearerLines(issuer.token())
    ])
    await arrived
    if (status === 200) await once(client, 'data')
    client.destroy()
    await expectEnd(t, site, before, of('client_gone', status))
  }
  const before = endsOf(site).length
  await call(site, { path: '/%zz' })
  await call(site, { path: '/none/a%20b;c@d?e=f' })
  await until('they have ended', () => endsOf(site).length === before + 2)
  t.strictSame(site.reasons().slice(-2), ['target_path', 'no_rule'], 'each refusal says its reason')
  const line = site.log.findLast(({ msg }) => msg === 'request refused')!
  t.notOk('route' in line, 'and names none')
  t.strictSame([line['method'], line['path']], ['GET', '/none/a%20b%3Bc%40d'], 'but what has none')
  t.ok((await (await fetch(`${site.url}/metrics`)).text()).includes('holdfast_refusals_total{reason="no_rule"} 1'))
  t.strictSame(
    endsOf(site).slice(before),
    [400, 404].map(status => ({ method: 'GET', route: undefined, status, end: 'answered', msg: 'request answered' }))
  )
  t.strictSame(
    (await countsOf(site)).map(line =>
      /route="(.*)",status="(.*)",scheme="(.*)",end="(.*)"} (.*)$/.exec(line)!.slice(1).join(' ')
    ).sort(),
    [
      '/api/* 200 bearer answered 1',
      '/api/* 200 bearer client_gone 1',
      '/api/* 200 bearer upstream_failed 2',
      '/api/* 499 bearer client_gone 1',
      '/api/* 502 bearer upstream_failed 1',
      '/api/silent 504 bearer upstream_failed 1',
      'unknown 400 none answered 1',
      'unknown 404 none answered 1'
    ]
  )
})

t.test(
  'An upgraded connection ends in one line with who closed it and how much it carried, and is counted when it ' +
    'ends',
  async t => {
    const issuer = await startIssuer(t)
    const sockets: Socket[] = []
    const server = createServer().on('upgrade', (_request, socket: Socket) => {
      sockets.push(socket)
      socket.on('error', () => {}).once('end', () => socket.end()).resume()
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello')
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const site = await startApp(t, issuer, {
      GATE: {
        upstream: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        rules: [{ path: '/socket', upgrade: true }]
      },
      IDP_CLOCK_TOLERANCE_SECONDS: '0'
    })
    const open = async (token: string) => {
      const client = openClient(t, site, [
        'GET /socket HTTP/1.1',
        `Host: ${new URL(site.url).host}`,
        'Connection: Upgrade',
        'Upgrade: echo',
        ...bearerLines(token)
      ])
      let seen = ''
      client.on('data', chunk => {
        seen += chunk
      })
      await until('it is open', () => seen.endsWith('hello'))
      return client
    }
    const upgraded = { method: 'GET', route: '/socket', status: 101, end: 'upgraded', msg: 'request ended' }
    const ways: ReadonlyArray<readonly [closedBy: string, end: (client: Socket) => void]> = [
      ['client', client => {
        client.write('bye', () => client.destroy())
      }],
      ['upstream', () => sockets.at(-1)!.end()],
      ['token_expired', () => {}],
      ['shutdown', client => {
        site.app.closing = { ...site.app.closing, hasBegun: true }
        client.destroy()
      }]
    ]
    for (const [closedBy, end] of ways) {
      const client = await open(
        issuer.token(closedBy === 'token_expired' ? { exp: nowSeconds() + LIFE_SECONDS } : {})
      )
      const before = endsOf(site).length
      if (before === 0) {
        t.notOk(
          (await countsOf(site)).some(line => line.includes('status="101"')),
          'it is not counted while it is open'
        )
      }
      end(client)
      await atAnotherTime(
        closedBy === 'token_expired' ? LIFE_SECONDS : 0,
        () => expectEnd(t, site, before, { ...upgraded, closedBy })
      )
    }
    const line = site.log.find(({ closedBy }) => closedBy === 'client')!
    t.ok(Number(line['received']) > 3 && Number(line['sent']) > 5 && Number(line['ms']) > 0)
    await until(
      'all are counted',
      async () =>
        (await countsOf(site)).some(line =>
          line.endsWith('route="/socket",status="101",scheme="bearer",end="upgraded"} 4')
        )
    )
  }
)

t.test('A client that goes while its request is judged leaves one line and one count', async t => {
  const issuer = await startIssuer(t)
  const site = await startApp(t, issuer, {}, app => {
    app.get('/slow', () => new Promise(() => {}))
    app.get('/stream', (_request, reply) => {
      reply.raw.writeHead(200).write('x')
    })
  })
  for (const [path, status] of [['/slow', 499], ['/stream', 200]] as const) {
    const before = endsOf(site).length
    const client = openClient(t, site, [`GET ${path} HTTP/1.1`, `Host: ${new URL(site.url).host}`])
    if (status === 200) await once(client, 'data')
    else await until('it has arrived', () => [...site.app.connections.open].some(socket => socket.bytesRead > 0))
    client.destroy()
    await expectEnd(t, site, before, { method: 'GET', route: path, status, end: 'client_gone', msg: 'request ended' })
  }
})
