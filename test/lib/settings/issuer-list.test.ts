import t from 'tap'
import type { SettingsError } from '../../../lib/base/settings-error.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

function start (text: string, environment: Record<string, string> = {}) {
  const found = collectSettings({
    environment,
    readFile: name => name === 'config.yaml' ? text : undefined
  })
  return validateSettings(found, processSurroundings)
}

const problemsOf = (text: string, environment?: Record<string, string>) =>
  start(text, environment).then(() => [], ({ problems }: SettingsError) => problems)

t.test('Each member of an entry is like the single setting, and what it leaves out is taken from beside the list.', async t => {
  const { idp: { issuers, dpopMode } } = await start(`
idp:
  audience: https://api.example
  dpopMode: REQUIRED
  algs: [ES256]
  issuers:
    - issuer: https://a.example/
    - domain: B.Example:8443
      audience: 12
      audienceClaim: azp
      jwksUri: https://keys.example/b
      algs: PS256, EdDSA
      scopeClaims: scp
      tokenProfile: rfc9068
      dpopMode: DISABLED
    - { issuer: 'http://localhost:1/', keysFile: keys.json, audience: ~ }
`)
  const common = {
    audiences: ['https://api.example'],
    audienceClaim: 'aud',
    jwksUri: undefined,
    keysFile: undefined,
    algs: ['ES256'],
    scopeClaims: ['scope'],
    tokenProfile: 'any',
    dpopMode: 'REQUIRED',
    introspection: undefined
  }
  t.strictSame(issuers, [
    { ...common, path: 'idp.issuers[0]', issuer: 'https://a.example/' },
    {
      path: 'idp.issuers[1]',
      issuer: 'https://b.example:8443/',
      audiences: ['12'],
      audienceClaim: 'azp',
      jwksUri: 'https://keys.example/b',
      keysFile: undefined,
      algs: ['PS256', 'EdDSA'],
      scopeClaims: ['scp'],
      tokenProfile: 'rfc9068',
      dpopMode: 'DISABLED',
      introspection: undefined
    },
    { ...common, path: 'idp.issuers[2]', issuer: 'http://localhost:1/', keysFile: 'keys.json' }
  ])
  t.equal(dpopMode, 'ALLOWED', 'every scheme that one of them offers')
})

t.test('The introspection of an issuer is set by its entry, and what it leaves out is taken from beside the list.', async t => {
  const { idp: { issuers } } = await start(`
idp:
  audience: https://api.example
  introspection: { for: jwt, endpoint: 'https://idp.example/ask', cacheSeconds: 7, signed: true, audienceOptional: true, clientId: beside, clientSecret: s1, auth: client_secret_post, keyFile: beside.pem, assertionAudience: 'https://idp.example/token' }
  issuers:
    - issuer: https://a.example/
    - issuer: https://b.example/
      introspection: { for: opaque, endpoint: 'https://b.example/ask', cacheSeconds: 0, signed: false, audienceOptional: false, clientId: own, clientSecret: s2, auth: private_key_jwt, keyFile: own.pem, assertionAudience: 'https://b.example/token' }
    - issuer: https://c.example/
      introspection: { for: off }
    - issuer: https://d.example/
      introspection:
`)
  t.strictSame(issuers.map(({ introspection }) => introspection), [
    {
      path: 'idp.introspection',
      covers: 'jwt',
      endpoint: 'https://idp.example/ask',
      cacheSeconds: 7,
      signed: true,
      audienceOptional: true,
      clientId: 'beside',
      clientSecret: 's1',
      auth: 'client_secret_post',
      keyFile: 'beside.pem',
      assertionAudience: 'https://idp.example/token'
    },
    {
      path: 'idp.issuers[1].introspection',
      covers: 'opaque',
      endpoint: 'https://b.example/ask',
      cacheSeconds: 0,
      signed: false,
      audienceOptional: false,
      clientId: 'own',
      clientSecret: 's2',
      auth: 'private_key_jwt',
      keyFile: 'own.pem',
      assertionAudience: 'https://b.example/token'
    },
    undefined,
    issuers[0]!.introspection
  ])
})

t.test('The common mode is that of each issuer if they agree.', async t => {
  for (const mode of ['DISABLED', 'ALLOWED', 'REQUIRED']) {
    const entry = (name: string) => ({ issuer: `https://${name}.example/`, dpopMode: mode })
    t.equal(
      (await start(JSON.stringify({ idp: { audience: 'x', issuers: [entry('a'), entry('b')] } }))).idp.dpopMode,
      mode
    )
  }
})

t.test('A problem of an entry is reported with its line and its path.', async t => {
  const list = (...lines: string[]) =>
    ['idp:', '  audience: x', '  issuers:', ...lines.map(line => `    ${line}`)].join('\n')
  const a = '- issuer: https://a.example/'
  const cases: Array<[text: string, problems: Array<string | RegExp>]> = [
    [list(a, '  audience: ""'), [
      /^config\.yaml, line 5: idp\.issuers\[0\]\.audience is ""; allowed: any non-empty string, or a list/
    ]],
    [list(a, '- domain: b/c'), [/^config\.yaml, line 5: idp\.issuers\[1\]\.domain is "b\/c"; allowed: host/]],
    [list(a, '  algs: [RS256, HS256]'), [
      /^config\.yaml, line 5: idp\.issuers\[0\]\.algs is "RS256 HS256"; allowed: list of/
    ]],
    [list(a, '  dpopMode: allowed'), [/line 5: idp\.issuers\[0\]\.dpopMode is "allowed"/]],
    [list('- issuer: http://a.example/'), [
      /line 4: idp\.issuers\[0\]\.issuer is "http:\/\/a\.example\/"; allowed: https URL/
    ]],
    [list(a, '  audiance: y'), [
      'config.yaml, line 5: unknown key "idp.issuers[0].audiance"; did you mean idp.issuers[0].audience?'
    ]],
    [list(a, '  clockToleranceSeconds: 5'), [
      'config.yaml, line 5: unknown key "idp.issuers[0].clockToleranceSeconds"'
    ]],
    [list(a, '  issuer: https://b.example/'), ['config.yaml, line 5: the key "idp.issuers[0].issuer" appears twice']],
    [list(a, '  audience:', '  audience: z'), [
      'config.yaml, line 6: the key "idp.issuers[0].audience" appears twice'
    ]],
    [list(a, '  introspect:'), [/^config\.yaml, line 5: unknown key "idp\.issuers\[0\]\.introspect"/]],
    [list(a, '  introspection: jwt'), [
      'config.yaml, line 5: idp.issuers[0].introspection is a section: expected keys under it'
    ]],
    [list(a, '  ? [b]', '  : c'), [/^config\.yaml, line 5: unknown key "idp\.issuers\[0\]/]],
    [list('- issuer: nonsense'), [/^config\.yaml, line 4: idp\.issuers\[0\]\.issuer is "nonsense"/]],
    [list('- audience: y', '- audience: z'), [/line 4/, /^config\.yaml, line 5: idp\.issuers\[1\]\.issuer is not set/]],
    [list('- audience: y'), [/^config\.yaml, line 4: idp\.issuers\[0\]\.issuer is not set; allowed: /]],
    [list('- domain: https://a.example'), [
      'config.yaml, line 4: idp.issuers[0].domain is "https://a.example", which starts with a scheme; allowed: ' +
      'only the host'
    ]],
    [list(a, '- b', '- [c]', '-'), [
      /^config\.yaml, line 5: idp\.issuers\[1\] is "b"; allowed: an object$/,
      /line 6: idp\.issuers\[2\] is \["c"\]/,
      /idp\.issuers\[3\] is null/
    ]],
    [list(a, '- issuer: https://a.example'), [
      'config.yaml, line 5: idp.issuers[1].issuer is "https://a.example", the same issuer as idp.issuers[0]; ' +
      'allowed: each issuer once'
    ]],
    [list('- issuer: https://a.example/x', '- issuer: https://a.example/x/'), [
      'config.yaml, line 5: idp.issuers[1].issuer is "https://a.example/x/", the same issuer as idp.issuers[0]; ' +
      'allowed: each issuer once'
    ]],
    [list(a, '- issuer: https://A.example:443/'), [
      'config.yaml, line 5: idp.issuers[1].issuer is "https://A.example:443/", the same issuer as ' +
      'idp.issuers[0]; allowed: each issuer once'
    ]],
    [list(a, '- domain: a.example'), [
      'config.yaml, line 5: idp.issuers[1].domain is "a.example", the same issuer as idp.issuers[0]; allowed: ' +
      'each issuer once'
    ]],
    [list(a, '  domain: b.example'), [
      'config.yaml, line 5: idp.issuers[0].domain is "b.example", but idp.issuers[0].issuer is set too; allowed: ' +
      'one of them'
    ]],
    [list(a, '- issuer: https://a.example/A', '- issuer: https://a.example/a'), []],
    ['idp: { issuers: [{ issuer: https://a.example/ }] }', [/line 1: idp\.issuers\[0\]\.audience is not set/]],
    ['idp: { issuers: [{ issuer: https://a.example/, audience: y }] }', []],
    ['idp: { audience: x, issuers: [] }', [/^idp\.issuers is \[\]; allowed: list of 1 to 50/]],
    ['idp: { audience: x, issuers: a }', [/^idp\.issuers is "a"; allowed: list of 1 to 50/]],
    ['idp: { audience: x, domain: a.example, issuers: [{ issuer: https://a.example/ }] }', [
      'IDP_DOMAIN (idp.domain) is "a.example", but idp.issuers is set too: only one of them can say who issues tokens'
    ]],
    [list(...Array.from({ length: 50 }, (_, index) => `- domain: t${index}.example`)), []],
    [list(...Array.from({ length: 51 }, (_, index) => `- domain: t${index}.example`)), [
      /^idp\.issuers is \[.*…; allowed: list of 1 to 50/
    ]]
  ]
  for (const [text, expected] of cases) {
    const problems = await problemsOf(text)
    t.equal(problems.length, expected.length, `${text}\n${problems.join('\n')}`)
    problems.forEach((problem, index) => t.match(problem, expected[index]))
  }
  t.match(await problemsOf(list(a), { IDP_ISSUER: 'https://b.example/' }), [
    /^IDP_ISSUER \(idp\.issuer\) is .* but idp\.issuers is set too/
  ], 'the environment is beside the list too')
})

t.test('An http issuer is a mere name beside an https jwksUri or a keysFile, and refused without', async t => {
  const adfs = 'http://sts.example/adfs/services/trust'
  const allowed =
    /; allowed: https URL \(http for a loopback host, or beside an https jwksUri or a keysFile\) without user info, query or fragment$/
  const rows: ReadonlyArray<{ more: object, problem?: RegExp }> = [
    { more: { jwksUri: 'https://sts.example/adfs/discovery/keys' } },
    { more: { keysFile: 'keys.json' } },
    { more: {}, problem: allowed },
    { more: { jwksUri: 'http://localhost:1/keys' }, problem: allowed },
    { more: { jwksUri: 'http://localhost:1/https://sts.example' }, problem: allowed },
    { more: { jwksUri: 'HTTPS://sts.example/adfs/discovery/keys' } },
    { more: { keysFile: 'keys.json', introspection: { for: 'off' } } },
    {
      more: {
        keysFile: 'keys.json',
        introspection: { for: 'jwt', clientId: 'c', clientSecret: 's', endpoint: 'https://sts.example/introspect' }
      }
    },
    {
      more: { keysFile: 'keys.json', introspection: { for: 'jwt', clientId: 'c', clientSecret: 's' } },
      problem:
        /, a mere name, under which the introspection endpoint cannot be found; allowed beside IDP_INTROSPECTION_ENDPOINT \(idp\.introspection\.endpoint\)$/
    }
  ]
  for (const { more, problem } of rows) {
    const patterns = problem ? [problem] : []
    const named = `is "${adfs}"`
    const single = await problemsOf(JSON.stringify({ idp: { audience: 'x', issuer: adfs, ...more } }))
    t.match(single, patterns, JSON.stringify(more))
    t.equal(single.length, patterns.length)
    const listed = await problemsOf(
      JSON.stringify({ idp: { audience: 'x', issuers: [{ domain: 'a.example' }, { issuer: adfs, ...more }] } })
    )
    t.match(listed, patterns, JSON.stringify(more))
    t.equal(listed.length, patterns.length)
    t.ok([...single, ...listed].every(text => text.includes(named)))
    const { introspection, ...rest } = more as { introspection?: object }
    t.strictSame(
      (await problemsOf(
        JSON.stringify({
          idp: { audience: 'x', ...introspection && { introspection }, ...rest, issuers: [{ issuer: adfs }] }
        })
      )).length,
      patterns.length,
      'what is beside the list counts'
    )
  }
  for (const issuer of ['http://u@sts.example/', 'http://sts.example/?x', 'ftp://sts.example/']) {
    t.match(
      await problemsOf(JSON.stringify({ idp: { audience: 'x', issuer, keysFile: 'keys.json' } })),
      [allowed],
      issuer
    )
  }
})

t.test('A list that is too long is reported with its keys as they were written, and without secrets.', async t => {
  const entries = Array.from(
    { length: 51 },
    () => ({ domain: 'a', introspection: { clientSecret: 's3cret', clientId: 'c' } })
  )
  const [problem] = await problemsOf(JSON.stringify({ idp: { audience: 'x', issuers: entries } }))
  t.match(
    problem,
    /^idp\.issuers is \[\{"domain":"a","introspection":\{"clientId":"c"\}\},.*…; allowed: list of 1 to 50/
  )
})

t.test('The list cannot be set in the environment.', async t => {
  t.hasStrict(await problemsOf('', { IDP_ISSUERS: '[]', IDP_DOMAIN: 'a.example', IDP_AUDIENCE: 'x' }), [
    'unknown variable "IDP_ISSUERS"; did you mean IDP_ISSUER?'
  ])
})

t.test('The security profile holds for each entry of the list.', async t => {
  const list = (entry: string) =>
    'server: { securityProfile: fapi2 }\nidp:\n  audience: x\n  issuers:\n    - issuer: https://a.example/\n ' +
    `   - issuer: https://b.example/\n      ${entry}\n`
  t.strictSame((await start(list('algs: ES256'))).idp.issuers.map(({ algs }) => algs), [[
    'PS256',
    'ES256',
    'EdDSA',
    'Ed25519'
  ], ['ES256']])
  t.match(await problemsOf(list('algs: [ES256, RS256]')), [
    /^config\.yaml, line 7: idp\.issuers\[1\]\.algs is "ES256 RS256", but SECURITY_PROFILE \(server\.securityProfile\) is fapi2; allowed: list of PS256/
  ])
  t.match(await problemsOf(list('dpopMode: DISABLED')), [
    /^config\.yaml, line 7: idp\.issuers\[1\]\.dpopMode is "DISABLED", but/
  ])
  t.strictSame(
    await problemsOf(list('dpopMode: DISABLED'), { CLIENT_CERTIFICATE: 'nginx', TRUST_PROXY: 'loopback' }),
    []
  )
  t.match(await problemsOf('server: { securityProfile: fapi2 }\nidp: { audience: x, issuers: [7] }'), [
    /idp\.issuers\[0\] is 7;/
  ])
})

t.test('No error about a wrong list or section shows a secret that is in it.', async t => {
  const base = 'idp: { domain: a.example, audience: x }\n'
  const transmitter = '{ issuer: https://t.example/, delivery: push, audience: a, clientSecret: hunter2 }'
  const texts = [
    `${base}revocation: { transmitters: ${transmitter} }`,
    `${base}revocation: { transmitters: [[${transmitter}]] }`,
    `${base}revocation: [{ transmitters: [${transmitter}] }]`,
    'idp: { audience: x, issuers: { issuer: https://a.example/, introspection: { clientSecret: hunter2 } } }',
    'idp: { audience: x, issuers: { issuer: https://a.example/, clientSecret: hunter2, introspection: { ' +
    'clientSecrte: hunter2 } } }',
    `${base}revocation: { logout: [[{ clientId: c, clientSecret: hunter2 }]] }`,
    'idp: { audience: x, issuers: [[{ issuer: https://a.example/, introspection: { clientSecret: hunter2 } }]] }'
  ]
  for (const text of texts) {
    const problems = await problemsOf(text)
    t.ok(problems.length > 0, text)
    t.notMatch(problems.join('\n'), /hunter2/, text)
  }
})
