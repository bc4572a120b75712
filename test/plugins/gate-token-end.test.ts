import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { until } from '../helpers/until.ts'
import { listen } from '../helpers/listen.ts'

/** Of a token that expires in the test: longer than any start takes. The clock is moved by as much. */
const LIFE_SECONDS = 600

t.test('With revocation an open path of the gate passes as before', async t => {
  const upstream = createServer((_request, response) => response.end('open'))
  const port = await listen(t, upstream)
  const { url } = await startApp(t, await startIssuer(t), {
    REVOCATION: { operators: { scope: 'revoke' } },
    GATE: {
      upstream: `http://127.0.0.1:${port}`,
      rules: [{ path: '/open', allow: 'anyone' }]
    }
  })
  t.equal(await (await fetch(`${url}/open`)).text(), 'open')
})

t.test(
  'A connection of the gate that has changed its protocol ends at both ends with its token, and one without a ' +
    'token stays',
  async t => {
    const issuer = await startIssuer(t)
    const atUpstream: Socket[] = []
    const upstream = createServer()
    const accept = (socket: Socket) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
    upstream.on('upgrade', ({ url }, socket: Socket) => {
      atUpstream.push(socket)
      socket.on('error', () => {})
      socket.resume()
      if (url !== '/guarded?late') accept(socket)
    })
    await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
    t.teardown(() => {
      for (const socket of atUpstream) socket.destroy()
      upstream.close()
    })

    const { url, log } = await startApp(t, issuer, {
      IDP_CLOCK_TOLERANCE_SECONDS: 0,
      GATE: {
        upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        rules: [{ path: '/guarded', upgrade: true }, { path: '/open', allow: 'anyone', upgrade: true }]
      }
    })
    const ask = (path: string, credentials = '') => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      t.teardown(() => socket.destroy())
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n${credentials}\r\n`
      )
      return socket
    }
    const open = async (path: string, credentials?: string) => {
      const socket = ask(path, credentials)
      const [head] = await once(socket, 'data') as [Buffer]
      t.equal(head.toString('latin1').slice(0, 12), 'HTTP/1.1 101', path)
      return socket.resume()
    }
    const free = await open('/open')
    const credentials = `Authorization: Bearer ${issuer.token({ exp: nowSeconds() + LIFE_SECONDS })}\r\n`
    const guarded = await open('/guarded', credentials)
    const late = ask('/guarded?late', credentials).resume()
    await until('the upstream may accept it', () => atUpstream.length === 3)
    await atAnotherTime(LIFE_SECONDS, () => {
      accept(atUpstream[2]!)
      return Promise.all([guarded, late].map(socket => once(socket, 'close')).concat(once(atUpstream[1]!, 'end')))
    })
    t.strictSame(log.filter(({ msg }) => msg === 'open connection ended').map(({ reason, route }) => [reason, route]), [
      ['token_expired', '/guarded'],
      ['token_expired', '/guarded']
    ])
    t.equal(free.destroyed, false)
    t.equal(atUpstream[0]!.readableEnded, false)
  }
)

t.test(
  'A stream with which the upstream answers a request for another protocol ends with its token, as any other ' +
    'does, and its lists of tools are cut',
  async t => {
    const issuer = await startIssuer(t)
    const upstream = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"id":1,"result":{"tools":[{"name":"hidden"}]}}\n\n')
    })
    const upstreamPort = await listen(t, upstream)
    const { url, log } = await startApp(t, issuer, {
      IDP_CLOCK_TOLERANCE_SECONDS: 0,
      REVOCATION: { operators: { scope: 'revoke' } },
      GATE: {
        upstream: `http://127.0.0.1:${upstreamPort}`,
        rules: [{ path: '/mcp', methods: ['GET'], upgrade: true }, {
          path: '/mcp',
          mcp: { methods: ['tools/list'], onlyRuled: true }
        }]
      }
    })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.write(
      'GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer ' +
        `${issuer.token({ exp: nowSeconds() + LIFE_SECONDS })}\r\n\r\n`
    )
    await until('the list has come', () => text.includes('"tools":[]'))
    t.match(text, /\ndata: {"id":1,"result":{"tools":\[\]}}\n/)
    await atAnotherTime(LIFE_SECONDS, () => once(socket, 'close'))
    t.strictSame(log.filter(({ msg }) => msg === 'open answer ended').map(({ reason, route }) => [reason, route]), [
      ['token_expired', '/mcp']
    ])
    await until('it is logged', () => log.some(({ msg }) => msg === 'request ended'))
    t.strictSame(log.filter(({ msg }) => msg === 'request ended').map(({ end }) => end), ['token_ended'])
  }
)

t.test('A message does not reach the upstream if its token ends before it is whole, and another one does', async t => {
  const issuer = await startIssuer(t)
  const { origin, arrived } = await startUpstream(t)
  const { url, log } = await startApp(t, issuer, {
    IDP_CLOCK_TOLERANCE_SECONDS: 0,
    REVOCATION: { operators: { scope: 'revoke' } },
    GATE: { upstream: origin, rules: [{ path: '/mcp', mcp: { methods: ['ping'] } }] }
  })
  const message = '{"id":1,"method":"ping"}'
  const begin = async (exp: number) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n' +
        `Content-Length: ${message.length}\r\nAuthorization: Bearer ${issuer.token({ exp })}\r\n\r\n`
    )
    // Then the body is read.
    t.match(String(await once(socket, 'data')), /^HTTP\/1.1 100 /)
    return socket
  }
  const [ended, other] = [await begin(nowSeconds() + LIFE_SECONDS), await begin(nowSeconds() + 2 * LIFE_SECONDS)]
  await atAnotherTime(LIFE_SECONDS, () => once(ended, 'close'))
  other.write(message)
  t.match(String(await once(other, 'data')), /^HTTP\/1.1 200 /)
  t.strictSame(arrived.map(({ body }) => body), [message])
  t.strictSame(log.filter(({ msg }) => /ended$/.test(msg)).map(({ msg, end, reason }) => [msg, end ?? reason]), [
    ['open answer ended', 'token_expired'],
    ['request ended', 'token_ended']
  ])
})
