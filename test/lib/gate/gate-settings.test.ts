import t from 'tap'
import { containing } from '../../helpers/containing.ts'
import { parseGate } from '../../helpers/gate-section.ts'
import { quoteSetting } from '../../../lib/base/printable.ts'
import { ownPathsOf } from '../../../lib/gate/gate-settings.ts'
import { isSamePath } from '../../../lib/gate/rule-path.ts'
import { createRules } from '../../../lib/gate/rules.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import type { GateOptions } from '../../../lib/settings/option-types.ts'
import type { SettingsError } from '../../../lib/base/settings-error.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

const ENOUGH = 'idp:\n  domain: tenant.example\n  audience: https://api.example\n'

/** The settings of a configuration file. @throws SettingsError */
async function read (gate: string, environment: Record<string, string> = {}) {
  const found = collectSettings({
    environment,
    readFile: name => name === 'config.yaml' ? ENOUGH + gate : undefined
  })
  return validateSettings(found, processSurroundings)
}

const problemsOf = (...given: Parameters<typeof read>) =>
  read(...given).then(() => [], ({ problems }: SettingsError) => problems)

t.test('A gate has defaults, and takes values from the file.', async t => {
  t.equal((await read('')).gate, undefined)
  t.equal((await read('gate:\n')).gate, undefined, 'without a value it counts as unset')
  t.hasStrict((await read('gate: {}')).gate, {
    upstream: undefined,
    rules: [],
    exactPaths: false,
    timeoutSeconds: 30,
    idleSeconds: 4,
    keepAliveSeconds: 15,
    host: 'client',
    bodyLimit: undefined,
    claims: [],
    withheldHeaders: [],
    passCredentials: false,
    statementKey: undefined,
    statementAudience: undefined,
    ownPrefix: '',
    grpcPort: undefined
  })
  const { gate } = await read(`gate:
  upstream: HTTP://Upstream.example:80/
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
      upgrade: true
    - { path: "/users/:id(^\\\\d+$)/:tail?", allow: token }
`)
  t.hasStrict(gate, {
    upstream: 'http://upstream.example',
    timeoutSeconds: 5,
    bodyLimit: 1000,
    claims: [{ header: 'x-auth-claim-email', claim: 'email' }, {
      header: 'x-auth-claim-https---id-example-team',
      claim: 'https://id.example/team'
    }, { header: 'x-auth-claim-level-2', claim: 'level_2' }],
    passCredentials: true,
    statementKey: ['key.pem'],
    statementAudience: '17',
    ownPrefix: '/-/own',
    grpcPort: 9000,
    rules: [
      { path: '/a', methods: ['GET', 'HEAD'], requirement: { scope: ['x'] }, upgrade: false },
      {
        requirement: {
          claims: [{ name: 'level', allowed: [3] }, { name: 'text', allowed: ['3'] }, { name: 'on', allowed: [true] }, {
            name: 'list',
            allowed: ['a', 4]
          }],
          maxAgeSeconds: 60,
          acr: ['gold']
        }
      },
      { audiences: ['12'], requirement: {} },
      { requirement: undefined, methods: undefined, upgrade: true },
      { requirement: {} }
    ]
  })
})

t.test('An upstream outside the file replaces the one in it, and needs no rules.', async t => {
  const environment = { GATE_UPSTREAM: 'http://127.0.0.1:3000/' }
  const everywhere = { path: '/*', methods: undefined, requirement: {}, audience: undefined, upgrade: false }
  t.hasStrict((await read('', environment)).gate, { upstream: 'http://127.0.0.1:3000', rules: [everywhere] })
  t.hasStrict((await read('gate:\n  upstream: http://a\n  claims: [email]\n', environment)).gate, {
    upstream: 'http://127.0.0.1:3000',
    rules: [everywhere],
    claims: [{ claim: 'email' }]
  })
  t.strictSame((await read('gate:\n  rules: []\n', environment)).gate?.rules, [], 'an empty list lets nothing pass')
  t.hasStrict((await read('gate:\n  rules:\n    - path: /a\n', environment)).gate?.rules, [{ path: '/a' }])
  t.strictSame(
    (await read('gate:\n  upstream: http://a\n')).gate?.rules,
    [],
    'without it nothing passes unless there is a rule'
  )
  t.strictSame(await problemsOf('', { GATE_UPSTREAM: 'http://a/b' }), [
    'GATE_UPSTREAM is "http://a/b"; allowed: http or https URL of a host, with a port or without, and nothing more'
  ])
  t.strictSame(await problemsOf('gate:\n  rules:\n    - path: /docs\n', environment), [
    'config.yaml, line 6: gate.rules[0] ("/docs") is unreachable: the service itself answers under /docs'
  ])
})

/** A value of the file as a message quotes it. */
const quoted = (yaml: string) =>
  yaml.startsWith('[') ? 'a list' : /^(?:"|-?[0-9.]+$|true$)/.test(yaml) ? yaml : JSON.stringify(yaml)

t.test('Each mistake stops the start, with its line and the name of the member.', async t => {
  const rows: Array<[gate: string, problem: string]> = [
    ['gate: on', 'config.yaml, line 4: gate is "on"; allowed: a section with members such as upstream and rules'],
    ['gate:\n  upsteam: http://a', 'config.yaml, line 5: gate.upsteam is unknown; did you mean gate.upstream?'],
    ['gate:\n  ? [a]\n  : b', 'config.yaml, line 5: gate.'],
    ['gate: { host, rules: on }', 'config.yaml, line 4: gate.rules is "on"; allowed: a list'],
    ['gate:\n  colour: red', 'config.yaml, line 5: gate.colour is unknown; allowed: upstream, '],
    ['gate:\n  grpcPort: 1\n  grpcPort: 2', 'config.yaml, line 6: the key "gate.grpcPort" appears twice'],
    ['gate:\n  grpcPort:\n  grpcPort: 2', 'config.yaml, line 6: the key "gate.grpcPort" appears twice'],
    ...['-1', '65536', '80.5', 'on', 'true', '"0x50"', '[9000]', '""'].map((
      port
    ): [string, string] => [
      `gate:\n  grpcPort: ${port}`,
      `config.yaml, line 5: gate.grpcPort is ${quoted(port)}; allowed: 0 to 65535`
    ]),
    [
      'gate:\n  rules: {}',
      'config.yaml, line 5: gate.rules is {}; allowed: a list of entries such as { path: /orders/*, scope: ' +
      'read:orders }'
    ],
    [
      'gate:\n  rules:\n    - word',
      'config.yaml, line 6: gate.rules[0] is "word"; allowed: an object with members such as path and scope'
    ],
    ['gate:\n  rules:\n    - scope: a', 'config.yaml, line 6: gate.rules[0] has no path'],
    [
      'gate:\n  rules:\n    - path: /a\n      scpe: a',
      'config.yaml, line 7: gate.rules[0].scpe is unknown; did you mean scope?'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      colour: a',
      'config.yaml, line 7: gate.rules[0].colour is unknown; allowed: path, methods, allow, scope, anyScope, ' +
      'claims, acr, maxAgeSeconds, audience, optional, timeoutSeconds, observe, upgrade, mcp'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      scope: [a, "b c"]',
      'config.yaml, line 7: gate.rules[0].scope is ["a","b c"]: scope takes a word, or a list of one or more ' +
      'words, without spaces, quotes and backslashes'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      maxAgeSeconds: soon',
      'config.yaml, line 7: gate.rules[0].maxAgeSeconds is "soon": maxAgeSeconds takes a whole number of ' +
      'seconds, 0 or more'
    ],
    ['gate:\n  exactPath:', 'config.yaml, line 5: gate.exactPath is unknown; did you mean gate.exactPaths?'],
    // Such as a template leaves. Without it, the rule would ask for less.
    ...['allow', 'scope', 'anyScope', 'claims', 'acr', 'maxAgeSeconds', 'audience', 'methods', 'mcp'].map(
      (member): [gate: string, problem: string] => [
        `gate:\n  rules:\n    - path: /a\n      ${member}:`,
        `config.yaml, line 7: gate.rules[0].${member} is null`
      ]
    ),
    ...['methods', 'tools', 'onlyRuled', 'onlyCallable'].map((member): [gate: string, problem: string] => [
      `gate:\n  rules:\n    - path: /a\n      mcp: { ${member}: }`,
      `config.yaml, line 7: gate.rules[0].mcp.${member} is null`
    ]),
    [
      'gate:\n  rules:\n    - path: /a\n      mcp: { tools: [a], arguments: }',
      'config.yaml, line 7: gate.rules[0].mcp.arguments is null: it takes an object with one or more arguments'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      claims: { role: admin, tenant: }',
      'config.yaml, line 7: gate.rules[0].claims is a mapping: the claim "tenant" takes a ' +
      'string, a number, a boolean, a list of one or more of these, or a function'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      claims: { a: [] }',
      'config.yaml, line 7: gate.rules[0].claims is a mapping: the claim "a" takes a string, a number, a boolean, ' +
      'a list of one or more of these, or a function'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      allow: all',
      'config.yaml, line 7: gate.rules[0].allow is "all"; allowed: anyone, token'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      allow: anyone\n      scope: a\n      audience: b',
      'config.yaml, line 7: gate.rules[0].allow is anyone, and that contradicts scope and audience'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      upgrade: maybe',
      'config.yaml, line 7: gate.rules[0].upgrade is "maybe"; allowed: true, false'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      audience: ""',
      'config.yaml, line 7: gate.rules[0].audience is ""; allowed: any non-empty string'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      methods: [get]',
      'config.yaml, line 7: gate.rules[0].methods is ["get"]; allowed: a list of HTTP methods in upper case'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      methods: []',
      'config.yaml, line 7: gate.rules[0].methods is []; allowed: a list of HTTP methods in upper case'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n    - path: /b\n    - methods: [PUT, GET]\n      path: /a',
      'config.yaml, line 8: gate.rules[2] ("/a") overlaps gate.rules[0] (config.yaml, line 6): both hold for PUT /a'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      methods: [GET]\n    - path: /a\n      methods: [GET, PUT]',
      'config.yaml, line 8: gate.rules[1] ("/a") overlaps gate.rules[0] (config.yaml, line 6): both hold for GET /a'
    ],
    [
      'gate:\n  rules:\n    - { path: /a, methods: PUT }\n    - { path: /a, methods: [POST] }\n    - { path: ' +
      '/%61, methods: [PUT, POST] }',
      'config.yaml, line 8: gate.rules[2] ("/%61") overlaps gate.rules[0] (config.yaml, line 6): both hold for PUT /%61'
    ],
    [
      'gate:\n  rules:\n    - { path: "/a/:x(^\\\\d+$)" }\n    - { path: "/a/:y(^1.*$)" }',
      'config.yaml, line 7: gate.rules[1] ("/a/:y(^1.*$)") overlaps gate.rules[0] (config.yaml, line 6): both hold for '
    ],
    [
      'gate:\n  rules:\n    - /a',
      'config.yaml, line 6: gate.rules[0] is "/a"; allowed: an object with members such as path and scope'
    ],
    ['gate:\n  rule:\n    - path: /a', 'config.yaml, line 5: gate.rule is unknown; did you mean gate.rules?'],
    [
      'gate:\n  rules:\n    - path: /a\n      method: GET',
      'config.yaml, line 7: gate.rules[0].method is unknown; did you mean methods?'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      path: /b',
      'config.yaml, line 7: the key "gate.rules[0].path" appears twice'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      authorizationDetails: a',
      'config.yaml, line 7: gate.rules[0].authorizationDetails is unknown'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n      methods: [CONNECT]',
      'config.yaml, line 7: gate.rules[0].methods is ["CONNECT"]; allowed: '
    ],
    ['gate:\n  rules:\n    - path: /a\n      acr: ""', 'config.yaml, line 7: gate.rules[0].acr is "": '],
    ['gate:\n  rules:\n    - path: /a\n      anyScope: []', 'config.yaml, line 7: gate.rules[0].anyScope is []: '],
    [
      'gate:\n  rules:\n    - path: /x\n    - path: /a\n    - path: /a',
      'config.yaml, line 8: gate.rules[2] ("/a") overlaps gate.rules[1] (config.yaml, line 7): both hold for GET /a'
    ],
    [
      'gate:\n  rules:\n    - { path: "/a/:id", methods: GET }\n    - { path: "/a/:name", methods: [HEAD] }',
      'config.yaml, line 7: gate.rules[1] ("/a/:name") overlaps gate.rules[0] (config.yaml, line 6): ' +
      'both hold for HEAD /a/:name'
    ],
    [
      'gate:\n  rules:\n    - path: "/a/:id1"\n    - path: "/a/:id2"',
      'config.yaml, line 7: gate.rules[1] ("/a/:id2") overlaps gate.rules[0] (config.yaml, line 6): ' +
      'both hold for GET /a/:id2'
    ],
    [
      'gate:\n  rules:\n    - path: /a\n    - path: /a/:id?',
      'config.yaml, line 7: gate.rules[1] ("/a/:id?") overlaps gate.rules[0] (config.yaml, line 6): both hold for '
    ],
    [
      'gate:\n  upstream: http://a\n  rules:\n    - path: /health/live',
      'config.yaml, line 7: gate.rules[0] ("/health/live") is unreachable: the service itself answers under /health'
    ],
    [
      'gate:\n  upstream: http://a\n  rules:\n    - path: /%64ocs',
      'config.yaml, line 7: gate.rules[0] ("/%64ocs") is unreachable: the service itself answers under /docs'
    ],
    [
      'gate:\n  upstream: http://a\n  ownPrefix: /-\n  rules:\n    - path: /-/health',
      'config.yaml, line 8: gate.rules[0] ("/-/health") is unreachable: the service itself answers under /-/health'
    ],
    [
      'gate:\n  rules:\n    - path: /a?b=c',
      'config.yaml, line 6: gate.rules[0].path is "/a?b=c", which is unreachable: a rule is chosen by the path, ' +
      'and the query is no part of it'
    ],
    ...['/a/../b', '/a/%2e%2e', '/a//b', '/a%2fb', '/a%', '/a#b', '/a\\b', '/a b', '/a;b', '/a%3bb/*', '/;'].map((
      path
    ): [string, string] => [
      `gate:\n  rules:\n    - path: '${path}'`,
      `config.yaml, line 6: gate.rules[0].path is ${JSON.stringify(path)}, which is unreachable: such paths are ` +
      'refused before any rule'
    ]),
    [
      'gate:\n  rules:\n    - path: a',
      'config.yaml, line 6: gate.rules[0].path is "a"; allowed: a path in the syntax of the router, such as ' +
      '/orders/:id or /orders/*'
    ],
    [
      'gate:\n  rules:\n    - path: /*/a',
      'config.yaml, line 6: gate.rules[0].path is "/*/a", which the router cannot read; allowed: a path in the ' +
      'syntax of the router'
    ],
    [
      'gate:\n  rules:\n    - path: "/:a(^(a+)+$)"',
      'config.yaml, line 6: gate.rules[0].path is "/:a(^(a+)+$)", which the router cannot read; allowed: '
    ],
    [
      'gate:\n  statementKey: key.pem',
      'config.yaml, line 5: gate.statementKey is "key.pem", which needs gate.statementAudience (or ' +
      'gate.upstream), because each statement names its reader'
    ],
    ...['xhttp://a', 'http://a/b', 'http://a?b', 'ftp://a', 'a:80', 'http://u@a', 'http://a b', '[http://a]'].map((
      upstream
    ): [string, string] => [
      `gate:\n  upstream: ${upstream}`,
      `config.yaml, line 5: gate.upstream is ${
        upstream.startsWith('[') ? 'a list' : upstream.includes('@') ? '"…@a"' : JSON.stringify(upstream)
      }; allowed: http or https URL of a host, with a port or without, and nothing more`
    ]),
    ...['[a.b, a_b]', 'email', '{ "a b": c }', '{ a: [b] }', '[[a]]'].map((
      claims
    ): [string, string] => [`gate:\n  claims: ${claims}`, 'config.yaml, line 5: gate.claims ']),
    ...['0', '86401', '1.5', '"1e1"', '" 5"', '""', 'true', '[5]'].map((
      given
    ): [string, string] => [
      `gate:\n  timeoutSeconds: ${given}`,
      `config.yaml, line 5: gate.timeoutSeconds is ${quoted(given)}; allowed: 1 to 86400`
    ]),
    ['gate:\n  passCredentials: "yes"', 'config.yaml, line 5: gate.passCredentials is "yes"; allowed: true, false'],
    [
      'gate:\n  ownPrefix: -x',
      'config.yaml, line 5: gate.ownPrefix is "-x"; allowed: a path of plain segments, such as /-'
    ],
    [
      'gate:\n  statementAudience: []',
      'config.yaml, line 5: gate.statementAudience is a list; allowed: any non-empty string'
    ]
  ]
  for (const [gate, problem] of rows) {
    const problems = await problemsOf(gate)
    t.equal(problems.length, 1, `${gate}: ${problems.join(' | ')}`)
    t.ok(problems[0]?.startsWith(problem), problem)
  }
})

t.test('Of a thousand rules, only the one that overlaps is told.', async t => {
  const rules = Array.from({ length: 1000 }, (_, index) => ({ path: `/r${index}/:id`, methods: ['GET'] }))
  t.strictSame((await parseGate({ rules })).problems, [])
  t.strictSame((await parseGate({ rules: [...rules, { path: '/r500/:name' }] })).problems, [
    'gate.rules[1000] ("/r500/:name") overlaps gate.rules[500]: both hold for GET /r500/:name'
  ])
})

t.test('The minimum and the maximum of a number are accepted.', async t => {
  for (const [given, expected] of [['1', 1], ['86400', 86400], ['"86400"', 86400]] as const) {
    t.equal((await read(`gate:\n  timeoutSeconds: ${given}`)).gate!.timeoutSeconds, expected)
  }
})

t.test('Options have no lines, so a problem has only the path.', async t => {
  t.strictSame((await parseGate({ rules: [{ path: '/\ud800' }] })).problems, [
    'gate.rules[0].path is "/\\ud800", which is unreachable: such paths are refused before any rule (escape)'
  ])
  t.strictSame((await parseGate({ rules: [{ path: '/a' }, { path: '/a' }] })).problems, [
    'gate.rules[1] ("/a") overlaps gate.rules[0]: both hold for GET /a'
  ])
  t.strictSame((await parseGate({ rules: [{ path: '/a', scop: 'b' }] })).problems, [
    'gate.rules[0].scop is unknown; did you mean scope?'
  ])
  const withheld = async (...withheldHeaders: unknown[]) => (await parseGate({ rules: [], withheldHeaders })).problems
  for (const wrong of ['X-*-A', '*', '', 'x.y', 7]) {
    const [problem, ...others] = await withheld('X-Tenant', wrong)
    t.match(problem, /^gate\.withheldHeaders.*; allowed: a list of at most 100 names of headers/, `${wrong}`)
    t.strictSame(others, [])
  }
  for (const [name, needed] of [['Host', 'host'], ['content_length', 'content-length'], ['MCP-*', 'mcp-method']]) {
    t.strictSame(await withheld('X-Tenant', name), [
      `gate.withheldHeaders names ${needed}, which the upstream needs to read the request`
    ])
  }
  t.strictSame(await withheld('X-Tenant', 'x_internal_*', 'Hosts', 'content-language'), [])
  t.strictSame((await parseGate({ colour: 1, rules: [{ path: '/a', colour: 1 }] })).problems, [
    'gate.colour is unknown; allowed: upstream, rules, exactPaths, timeoutSeconds, idleSeconds, keepAliveSeconds, ' +
    'host, bodyLimit, claims, withheldHeaders, passCredentials, statementKey, statementAudience, ownPrefix, grpcPort',
    'gate.rules[0].colour is unknown; allowed: path, methods, allow, scope, anyScope, claims, acr, ' +
    'maxAgeSeconds, audience, optional, timeoutSeconds, observe, upgrade, mcp'
  ])
  t.strictSame((await parseGate({ rules: 7 })).problems, [
    'gate.rules is 7; allowed: a list of entries such as { path: /orders/*, scope: read:orders }'
  ])
  t.strictSame((await parseGate([])).problems, [
    'gate is []; allowed: a section with members such as upstream and rules'
  ])
  t.strictSame((await parseGate({ upstream: 'a', rules: [{ path: '/docs' }] })).problems, [
    'gate.upstream is "a"; allowed: http or https URL of a host, with a port or without, and nothing more',
    'gate.rules[0] ("/docs") is unreachable: the service itself answers under /docs'
  ], 'all problems are reported at once')
  t.strictSame((await parseGate({ claims: 7 })).problems, [
    'gate.claims is 7; allowed: a list of claims, or a map from the end of a header name (letters, digits and -) ' +
    'to a claim; no two of them may share a header'
  ])
  const bad: ReadonlyArray<readonly [claims: unknown, problem?: string]> = [
    [null],
    ['email'],
    [['']],
    [[7]],
    [['a', 'A'], ' has two entries for the header x-auth-claim-a'],
    [['a.b', 'a_b'], ' has two entries for the header x-auth-claim-a-b'],
    [{ a: 7 }],
    [{ '': 'a' }],
    [{ 'a b': 'a' }],
    [{ ' a': 'a' }],
    [{ 'a ': 'a' }],
    [{ a: 'x', A: 'y' }, ' has two entries for the header x-auth-claim-a']
  ]
  for (const [claims, problem] of bad) {
    const { problems: [found, ...more] } = await parseGate({ claims })
    const held = quoteSetting(claims)
    t.ok(found?.startsWith(`gate.claims${problem ?? ` is ${held}; allowed: a list of claims, or a map `}`), `${found}`)
    t.strictSame(more, [])
  }
  t.strictSame((await parseGate({ bodyLimit: -1, statementKey: '' })).problems, [
    'gate.bodyLimit is -1; allowed: a whole number of bytes',
    'gate.statementKey is ""; allowed: path of a file with a private key (PKCS#8 in PEM form, EC P-256), or a ' +
    'list of them; also { file: PATH } or { env: NAME }'
  ])
})

t.test('Each value of a gate is matched from the first character to the last.', async t => {
  const rows: ReadonlyArray<{ name: keyof GateOptions, good: readonly unknown[], bad: readonly unknown[] }> = [
    {
      name: 'ownPrefix',
      good: ['/-', '/a/b', '/A_~-9'],
      bad: ['', '/', 'a/-', '/a/', '/a//b', '/a.', '/a b', 7, null]
    },
    {
      name: 'timeoutSeconds',
      good: [1, 86_400, '30'],
      bad: [0, 86_401, '5 ', ' 5', '5x', '0x5', '1'.repeat(16), Number.NaN, null, true]
    },
    {
      name: 'bodyLimit',
      good: [0, '0', Number.MAX_SAFE_INTEGER],
      bad: [-1, 0.5, Number.MAX_SAFE_INTEGER + 1, Infinity]
    },
    { name: 'grpcPort', good: [0, 65_535], bad: [-1, 65_536] },
    { name: 'passCredentials', good: [true, false], bad: [0, 'true', null] },
    { name: 'statementAudience', good: ['a', 7, 0], bad: ['', true, null, {}] },
    { name: 'upstream', good: ['http://a'], bad: ['', null, 7] }
  ]
  for (const { name, good, bad } of rows) {
    for (const given of good) t.strictSame((await parseGate({ [name]: given })).problems, [], `${name}: ${given}`)
    for (const given of bad) {
      const { problems } = await parseGate({ [name]: given })
      t.match(problems, [containing(`gate.${name} is ${quoteSetting(given)}; allowed: `)], `${name}: ${given}`)
    }
  }
  t.equal((await parseGate({ bodyLimit: '0' })).settings!.bodyLimit, 0)
  t.strictSame((await parseGate({ statementKey: 'key.pem', upstream: 'http://a' })).problems, [])
  t.strictSame((await parseGate({ statementKey: 'key.pem', statementAudience: 'a' })).problems, [])
  const places = [{ file: 'key.pem' }, { env: 'KEY' }]
  for (const statementKey of [...places, places]) {
    const { settings, problems } = await parseGate({ statementKey, upstream: 'http://a' })
    t.strictSame([settings!.statementKey, problems], [[statementKey].flat(), []])
  }
  for (
    const [statementKey, shown] of [
      [{ key: 'hush' }, 'a mapping'],
      [[{ file: 'key.pem', pem: 'hush' }], '[0] is {"file":"key.pem"}'],
      [{ env: '' }, '{"env":""}']
    ] as const
  ) {
    t.strictSame((await parseGate({ statementKey, upstream: 'http://a' })).problems, [
      `gate.statementKey${shown.startsWith('[') ? shown : ` is ${shown}`}; allowed: path of a file with a private ` +
      'key (PKCS#8 in PEM form, EC P-256), or a list of them; also { file: PATH } or { env: NAME }'
    ])
  }
  t.strictSame((await parseGate(undefined, 'http://a')).settings!.rules.map(({ path }) => path), ['/*'])
  t.strictSame(ownPathsOf('/-'), [
    '/-/health',
    '/-/metrics',
    '/-/docs',
    '/.well-known/oauth-protected-resource',
    '/.well-known/holdfast-jwks.json',
    '/verify',
    '/revocation'
  ])
})

t.test('A rule is read as a whole: each member that cannot be used is reported, and there is no rule.', async t => {
  const read = async (given: unknown) => {
    const { settings, problems } = await parseGate({ rules: [given] })
    return { rule: settings?.rules[0], problems: problems.map(problem => problem.replace(/^gate\.rules\[0\]\.?/, '')) }
  }
  t.strictSame(await read({ path: '/a' }), {
    rule: {
      path: '/a',
      methods: undefined,
      requirement: {},
      audiences: undefined,
      timeoutSeconds: undefined,
      upgrade: false,
      observe: true,
      mcp: undefined
    },
    problems: []
  })
  t.strictSame(
    (await read({
      path: '/a',
      methods: ['GET', 'GET', 'PUT'],
      audience: 0,
      upgrade: true,
      observe: false,
      scope: ['x', 'y'],
      acr: 'gold'
    })).rule,
    {
      path: '/a',
      methods: ['GET', 'PUT', 'HEAD'],
      requirement: { scope: ['x', 'y'], acr: ['gold'] },
      audiences: ['0'],
      timeoutSeconds: undefined,
      upgrade: true,
      observe: false,
      mcp: undefined
    }
  )
  t.strictSame((await read({ path: '/a', allow: 'anyone', audience: undefined })).rule?.requirement, undefined)
  t.strictSame((await read({ path: '/a', methods: 'HEAD' })).rule?.methods, ['HEAD'])
  t.strictSame((await read({ path: '/a', mcp: { methods: 'initialize' } })).rule?.mcp?.methods, ['initialize'])
  t.strictSame((await read({ path: '/a', mcp: { tools: 'x' } })).rule?.mcp?.tools, ['x'])
  const bad: ReadonlyArray<{ given: unknown, problems: readonly string[] }> = [
    ...[null, undefined, [], 'a', 7].map(given => ({
      given,
      problems: [` is ${JSON.stringify(given)}; allowed: an object with members such as path and scope`]
    })),
    { given: {}, problems: [' has no path'] },
    {
      given: { path: 7 },
      problems: ['path is 7; allowed: a path in the syntax of the router, such as /orders/:id or /orders/*']
    },
    {
      given: { path: '/a', methods: [7], upgrade: 1, audience: false, allow: 'x' },
      problems: [
        'methods is [7]; allowed: a list of HTTP methods in upper case',
        'allow is "x"; allowed: anyone, token',
        'audience is false; allowed: any non-empty string, or a list of 1 to 20, each once',
        'upgrade is 1; allowed: true, false'
      ]
    },
    {
      given: { path: '/a', allow: 'anyone', scope: 'x', acr: 'y', audience: 'z' },
      problems: ['allow is anyone, and that contradicts scope and acr and audience']
    },
    {
      given: { path: '/a', methods: [7], mcp: { methods: ['initialize'] } },
      problems: ['methods is [7]; allowed: a list of HTTP methods in upper case']
    },
    {
      given: { path: '/a', methods: ['GET'], mcp: { methods: ['initialize'] }, upgrade: 1 },
      problems: [
        'upgrade is 1; allowed: true, false',
        'methods is ["GET"], but only POST carries the messages that mcp names'
      ]
    },
    {
      given: { path: '/a', scope: 'a b', acr: [] },
      problems: [
        'scope is "a b": scope takes a word, or a list of one or more words, without spaces, quotes and backslashes',
        'acr is []: acr takes a word, or a list of one or more words, without spaces, quotes and backslashes'
      ]
    }
  ]
  for (const { given, problems } of bad) {
    t.strictSame(await read(given), { rule: undefined, problems }, JSON.stringify(given))
  }

  t.strictSame((await parseGate({ rules: [{ path: '/a', upgrade: 1 }, { path: '/a' }] })).problems, [
    'gate.rules[0].upgrade is 1; allowed: true, false'
  ], 'it clashes with no other')

  const problemOf = async (path: string) => (await read({ path })).problems[0]
  for (
    const path of [
      '/',
      '/*',
      '/a/:id',
      '/a/:id?',
      '/a-:x-b',
      '/:x(^(?:a|b)$)',
      '/:x(^a?$)',
      '/:x(^%2F$)',
      '/caf\u00e9',
      '/%7e',
      '/a/:x(^\\d+$)/b/:y(^z$)?'
    ]
  ) t.equal(await problemOf(path), undefined, path)
  for (const path of ['/a?', '/a?b', '/:a/b?', '/:a.b?']) {
    t.equal(
      await problemOf(path),
      `path is ${JSON.stringify(path)}, which is unreachable: a rule is chosen by the path, and the query is no ` +
        'part of it',
      path
    )
  }
  for (
    const [path, cause] of [
      ['/a//b', 'double_slash'],
      ['/../a', 'dot_segment'],
      ['/..;/a', 'dot_segment'],
      ['/%2f', 'slash_escape'],
      ['/%00', 'control_character'],
      ['/%ff', 'encoding'],
      ['/%', 'escape'],
      ['/\ud800', 'escape'],
      ['/a#', 'fragment']
    ] as const
  ) {
    t.equal(
      await problemOf(path),
      `path is ${JSON.stringify(path)}, which is unreachable: such paths are refused before any rule (${cause})`,
      path
    )
  }
  for (const path of ['/*/a', '/:x(a', '/:x((a+)+)', '/:a?/b', '/:a?/', '/a:b?/c', '/a:b?-c']) {
    t.equal(
      await problemOf(path),
      `path is ${JSON.stringify(path)}, which the router cannot read; allowed: a path in the syntax of the ` +
        'router, such as /orders/:id or /orders/*',
      path
    )
  }
})

t.test('Of the rules whose methods fit, the one with the most specific path is found.', async t => {
  const paths = [
    '/',
    '/a',
    '/a/*',
    '/a/:id',
    '/a/:id/b',
    '/A',
    '/n/:n(^\\d+$)',
    '/o/:x?',
    '/caf\u00e9',
    '/t/',
    '/%7e',
    '/%2A',
    '/p/100%25',
    '/:x(^%2F$)'
  ]
  const { settings } = await parseGate({
    rules: [...paths.map(path => ({ path })), { path: '/m', methods: ['PUT'] }, {
      path: '/m',
      methods: ['GET'],
      scope: 'x'
    }]
  })
  const rules = createRules(settings!.rules)
  const rows: ReadonlyArray<readonly [path: string, rule: string | undefined]> = [
    ['/', '/'],
    ['/a', '/a'],
    ['/A', '/A'],
    ['/a/', '/a/:id'],
    ['/a/b', '/a/:id'],
    ['/a/b/', '/a/*'],
    ['/a/b/b', '/a/:id/b'],
    ['/n/7', '/n/:n(^\\d+$)'],
    ['/n/x', undefined],
    ['/o', '/o/:x?'],
    ['/o/1', '/o/:x?'],
    ['/caf%C3%A9', '/caf\u00e9'],
    ['/t', undefined],
    ['/t/', '/t/'],
    ['/~', '/%7e'],
    ['/%2A', '/%2A'],
    ['/*', undefined],
    ['/p/100%25', '/p/100%25'],
    ['/p/100', undefined],
    ['/a;b', undefined],
    ['/a;b/c', undefined]
  ]
  for (const [path, rule] of rows) t.equal(rules.find('GET', path)?.rules[0].path, rule, path)
  t.equal(rules.find('GET', `/a/${'x'.repeat(500)}`)?.rules[0].path, '/a/:id', 'a long parameter')
  t.strictSame(['PUT', 'GET', 'HEAD', 'POST', 'get'].map(method => rules.find(method, '/m')?.rules[0].methods), [
    ['PUT'],
    ['GET', 'HEAD'],
    ['GET', 'HEAD'],
    undefined,
    undefined
  ])
})

t.test('Two rules for the same requests are distinguished from two that only look alike.', async t => {
  const problemsOf = async (...rules: object[]) => (await parseGate({ rules })).problems
  t.strictSame(await problemsOf({ path: '/x' }, { path: '/a', methods: 'PUT' }, { path: '/b' }, { path: '/a' }), [
    'gate.rules[3] ("/a") overlaps gate.rules[1]: both hold for PUT /a'
  ])
  t.strictSame(
    await problemsOf({ path: '/a', methods: 'PUT' }, { path: '/a', methods: ['GET', 'PUT'] }, {
      path: '/a',
      methods: ['HEAD', 'POST']
    }),
    [
      'gate.rules[1] ("/a") overlaps gate.rules[0]: both hold for PUT /a',
      'gate.rules[2] ("/a") overlaps gate.rules[1]: both hold for HEAD /a'
    ]
  )
  t.strictSame(await problemsOf({ path: '/a/:x' }, { path: '/a/:y' }), [
    'gate.rules[1] ("/a/:y") overlaps gate.rules[0]: both hold for GET /a/:y'
  ])
  t.strictSame(
    await problemsOf({ path: '/a/:x' }, { path: '/a/*' }, { path: '/a/b' }, { path: '/a/:x/c' }, { path: '/A/b' }, {
      path: '/a/b/'
    }),
    []
  )
  t.strictSame(await problemsOf({ path: '/a', methods: 'GET' }, { path: '/a', methods: 'HEAD' }), [
    'gate.rules[1] ("/a") overlaps gate.rules[0]: both hold for HEAD /a'
  ], 'HEAD goes with GET')
  t.strictSame(
    (await parseGate({
      upstream: 'http://a',
      rules: ['/docs', '/docs/json', '/docs2', '/healthy', '/verify/x', '/.well-known/oauth-protected-resource'].map(
        path => ({ path })
      )
    })).problems,
    [
      'gate.rules[0] ("/docs") is unreachable: the service itself answers under /docs',
      'gate.rules[1] ("/docs/json") is unreachable: the service itself answers under /docs',
      'gate.rules[4] ("/verify/x") is unreachable: the service itself answers under /verify',
      'gate.rules[5] ("/.well-known/oauth-protected-resource") is unreachable: the service itself answers under ' +
      '/.well-known/oauth-protected-resource'
    ]
  )
  t.strictSame(await problemsOf({ path: '/docs' }), [], 'a gate only for forward auth has no such paths')
})

t.test('Two paths are the same if the router treats them as the same.', async t => {
  const rows = [['/a', '/a', true], ['/a', '/%61', true], ['/:id', '/:name', true], ['/a', '/b', false], [
    '/a',
    '/:id',
    false
  ], ['/a', '/a/', false]] as const
  for (const [one, other, isSame] of rows) t.equal(isSamePath(one, other), isSame, `${one} and ${other}`)
})

t.test('A text of digits is a number, for example of a file with quotes', async t => {
  const { settings } = await parseGate({ grpcPort: '9000', bodyLimit: '10', timeoutSeconds: '7' })
  t.hasStrict(settings, { grpcPort: 9000, bodyLimit: 10, timeoutSeconds: 7 })
})
