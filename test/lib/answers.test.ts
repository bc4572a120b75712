import type { Socket } from 'node:net'
import t from 'tap'
import { containing } from '../helpers/containing.ts'
import { createChallenges } from '../../lib/guard/challenge.ts'
import { ANY_TOKEN } from '../../lib/guard/requirement/requirement.ts'
import { Message, readMessage, type ReceivedRequest } from '../../lib/guard/message.ts'
import { nameThatWasMeant } from '../../lib/base/suggestion.ts'
import { errorBody, Refusal, refusalBodies, REFUSALS, refusalOfIssuer } from '../../lib/refusal.ts'
import { answerClientError } from '../../plugins/errors.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, call, expectRefusal } from '../helpers/call.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

t.test('Error bodies in both forms, with and without a sentence of our own', async t => {
  t.strictSame(errorBody('default', 404, 'No.'), { statusCode: 404, error: 'Not Found', message: 'No.' })
  t.strictSame(errorBody('default', 404), { statusCode: 404, error: 'Not Found', message: 'Not Found' })
  t.strictSame(
    errorBody('default', 499),
    { statusCode: 499, error: 'Error', message: 'Error' },
    'a status without a name'
  )
  t.strictSame(errorBody('detailed', 401), {
    error: 'Unauthorized',
    message: 'A valid access token is needed.',
    details: 'Unauthorized'
  })
  t.strictSame(errorBody('detailed', 500), { detail: 'Internal Server Error' })
  t.strictSame(JSON.parse(refusalBodies('default').scope_missing), {
    statusCode: 403,
    error: 'Forbidden',
    message: REFUSALS.scope_missing.description
  })
})

t.test('A challenge that was made before is that of its own reason, scheme and requirement', async t => {
  const challenges = createChallenges({ mode: 'ALLOWED', algs: ['ES256'], resourceMetadataUrl: undefined })
  const [reader, writer] = [{ scope: ['read'] }, { scope: ['write'] }]
  const asked = [
    {
      reason: 'token_expired',
      context: { scheme: 'Bearer', requirement: ANY_TOKEN },
      scheme: 'Bearer',
      description: 'The access token has expired.',
      scope: undefined
    },
    {
      reason: 'token_expired',
      context: { scheme: 'DPoP', requirement: ANY_TOKEN },
      scheme: 'DPoP',
      description: 'The access token has expired.',
      scope: undefined
    },
    {
      reason: 'token_issuer',
      context: { scheme: 'Bearer', requirement: ANY_TOKEN },
      scheme: 'Bearer',
      description: 'The access token was issued by another issuer.',
      scope: undefined
    },
    {
      reason: 'scope_missing',
      context: { scheme: 'Bearer', requirement: reader },
      scheme: 'Bearer',
      description: 'The access token lacks a permission that this resource needs.',
      scope: 'read'
    },
    {
      reason: 'scope_missing',
      context: { scheme: 'Bearer', requirement: writer },
      scheme: 'Bearer',
      description: 'The access token lacks a permission that this resource needs.',
      scope: 'write'
    }
  ] as const
  for (const { reason, context, scheme, description, scope } of [...asked, ...asked]) {
    const found = parseChallenges(challenges(reason, context)['www-authenticate']!).filter(({ parameters }) =>
      parameters.error
    )
    t.strictSame(found.map(one => [one.scheme, one.parameters.error_description, one.parameters.scope]), [[
      scheme,
      description,
      scope
    ]], `${reason}, ${scheme}`)
  }
})

t.test('Retry-After is a whole number of seconds, at least one', async t => {
  const policy = { mode: 'ALLOWED', algs: ['ES256'], resourceMetadataUrl: undefined } as const
  for (const [retryAfterSeconds, expected] of [[undefined, '1'], [0, '1'], [1.2, '2'], [30, '30']] as const) {
    t.strictSame(
      createChallenges(policy)('keys_unavailable', { scheme: undefined, requirement: ANY_TOKEN, retryAfterSeconds }),
      { 'retry-after': expected }
    )
  }
})

t.test('A token that was verified before is refused once its time is over', async t => {
  const issuer = await startIssuer(t)
  const running = await startApp(t, issuer, { IDP_CLOCK_TOLERANCE_SECONDS: 0 })
  const exp = nowSeconds() + 600
  const lines = bearerLines(issuer.token({ exp }))
  t.equal((await call(running, { lines })).status, 200)
  expectRefusal(t, await atAnotherTime(600, () => call(running, { lines })), 'token_expired', 'Bearer')
})

t.test('A request that is not HTTP is answered once, and a connection that is gone or has its answer gets none', async t => {
  const first = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
  const after = (line: string) => ({ rawPacket: Buffer.from(first + line), bytesParsed: first.length + 1 })
  const second = after('BREW /b HTTP/1.1\r\n')
  const rows: ReadonlyArray<{
    title: string,
    code?: string,
    piece?: object,
    socket?: object,
    expected: number | 'destroyed'
  }> = [
    { title: 'no HTTP', expected: 400 },
    { title: 'a method that Node does not know, after another request', piece: second, expected: 404 },
    {
      title: 'the same before the answer to that',
      piece: second,
      socket: { _httpMessage: { headersSent: false } },
      expected: 400
    },
    { title: 'no HTTP after another request', piece: after('BREW\r\n'), expected: 400 },
    { title: 'half of its line', piece: { rawPacket: Buffer.from('BREW /b'), bytesParsed: 1 }, expected: 400 },
    { title: 'before any request', socket: { _httpMessage: null }, expected: 400 },
    { title: 'after a request without an answer yet', socket: { _httpMessage: { headersSent: false } }, expected: 400 },
    { title: 'headers that are too large', code: 'HPE_HEADER_OVERFLOW', expected: 431 },
    { title: 'a request that is too slow to arrive', code: 'ERR_HTTP_REQUEST_TIMEOUT', expected: 408 },
    { title: 'a connection that is gone', code: 'ECONNRESET', expected: 'destroyed' },
    { title: 'a connection that takes no bytes', socket: { writable: false }, expected: 'destroyed' },
    { title: 'an answer that has begun', socket: { _httpMessage: { headersSent: true } }, expected: 'destroyed' }
  ]
  for (const { title, code = 'HPE_INVALID_METHOD', piece, socket, expected } of rows) {
    const seen: unknown[] = []
    answerClientError('default')(Object.assign(new Error(title), { code, ...piece }), {
      writable: true,
      end: (text: string) => {
        seen.push(Number(text.split(' ')[1]))
      },
      destroy () {
        seen.push('destroyed')
      },
      ...socket
    } as unknown as Socket)
    t.strictSame(seen, [expected], title)
  }
  let text = ''
  answerClientError('detailed')(new Error(), {
    writable: true,
    end: (sent: string) => {
      text = sent
    },
    destroy () {}
  } as unknown as Socket)
  const [head, body] = text.split('\r\n\r\n')
  t.strictSame(JSON.parse(body!), { detail: 'The request is not valid HTTP, too large or too slow.' })
  t.strictSame(head!.split('\r\n'), [
    'HTTP/1.1 400 Bad Request',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${body!.length}`,
    'Cache-Control: no-store',
    'Connection: close'
  ])
})

t.test('One request has one answer, though its body breaks off', async t => {
  const issuer = await startIssuer(t)
  const { url } = await startApp(t, issuer)
  const lines = ['Host: localhost', 'Connection: keep-alive', 'Transfer-Encoding: chunked', '', 'not a chunk', '']
  const { status, body } = await sendRaw(url, ['POST /api/private HTTP/1.1', ...lines])
  t.equal(status, 404)
  t.notMatch(body, containing('HTTP/1.1'))
})

t.test('A refusal is named after an issuer in a copy, and a fault stays what it is', async t => {
  const refusal = new Refusal('keys_unavailable', { detail: { failure: 'deadline' }, retryAfterSeconds: 7 })
  const own = refusalOfIssuer(refusal, 'https://a.example/')
  t.not(own, refusal)
  t.hasStrict(own, {
    reason: 'keys_unavailable',
    detail: { failure: 'deadline' },
    retryAfterSeconds: 7,
    issuer: 'https://a.example/',
    headers: undefined
  })
  const fault = new TypeError('x')
  t.equal(refusalOfIssuer(fault, 'https://a.example/'), fault)
})

t.test('A refusal has no stack, and gets none from a later fault', async t => {
  const before = Error.stackTraceLimit
  t.equal(new Refusal('credentials_missing').stack, 'Refusal: This resource needs an access token.')
  t.equal(Error.stackTraceLimit, before)
  t.match(new Error('a fault').stack, /answers\.test/)
})

const received = (rawHeaders: readonly string[], maxHeadersCount?: number | null) =>
  ({
    method: 'GET',
    url: '/',
    headers: {},
    rawHeaders: [...rawHeaders],
    socket: { server: maxHeadersCount === undefined ? undefined : { maxHeadersCount } }
  }) as ReceivedRequest

t.test('Lines of a request are counted by name, in any case, and the first of each is used', async t => {
  const read = ({ authorization, authorizationCount, dpop, dpopCount, host, hostCount }: Message) => ({
    authorization: [authorization, authorizationCount],
    dpop: [dpop, dpopCount],
    host: [host, hostCount]
  })
  const none = [undefined, 0]
  const rows: ReadonlyArray<readonly [lines: readonly string[], expected: object]> = [
    [[], { authorization: none, dpop: none, host: none }],
    [['Host', 'a', 'HOST', 'b'], { authorization: none, dpop: none, host: ['a', 2] }],
    [[':authority', 'a'], { authorization: none, dpop: none, host: ['a', 1] }],
    [[':authority', 'a', 'host', 'a'], { authorization: none, dpop: none, host: ['a', 1] }],
    [[':authority', 'a', 'host', 'b'], { authorization: none, dpop: none, host: ['a', 2] }],
    [[':authority', 'a', 'host', 'a', 'host', 'a'], { authorization: none, dpop: none, host: ['a', 2] }],
    [['host', 'a', ':authority', 'b', ':authority', 'c'], { authorization: none, dpop: none, host: ['a', 3] }],
    [['DPoP', 'a', 'dpop', 'b', 'DPOP', 'c'], { authorization: none, dpop: ['a', 3], host: none }],
    [['Authorization', 'a', 'AUTHORIZATION', 'b'], { authorization: ['a', 2], dpop: none, host: none }],
    [['Date', 'a', 'authorizations', 'b', 'authenticated', 'c'], { authorization: none, dpop: none, host: none }]
  ]
  for (const [lines, expected] of rows) t.strictSame(read(readMessage(received(lines))), expected, lines.join(' '))
})

t.test('A request that reaches the limit of its server is refused, and a server without a limit has that of Node', async t => {
  const rows: ReadonlyArray<readonly [limit: number | null | undefined, most: number]> = [
    [10, 9],
    [undefined, 999],
    [null, 999],
    [0, 3000],
    [-1, 3000]
  ]
  for (const [limit, most] of rows) {
    const lines = (count: number) => received(Array<string>(count * 2).fill('a'), limit)
    t.doesNotThrow(() => readMessage(lines(most)), `${limit}`)
    if (most < 3000) t.throws(() => readMessage(lines(most + 1)), new Refusal('headers_uncounted'), `${limit}`)
  }
})

t.test('The name that was meant is the nearest one, and the first of several', async t => {
  const rows: ReadonlyArray<readonly [text: string, names: readonly string[], meant: string | undefined]> = [
    ['abcdz', ['abcdx', 'abcdy'], 'abcdx'],
    ['abcdz', ['abcxy', 'abcdy'], 'abcdy'],
    ['abcdez', ['abcdxy', 'other'], 'abcdxy'],
    ['abcxyz', ['abcdef'], undefined],
    ['abxy', ['abcd'], undefined],
    ['abcxy', ['abcde'], 'abcde'],
    ['ab', ['ac'], undefined],
    ['acb', ['abc'], 'abc'],
    ['acb', ['abd'], undefined],
    ['bacd', ['abdc'], undefined],
    ['bacde', ['abced'], 'abced'],
    ['bca', ['abc'], undefined],
    ['abc', ['abd'], 'abd'],
    ['abcd', ['abcdefg', 'abcdef'], undefined],
    ['abcde', ['abcdefg'], 'abcdefg'],
    ['logLevel', ['LOG_LEVEL'], 'LOG_LEVEL'],
    ['trust_proxy', ['server.publicUrl', 'server.trustProxy'], 'server.trustProxy'],
    ['PROXY', ['server.trustproxy'], undefined],
    ['', ['a'], undefined],
    ['__', ['a', ''], undefined],
    ['_DPOP_MODE', ['IDP_DPOP_MODE'], 'IDP_DPOP_MODE']
  ]
  for (const [text, names, meant] of rows) {
    t.equal(nameThatWasMeant(text, names), meant, `${text} among ${names.join(' ')}`)
  }
})
