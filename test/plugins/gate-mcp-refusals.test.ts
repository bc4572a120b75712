import t from 'tap'
import { REFUSALS } from '../../lib/refusal.ts'
import { MAX_MESSAGE_BYTES } from '../../lib/gate/message-body.ts'
import { bearerLines } from '../helpers/call.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { bytesOf, call, message, reply, startSite } from '../helpers/mcp-site.ts'
import type { WireAnswer } from '../helpers/wire.ts'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const METADATA = 'https://mcp.example/.well-known/oauth-protected-resource'

/** In both forms of the protocol: with `initialize` and sessions, and with all that a request needs in each request. */
const legacy = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 7, method, params })
const modern = (method: string, params: object = {}) => ({
  jsonrpc: '2.0',
  id: 'a-7',
  method,
  params: { ...params, _meta: { [VERSION]: '2026-07-28' } }
})

const errorOf = ({ body }: WireAnswer): { code: number, message: string, data?: unknown } => JSON.parse(body).error

t.test('The body of a refused message is parsed once, also for the id of its answer.', async t => {
  const { post, issuer } = await startSite(t, {}, { RESOURCE: 'https://mcp.example' })
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const parse = t.capture(JSON, 'parse', JSON.parse)
  const whole = JSON.stringify(legacy('tools/call', { name: 'drop' }))
  const rows: Array<[body: string, status: number, id: unknown, lines: string[]]> = [
    [whole, 404, 7, []],
    [`${whole} `, 400, 7, ['Content-Encoding: identity']],
    ['{"id":7', 400, null, []],
    ['{"id":8', 400, null, ['Content-Encoding: identity']]
  ]
  for (const [body, status, id, lines] of rows) {
    const answer = await post(body, [...user, ...lines])
    t.equal(answer.status, status)
    t.equal(JSON.parse(answer.body).id, id)
    t.equal(parse().filter(({ args: [text] }) => text === body).length, 1, body)
  }
})

t.test('A refusal after the body was read is a JSON-RPC error with the id of the request, so that a session lives on.', async t => {
  const { post, issuer, upstream } = await startSite(t, {}, { RESOURCE: 'https://mcp.example' })
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const sentence = (reason: keyof typeof REFUSALS) => REFUSALS[reason].description
  const lacking = `${sentence('scope_missing')} Missing: delete. (tool delete_order)`
  const rows: Array<
    [
      title: string,
      body: unknown,
      status: number,
      id: unknown,
      code: number,
      message: string,
      data?: object,
      lines?: string[]
    ]
  > = [
    [
      'a tool without a rule',
      legacy('tools/call', { name: 'drop' }),
      404,
      7,
      -32602,
      'No rule holds for what the message names.'
    ],
    [
      'the same in the newer form',
      modern('tools/call', { name: 'drop' }),
      404,
      'a-7',
      -32602,
      'No rule holds for what the message names.'
    ],
    [
      'a prompt without a rule',
      legacy('prompts/get', { name: 'x' }),
      404,
      7,
      -32602,
      'No rule holds for what the message names.'
    ],
    [
      'a resource without a rule',
      modern('resources/read', { uri: 'x:y' }),
      404,
      'a-7',
      -32602,
      'No rule holds for what the message names.'
    ],
    [
      'a task without a rule',
      modern('tasks/get', { taskId: 'x' }),
      404,
      'a-7',
      -32602,
      'No rule holds for what the message names.'
    ],
    ['a method without a rule', legacy('prompts/list'), 404, 7, -32601, 'No rule holds for the method of the message.'],
    [
      'the same in the newer form',
      modern('server/discover'),
      404,
      'a-7',
      -32601,
      'No rule holds for the method of the message.'
    ],
    ['a missing scope', legacy('tools/call', { name: 'delete_order' }), 403, 7, -32000, lacking, {
      reason: 'scope_missing',
      scope: 'delete',
      tool: 'delete_order'
    }],
    [
      'the same in the newer form',
      modern('tools/call', { name: 'delete_order' }),
      403,
      'a-7',
      -32000,
      lacking,
      { reason: 'scope_missing', scope: 'delete', tool: 'delete_order' }
    ],
    [
      'an old login',
      legacy('tools/call', { name: 'pay' }),
      401,
      7,
      -32000,
      `${sentence('authentication_too_old')} (tool pay)`,
      { reason: 'authentication_too_old', tool: 'pay' }
    ],
    ['no JSON', '{"id":7,', 400, null, -32700, 'The body is not JSON.'],
    ['a byte order mark', '\ufeff{"id":7,"method":"tools/list"}', 400, null, -32700, 'The body is not JSON.'],
    [
      'neither a request nor a response',
      { id: 7 },
      400,
      7,
      -32600,
      'A message is neither a request nor a response.'
    ],
    ['no taskId', modern('tasks/get'), 400, 'a-7', -32600, 'The name in a message is not a text.'],
    [
      'a taskId in another case',
      modern('tasks/get', { taskid: 'x', taskId: 'x' }),
      400,
      'a-7',
      -32600,
      'A member differs from a known one by case alone.'
    ],
    [
      'two members of one name',
      '{"id":7,"method":"tools/list","id":8}',
      400,
      null,
      -32600,
      'An object in the body has two members of one name.'
    ],
    [
      'too many levels',
      `{"id":7,"method":"tools/list","params":{"x":${'['.repeat(70)}${']'.repeat(70)}}}`,
      400,
      null,
      -32600,
      'The body has too many levels or values.'
    ],
    ['a content coding', legacy('tools/list'), 400, 7, -32600, 'The body has a content coding.', undefined, [
      'Content-Encoding: gzip'
    ]],
    [
      'a header with another method',
      legacy('tools/list'),
      400,
      7,
      -32020,
      'The Mcp-Method header does not say what the body says.',
      undefined,
      ['Mcp-Method: tools/call']
    ],
    [
      'a header with the beginning of the method',
      modern('tools/list'),
      400,
      'a-7',
      -32020,
      'The Mcp-Method header does not say what the body says.',
      undefined,
      ['Mcp-Method: tools/li']
    ],
    [
      'a header with the beginning of the name',
      modern('tools/call', { name: 'read_all' }),
      400,
      'a-7',
      -32020,
      'The Mcp-Name header does not say what the body says.',
      undefined,
      ['Mcp-Name: read_a']
    ],
    [
      'a header with another revision',
      modern('tools/list'),
      400,
      'a-7',
      -32020,
      'The MCP-Protocol-Version header does not say what the body says.',
      undefined,
      ['MCP-Protocol-Version: 2025-11-25']
    ],
    [
      'a notification without a rule',
      { jsonrpc: '2.0', method: 'notifications/cancelled' },
      404,
      null,
      -32601,
      'No rule holds for the method of the message.'
    ],
    [
      'a response without a rule: the server chose its id',
      reply,
      404,
      null,
      -32601,
      'No rule holds for the method of the message.'
    ],
    [
      'a batch of both forms',
      [legacy('tools/list'), modern('tools/call', { name: 'drop' })],
      404,
      null,
      -32602,
      'No rule holds for what the message names.'
    ],
    [
      'a batch of both forms that lacks a scope',
      [legacy('tools/list'), modern('tools/call', { name: 'delete_order' })],
      403,
      null,
      -32000,
      `${sentence('scope_missing')} Missing: delete.`,
      { reason: 'scope_missing', scope: 'delete' }
    ],
    ['too large', 'x'.repeat(MAX_MESSAGE_BYTES + 1), 413, null, -32600, 'The body of the request is too large.']
  ]
  for (const [title, body, status, id, code, text, given, lines = []] of rows) {
    const data = given ?? { reason: status === 404 ? 'no_rule' : 'message_refused' }
    const answer = await post(body, [...user, ...lines])
    t.equal(answer.status, status, title)
    t.match(answer.headers['content-type'], /^application\/json/, title)
    t.equal(answer.headers['cache-control'], 'no-store', title)
    t.strictSame(
      JSON.parse(answer.body),
      { jsonrpc: '2.0', id, error: { code, message: text, data } },
      title
    )
  }
  t.strictSame(upstream.arrived, [])
  const forbidden = parseChallenges(
    (await post(modern('tools/call', { name: 'delete_order' }), user)).headers['www-authenticate']!
  )
  for (
    const { parameters: { scope, resource_metadata: metadata } } of forbidden.filter(({ scheme }) =>
      scheme === 'Bearer'
    )
  ) t.strictSame([scope, metadata], ['delete', METADATA])
  t.equal(
    (await post(modern('tools/list'), [...user, 'MCP-Protocol-Version: 2026-07-28', 'Mcp-Method: tools/list'])).status,
    200,
    'what the headers repeat passes'
  )
})

t.test('The id of a refusal is written as the request wrote it, and as long.', async t => {
  const { post, issuer } = await startSite(t)
  const user = bearerLines(issuer.token({ scope: 'use' }))
  const long = `"${'i'.repeat(1_000_000)}"`
  const ids = [
    '1',
    '0',
    '-1',
    '1.0',
    '1e400',
    '12345678901234567890',
    '"1"',
    '"\\u0061\\/"',
    '"caf\u00e9"',
    long
  ]
  const none = ['null', 'true', '[1]', '{"a":[1,{"b":"}]"}],"method":2}']
  for (const id of [...ids, ...none]) {
    for (
      const body of [
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"id":9,"name":"drop"}}`,
        `{"params":{"name":"drop","id":9}, "method" : "tools/call" , "\\u0069d" :\t${id} }`
      ]
    ) {
      const answer = await post(body, user)
      t.equal(answer.status, 404)
      t.ok(
        Buffer.from(answer.body, 'latin1').toString().startsWith(`{"jsonrpc":"2.0","id":${none.includes(id) ? null : id},"error":{"code":-32602,`),
        id.slice(0, 50)
      )
    }
  }
})

t.test('A refusal before the body is read has the plain body of every refusal.', async t => {
  const { post, issuer } = await startSite(t)
  for (
    const [lines, reason] of [[[], 'credentials_missing'], [bearerLines('x'), 'token_malformed'], [
      bearerLines(issuer.token({ aud: 'other' })),
      'token_audience'
    ]] as const
  ) {
    t.strictSame(JSON.parse((await post(call('drop'), lines)).body), {
      statusCode: 401,
      error: 'Unauthorized',
      message: REFUSALS[reason].description
    })
  }
  const asked = await post(call('read_a'), [], '/mixed')
  t.strictSame([asked.status, errorOf(asked)], [401, {
    code: -32000,
    message: REFUSALS.credentials_missing.description,
    data: { reason: 'credentials_missing' }
  }], 'where the body says whether a token is needed, it was read')
  const detailed = await startSite(t, {}, { ERROR_BODY: 'detailed' })
  t.equal(
    errorOf(await detailed.post(call('drop'), bearerLines(detailed.issuer.token()))).code,
    -32602,
    'whatever form the other errors have'
  )
})

t.test('An upstream that fails is an error of the protocol too, and its own answers pass as they came.', async t => {
  let answered = (status: number) => {
    t.fail(String(status))
  }
  const { post, issuer, upstream } = await startSite(t, {}, {}, (request, response) => {
    request.resume()
    if (request.url === '/all?gone') return request.socket.destroy()
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"its":"own"}')
    answered(404)
  })
  const user = bearerLines(issuer.token({ scope: 'use' }))
  const fault = (message: string) => ({ jsonrpc: '2.0', id: 1, error: { code: -32603, message } })
  const gone = await post(message('ping'), user, '/all?gone')
  t.strictSame([gone.status, JSON.parse(gone.body)], [502, fault('Bad Gateway')])
  const hasty = await startSite(t, { timeoutSeconds: 1 }, {}, () => {})
  const silent = await hasty.post(message('ping'), bearerLines(hasty.issuer.token({ scope: 'use' })), '/all')
  t.strictSame([silent.status, JSON.parse(silent.body)], [504, fault('Gateway Timeout')])
  issuer.outage = 500
  const unknown = await post(call('read_a'), bearerLines(issuer.token({}, { kid: 'k2' })), '/mixed')
  t.strictSame([unknown.status, JSON.parse(unknown.body).error.code], [503, -32603], 'so is a provider that fails')
  answered = () => {}
  const own = await post(message('ping'), user, '/all')
  t.strictSame([own.status, own.body], [404, '{"its":"own"}'])
  t.ok(upstream.connections > 0)
})

t.test(
  'The first 401 has the scope for what the headers name, else for what each client begins with; the headers ' +
    'never decide.',
  async t => {
    const begin = (...methods: string[]) => ({
      path: '/mcp',
      mcp: { methods },
      scope: `${methods[0]!.split('/').pop()}`
    })
    const tools = [{ path: '/mcp', mcp: { tools: ['read_*'] }, scope: 'read' }, {
      path: '/mcp',
      mcp: { tools: ['pay'] },
      scope: ['use', 'pay']
    }]
    const rows: Array<[title: string, rules: object[], lines: string[], scope: string | undefined]> = [
      ['what each client of sessions begins with', [begin('initialize'), ...tools], [], 'initialize'],
      ['what a client without sessions begins with', [begin('server/discover'), ...tools], [], 'discover'],
      ['of both the first', [begin('server/discover'), begin('initialize'), ...tools], [], 'initialize'],
      ['neither', tools, [], undefined],
      ['a method that the header names', [begin('initialize'), begin('server/discover'), ...tools], [
        'Mcp-Method: server/discover'
      ], 'discover'],
      [
        'a tool that the headers name',
        [begin('initialize'), ...tools],
        ['Mcp-Method: tools/call', 'Mcp-Name: pay'],
        'use pay'
      ],
      ['a tool in base64', [begin('initialize'), ...tools], [
        'Mcp-Method: tools/call',
        'Mcp-Name: =?base64?cmVhZF/DqQ==?='
      ], 'read'],
      [
        'a tool without a rule',
        [begin('initialize'), ...tools],
        ['Mcp-Method: tools/call', 'Mcp-Name: drop'],
        'initialize'
      ],
      ['a name without a method', [begin('initialize'), ...tools], ['Mcp-Name: pay'], 'initialize'],
      ['the rule for the whole path', [{ path: '/mcp', mcp: {}, scope: 'all' }, ...tools], [], 'all'],
      [
        'beside messages that anyone may send',
        [{ path: '/mcp', mcp: { methods: ['initialize'] }, allow: 'anyone' }, begin('server/discover'), ...tools],
        [],
        'discover'
      ]
    ]
    for (const [title, rules, lines, scope] of rows) {
      const { post, issuer, upstream } = await startSite(t, { rules })
      const answer = await post(call('drop'), lines)
      t.equal(answer.status, 401, title)
      t.strictSame(parseChallenges(answer.headers['www-authenticate']!).map(({ parameters }) => parameters.scope), [
        scope,
        scope
      ], title)
      t.equal(
        (await post(call('pay'), [
          ...bearerLines(issuer.token({ scope: 'use pay' })),
          ...lines.filter(line => !line.startsWith('Mcp-'))
        ])).status,
        200,
        `${title}: with a token`
      )
      t.equal(upstream.arrived.length, 1)
    }
  }
)

t.test('What an Mcp-Name repeats follows from the method; at a method of an extension it goes on unjudged.', async t => {
  const methods = [
    'tools/list',
    'prompts/get',
    'resources/read',
    'resources/subscribe',
    'tasks/get',
    'tasks/update',
    'tasks/cancel',
    'tasks/result',
    'subscriptions/listen',
    'x.example/run'
  ]
  const { post, issuer, upstream } = await startSite(t, {
    rules: [{ path: '/mcp', mcp: { methods } }, { path: '/mcp', mcp: { tools: ['*'] } }]
  })
  const user = bearerLines(issuer.token())
  const named = { name: 'a', uri: 'b', taskId: 'c' }
  const rows: Array<[method: string, params: object, name: string, status: number]> = [
    ['tools/call', named, 'a', 200],
    ['prompts/get', named, 'a', 200],
    ['resources/read', named, 'b', 200],
    ['tasks/get', named, 'c', 200],
    ['tasks/update', named, 'c', 200],
    ['tasks/cancel', named, 'c', 200],
    ['tools/call', named, 'c', 400],
    ['resources/read', named, 'a', 400],
    ['tasks/get', named, 'a', 400],
    ['tools/list', named, 'a', 400],
    ['resources/subscribe', named, 'b', 400],
    ['tasks/result', named, 'c', 400],
    ['subscriptions/listen', {}, 'a', 400],
    ['x.example/run', {}, 'anything', 200],
    ['x.example/run', named, '=?base64?eA==?=', 200],
    ['tools/call', { name: '\u00e9' }, '=?base64?w6k=?=', 200],
    ['tools/call', { name: '\u00e9' }, '=?BASE64?w6k=?=', 400],
    ['tools/call', { name: '' }, '=?base64??=', 200],
    ['tools/call', { name: '=?base64?w6k?=' }, '=?base64?w6k?=', 200],
    ['tools/call', { name: '\u00e9' }, '=?base64?w6k?=', 400],
    ['tools/call', { name: '\ufffd' }, '=?base64?/w==?=', 400]
  ]
  for (const [method, params, name, status] of rows) {
    upstream.arrived.length = 0
    const answer = await post(message(method, params), [...user, `Mcp-Name: ${name}`])
    t.equal(answer.status, status, `${method} ${name}`)
    if (status === 400) t.equal(errorOf(answer).code, -32020)
    else t.equal(upstream.arrived[0]!.headers['mcp-name'], name)
  }
})

t.test('The revision in a header is compared only with one that the body states.', async t => {
  const { post, issuer } = await startSite(t)
  const user = bearerLines(issuer.token({ scope: 'use' }))
  const rows: Array<[title: string, meta: unknown, header: string | undefined, status: number]> = [
    ['the same', { [VERSION]: '2026-07-28' }, '2026-07-28', 200],
    ['no header', { [VERSION]: '2026-07-28' }, undefined, 200],
    ['a _meta without a revision', {}, '2026-07-28', 200],
    ['no _meta', undefined, '2025-11-25', 200],
    ['a _meta that is a list', ['2026-07-28'], '2025-11-25', 200],
    ['a _meta that is null', null, '2025-11-25', 200],
    ['another', { [VERSION]: '2026-07-28' }, '2025-11-25', 400],
    ['the beginning of it', { [VERSION]: '2026-07-28' }, '2026-07', 400],
    ['the same in two lines', { [VERSION]: '2026-07-28' }, '2026-07-28\r\nMCP-Protocol-Version: 2026-07-28', 400],
    ['a revision that is a number', { [VERSION]: 2026 }, '2026', 400]
  ]
  for (const [title, meta, header, status] of rows) {
    const answer = await post(message('tools/list', { _meta: meta }), [
      ...user,
      ...header === undefined ? [] : [`MCP-Protocol-Version: ${header}`]
    ])
    t.equal(answer.status, status, title)
  }
})

t.test('A batch of both forms passes if each of its messages would, and a header must fit them all.', async t => {
  const { post, issuer, upstream } = await startSite(t)
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const both = [legacy('tools/list'), modern('tools/call', { name: 'read_a' })]
  const rows: Array<[title: string, lines: string[], status: number]> = [
    ['no header', [], 200],
    ['the revision that one states and the other leaves out', ['MCP-Protocol-Version: 2026-07-28'], 200],
    ['another revision', ['MCP-Protocol-Version: 2025-11-25'], 400],
    ['the method of one', ['Mcp-Method: tools/call'], 400],
    ['the name of one', ['Mcp-Name: read_a'], 400]
  ]
  for (const [title, lines, status] of rows) t.equal((await post(both, [...user, ...lines])).status, status, title)
  t.strictSame(upstream.arrived.map(({ body }) => body), [bytesOf(both), bytesOf(both)])
})

t.test('A proxy that asks gets the same bodies, and 403 for what has no rule or cannot be judged.', async t => {
  const { send, issuer } = await startSite(t, {}, { TRUST_PROXY: 'loopback' })
  const ask = (body: unknown, lines: string[]) => {
    const bytes = bytesOf(body)
    return send('POST', '/verify/envoy/mcp', [
      'X-Forwarded-Proto: http',
      'X-Envoy-Auth-Partial-Body: false',
      'Content-Type: application/json',
      `Content-Length: ${bytes.length}`,
      ...lines,
      '',
      bytes
    ])
  }
  const user = bearerLines(issuer.token({ scope: 'use read' }))
  const rows: Array<[body: unknown, status: number, id: unknown, code: number]> = [
    [call('drop'), 403, 1, -32602],
    [message('prompts/list'), 403, 1, -32601],
    [call('delete_order'), 403, 1, -32000],
    [call('pay'), 401, 1, -32000],
    ['{', 403, null, -32700],
    [[], 403, null, -32600],
    ['x'.repeat(MAX_MESSAGE_BYTES + 1), 403, null, -32600]
  ]
  for (const [body, status, id, code] of rows) {
    const answer = await ask(body, user)
    t.strictSame([answer.status, JSON.parse(answer.body).id, errorOf(answer).code], [status, id, code])
  }
  t.equal((await ask(call('read_a'), user)).status, 200)
  const mismatch = await ask(call('read_a'), [...user, 'Mcp-Name: read_b'])
  t.strictSame([mismatch.status, errorOf(mismatch).code], [403, -32020])
  t.strictSame(JSON.parse((await ask(call('read_a'), [])).body).statusCode, 401)
})
