import { randomBytes } from 'node:crypto'
import t from 'tap'
import { isVerifiable } from '../../../lib/guard/jose/public-key.ts'
import { SettingsError } from '../../../lib/base/settings-error.ts'
import { givensOf } from '../../helpers/givens.ts'
import type { Variables } from '../../helpers/variables.ts'
import { startWarnings } from '../../../lib/settings/start-report.ts'
import { settingsFromOptions } from '../../../lib/settings/options.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { settingNames, settingSpec, variables, type SettingName } from '../../../lib/settings/specs.ts'
import { valueAt } from '../../../lib/settings/tree.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

/** As many as may be. */
const AUDIENCES = Array.from({ length: 20 }, (_, n) => `urn:${n}`)
const ENOUGH: Variables = { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'https://api.example' }

const NAMES: ReadonlyMap<string, SettingName> = new Map(settingNames.map(name => [settingSpec(name).variable, name]))

/** What a source gives that holds these variables. */
function given (values: Variables) {
  return givensOf(Object.fromEntries(Object.entries(values).map(([variable, value]) => [NAMES.get(variable)!, value])))
}

const read = (values: Variables) =>
  validateSettings(given({ ...ENOUGH, ...values }), processSurroundings)

async function problemsOf (values: Variables) {
  const outcome = await read(values).catch(error => error)
  if (outcome instanceof SettingsError) return outcome.problems
  if (outcome instanceof Error) throw outcome
  return []
}

/** How a message names a setting. */
function title (variable: string) {
  const name = NAMES.get(variable)!
  const { from } = settingSpec(name)
  return from === 'file' ? name : from === 'environment' ? variable : `${variable} (${name})`
}

t.test('Two settings are enough, and the rest have defaults.', async t => {
  t.strictSame(Object.fromEntries(Object.entries(await read({}))), {
    idp: {
      domain: 'tenant.example',
      audience: ['https://api.example'],
      audienceClaim: 'aud',
      tokenProfile: 'any',
      algs: ['RS256'],
      introspection: {
        for: 'off',
        cacheSeconds: 10,
        signed: false,
        audienceOptional: false,
        auth: 'client_secret_basic'
      },
      scopeClaims: ['scope'],
      clockToleranceSeconds: 5,
      dpopIatOffsetSeconds: 300,
      dpopIatLeewaySeconds: 30,
      issuers: [{
        path: 'idp',
        issuer: 'https://tenant.example/',
        audiences: ['https://api.example'],
        audienceClaim: 'aud',
        jwksUri: undefined,
        keysFile: undefined,
        algs: ['RS256'],
        scopeClaims: ['scope'],
        tokenProfile: 'any',
        dpopMode: 'ALLOWED',
        introspection: undefined
      }],
      dpopMode: 'ALLOWED'
    },
    api: { profile: '1', errorBody: 'default' },
    dpop: {
      algs: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'],
      replay: 'memory',
      replayMax: 2_000_000,
      nonce: 'off',
      nonceIat: 'ignored'
    },
    server: {
      clientCertificate: 'off',
      securityProfile: 'none',
      trustProxy: false,
      rateLimit: undefined,
      observe: 'off',
      metrics: 'on',
      logLevel: 'info',
      port: 8000
    },
    proxies: {},
    gate: undefined,
    revocation: undefined,
    audit: undefined,
    isNonceSecretUnused: false,
    unknownVariables: []
  })
})

t.test('Values that are set are typed, whether they are text of the environment or values of the file.', async t => {
  const cases: Array<{ name: string, value: unknown, expected: unknown }> = [
    { name: 'IDP_CLOCK_TOLERANCE_SECONDS', value: '0', expected: 0 },
    { name: 'IDP_CLOCK_TOLERANCE_SECONDS', value: 300, expected: 300 },
    { name: 'IDP_DPOP_IAT_OFFSET_SECONDS', value: '31536000', expected: 31536000 },
    { name: 'DPOP_ENABLED', value: 'true', expected: true },
    { name: 'DPOP_ENABLED', value: true, expected: true },
    { name: 'DPOP_REQUIRED', value: 'false', expected: false },
    { name: 'API_PROFILE', value: 2, expected: '2' },
    { name: 'IDP_SCOPE_CLAIMS', value: 'scope scp', expected: ['scope', 'scp'] },
    { name: 'IDP_SCOPE_CLAIMS', value: 'scope,scp', expected: ['scope', 'scp'] },
    { name: 'IDP_SCOPE_CLAIMS', value: ' scope ,\tscp, ', expected: ['scope', 'scp'] },
    { name: 'IDP_SCOPE_CLAIMS', value: ['scope', 'scp'], expected: ['scope', 'scp'] },
    { name: 'DPOP_ALGS', value: 'ES256', expected: ['ES256'] },
    { name: 'CORS_ORIGINS', value: '*', expected: ['*'] },
    {
      name: 'CORS_ORIGINS',
      value: 'https://a.example,http://localhost:3000',
      expected: ['https://a.example', 'http://localhost:3000']
    }
  ]
  for (const { name, value, expected } of cases) {
    t.strictSame(valueAt(await read({ [name]: value }), NAMES.get(name)!), expected, `${name} ${JSON.stringify(value)}`)
  }
})

const secret = (bytes: number) => randomBytes(bytes).toString('base64url')
const longest = 'a'.repeat(63)

/** For each setting the values that it takes, and values that it does not. */
const FORMS: Record<string, [passes: unknown[], fails: unknown[]]> = {
  IDP_DOMAIN: [
    [
      'tenant.example',
      'TENANT.Example',
      'tenant',
      'my_tenant.example',
      'localhost:3000',
      'tenant.example:65535',
      '192.0.2.1',
      '[2001:db8::1]',
      '[::1]:8443',
      'bücher.example',
      `${longest}.example`
    ],
    [
      '',
      ' ',
      'tenant.example/',
      'tenant.example/path',
      '//tenant.example',
      'user@tenant.example',
      'tenant.example?',
      'tenant.example#',
      'tenant.example:',
      'tenant.example:0',
      'tenant.example:65536',
      'tenant.example:80x',
      'tenant.example ',
      'tenant.example\n',
      'tenant.example.',
      '.tenant.example',
      'tenant..example',
      'tenant,example',
      'tenant.example;',
      'tenant%2eexample',
      'tenant\\example',
      '192.0.2.256',
      '2001:db8::1',
      '[2001:db8::1',
      '[fe80::1%25eth0]',
      'https:tenant.example',
      'https:/tenant.example',
      'tenant.example/https://tenant.example',
      '1https://tenant.example',
      ['tenant.example'],
      { host: 'tenant.example' },
      true
    ]
  ],
  IDP_AUDIENCE: [
    ['https://api.example', 'x', ' ', 'urn:api', 12, ['api://id', 'id', 7], AUDIENCES],
    ['', {}, false, [], ['a', 'a'], [...AUDIENCES, 'x'], [''], [['a']], ['a\n'], ['a\u007f']]
  ],
  IDP_TOKEN_PROFILE: [['any', 'rfc9068'], ['RFC9068', 'none', true, ['any'], '']],
  IDP_ISSUER: [
    [
      'https://tenant.example/',
      'https://tenant.example',
      'https://tenant.example/realms/x',
      'https://tenant.example:8443/',
      'http://localhost:3000',
      'http://127.0.0.1:3000/',
      'http://127.9.9.9',
      'http://[::1]:3000'
    ],
    [
      'tenant.example',
      'http://tenant.example/',
      'http://localhost.example/',
      'http://192.0.2.1',
      'http://[::2]/',
      'https:tenant.example',
      'https:///tenant.example',
      'ftp://tenant.example',
      'https://user@tenant.example/',
      'https://:pw@tenant.example/',
      'https://tenant.example/?',
      'https://tenant.example/?a=b',
      'https://tenant.example/#',
      'https://tenant.example/ ',
      'https://tenant.example\\x',
      'https://tenant.example/\u0001',
      'https://',
      ' https://tenant.example/',
      '1https://tenant.example/'
    ]
  ],
  IDP_AUDIENCE_CLAIM: [['aud', 'client_id', 'azp'], ['sub', 'AUD', ['aud'], '']],
  IDP_JWKS_URI: [
    ['https://keys.example/jwks?v=1', 'http://localhost:3000/jwks'],
    ['/jwks', 'http://keys.example/jwks', 'https://u:p@keys.example/jwks', 'https:keys.example', 'file:///jwks']
  ],
  IDP_ALGS: [
    ['RS256', 'PS256,ES512', ['EdDSA', 'Ed25519']],
    ['HS256', 'none', 'rs256', [], 'RS256 HS256']
  ],
  IDP_KEYS_FILE: [['keys.json', '/etc/keys.json'], ['', ['a'], {}, true]],
  IDP_INTROSPECTION: [['off'], ['on', true, ['jwt']]],
  IDP_INTROSPECTION_ENDPOINT: [
    ['https://tenant.example/introspect', 'http://localhost:3000/introspect'],
    ['/introspect', 'http://tenant.example/introspect', '']
  ],
  IDP_INTROSPECTION_CACHE_SECONDS: [['0', 300], ['-1', '301', '1.5']],
  IDP_CLIENT_ID: [['api', 12, 'ä é'], ['', ['api'], true, 'api\n', '\tapi', 'a\u0085']],
  IDP_CLIENT_SECRET: [
    ['s', 12, { file: '/run/secrets/idp' }, { env: 'IDP_SECRET' }],
    ['', ['s'], {}, { fil: 's3cret' }, 's\n', 's\0']
  ],
  IDP_CLIENT_AUTH: [
    ['client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    ['none', 'basic', true]
  ],
  IDP_CLIENT_KEY_FILE: [['key.pem'], ['', ['a'], {}]],
  IDP_SCOPE_CLAIMS: [
    ['scope', 'scope scp permissions', ['permissions']],
    [',', 'roles', 'scope roles', [], [['scope']], { scope: true }, true]
  ],
  IDP_CUSTOM_CLAIM: [
    ['https://example.com/team', 'urn:example:team'],
    [
      'team',
      'example.com/team',
      'https://',
      'https://example.com/my team',
      ' https://example.com/team',
      '1https://example.com/team',
      ''
    ]
  ],
  IDP_CLOCK_TOLERANCE_SECONDS: [
    ['0', '300'],
    ['-1', '301', '1.5', '5s', '0x10', '1e2', ' 5', 'true', true, [5], 1.5]
  ],
  API_PROFILE: [['1', '2', 1], ['0', '3', 'one', true]],
  ERROR_BODY: [['default', 'detailed'], ['Default', 'full']],
  DPOP_ENABLED: [['true', 'false', false, 'True', 'FALSE'], ['yes', '1', '0', 'on', 1, ['true']]],
  IDP_DPOP_MODE: [['ALLOWED', 'DISABLED', 'DISABLED', 'REQUIRED'], ['allowed', 'OFF', '']],
  IDP_DPOP_IAT_OFFSET_SECONDS: [['0', '86400'], ['-1', '1.0', '9'.repeat(20), Infinity]],
  IDP_DPOP_IAT_LEEWAY_SECONDS: [['0', '86400'], ['-1', 'none']],
  DPOP_ALGS: [
    ['ES256', 'ES256 EdDSA Ed25519 RS512'],
    ['HS256', 'none', 'ES256 HS256', 'es256', [], [{ alg: 'ES256' }]]
  ],
  DPOP_REPLAY: [
    [
      'memory',
      'off',
      'redis://cache.example',
      'rediss://:pw@cache.example:6380/2',
      'redis://:a%20b@c1.example:6379,c2.example:6380?cluster=true',
      'redis://s1.example,s2.example:26379/1?sentinel=main'
    ],
    [
      'Memory',
      'redis',
      'http://cache.example',
      'redis:cache',
      'redis:///0',
      'redis://cache.example/db',
      'redis://:p#w@cache.example',
      'redis://cache.example/0#x',
      'redis://cache example',
      'redis://:a%b@cache.example',
      'redis://c1.example,c2.example',
      'redis://cache.example?retries=1',
      'redis://cache.example:70000'
    ]
  ],
  DPOP_REPLAY_MAX: [['1', '100000000'], ['0', '100000001', '2_000_000']],
  DPOP_NONCE: [['off', 'required'], ['on', false]],
  DPOP_NONCE_SECRET: [
    [secret(32), secret(33), `${secret(32)}=`, `${secret(32)} ${secret(64)}`, [secret(32)]],
    [
      secret(31),
      `${secret(32)} ${secret(31)}`,
      `${secret(33)}A`,
      `${'+/'.repeat(22)}`,
      `!${secret(32)}`,
      `${secret(32)}!`,
      `${secret(32)}===`,
      '=',
      []
    ]
  ],
  TRUST_PROXY: [
    [
      'false',
      'true',
      true,
      false,
      'loopback',
      'loopback linklocal,uniquelocal',
      '192.0.2.1',
      '10.0.0.0/8',
      '10.0.0.0/32',
      '2001:db8::/32',
      '2001:db8::1/128',
      '::ffff:10.0.0.1',
      ['10.0.0.0/8', 'loopback']
    ],
    [
      '1',
      1,
      '0',
      ['1'],
      '10.0.0.0/8 2',
      'LOOPBACK',
      'proxy.example',
      '10.0.0.0/0',
      '10.0.0.0/33',
      '2001:db8::/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0.0/255.0.0.0',
      '10.0.0',
      'yes',
      [],
      {}
    ]
  ],
  PUBLIC_URL: [
    [
      'https://api.example',
      'https://api.example/',
      'http://localhost:8000',
      'https://api.example/svc/v1',
      'HTTPS://API.example'
    ],
    [
      'api.example',
      '/svc',
      'ftp://api.example',
      'https://user:pw@api.example',
      'https://api.example/?',
      'https://api.example/#',
      'https://api.example/a//b',
      'https://api.example/a/../b',
      'https://api.example/%2e',
      'https://api.example/a%2Fb',
      'https://api.example:0',
      'https://1.2.3.999',
      'https:///svc'
    ]
  ],
  CORS_ORIGINS: [
    [
      '*',
      'https://app.example',
      'https://App.example',
      'http://localhost:3000',
      'http://[::1]:3000',
      'capacitor://localhost'
    ],
    [
      'app.example',
      'https://app.example/',
      'https://app.example/x',
      'https://app.example:443',
      'https://u@app.example',
      'null',
      'https://*.example',
      []
    ]
  ],
  CORS_HEADERS: [
    ['MCP-Protocol-Version', 'Mcp-Session-Id, Last-Event-ID', ['x-y', 'a_b']],
    ['*', 'a b *', 'x:y', 'x/y', 'é', 'x\ny: z', [], ['a b'], ['']]
  ],
  CLIENT_CERTIFICATE: [
    ['socket', 'nginx', 'xfcc', 'off', 'client-cert', 'alb', 'traefik'],
    ['on', 'Client-Cert', true, 'x-ssl-client-cert', '']
  ],
  AUDIT: [
    ['off', 'log', '/var/log/audit.log', 7, { to: 'log', pseudonymKey: { env: 'KEY' } }],
    [['log']]
  ],
  SECURITY_PROFILE: [['none'], ['fapi', 'FAPI2', 'fapi1', true]],
  DPOP_NONCE_IAT: [['ignored', 'checked'], ['off', true]],
  RESOURCE_NAME: [['Orders API'], [true, ['a'], { a: 'b' }]],
  RESOURCE: [
    ['https://api.example', 'https://api.example:8443/v1/', 'http://localhost:8000/v1', 'http://[::1]:8000'],
    [
      'http://api.example',
      'http://localhost.example',
      'http://localhost:8000/?x',
      'https://u@api.example',
      'https://api.example/?x',
      'https://api.example/#x',
      'https://:pw@api.example',
      'https://api.example/?',
      'https://api.example/#',
      'api.example',
      'urn:api'
    ]
  ],
  IDP_SCOPE_IMPLIES: [
    [{}, { admin: ['read', 'write'] }, { admin: 'read, write' }],
    ['admin', null, ['admin'], { admin: [] }, { admin: { a: 'b' } }, { 'a b': ['c'] }, { a: ['b"'] }]
  ],
  OBSERVE: [
    ['off', '2020-02-29'],
    ['on', '2021-02-29', '2020-1-1', '2020-01-01T00:00', '2020-01-01Z', '2020-01-01+02:00', '01.01.2020']
  ],
  RATE_LIMIT: [
    ['off', '1', 60, '999999999999999'],
    ['0', 0, -1, '-1', '1.5', '01', 'on', '60/min', true]
  ],
  METRICS: [['on', 'off'], ['true', true, 'ON']],
  LOG_LEVEL: [['fatal', 'trace', 'silent'], ['loud', 'INFO']],
  PORT: [['0', '65535', 8000], ['-1', '65536', '80.5', 'http', '/run/socket']],
  HTTP_PROXY: [
    ['http://proxy.example:3128', 'proxy.example:3128', 'https://u:p@proxy.example/'],
    [
      'socks5://proxy.example',
      'http://',
      'http:/proxy.example',
      'http://proxy.example/path',
      'http://proxy.example?x',
      'http://proxy.example#x',
      'xhttp://proxy.example',
      'httpx://proxy.example',
      'proxy example'
    ]
  ],
  GATE_UPSTREAM: [
    ['http://127.0.0.1:3000', 'https://orders.example/'],
    ['127.0.0.1:3000', 'http://a/b', 'ftp://a', 'http://u:p@a']
  ],
  HTTPS_PROXY: [['http://proxy.example:3128'], ['ftp://proxy.example']],
  NO_PROXY: [['*', 'localhost,.internal:8443', '10.0.0.0/8, ::1'], [['localhost']]]
}

t.test('Each setting accepts valid values, and for any other names itself, what it held and what is allowed.', async t => {
  // One read takes a column of the table: its values do not depend on each other.
  const rows = Object.entries(FORMS)
  const columns = (of: 0 | 1) =>
    Array.from(
      { length: Math.max(...rows.map(([, row]) => row[of].length)) },
      (_, at) => Object.fromEntries(rows.filter(([, row]) => at in row[of]).map(([name, row]) => [name, row[of][at]]))
    )
  for (const values of columns(0)) {
    t.strictSame(await problemsOf(values), [], `it takes ${JSON.stringify(values)}`)
  }
  for (const values of columns(1)) {
    const problems = await problemsOf(values)
    t.equal(problems.length, Object.keys(values).length)
    for (const [name, value] of Object.entries(values)) {
      const problem = problems.find(problem => problem.startsWith(`${title(name)} is `))
      t.ok(
        problem?.endsWith(`; allowed: ${settingSpec(NAMES.get(name)!).allowed}`),
        `${name} refuses ${JSON.stringify(value)}`
      )
    }
  }
  const untested = [...variables.keys()].filter(name => !(name in FORMS))
  t.strictSame(untested, ['DPOP_REQUIRED'], 'the table has every setting but one, which is the twin of DPOP_ENABLED')
})

t.test('ML-DSA-44 needs a Node that has it: the start says so.', async t => {
  const isThere = isVerifiable('ML-DSA-44')
  const old = 'ML-DSA-44 needs Node 24.7 or newer, and this Node cannot verify it'
  for (const [name, title] of [['IDP_ALGS', 'IDP_ALGS (idp.algs)'], ['DPOP_ALGS', 'DPOP_ALGS (dpop.algs)']] as const) {
    const problems = await problemsOf({ ...ENOUGH, [name]: 'ES256 ML-DSA-44' })
    t.strictSame(problems, isThere ? [] : [`${title}: ${old}`])
  }
  const entry = { issuer: 'https://a.example', audience: 'a', algs: ['ML-DSA-44'] }
  t.strictSame(
    await problemsOf({ IDP_DOMAIN: undefined, IDP_ISSUERS: [entry] }),
    isThere ? [] : [`idp.issuers[0].algs: ${old}`]
  )
})

t.test('A message shows the value of a setting unless it is a secret.', async t => {
  const cases: Array<[Variables, RegExp]> = [
    [{ IDP_DOMAIN: 'tenant.example/x' }, /^IDP_DOMAIN \(idp\.domain\) is "tenant\.example\/x"; allowed: host, /],
    [{ PORT: 'http' }, /^PORT is "http"; allowed: /],
    [{ TRUST_PROXY: 1 }, /^TRUST_PROXY .* is "1"; .* not a number of hops$/],
    [{ DPOP_ALGS: 'ES256,HS256' }, /is "ES256 HS256"/],
    [{ DPOP_ALGS: ['ES256', { s3cret: 's3cret' }, ['s3cret']] }, /is \["ES256","a mapping","a list"\]; allowed: list/],
    [{ DPOP_ALGS: { s3cret: 's3cret' } }, /is a mapping; allowed: list/],
    [{ IDP_CUSTOM_CLAIM: { s3cret: 's3cret' } }, /is a mapping; allowed: /],
    [{ IDP_SCOPE_IMPLIES: { s3cret: { s3cret: 1 } } }, /is a mapping; allowed: /],
    [{ DPOP_ALGS: [] }, /is \[\]; allowed: list/],
    [{ IDP_AUDIENCE: ['a', 'a'] }, /is "a a"/],
    [{ PUBLIC_URL: ['s3cret'] }, /is a list; allowed: http/],
    [{ LOG_LEVEL: 'a\nb' }, /is "a\\nb"/],
    [{ LOG_LEVEL: 'x'.repeat(5000) }, /is "x{199}…; allowed/]
  ]
  for (const [values, expected] of cases) t.match(await problemsOf(values), [expected])

  const password = 'p4ssw0rd'
  const hidden: Variables[] = [
    { DPOP_NONCE_SECRET: password },
    { DPOP_NONCE_SECRET: [password, secret(32)] },
    { DPOP_NONCE_SECRET: { [password]: 1 } },
    { DPOP_REPLAY: `redis://:${password}@` },
    { HTTP_PROXY: `ftp://u:${password}@proxy.example` },
    { HTTPS_PROXY: `u:${password}@` },
    { IDP_DOMAIN: `u:${password}@tenant.example` },
    { IDP_ISSUER: `https://u:${password}@tenant.example` },
    { IDP_JWKS_URI: `https://u:${password}@tenant.example` },
    { PUBLIC_URL: `https://u:${password}@api.example` },
    { CORS_ORIGINS: `https://u:${password}@app.example https://b@app.example` },
    { TRUST_PROXY: `${password}@10.0.0.1` },
    { IDP_ALGS: `-----BEGIN PRIVATE KEY-----\n${password}` },
    { IDP_ALGS: JSON.stringify({ kty: 'OKP', d: password }) },
    { IDP_CLIENT_KEY_FILE: { kty: 'OKP', d: password } },
    { IDP_CLIENT_ID: { clientSecret: password }, IDP_INTROSPECTION: 'off' }
  ]
  for (const values of hidden) {
    const [problem, ...more] = await problemsOf(values)
    t.equal(more.length, 0)
    t.match(problem, /is (not usable \(its value is not shown\)|"…@.*"|a key itself \(not shown\)|a mapping); allowed/)
    t.notMatch(problem, password)
  }
})

t.test('A long list of wrong values is shown once, at once.', async t => {
  const started = performance.now()
  t.match(await problemsOf({ IDP_ALGS: Array.from({ length: 4000 }, () => 'a') }), [/^IDP_ALGS .* is "a a a .*…; allowed/])
  t.ok(performance.now() - started < 2000)
  t.match(await problemsOf({ IDP_ALGS: ' ,' }), [/^IDP_ALGS .* is " ,"; allowed/])
})

t.test('The problems of a start are in the order of the settings, however they were given.', async t => {
  const order = [
    'IDP_ALGS',
    'IDP_CLOCK_TOLERANCE_SECONDS',
    'API_PROFILE',
    'IDP_DPOP_MODE',
    'DPOP_NONCE',
    'CLIENT_CERTIFICATE',
    'SECURITY_PROFILE',
    'PORT'
  ]
  for (const given of [order, order.toReversed()]) {
    const problems = await problemsOf(Object.fromEntries(given.map(variable => [variable, 'x'])))
    t.strictSame(problems.map(problem => problem.split(' ', 1)[0]), order)
  }
})

t.test('Domain or issuer, and the audience, are required.', async t => {
  const missingDomain = /^IDP_DOMAIN \(idp\.domain\) is not set; allowed: /
  const missingAudience = /^IDP_AUDIENCE \(idp\.audience\) is not set; allowed: /
  t.match(await problemsOf({ IDP_DOMAIN: undefined }), [missingDomain])
  t.strictSame(await problemsOf({ IDP_DOMAIN: undefined, IDP_ISSUER: 'https://tenant.example/' }), [])
  t.match(await problemsOf({ IDP_AUDIENCE: undefined }), [missingAudience])
  t.match(await problemsOf({ IDP_DOMAIN: undefined, IDP_AUDIENCE: undefined }), [missingDomain, missingAudience])
  t.match(
    await problemsOf({ IDP_DOMAIN: undefined, IDP_ISSUER: 'tenant.example' }),
    [/^IDP_ISSUER/],
    'a bad issuer is set, though bad'
  )
})

t.test('The issuer follows from the domain, unless it is set.', async t => {
  const cases: Array<[Variables, string | undefined]> = [
    [{ IDP_DOMAIN: 'tenant.example' }, 'https://tenant.example/'],
    [{ IDP_DOMAIN: 'Tenant.EXAMPLE' }, 'https://tenant.example/'],
    [{ IDP_DOMAIN: 'tenant.example:8443' }, 'https://tenant.example:8443/'],
    [{ IDP_DOMAIN: 'tenant.example:443' }, 'https://tenant.example/'],
    [{ IDP_DOMAIN: 'Bücher.example' }, 'https://xn--bcher-kva.example/'],
    [{ IDP_DOMAIN: '[2001:DB8:0::1]' }, 'https://[2001:db8::1]/'],
    [{ IDP_DOMAIN: undefined, IDP_ISSUER: 'https://Tenant.example/realm' }, 'https://Tenant.example/realm'],
    [{ IDP_ISSUER: 'http://localhost:3000' }, 'http://localhost:3000']
  ]
  for (const [values, issuer] of cases) {
    t.equal((await read(values)).idp.issuers[0]!.issuer, issuer, JSON.stringify(values))
  }
})

t.test('A domain with a scheme starts without an issuer, whatever else is set.', async t => {
  for (
    const domain of [
      'https://tenant.example',
      'HTTPS://Tenant.example',
      'hTTp://tenant.example/path',
      'https://',
      'https://not a host'
    ]
  ) {
    t.strictSame((await read({ IDP_DOMAIN: domain })).idp.issuers, [], domain)
    t.strictSame(
      (await read({
        IDP_DOMAIN: domain,
        IDP_ISSUER: 'https://tenant.example/',
        IDP_JWKS_URI: 'https://tenant.example/jwks'
      })).idp.issuers,
      [],
      domain
    )
  }
  t.match(await problemsOf({ IDP_DOMAIN: 'https://tenant.example', IDP_AUDIENCE: undefined, PORT: 'x' }), [
    /^PORT/,
    /^IDP_AUDIENCE/
  ], 'other faults still stop the start')
})

t.test('The mode of DPoP follows from three settings, which must not contradict each other.', async t => {
  const contradiction = Symbol('contradiction')
  const expected = (
    enabled: string | undefined,
    required: string | undefined,
    mode: string | undefined
  ) => {
    const modes = ['DISABLED', 'ALLOWED', 'REQUIRED']
      .filter(candidate => enabled === undefined || (enabled === 'true') === (candidate !== 'DISABLED'))
      .filter(candidate => required === undefined || (required === 'true') === (candidate === 'REQUIRED'))
      .filter(candidate => mode === undefined || mode === candidate)
    if (modes.length === 0) return contradiction
    return modes.includes('ALLOWED')
      ? 'ALLOWED'
      : modes.includes('REQUIRED') && modes.length === 1
        ? 'REQUIRED'
        : modes[0]!
  }
  for (const enabled of [undefined, 'true', 'false']) {
    for (const required of [undefined, 'true', 'false']) {
      for (const mode of [undefined, 'DISABLED', 'ALLOWED', 'REQUIRED']) {
        const values = { DPOP_ENABLED: enabled, DPOP_REQUIRED: required, IDP_DPOP_MODE: mode }
        const outcome = await read(values).then(settings => settings.idp.dpopMode, (error: SettingsError) => {
          t.match(
            error.problems[0],
            /^(DPOP_ENABLED|DPOP_REQUIRED) .* is (true|false) and (DPOP_REQUIRED|IDP_DPOP_MODE) .*: they contradict each other$/
          )
          return contradiction
        })
        t.equal(outcome, expected(enabled, required, mode), JSON.stringify(values))
      }
    }
  }
  t.match(await problemsOf({ DPOP_ENABLED: false, IDP_DPOP_MODE: 'REQUIRED' }), [
    /"REQUIRED": they contradict each other/
  ], 'values of the file count the same')
})

t.test('A word that means everything or nothing must be the only one in a list.', async t => {
  t.strictSame(await problemsOf({ TRUST_PROXY: 'loopback 10.0.0.0/8' }), [])
  t.match(await problemsOf({ TRUST_PROXY: 'true 10.0.0.0/8' }), [
    /^TRUST_PROXY .* is "true 10\.0\.0\.0\/8"; true and false cannot be combined with other values$/
  ])
  t.match(await problemsOf({ TRUST_PROXY: ['loopback', false] }), [
    /true and false cannot be combined with other values$/
  ])
  t.match(await problemsOf({ CORS_ORIGINS: 'https://app.example *' }), [
    /^CORS_ORIGINS .*; \* cannot be combined with other values$/
  ])
})

t.test('A certificate in a header needs a trusted proxy.', async t => {
  for (const source of ['client-cert', 'nginx', 'xfcc']) {
    t.strictSame(await problemsOf({ CLIENT_CERTIFICATE: source, TRUST_PROXY: 'loopback' }), [])
    t.strictSame(await problemsOf({ CLIENT_CERTIFICATE: source, TRUST_PROXY: true }), [])
    for (const trust of [{}, { TRUST_PROXY: 'false' }, { TRUST_PROXY: false }]) {
      t.match(await problemsOf({ CLIENT_CERTIFICATE: source, ...trust }), [
        new RegExp(
          `^CLIENT_CERTIFICATE \\(server\\.clientCertificate\\) is "${source}", but TRUST_PROXY .* trusts no peer`
        )
      ])
    }
  }
  t.strictSame(await problemsOf({ CLIENT_CERTIFICATE: 'socket' }), [])
})

t.test('The security profile sets the algorithms, and settings that contradict it are named.', async t => {
  const fapi = (values: Variables) => ({ SECURITY_PROFILE: 'fapi2', ...values })
  const algs = ['PS256', 'ES256', 'EdDSA', 'Ed25519']
  const { idp, dpop } = await read(fapi({}))
  t.strictSame([idp.algs, dpop.algs, idp.issuers[0]!.algs], [algs, algs, algs])
  t.strictSame((await read(fapi({ IDP_ALGS: 'ES256' }))).idp.algs, ['ES256'])
  const certificates = { CLIENT_CERTIFICATE: 'xfcc', TRUST_PROXY: 'true' }
  const passes: Variables[] = [
    { IDP_ALGS: 'PS256 EdDSA', DPOP_ALGS: ['Ed25519'] },
    { IDP_DPOP_MODE: 'REQUIRED' },
    { DPOP_ENABLED: 'true' },
    { ...certificates, IDP_DPOP_MODE: 'DISABLED' },
    { ...certificates, DPOP_ENABLED: 'false' }
  ]
  for (const values of passes) t.strictSame(await problemsOf(fapi(values)), [], JSON.stringify(values))
  const fails: Array<[Variables, RegExp[]]> = [
    [{ IDP_ALGS: 'RS256' }, [
      /^IDP_ALGS \(idp\.algs\) is "RS256", but SECURITY_PROFILE \(server\.securityProfile\) is fapi2; allowed: list of PS256, ES256, EdDSA, Ed25519$/
    ]],
    [{ IDP_ALGS: 'ES256 ES384', DPOP_ALGS: 'RS256' }, [
      /^IDP_ALGS .* is "ES256 ES384", but/,
      /^DPOP_ALGS .* is "RS256", but/
    ]],
    [{ IDP_DPOP_MODE: 'DISABLED' }, [
      /^IDP_DPOP_MODE .* is "DISABLED", but .*; allowed: ALLOWED or REQUIRED, unless CLIENT_CERTIFICATE is set$/
    ]],
    [{ DPOP_ENABLED: 'false' }, [
      /^DPOP_ENABLED .* is false, but .*; allowed: true, unless CLIENT_CERTIFICATE is set$/
    ]],
    [{ CLIENT_CERTIFICATE: 'off', IDP_DPOP_MODE: 'DISABLED' }, [/^IDP_DPOP_MODE/]]
  ]
  for (const [values, patterns] of fails) {
    const problems = await problemsOf(fapi(values))
    t.equal(problems.length, patterns.length, JSON.stringify(values))
    t.match(problems, patterns)
    t.strictSame(await problemsOf({ ...values, SECURITY_PROFILE: 'none' }), [], 'without the profile it is fine')
  }
})

t.test('The last day of observing is at most 90 days ahead, and of a gate or of the plugin.', async t => {
  const now = Date.UTC(2026, 10, 28, 12) / 1000
  const judge = async (OBSERVE: string, more: Variables, functions?: object) => {
    const found = given({ ...ENOUGH, OBSERVE, ...more })
    const outcome = await validateSettings(found, { ...processSurroundings, now: () => now }, functions).catch(e => e)
    return outcome instanceof SettingsError ? outcome.problems : startWarnings(outcome, () => now).slice(1)
  }
  const gate = { GATE_UPSTREAM: 'http://127.0.0.1:3000' }
  for (const day of ['2026-11-28', '2027-02-26']) {
    const says = new RegExp(`^Nothing is guarded until the end of ${day} \\(UTC\\)`)
    t.match(await judge(day, gate), [says])
    t.match(await judge(day, {}, {}), [says], 'in an app')
    t.match(await judge(day, {}), [new RegExp(`^OBSERVE \\(server.observe\\) is "${day}", which is for a gate`)])
  }
  t.match(await judge('2027-02-27', gate), [/ is "2027-02-27", which is more than 90 days ahead$/])
  for (const more of [gate, {}]) t.match(await judge('2026-11-27', more), [/ is 2026-11-27, which is past: everything is/])
})

t.test('Trust and port follow from the settings.', async t => {
  t.equal((await read({ TRUST_PROXY: true })).server.trustProxy, true)
  t.equal((await read({ TRUST_PROXY: 'false' })).server.trustProxy, false)
  t.strictSame((await read({ TRUST_PROXY: 'loopback, 10.0.0.0/8' })).server.trustProxy, ['loopback', '10.0.0.0/8'])
  t.equal((await read({ API_PROFILE: '2' })).server.port, 8080)
  t.equal((await read({ API_PROFILE: '2', PORT: '9000' })).server.port, 9000)
  t.equal((await read({ PORT: '0' })).server.port, 0)
})

const SECRETS: Record<string, string> = {
  REDIS: 'rediss://u:hush@cache.example:6379/2',
  NONCE: 'A'.repeat(43),
  NEXT: 'B'.repeat(43),
  WRONG: 'hush',
  TLS_REDIS: 'rediss://u:hush@cache.example'
}

function readPlaced (values: Partial<Record<SettingName, unknown>>) {
  return validateSettings(givensOf({ 'idp.domain': 'tenant.example', 'idp.audience': 'a', ...values }), {
    readFile: async path => Buffer.from(`${SECRETS[path] ?? (path === 'EMPTY' ? '' : raise(`no file ${path}`))}\n`),
    environment: name => SECRETS[name],
    now: () => 0
  })
}

const refused = (values: Partial<Record<SettingName, unknown>>) =>
  readPlaced(values).then(() => [], ({ problems }: SettingsError) => problems)

function raise (message: string) {
  throw Object.assign(new Error(message), { code: 'ENOENT' })
}

t.test('A store, and a secret of nonces, is read where the settings say that it is.', async t => {
  for (const place of [{ file: 'REDIS' }, { env: 'REDIS' }, SECRETS['REDIS']]) {
    const { dpop } = await readPlaced({ 'dpop.replay': place })
    t.equal(dpop.replay, SECRETS['REDIS'])
    const logout = { clientId: 'c' }
    t.equal((await readPlaced({ revocation: { store: place, logout } })).revocation!.store, SECRETS['REDIS'])
    t.equal((await readPlaced({ 'dpop.replay': place, revocation: { logout } })).revocation!.store, SECRETS['REDIS'])
  }
  for (
    const [secret, read] of [
      [{ file: 'NONCE' }, ['NONCE']],
      [[{ env: 'NEXT' }, { file: 'NONCE' }], ['NEXT', 'NONCE']],
      [[SECRETS['NEXT'], { env: 'NONCE' }], ['NEXT', 'NONCE']],
      [SECRETS['NONCE'], ['NONCE']]
    ] as const
  ) {
    const { dpop } = await readPlaced({ 'dpop.replay': { env: 'REDIS' }, 'dpop.nonceSecret': secret })
    t.strictSame(dpop.nonceSecret, read.map(name => SECRETS[name]))
  }
})

t.test('A secret that cannot be read, or is none, is named without its text, beside all other problems.', async t => {
  const place = 'in the file also { file: PATH } or { env: NAME }'
  const redis = 'or a redis:// or rediss:// URL; in the file also { file: PATH }, { env: NAME } or ' +
    '{ url, cert, key, ca }'
  const replay = `allowed: memory, off, ${redis}`
  const nonces = `allowed: list of one or more secrets, each at least 32 bytes in base64url; ${place}`
  const hidden = 'is not usable (its value is not shown)'
  const unshown = '(not shown: it may be the secret itself)'
  const rows: ReadonlyArray<{ replay: unknown, secret: unknown, says: readonly [string, string] }> = [
    {
      replay: { env: 'NONE' },
      secret: { file: 'NONE' },
      says: ['is not usable: the variable NONE is not set', 'is not usable: no file NONE']
    },
    {
      replay: { file: 'EMPTY' },
      secret: [SECRETS['NONCE'], { env: 'NONE' }],
      says: ['is not usable: the file EMPTY is empty', 'is not usable: the variable NONE is not set']
    },
    {
      replay: { env: 'redis://:hush@cache.example' },
      secret: [{ env: 'hush' }],
      says: [`is not usable: the variable ${unshown} is not set`, `is not usable: the variable ${unshown} is not set`]
    },
    {
      replay: { file: 'redis://:hush@cache.example' },
      secret: { file: 'hush2' },
      says: [`is not usable: the file ${unshown} cannot be read (ENOENT)`, `is not usable: the file ${unshown} cannot be read (ENOENT)`]
    },
    { replay: { env: 'WRONG' }, secret: [{ env: 'NONCE' }, { file: 'WRONG' }], says: [hidden, hidden] },
    { replay: { url: 'hush' }, secret: [{ text: 'hush' }], says: [hidden, hidden] },
    { replay: { env: 'REDIS', url: 'hush' }, secret: { env: '' }, says: [hidden, hidden] },
    { replay: { file: ['hush'] }, secret: {}, says: [hidden, hidden] }
  ]
  for (const { replay: given, secret, says } of rows) {
    t.strictSame(
      await refused({ 'dpop.replay': given, 'dpop.nonceSecret': secret, 'server.logLevel': 'loud' }),
      [
        `DPOP_REPLAY (dpop.replay) ${says[0]}; ${replay}`,
        `DPOP_NONCE_SECRET (dpop.nonceSecret) ${says[1]}; ${nonces}`,
        'LOG_LEVEL (server.logLevel) is "loud"; allowed: fatal, error, warn, info, debug, trace or silent'
      ]
    )
  }
  for (const [store, says] of [[{ env: 'NONE' }, 'is not usable: the variable NONE is not set'], ['hush', hidden]]) {
    t.strictSame(await refused({ revocation: { store, logout: { clientId: 'c' } } }), [
      `revocation.store ${says}; allowed: memory, ${redis}`
    ])
  }
})

t.test('A Redis with TLS has its URL, and files that are read when it is reached.', async t => {
  const url = 'rediss://cache.example'
  const pem = { file: 'pem' }
  const logout = { clientId: 'c' }
  const read = async (redis: unknown) => [
    (await readPlaced({ 'dpop.replay': redis })).dpop.replay,
    (await readPlaced({ revocation: { store: redis, logout } })).revocation!.store
  ]
  for (const files of [{}, { ca: pem }, { cert: pem, key: pem, ca: pem }]) {
    t.strictSame(await read({ url, ...files }), [{ url, ...files }, { url, ...files }])
  }
  t.strictSame(await read({ url: { env: 'TLS_REDIS' }, ca: pem }), [{ url: SECRETS['TLS_REDIS'], ca: pem }, {
    url: SECRETS['TLS_REDIS'],
    ca: pem
  }])
  for (
    const given of [
      { url: 'redis://cache.example', ca: pem },
      { url: 'memory' },
      { ca: pem },
      { url, ca: 'hush' },
      { url, ca: { env: 'NONCE' } },
      { url, password: 'hush' }
    ]
  ) {
    for (const values of [{ 'dpop.replay': given }, { revocation: { store: given, logout } }]) {
      const [problem, ...others] = await refused(values)
      t.match(problem, /^(?:DPOP_REPLAY \(dpop\.replay\)|revocation\.store) is not usable \(its value is not shown\); allowed: /)
      t.strictSame(others, [])
    }
  }
})

t.test('A place is written in YAML as in options.', async t => {
  const file = 'dpop: { replay: { env: REDIS }, nonceSecret: [{ file: NONCE }, { env: NEXT }] }'
  const sources = { environment: {}, readFile: (path: string) => path === 'config.yaml' ? file : undefined }
  const options = { dpop: { replay: { env: 'REDIS' }, nonceSecret: [{ file: 'NONCE' }, { env: 'NEXT' }] } }
  for (const { values: { dpop: given } } of [collectSettings(sources), settingsFromOptions(options)]) {
    const { dpop } = await readPlaced({ 'dpop.replay': given.replay, 'dpop.nonceSecret': given.nonceSecret })
    t.strictSame([dpop.replay, dpop.nonceSecret], [SECRETS['REDIS'], [SECRETS['NONCE'], SECRETS['NEXT']]])
  }
})

t.test('A fault of the validator itself is no problem of the settings.', async t => {
  const fault = new Error('the validator cannot be loaded')
  await t.rejects(validateSettings(given(ENOUGH), processSurroundings, {}, () => Promise.reject(fault)), fault)
})

t.test('A client that asks about tokens needs a name, and what it is authenticated by.', async t => {
  const rows: ReadonlyArray<readonly [values: Variables, missing: string | undefined]> = [
    [{ IDP_CLIENT_SECRET: 's' }, 'IDP_CLIENT_ID'],
    [{ IDP_CLIENT_ID: 'c' }, 'IDP_CLIENT_SECRET'],
    [{ IDP_CLIENT_ID: 'c', IDP_CLIENT_SECRET: 's' }, undefined],
    [{ IDP_CLIENT_ID: 'c', IDP_CLIENT_AUTH: 'private_key_jwt' }, 'IDP_CLIENT_KEY_FILE']
  ]
  for (const [values, missing] of rows) {
    const problems = await problemsOf({ IDP_INTROSPECTION: 'opaque', ...values })
    t.strictSame(problems.map(problem => problem.split(' is ')[0]), missing === undefined ? [] : [title(missing)])
  }
})
