import t from 'tap'
import { readSettings } from '../../../holdfast.ts'
import type { GateOptions } from '../../../lib/gate/gate-options.ts'
import { ownPathsOf, parseGate } from '../../../lib/gate/gate-settings.ts'
import { createRules, parseRule } from '../../../lib/gate/rules.ts'
import type { GateRule } from '../../../lib/gate/rules.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import type { SettingsError } from '../../../lib/settings/problems.ts'
import type { Settings } from '../../../lib/settings/settings.ts'

const ENOUGH = 'idp:\n  domain: tenant.example\n  audience: https://api.example\n'

/** The settings of a configuration file. @throws SettingsError */
async function read (gate: string, environment: Record<string, string> = {}): Promise<Settings> {
  const { values, ...faults } = collectSettings({ environment, readFile: name => name === 'config.yaml' ? ENOUGH + gate : undefined })
  return readSettings(values, faults)
}

const problemsOf = (...given: Parameters<typeof read>): Promise<readonly string[]> => read(...given).then(() => [], ({ problems }: SettingsError) => problems)

t.test('A gate has defaults, and takes what the file says.', async t => {
  t.equal((await read('')).gate, undefined)
  t.equal((await read('gate:\n')).gate, undefined, 'without a value it counts as unset')
  t.match((await read('gate: {}')).gate, {
    upstream: undefined, upstreamProtocol: 'auto', rules: [], timeoutSeconds: 30, bodyLimit: undefined, claims: [], passCredentials: false, statementKey: undefined, statementAudience: undefined, ownPrefix: '', grpcPort: undefined
  })
  const { gate } = await read(`gate:
  upstream: HTTP://Upstream.example:80/
  upstreamProtocol: h2
  timeoutSeconds: "5"
  bodyLimit: 1000
  claims: [email, "https://id.example/team", level_2]
  passCredentials: true
  statementKey: key.pem
  statementAudience: 17
  ownPrefix: /-/own
  grpcPort: 9000
  rules:
    - { path: /a, scope: x, methods: GET }
    - { path: /b, claims: { level: 3, text: "3", on: true, list: [a, 4] }, maxAgeSeconds: 60, acr: [gold] }
    - { path: /c, audience: 12 }
    - path: /d
      allow: anyone
      methods:
      upgrade: true
    - { path: "/users/:id(^\\\\d+$)/:tail?", allow: token }
`)
  t.match(gate, {
    upstream: 'http://upstream.example',
    upstreamProtocol: 'h2',
    timeoutSeconds: 5,
    bodyLimit: 1000,
    claims: [{ header: 'x-auth-claim-email', claim: 'email' }, { header: 'x-auth-claim-https---id-example-team', claim: 'https://id.example/team' }, { header: 'x-auth-claim-level-2', claim: 'level_2' }],
    passCredentials: true,
    statementKey: 'key.pem',
    statementAudience: '17',
    ownPrefix: '/-/own',
    grpcPort: 9000,
    rules: [
      { path: '/a', methods: ['GET', 'HEAD'], requirement: { scope: ['x'] }, upgrade: false },
      { requirement: { claims: [{ name: 'level', allowed: [3] }, { name: 'text', allowed: ['3'] }, { name: 'on', allowed: [true] }, { name: 'list', allowed: ['a', 4] }], maxAgeSeconds: 60, acr: ['gold'] } },
      { audience: '12', requirement: {} },
      { requirement: undefined, methods: undefined, upgrade: true },
      { requirement: {} }
    ]
  })
})

t.test('An upstream beside the file takes the place of the one in it, and needs no rules.', async t => {
  const environment = { GATE_UPSTREAM: 'http://127.0.0.1:3000/' }
  const everywhere = { path: '/*', methods: undefined, requirement: {}, audience: undefined, upgrade: false }
  t.match((await read('', environment)).gate, { upstream: 'http://127.0.0.1:3000', rules: [everywhere] })
  t.match((await read('gate:\n  upstream: http://a\n  claims: [email]\n', environment)).gate, { upstream: 'http://127.0.0.1:3000', rules: [everywhere], claims: [{ claim: 'email' }] })
  t.same((await read('gate:\n  rules: []\n', environment)).gate?.rules, [], 'an empty list lets nothing pass')
  t.match((await read('gate:\n  rules:\n    - path: /a\n', environment)).gate?.rules, [{ path: '/a' }])
  t.same((await read('gate:\n  upstream: http://a\n')).gate?.rules, [], 'without it nothing passes unless there is a rule')
  t.same(await problemsOf('', { GATE_UPSTREAM: 'http://a/b' }), ['GATE_UPSTREAM is "http://a/b"; allowed: http or https URL of a host, with a port or without, and nothing more'])
  t.same(await problemsOf('gate:\n  rules:\n    - path: /docs\n', environment), ['config.yaml, line 6: gate.rules[0] is unreachable: the service itself answers under /docs'])
})

t.test('Each mistake stops the start, with its line and the name of the member.', async t => {
  const rows: Array<[gate: string, problem: string]> = [
    ['gate: on', 'config.yaml, line 4: gate is a section: expected members such as upstream and rules'],
    ['gate:\n  upsteam: http://a', 'config.yaml, line 5: gate.upsteam is unknown; did you mean gate.upstream?'],
    ['gate:\n  ? [a]\n  : b', 'config.yaml, line 5: gate.'],
    ['gate: { colour, rules: on }', 'config.yaml, line 4: gate.rules is a list'],
    ['gate:\n  colour: red', 'config.yaml, line 5: gate.colour is unknown'],
    ['gate:\n  grpcPort: 1\n  grpcPort: 2', 'config.yaml, line 6: the key "gate.grpcPort" appears twice'],
    ...['-1', '65536', '80.5', 'on', 'true', '"0x50"', '[9000]', '""'].map((port): [string, string] => [`gate:\n  grpcPort: ${port}`, 'config.yaml, line 5: gate.grpcPort is not usable; allowed: 0 to 65535']),
    ['gate:\n  rules: {}', 'config.yaml, line 5: gate.rules is a list: expected entries such as { path: /orders/*, scope: read:orders }'],
    ['gate:\n  rules:\n    - word', 'config.yaml, line 6: gate.rules[0] is not usable; expected members such as path and scope'],
    ['gate:\n  rules:\n    - scope: a', 'config.yaml, line 6: gate.rules[0] has no path'],
    ['gate:\n  rules:\n    - path: /a\n      scpe: a', 'config.yaml, line 7: gate.rules[0].scpe is unknown; did you mean scope?'],
    ['gate:\n  rules:\n    - path: /a\n      colour: a', 'config.yaml, line 7: gate.rules[0].colour is unknown'],
    ['gate:\n  rules:\n    - path: /a\n      scope: [a, "b c"]', 'config.yaml, line 7: gate.rules[0].scope is not usable: scope takes a word, or a list of one or more words, without spaces, quotes and backslashes'],
    ['gate:\n  rules:\n    - path: /a\n      maxAgeSeconds: soon', 'config.yaml, line 7: gate.rules[0].maxAgeSeconds is not usable: maxAgeSeconds takes a whole number of seconds, 0 or more'],
    ['gate:\n  rules:\n    - path: /a\n      claims: { a: [] }', 'config.yaml, line 7: gate.rules[0].claims is not usable: the claim "a" takes a string, a number, a boolean, a list of one or more of these, or a function'],
    ['gate:\n  rules:\n    - path: /a\n      allow: all', 'config.yaml, line 7: gate.rules[0].allow is not usable; allowed: anyone, token'],
    ['gate:\n  rules:\n    - path: /a\n      allow: anyone\n      scope: a\n      audience: b', 'config.yaml, line 7: gate.rules[0].allow is anyone, and that contradicts scope and audience'],
    ['gate:\n  rules:\n    - path: /a\n      upgrade: maybe', 'config.yaml, line 7: gate.rules[0].upgrade is not usable; allowed: true, false'],
    ['gate:\n  rules:\n    - path: /a\n      audience: ""', 'config.yaml, line 7: gate.rules[0].audience is not usable; allowed: any non-empty string'],
    ['gate:\n  rules:\n    - path: /a\n      methods: [get]', 'config.yaml, line 7: gate.rules[0].methods is not usable; allowed: a list of HTTP methods in upper case'],
    ['gate:\n  rules:\n    - path: /a\n      methods: []', 'config.yaml, line 7: gate.rules[0].methods is not usable; allowed: a list of HTTP methods in upper case'],
    ['gate:\n  rules:\n    - path: /a\n    - path: /b\n    - methods: [PUT, GET]\n      path: /a', 'config.yaml, line 8: gate.rules[2] is unreachable: all its requests belong to gate.rules[0] (config.yaml, line 6)'],
    ['gate:\n  rules:\n    - path: /a\n      methods: [GET]\n    - path: /a\n      methods: [GET, PUT]', 'config.yaml, line 8: gate.rules[1] overlaps gate.rules[0] (config.yaml, line 6): both hold for GET /a'],
    ['gate:\n  rules:\n    - { path: /a, methods: PUT }\n    - { path: /a, methods: [POST] }\n    - { path: /%61, methods: [PUT, POST] }', 'config.yaml, line 8: gate.rules[2] is unreachable: all its requests belong to gate.rules[0] (config.yaml, line 6) and gate.rules[1] (config.yaml, line 7)'],
    ['gate:\n  rules:\n    - { path: "/a/:x(^\\\\d+$)" }\n    - { path: "/a/:y(^1.*$)" }', 'config.yaml, line 7: gate.rules[1] overlaps gate.rules[0] (config.yaml, line 6): both hold for '],
    ['gate:\n  rules:\n    - /a', 'config.yaml, line 6: gate.rules[0] is not usable; expected members such as path and scope'],
    ['gate:\n  rule:\n    - path: /a', 'config.yaml, line 5: gate.rule is unknown; did you mean gate.rules?'],
    ['gate:\n  rules:\n    - path: /a\n      method: GET', 'config.yaml, line 7: gate.rules[0].method is unknown; did you mean methods?'],
    ['gate:\n  rules:\n    - path: /a\n      path: /b', 'config.yaml, line 7: the key "gate.rules[0].path" appears twice'],
    ['gate:\n  rules:\n    - path: /a\n      authorizationDetails: a', 'config.yaml, line 7: gate.rules[0].authorizationDetails is unknown'],
    ['gate:\n  rules:\n    - path: /a\n      methods: [CONNECT]', 'config.yaml, line 7: gate.rules[0].methods is not usable'],
    ['gate:\n  rules:\n    - path: /a\n      acr: ""', 'config.yaml, line 7: gate.rules[0].acr is not usable: '],
    ['gate:\n  rules:\n    - path: /a\n      anyScope: []', 'config.yaml, line 7: gate.rules[0].anyScope is not usable: '],
    ['gate:\n  rules:\n    - path: /x\n    - path: /a\n    - path: /a', 'config.yaml, line 8: gate.rules[2] is unreachable: all its requests belong to gate.rules[1] (config.yaml, line 7)'],
    ['gate:\n  rules:\n    - { path: "/a/:id", methods: GET }\n    - { path: "/a/:name", methods: [HEAD] }', 'config.yaml, line 7: gate.rules[1] is unreachable: all its requests belong to gate.rules[0] (config.yaml, line 6)'],
    ['gate:\n  rules:\n    - path: /a\n    - path: /a/:id?', 'config.yaml, line 7: gate.rules[1] overlaps gate.rules[0] (config.yaml, line 6): both hold for '],
    ['gate:\n  upstream: http://a\n  rules:\n    - path: /health/live', 'config.yaml, line 7: gate.rules[0] is unreachable: the service itself answers under /health'],
    ['gate:\n  upstream: http://a\n  rules:\n    - path: /%64ocs', 'config.yaml, line 7: gate.rules[0] is unreachable: the service itself answers under /docs'],
    ['gate:\n  upstream: http://a\n  ownPrefix: /-\n  rules:\n    - path: /-/health', 'config.yaml, line 8: gate.rules[0] is unreachable: the service itself answers under /-/health'],
    ['gate:\n  rules:\n    - path: /a?b=c', 'config.yaml, line 6: gate.rules[0].path is unreachable: a rule is chosen by the path, and the query is no part of it'],
    ...['/a/../b', '/a/%2e%2e', '/a//b', '/a%2fb', '/a%', '/a#b', '/a\\b', '/a b'].map((path): [string, string] => [`gate:\n  rules:\n    - path: '${path}'`, 'config.yaml, line 6: gate.rules[0].path is unreachable: such paths are refused before any rule']),
    ['gate:\n  rules:\n    - path: a', 'config.yaml, line 6: gate.rules[0].path is not usable; allowed: a path in the syntax of the router, such as /orders/:id or /orders/*'],
    ['gate:\n  rules:\n    - path: /*/a', 'config.yaml, line 6: gate.rules[0].path is not usable in the syntax of the router'],
    ['gate:\n  rules:\n    - path: "/:a(^(a+)+$)"', 'config.yaml, line 6: gate.rules[0].path is not usable in the syntax of the router'],
    ['gate:\n  statementKey: key.pem', 'config.yaml, line 5: gate.statementKey needs gate.statementAudience (or gate.upstream), because each statement names its reader'],
    ...['xhttp://a', 'http://a/b', 'http://a?b', 'ftp://a', 'a:80', 'http://u@a', 'http://a b', '[http://a]'].map((upstream): [string, string] => [`gate:\n  upstream: ${upstream}`, 'config.yaml, line 5: gate.upstream is not usable; allowed: http or https URL of a host, with a port or without, and nothing more']),
    ...['[a.b, a_b]', 'email', '{ "a b": c }', '{ a: [b] }', '[[a]]'].map((claims): [string, string] => [`gate:\n  claims: ${claims}`, 'config.yaml, line 5: gate.claims is not usable']),
    ...['0', '86401', '1.5', '"1e1"', '" 5"', '""', 'true', '[5]'].map((given): [string, string] => [`gate:\n  timeoutSeconds: ${given}`, 'config.yaml, line 5: gate.timeoutSeconds is not usable; allowed: 1 to 86400']),
    ['gate:\n  upstreamProtocol: h3', 'config.yaml, line 5: gate.upstreamProtocol is not usable; allowed: auto, http1, h2'],
    ['gate:\n  passCredentials: "yes"', 'config.yaml, line 5: gate.passCredentials is not usable; allowed: true, false'],
    ['gate:\n  ownPrefix: -x', 'config.yaml, line 5: gate.ownPrefix is not usable; allowed: a path of plain segments, such as /-'],
    ['gate:\n  statementAudience: []', 'config.yaml, line 5: gate.statementAudience is not usable; allowed: any non-empty string']
  ]
  for (const [gate, problem] of rows) {
    const problems = await problemsOf(gate)
    t.equal(problems.length, 1, `${gate}: ${problems.join(' | ')}`)
    t.ok(problems[0]?.startsWith(problem), problem)
  }
})

t.test('The least and the most that a number may be are taken.', async t => {
  for (const [given, expected] of [['1', 1], ['86400', 86400], ['"86400"', 86400]] as const) t.equal((await read(`gate:\n  timeoutSeconds: ${given}`)).gate!.timeoutSeconds, expected)
})

t.test('Options have no lines, so a problem has only the path.', t => {
  t.same(parseGate({ rules: [{ path: '/\ud800' }] }).problems, ['gate.rules[0].path is unreachable: such paths are refused before any rule (escape)'])
  t.same(parseGate({ rules: [{ path: '/a' }, { path: '/a' }] }).problems, ['gate.rules[1] is unreachable: all its requests belong to gate.rules[0]'])
  t.same(parseGate({ rules: [{ path: '/a', scop: 'b' }] }).problems, ['gate.rules[0].scop is unknown; did you mean scope?'])
  t.same(parseGate({ colour: 1, rules: [{ path: '/a', colour: 1 }] }).problems, ['gate.colour is unknown', 'gate.rules[0].colour is unknown'])
  t.same(parseGate({ rules: 7 }).problems, ['gate.rules is a list: expected entries such as { path: /orders/*, scope: read:orders }'])
  t.same(parseGate([]).problems, ['gate is a section: expected members such as upstream and rules'])
  t.same(parseGate({ upstream: 'a', rules: [{ path: '/docs' }] }).problems, [
    'gate.upstream is not usable; allowed: http or https URL of a host, with a port or without, and nothing more', 'gate.rules[0] is unreachable: the service itself answers under /docs'
  ], 'each problem is told at once')
  t.same(parseGate({ claims: 7 }).problems, ['gate.claims is not usable; allowed: a list of claims, or a map from the end of a header name (letters, digits and -) to a claim; no two of them may share a header'])
  t.same(parseGate({ bodyLimit: -1, statementKey: '' }).problems, ['gate.bodyLimit is not usable; allowed: a whole number of bytes', 'gate.statementKey is not usable; allowed: path of a file with a private key (PKCS#8 in PEM form, EC P-256)'])
  t.end()
})

t.test('What is set in a gate is held to its form from the first character to the last.', t => {
  const rows: ReadonlyArray<{ name: keyof GateOptions, good: readonly unknown[], bad: readonly unknown[] }> = [
    { name: 'ownPrefix', good: ['/-', '/a/b', '/A_~-9'], bad: ['', '/', 'a/-', '/a/', '/a//b', '/a.', '/a b', 7, ['/a'], null] },
    { name: 'timeoutSeconds', good: [1, 86_400, '30'], bad: [0, 86_401, '5 ', ' 5', '5x', '0x5', '1'.repeat(16), Number.NaN, null, true] },
    { name: 'bodyLimit', good: [0, '0', Number.MAX_SAFE_INTEGER], bad: [-1, 0.5, Number.MAX_SAFE_INTEGER + 1, Infinity] },
    { name: 'grpcPort', good: [0, 65_535], bad: [-1, 65_536] },
    { name: 'passCredentials', good: [true, false], bad: [0, 'true', null] },
    { name: 'statementAudience', good: ['a', 7, 0], bad: ['', true, null, {}] },
    { name: 'upstreamProtocol', good: ['auto', 'http1', 'h2'], bad: ['', 'http2', null] },
    { name: 'upstream', good: ['http://a'], bad: ['', null, 7] }
  ]
  for (const { name, good, bad } of rows) {
    for (const given of good) t.same(parseGate({ [name]: given }).problems, [], `${name}: ${given}`)
    for (const given of bad) {
      const { problems, settings } = parseGate({ [name]: given })
      t.match(problems, [new RegExp(`^gate\\.${name} is not usable; allowed: .`)], `${name}: ${given}`)
      t.same(settings, parseGate({}).settings, 'what is not usable counts as unset')
    }
  }
  t.equal(parseGate({ bodyLimit: '0' }).settings.bodyLimit, 0)
  t.same(parseGate({ statementKey: 'key.pem', upstream: 'http://a' }).problems, [])
  t.same(parseGate({ statementKey: 'key.pem', statementAudience: 'a' }).problems, [])
  t.same(parseGate(undefined, new Map(), 'http://a').settings.rules.map(({ path }) => path), ['/*'])
  t.same(parseGate(null).problems, [])
  t.same(ownPathsOf('/-'), ['/-/health', '/-/metrics', '/-/docs', '/.well-known/oauth-protected-resource', '/.well-known/holdfast-jwks.json', '/verify'])
  t.end()
})

t.test('A rule is read as a whole: each member that cannot be used is told, and no rule comes of it.', t => {
  const read = (given: unknown): { rule: GateRule | undefined, told: string[] } => {
    const told: string[] = []
    return { rule: parseRule(given, (member, problem) => { told.push(`${member ?? ''}${problem}`) }), told }
  }
  t.same(read({ path: '/a' }), { rule: { path: '/a', methods: undefined, requirement: {}, audience: undefined, upgrade: false }, told: [] })
  t.same(read({ path: '/a', methods: ['GET', 'GET', 'PUT'], audience: 0, upgrade: true, scope: ['x', 'y'], acr: 'gold' }).rule, {
    path: '/a', methods: ['GET', 'PUT', 'HEAD'], requirement: { scope: ['x', 'y'], acr: ['gold'] }, audience: '0', upgrade: true
  })
  t.same(read({ path: '/a', allow: 'anyone', audience: undefined }).rule?.requirement, undefined)
  t.same(read({ path: '/a', methods: 'HEAD' }).rule?.methods, ['HEAD'])
  const bad: ReadonlyArray<{ given: unknown, told: readonly string[] }> = [
    ...[null, undefined, [], 'a', 7].map(given => ({ given, told: [' is not usable; expected members such as path and scope'] })),
    { given: {}, told: [' has no path'] },
    { given: { path: 7 }, told: ['path is not usable; allowed: a path in the syntax of the router, such as /orders/:id or /orders/*'] },
    { given: { path: '/a', methods: [7], upgrade: 1, audience: false, allow: 'x' }, told: ['methods is not usable; allowed: a list of HTTP methods in upper case', 'upgrade is not usable; allowed: true, false', 'audience is not usable; allowed: any non-empty string', 'allow is not usable; allowed: anyone, token'] },
    { given: { path: '/a', allow: 'anyone', scope: 'x', acr: 'y', audience: 'z' }, told: ['allow is anyone, and that contradicts scope and acr and audience'] },
    { given: { path: '/a', scope: 'a b', acr: [] }, told: ['scope is not usable: scope takes a word, or a list of one or more words, without spaces, quotes and backslashes', 'acr is not usable: acr takes a word, or a list of one or more words, without spaces, quotes and backslashes'] }
  ]
  for (const { given, told } of bad) t.same(read(given), { rule: undefined, told }, JSON.stringify(given))

  const problemOf = (path: string): string | undefined => read({ path }).told[0]
  for (const path of ['/', '/*', '/a/:id', '/a/:id?', '/a-:x-b', '/:x(^(?:a|b)$)', '/:x(^a?$)', '/:x(^%2F$)', '/caf\u00e9', '/%7e', '/a/:x(^\\d+$)/b/:y(^z$)?']) t.equal(problemOf(path), undefined, path)
  for (const path of ['/a?', '/a?b', '/:a/b?', '/:a?/b']) t.equal(problemOf(path), 'path is unreachable: a rule is chosen by the path, and the query is no part of it', path)
  for (const [path, cause] of [['/a//b', 'double_slash'], ['/../a', 'dot_segment'], ['/..;/a', 'dot_segment'], ['/%2f', 'slash_escape'], ['/%00', 'control_character'], ['/%ff', 'encoding'], ['/%', 'escape'], ['/\ud800', 'escape'], ['/a#', 'fragment']] as const) {
    t.equal(problemOf(path), `path is unreachable: such paths are refused before any rule (${cause})`, path)
  }
  for (const path of ['/*/a', '/:x(a', '/:x((a+)+)']) t.equal(problemOf(path), 'path is not usable in the syntax of the router', path)
  t.end()
})

t.test('Of the rules whose methods fit, the one with the most specific path is found.', t => {
  const paths = ['/', '/a', '/a/*', '/a/:id', '/a/:id/b', '/A', '/n/:n(^\\d+$)', '/o/:x?', '/caf\u00e9', '/t/', '/%7e', '/%2A', '/p/100%25', '/:x(^%2F$)']
  const { settings } = parseGate({ rules: [...paths.map(path => ({ path })), { path: '/m', methods: ['PUT'] }, { path: '/m', methods: ['GET'], scope: 'x' }] })
  const rules = createRules(settings.rules)
  const rows: ReadonlyArray<readonly [path: string, rule: string | undefined]> = [
    ['/', '/'], ['/a', '/a'], ['/A', '/A'], ['/a/', '/a/:id'], ['/a/b', '/a/:id'], ['/a/b/', '/a/*'], ['/a/b/b', '/a/:id/b'], ['/n/7', '/n/:n(^\\d+$)'], ['/n/x', undefined], ['/o', '/o/:x?'], ['/o/1', '/o/:x?'],
    ['/caf%C3%A9', '/caf\u00e9'], ['/t', undefined], ['/t/', '/t/'], ['/~', '/%7e'], ['/%2A', '/%2A'], ['/*', undefined], ['/p/100%25', '/p/100%25'], ['/p/100', undefined], ['/a;b', undefined], ['/a;b/c', undefined]
  ]
  for (const [path, rule] of rows) t.equal(rules.find('GET', path)?.path, rule, path)
  t.equal(rules.find('GET', `/a/${'x'.repeat(500)}`)?.path, '/a/:id', 'a long parameter')
  t.same(['PUT', 'GET', 'HEAD', 'POST', 'get'].map(method => rules.find(method, '/m')?.methods), [['PUT'], ['GET', 'HEAD'], ['GET', 'HEAD'], undefined, undefined])
  t.end()
})

t.test('Two rules for the same requests are told apart from two that only look alike.', t => {
  const problemsOf = (...rules: object[]): readonly string[] => parseGate({ rules }).problems
  t.same(problemsOf({ path: '/x' }, { path: '/a', methods: 'PUT' }, { path: '/b' }, { path: '/a' }), ['gate.rules[3] overlaps gate.rules[1]: both hold for PUT /a'])
  t.same(problemsOf({ path: '/a', methods: 'PUT' }, { path: '/a', methods: ['GET', 'PUT'] }, { path: '/a', methods: ['HEAD', 'POST'] }), ['gate.rules[1] overlaps gate.rules[0]: both hold for PUT /a', 'gate.rules[2] overlaps gate.rules[1]: both hold for HEAD /a'])
  t.same(problemsOf({ path: '/a/:x' }, { path: '/a/:y' }), ['gate.rules[1] is unreachable: all its requests belong to gate.rules[0]'])
  t.same(problemsOf({ path: '/a/:x' }, { path: '/a/*' }, { path: '/a/b' }, { path: '/a/:x/c' }, { path: '/A/b' }, { path: '/a/b/' }), [])
  t.same(problemsOf({ path: '/a', methods: 'GET' }, { path: '/a', methods: 'HEAD' }), ['gate.rules[1] is unreachable: all its requests belong to gate.rules[0]'], 'HEAD goes with GET')
  t.same(parseGate({ upstream: 'http://a', rules: ['/docs', '/docs/json', '/docs2', '/healthy', '/verify/x', '/.well-known/oauth-protected-resource'].map(path => ({ path })) }).problems, [
    'gate.rules[0] is unreachable: the service itself answers under /docs', 'gate.rules[1] is unreachable: the service itself answers under /docs', 'gate.rules[4] is unreachable: the service itself answers under /verify', 'gate.rules[5] is unreachable: the service itself answers under /.well-known/oauth-protected-resource'
  ])
  t.same(problemsOf({ path: '/docs' }), [], 'a gate that is only asked has no such paths')
  t.end()
})
