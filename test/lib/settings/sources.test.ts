import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { containing } from '../../helpers/containing.ts'
import { parseConfigDocument } from '../../../lib/settings/config-document.ts'
import { readTextIfThere, collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { SettingsError } from '../../../lib/base/settings-error.ts'
import { isSetting, variables } from '../../../lib/settings/specs.ts'
import { noSettings } from '../../../lib/settings/tree.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

/** Collects from files that are texts, or that cannot be read for the reason of an error's code. */
function collect (files: Record<string, string | Error>, environment: Record<string, string> = {}) {
  return collectSettings({
    environment,
    readFile (path) {
      const content = files[path]
      if (content instanceof Error) throw content
      return content
    }
  })
}

const withCode = (code: string) => Object.assign(new Error('the system says why'), { code })

t.test('A later source wins over an earlier one, and an empty variable is no source.', async t => {
  const file = 'server: { logLevel: warn }'
  const cases: Array<
    { title: string, files: Record<string, string>, environment?: Record<string, string>, expected: unknown }
  > = [
    { title: 'nothing is set', files: {}, expected: undefined },
    { title: 'the file', files: { 'config.yaml': file }, expected: 'warn' },
    { title: '.env over the file', files: { 'config.yaml': file, '.env': 'LOG_LEVEL=error' }, expected: 'error' },
    {
      title: 'an empty line of .env counts as unset',
      files: { 'config.yaml': file, '.env': 'LOG_LEVEL=' },
      expected: 'warn'
    },
    {
      title: 'the environment over .env',
      files: { 'config.yaml': file, '.env': 'LOG_LEVEL=error' },
      environment: { LOG_LEVEL: 'fatal' },
      expected: 'fatal'
    },
    {
      title: 'the environment over the file',
      files: { 'config.yaml': file },
      environment: { LOG_LEVEL: 'fatal' },
      expected: 'fatal'
    },
    {
      title: 'an empty variable lets .env speak',
      files: { 'config.yaml': file, '.env': 'LOG_LEVEL=error' },
      environment: { LOG_LEVEL: '' },
      expected: 'error'
    },
    {
      title: 'an empty variable lets the file speak',
      files: { 'config.yaml': file },
      environment: { LOG_LEVEL: '' },
      expected: 'warn'
    },
    {
      title: '.env may be quoted and hold remarks',
      files: { '.env': '# remark\r\nexport LOG_LEVEL="error" # remark\r\n' },
      expected: 'error'
    },
    {
      title: 'names are upper-case in the environment',
      files: {},
      environment: { log_level: 'fatal' },
      expected: undefined
    }
  ]
  for (const { title, files, environment = {}, expected } of cases) {
    t.equal(collect(files, environment).values.server.logLevel, expected, title)
  }
  const found = collect({ 'config.yaml': 'idp:\n  audience: a\n' + file, '.env': 'METRICS=off\nDPOP_NONCE=' }, {
    PORT: '1',
    DPOP_NONCE: 'off',
    https_proxy: 'http://proxy.example'
  })
  t.strictSame(Object.fromEntries([...found.places].filter(([path]) => isSetting(path))), {
    'idp.audience': 'config.yaml, line 2',
    'server.logLevel': 'config.yaml, line 3',
    'server.metrics': '.env',
    'server.port': 'environment',
    'dpop.nonce': 'environment',
    'proxies.httpsProxy': 'environment'
  }, 'and each value has the place where it was found')
})

t.test('Blanks alone separate the audiences of the environment. A control character is part of one, and refused.', t => {
  const audience = (text: string) => collect({}, { IDP_AUDIENCE: text }).values.idp.audience
  t.strictSame(audience(' a,b  c '), ['a,b', 'c'])
  t.strictSame(audience('a\tb\n'), ['a\tb\n'])
  t.end()
})

t.test('AUDIT says where the audit goes, and its pseudonyms are still those of the file.', async t => {
  const key = 'pseudonymKey: { env: KEY }'
  for (const [file, audit] of [
    [`{ to: 'off', ${key} }`, { to: 'log', pseudonymKey: { env: 'KEY' } }],
    [`{ ${key} }`, { to: 'log', pseudonymKey: { env: 'KEY' } }],
    ['/var/log/audit', 'log']
  ] as const) {
    const { values, places } = collect({ 'config.yaml': `audit: ${file}` }, { AUDIT: 'log' })
    t.strictSame(values.audit, audit)
    t.equal(places.get(typeof audit === 'string' ? 'audit' : 'audit.to'), 'environment')
  }
})

t.test('The configuration file is the one that CONFIG_FILE names, else the first of three in the working directory.', async t => {
  const files = {
    'config.yaml': 'idp: { domain: from.yaml }',
    'config.yml': 'idp: { domain: from.yml }',
    'config.json': '{\n\t"idp": { "domain": "from.json" }\n}',
    'other/settings.yaml': 'idp: { domain: from.other }'
  }
  const { 'config.yaml': yaml, ...withoutYaml } = files
  const { 'config.yml': yml, ...jsonAlone } = withoutYaml
  const cases: Array<{ present: Record<string, string>, environment?: Record<string, string>, domain: string }> = [
    { present: files, domain: 'from.yaml' },
    { present: withoutYaml, domain: 'from.yml' },
    { present: jsonAlone, domain: 'from.json' },
    { present: files, environment: { CONFIG_FILE: 'other/settings.yaml' }, domain: 'from.other' },
    { present: { ...files, '.env': 'CONFIG_FILE=other/settings.yaml' }, domain: 'from.other' },
    { present: files, environment: { CONFIG_FILE: '' }, domain: 'from.yaml' }
  ]
  for (const { present, environment = {}, domain } of cases) {
    const found = collect(present, environment)
    t.strictSame({ domain: found.values.idp.domain, problems: found.problems }, { domain, problems: [] })
  }
})

t.test('A value of the file is a boolean, a number or a text, and a key without a value is unset.', async t => {
  const { problems, values } = collect({
    'config.yaml': [
      'idp:',
      '  audience: 1e3',
      '  domain: ~',
      '  issuer:',
      '  dpopRequired: True',
      '  scopeClaims: [scope, scp]',
      'api: { profile: 2 }',
      'dpop: null',
      'server:',
      '  trustProxy: false',
      '  metrics: off',
      '  logLevel: "null"',
      'revocation: { store: { file: , env: STORE }, outage: }'
    ].join('\n')
  })
  t.strictSame(problems, [])
  t.strictSame(values, {
    ...noSettings(),
    revocation: { store: { env: 'STORE' } },
    idp: { introspection: {}, audience: '1e3', dpopRequired: true, scopeClaims: ['scope', 'scp'] },
    api: { profile: 2 },
    server: { trustProxy: false, metrics: 'off', logLevel: 'null' }
  })
  for (const empty of ['', '# nothing yet\n', '~', '{}']) {
    t.strictSame(collect({ 'config.yaml': empty }), {
      values: noSettings(),
      places: new Map(),
      problems: [],
      isUnread: false,
      unknownVariables: []
    })
  }
})

t.test('A value of the file is a number if no digit is lost, and otherwise the text that was written.', async t => {
  const { problems, values } = collect({
    'config.yaml':
      'gate: { a: 12, b: "12", c: 012, d: 1e3, e: 1.50, f: 9007199254740993, g: NaN, h: Infinity, i: -1.5, j: ' +
      '0x10, k: [3, 03] }'
  })
  t.strictSame(problems, [])
  t.strictSame(values.gate, {
    a: 12,
    b: '12',
    c: '012',
    d: '1e3',
    e: '1.50',
    f: '9007199254740993',
    g: 'NaN',
    h: 'Infinity',
    i: -1.5,
    j: '0x10',
    k: [3, '03']
  })
})

t.test('A mistake in the file is reported with its line and key, never with a value.', async t => {
  const unknown = 'unknown key'
  const cases = [
    { text: 'idp:\n  domain: s3cret.example\n  audience: s3cret', problems: [], isUnread: false },
    {
      text: 'idp:\n  domian: s3cret.example\n  audience: s3cret',
      problems: [`line 2: ${unknown} "idp.domian"; did you mean idp.domain?`],
      isUnread: false
    },
    {
      text: 'idpp:\n  domain: s3cret',
      problems: [`line 1: ${unknown} "idpp"; did you mean idp?`],
      isUnread: false
    },
    {
      text: 'a: 1\nidp:\n  b: 2\n',
      problems: [`line 1: ${unknown} "a"`, `line 3: ${unknown} "idp.b"`],
      isUnread: false
    },
    {
      text: 'idp:\n  Domain: s3cret',
      problems: [`line 2: ${unknown} "idp.Domain"; did you mean idp.domain?`],
      isUnread: false
    },
    {
      text: 'idp:\n  dpop_mode: s3cret',
      problems: [`line 2: ${unknown} "idp.dpop_mode"; did you mean idp.dpopMode?`],
      isUnread: false
    },
    {
      text: 'dpop:\n  mode: s3cret',
      problems: [`line 2: ${unknown} "dpop.mode"; did you mean idp.dpopMode?`],
      isUnread: false
    },
    {
      text: 'trustProxy: s3cret',
      problems: [`line 1: ${unknown} "trustProxy"; did you mean server.trustProxy?`],
      isUnread: false
    },
    {
      text: 'IDP_AUDIENCE: s3cret',
      problems: [`line 1: ${unknown} "IDP_AUDIENCE"; did you mean idp.audience?`],
      isUnread: false
    },
    { text: '"": s3cret', problems: [`line 1: ${unknown} ""`], isUnread: false },
    { text: 'server:\n  port: 8000', problems: [`line 2: ${unknown} "server.port"`], isUnread: false },
    { text: 'idp:\n  idp:\n    domain: s3cret', problems: [`line 2: ${unknown} "idp.idp"`], isUnread: false },
    {
      text: '\n? [idp]\n: s3cret',
      problems: [`line 2: ${unknown} "[\\"idp\\"]"; did you mean idp?`],
      isUnread: false
    },
    { text: 'null: s3cret', problems: [`line 1: ${unknown} "null"`], isUnread: false },
    {
      text: '__proto__: s3cret\nconstructor: {}',
      problems: [`line 1: ${unknown} "__proto__"`, `line 2: ${unknown} "constructor"`],
      isUnread: false
    },
    { text: '{ s3kret }', problems: [`line 1: ${unknown} "s3kret"`], isUnread: false },
    { text: 'idp: s3cret', problems: ['line 1: idp is a section: expected keys under it'], isUnread: false },
    {
      text: 'api: {}\nidp:\n  - domain: s3cret',
      problems: ['line 2: idp is a section: expected keys under it'],
      isUnread: false
    },
    {
      text: 'idp:\n  domain: a\n  domain: b',
      problems: ['line 3: the key "idp.domain" appears twice'],
      isUnread: false
    },
    {
      text: 'idp:\n  domain: a\nidp:\n  audience: b',
      problems: ['line 3: the key "idp" appears twice'],
      isUnread: false
    },
    {
      text: 'idp:\n  domain: a\nidp.domain: b',
      problems: ['line 3: the key "idp.domain" appears twice'],
      isUnread: false
    },
    { text: '- s3cret', problems: ['line 1: expected sections such as idp and server'], isUnread: true },
    { text: 's3cret', problems: ['line 1: expected sections such as idp and server'], isUnread: true },
    {
      text: 'idp:\n  domain: a\n audience: s3cret',
      problems: ['line 3: syntax error (bad indent)'],
      isUnread: true
    },
    { text: 'idp:\n\tdomain: s3cret', problems: ['line 2: syntax error (tab as indent)'], isUnread: true },
    {
      text: '{\n"idp": {\n"domain": "s3cret"',
      problems: ['line 3: syntax error (bad indent)', 'line 3: syntax error (missing char)'],
      isUnread: true
    },
    {
      text: '{\n"idp": {,\n"domain": "s3cret"}}',
      problems: ['line 2: syntax error (unexpected token)'],
      isUnread: true
    },
    {
      text: 'idp:\n  domain: a\n---\nidp: s3cret',
      problems: ['line 3: syntax error (multiple docs)'],
      isUnread: true
    },
    {
      text: 'idp:\n  domain: !vault s3cret',
      problems: ['line 2: syntax error (tag resolve failed)'],
      isUnread: true
    },
    ...['!!omap [idp: s3cret]', '!!pairs [idp: s3cret]', '!!set {idp}', '!!binary czNjcmV0', '!!timestamp 2027-01-15'].map(value =>
      ({ text: `server: ${value}`, problems: ['line 1: syntax error (tag resolve failed)'], isUnread: true })
    ),
    { text: 'idp: &a\n  domain: *a', problems: ['line 2: aliases are not supported'], isUnread: true },
    { text: 'idp:\n  domain: *none', problems: ['line 2: aliases are not supported'], isUnread: true }
  ]
  for (const { text, problems, isUnread } of cases) {
    const found = collect({ 'config.yaml': text })
    t.strictSame(found.problems, problems.map(problem => `config.yaml, ${problem}`), text)
    t.equal(found.isUnread, isUnread, text)
    t.notMatch(found.problems.join(), containing('s3cret'))
  }
})

t.test('Of a section that appears twice all members are judged, and of a setting the later value that is one.', async t => {
  const { values } = collect({
    'config.yaml': 'idp:\n  domain: a\n  introspection:\n    for: jwt\nidp:\n  domain: b\n  domain:\n  introspection:\n' +
      '    clientId: c\n'
  })
  t.strictSame(values.idp, { domain: 'b', introspection: { for: 'jwt', clientId: 'c' } })
})

t.test('A file that cannot be read is reported, and nothing about what may be in it.', async t => {
  const cases: Array<
    { files: Record<string, string | Error>, environment?: Record<string, string>, problems: string[] }
  > = [
    { files: { 'my.yaml': 'idp: { audience: a }' }, environment: { CONFIG_FILE: 'my.yaml' }, problems: [] },
    {
      files: {},
      environment: { CONFIG_FILE: 'my.yaml' },
      problems: ['CONFIG_FILE is "my.yaml": there is no such file']
    },
    {
      files: { 'my.yaml': withCode('EISDIR') },
      environment: { CONFIG_FILE: 'my.yaml' },
      problems: ['my.yaml cannot be read (EISDIR)']
    },
    {
      files: { 'config.yaml': withCode('EACCES'), 'config.yml': '' },
      problems: ['config.yaml cannot be read (EACCES)']
    },
    {
      files: { '.env': withCode('EACCES'), 'config.yml': 'idp: { audience: a }' },
      problems: ['.env cannot be read (EACCES)']
    },
    {
      files: { '.env': withCode('EACCES'), 'config.yml': '[]' },
      problems: ['.env cannot be read (EACCES)', 'config.yml, line 1: expected sections such as idp and server']
    },
    {
      files: { '.env': 'IDP_DPOP_MODE: s3cret' },
      problems: ['.env, line 1: expected NAME=value, a comment or a blank line']
    }
  ]
  for (const { files, environment = {}, problems } of cases) {
    const found = collect(files, environment)
    t.strictSame(found.problems, problems)
    t.equal(found.isUnread, problems.length > 0)
  }
  const found = collect({ 'config.yaml': 'idp: [' }, { LOG_LEVEL: 'loud' })
  const error = await validateSettings(found, processSurroundings).catch((error: SettingsError) =>
    error
  ) as SettingsError
  t.match(
    error.problems,
    [/^config.yaml, line 1: /, /^LOG_LEVEL \(server.logLevel\) is "loud"; allowed: fatal, /],
    'a bad variable is reported beside the bad file'
  )
  t.equal(error.problems.length, 2, 'and the domain is not called missing')
})

t.test('All faults of one start are reported in one message without a stack.', async t => {
  const found = collect({ 'config.yaml': 'idp:\n  domian: a\n  dpopMode: MAYBE' }, {
    PORT: '70000',
    DPOP_MODE: 's3cret',
    DPOP_ENABLED: 'false',
    DPOP_REQUIRED: 'true'
  })
  const error = await validateSettings(found, processSurroundings).catch((error: SettingsError) =>
    error
  ) as SettingsError
  t.type(error, SettingsError)
  t.strictSame(error.message.split('\n'), [
    'The settings are not usable:',
    '  - config.yaml, line 2: unknown key "idp.domian"; did you mean idp.domain?',
    '  - unknown variable "DPOP_MODE"; did you mean IDP_DPOP_MODE?',
    '  - IDP_DPOP_MODE (idp.dpopMode) is "MAYBE"; allowed: DISABLED, ALLOWED or REQUIRED',
    '  - PORT is 70000; allowed: integer, 0 (any free port) to 65535',
    '  - IDP_DOMAIN (idp.domain) is not set; allowed: host, optionally with :port; no scheme, path or user info',
    '  - IDP_AUDIENCE (idp.audience) is not set; allowed: any non-empty string, or a list of 1 to 20, each once; the ' +
    'first is the name of this API',
    '  - DPOP_ENABLED (idp.dpopEnabled) is false and DPOP_REQUIRED (idp.dpopRequired) is true: they contradict ' +
    'each other'
  ])
  t.equal((await import('node:util')).inspect(error), error.message, 'as a program prints it')
})

t.test('A file that is nested too deeply for the parser is reported in one sentence.', async t => {
  const deep = (levels: number) => `{"idp": {"audience"${': 1'.repeat(levels)}}}`
  t.hasStrict(parseConfigDocument(deep(1), line => `line ${line}`), { problems: [], isUnread: false })
  t.hasStrict(parseConfigDocument(deep(12_000), line => `line ${line}`), {
    problems: ['line 1: the file has too many levels'],
    isUnread: true
  })
})

t.test(
  'A variable that is nearly a setting stops the start with the name that was meant, and no setting is taken for ' +
    'one.',
  async t => {
    const meant: Array<[variable: string, setting: string]> = [
      ['IDP_DPOP_MOD', 'IDP_DPOP_MODE'],
      ['DPOP_MODE', 'IDP_DPOP_MODE'],
      ['IDP_DPOP_MODES', 'IDP_DPOP_MODE'],
      ['IDP_DOMIAN', 'IDP_DOMAIN'],
      ['IDP_AUDIENC', 'IDP_AUDIENCE'],
      ['DPOP_REQUIERD', 'DPOP_REQUIRED'],
      ['DPOP_NONE', 'DPOP_NONCE'],
      ['DPOP_REPLAY_', 'DPOP_REPLAY'],
      ['DPOP_IAT_OFFSET_SECONDS', 'IDP_DPOP_IAT_OFFSET_SECONDS'],
      ['idp_dpop_mode', 'IDP_DPOP_MODE'],
      ['IDP_DPOP_REQUIRED', 'DPOP_REQUIRED'],
      ['DPOP_SECURITY_PROFILE', 'SECURITY_PROFILE']
    ]
    for (const [variable, setting] of meant) {
      const problem = `unknown variable ${JSON.stringify(variable)}; did you mean ${setting}?`
      t.hasStrict(collect({}, { [variable]: 's3cret' }), { problems: [problem], unknownVariables: [] }, variable)
      t.hasStrict(
        collect({ '.env': `${variable}=s3cret` }),
        { problems: [problem], unknownVariables: [] },
        `${variable} in .env`
      )
      t.hasStrict(
        collect({ '.env': `${variable}=` }, { [variable]: '' }),
        { problems: [], unknownVariables: [] },
        `${variable} is empty, as if unset`
      )
    }
    const { problems, unknownVariables } = collect(
      {},
      Object.fromEntries([...variables.keys()].map(name => [name, 'x']))
    )
    t.strictSame({ problems, unknownVariables }, { problems: [], unknownVariables: [] }, 'every setting is one')
  }
)

t.test('A variable that begins as settings do, and is like none, is kept for a warning; any other is ignored.', async t => {
  const others = { PATH: '/bin', NODE_PORT: '1', HOST: 'x', PUBLIC_URI: 'x', MY_IDP_DOMAIN: 'x', IDPDOMAIN: 'x' }
  // What Kubernetes sets for a service of the name idp.
  const strangers = { IDP_SERVICE_HOST: 's3cret', IDP_PORT: 's3cret', DPOP_COLOUR: 's3cret', IDP_: 's3cret' }
  const found = collect({ '.env': 'IDP_TEAM=s3cret\nDPOP_COLOUR=s3cret' }, { ...others, ...strangers })
  t.strictSame(found, {
    values: noSettings(),
    places: new Map(),
    problems: [],
    isUnread: false,
    unknownVariables: ['DPOP_COLOUR', 'IDP_', 'IDP_PORT', 'IDP_SERVICE_HOST', 'IDP_TEAM']
  })
  const beside = collect({}, { ...strangers, IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'a' })
  t.strictSame((await validateSettings(beside, processSurroundings)).unknownVariables, Object.keys(strangers).sort())
})

t.test('Variables of proxies are read in either case, the upper one first.', async t => {
  t.equal(collect({}, { https_proxy: 'http://lower.example' }).values.proxies.httpsProxy, 'http://lower.example')
  t.equal(
    collect({}, { https_proxy: 'http://lower.example', HTTPS_PROXY: 'http://upper.example' }).values.proxies.httpsProxy,
    'http://upper.example'
  )
  t.equal(
    collect({}, { https_proxy: 'http://lower.example', HTTPS_PROXY: '' }).values.proxies.httpsProxy,
    'http://lower.example'
  )
  t.strictSame(collect({}, { http_proxy: 'http://p', no_proxy: '*' }).values.proxies, {
    httpProxy: 'http://p',
    noProxy: '*'
  })
})

t.test('A missing file has no text, and one that cannot be read throws.', async t => {
  const directory = t.testdir({ 'config.yaml': 'idp:\n' })
  mkdirSync(join(directory, 'folder'))
  writeFileSync(join(directory, 'empty'), '')
  t.equal(readTextIfThere(join(directory, 'config.yaml')), 'idp:\n')
  t.equal(readTextIfThere(join(directory, 'empty')), '')
  t.equal(readTextIfThere(join(directory, 'none')), undefined)
  t.throws(() => readTextIfThere(join(directory, 'folder')), { code: 'EISDIR' })
  const encodings: Array<[title: string, bytes: Buffer, text?: string]> = [
    ['UTF-8', Buffer.from('A=ü'), 'A=ü'],
    ['UTF-8 with a mark', Buffer.from('\uFEFFA=1'), 'A=1'],
    ['UTF-16', Buffer.from('A=1', 'utf16le')],
    ['UTF-16 with a mark', Buffer.from('\uFEFFA=1', 'utf16le')],
    ['UTF-16, the other end first', Buffer.from('\uFEFFA=1', 'utf16le').swap16()],
    ['Latin-1', Buffer.from('A=ü', 'latin1')]
  ]
  for (const [title, bytes, text] of encodings) {
    writeFileSync(join(directory, 'encoded'), bytes)
    const read = () => readTextIfThere(join(directory, 'encoded'))
    if (text === undefined) t.throws(read, { code: 'NOT_UTF8' }, title)
    else t.equal(read(), text, title)
  }
})
