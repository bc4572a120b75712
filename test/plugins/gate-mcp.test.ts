import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { MAX_MESSAGE_BYTES } from '../../lib/gate/message-body.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { bytesOf, call, message, reply, startSite } from '../helpers/mcp-site.ts'
import { until } from '../helpers/until.ts'
import { sendRaw, type WireAnswer } from '../helpers/wire.ts'

const MAX_ADDRESS_BYTES = 16 * 1024 * 1024
const MAX_CALLER_BYTES = 8 * 1024 * 1024

t.test('The message decides which rule holds, and what passes arrives byte for byte.', async t => {
  const { post, issuer, upstream, url } = await startSite(t)
  const holder = (scope: string, claims: object = {}) => bearerLines(issuer.token({ scope, ...claims }))
  const now = Math.floor(Date.now() / 1000)
  const rows: Array<[title: string, body: unknown, lines: string[], status: number, path?: string]> = [
    ['a method that a rule names', message('tools/list'), holder('use'), 200],
    ['without its scope', message('tools/list'), holder('read'), 403],
    ['a tool of a pattern', call('read_orders'), holder('read'), 200],
    ['a tool of a pattern, without its scope', call('read_orders'), holder('use'), 403],
    ['a named tool', call('delete_order'), holder('delete'), 200],
    ['a named tool, without its scope', call('delete_order'), holder('read use other'), 403],
    ['a tool without a rule', call('drop'), holder('use read delete'), 404],
    ['a tool in another case', call('Delete_order'), holder('use read delete'), 404],
    ['a method without a rule', message('prompts/list'), holder('use read delete'), 404],
    ['a method without a rule does not fall to another path', message('prompts/list'), holder('other'), 404],
    ['a response of a client, if no rule is for the whole path', reply, holder('use read delete'), 404],
    ['a response of a client', reply, holder('use'), 200, '/all'],
    ['any message, if the rule is for the whole path', call('x'), holder('use'), 200, '/all'],
    ['any message there, without the scope', call('x'), holder('read'), 403, '/all'],
    ['a recent login', call('pay'), holder('', { auth_time: now }), 200],
    ['an old login', call('pay'), holder('', { auth_time: now - 600 }), 401],
    [
      'a batch in which every message passes',
      [message('tools/list'), call('read_x'), call('read_y')],
      holder('use read'),
      200
    ],
    ['a batch of which one may not pass', [message('tools/list'), call('delete_order')], holder('use read'), 403],
    [
      'a batch with a message without a rule goes before what is forbidden',
      [call('delete_order'), call('drop')],
      holder('use'),
      404
    ],
    ['what is forbidden goes before a new login', [call('pay'), call('delete_order')], holder('use'), 403],
    ['what one of a batch needs of a login', [call('pay'), message('tools/list')], holder('use'), 401],
    [
      'a message with escapes',
      '{"m\\u0065thod":"tools\\/call", "params":{"name":"read_\\u0061"}}',
      holder('read'),
      200
    ],
    [
      'two spellings of a tool',
      '{"method":"tools/call","params":{"name":"read_a","n\\u0061me":"delete_order"}}',
      holder('read delete'),
      400
    ],
    ['no JSON', '{', holder('use'), 400],
    ['no body', '', holder('use'), 400],
    ['a message of another path', '{', holder('other'), 200, '/elsewhere']
  ]
  for (const [title, body, lines, status, path] of rows) {
    upstream.arrived.length = 0
    t.equal((await post(body, lines, path)).status, status, title)
    t.strictSame(
      upstream.arrived.map(({ body }) => body),
      status === 200 ? [bytesOf(body)] : [],
      `${title}: the upstream`
    )
  }
  const chunks = (
    ...parts: string[]
  ) => [
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
    '',
    ...parts.flatMap(part => [Buffer.byteLength(part, 'latin1').toString(16), part]),
    '0'
  ]
  const text = bytesOf(call('read_a'))
  upstream.arrived.length = 0
  const lines = [
    'POST /mcp HTTP/1.1',
    `Host: ${new URL(url).host}`,
    'Connection: close',
    ...holder('read'),
    'Accept: text/event-stream'
  ]
  t.equal((await sendRaw(url, [...lines, ...chunks(...text)])).status, 200, 'each byte in a chunk of its own')
  t.strictSame(
    upstream.arrived.map((
      { body, headers }
    ) => [body, headers['accept'], headers['content-type'], 'authorization' in headers, headers['x-auth-scope']]),
    [[text, 'text/event-stream', 'application/json', false, 'read']]
  )
})

t.test('No spelling of the path leads past its rules to a wider one.', async t => {
  for (const exactPaths of [false, true]) {
    const { post, issuer, upstream, log } = await startSite(t, { exactPaths })
    const lines = bearerLines(issuer.token({ scope: 'other' }))
    for (const path of ['/mcp/', '/MCP', '/Mcp/', '/mcp;x', '/m%63p/']) {
      t.equal((await post(call('delete_order'), lines, path)).status, exactPaths && path !== '/mcp;x' ? 200 : 400, path)
    }
    t.equal((await post(call('delete_order'), lines, '/mcp/x')).status, 200, 'another path')
    t.equal(upstream.arrived.length, exactPaths ? 5 : 1)
    if (!exactPaths) {
      t.hasStrict(log.filter(({ reason }) => reason === 'target_path').map(({ cause }) => cause), [
        'other_spelling',
        'other_spelling',
        'other_spelling',
        'path_parameter',
        'other_spelling'
      ])
    }
    t.hasStrict(log.find(({ event, path }) => event === 'wider_rule' && path === '/mcp'), {
      level: 40,
      wider: ['/*'],
      exactPaths
    })
  }
})

t.test('A refusal names what is missing, and a client without a token learns nothing about the rules.', async t => {
  const { post, issuer, upstream, reasons, send } = await startSite(t, {}, {
    PUBLIC_URL: undefined,
    RESOURCE: 'https://mcp.example'
  })
  const challengeOf = ({ headers }: WireAnswer) =>
    parseChallenges(headers['www-authenticate']!).find(({ scheme }) => scheme === 'Bearer')!.parameters
  const forbidden = await post(
    [message('tools/list'), call('delete_order')],
    bearerLines(issuer.token({ scope: 'use' }))
  )
  t.equal(forbidden.status, 403)
  const { resource_metadata: metadata, ...rest } = challengeOf(forbidden)
  t.match(metadata, /^https:\/\/mcp\.example\/\.well-known\/oauth-protected-resource/)
  t.strictSame(rest, {
    error: 'insufficient_scope',
    error_description: 'The access token lacks a permission that this resource needs.',
    scope: 'delete'
  })
  const old = challengeOf(await post(call('pay'), bearerLines(issuer.token())))
  t.strictSame([old['error'], old['max_age'], old['resource_metadata']], [
    'insufficient_user_authentication',
    '60',
    metadata
  ])
  const strange = [call('delete_order'), call('drop'), message('prompts/list'), '{', '', [], 'x'.repeat(100)]
  const answers = await Promise.all(strange.map(body => post(body)))
  for (const { status, body, headers } of answers) {
    t.strictSame([status, body, headers['www-authenticate']], [
      401,
      answers[0]!.body,
      answers[0]!.headers['www-authenticate']
    ])
  }
  t.strictSame(
    challengeOf(answers[0]!),
    { scope: 'use', resource_metadata: metadata },
    'the scope for the first message of each client'
  )
  t.equal((await post('{', bearerLines('x'))).status, 401, 'a token that does not pass is no better than none')
  t.strictSame([...new Set(reasons())], [
    'scope_missing',
    'authentication_too_old',
    'credentials_missing',
    'token_malformed'
  ])
  t.strictSame(upstream.arrived, [])
  const { scopes_supported: scopes } = JSON.parse((await send('GET', '/.well-known/oauth-protected-resource', [])).body)
  t.strictSame(scopes, ['delete', 'other', 'read', 'use'])
})

t.test('If some messages are open to anyone, the message decides whether credentials are checked.', async t => {
  const { post, issuer, upstream } = await startSite(t)
  const reader = bearerLines(issuer.token({ scope: 'read' }))
  const rows: Array<[title: string, path: string, body: unknown, lines: string[], status: number]> = [
    ['an open message', '/mixed', message('tools/list'), [], 200],
    ['an invalid token changes nothing there', '/mixed', message('tools/list'), bearerLines('x'), 200],
    ['a message that needs a token', '/mixed', call('read_a'), [], 401],
    ['a message that needs a token, with one', '/mixed', call('read_a'), reader, 200],
    ['both in a batch', '/mixed', [message('tools/list'), call('read_a')], [], 401],
    ['both in a batch, with a token', '/mixed', [message('tools/list'), call('read_a')], reader, 200],
    ['a message without a rule and a token', '/mixed', call('drop'), [], 401],
    ['a message without a rule', '/mixed', call('drop'), reader, 404],
    ['an unreadable body without a token', '/mixed', '{', [], 401],
    ['an unreadable body', '/mixed', '{', reader, 400],
    ['a guest where credentials are optional', '/guests', call('read_a'), [], 200],
    ['a guest and a tool that needs a token', '/guests', call('drop'), [], 401],
    ['a guest and a message without a rule', '/guests', message('x/y'), [], 401],
    ['a guest, both in a batch', '/guests', [call('read_a'), call('drop')], [], 401],
    ['an invalid token where it is optional', '/guests', call('read_a'), bearerLines('x'), 401],
    ['a token where it is optional', '/guests', call('read_a'), reader, 200],
    ['a token without an optional scope', '/guests', call('write'), reader, 403],
    ['a guest beside an optional scope', '/guests', call('write'), [], 200],
    ['a path where nothing needs a token', '/free', call('read_a'), [], 200],
    ['a path where nothing needs a token, and no rule holds', '/free', call('drop'), [], 404],
    ['a path where nothing needs a token, and an unreadable body', '/free', '{', [], 400]
  ]
  for (const [title, path, body, lines, status] of rows) {
    const before = upstream.arrived.length
    const { headers, ...answer } = await post(body, lines, path)
    t.equal(answer.status, status, title)
    t.equal(headers.vary, path === '/free' ? undefined : 'Authorization', `${title}: what a cache learns`)
    t.equal(upstream.arrived.length - before, status === 200 ? 1 : 0, `${title}: the upstream`)
  }
  t.equal(upstream.arrived[0]!.headers['x-auth-subject'], '', 'no caller is named')
})

t.test('Headers must agree with the body, and other methods than POST go by path and method.', async t => {
  const { post, send, issuer, upstream } = await startSite(t)
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const rows: Array<[lines: string[], status: number]> = [
    [['Mcp-Method: tools/call', 'Mcp-Name: read_a'], 200],
    [['Mcp-Method: tools/list'], 400],
    [['Mcp-Name: read_b'], 400],
    [['Mcp-Name: =?base64?cmVhZF9h?='], 200],
    [['Mcp-Name: =?base64?cmVhZF9i?='], 400],
    [['Content-Encoding: gzip'], 400],
    [['Content-Type: application/json'], 400]
  ]
  for (const [lines, status] of rows) {
    t.equal((await post(call('read_a'), [...user, ...lines])).status, status, lines.join(', '))
  }
  const { length } = upstream.arrived
  t.strictSame((await send('GET', '/mcp', user)).status, 200)
  t.strictSame((await send('GET', '/mcp', bearerLines(issuer.token()))).status, 403)
  t.strictSame((await send('DELETE', '/mcp', user)).status, 403, 'a less specific path, whose scope is another one')
  t.strictSame((await send('DELETE', '/all', user)).status, 200)
  t.equal(upstream.arrived.length, length + 2)
})

t.test('A proof passes once, whatever becomes of its messages.', async t => {
  const { post, issuer, url, upstream } = await startSite(t)
  const client = await createDpopClient()
  const token = issuer.token({ scope: 'use read', cnf: client.cnf })
  const linesOf = () => dpopLines(token, client.proof({ token, url: `${url}/mcp`, method: 'POST' }))
  for (
    const [body, status] of [
      [[message('tools/list'), call('read_a'), call('read_b')], 200],
      [call('delete_order'), 403],
      [call('drop'), 404],
      ['{', 400]
    ] as const
  ) {
    const lines = linesOf()
    t.equal((await post(body, lines)).status, status)
    t.equal((await post(body, lines)).status, 401)
    t.equal((await post(call('read_a'), lines)).status, 401)
  }
  const mixed = dpopLines(token, client.proof({ token, url: `${url}/mixed`, method: 'POST' }))
  t.strictSame([
    (await post(call('read_a'), mixed, '/mixed')).status,
    (await post(call('read_a'), mixed, '/mixed')).status
  ], [200, 401])
  t.equal(upstream.arrived.length, 2)
})

t.test('A body has a maximum size and a time limit, and a client gets 100 only with credentials that pass.', async t => {
  const { post, send, issuer, upstream } = await startSite(t)
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const sized = (size: number) => `{"method":"tools/list","params":{"x":"${'x'.repeat(size - 41)}"}}`
  t.equal(sized(100).length, 100)
  t.equal((await post(sized(MAX_MESSAGE_BYTES), user)).status, 200)
  t.equal(upstream.arrived[0]!.body, sized(MAX_MESSAGE_BYTES))
  const large = await post(sized(MAX_MESSAGE_BYTES + 1), user)
  t.strictSame([large.status, large.headers['connection'], JSON.parse(large.body).error.message], [
    413,
    'close',
    'The body of the request is too large.'
  ])
  const chunked = ['Content-Type: application/json', 'Transfer-Encoding: chunked', '']
  const over = sized(MAX_MESSAGE_BYTES + 1)
  t.equal((await send('POST', '/mcp', [...user, ...chunked, over.length.toString(16), over, '0'])).status, 413)
  t.equal((await post(sized(MAX_MESSAGE_BYTES + 1), [])).status, 401)
  const expecting = (
    body: string
  ) => ['Content-Type: application/json', 'Expect: 100-continue', `Content-Length: ${body.length}`, '', body]
  t.equal((await send('POST', '/mcp', expecting(sized(100)))).status, 401, 'no 100 without a token')
  t.equal(
    (await send('POST', '/mcp', [...user, ...expecting(over)])).status,
    413,
    'no 100 for a body that is too large'
  )
  const passed = await send('POST', '/mcp', [...user, ...expecting(sized(100))])
  t.equal(passed.status, 100)
  t.match(passed.body, /^HTTP\/1\.1 200 /, 'once')
  t.equal(
    (await send('POST', '/mcp', [
      ...user,
      'Content-Type: application/json',
      'Transfer-Encoding: gzip, chunked',
      '',
      '0',
      ''
    ])).status,
    501
  )

  const hasty = await startSite(t, { timeoutSeconds: 1 })
  const socket = connect(Number(new URL(hasty.url).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  const lines = bearerLines(hasty.issuer.token({ scope: 'use read' }))
  socket.write(['POST /mcp HTTP/1.1', 'Host: a', ...lines, ...chunked, '1', '{', ''].join('\r\n'))
  const drip = setInterval(() => socket.write('1\r\n \r\n'), 100)
  const [answer] = await once(socket, 'data')
  clearInterval(drip)
  t.match(String(answer), /^HTTP\/1\.1 408 [^]*The body of the request is too slow\./, 'a body that never ends')
  t.equal(upstream.arrived.length, 2)
})

t.test('A client that goes while its body is read leaves nothing behind.', async t => {
  const { issuer, upstream, url, app } = await startSite(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const read = new Promise<void>(resolve =>
    app.server.prependOnceListener('request', request => request.once('resume', resolve))
  )
  socket.write(
    [
      'POST /mcp HTTP/1.1',
      'Host: a',
      ...bearerLines(issuer.token({ scope: 'use' })),
      'Content-Type: application/json',
      'Content-Length: 100',
      '',
      '{'
    ].join('\r\n')
  )
  await read
  socket.destroy()
  while (app.connections.open.size > 0) await new Promise(setImmediate)
  t.strictSame(upstream.arrived, [])
})

t.test('A request for another protocol has no message to judge, and is refused; with a body it is a plain one.', async t => {
  const { send, issuer, upstream } = await startSite(t)
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Content-Type: application/json']
  const user = bearerLines(issuer.token())
  const body = bytesOf(message('tools/list'))
  for (const lines of [[`Content-Length: ${body.length}`, '', body], []]) {
    t.equal((await send('POST', '/upgrades', [...upgrade, ...lines])).status, 401)
    const isPlain = lines.length > 0
    t.equal((await send('POST', '/upgrades', [...upgrade, ...user, ...lines])).status, isPlain ? 200 : 400)
  }
  t.strictSame(upstream.arrived.map(({ body, headers }) => [body, headers['upgrade']]), [[body, undefined]])
})

t.test('Log and metrics name the rule, and of the words of a client plain ones that lack a rule, in the log alone.', async t => {
  const { post, send, issuer, log } = await startSite(t)
  const lines = bearerLines(issuer.token({ scope: 'use read' }))
  await post([message('tools/list'), call('read_secret'), call('read_other')], lines)
  await post(call('delete_order'), lines)
  await post(message('plain/word'), lines)
  await post(call('drop_order.v2'), lines)
  for (const odd of ['x'.repeat(65), 'secret word', 's:ecret']) {
    await post(call(odd), lines)
    await post(message(odd), lines)
  }
  await post(message('tasks/get', { taskId: 'secret' }), lines)
  await post('{', lines)
  await post(call('secret'), lines, '/all')
  t.strictSame(log.filter(({ msg }) => msg === 'request answered').map(({ status, mcp }) => [status, mcp]), [
    [200, 'tools/list, tools/call read_*'],
    [403, 'tools/call delete_order'],
    ...Array(9).fill([404, undefined]),
    [400, undefined],
    [200, 'any']
  ])
  t.strictSame(log.filter(({ reason }) => reason === 'no_rule').map(({ method, mcp, route, path }) => [method, mcp, route, path]), [
    ['POST', 'plain/word', '/mcp', undefined],
    ['POST', 'tools/call drop_order.v2', '/mcp', undefined],
    ...Array(3).fill([['POST', 'tools/call', '/mcp', undefined], ['POST', undefined, '/mcp', undefined]]).flat(),
    ['POST', 'tasks/get', '/mcp', undefined]
  ])
  t.strictSame(log.filter(({ reason }) => reason === 'message_refused').map(({ fault, route }) => [fault, route]), [[
    'The body is not JSON.',
    '/mcp'
  ]])
  const { body } = await send('GET', '/metrics', [])
  t.strictSame(body.split(/\r?\n/).filter(line => line.startsWith('holdfast_mcp_messages_total')).sort(), [
    'holdfast_mcp_messages_total{path="/all",result="passed"} 1',
    'holdfast_mcp_messages_total{path="/mcp",method="tools/call",tool="delete_order",result="refused"} 1',
    'holdfast_mcp_messages_total{path="/mcp",method="tools/call",tool="read_*",result="passed"} 2',
    'holdfast_mcp_messages_total{path="/mcp",method="tools/list",result="passed"} 1',
    'holdfast_mcp_messages_total{path="/mcp",result="unjudged"} 10'
  ])
  t.notMatch(JSON.stringify(log) + body, /secret|ecret|xxx/)
  t.notMatch(body, /drop_order|plain/)
})

t.test('Of the forward-auth proxies only Envoy sends the body, and a refused message is 403 for it.', async t => {
  const { send, issuer, log, url } = await startSite(t, {}, { TRUST_PROXY: 'loopback' })
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  t.strictSame(log.filter(({ event }) => event === 'message_rules').map(({ paths }) => paths), [[
    '/mcp',
    '/all',
    '/mixed',
    '/free',
    '/guests',
    '/upgrades'
  ]])
  const { log: unasked } = await startSite(t)
  t.notOk(unasked.some(({ event }) => event === 'message_rules'), 'a reverse proxy that trusts no peer is not asked')
  const WHOLE = 'X-Envoy-Auth-Partial-Body: false'
  const ask = async (body: string, lines: string[], path = '/mcp') =>
    (await send('POST', `/verify/envoy${path}`, [
      'X-Forwarded-Proto: http',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      ...lines,
      '',
      body
    ])).status
  const read = bytesOf(call('read_a'))
  const rows: Array<[title: string, body: string, lines: string[], status: number, path?: string]> = [
    ['a message that passes', read, [...user, WHOLE], 200],
    ['no token', read, [WHOLE], 401],
    ['no token and no body', '', [], 401],
    ['a tool without its scope', bytesOf(call('delete_order')), [...user, WHOLE], 403],
    ['an old login', bytesOf(call('pay')), [...user, WHOLE], 401],
    ['a message without a rule', bytesOf(call('drop')), [...user, WHOLE], 403],
    ['no JSON', '{', [...user, WHOLE], 403],
    ['a body that was not sent', '', [...user, WHOLE], 403],
    ['a part of a body', read, [...user, 'X-Envoy-Auth-Partial-Body: true'], 403],
    ['a body without a header that says it is whole', read, user, 403],
    ['a part of a body, and the client says that it is whole', read, [
      ...user,
      WHOLE,
      'X-Envoy-Auth-Partial-Body: true'
    ], 403],
    ['a header that says something else', read, [...user, WHOLE, 'Mcp-Name: delete_order'], 403],
    ['too large a body', 'x'.repeat(MAX_MESSAGE_BYTES + 1), [...user, WHOLE], 403],
    ['a path without such a rule', '', bearerLines(issuer.token({ scope: 'other' })), 200, '/elsewhere']
  ]
  for (const [title, body, lines, status, path] of rows) t.equal(await ask(body, lines, path), status, title)
  const forwarded = (
    method: string
  ) => [
    `X-Forwarded-Method: ${method}`,
    'X-Forwarded-Proto: http',
    `X-Forwarded-Host: ${new URL(url).host}`,
    'X-Forwarded-Uri: /mcp'
  ]
  const original = (method: string) => [`X-Original-Method: ${method}`, `X-Original-URL: ${url}/mcp`]
  for (const [path, linesFor] of [['forwarded', forwarded], ['nginx', original], ['haproxy', original]] as const) {
    const ask = async (method: string, lines: string[]) =>
      (await send('POST', `/verify/${path}`, [
        'Content-Type: application/json',
        `Content-Length: ${read.length}`,
        WHOLE,
        ...linesFor(method),
        ...lines,
        '',
        read
      ])).status
    t.strictSame([await ask('POST', user), await ask('GET', user), await ask('POST', [])], [403, 200, 403], path)
  }
  t.strictSame([...new Set(log.filter(({ reason }) => reason === 'question_refused').map(({ fault }) => fault))], [
    'The body is not JSON.',
    'The authorization request has only a part of the original body.',
    'The authorization request lacks the header x-envoy-auth-partial-body.',
    'The authorization request has the header x-envoy-auth-partial-body more than once.',
    'The Mcp-Name header does not say what the body says.',
    'The body of the request is too large.',
    'The body of the request decides, and it is not part of this authorization request.'
  ])
})

t.test('Unfinished bodies of one caller, whatever its tokens, give way to its next one, and take no room of others.', async t => {
  const { post, send, issuer, url, upstream, log } = await startSite(t, { timeoutSeconds: 60 }, { TRUST_PROXY: true })
  let tokens = 0
  const user = () => bearerLines(issuer.token({ scope: 'use', jti: `${tokens++}` }))
  const body = bytesOf({ method: 'tools/list', params: { x: 'x'.repeat(MAX_MESSAGE_BYTES - 100) } })
  const evicted: string[] = []
  const hold = (address: string, lines = user()) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {}).on('data', text => evicted.push(String(text)))
    socket.write(
      [
        'POST /mcp HTTP/1.1',
        'Host: a',
        `X-Forwarded-For: 192.0.2.9, ${address}`,
        ...lines,
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
        '',
        body.slice(0, -1)
      ].join('\r\n')
    )
  }
  const most = MAX_CALLER_BYTES / MAX_MESSAGE_BYTES
  for (let count = 0; count < most; count++) hold(`2001:db8:0:${count}::1`)
  const other = bearerLines(issuer.token({ scope: 'use', sub: 'other' }))
  t.equal((await post(body, other)).status, 200, 'another caller')
  t.strictSame(evicted, [])
  // They may still be on their way.
  while (evicted.length === 0) {
    const asked = await send('POST', '/verify/envoy/mcp', [
      'X-Forwarded-Proto: http',
      'X-Envoy-Auth-Partial-Body: false',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      ...user(),
      '',
      body
    ])
    t.equal(asked.status, 200, 'the caller itself')
  }
  t.match(evicted[0]!, /^HTTP\/1.1 503 [^]*\r\nretry-after: 1\r\n/i)
  t.match(evicted[0]!, /\r\nconnection: close\r\n/i)
  t.equal((await post(body, user())).status, 200)
  t.equal(upstream.arrived.at(-1)!.body, body)

  const mostOfAddress = MAX_ADDRESS_BYTES / MAX_MESSAGE_BYTES
  for (let count = 0; count < mostOfAddress; count++) {
    hold(`2001:db8:1:1::${count + 1}`, bearerLines(issuer.token({ scope: 'use', sub: `of-${count}` })))
  }
  const before = evicted.length
  const from = (addresses: string) => [...other, `X-Forwarded-For: ${addresses}`]
  t.equal((await post(body, from('2001:db8:1:1::1, 2001:db8:2::1'))).status, 200)
  t.equal(evicted.length, before, 'what a client writes before the word of the nearest proxy names nobody')
  while (evicted.length === before) t.equal((await post(body, from('2001:db8:1:1:ffff::1'))).status, 200, 'of that /64')
  t.strictSame(log.filter(({ level }) => level >= 50), [])
  t.ok(log.some(({ msg, fault }) => msg === 'request refused' && fault === 'Too many bodies are being read.'))
})

t.test(
  '620 connections of one address, each with a token of its own, take the share of that address: all others are ' +
    'served, and nothing is an error.',
  async t => {
    const { post, send, issuer, url, upstream, log } = await startSite(t, { timeoutSeconds: 60 })
    const body = bytesOf({ method: 'tools/list', params: { x: 'x'.repeat(MAX_MESSAGE_BYTES - 100) } })
    const [CONNECTIONS, SENT] = [620, 104 * 1024]
    let refused = 0
    for (let n = 0; n < CONNECTIONS; n++) {
      const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress: '127.0.0.2' })
      t.teardown(() => socket.destroy())
      socket.on('error', () => {}).once('data', answer => {
        if (String(answer).startsWith('HTTP/1.1 503 ')) refused++
      })
      socket.write(
        [
          'POST /mcp HTTP/1.1',
          'Host: a',
          ...bearerLines(issuer.token({ scope: 'use', sub: `of-${n}` })),
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          '',
          body.slice(0, SENT)
        ].join('\r\n')
      )
    }
    await until('the share is taken', () => refused >= CONNECTIONS - Math.floor(MAX_ADDRESS_BYTES / SENT))
    const users = Array.from({ length: 16 }, (_, n) => bearerLines(issuer.token({ scope: 'use', sub: `good-${n}` })))
    t.strictSame(
      (await Promise.all(users.map(user => post(body, user)))).map(({ status }) => status),
      users.map(() => 200),
      'bodies as large as they may be, of another address'
    )
    t.equal((await send('GET', '/mcp', users[0]!)).status, 200)
    t.equal(upstream.arrived.length, users.length + 1)
    t.strictSame(log.filter(({ level }) => level >= 50), [])
    t.equal(
      log.filter(({ reason, fault }) => reason === 'message_refused' && fault === 'Too many bodies are being read.')
        .length,
      refused
    )
    t.notOk(log.some(line => 'err' in line), 'no stack')
  }
)
