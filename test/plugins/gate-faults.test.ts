import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import type { Answerer } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const RULES = [{ path: '/open/*', allow: 'anyone' }, { path: '/any/*' }, { path: '/socket', upgrade: true }]

async function startSite (t: Test, gate: object, answer?: Answerer, values: object = {}) {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const running = await startApp(t, issuer, { GATE: { upstream: upstream.origin, rules: RULES, ...gate }, ...values })
  const { host } = new URL(running.url)
  const head = (target: string, lines: readonly string[] = [], method = 'GET'): string[] => [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...lines]
  return { ...running, issuer, upstream, head, send: (target: string, lines: readonly string[] = [], method = 'GET') => sendRaw(running.url, head(target, ['Connection: close', ...lines], method)) }
}

function open (t: Test, url: string, lines: readonly string[]): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`))
  t.teardown(() => { socket.destroy() })
  return socket
}

t.test('An upstream that is not there is 502, and one that is silent is 504.', async t => {
  const { send, upstream, log } = await startSite(t, { timeoutSeconds: 1 }, (request, response) => {
    if (request.url === '/open/half') response.writeHead(200, { 'content-length': '10' }).write('half')
  })
  const silent = await send('/open/silent')
  t.equal(silent.status, 504)
  t.same(JSON.parse(silent.body), { statusCode: 504, error: 'Gateway Timeout', message: 'Gateway Timeout' })
  t.match(await send('/open/half'), { status: 200, body: /^half$/ }, 'a pause that is too long breaks the answer off')
  upstream.server.closeAllConnections()
  await new Promise(resolve => upstream.server.close(resolve))
  t.equal((await send('/open/gone')).status, 502)
  t.match(log.filter(({ msg }) => msg === 'request failed'), [{ err: { message: 'The upstream is too slow' } }, { err: { message: /The upstream failed/ } }])
})

t.test('A body may be as large as the limit, and no larger.', async t => {
  const { send, upstream } = await startSite(t, { bodyLimit: 4 })
  const chunked = ['Transfer-Encoding: chunked', '']
  t.equal((await send('/open/x', ['Content-Length: 4', '', 'abcd'], 'POST')).status, 200)
  t.equal((await send('/open/x', ['Content-Length: 5', '', 'abcde'], 'POST')).status, 413)
  t.equal((await send('/open/x', [...chunked, '4', 'abcd', '0'], 'POST')).status, 200)
  const refused = await send('/open/x', [...chunked, '5', 'abcde', '0'], 'POST')
  t.equal(refused.status, 413)
  t.same(JSON.parse(refused.body), { statusCode: 413, error: 'Payload Too Large', message: 'The body of the request is too large.' })
  t.same(upstream.arrived.map(({ body }) => body), ['abcd', 'abcd'])
})

t.test('A large body streams both ways.', async t => {
  const { url } = await startSite(t, {}, (request, response) => { request.pipe(response) })
  const size = 20 * 1024 * 1024
  const request = httpRequest(`${url}/open/echo`, { method: 'POST' })
  request.end(Buffer.alloc(size, 'x'))
  const [response] = await once(request, 'response')
  let got = 0
  for await (const chunk of response) got += chunk.length
  t.equal(got, size)
})

t.test('A slow body does not count as a silent upstream.', async t => {
  const { url, upstream, head } = await startSite(t, { timeoutSeconds: 1 })
  const socket = open(t, url, head('/open/x', ['Connection: close', 'Content-Length: 3'], 'POST'))
  for (const char of 'abc') {
    await new Promise(resolve => setTimeout(resolve, 600))
    socket.write(char)
  }
  const [chunk] = await once(socket, 'data')
  t.match(String(chunk), /^HTTP\/1.1 200 /)
  t.equal(upstream.arrived[0]!.body, 'abc')
})

t.test('A client that hangs up ends the request to the upstream, before the answer and in the middle of it.', async t => {
  const gone: string[] = []
  let begun: () => void
  const { url, head, upstream } = await startSite(t, {}, (request, response) => {
    response.once('close', () => { gone.push(request.url!); upstream.server.emit('gone') })
    if (request.url === '/open/stream') response.write('data: 1\n\n')
    begun()
  })
  for (const [target, lines] of [['/open/wait', []], ['/open/stream', []], ['/open/body', ['Content-Length: 9', '', 'a']]] as const) {
    const beginning = new Promise<void>(resolve => { begun = resolve })
    const socket = open(t, url, head(target, lines, lines.length > 0 ? 'POST' : 'GET'))
    await beginning
    if (target === '/open/stream') t.match(String((await once(socket, 'data'))[0]), /data: 1/, 'events arrive as they are sent')
    const ended = once(upstream.server, 'gone')
    socket.destroy()
    await ended
  }
  t.same(gone, ['/open/wait', '/open/stream', '/open/body'])
})

t.test('A request is never sent again on another connection.', async t => {
  let seen = 0
  const { send } = await startSite(t, {}, (request, response) => {
    seen++
    // The second request on a connection finds it closed.
    if (request.socket.bytesWritten > 0) return request.socket.destroy()
    response.end('ok')
  })
  t.equal((await send('/open/a')).status, 200)
  t.equal((await send('/open/b')).status, 502)
  t.equal(seen, 2)
})

t.test('A connection becomes another protocol only under a rule that allows it, and is judged before.', async t => {
  const seen: Array<string | undefined> = []
  const { url, head, issuer, upstream } = await startSite(t, { timeoutSeconds: 1 }, (request, response) => {
    seen.push(request.headers.upgrade)
    response.end('plain')
  }, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: ['x'.repeat(43)] })
  const echo = (request: { headers: Record<string, string> }, socket: Socket, head: Buffer) => {
    seen.push(request.headers['x-auth-subject'])
    if (request.headers['x-mode'] === 'refuse') return socket.end('HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nX-Why: no\r\nContent-Length: 4\r\n\r\nnope')
    if (request.headers['x-mode'] === 'reset') return socket.destroy()
    if (request.headers['x-mode'] === 'silent') return
    socket.on('error', () => {})
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: yes\r\n\r\nfirst;')
    socket.write(head)
    socket.pipe(socket)
  }
  upstream.server.on('upgrade', echo as never)
  const wanted = ['Connection: Upgrade', 'Upgrade: websocket', 'X-Auth-Subject: root']
  const token = bearerLines(issuer.token())
  const answerTo = async (target: string, lines: readonly string[], method = 'GET'): Promise<string> => {
    const socket = open(t, url, head(target, lines, method))
    let text = ''
    for await (const chunk of socket) text += chunk
    return text
  }

  const socket = open(t, url, head('/socket', [...wanted, ...token]))
  let text = ''
  socket.on('data', chunk => { text += chunk })
  while (!text.includes('first;')) await once(socket, 'data')
  t.match(text, /^HTTP\/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n[^]*sec-websocket-accept: yes\r\n/i)
  socket.write('hello;')
  while (!text.includes('hello;')) await once(socket, 'data')
  t.same(seen, ['user-1'], 'the name of the caller, not the one that was sent')
  socket.end()
  await once(socket, 'close')

  t.match(await answerTo('/socket', wanted), /^HTTP\/1.1 401 [^]*connection: close/i, 'without a token')
  t.equal(seen.length, 1)
  const refused = await answerTo('/socket', [...wanted, ...token, 'X-Mode: refuse'])
  t.match(refused, /^HTTP\/1.1 426 [^]*x-why: no[^]*nope$/i, 'the refusal of the upstream arrives')
  t.match(await answerTo('/socket', [...wanted, ...token, 'X-Mode: reset']), /^HTTP\/1.1 502 /)
  t.match(await answerTo('/socket', [...wanted, ...token, 'X-Mode: silent']), /^HTTP\/1.1 504 /)
  seen.length = 0
  t.match(await answerTo('/any/x', [...wanted, ...token]), /^HTTP\/1.1 200 [^]*plain$/, 'a rule that does not allow it')
  t.same(seen, [undefined], 'the upstream is not asked for it')
  t.match(await answerTo('/any/x', [...wanted, ...token, 'Content-Length: 1', '', 'a'], 'POST'), /^HTTP\/1.1 400 /, 'a body that nobody could read')
  t.match(await answerTo('/socket', [...token, 'Connection: close']), /^HTTP\/1.1 200 /, 'the same rule without the question')
})

t.test('Without rules nothing passes, and the log says so.', async t => {
  const { send, log } = await startSite(t, { rules: [] })
  t.equal((await send('/open/x')).status, 404)
  t.ok(log.some(({ msg }) => /no rules/.test(msg)))
})

t.test('A fault of our own lets nothing pass.', async t => {
  const { send, app, upstream } = await startSite(t, {})
  Object.assign(app.guardParts, { resolveUrl () { throw new Error('broken') } })
  t.equal((await send('/open/x')).status, 500)
  t.same(upstream.arrived, [])
})

t.test('The answer that changes the protocol has the next nonce.', async t => {
  const [older, newer] = ['y'.repeat(43), 'x'.repeat(43)]
  const client = await createDpopClient()
  const before = await startSite(t, {}, undefined, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: [older] })
  const first = before.issuer.token({ cnf: { jkt: client.jkt } })
  const { headers } = await before.send('/any/x', dpopLines(first, client.proof({ token: first, url: `${before.url}/any/x` })))

  const { url, head, issuer, upstream } = await startSite(t, {}, undefined, { DPOP_NONCE: 'required', DPOP_NONCE_SECRET: [newer, older] })
  upstream.server.on('upgrade', (_request, socket) => { socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n') })
  const token = issuer.token({ cnf: { jkt: client.jkt } })
  const proof = client.proof({ token, url: `${url}/socket`, claims: { nonce: headers['dpop-nonce'] } })
  const socket = open(t, url, head('/socket', ['Connection: Upgrade', 'Upgrade: websocket', ...dpopLines(token, proof)]))
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 101 [^]*dpop-nonce: \S+/)
})
