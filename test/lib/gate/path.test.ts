import t from 'tap'
import { originForm, verifyOneReading, withoutParameters } from '../../../lib/gate/path.ts'
import { UNRULED, type GateRule } from '../../../lib/gate/rule.ts'
import { createRules, findWiderRules } from '../../../lib/gate/rules.ts'
import type { Refusal } from '../../../lib/refusal.ts'

t.test('A path of two readings is refused with its cause, and its nearest neighbour is not.', t => {
  const causeOf = (path: string) => {
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
    { path: '/(S(x))/a', cause: 'session_segment', neighbour: '/(s(x))/a' },
    { path: '/a/(F(x)A(y))', cause: 'session_segment', neighbour: '/a(F(x)A(y))' },
    { path: '/a/%28X%281))b', cause: 'session_segment', neighbour: '/a/%28X1))b' },
    { path: '/a/%3Bx', cause: 'path_parameter', neighbour: '/a/x%3Bx' },
    { path: '/a%2Fb', cause: 'slash_escape', neighbour: '/a%252Fb' },
    { path: '/a%5Cb', cause: 'backslash', neighbour: '/a%5Bb' },
    { path: '/a%00', cause: 'control_character', neighbour: '/a%20' },
    { path: '/a%1F', cause: 'control_character', neighbour: '/a%21' },
    { path: '/a%7F', cause: 'control_character', neighbour: '/a%7E' },
    { path: '/%C3', cause: 'encoding', neighbour: '/%C3%BC' }
  ]
  for (const { path, cause, neighbour } of rows) {
    t.strictSame([causeOf(path), causeOf(neighbour)], [cause, 'accepted'], path)
  }
  t.end()
})

/** A rule under which anyone passes. */
const openTo = (path: string) => ({ ...UNRULED, path, upgrade: false })

t.test('Without its parameters, a path is what programs may make of it.', t => {
  const rows: ReadonlyArray<readonly [path: string, readings: readonly string[]]> = [
    ['/a/b', []],
    ['/a;b', ['/a', '/a']],
    ['/a;b;c/d;/e', ['/a/d/e', '/a/d/e']],
    ['/a%3Bb/c', ['/a%3Bb/c', '/a/c']],
    ['/a;x/b%3By', ['/a/b%3By', '/a/b']],
    ['/a%253Bb', []]
  ]
  for (const [path, readings] of rows) t.strictSame(withoutParameters(path), readings, path)
  const rules = createRules(['/*', '/admin', '/x/a%3Bb', '/n/:id(^[0-9;]+$)'].map(openTo))
  const chosen = (path: string) => {
    try {
      return rules.choose('GET', path)?.rules[0].path
    } catch (error) {
      return (error as Refusal).detail?.cause
    }
  }
  const choices: ReadonlyArray<readonly [path: string, chosen: string | undefined]> = [
    ['/admin', '/admin'],
    ['/admin;', 'path_parameter'],
    ['/a;b', '/*'],
    ['/n/1;2', '/n/:id(^[0-9;]+$)'],
    ['/n/1;x', 'path_parameter'],
    ['/x;q/a%3Bb', 'path_parameter'],
    ['/admin;x/y', 'path_parameter'],
    ['/admins;x/y', '/*'],
    ['/n/x;1/y', '/*'],
    ['/a%2Fb', 'slash_escape']
  ]
  for (const [path, expected] of choices) t.equal(chosen(path), expected, path)
  t.end()
})

t.test('One path: a spelling for which a lenient router would find a closer rule is refused, and its neighbour is not.', t => {
  const choose = (paths: readonly string[], path: string, exactPaths = false) => {
    try {
      return createRules(paths.map(openTo), { exactPaths }).choose('POST', path)?.rules[0].path
    } catch (error) {
      const { cause, rule } = (error as Refusal).detail!
      return `${cause}: ${rule}`
    }
  }
  const BESIDE = 'other_spelling: '
  const rows: ReadonlyArray<
    {
      rules: readonly string[],
      refused: readonly string[],
      as: string,
      passes: Record<string, string | undefined>
    }
  > = [
    {
      rules: ['/mcp', '/*'],
      refused: ['/mcp/', '/MCP', '/Mcp/', '/mcP;x', '/MCP%3Bx', '/MCP;x/y'],
      as: '/mcp',
      passes: { '/mcp': '/mcp', '/mcpx': '/*', '/mcp/x': '/*', '/': '/*', '/m/cp': '/*' }
    },
    { rules: ['/mcp'], refused: [], as: '', passes: { '/mcp': '/mcp', '/MCP': undefined, '/mcp/': undefined } },
    {
      rules: ['/mcp/', '/:any', '/*'],
      refused: ['/mcp', '/MCP', '/MCP/'],
      as: '/mcp/',
      passes: { '/mcp/': '/mcp/', '/mcq': '/:any', '/mcq/x': '/*' }
    },
    {
      rules: ['/admin/*', '/*'],
      refused: ['/admin', '/ADMIN', '/Admin/x'],
      as: '/admin/*',
      passes: { '/admin/': '/admin/*', '/admins': '/*' }
    },
    {
      rules: ['/admin/*', '/admin', '/*'],
      refused: ['/ADMIN'],
      as: '/admin',
      passes: { '/admin': '/admin', '/admin/x': '/admin/*' }
    },
    { rules: ['/a', '/a/*'], refused: ['/a/'], as: '/a', passes: { '/a': '/a', '/a/b': '/a/*' } },
    {
      rules: ['/A/:x', '/a/:y', '/*'],
      refused: ['/a/1/'],
      as: '/A/:x',
      passes: { '/A/1': '/A/:x', '/a/1': '/a/:y', '/a/1/2': '/*' }
    },
    {
      rules: ['/@me', '/:user'],
      refused: ['/%40me', '/%40ME', '/@Me'],
      as: '/@me',
      passes: { '/@me': '/@me', '/%40you': '/:user' }
    },
    {
      rules: ['/caf%C3%A9', '/*'],
      refused: ['/CAF%C3%89'],
      as: '/caf%C3%A9',
      passes: { '/caf%C3%A9': '/caf%C3%A9', '/cafe': '/*' }
    },
    { rules: ['/café/i', '/*'], refused: ['/caf%C3%A9/%C4%B0', '/caf%C3%A9/%C4%B1'], as: '/café/i', passes: { '/caf%C3%A9/i': '/café/i' } },
    { rules: ['/a%25b', '/*'], refused: ['/A%25B'], as: '/a%25b', passes: { '/a%25b': '/a%25b', '/a%2525b': '/*' } },
    {
      rules: ['/s::x/:id', '/*'],
      refused: ['/%C5%BF:x/1', '/s%3Ax/1'],
      as: '/s::x/:id',
      passes: { '/s:x/1': '/s::x/:id', '/s%253Ax/1': '/*' }
    },
    {
      rules: ['/n/:id(^[A-C]+$)', '/n/:id', '/*'],
      refused: ['/N/ABC', '/n/ABC/'],
      as: '/n/:id(^[A-C]+$)',
      passes: { '/n/ABC': '/n/:id(^[A-C]+$)', '/n/abc': '/n/:id' }
    },
    {
      rules: ['/n/:id(^[A-C]+$)/', '/n/:id'],
      refused: ['/n/ABC'],
      as: '/n/:id(^[A-C]+$)/',
      passes: { '/n/ABC/': '/n/:id(^[A-C]+$)/', '/n/abc': '/n/:id' }
    },
    {
      rules: ['/p/:id-::x', '/*'],
      refused: ['/p/1-:X', '/P/1-%3Ax'],
      as: '/p/:id-::x',
      passes: { '/p/1-:x': '/p/:id-::x', '/p/1-:y': '/*' }
    },
    {
      rules: ['/:id/p::x', '/*'],
      refused: ['/1/p:X', '/1/P%3Ax'],
      as: '/:id/p::x',
      passes: { '/1/p:x': '/:id/p::x', '/1/p:y': '/*' }
    },
    {
      rules: ['/f/:name.json', '/f/:name', '/*'],
      refused: ['/f/x.JSON', '/F/x.json', '/f/x.Json/'],
      as: '/f/:name.json',
      passes: { '/f/x.json': '/f/:name.json', '/f/x.jso': '/f/:name' }
    },
    {
      rules: ['/f/:a.ab/:b-cd', '/*'],
      refused: ['/f/x.AB/y-cd', '/f/x.ab/y-CD'],
      as: '/f/:a.ab/:b-cd',
      passes: { '/f/x.ab/y-cd': '/f/:a.ab/:b-cd' }
    },
    {
      rules: ['/mcp', '/*'],
      refused: [
        '/mcp.json',
        '/MCP.x/',
        '/mcp.',
        '/mcp.;x',
        '/mcp.json%3Bx',
        '/mcp.j%7Eson',
        '/mcp.tar.gz',
        '/Mcp.a.b.c/',
        '/mcp..'
      ],
      as: '/mcp',
      passes: { '/mcp.json/x': '/*', '/mcp.a.b/x': '/*', '/mcpx.tar.gz': '/*', '/.mcp.tar.gz': '/*' }
    },
    { rules: ['/v1.2', '/*'], refused: ['/v1.2.json', '/v1.2.'], as: '/v1.2', passes: { '/v1.2': '/v1.2', '/v1.3': '/*' } },
    {
      rules: ['/.well', '/*'],
      refused: ['/.well.json', '/.well.tar.gz/'],
      as: '/.well',
      passes: { '/.well': '/.well', '/.wel': '/*', '/..well': '/*' }
    },
    {
      rules: ['/', '/u/:id/keys', '/:any', '/*'],
      refused: ['/u/7/keys.json'],
      as: '/u/:id/keys',
      passes: { '/.env': '/:any', '/u/7.5/keys': '/u/:id/keys', '/u/.json': '/*', '/app.js': '/:any' }
    },
    {
      rules: ['/a/%2A', '/*'],
      refused: ['/A/%2A', '/a/*', '/a/%2A/'],
      as: '/a/%2A',
      passes: { '/a/%2A': '/a/%2A', '/a/x': '/*', '/a/': '/*' }
    },
    { rules: ['/mcp', '/mcp.json', '/*'], refused: ['/mcp.xml'], as: '/mcp', passes: { '/mcp.json': '/mcp.json' } },
    {
      rules: ['/o/:id?', '/o*', '/*'],
      refused: ['/O', '/o/1/'],
      as: '/o/:id?',
      passes: { '/o': '/o/:id?', '/o/1': '/o/:id?', '/ox': '/o*' }
    }
  ]
  for (const { rules, refused, as, passes } of rows) {
    for (const path of refused) {
      t.equal(choose(rules, path), BESIDE + as, `${rules.join(' ')}: ${path}`)
      t.notMatch(String(choose(rules, path, true)), /^other_spelling/, `${path}, with exactPaths`)
    }
    for (const [path, expected] of Object.entries(passes)) {
      t.equal(choose(rules, path), expected, `${rules.join(' ')}: ${path}`)
    }
  }
  t.end()
})

t.test('The wider rules beside a path of messages are found.', async t => {
  const rule = (path: string, more: object = {}) => ({
    path,
    methods: undefined,
    requirement: undefined,
    audiences: undefined,
    timeoutSeconds: undefined,
    upgrade: false,
    observe: true,
    mcp: undefined,
    ...more
  })
  const found = (...rules: GateRule[]) => Object.fromEntries(findWiderRules(rules))
  const MESSAGES = { mcp: { methods: ['tools/list'], tools: undefined }, methods: ['POST'] }
  t.strictSame(
    found(
      rule('/mcp', MESSAGES),
      rule('/mcp', MESSAGES),
      rule('/*'),
      rule('/*', { methods: ['POST'] }),
      rule('/:any'),
      rule('/mcp/*'),
      rule('/other')
    ),
    { '/mcp': ['/*', '/:any'] }
  )
  t.strictSame(
    found(rule('/mcp', MESSAGES), rule('/mcp', { methods: ['GET'] }), rule('/*', { methods: ['GET'] })),
    {},
    'only other methods'
  )
  t.strictSame(found(rule('/mcp'), rule('/*')), {}, 'no messages')
})

t.test('The upstream gets path and query unchanged.', t => {
  const causeOf = (target: string) => {
    try {
      return originForm(target)
    } catch (error) {
      return (error as Refusal).detail
    }
  }
  const rows: ReadonlyArray<readonly [target: string, expected: unknown]> = [
    ['/a?b', '/a?b'],
    ['/\u00ff', '/\u00ff'],
    ['http://a/b?c', '/b?c'],
    ['HTTPS://a?b', '/?b'],
    ['http://a', '/'],
    ['http://a/', '/'],
    ['http://a/b/', '/b/'],
    ['/http://a/b', '/http://a/b'],
    ['/a#b', { cause: 'fragment' }],
    ['/a b', { cause: 'control_character' }],
    ['/a\u0000#', { cause: 'control_character' }],
    ['/\u0100', { cause: 'control_character' }]
  ]
  for (const [target, expected] of rows) t.strictSame(causeOf(target), expected, JSON.stringify(target))
  t.end()
})
