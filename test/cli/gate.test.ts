import t from 'tap'
import { gate } from '../../cli/gate.ts'
import { start } from '../../cli/start.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import type { Listening } from '../../cli/start-service.ts'
import { recordedRun } from '../helpers/shown.ts'

const FILE = `gate:
  upstream: http://127.0.0.1:3000
  claims: [email]
  statementKey: key.pem
  rules:
    - path: /health-of-the-service
      allow: anyone
    - path: /orders/:id
      methods: [GET]
      scope: read:orders
    - path: /orders/*
      methods: [POST, PUT]
      anyScope: [write:orders, admin]
      maxAgeSeconds: 600
      acr: gold
    - { path: /orders/*, methods: GET }
    - path: /live
      upgrade: true
    - path: /reports/*
      audience: https://reports.example
      claims: { department: [finance, audit] }
`
const recorded = recordedOutputs(t, import.meta.filename)

/** Runs a tool with the text of a configuration file. What would start the service only notes where. */
async function run (
  argv: readonly string[],
  file?: string,
  given: NodeJS.ProcessEnv = {},
  tool = gate,
  isTTY = false
) {
  const env = { ...given }
  let started: Listening | undefined
  const shown = await recordedRun(recorded(argv), out =>
    tool(argv, {
      env,
      program: 'holdfast',
      out,
      readFile: path => path === 'config.yaml' ? file : undefined,
      startService: async where => {
        started = where
      }
    }), isTTY)
  return { ...shown, started, env }
}

t.test('A gate is started with the upstream of the option or of the file.', async t => {
  t.hasStrict(await run(['--upstream', 'http://127.0.0.1:3000', '--port', '8100']), {
    code: 0,
    text: '',
    started: { port: '8100', address: undefined },
    env: { GATE_UPSTREAM: 'http://127.0.0.1:3000' }
  })
  t.hasStrict(await run(['--upstream', 'http://127.0.0.1:4000', '--address', '::1'], FILE), {
    code: 0,
    started: { port: undefined, address: '::1' },
    env: { GATE_UPSTREAM: 'http://127.0.0.1:4000' }
  }, 'the option wins')
  t.hasStrict(await run([], FILE), { code: 0, started: {} })
  t.hasStrict(await run([], undefined, { GATE_UPSTREAM: 'http://127.0.0.1:3000' }), { code: 0, started: {} })
  const { env } = await run([], FILE)
  t.notOk('GATE_UPSTREAM' in env)
})

t.test('A failure is reported in one sentence, and nothing is started.', async t => {
  const rows = [[],
    ['--upsteam', 'http://a'],
    ['--upstream', 'http://a', '--port', '80000'],
    ['--upstream', 'http://a', 'GET', '/a'],
    ['--upstream', 'http://a', '--explain'],
    ['--upstream', 'http://a', '--explain', 'GET', '/a', '/b'],
    ['--upstream', 'http://a', '--explain', 'get', '/a'],
    ['--upstream', 'http://a', '--explain', 'PSOT', '/a'],
    ['--upstream', 'http://a', '--explain', 'orders/7'],
    ['--upstream', 'http://a/b', '--explain', '/a']
  ]
  for (const argv of rows) {
    const { code, started } = await run(argv)
    t.equal(code, 1, argv.join(' '))
    t.equal(started, undefined)
  }
  t.match(
    await run(
      ['--explain', '/a'],
      'gate:\n  rules:\n    - pth: /a\n    - path: /b\n    - path: /b\nidp:\n  domian: a\n'
    ),
    {
      code: 1,
      text:
        /config\.yaml, line 7: unknown key "idp\.domian"[^]*config\.yaml, line 3: gate\.rules\[0\]\.pth is unknown; did you mean path\?[^]*gate\.rules\[0\] has no path[^]*config\.yaml, line 5: gate\.rules\[2\] \("[^"]*"\) overlaps gate\.rules\[1\] \(config\.yaml, line 4\): both hold for GET \/b/
    }
  )
  const { code, text } = await run(['--help'])
  t.equal(code, 0)
  t.match(
    text,
    /^Guards another service[^]*\n {2}holdfast gate --explain \[METHOD\] PATH[^]*--upstream URL[^]*--port NUMBER/
  )
})

t.test('The rule that holds is shown, with what it requires.', async t => {
  const { code, text } = await run(['--explain', 'GET', '/orders/7?page=2'], FILE, {
    IDP_AUDIENCE: 'https://api.example'
  })
  t.equal(code, 0)
  t.equal(
    text,
    `
GET /orders/7?page=2
  gate.rules[1] (config.yaml, line 8) holds: path /orders/:id, methods GET, HEAD

It asks for
  a valid token for the audience https://api.example
  the scope read:orders

The other rules
  gate.rules[0] (config.yaml, line 6): path /health-of-the-service, all methods
    another path
  gate.rules[2] (config.yaml, line 11): path /orders/*, methods POST, PUT
    not GET
  gate.rules[3] (config.yaml, line 16): path /orders/*, methods GET, HEAD
    less specific
  gate.rules[4] (config.yaml, line 17): path /live, all methods
    another path
  gate.rules[5] (config.yaml, line 19): path /reports/*, all methods
    another path
`
  )
})

t.test('Each kind of rule is shown.', async t => {
  const file = FILE.replace('    - { path: /orders/*, methods: GET }\n', '')
  for (
    const request of [['/health-of-the-service'], ['POST', '/orders/7/items'], ['https://api.example/reports/1']]
  ) t.equal((await run(['--explain', ...request], file)).code, 0)
  const optional = 'gate:\n  upstream: http://a\n  rules:\n    - { path: /a, optional: true }\n'
  t.equal((await run(['--explain', '/a'], optional)).code, 0)
  t.equal((await run(['--explain', 'DELETE', '/a', '--upstream', 'http://a:1'])).code, 0)
})

t.test('An explanation is coloured on a terminal, and each way to ask is told from the others.', async t => {
  for (
    const words of [
      ['/orders/7'],
      ['POST', '/orders/7'],
      ['/other'],
      ['//a'],
      ['/docs'],
      ['/docsx'],
      ['/health/ready'],
      ['HTTPS://a.example/live?b'],
      ['xhttps://a.example/live'],
      ['GET', '/live', 'x'],
      ['GET', '/live', 'x', 'y'],
      ['GET', '/live', '--mcp', 'ping'],
      ['GET', '/live', 'x', '--mcp', 'tools/call'],
      ['live']
    ]
  ) t.equal((await run(['--explain', ...words], FILE, {}, gate, true)).started, undefined)
})

t.test('If no rule holds, the reason is shown.', async t => {
  const paths = ['//a', '/a/%2e%2e/b', '/a%2fb', '/a\\b', '/a%00', '/a b', '/a#b', '/\u00e9', '/a%', '/%ff']
  for (const request of [['GET', '/other'], ['PATCH', '/other'], ['/docs/json'], ...paths.map(path => [path])]) {
    t.equal((await run(['--explain', ...request], FILE)).code, 1, request.join(' '))
  }
  t.equal((await run(['--explain', '/a'], 'gate:\n  upstream: http://a\n')).code, 1)
  t.equal((await run(['--explain', '/-/docs'], 'gate:\n  upstream: http://a\n  ownPrefix: /-\n')).code, 1)
  const { code } = await run(['--explain', '/docs'], 'gate:\n  rules:\n    - path: /docs\n')
  t.equal(code, 0, 'without an upstream, that path is another one')
})

t.test('While requests are observed, the explanation says so', async t => {
  const day = new Date().toISOString().slice(0, 10)
  const file = `${FILE}    - { path: /now, observe: false }\nserver:\n  observe: ${day}\n`
  const until = new RegExp(`\\nOBSERVE\\n {2}Until the end of ${day} \\(UTC\\) nothing is refused`)
  t.match(await run(['--explain', '/orders/7'], file), { code: 0, text: until })
  t.match(await run(['--explain', '/nothing'], file), { code: 1, text: until })
  t.match((await run(['--explain', '/now'], file)).text, /\nOBSERVE\n {2}This rule is enforced at once/)
  const narrow = file.replace('/now,', '/now, mcp: { tools: [a] },')
  for (const words of [['POST', '/NOW'], ['POST', '/now', '--mcp', 'tools/call', 'b']]) {
    t.match((await run(['--explain', ...words], narrow)).text, /\nOBSERVE\n {2}The rules beside it are enforced at once/)
  }
  t.match((await run(['--explain', 'POST', '/nowhere'], narrow)).text, until)
  for (const other of ['2020-01-01', 'off']) {
    t.notMatch((await run(['--explain', '/now'], file.replace(day, other))).text, /OBSERVE/)
  }
})

t.test('A path that a lenient router takes for that of another rule is explained.', async t => {
  const file = (more = '') =>
    `gate:\n${more}  rules:\n    - path: /*\n    - path: /mcp\n      mcp: { tools: [pay] }\n`
  t.match(await run(['--explain', 'POST', '/MCP/'], file()), {
    code: 1,
    text:
      /Refused before any rule[^]*many frameworks take it for the path of another rule[^]*gate\.exactPaths[^]*The other rule\n {2}gate\.rules\[1\] \(config\.yaml, line 4\): path \/mcp, methods POST, tools\/call of pay\n$/
  })
  t.match(await run(['--explain', 'POST', '/MCP/'], file('  exactPaths: true\n')), {
    code: 0,
    text: /gate\.rules\[0\] \(config\.yaml, line 4\) holds/
  })
})

t.test('The service itself is started in the same way.', async t => {
  t.hasStrict(await run(['--port', '0'], undefined, {}, start), { code: 0, started: { port: '0' } })
  for (const port of ['1', '65535', '65536', '99999', '123456', '1a', 'a1', '', '-1']) {
    const { code, started } = await run([`--port=${port}`, '--address', '::1'], undefined, {}, start)
    t.strictSame([code, started], ['1', '65535'].includes(port) ? [0, { port, address: '::1' }] : [1, undefined], port)
  }
  t.match(await run(['--prt', '1'], undefined, {}, start), {
    code: 1,
    text: /^There is no option --prt; did you mean --port\?/,
    started: undefined
  })
  t.match(await run(['now'], undefined, {}, start), { code: 1, text: /^Unexpected argument now/, started: undefined })
})

const MCP_FILE = `gate:
  upstream: http://127.0.0.1:3000
  rules:
    - path: /mcp
      mcp: { tools: ['read_*'] }
      scope: read
    - path: /mcp
      mcp: { tools: [delete_order] }
      scope: [read, delete]
    - path: /mcp
      mcp: { methods: [tools/list] }
    - path: /other
      mcp: {}
`

t.test('What a rule asks of arguments is told, and whose tools a list holds.', async t => {
  const file = `gate:
  upstream: http://127.0.0.1:3000
  rules:
    - path: /mcp
      mcp:
        tools: [move]
        arguments: { to: { startsWith: /data/ }, user: { claim: sub }, times: [1, once] }
    - path: /mcp
      mcp: { methods: [tools/list], onlyCallable: true }
    - path: /open
      mcp: { methods: [ping, tools/list], onlyRuled: true }
`
  const { text } = await run(['--explain', 'POST', '/mcp', '--mcp', 'tools/call', 'move'], file)
  t.ok(text.includes(`
It asks for
  a valid token
  the argument to: begins with "/data/"
  the argument user: the caller's claim sub
  the argument times: 1 or "once"
`), text)
  t.ok(text.includes('messages tools/list (tools that the caller may call)\n'), text)
  t.ok(text.includes('messages ping, tools/list (tools with a rule)\n'), text)
})

t.test('The rule for a message of the Model Context Protocol is named, as the gate finds it.', async t => {
  const explain = (...argv: string[]) => run(['--explain', ...argv], MCP_FILE)
  const { code, text } = await explain('POST', '/mcp', '--mcp', 'tools/call', 'delete_order')
  t.equal(code, 0)
  t.equal(
    text,
    `
POST /mcp, tools/call delete_order
  gate.rules[1] (config.yaml, line 7) holds: path /mcp, methods POST, tools/call of delete_order

It asks for
  a valid token
  the scope read and delete

The other rules
  gate.rules[0] (config.yaml, line 4): path /mcp, methods POST, tools/call of read_*
    another message
  gate.rules[2] (config.yaml, line 10): path /mcp, methods POST, messages tools/list
    another message
  gate.rules[3] (config.yaml, line 12): path /other, all methods, messages
    another path
`
  )
  const firstLines = async (...argv: string[]) => {
    const { code, text } = await explain(...argv)
    return [code, text.split('\n')[2]!.trim()]
  }
  t.strictSame(await firstLines('POST', '/mcp', '--mcp', 'tools/call', 'read_x'), [
    0,
    'gate.rules[0] (config.yaml, line 4) holds: path /mcp, methods POST, tools/call of read_*'
  ])
  t.strictSame(await firstLines('POST', '/mcp', '--mcp', 'tools/list'), [
    0,
    'gate.rules[2] (config.yaml, line 10) holds: path /mcp, methods POST, messages tools/list'
  ])
  t.strictSame(await firstLines('POST', '/mcp', '--mcp', 'tools/call', 'drop'), [
    1,
    'No rule holds: 404, or 403 if a proxy asks. Where a rule of this path asks for a token, a request without ' +
    'one is 401.'
  ])
  t.strictSame(await firstLines('POST', '/mcp'), [1, 'The message in the body decides.'])
  t.strictSame(await firstLines('GET', '/mcp'), [1, 'No rule holds: 404, or 403 if a proxy asks.'])
  t.strictSame(await firstLines('POST', '/other', '--mcp', 'tools/call', 'x'), [
    0,
    'gate.rules[3] (config.yaml, line 12) holds: path /other, all methods, messages'
  ])
  const said = async (...argv: string[]) => (await run(argv, MCP_FILE)).text.split('\n')[0]!
  t.equal(
    await said('--explain', 'POST', '/mcp', '--mcp', 'tools/call'),
    'A message tools/call names a tool: --mcp tools/call NAME'
  )
  t.equal(await said('--explain', 'POST', '/mcp', 'x'), 'Say what to explain, such as --explain GET /orders/7')
  t.equal(
    await said('--explain', 'POST', '/mcp', 'x', 'y', '--mcp', 'tools/call'),
    'Unexpected argument y'
  )
  t.equal(await said('--mcp', 'tools/call'), '--mcp says which message --explain is about')
})
