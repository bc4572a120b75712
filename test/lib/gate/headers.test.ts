import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { Dispatcher } from 'undici'
import { exactly } from '../../helpers/containing.ts'
import { UpstreamExchange, UpstreamError } from '../../../lib/upstream/exchange.ts'
import type { UpstreamAnswer } from '../../../lib/upstream/exchange.ts'
import { hasBody, headersForClient, headersForUpstream, isWithheldName } from '../../../lib/gate/headers.ts'
import { originForm, verifyOneReading, withoutParameters } from '../../../lib/gate/path.ts'
import { createRules } from '../../../lib/gate/rules.ts'
import { createStatementSigner } from '../../../lib/gate/statement.ts'
import { createIdentityHeaders, encodeValue, isIdentityName, parseClaimNames } from '../../../lib/gate/identity-headers.ts'
import { dropRest, joinConnections, protocolsOf, requestUpgrade, watchClient } from '../../../lib/upstream/upgrade.ts'
import { parseUpstream, tlsNameOf } from '../../../lib/upstream/origin.ts'
import { createUpstream } from '../../../lib/upstream/upstream.ts'
import type { Refusal } from '../../../lib/refusal.ts'

const URL_OF_CLIENT = { scheme: 'https', host: 'api.example:8443', path: '/v1/a', href: 'https://api.example:8443/v1/a', ownPath: '/a' } as const

t.test('The upstream learns where a request came from.', t => {
  const forwarded = (addresses: string[], url: typeof URL_OF_CLIENT | object = URL_OF_CLIENT): string[] =>
    headersForUpstream({ rawHeaders: [] }, { origin: { url: { ...URL_OF_CLIENT, ...url }, addresses }, identity: {}, passCredentials: false })
  t.strictSame(forwarded(['192.0.2.1', '10.0.0.1']), [
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
    headersForUpstream({ rawHeaders }, { origin: { url: URL_OF_CLIENT, addresses: [] }, identity: {}, passCredentials: false }).slice(0, -10)
  const kept = ['Host', 'a', 'X-One', 'X-Two', 'X-Two', 'x-one', 'Content-Length', '1', 'TE2', 'b']
  t.strictSame(passed(...kept), kept, 'a header that is named by another one than Connection')
  t.strictSame(passed('Connection', 'close, X-One ,x-two, host, content-length', ...kept), ['Host', 'a', 'Content-Length', '1', 'TE2', 'b'])
  for (const name of ['Connection', 'Keep-Alive', 'Proxy-Connection', 'Proxy-Authenticate', 'Proxy-Authorization', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade', 'HTTP2-Settings', 'Expect']) {
    t.strictSame(passed(name, 'x', 'X-One', 'a'), ['X-One', 'a'], name)
  }

  const answered = (...rawHeaders: string[]) => [...headersForClient(rawHeaders)]
  t.strictSame(answered('Set-Cookie', 'a', 'X-One', 'x-two', 'set-cookie', 'b', 'X-Two', 'c'), [['set-cookie', ['a', 'b']], ['x-one', ['x-two']], ['x-two', ['c']]])
  t.strictSame(answered('Connection', 'x-one, content-length', 'X-One', 'a', 'Content-Length', '1', 'Keep-Alive', 'x'), [['content-length', ['1']]])
  t.end()
})

t.test('An https upstream is asked over TLS.', async t => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  t.teardown(() => { server.close() })
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { answer } = requestUpgrade({ origin, method: 'GET', target: '/', headers: [], protocols: 'websocket', timeoutSeconds: 5 })
  await t.rejects(answer, { name: 'UpstreamError', statusCode: 502, cause: { code: /SSL|EPROTO|ECONNRESET/ } })
})

t.test('A request that would be sent a second time fails.', async t => {
  const aborted: unknown[] = []
  const controller = () => ({ abort (reason: unknown) { aborted.push(reason) } }) as unknown as Dispatcher.DispatchController
  const sent = new UpstreamExchange(() => {})
  sent.onRequestStart(controller())
  t.strictSame(aborted, [])
  sent.onRequestStart(controller())
  await t.rejects(sent.answer, { name: 'UpstreamError', statusCode: 502 })
  t.equal(aborted.length, 2, 'neither goes on')

  const ended = new UpstreamExchange(() => {})
  ended.end(new UpstreamError(504, 'late'))
  await t.rejects(ended.answer, { name: 'UpstreamError', statusCode: 504 })
  ended.onRequestStart(controller())
  t.hasStrict(aborted[2], { statusCode: 504 }, 'one that has ended does not begin')

  const unread = new UpstreamExchange(() => {})
  const upstream = Object.assign(controller(), { rawHeaders: [], resume () {}, pause () {} })
  unread.onRequestStart(upstream)
  unread.onResponseStart(upstream, 200)
  const { body } = await unread.answer
  body.destroy()
  await new Promise(resolve => body.once('close', resolve))
  t.hasStrict(aborted[3], { statusCode: 499 }, 'the upstream need not go on if nobody reads')
})

t.test('The upstream is asked for no more while the reader of an answer has not taken what came.', async t => {
  const told: string[] = []
  const controller = { rawHeaders: [], resume () { told.push('resume') }, pause () { told.push('pause') } } as unknown as Dispatcher.DispatchController
  const exchange = new UpstreamExchange(() => {})
  exchange.onRequestStart(controller)
  exchange.onResponseStart(controller, 200)
  const { body } = await exchange.answer
  const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
  for (const [reader, paused] of [[new PassThrough({ highWaterMark: 4 }), ['pause']], [new PassThrough({ highWaterMark: 1024 }), []]] as const) {
    body.pipe(reader)
    await turn()
    told.length = 0
    exchange.onResponseData(controller, Buffer.from('chunk'))
    t.strictSame(told, paused)
    t.equal(body.readableLength, 0, 'nothing waits on this side')
    t.equal(String(reader.read()), 'chunk')
    await turn()
    t.equal(told.at(-1), 'resume', 'as soon as it is taken, more may come')
    body.unpipe(reader)
  }
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
    { path: '/;', cause: 'path_parameter', neighbour: '/x;' },
    { path: '/a/%3Bx', cause: 'path_parameter', neighbour: '/a/x%3Bx' },
    { path: '/a%2Fb', cause: 'slash_escape', neighbour: '/a%252Fb' },
    { path: '/a%5Cb', cause: 'backslash', neighbour: '/a%5Bb' },
    { path: '/a%00', cause: 'control_character', neighbour: '/a%20' },
    { path: '/a%1F', cause: 'control_character', neighbour: '/a%21' },
    { path: '/a%7F', cause: 'control_character', neighbour: '/a%7E' },
    { path: '/%C3', cause: 'encoding', neighbour: '/%C3%BC' }
  ]
  for (const { path, cause, neighbour } of rows) t.strictSame([causeOf(path), causeOf(neighbour)], [cause, 'accepted'], path)
  t.end()
})

/** An exchange that has begun, and what it has done to its connection. */
function beginExchange (rawHeaders: readonly Buffer[] = []) {
  const done: unknown[] = []
  const interim: unknown[] = []
  const controller = {
    rawHeaders,
    abort: ({ statusCode, message }: UpstreamError) => { done.push(`${statusCode} ${message}`) },
    pause: () => { done.push('pause') },
    resume: () => { done.push('resume') }
  } as unknown as Dispatcher.DispatchController
  const exchange = new UpstreamExchange((status, headers) => { interim.push([status, headers]) })
  exchange.onRequestStart(controller)
  const outcome = exchange.answer.then(({ status }) => String(status), ({ statusCode, message }: UpstreamError) => `failed with ${statusCode}: ${message}`)
  return { exchange, controller, outcome, done, interim }
}

t.test('Which answers are interim, which are final, and which are none.', async t => {
  for (const status of [200, 304, 599]) {
    const { exchange, controller, outcome, done, interim } = beginExchange()
    exchange.onResponseStart(controller, status)
    t.equal(await outcome, String(status))
    t.strictSame([done, interim], [[], []])
  }
  for (const status of [100, 101, 600, 999]) {
    const { exchange, controller, outcome, done, interim } = beginExchange()
    exchange.onResponseStart(controller, status)
    t.equal(await outcome, `failed with 502: The upstream answered with status ${status}`)
    t.strictSame([done, interim], [[`502 The upstream answered with status ${status}`], []], 'the request does not go on')
  }
  for (const status of [102, 103, 199]) {
    const { exchange, controller, outcome, interim } = beginExchange([Buffer.from('Link'), Buffer.from('\u00fc', 'latin1')])
    exchange.onResponseStart(controller, status)
    t.strictSame(interim, [[status, ['Link', '\u00fc']]], 'a character for each byte')
    exchange.onResponseStart(controller, 204)
    t.equal(await outcome, '204', 'the final answer is still to come')
  }
})

t.test('The body of an answer is taken as fast as it is read, and ends once.', async t => {
  const { exchange, controller, done } = beginExchange()
  exchange.onResponseStart(controller, 200)
  const answer = await exchange.answer
  t.equal(answer.body.isWhole, false)
  exchange.onResponseData(controller, Buffer.from('a'))
  t.strictSame(done, [], 'a small chunk does not stop the upstream')
  exchange.onResponseData(controller, Buffer.alloc(1024 * 1024))
  t.strictSame(done, ['pause'], 'a large one does')
  t.equal(answer.body.read(answer.body.readableLength).length, 1024 * 1024 + 1)
  t.equal(done.at(-1), 'resume')
  exchange.onResponseEnd()
  t.equal(answer.body.isWhole, true)
  exchange.onResponseError(controller, new Error('closed'))
  exchange.onResponseEnd()
  await once(answer.body.resume(), 'end')
  answer.body.destroy()
  await new Promise(resolve => setImmediate(resolve))
  t.notOk(done.includes('499 The client has gone'), 'what has ended is not broken off')
})

t.test('An answer that breaks off fails for its first reason.', async t => {
  const { exchange, controller, done } = beginExchange()
  exchange.onResponseStart(controller, 200)
  const { body } = await exchange.answer
  const failed = once(body, 'error')
  const cause = new Error('reset')
  exchange.onResponseError(controller, cause)
  exchange.end(new UpstreamError(504, 'late'))
  const [error] = await failed
  t.strictSame([error.name, error.statusCode, error.message, error.cause], ['UpstreamError', 502, 'The upstream failed', cause])
  t.strictSame(done, ['502 The upstream failed', '502 The upstream failed'], 'no other reason is given later')

  const unmodified = beginExchange()
  unmodified.exchange.onResponseStart(unmodified.controller, 304)
  const answer = await unmodified.exchange.answer
  t.equal(answer.body.isWhole, true, 'an answer of 304 has no body to wait for')
  await once(answer.body.resume(), 'end')

  const again = beginExchange()
  again.exchange.onRequestStart(again.controller)
  t.equal(await again.outcome, 'failed with 502: The upstream failed', 'a second sending')
})

/** Timers that run when the test says so. */
function createTimers () {
  const waiting = new Set<{ ms: number, run: () => void }>()
  const after = (ms: number, run: () => void): () => void => {
    const timer = { ms, run }
    waiting.add(timer)
    return () => { waiting.delete(timer) }
  }
  return { after, waiting }
}

t.test('The upstream may be silent for so long, counted anew by each part of the request until it answers.', async t => {
  let answering: ServerResponse
  const server = createServer((_request, response) => { answering = response; server.emit('arrived') }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.closeAllConnections(); server.close() })
  const { after, waiting } = createTimers()
  const upstream = createUpstream({ origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeoutSeconds: 7, bodyLimit: 4, after })
  t.teardown(() => upstream.close())
  const send = (body?: PassThrough, onInterim = (): void => {}) => upstream.send({ method: 'POST', target: '/', headers: [], body, onInterim })
  const read = async ({ body }: UpstreamAnswer): Promise<string> => String(Buffer.concat(await body.toArray()))

  const source = new PassThrough()
  const { answer } = send(source)
  const [first] = waiting
  t.equal(first!.ms, 7000)
  source.write('a')
  await once(server, 'arrived')
  const [second, ...others] = waiting
  t.not(second, first, 'the body has gone on, so the time begins anew')
  t.strictSame([second!.ms, others], [7000, []])
  answering!.writeHead(200)
  answering!.write('x')
  const answered = await answer
  t.equal(waiting.size, 0, 'an answer ends it')
  source.write('b')
  source.end('c')
  while (source.readableLength > 0 || !source.readableEnded) await new Promise(resolve => setImmediate(resolve))
  t.equal(waiting.size, 0, 'a body that goes on behind the answer does not start it again')
  answering!.end('y')
  t.equal(await read(answered), 'xy')

  let hinted: ReturnType<typeof send>
  const hint = new Promise<void>(resolve => { hinted = send(undefined, resolve) })
  const [before] = waiting
  await once(server, 'arrived')
  answering!.writeProcessing()
  await hint
  t.not([...waiting][0], before, 'an interim answer is a sign of life')
  t.equal(waiting.size, 1)
  for (const { run } of waiting) run()
  await t.rejects(hinted!.answer, { statusCode: 504, message: 'The upstream is too slow' })
  t.equal(waiting.size, 0)

  const large = new PassThrough()
  const refused = send(large)
  large.write('abcde')
  await t.rejects(refused.answer, { name: 'UpstreamError', statusCode: 413, message: 'The body of the request is too large' })
  t.equal(waiting.size, 0)
  large.end('more than anybody reads')
  await once(large, 'end')
  t.pass('the rest is read and dropped, so that the client can send it')

  const broken = new PassThrough()
  const cut = send(broken)
  broken.write('a')
  broken.destroy(new Error('gone'))
  await t.rejects(cut.answer, { name: 'UpstreamError', statusCode: 502 }, 'a body that breaks off ends the request')
})

t.test('What a client sends before its connection has changed is kept up to a limit, and its going is told.', async t => {
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 })
  let gone = 0
  const stop = watchClient(stream as unknown as Socket, () => { gone++ })
  const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
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
  t.equal(gone, 0, 'nobody watches any more')

  for (const leave of ['end', 'destroy'] as const) {
    const other = new PassThrough()
    let left = 0
    watchClient(other as unknown as Socket, () => { left++ })
    other[leave]()
    await once(other, 'close')
    t.ok(left > 0, leave)
  }
})

t.test('Two joined connections are silent for any time, and end together.', async t => {
  class Line extends PassThrough {
    settings: unknown[] = []
    setTimeout (ms: number) { this.settings.push(['timeout', ms]) }
    setKeepAlive (isOn: boolean, ms: number) { this.settings.push(['keepAlive', isOn, ms]) }
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
  const half = new PassThrough()
  dropRest(half as unknown as Socket)
  half.end('what nobody reads')
  await once(half, 'close')
  t.pass('what comes is dropped, and the end is answered')
})

t.test('Values of claims are written as a client of the upstream can read them back.', t => {
  const rows: ReadonlyArray<readonly [value: unknown, written: string]> = [
    [undefined, ''], [null, ''], ['', ''], [0, '0'], [false, 'false'], ['a-Z~!', 'a-Z~!'], [' ', '%20'], ['%', '%25'], ['"#$&', '"#$&'], ['\n\t', '%0A%09'], ['\u007f', '%7F'],
    ['\u00e9', '%C3%A9'], ['\ud83d\ude00', '%F0%9F%98%80'], ['\ud83d', '%EF%BF%BD'], [['a', 1], '["a",1]'], [{ a: null }, '{"a":null}']
  ]
  for (const [value, written] of rows) t.equal(encodeValue(value), written, JSON.stringify(value))

  const told = createIdentityHeaders([{ header: 'x-auth-claim-a', claim: 'a' }, { header: 'x-auth-claim-inherited', claim: 'toString' }])
  const empty = { 'x-auth-subject': '', 'x-auth-issuer': '', 'x-auth-scope': '', 'x-auth-client': '', 'x-auth-claim-a': '', 'x-auth-claim-inherited': '' }
  t.strictSame(told(undefined), empty)
  const caller = (claims: object) => ({ claims: { iss: 'i', aud: 'a', exp: 1, sub: 's', ...claims }, scopes: ['x', 'y'], issuer: 'https://i.example/' })
  t.strictSame(told(caller({})), { ...empty, 'x-auth-subject': 's', 'x-auth-issuer': 'https://i.example/', 'x-auth-scope': 'x%20y' })
  t.hasStrict(told(caller({ a: 1, azp: 'app' })), { 'x-auth-client': 'app', 'x-auth-claim-a': '1' })
  t.hasStrict(told(caller({ client_id: 'shop', azp: 'app' })), { 'x-auth-client': 'shop' }, 'RFC 9068 comes first')
  t.end()
})

t.test('Without its parameters, a path is what programs may make of it.', t => {
  const rows: ReadonlyArray<readonly [path: string, readings: readonly string[]]> = [
    ['/a/b', []], ['/a;b', ['/a', '/a']], ['/a;b;c/d;/e', ['/a/d/e', '/a/d/e']], ['/a%3Bb/c', ['/a%3Bb/c', '/a/c']], ['/a;x/b%3By', ['/a/b%3By', '/a/b']], ['/a%253Bb', []]
  ]
  for (const [path, readings] of rows) t.strictSame(withoutParameters(path), readings, path)
  const rules = createRules(['/*', '/admin', '/x/a%3Bb', '/n/:id(^[0-9;]+$)'].map(path => ({ path, methods: undefined, requirement: undefined, audience: undefined, upgrade: false, mcp: undefined })))
  const chosen = (path: string): unknown => {
    try {
      return rules.choose('GET', path)?.rules[0].path
    } catch (error) {
      return (error as Refusal).detail?.cause
    }
  }
  const choices: ReadonlyArray<readonly [path: string, chosen: string | undefined]> = [
    ['/admin', '/admin'], ['/admin;', 'path_parameter'], ['/a;b', '/*'], ['/n/1;2', '/n/:id(^[0-9;]+$)'], ['/n/1;x', 'path_parameter'], ['/x;q/a%3Bb', 'path_parameter'], ['/a%2Fb', 'slash_escape']
  ]
  for (const [path, expected] of choices) t.equal(chosen(path), expected, path)
  t.end()
})

t.test('A header that would steer the upstream, or name a caller, is withheld, whatever sign stands for -.', t => {
  const names = ['X-Original-URL', 'X-Rewrite-URL', 'X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', 'Proxy', 'Client-Cert', 'Client-Cert-Chain', 'X-SSL-Client-Cert', 'X-SSL-Client-S-DN', 'X-Forwarded-Client-Cert', 'Remote-User', 'X-Remote-User', 'X-Real-IP', 'Forwarded', 'X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Anything', 'X-Auth-Subject', 'X-Auth-Claim-Team']
  for (const name of names) {
    for (const sign of "-_.!#$%&'*+^`|~") {
      const written = name.replaceAll('-', sign)
      t.equal(isWithheldName(written) && isWithheldName(written.toUpperCase()), true, written)
    }
  }
  for (const name of ['x-original-urls', 'my-x-original-url', 'x-http-methods', 'proxy-x', 'x-proxy', 'client-certificate', 'x-ssl-client', 'remote-users', 'x-real-ips', 'x-forwarded', 'forwarded-for', 'accept', 'x-auth-token']) t.equal(isWithheldName(name), false, name)
  t.end()
})

t.test('A name that a program could take for one of ours is one of ours.', t => {
  for (const name of ['x-auth-subject', 'X-Auth-Subject', 'x_auth_subject', 'x.auth.subject', 'x-auth-issuer', 'x-auth-scope', 'x-auth-client', 'x-auth-statement', 'x-auth-claim-', 'X_AUTH_CLAIM_a', 'x-auth-claim-a']) t.equal(isIdentityName(name), true, name)
  for (const name of ['x-auth-subjec', 'x-auth-subject-2', 'my-x-auth-subject', 'x-auth-claim', 'my-x-auth-claim-a', 'x-auth-token']) t.equal(isIdentityName(name), false, name)

  t.strictSame(parseClaimNames([]), [])
  t.strictSame(parseClaimNames(['A.b']), [{ header: 'x-auth-claim-a-b', claim: 'A.b' }])
  t.strictSame(parseClaimNames({ Team: 'https://id.example/team' }), [{ header: 'x-auth-claim-team', claim: 'https://id.example/team' }])
  for (const bad of [undefined, null, 'email', 7, [''], [7], ['a', 'A'], ['a.b', 'a_b'], { a: 7 }, { '': 'a' }, { 'a b': 'a' }, { ' a': 'a' }, { 'a ': 'a' }, { a: 'x', A: 'y' }]) t.equal(parseClaimNames(bad), undefined, JSON.stringify(bad))
  t.end()
})

t.test('An upstream is an origin and nothing more.', t => {
  const rows: ReadonlyArray<readonly [given: unknown, origin: string | undefined]> = [
    ['http://a', 'http://a'], ['HTTPS://A:443/', 'https://a'], ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://a//', undefined], ['http://a/x', undefined], [' http://a', undefined], ['http://a ', undefined], ['http://a?', undefined], ['http://a#', undefined], ['http://u@a', undefined], ['http://a\\b', undefined],
    ['http://a:99999', undefined], ['ftp://a', undefined], ['//a', undefined], ['', undefined], [undefined, undefined], [['http://a'], undefined]
  ]
  for (const [given, origin] of rows) t.equal(parseUpstream(given), origin, JSON.stringify(given))
  t.strictSame(['https://a:1', 'https://[::1]:1', 'https://127.0.0.1'].map(tlsNameOf), ['a', '', ''])
  t.end()
})

t.test('What goes to the upstream is path and query as they came.', t => {
  const causeOf = (target: string): unknown => {
    try {
      return originForm(target)
    } catch (error) {
      return (error as Refusal).detail
    }
  }
  const rows: ReadonlyArray<readonly [target: string, expected: unknown]> = [
    ['/a?b', '/a?b'], ['/\u00ff', '/\u00ff'], ['http://a/b?c', '/b?c'], ['HTTPS://a?b', '/?b'], ['http://a', '/'], ['/http://a/b', '/http://a/b'],
    ['/a#b', { cause: 'fragment' }], ['/a b', { cause: 'control_character' }], ['/a\u0000#', { cause: 'control_character' }], ['/\u0100', { cause: 'control_character' }]
  ]
  for (const [target, expected] of rows) t.strictSame(causeOf(target), expected, JSON.stringify(target))
  t.end()
})

t.test('A request has a body if its lines say so.', t => {
  for (const headers of [{ 'transfer-encoding': 'chunked' }, { 'content-length': '1' }]) t.equal(hasBody({ headers }), true)
  for (const headers of [{}, { 'content-length': '0' }]) t.equal(hasBody({ headers }), false)
  t.end()
})

t.test('A statement is signed by the key that is published, for a minute.', t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const signer = createStatementSigner(pem, { wallMs: () => 1_700_000_000_999, randomBytes: size => Buffer.alloc(size, 7) })
  const claims = { iss: 'i', aud: 'a', exp: 1, sub: 'user-1' }
  const statement = signer.sign({ claims, scopes: ['a', 'b'], issuer: 'i' }, { issuer: 'https://gate.example', audience: 'http://up', method: 'PUT', path: '/x' })
  const [header, payload, signature] = statement.split('.') as [string, string, string]
  const { keys: [jwk] } = signer.keySet as { keys: [Record<string, string>] }
  t.ok(verify('sha256', Buffer.from(`${header}.${payload}`), { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')))
  const read = (part: string): unknown => JSON.parse(String(Buffer.from(part, 'base64url')))
  t.strictSame(read(header), { alg: 'ES256', typ: 'JWT', kid: jwk.kid })
  t.strictSame(read(payload), {
    iss: 'https://gate.example', aud: 'http://up', sub: 'user-1', scope: 'a b', method: 'PUT', path: '/x', iat: 1_700_000_000, exp: 1_700_000_060, jti: Buffer.alloc(16, 7).toString('base64url')
  })
  t.match(jwk, { kty: exactly('EC'), crv: exactly('P-256'), alg: exactly('ES256'), use: exactly('sig'), kid: /^[\w-]{43}$/ })
  t.strictSame(Object.keys(jwk).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'], 'and nothing private')

  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const message = 'it is no private key in PKCS#8 and PEM form, EC P-256'
  const sec1 = privateKey.export({ type: 'sec1', format: 'pem' }) as string
  for (const bad of ['', sec1, '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n', p384.export({ type: 'pkcs8', format: 'pem' }) as string, rsa.export({ type: 'pkcs8', format: 'pem' }) as string]) {
    t.throws(() => createStatementSigner(bad, { wallMs: () => 0, randomBytes: Buffer.alloc }), { name: 'TypeError', message })
  }
  t.end()
})
