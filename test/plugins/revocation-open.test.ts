import { once } from 'node:events'
import { connect as openSession, constants } from 'node:http2'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import websocket from '@fastify/websocket'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import holdfast from '../../packages/holdfast/index.ts'
import { createTestIssuer } from '../../packages/holdfast/testing.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startRevocation, type Site } from '../helpers/revocation-site.ts'
import { until } from '../helpers/until.ts'

const OPERATORS = { operators: { scope: 'revoke' } }
/** Of a token that expires in the test: longer than any start takes. The clock is moved by as much. */
const LIFE_SECONDS = 600
const SESSION = { sub_id: { format: 'opaque', id: 's1' } }

const ended = ({ log }: Pick<Site, 'log'>) =>
  log.filter(({ msg }) => msg === 'open answer ended').map(({ reason }) => reason)

async function startWebSocket (
  t: Test,
  values: object = {},
  onMessage: (text: string) => void = () => {}
) {
  return startRevocation(t, {
    revocation: () => OPERATORS,
    values: { IDP_CLOCK_TOLERANCE_SECONDS: 0, ...values },
    prepare: app => {
      app.register(websocket)
      app.register(async scope => {
        scope.get('/socket', { websocket: true, onRequest: app.authenticate() }, socket => {
          socket.on('message', data => onMessage(String(data))).send('hello')
        })
      })
    }
  })
}

async function openWebSocket (t: Test, { url }: Site, token: string) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`, { headers: { authorization: `Bearer ${token}` } })
  t.teardown(() => socket.terminate())
  await once(socket, 'message')
  return socket
}

t.test('A WebSocket is closed with 1008 when its token is revoked, and another one stays open', async t => {
  const site = await startWebSocket(t)
  const [socket, other] = [
    await openWebSocket(t, site, site.issuer.token({ sid: 's1' })),
    await openWebSocket(t, site, site.issuer.token({ sid: 's2' }))
  ]
  t.equal((await site.operate(SESSION)).status, 204)
  const [code] = await once(socket, 'close')
  t.equal(code, 1008)
  t.equal(other.readyState, WebSocket.OPEN)
  t.strictSame(ended(site), ['token_revoked'])
})

t.test('A WebSocket of a test without a network is closed as well', async t => {
  const issuer = await createTestIssuer()
  const app = createApp(t)
  await app.register(websocket)
  await app.register(holdfast, { ...issuer.options, revocation: {} })
  app.get('/socket', { websocket: true, onRequest: app.authenticate() }, () => {})
  await app.ready()
  const authorization = `Bearer ${await issuer.token({ sub: 'ann' })}`
  const codes: number[] = []
  const socket = await app.injectWS('/socket', { headers: { authorization } })
  socket.on('close', code => codes.push(code))
  await until('it is watched', () => app.holdfastGuard.openAnswers.state().open === 1)
  await issuer.revoke({ sub: 'ann' })
  await until('it is closed', () => codes.length > 0)
  t.strictSame(codes, [1008])
})

t.test(
  'A stream of events is cut off when its token is revoked, whether a hook or the handler calls its guard, and ' +
    'another one goes on',
  async t => {
    const site = await startRevocation(t, {
      revocation: () => OPERATORS,
      prepare: app => {
        const stream = (_request: unknown, reply: FastifyReply) => {
          reply.hijack()
          reply.raw.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
          return reply
        }
        app.get('/by-hook', { onRequest: app.authenticate() }, stream)
        app.get('/by-handler', async (request, reply) => {
          await request.authenticate()
          // An app may forget who has called.
          request.auth = null
          return stream(request, reply)
        })
      }
    })
    const open = async (path: string, sid: string) => {
      const { body } = await fetch(`${site.url}${path}`, {
        headers: { authorization: `Bearer ${site.issuer.token({ sid })}` }
      })
      const reader = body!.getReader()
      await reader.read()
      return reader
    }
    const [byHook, byHandler, other] = [
      await open('/by-hook', 's1'),
      await open('/by-handler', 's1'),
      await open('/by-handler', 's2')
    ]
    t.equal((await site.operate(SESSION)).status, 204)
    await Promise.all([byHook, byHandler].map(reader => t.rejects(reader.read(), { name: 'TypeError' })))
    t.strictSame([ended(site), site.app.holdfastGuard.openAnswers.state()], [['token_revoked', 'token_revoked'], {
      open: 1,
      ended: 2
    }])
    await other.cancel()
  }
)

t.test('An answer that passes a gate without a token ends with no token', async t => {
  const { app } = await startRevocation(t, { revocation: () => OPERATORS })
  app.holdfastGuard.endWithToken!({ auth: null } as unknown as FastifyRequest)
  await delay(600)
  t.strictSame(app.holdfastGuard.openAnswers.state(), { open: 0, ended: 0 })
})

t.test('A WebSocket client that ignores its close is not heard any more, and is destroyed soon after', async t => {
  const heard: string[] = []
  const site = await startWebSocket(t, {}, text => heard.push(text))
  const { hostname, port } = new URL(site.url)
  // Not by `ws`, which closes by itself.
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  const received: Buffer[] = []
  socket.on('data', chunk => {
    received.push(chunk)
  })
  socket.write(
    [
      'GET /socket HTTP/1.1',
      `Host: ${hostname}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      `Authorization: Bearer ${site.issuer.token({ sid: 's1' })}`,
      '',
      ''
    ].join('\r\n')
  )
  while (!Buffer.concat(received).includes('hello')) await once(socket, 'data')
  const say = (letter: string) => {
    socket.write(Buffer.from([0x81, 0x81, 0, 0, 0, 0, letter.charCodeAt(0)]))
  }
  say('a')
  while (heard.length === 0) await delay(5)
  // It goes on sending, until its connection is no more.
  const destroyed = new Promise(resolve => socket.on('error', () => {}).on('close', resolve))
  t.equal((await site.operate(SESSION)).status, 204)
  while (!Buffer.concat(received).includes(Buffer.from([0x88, 0x02, 0x03, 0xf0]))) await once(socket, 'data')
  const talk = setInterval(say, 50, 'b')
  t.teardown(() => clearInterval(talk))
  await destroyed
  t.strictSame(heard, ['a'], 'what it says after the close is for nobody')
})

t.test('A WebSocket is closed with 1008 when its token has expired', async t => {
  const site = await startWebSocket(t)
  const now = nowSeconds()
  const socket = await openWebSocket(t, site, site.issuer.token({ exp: now + LIFE_SECONDS }))
  t.equal(socket.readyState, WebSocket.OPEN, 'not before its time')
  const [code] = await atAnotherTime(LIFE_SECONDS, () => once(socket, 'close'))
  t.equal(code, 1008)
  t.strictSame(ended(site), ['token_expired'])
})

t.test('A finished answer and its connection are not touched, whatever its headers', async t => {
  const site = await startRevocation(t, { revocation: () => OPERATORS })
  const { hostname, port } = new URL(site.url)
  const socket = connect(Number(port), hostname)
  t.teardown(() => socket.destroy())
  let text = ''
  socket.setEncoding('latin1').on('data', chunk => {
    text += chunk
  })
  socket.write(
    `GET /api/private HTTP/1.1\r\nhost: ${hostname}\r\nconnection: keep-alive, upgrade\r\nupgrade: ` +
      `other\r\nauthorization: Bearer ${site.issuer.token({ sid: 's1' })}\r\n\r\n`
  )
  await once(socket, 'data')
  t.equal(text.slice(0, 15), 'HTTP/1.1 200 OK')
  // It is looked at four times a second.
  await delay(400)
  const length = text.length
  t.equal((await site.operate(SESSION)).status, 204)
  await delay(1200)
  const { openAnswers } = site.app.holdfastGuard
  t.strictSame([text.length, socket.closed, ended(site), openAnswers.state()], [length, false, [], {
    open: 0,
    ended: 0
  }])
})

t.test('A signal aborts when the token has expired, without the section too, and nothing else ends', async t => {
  const issuer = await startIssuer(t)
  let reason: unknown
  let enter: (signal: AbortSignal) => void
  const entered = new Promise<AbortSignal>(resolve => {
    enter = resolve
  })
  const { url } = await startApp(t, issuer, { IDP_CLOCK_TOLERANCE_SECONDS: 0 }, app => {
    app.get('/wait', { onRequest: app.authenticate() }, async request => {
      const { signal } = request.auth!
      enter(signal)
      if (!signal.aborted) await once(signal, 'abort')
      reason = signal.reason
      return {
        name: (reason as Error).name,
        code: (reason as { code?: string }).code,
        message: (reason as Error).message
      }
    })
  })
  const exp = nowSeconds() + LIFE_SECONDS
  const asked = fetch(`${url}/wait`, { headers: { authorization: `Bearer ${issuer.token({ exp })}` } })
  t.notOk((await entered).aborted, 'not before its time')
  const answer = await atAnotherTime(LIFE_SECONDS, () => asked)
  t.strictSame([answer.status, await answer.json()], [200, {
    name: 'TokenEndedError',
    code: 'token_expired',
    message: 'The access token has expired.'
  }])
})

t.test('A token that is valid for longer than cutoffs are kept is refused', async t => {
  const site = await startRevocation(t, { revocation: () => ({ ...OPERATORS, retentionSeconds: 600 }) })
  const { issuer, ask } = site
  const now = nowSeconds()
  t.strictSame([
    await ask(issuer.token({ iat: now, exp: now + 600 })),
    await ask(issuer.token({ iat: now, exp: now + 601 }))
  ], [200, 401])
  t.strictSame(
    [
      await ask(issuer.token({ iat: undefined, exp: now + 590 })),
      await ask(issuer.token({ iat: undefined, exp: now + 700 }))
    ],
    [401, 401],
    'nothing says how long a token without iat lives'
  )
  t.strictSame(site.reasons(), ['token_too_long', 'token_too_long', 'token_too_long'])
})

t.test('Over HTTP/2 an open answer is cut at a revocation, and one whose client has gone is no longer counted', async t => {
  const issuer = await createTestIssuer()
  const app = Fastify({ http2: true })
  await app.register(holdfast, { ...issuer.options, revocation: {} })
  app.get('/', { onRequest: app.authenticate() }, (_request, reply) => {
    reply.hijack()
    reply.raw.write('a')
  })
  const session = openSession(await app.listen({ port: 0, host: '127.0.0.1' }))
  t.teardown(() => {
    session.destroy()
    return app.close()
  })
  const { openAnswers } = app.holdfastGuard
  for (const leaves of [true, false]) {
    const token = await issuer.token({ sub: 'ann' })
    const stream = session.request({ ':path': '/', authorization: `Bearer ${token}` })
    stream.resume()
    await once(stream, 'response')
    await until('it is watched', () => openAnswers.state().open === 1)
    if (leaves) stream.close()
    else await issuer.revoke({ sub: 'ann' })
    await until('it is closed', () => stream.closed)
    await until('it is forgotten', () => openAnswers.state().open === 0)
    t.strictSame([openAnswers.state().ended, stream.rstCode], leaves ? [0, 0] : [1, constants.NGHTTP2_CANCEL])
  }
})
