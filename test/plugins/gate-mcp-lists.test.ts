import { once } from 'node:events'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { createEventCutter } from '../../lib/gate/event-stream.ts'
import { shownToolsOnly } from '../../lib/gate/tool-list.ts'
import { bearerLines } from '../helpers/call.ts'
import { parseGate } from '../helpers/gate-section.ts'
import { call, message, startSite, type McpSite } from '../helpers/mcp-site.ts'
import { describe, type Arrived } from '../helpers/upstream.ts'

const MAX_LIST_BYTES = 1024 * 1024

const LIST = { path: '/mcp', mcp: { methods: ['tools/list', 'initialize'], onlyRuled: true }, scope: 'use' }
const RULES = [
  LIST,
  { path: '/mcp', mcp: { tools: ['read_*', 'pay'] }, scope: 'pay' },
  { path: '/mcp', methods: ['GET'], scope: 'use' },
  { path: '/all', mcp: { methods: ['tools/list'], onlyRuled: true } },
  { path: '/all', mcp: { methods: ['tools/call'] }, scope: 'pay' },
  { path: '/rest', mcp: { methods: ['tools/list'], onlyRuled: true } },
  { path: '/rest', mcp: {}, scope: 'pay' },
  { path: '/plain', mcp: { methods: ['tools/list'] } },
  { path: '/plain', methods: ['GET'] }
]

const JSON_TYPE = { 'content-type': 'application/json' }
const EVENTS = { 'content-type': 'text/event-stream' }
const tool = (name: string) =>
  `{"name":"${name}","inputSchema":{"minimum":1.0,"maximum":1e400,"x":12345678901234567890}}`
const result = (...tools: string[]) =>
  `{ "jsonrpc":"2.0", "id" : 1.0, "result" : { "nextCursor":"a\\u0062]", "tools" : [${tools.join(' ,\n')}], ` +
  '"ttlMs":5.0 } , "x":[{"tools":[{"name":"drop"}]}]}'
const kept = (...tools: string[]) =>
  `{ "jsonrpc":"2.0", "id" : 1.0, "result" : { "nextCursor":"a\\u0062]", "tools" : [${tools.join(',')}], ` +
  '"ttlMs":5.0 } , "x":[{"tools":[{"name":"drop"}]}]}'
const ALL = ['read_a', 'drop', 'pay', 'Read_a'].map(tool)
const RULED = kept(tool('read_a'), tool('pay'))

interface Answered {
  status?: number
  headers: Record<string, string>
  parts: ReadonlyArray<string | Buffer>
}

/** A gate before an upstream that answers as it is told, in parts that come one by one. */
async function startLists (
  t: Test
): Promise<McpSite & { answer (answered: Answered): void, arrived: Arrived[], user: string[] }> {
  let answered: Answered
  const arrived: Arrived[] = []
  const site = await startSite(t, { rules: RULES }, {}, async (request, response) => {
    request.resume()
    arrived.push(describe(request, ''))
    response.on('error', () => {})
    response.writeHead(answered.status ?? 200, answered.headers)
    for (const part of answered.parts) {
      response.write(part)
      await new Promise(setImmediate)
    }
    response.end()
  })
  return {
    ...site,
    answer: next => {
      answered = next
    },
    arrived,
    user: bearerLines(site.issuer.token({ scope: 'use' }))
  }
}

t.test(
  'A list of tools holds only those that a rule of the path names; what needs more scope stays, and all else is ' +
    'as it came.',
  async t => {
    const { post, answer, arrived, user } = await startLists(t)
    const whole = result(...ALL)
    const rows: Array<[title: string, path: string, body: string, expected: string]> = [
      ['tools with a rule', '/mcp', whole, RULED],
      ['none of them', '/mcp', result(tool('drop')), kept()],
      ['nothing to take out', '/mcp', result(tool('pay'), tool('read_x')), result(tool('pay'), tool('read_x'))],
      ['no tools', '/mcp', result(), result()],
      ['a rule for tools/call names all', '/all', whole, whole],
      ['a rule for the path names all', '/rest', whole, whole],
      ['a rule for the list alone', '/plain', whole, whole],
      [
        'an error of the upstream',
        '/mcp',
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"drop"}}',
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"drop"}}'
      ],
      ['a result without a list', '/mcp', '{"id":1,"result":{"name":"drop"}}', '{"id":1,"result":{"name":"drop"}}'],
      ['a result that is no object', '/mcp', '{"id":1,"result":[{"tools":5}]}', '{"id":1,"result":[{"tools":5}]}'],
      ['no message at all', '/mcp', '5', '5'],
      ['null', '/mcp', 'null', 'null'],
      ['an answer in a batch', '/mcp', `[${whole} , 5,${result(tool('drop'))}]`, `[${RULED} , 5,${kept()}]`]
    ]
    for (const [title, path, body, expected] of rows) {
      answer({
        headers: { ...JSON_TYPE, 'content-length': String(body.length), etag: '"1"', 'x-own': '1' },
        parts: [body.slice(0, 20), body.slice(20)]
      })
      const { status, body: got, headers } = await post(message('tools/list'), [...user, 'Accept-Encoding: gzip'], path)
      t.strictSame([status, got], [200, expected], title)
      t.strictSame([headers['content-length'], headers['x-own']], [String(expected.length), '1'], title)
      t.equal(headers['etag'], path === '/plain' ? '"1"' : undefined, title)
      t.equal(
        arrived.at(-1)!.headers['accept-encoding'],
        path === '/plain' ? 'gzip' : 'identity',
        `${title}: a coding is asked for only where the answer is not read`
      )
    }
    answer({ headers: JSON_TYPE, parts: [whole] })
    t.equal(
      (await post(message('initialize'), [...user, 'Accept-Encoding: gzip'])).body.includes(tool('drop')),
      true,
      'another method'
    )
    t.equal(arrived.at(-1)!.headers['accept-encoding'], 'gzip')
    for (const status of [202, 204, 206, 400, 404, 500]) {
      answer({ status, headers: JSON_TYPE, parts: status === 204 ? [] : [whole] })
      t.equal((await post(message('tools/list'), user)).status, status, 'another status')
    }
  }
)

t.test('A list that cannot be read is 502, as an error of the protocol.', async t => {
  const { post, answer, user, log } = await startLists(t)
  const sized = (bytes: number) => {
    const rest = result(tool('drop')).length
    return result(tool('drop')).replace('"ttlMs"', `"pad":"${'x'.repeat(bytes - rest - 9)}","ttlMs"`)
  }
  const rows: Array<[title: string, answered: Omit<Answered, 'headers'> & { headers?: Record<string, string> }]> = [
    ['2 MiB', { parts: [Buffer.alloc(2 * 1024 * 1024, ' '), result()] }],
    ['a byte too large', { parts: [sized(MAX_LIST_BYTES + 1)] }],
    ['broken JSON', { parts: [result(tool('drop')).slice(0, -1)] }],
    ['no body', { parts: [] }],
    ['no UTF-8', { parts: [Buffer.from('{"x":"\u00ff"}', 'latin1')] }],
    ['two members of one name', { parts: ['{"id":1,"result":{"tools":[]},"result":{"tools":[{"name":"drop"}]}}'] }],
    ['tools that are no list', { parts: ['{"id":1,"result":{"tools":{"name":"drop"}}}'] }],
    ['a tool that is no object', { parts: ['{"id":1,"result":{"tools":["drop"]}}'] }],
    ['a tool without a name', { parts: ['{"id":1,"result":{"tools":[{"title":"drop"}]}}'] }],
    ['a content coding', { headers: { ...JSON_TYPE, 'content-encoding': 'gzip' }, parts: [result()] }],
    ['events with a content coding', { headers: { ...EVENTS, 'content-encoding': 'br' }, parts: ['data: {}\n\n'] }],
    ['another content type', { headers: { 'content-type': 'text/html' }, parts: [result()] }],
    ['no content type', { headers: {}, parts: [result()] }]
  ]
  for (const [title, answered] of rows) {
    answer({ headers: JSON_TYPE, ...answered })
    const { status, body } = await post(message('tools/list'), user)
    t.strictSame([status, JSON.parse(body)], [502, {
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32603, message: 'Bad Gateway' }
    }], title)
  }
  t.equal(log.filter(({ msg }) => msg === 'request failed').length, rows.length)
  answer({
    headers: { 'content-type': 'Application/JSON; charset=utf-8', 'content-encoding': 'identity' },
    parts: [sized(MAX_LIST_BYTES)]
  })
  t.equal((await post(message('tools/list'), user)).status, 200, 'as large as it may be')
})

t.test('Beside such a rule a batch is refused, and without it a batch passes.', async t => {
  const { post, answer, user, arrived } = await startLists(t)
  answer({ headers: JSON_TYPE, parts: [result()] })
  const refused = await post([message('tools/list')], user)
  t.strictSame([refused.status, JSON.parse(refused.body)], [400, {
    jsonrpc: '2.0',
    id: null,
    error: { code: -32600, message: 'A batch is not accepted here.', data: { reason: 'message_refused' } }
  }])
  t.equal(arrived.length, 0)
  t.equal((await post([message('tools/list')], user, '/plain')).status, 200)
})

t.test(
  'The events of a stream are cut as lists are, however they are written and wherever they are cut in two; those ' +
    'of a GET too.',
  async t => {
    const { post, send, answer, user, arrived } = await startLists(t)
    const events = [
      ': first\n\n',
      `event: message\nid: 1\ndata: ${result(...ALL).replaceAll('\n', '')}\n\n`,
      'data: {"method":"notifications/progress","params":{"tools":[{"name":"drop"}]}}\r\n\r\n',
      `data: ${result(...ALL).replaceAll('\n', '\ndata:')}\nid: 2\n\n`,
      'id: 3\ndata\n\n',
      'event: endpoint\ndata: /messages?id=1\n\n',
      'retry: 5\r\r'
    ].join('')
    const ruled = kept(tool('read_a'), tool('pay'))
    const expected = [
      ': first\n\n',
      `event: message\nid: 1\ndata: ${ruled}\n\n`,
      'data: {"method":"notifications/progress","params":{"tools":[{"name":"drop"}]}}\r\n\r\n',
      `data: ${ruled}\nid: 2\n\n`,
      'id: 3\ndata\n\n',
      'event: endpoint\ndata: /messages?id=1\n\n',
      'retry: 5\r\r'
    ].join('')
    for (const parts of [[events], [...events], [events.slice(0, 100), events.slice(100)]]) {
      answer({ headers: { ...EVENTS, 'content-length': String(events.length) }, parts })
      for (
        const { status, body, headers } of [
          await post(message('tools/list'), user),
          await send('GET', '/mcp', [...user, 'Accept-Encoding: gzip'])
        ]
      ) {
        t.strictSame([status, headers['content-length']], [200, undefined])
        t.equal(withoutChunks(body), expected)
      }
      t.equal(arrived.at(-1)!.headers['accept-encoding'], 'identity')
    }
    const untouched = await send('GET', '/plain', [...user, 'Accept-Encoding: gzip'])
    t.equal(untouched.body, events)
    t.equal(arrived.at(-1)!.headers['accept-encoding'], 'gzip')
    answer({ headers: { 'content-type': 'text/html' }, parts: ['<p>drop'] })
    t.match((await send('GET', '/mcp', user)).body, /<p>drop/, 'a page is no list')
    answer({ headers: { ...EVENTS, 'content-encoding': 'gzip' }, parts: ['x'] })
    t.equal((await send('GET', '/mcp', user)).status, 502)
  }
)

/** The data of chunks (RFC 9112 section 7.1). */
function withoutChunks (body: string) {
  let data = ''
  for (let rest = body; rest !== '';) {
    const size = Number.parseInt(rest, 16)
    const start = rest.indexOf('\r\n') + 2
    data += rest.slice(start, start + size)
    rest = size === 0 ? '' : rest.slice(start + size + 2)
  }
  return data
}

t.test('An event that cannot be read ends the stream, and what came before has passed.', async t => {
  const { post, answer, user } = await startLists(t)
  for (
    const bad of [
      'data: {"id":\n\n',
      'data: {"result":{"tools":5}}\n\n',
      `data: "${'x'.repeat(MAX_LIST_BYTES)}`,
      `${'data: 1\n'.repeat(MAX_LIST_BYTES / 8)}\n`,
      'data: {"id":'
    ]
  ) {
    answer({ headers: EVENTS, parts: [': before\n\n', bad, 'data: {"result":{"tools":[]}}\n\n'] })
    const { status, body } = await post(message('tools/list'), user)
    t.equal(status, 200)
    t.match(body, /: before\n\n/)
    t.notMatch(body, /tools|0\r\n\r\n$/, bad.slice(0, 30))
  }
})

t.test('An event passes when it has come, and a comment at once.', async t => {
  let write: (text: string) => void
  const started = new Promise<void>(resolve => {
    startSite(t, { rules: RULES }, {}, (request, response) => {
      request.resume()
      response.writeHead(200, EVENTS).flushHeaders()
      write = text => response.write(text)
      resolve()
    }).then(async ({ issuer, url }) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      t.teardown(() => socket.destroy())
      const body = JSON.stringify(message('tools/list'))
      socket.write(
        [
          'POST /mcp HTTP/1.1',
          'Host: a',
          ...bearerLines(issuer.token({ scope: 'use' })),
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          '',
          body
        ].join('\r\n')
      )
      got = socket
    }).catch(t.threw)
  })
  let got: ReturnType<typeof connect>
  await started
  const next = async () => String((await once(got, 'data'))[0])
  t.match(await next(), /^HTTP\/1\.1 200 [^]*text\/event-stream/, 'the head does not wait for an event')
  write!(': ping\n')
  t.match(await next(), /: ping\n/)
  write!(`data: ${result(tool('drop'), tool('pay')).replaceAll('\n', '')}\n\n`)
  t.match(await next(), /"pay"/)
})

t.test('A byte order mark, an end of line in two chunks and an event without an end are read.', async t => {
  const seen: Array<[data: string, isMessage: boolean]> = []
  const read = async (...chunks: string[]) => {
    const cutter = createEventCutter({
      maxBytes: 100,
      tooLarge: () => new Error('too large'),
      cut: (data, isMessage) => {
        seen.push([data.toString(), isMessage])
        return data.includes('x') ? Buffer.from('1\n2') : data
      }
    })
    const source = new PassThrough()
    source.pipe(cutter)
    for (const chunk of chunks) source.write(chunk)
    source.end()
    let out = ''
    for await (const chunk of cutter) out += chunk
    return out
  }
  const rows: Array<[chunks: string[], out: string, ...events: Array<[string, boolean]>]> = [
    [['\ufeffdata: x\n\n'], 'data: 1\ndata: 2\n\n', ['x', true]],
    [['\ufeffdata: a\n\ufeffdata: b\n\n'], '\ufeffdata: a\n\ufeffdata: b\n\n', ['a', true]],
    [['data: x\r', '\n\r', '\n', 'data: a\r\r'], 'data: 1\r\ndata: 2\r\n\r\ndata: a\r\r', ['x', true], ['a', true]],
    [['data:x'], 'data: 1\ndata: 2\n', ['x', true]],
    [['id: 1\rdata: x\ndata: x\n\n'], 'id: 1\rdata: 1\ndata: 2\n\n', ['x\nx', true]],
    [['id: 1\ndata: x\r\r'], 'id: 1\ndata: 1\rdata: 2\r\r', ['x', true]],
    [['data: x\nid: 1\rdata: y\n\n'], 'data: 1\ndata: 2\nid: 1\r\n\n', ['x\ny', true]],
    [['data: a\ndata:  b\nid: 1'], 'data: a\ndata:  b\nid: 1', ['a\n b', true]],
    [
      ['event: message\ndata: a\n\nevent: y\ndata: a\n\ndata: a\n\n'],
      'event: message\ndata: a\n\nevent: y\ndata: a\n\ndata: a\n\n',
      ['a', true],
      ['a', false],
      ['a', true]
    ],
    [['data: a\nevent: y\n\n'], 'data: a\nevent: y\n\n', ['a', false]],
    [['database: x\ndatax\n\n'], 'database: x\ndatax\n\n'],
    [[`data: ${'a'.repeat(92)}\r`, '\n\r\n'], `data: ${'a'.repeat(92)}\r\n\r\n`, ['a'.repeat(92), true]],
    [[], '']
  ]
  for (const [chunks, out, ...events] of rows) {
    seen.length = 0
    t.equal(await read(...chunks), out, JSON.stringify(chunks))
    t.strictSame(seen, events, JSON.stringify(chunks))
  }
  await t.rejects(read(`data: ${'a'.repeat(100)}`), { message: 'too large' })
  await t.rejects(read(`data: ${'a'.repeat(93)}\r`, '\n\r\n'), { message: 'too large' })
  const deep = (levels: number) => Buffer.from('['.repeat(levels) + ']'.repeat(levels))
  t.strictSame(shownToolsOnly(deep(1000), () => false), deep(1000))
  t.throws(() => shownToolsOnly(deep(1001), () => false), {
    message: 'The list of tools of the upstream cannot be read'
  })
  t.equal(String(shownToolsOnly(Buffer.from(' [ ] '), () => false)), ' [ ] ')
})

t.test('The lists of a batch are cut, however many there are.', async t => {
  const list = (...tools: string[]) =>
    `{"result":{"tools":[${tools.map(name => `{"name":"${name}"}`).join(',')}]}}`
  t.equal(
    String(shownToolsOnly(Buffer.from(`[${list('a', 'b')}, 5,${list('a')} ,${list('b')}] `), name => name === 'a')),
    `[${list('a')}, 5,${list('a')} ,${list()}] `
  )
  const many = Math.floor(MAX_LIST_BYTES / list('b').length) - 1000
  const of = (item: string) => `[${Array(many).fill(item).join(',')}]`
  t.ok(String(shownToolsOnly(Buffer.from(of(list('b'))), () => false)) === of(list()))
})

t.test('Which answers are cut is checked at the start.', async t => {
  const problemsOf = async (gate: object) => (await parseGate(gate)).problems
  const upstream = 'http://127.0.0.1:1'
  const rules = (mcp: object) => ({ upstream, rules: [{ path: '/mcp', mcp }] })
  for (
    const mcp of [{ methods: 'tools/list', onlyRuled: true }, { methods: ['ping', 'tools/list'], onlyRuled: true }, {
      methods: ['ping'],
      onlyRuled: false
    }, { tools: ['a'], onlyRuled: false }]
  ) t.strictSame(await problemsOf(rules(mcp)), [], JSON.stringify(mcp))
  const elsewhere = ' is true, which is for the answers to tools/list, and mcp.methods does not name it'
  for (
    const [mcp, problem] of [[{ onlyRuled: true }, elsewhere], [{ methods: ['ping'], onlyRuled: true }, elsewhere], [{
      tools: ['a'],
      onlyRuled: true
    }, elsewhere], [{ methods: ['tools/list'], onlyRuled: 'yes' }, ' is "yes"; allowed: true, false']] as const
  ) {
    t.strictSame(await problemsOf(rules(mcp)), [`gate.rules[0].mcp.onlyRuled${problem}`], JSON.stringify(mcp))
  }
  t.strictSame(await problemsOf({ rules: [LIST] }), [
    'gate.rules[0].mcp.onlyRuled is true, which needs gate.upstream: a proxy that asks does not show the answers'
  ])
  t.strictSame((await parseGate({ rules: [LIST] }, upstream)).problems, [])
  const callable = { methods: ['tools/list'], onlyCallable: true }
  t.strictSame(await problemsOf(rules(callable)), [])
  t.strictSame(await problemsOf(rules({ ...callable, onlyRuled: true })), [
    'gate.rules[0].mcp.onlyCallable is true, and so is mcp.onlyRuled: one of them says what the list holds'
  ])
  t.strictSame(await problemsOf(rules({ tools: ['a'], onlyCallable: true })), [
    `gate.rules[0].mcp.onlyCallable${elsewhere}`
  ])
  t.strictSame(await problemsOf({ rules: [{ path: '/mcp', mcp: callable }] }), [
    'gate.rules[0].mcp.onlyCallable is true, which needs gate.upstream: a proxy that asks does not show the answers'
  ])
})

t.test('A list of what the caller may call holds nothing else, and is for one caller.', async t => {
  const of = (tool: string, rest: object) => ({ path: '/mcp', mcp: { tools: [tool] }, ...rest })
  const { post, send, issuer } = await startSite(t, {
    rules: [
      { path: '/mcp', mcp: { methods: ['tools/list'], onlyCallable: true }, optional: true },
      of('scoped', { scope: 'pay' }),
      of('fresh', { maxAgeSeconds: 60 }),
      of('claimed', { claims: { team: 'red' } }),
      of('guests', { optional: true }),
      of('open', { allow: 'anyone' }),
      { path: '/mcp', mcp: { tools: ['argued'], arguments: { a: 1 } } },
      { path: '/mcp', methods: ['GET'], audience: 'https://other.example' },
      { path: '/same', mcp: { methods: ['tools/list'], onlyCallable: true }, allow: 'anyone' },
      { path: '/same', mcp: { tools: ['open'] }, allow: 'anyone' },
      { path: '/same', mcp: { tools: ['guests'] }, optional: true },
      { path: '/same', mcp: { tools: ['scoped'] } }
    ]
  }, {}, (request, response) => {
    const isStream = request.method === 'GET'
    request.resume()
    const tools = ['scoped', 'fresh', 'claimed', 'guests', 'open', 'argued', 'unruled'].map(name => ({ name }))
    const list = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { tools } })
    if (request.headers['x-fail']) return response.writeHead(500, { 'cache-control': 'no-cache' }).end(list)
    response.writeHead(200, { 'cache-control': 'public', ...isStream ? EVENTS : JSON_TYPE })
    response.end(isStream ? `data: ${list}\n\n` : list)
  })
  const shown = async (lines: string[], path?: string): Promise<string> => {
    const { status, headers, body } = await post(message('tools/list'), lines, path)
    t.strictSame([status, headers['cache-control']], [200, 'private, no-store'])
    return JSON.parse(body).result.tools.map(({ name }: { name: string }) => name).join()
  }
  const token = (claims: Record<string, unknown>) => bearerLines(issuer.token(claims))
  const now = Math.floor(Date.now() / 1000)
  t.equal(await shown([]), 'guests,open')
  t.equal(await shown(token({})), 'guests,open,argued')
  t.equal(await shown(token({ scope: 'pay' })), 'scoped,guests,open,argued')
  t.equal(await shown(token({ team: ['red'], auth_time: now })), 'fresh,claimed,guests,open,argued')
  t.equal(await shown(token({ auth_time: now - 120, team: 'blue' })), 'guests,open,argued')
  t.equal(await shown([], '/same'), 'guests,open')
  t.equal(await shown(token({}), '/same'), 'open', 'no token is looked at there, and so nobody may call')
  t.equal((await post([message('tools/list')], token({}))).status, 400, 'a batch')
  const failed = await post(message('tools/list'), [...token({}), 'X-Fail: 1'])
  t.strictSame([failed.status, failed.headers['cache-control']], [500, 'no-cache'])
  const stream = await send('GET', '/mcp', [...bearerLines(issuer.token({ aud: 'https://other.example' })), '', ''])
  t.equal(stream.status, 200)
  t.match(stream.body, /"tools":\[\{"name":"open"\}\]/, 'rules with another audience are for other tokens')
})

t.test('The gate hides a tool, and its rules guard it.', async t => {
  const { post, answer, user } = await startLists(t)
  answer({ headers: JSON_TYPE, parts: ['{}'] })
  t.strictSame([(await post(call('drop'), user)).status, (await post(call('pay'), user)).status], [404, 403])
})
