import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Dispatcher } from 'undici'
import { Exchange, UpstreamError } from '../../../lib/gate/exchange.ts'
import { headersForClient, headersForUpstream } from '../../../lib/gate/headers.ts'
import { verifyOneReading } from '../../../lib/gate/path.ts'
import { askForUpgrade, protocolsOf } from '../../../lib/gate/upgrade.ts'
import type { Refusal } from '../../../lib/refusal.ts'

const URL_OF_CLIENT = { scheme: 'https', host: 'api.example:8443', path: '/v1/a', href: 'https://api.example:8443/v1/a', ownPath: '/a' } as const

t.test('The upstream learns where a request came from.', t => {
  const forwarded = (addresses: string[], url: typeof URL_OF_CLIENT | object = URL_OF_CLIENT): string[] =>
    headersForUpstream({ rawHeaders: [] }, { origin: { url: { ...URL_OF_CLIENT, ...url }, addresses }, told: {}, passCredentials: false })
  t.same(forwarded(['192.0.2.1', '10.0.0.1']), [
    'x-forwarded-for', '192.0.2.1, 10.0.0.1', 'x-forwarded-host', 'api.example:8443', 'x-forwarded-proto', 'https', 'x-forwarded-prefix', '/v1',
    'forwarded', 'for=192.0.2.1;host="api.example:8443";proto=https'
  ])
  t.match(forwarded(['::1']).at(-1), /^for="\[::1\]";/)
  t.match(forwarded(['"; for=evil']).at(-1), /^for=unknown;/, 'what is no address')
  t.match(forwarded([]).at(-1), /^for=unknown;/, 'a unix socket')
  t.notOk(forwarded(['::1'], { path: '/a' }).includes('x-forwarded-prefix'))
  t.end()
})

t.test('What holds for one connection only stays there, and all else is passed on as it came.', t => {
  const passed = (...rawHeaders: string[]): string[] =>
    headersForUpstream({ rawHeaders }, { origin: { url: URL_OF_CLIENT, addresses: [] }, told: {}, passCredentials: false }).slice(0, -10)
  const kept = ['Host', 'a', 'X-One', 'X-Two', 'X-Two', 'x-one', 'Content-Length', '1', 'TE2', 'b']
  t.same(passed(...kept), kept, 'a header that is named by another one than Connection')
  t.same(passed('Connection', 'close, X-One ,x-two, host, content-length', ...kept), ['Host', 'a', 'Content-Length', '1', 'TE2', 'b'])
  for (const name of ['Connection', 'Keep-Alive', 'Proxy-Connection', 'Proxy-Authenticate', 'Proxy-Authorization', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade', 'HTTP2-Settings', 'Expect']) {
    t.same(passed(name, 'x', 'X-One', 'a'), ['X-One', 'a'], name)
  }

  const answered = (...rawHeaders: string[]) => [...headersForClient(rawHeaders)]
  t.same(answered('Set-Cookie', 'a', 'X-One', 'x-two', 'set-cookie', 'b', 'X-Two', 'c'), [['set-cookie', ['a', 'b']], ['x-one', ['x-two']], ['x-two', ['c']]])
  t.same(answered('Connection', 'x-one, content-length', 'X-One', 'a', 'Content-Length', '1', 'Keep-Alive', 'x'), [['content-length', ['1']]])
  t.end()
})

t.test('An https upstream is asked over TLS.', async t => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  t.teardown(() => { server.close() })
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { answer } = askForUpgrade({ origin, method: 'GET', target: '/', headers: [], protocols: 'websocket', timeoutSeconds: 5 })
  await t.rejects(answer, { name: 'UpstreamError', statusCode: 502, cause: { code: /SSL|EPROTO|ECONNRESET/ } })
})

t.test('A request that would be sent a second time fails.', async t => {
  const aborted: unknown[] = []
  const controller = () => ({ abort (reason: unknown) { aborted.push(reason) } }) as unknown as Dispatcher.DispatchController
  const sent = new Exchange(() => {})
  sent.onRequestStart(controller())
  t.same(aborted, [])
  sent.onRequestStart(controller())
  await t.rejects(sent.answer, { name: 'UpstreamError', statusCode: 502 })
  t.equal(aborted.length, 2, 'neither goes on')

  const ended = new Exchange(() => {})
  ended.end(new UpstreamError(504, 'late'))
  await t.rejects(ended.answer, { name: 'UpstreamError', statusCode: 504 })
  ended.onRequestStart(controller())
  t.match(aborted[2], { statusCode: 504 }, 'one that has ended does not begin')

  const unread = new Exchange(() => {})
  const upstream = Object.assign(controller(), { rawHeaders: [], resume () {}, pause () {} })
  unread.onRequestStart(upstream)
  unread.onResponseStart(upstream, 200)
  const { body } = await unread.answer
  body.destroy()
  await new Promise(resolve => body.once('close', resolve))
  t.match(aborted[3], { statusCode: 499 }, 'the upstream need not go on if nobody reads')
})

t.test('No protocol is asked for that carries further requests.', t => {
  const rows: Array<[given: string | undefined, asked: string | undefined]> = [
    ['websocket', 'websocket'], ['websocket, h2c', 'websocket'], ['h2c', undefined], ['H2C', undefined], ['h2', undefined], ['HTTP/2.0', undefined],
    ['TLS/1.0, HTTP/1.1', undefined], ['h2c-like, x/1', 'h2c-like, x/1'], [', ,', undefined], [undefined, undefined]
  ]
  for (const [given, asked] of rows) t.equal(protocolsOf(given), asked, String(given))
  t.end()
})

t.test('A path of two readings is refused with its cause, and its nearest neighbour is not.', t => {
  const causeOf = (path: string): unknown => {
    try {
      verifyOneReading(path)
      return 'accepted'
    } catch (error) {
      return (error as Refusal).detail?.cause
    }
  }
  const rows: ReadonlyArray<{ path: string, cause: string, neighbour: string }> = [
    { path: '//a', cause: 'double_slash', neighbour: '/a/' },
    { path: '/a/..;x/b', cause: 'dot_segment', neighbour: '/a/..x;/b' },
    { path: '/a/.;', cause: 'dot_segment', neighbour: '/a/...;' },
    { path: '/a/.%3Bx', cause: 'dot_segment', neighbour: '/a/.a%3Bx' },
    { path: '/a%2Fb', cause: 'slash_escape', neighbour: '/a%252Fb' },
    { path: '/a%5Cb', cause: 'backslash', neighbour: '/a%5Bb' },
    { path: '/a%00', cause: 'control_character', neighbour: '/a%20' },
    { path: '/a%1F', cause: 'control_character', neighbour: '/a%21' },
    { path: '/a%7F', cause: 'control_character', neighbour: '/a%7E' },
    { path: '/%C3', cause: 'encoding', neighbour: '/%C3%BC' }
  ]
  for (const { path, cause, neighbour } of rows) t.same([causeOf(path), causeOf(neighbour)], [cause, 'accepted'], path)
  t.end()
})
