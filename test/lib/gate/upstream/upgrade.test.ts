import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { UpstreamAnswer } from '../../../../lib/gate/upstream/answer.ts'
import { joinConnections, protocolsOf, requestUpgrade, watchClient } from '../../../../lib/gate/upstream/upgrade.ts'
import { listen } from '../../../helpers/listen.ts'

t.test('A request to an https upstream goes over TLS.', async t => {
  const server = createServer()
  const port = await listen(t, server)
  const origin = `https://127.0.0.1:${port}`
  const { answer } = requestUpgrade({
    origin,
    method: 'GET',
    target: '/',
    headers: [],
    protocols: 'websocket',
    timeoutSeconds: 5
  })
  await t.rejects(answer, { name: 'UpstreamError', statusCode: 502, cause: { code: /SSL|EPROTO|ECONNRESET/ } })
})

t.test('The upstream is asked by the method of the client.', async t => {
  const server = createServer().on('upgrade', (request, socket) => {
    socket.end(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\nMethod: ${request.method}\r\n\r\n`
    )
  })
  const port = await listen(t, server)
  const origin = `http://127.0.0.1:${port}`
  for (const method of ['GET', 'POST']) {
    const { headers } = await requestUpgrade({
      origin,
      method,
      target: '/',
      headers: ['Host', 'a'],
      protocols: 'x',
      timeoutSeconds: 5
    }).answer as UpstreamAnswer
    t.strictSame(headers['method'], [method])
  }
})

t.test('An upstream changes to no protocol that it was not asked for.', async t => {
  let [changed, more] = ['', '']
  const server = createServer().on('upgrade', (_request, socket) => {
    socket.on('error', () => {}).write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n${more}Upgrade: ${changed}\r\n\r\n`
    )
  })
  const origin = `http://127.0.0.1:${await listen(t, server)}`
  const rows: Array<[protocols: string, changed: string, isTaken: boolean]> = [
    ['websocket', 'WebSocket', true],
    ['x/1, websocket', 'x/2', true],
    ['x, websocket', 'websocket, x', true],
    ['websocket', 'h2c', false],
    ['websocket', 'websocket, h2c', false],
    ['websocket', 'TLS/1.0', false],
    ['x', 'x-like', false],
    ['SPDY/3.1', 'SPDY/3.1', true],
    ['websocket', '', false]
  ]
  // The last is behind more lines than Node keeps.
  for (const [protocols, answered, isTaken, before = ''] of [...rows, ['x', 'x', false, 'a:\r\n'.repeat(2000)] as const]) {
    changed = answered
    more = before
    const { answer } = requestUpgrade({ origin, method: 'GET', target: '/', headers: [], protocols, timeoutSeconds: 5 })
    if (!isTaken) {
      await t.rejects(answer, { name: 'UpstreamError', statusCode: 502, code: 'unusable_answer' }, answered)
      continue
    }
    const { kind, socket } = await answer as unknown as { kind: string, socket: Socket }
    t.equal(kind, 'upgraded', answered)
    socket.destroy()
  }
})

t.test('A protocol that carries further requests is not passed on.', async t => {
  const rows: Array<[given: string | undefined, asked: string | undefined]> = [
    ['websocket', 'websocket'],
    ['websocket, h2c', 'websocket'],
    ['h2c', undefined],
    ['H2C', undefined],
    ['h2', undefined],
    ['HTTP/2.0', undefined],
    ['TLS/1.0, HTTP/1.1', undefined],
    ['h2c-like, x/1', 'h2c-like, x/1'],
    [', ,', undefined],
    ['websocket, h2 c', undefined],
    ['web socket', undefined],
    ['websocket/', undefined],
    ['websocket/13/1', undefined],
    [undefined, undefined]
  ]
  for (const [given, asked] of rows) t.equal(protocolsOf(given), asked, String(given))
})

t.test('What a client sends before the upgrade is buffered up to a limit, and a disconnect is reported.', async t => {
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 })
  let gone = 0
  const stop = watchClient(stream as unknown as Socket, () => {
    gone++
  })
  const turn = () => new Promise(setImmediate)
  stream.write(Buffer.alloc(64 * 1024 - 1, 'a'))
  stream.write('b')
  await turn()
  t.equal(stream.isPaused(), false, 'as much as the limit')
  stream.write('c')
  await turn()
  t.equal(stream.isPaused(), true, 'more is left to wait')
  stream.write('later')
  await turn()
  const early = stop()
  t.equal(early.length, 64 * 1024 + 1)
  t.equal(String(early.subarray(-3)), 'abc')
  t.equal(String(stream.read()), 'later', 'the rest is still there')
  stream.end()
  stream.destroy()
  await turn()
  t.equal(gone, 0, 'a stopped watch reports nothing')

  for (const leave of ['end', 'destroy'] as const) {
    const other = new PassThrough()
    let left = 0
    watchClient(other as unknown as Socket, () => {
      left++
    })
    other[leave]()
    await once(other, 'close')
    t.ok(left > 0, leave)
  }
})

t.test('Two joined connections are silent for any time, and end together.', async t => {
  class Line extends PassThrough {
    settings: unknown[] = []
    setTimeout (ms: number) {
      this.settings.push(['timeout', ms])
    }

    setKeepAlive (isOn: boolean, ms: number) {
      this.settings.push(['keepAlive', isOn, ms])
    }
  }
  const pair = (): [Line, Line] => {
    const [a, b] = [new Line(), new Line()]
    joinConnections(a as unknown as Socket, b as unknown as Socket)
    return [a, b]
  }
  for (const line of pair()) t.strictSame(line.settings, [['timeout', 0], ['keepAlive', true, 60_000]])
  for (const [which, other] of [[0, 1], [1, 0]] as const) {
    for (const error of [undefined, new Error('reset')]) {
      const lines = pair()
      lines[which].destroy(error)
      await once(lines[other], 'close')
      t.ok(lines[other].destroyed)
    }
  }
})
