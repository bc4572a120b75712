import t from 'tap'
import { bearerLines } from '../helpers/call.ts'
import { parseGate } from '../helpers/gate-section.ts'
import { message, startSite } from '../helpers/mcp-site.ts'

const of = (tool: string, asked: object, rest: object = { scope: 'use' }) => ({
  path: '/mcp',
  mcp: { tools: [tool], arguments: asked },
  ...rest
})
const RULES = [
  of('one', { region: 'eu', count: 7, dry: true }),
  of('list', { region: ['eu', 8] }),
  of('folder', { path: { startsWith: '/data/' } }),
  of('text', { path: { startsWith: '/data' } }),
  of('own', { user: { claim: 'sub' } }),
  of('nested', { team: { claim: 'org.teams' } }),
  of('__proto__', JSON.parse('{"__proto__":"eu"}')),
  of('fresh', { region: 'eu' }, { scope: 'use', maxAgeSeconds: 60 }),
  { path: '/open', mcp: { tools: ['one'], arguments: { region: 'eu' } }, allow: 'anyone' },
  { path: '/guests', mcp: { tools: ['own'], arguments: { user: { claim: 'sub' } } }, optional: true },
  { path: '/guests', mcp: { tools: ['one'], arguments: { region: 'eu' } }, optional: true }
]

const raw = (tool: string, args: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`

t.test('Arguments are what the rule of the tool asks for, to the code unit and the type.', async t => {
  const { post, issuer, upstream, log } = await startSite(t, { rules: RULES })
  const token = (claims: Record<string, unknown> = {}) => bearerLines(issuer.token({ scope: 'use', ...claims }))
  const user = token({ sub: 'ann', org: { teams: ['red', 5, null, { a: 1 }] } })
  const fits: Array<[tool: string, args: string]> = [
    ['one', '{"region":"eu","count":7.0,"dry":true,"other":[null]}'],
    ['one', '{"region":"\\u0065u","count":70e-1,"dry":true}'],
    ['list', '{"region":"eu"}'],
    ['list', '{"region":8}'],
    ['folder', '{"path":"/data/a..b/...//"}'],
    ['folder', '{"path":"/data/\u0301"}'],
    ['folder', '{"path":"/data/.\\t.a/\\u0000","path\u0301":"/etc"}'],
    ['text', '{"path":"/data\u0301"}'],
    ['text', '{"path":"/data/../etc"}'],
    ['own', '{"user":"ann"}'],
    ['nested', '{"team":"red"}'],
    ['nested', '{"team":5}'],
    ['__proto__', '{"__proto__":"eu"}']
  ]
  for (const [tool, args] of fits) t.equal((await post(raw(tool, args), user)).status, 200, `${tool} ${args}`)
  t.equal(upstream.arrived.length, fits.length)
  const unfit: Array<[tool: string, args: string, argument: string]> = [
    ['one', '{"region":"eu","count":"7","dry":true}', 'count'],
    ['one', '{"region":"eu","count":7,"dry":"true"}', 'dry'],
    ['one', '{"region":"eu","count":7}', 'dry'],
    ['one', '{"region":"EU","count":7,"dry":true}', 'region'],
    ['one', '{"region":"eu\u0301","count":7,"dry":true}', 'region'],
    ['one', '{"region":["eu"],"count":7,"dry":true}', 'region'],
    ['one', '{"region":"eu","Region":"us","count":7,"dry":true}', 'region'],
    ['one', '{"a":{"region":"eu"},"count":7,"dry":true}', 'region'],
    ['one', 'null', 'region'],
    ['one', '[]', 'region'],
    ['one', '[{"region":"eu"}]', 'region'],
    ['one', '"eu"', 'region'],
    ['list', '{"region":null}', 'region'],
    ['list', `{"region":${'['.repeat(50)}"eu"${']'.repeat(50)}}`, 'region'],
    ['folder', '{"path":"/data/../etc"}', 'path'],
    ['folder', '{"path":"/data/.."}', 'path'],
    ['folder', '{"path":"/data/a\\\\..\\\\etc"}', 'path'],
    ['folder', '{"path":"/data/.\\t./etc"}', 'path'],
    ['folder', '{"path":"/data/.\\ud800./etc"}', 'path'],
    ['folder', '{"path":"/data/..\\u0000x"}', 'path'],
    ['folder', '{"path":"/data/.\\t.\\u0000x"}', 'path'],
    ['folder', '{"path":"/data/a","path\\u0000b":"/etc"}', 'path'],
    ['folder', '{"p\\ud800ath":"/etc","path":"/data/a"}', 'path'],
    ['folder', '{"path":"/data"}', 'path'],
    ['folder', '{"path":["/data/"]}', 'path'],
    ['own', '{"user":"bob"}', 'user'],
    ['own', '{}', 'user'],
    ['nested', '{"team":"blue"}', 'team'],
    ['nested', '{"team":null}', 'team'],
    ['nested', '{"team":{"a":1}}', 'team'],
    ['__proto__', '{}', '__proto__']
  ]
  for (const [tool, args, argument] of unfit) {
    const answer = await post(raw(tool, args), user)
    t.strictSame([answer.status, JSON.parse(answer.body)], [403, {
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -32000,
        message: `An argument of the call is not one that its rule allows. (tool ${tool})`,
        data: { reason: 'argument_refused', tool }
      }
    }], `${tool} ${args}`)
    t.strictSame([answer.headers['www-authenticate'], answer.headers['cache-control']], [undefined, 'no-store'])
    t.hasStrict(log.at(-2), { reason: 'argument_refused', argument, route: '/mcp' })
  }
  t.equal((await post(message('tools/call', { name: 'one' }), user)).status, 403, 'no arguments')
  t.equal((await post(raw('one', '{"region":"eu","count":7,"dry":true}').replace('}}', '},"Arguments":{}}'), user)).status, 400)
  t.equal((await post(raw('own', '{"user":"ann","user":"bob"}'), user)).status, 400, 'doubled')
  t.equal(upstream.arrived.length, fits.length)
})

t.test('A claim that is missing, an object or an integer beyond 2^53 fits no argument.', async t => {
  const { post, issuer } = await startSite(t, { rules: RULES })
  const team = (teams: unknown, arg: string) =>
    post(raw('nested', `{"team":${arg}}`), bearerLines(issuer.token({ scope: 'use', org: { teams } }))).then(({ status }) =>
      status
    )
  t.equal(await team(2 ** 53 - 1, '9007199254740991'), 200)
  t.equal(await team(2 ** 53, '9007199254740992'), 403)
  t.equal(await team([2 ** 60], String(2 ** 60)), 403)
  t.equal(await team({ red: true }, '"red"'), 403)
  t.equal(await team([['red']], '"red"'), 403)
  t.equal(await team(null, 'null'), 403)
  t.equal(await team('red', '"red"'), 200)
  t.equal(await team('red', '["red"]'), 403)
})

t.test('Scope and login are judged before the arguments, and those of nobody are judged too.', async t => {
  const { post, issuer, log } = await startSite(t, { rules: RULES, claims: [] }, { AUDIT: 'log' })
  const nobody = await post(raw('one', '{"region":"us"}'))
  t.equal(nobody.status, 401)
  const reasonOf = async (tool: string, args: string, claims: Record<string, unknown>): Promise<unknown> => {
    const { status, body } = await post(raw(tool, args), bearerLines(issuer.token(claims)))
    return [status, status === 200 ? undefined : JSON.parse(body).error.data.reason]
  }
  const now = Math.floor(Date.now() / 1000)
  t.strictSame(await reasonOf('one', '{}', {}), [403, 'scope_missing'])
  t.strictSame(await reasonOf('fresh', '{}', { scope: 'use' }), [401, 'authentication_too_old'])
  t.strictSame(await reasonOf('fresh', '{}', { scope: 'use', auth_time: now }), [403, 'argument_refused'])
  t.strictSame(await reasonOf('fresh', '{"region":"eu"}', { scope: 'use', auth_time: now }), [200, undefined])
  const decisions = log.filter(({ event }) => event === 'decision').map(({ decision, reason, call }) => [decision, reason, call])
  t.strictSame(decisions.slice(-2), [
    ['refused', 'argument_refused', 'tools/call fresh'],
    ['admitted', undefined, 'tools/call fresh']
  ])
  for (
    const [path, tool, args, status] of [
      ['/open', 'one', '{"region":"eu"}', 200],
      ['/open', 'one', '{"region":"us"}', 403],
      ['/guests', 'one', '{"region":"eu"}', 200],
      ['/guests', 'one', '{"region":"us"}', 403],
      ['/guests', 'own', '{"user":"ann"}', 403]
    ] as const
  ) t.equal((await post(raw(tool, args), [], path)).status, status, `${path} ${tool} ${args}`)
  const batch = `[${raw('own', '{"user":"ann"}')},${raw('list', '{"region":"us"}')}]`
  const refused = await post(batch, bearerLines(issuer.token({ scope: 'use', sub: 'ann' })))
  t.strictSame([refused.status, JSON.parse(refused.body).error.data], [403, { reason: 'argument_refused' }])
  t.equal((await post(batch.replace('"us"', '"eu"'), bearerLines(issuer.token({ scope: 'use', sub: 'ann' })))).status, 200)
})

t.test('What arguments a rule asks for is checked at the start.', async t => {
  const problemsOf = async (mcp: object, rest: object = {}) =>
    (await parseGate({ upstream: 'http://127.0.0.1:1', rules: [{ path: '/mcp', mcp, ...rest }] })).problems
  for (const asked of [{ a: '' }, { a: [1.5, 'b', false] }, { a: { startsWith: 'x' } }, { a: { claim: 'b' }, c: 0 }]) {
    t.strictSame(await problemsOf({ tools: ['x'], arguments: asked }), [], JSON.stringify(asked))
  }
  const what = ': the argument "a" takes a text, a number, a boolean, a list of one or more of these, ' +
    '{ startsWith: TEXT } or { claim: NAME }'
  for (
    const [asked, problem] of [
      [{}, ': it takes an object with one or more arguments'],
      [['a'], ': it takes an object with one or more arguments'],
      [null, ': it takes an object with one or more arguments'],
      [{ a: null }, what],
      [{ a: [] }, what],
      [{ a: [null] }, what],
      [{ a: [['b']] }, what],
      [{ a: 2 ** 53 }, what],
      [{ a: {} }, what],
      [{ a: { startsWith: '' } }, what],
      [{ a: { startsWith: ['/'] } }, what],
      [{ a: { endsWith: '/' } }, what],
      [{ a: { startsWith: '/', claim: 'b' } }, what]
    ] as const
  ) {
    const problems = await problemsOf({ tools: ['x'], arguments: asked })
    t.equal(problems.length, 1, JSON.stringify(asked))
    t.ok(problems[0]?.endsWith(problem), `${JSON.stringify(asked)}: ${problems[0]}`)
  }
  t.strictSame(await problemsOf({ methods: ['tools/call'], arguments: { a: 1 } }), [
    'gate.rules[0].mcp.arguments is for the calls of tools, and mcp.tools names none'
  ])
  t.strictSame(await problemsOf({ tools: ['x'], arguments: { a: { claim: 'sub' } } }, { allow: 'anyone' }), [
    'gate.rules[0].mcp.arguments asks for a claim, and with allow: anyone no caller has one'
  ])
})
