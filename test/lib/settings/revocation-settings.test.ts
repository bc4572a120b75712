import t from 'tap'
import { withoutSecrets } from '../../../lib/settings/problems.ts'
import type { SettingsError } from '../../../lib/base/settings-error.ts'
import { readSecret } from '../../../lib/settings/secret.ts'
import { partOf } from '../../../lib/settings/tree.ts'
import { givensOf } from '../../helpers/givens.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

const ISSUER = 'https://a.example'
const SENDER = { issuer: ISSUER, audience: 'r', delivery: 'push' }

interface Beside {
  issuers?: readonly string[]
  /** One for each issuer. */
  algs?: readonly string[]
  replay?: string
  publicUrl?: string
  places?: ReadonlyMap<string, string>
}

async function read (
  revocation: unknown,
  { issuers = [ISSUER], algs, replay, publicUrl, places }: Beside = {}
) {
  const found = givensOf({
    'idp.audience': 'x',
    'idp.issuers': issuers.map((issuer, index) => ({ issuer, ...algs && { algs: algs[index] } })),
    'dpop.replay': replay,
    'server.publicUrl': publicUrl,
    revocation
  })
  const settings = await validateSettings({ ...found, ...places && { places } }, processSurroundings)
  return settings.revocation!
}

const problems = (given: unknown, beside?: Beside) =>
  read(given, beside).then(() => [], ({ problems }: SettingsError) => problems)
const transmitter = (given: object) => ({ transmitters: [{ ...SENDER, ...given }] })

t.test('A missing member gets its default, and a given one is unchanged', async t => {
  const given = { logout: { clientId: 'c' }, transmitters: [SENDER] }
  t.strictSame(await read(given), {
    transmitters: [{
      ...SENDER,
      sessionClaim: 'sid',
      subjectClaims: {},
      clientAuth: 'client_secret_basic',
      verify: true,
      untyped: false
    }],
    logout: [{ clientId: 'c', sessionClaim: 'sid', issuer: ISSUER, algs: ['RS256'] }],
    operators: undefined,
    retentionSeconds: 86_400,
    staleSeconds: 10,
    outage: 'refuse',
    store: 'memory'
  })
  t.strictSame(given, { logout: { clientId: 'c' }, transmitters: [SENDER] })
  t.strictSame((await read({})).transmitters, [])
  const subjectClaims = { iss_sub: 'uid', device: 'device.id', tenant: 'no' }
  t.strictSame((await read(transmitter({ sessionClaim: 'nothing', subjectClaims }))).transmitters, [{
    ...SENDER,
    sessionClaim: 'nothing',
    subjectClaims,
    clientAuth: 'client_secret_basic',
    verify: true,
    untyped: false
  }])
  t.strictSame((await read({ operators: { scope: 'revoke' } })).operators, { scope: 'revoke', issuers: [] })
  t.strictSame((await read({ operators: { scope: 'revoke', issuers: '*' } })).operators, {
    scope: 'revoke',
    issuers: ['*']
  })
  t.strictSame((await read({ operators: { scope: 'revoke', issuers: [ISSUER] } })).operators, {
    scope: 'revoke',
    issuers: [ISSUER]
  })
})

t.test('The store is its own, else the Redis of the replay store, else memory', async t => {
  const store = async (given: object, replay?: string) =>
    (await read(given, { ...replay && { replay } })).store
  t.equal(await store({}, 'redis://r.example'), 'redis://r.example')
  t.equal(await store({ store: 'memory' }, 'redis://r.example'), 'memory')
  t.equal(await store({ store: 'rediss://s.example' }, 'redis://r.example'), 'rediss://s.example')
  t.strictSame([await store({}, 'off'), await store({}, 'memory'), await store({})], ['memory', 'memory', 'memory'])
})

t.test('The algorithms of logout tokens are those of the issuer of their client', async t => {
  const issuers = [ISSUER, 'https://b.example']
  for (const slash of ['', '/']) {
    const { logout } = await read({ logout: issuers.map(issuer => ({ issuer: issuer + slash, clientId: 'c' })) }, {
      issuers,
      algs: ['ES256', 'PS256']
    })
    t.strictSame(logout.map(({ issuer, algs }) => [issuer, algs]), [[ISSUER, ['ES256']], [issuers[1], ['PS256']]])
  }
})

t.test('A logout client belongs to the only issuer, or names its own', async t => {
  const none = ' names no issuer, and there is not exactly one; set its issuer'
  const several = { issuers: [ISSUER, 'https://b.example'] }
  t.strictSame(await problems({ logout: { clientId: 'c' } }, several), [`revocation.logout${none}`])
  t.strictSame(await problems({ logout: [{ issuer: ISSUER, clientId: 'c' }, { clientId: 'd' }] }, several), [
    `revocation.logout[1]${none}`
  ])
  t.strictSame(await problems({ logout: [{ issuer: ISSUER, clientId: 'c' }] }, several), [])
  const domain = { 'idp.audience': 'x', 'idp.domain': 'https://a.example', revocation: { logout: { clientId: 'c' } } }
  const { idp, revocation } = await validateSettings(givensOf(domain), processSurroundings)
  t.strictSame([idp.issuers, revocation!.logout], [[], []], 'a domain with a scheme does not stop the start')
  const asked = givensOf({ 'idp.audience': 'x', revocation: { logout: { clientId: 'c' } } })
  await t.rejects(validateSettings(asked, processSurroundings, { lookUpIssuer: async () => undefined }), {
    message: /revocation\.logout names no issuer/
  })
  t.strictSame(await problems({ logout: { issuer: 'https://c.example', clientId: 'c' } }), [])
  t.strictSame(await problems({ logout: { issuer: 'http://c.example', clientId: 'c' } }), [
    'revocation.logout.issuer is "http://c.example", under which no keys can be fetched; allowed: https, or an ' +
      'issuer of idp'
  ])
  t.match(
    await problems({ logout: { clientId: 'c' } }, { issuers: ['a'] }),
    [/^idp\.issuers\[0\]\.issuer is "a"/],
    'the issuers have a problem of their own'
  )
})

const URL_ALLOWED = 'https URL (http for a loopback host) without user info'
const ISSUER_ALLOWED = `${URL_ALLOWED}, query or fragment`
const NAME_ALLOWED =
  'https URL (http for a loopback host, or beside an https jwksUri or a keysFile) without user info, query or fragment'
const SECRET = 'is not usable (its value is not shown); allowed: a text, { file: PATH } or { env: NAME }'
const ROWS: ReadonlyArray<readonly [title: string, given: unknown, ...problems: string[]]> = [
  [
    'the section',
    'yes',
    'revocation is "yes"; allowed: a section with transmitters, logout or operators: docs/reference/revocation.md'
  ],
  [
    'nothing',
    null,
    'revocation is null; allowed: a section with transmitters, logout or operators: docs/reference/revocation.md'
  ],
  [
    'a misspelt member of the one client',
    { logout: { clientID: 'c' } },
    'revocation.logout lacks clientId; allowed: an object with clientId, and issuer if there are several',
    'revocation.logout.clientID is unknown; did you mean revocation.logout.clientId?'
  ],
  [
    'an unknown member',
    { retentionSecond: 1 },
    'revocation.retentionSecond is unknown; did you mean revocation.retentionSeconds?'
  ],
  ['an unknown member like none', { zzz: 1 }, 'revocation.zzz is unknown'],
  ['retentionSeconds', { retentionSeconds: 0 }, 'revocation.retentionSeconds is 0; allowed: integer, 1 to 31536000'],
  ['staleSeconds', { staleSeconds: 301 }, 'revocation.staleSeconds is 301; allowed: integer, 1 to 300'],
  ['outage', { outage: 'open' }, 'revocation.outage is "open"; allowed: refuse or serve'],
  [
    'store',
    { store: 'https://user:hush@s.example' },
    'revocation.store is not usable (its value is not shown); allowed: memory, or a redis:// or rediss:// URL; ' +
    'in the file also { file: PATH }, { env: NAME } or { url, cert, key, ca }'
  ],
  ['operators', { operators: {} }, 'revocation.operators lacks scope; allowed: an object with scope'],
  ['a scope', { operators: { scope: 'a b' } }, 'revocation.operators.scope is "a b"; allowed: a scope'],
  ['no transmitters', { transmitters: [] }, 'revocation.transmitters is []; allowed: list of 1 to 50 transmitters'],
  [
    'transmitters that are no list, with a misspelt secret',
    { transmitters: { issuer: ISSUER, clientSecrte: 'hush' } },
    `revocation.transmitters is {"issuer":"${ISSUER}"}; allowed: list of 1 to 50 transmitters`
  ],
  [
    'the section as a list, with a misspelt secret',
    [{ stoer: 'redis://user:hush@s.example', outage: 'serve' }],
    'revocation is [{"outage":"serve"}]; allowed: a section with transmitters, logout or operators: ' +
    'docs/reference/revocation.md'
  ],
  [
    'delivery missing',
    { transmitters: [{ issuer: ISSUER, audience: 'r' }] },
    'revocation.transmitters[0] lacks delivery; allowed: an object with issuer, delivery, and audience or ' +
    'clientId'
  ],
  [
    'delivery',
    transmitter({ delivery: 'mail' }),
    'revocation.transmitters[0].delivery is "mail"; allowed: push or poll'
  ],
  [
    'issuer',
    transmitter({ issuer: 'http://a.example' }),
    `revocation.transmitters[0].issuer is "http://a.example"; allowed: ${ISSUER_ALLOWED}`
  ],
  ['metadata', transmitter({ metadata: 'a' }), `revocation.transmitters[0].metadata is "a"; allowed: ${URL_ALLOWED}`],
  ['audience', transmitter({ audience: '' }), 'revocation.transmitters[0].audience is ""; allowed: any non-empty text'],
  [
    'tokenIssuers',
    transmitter({ tokenIssuers: [] }),
    'revocation.transmitters[0].tokenIssuers is []; allowed: list of issuers'
  ],
  [
    'a token issuer',
    transmitter({ tokenIssuers: [ISSUER, 'b'] }),
    `revocation.transmitters[0].tokenIssuers[1] is "b"; allowed: ${NAME_ALLOWED}`
  ],
  [
    'sessionClaim',
    transmitter({ sessionClaim: true }),
    'revocation.transmitters[0].sessionClaim is true; allowed: name of a claim, or false'
  ],
  ...['false', 'False', 'no', 'off', 'yes', 'TRUE'].flatMap(sessionClaim => [
    [
      `sessionClaim: "${sessionClaim}"`,
      transmitter({ sessionClaim }),
      `revocation.transmitters[0].sessionClaim is "${sessionClaim}"; allowed: name of a claim, or false`
    ] as const,
    [
      `sessionClaim: "${sessionClaim}" of a logout`,
      { logout: { clientId: 'c', sessionClaim } },
      `revocation.logout.sessionClaim is "${sessionClaim}"; allowed: name of a claim, or false`
    ] as const
  ]),
  ...[{ device: 1 }, { divice: 'd' }, { 'iss-sub': 'uid' }, { user: 'u' }, { session: 's' }, { jwt_id: 'j' }].map(
    subjectClaims =>
      [
        `subjectClaims: ${JSON.stringify(subjectClaims)}`,
        transmitter({ subjectClaims }),
        'revocation.transmitters[0].subjectClaims is a mapping; allowed: map from formats and members of subjects ' +
        '(account, did, email, iss_sub, opaque, phone_number, uri, device, application, tenant, org_unit, group) to ' +
        'claims'
      ] as const
  ),
  ...[true, false, 1].map(manage =>
    [
      `manage: ${manage}`,
      transmitter({ manage }),
      'revocation.transmitters[0].manage is no setting: `holdfast stream --ensure` creates and changes the stream'
    ] as const
  ),
  [
    'manage of the section',
    { manage: true },
    'revocation.manage is no setting: `holdfast stream --ensure` creates and changes the stream'
  ],
  ['verify', transmitter({ verify: 1 }), 'revocation.transmitters[0].verify is 1; allowed: true or false'],
  [
    'a secret that is no text',
    transmitter({ clientSecret: 12345 }),
    `revocation.transmitters[0].clientSecret ${SECRET}`
  ],
  [
    'a secret of another form',
    transmitter({ pushAuthorization: { text: 'hush' } }),
    `revocation.transmitters[0].pushAuthorization ${SECRET}`
  ],
  [
    'an unknown member of a transmitter',
    transmitter({ audienc: 'x' }),
    'revocation.transmitters[0].audienc is unknown; did you mean revocation.transmitters[0].audience?'
  ],
  [
    'an issuer of operators',
    { operators: { scope: 'a', issuers: ['*', 'a'] } },
    `revocation.operators.issuers[1] is "a"; allowed: *, or ${NAME_ALLOWED}`
  ],
  [
    'no issuer, only metadata',
    { transmitters: [{ metadata: `${ISSUER}/c`, audience: 'r', delivery: 'push' }] },
    'revocation.transmitters[0] lacks issuer; allowed: an object with issuer, delivery, and audience or ' +
    'clientId'
  ],
  [
    'clientAuth',
    transmitter({ clientAuth: 'none' }),
    'revocation.transmitters[0].clientAuth is "none"; allowed: client_secret_basic, client_secret_post or ' +
    'private_key_jwt'
  ],
  [
    'an algorithm of logout tokens',
    { logout: { clientId: 'c', algs: ['HS256'] } },
    'revocation.logout.algs is ["HS256"]; allowed: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256, ' +
    'RS384, RS512, EdDSA, Ed25519, ML-DSA-44'
  ],
  [
    'no audience',
    { transmitters: [{ issuer: ISSUER, delivery: 'push' }] },
    'revocation.transmitters[0] has no audience; allowed: the aud of its events, which may be left out only with clientId'
  ],
  [
    'a client without a secret',
    transmitter({ delivery: 'poll', clientId: 'c' }),
    'revocation.transmitters[0] has clientId, which needs clientSecret, or clientAuth private_key_jwt and keyFile'
  ],
  [
    'a client without its key',
    transmitter({ clientId: 'c', clientSecret: 's', clientAuth: 'private_key_jwt' }),
    'revocation.transmitters[0] has clientAuth private_key_jwt, which needs keyFile'
  ],
  [
    'the same twice, with a slash more',
    { transmitters: [SENDER, { ...SENDER, issuer: `${ISSUER}/` }] },
    `revocation.transmitters[1] is "${ISSUER}", as revocation.transmitters[0] is; allowed: each transmitter once`
  ],
  [
    'logout that is a text',
    { logout: 'c' },
    'revocation.logout is "c"; allowed: an object with clientId, and issuer if there are several'
  ],
  [
    'logout without a client',
    { logout: {} },
    'revocation.logout lacks clientId; allowed: an object with clientId, and issuer if there are several'
  ],
  [
    'a logout of a list',
    { logout: [{ clientId: 'c' }, { clientId: 1 }] },
    'revocation.logout[1].clientId is 1; allowed: any non-empty text'
  ],
  ['an empty list', { logout: [] }, 'revocation.logout is []; allowed: a client, or a list of 1 to 50']
]

t.test('Each bad part is reported with what it held and what is allowed, and no secret is shown', async t => {
  for (const [title, given, ...expected] of ROWS) t.strictSame(await problems(given), expected, title)
  const many = Array.from({ length: 51 }, () => ({ clientSecret: 'hush', pushAuthorization: 'hush', issuer: ISSUER }))
  t.match(await problems({ transmitters: many }), [
    /^revocation\.transmitters is \[\{"issuer":"https:\/\/a\.example"\},\{.*…; allowed: list of 1 to 50/,
    ...many.map(() => / lacks delivery; /)
  ])
})

t.test(
  'Shown with a mark, a secret says where it is, and nothing of what it is or of what stands under an unknown ' +
    'name',
  async t => {
    const show = (secret: unknown) =>
      withoutSecrets(partOf('revocation'), {
        transmitters: [{ issuer: ISSUER, clientSecret: secret, clientSecrte: 'hush' }]
      }, '(not shown)')
    for (
      const [secret, shown] of [
        ['hush', '(not shown)'],
        [{ file: '/run/secret' }, { file: '/run/secret' }],
        [{ env: 'SECRET', text: 'hush' }, { env: 'SECRET' }],
        [{ text: 'hush' }, '(not shown)'],
        [{ file: { text: 'hush' } }, '(not shown)'],
        [['hush'], '(not shown)']
      ]
    ) {
      t.strictSame(show(secret), { transmitters: [{ issuer: ISSUER, clientSecret: shown }] })
      t.strictSame(withoutSecrets(partOf('revocation'), { store: secret }, '(not shown)'), { store: shown })
    }
    const implied = { admin: ['read', 'write'] }
    t.strictSame(withoutSecrets(partOf('idp.scopeImplies'), implied, '(not shown)'), implied, 'a map as a whole')
    t.equal(withoutSecrets(partOf('idp.scopeImplies'), implied), 'a mapping', 'and not in a message')
  }
)

t.test('An incomplete transmitter passes with the missing part or an alternative', async t => {
  const managed = { clientId: 'c', clientSecret: { env: 'S' } }
  t.strictSame(
    await problems({ transmitters: [{ issuer: ISSUER, metadata: `${ISSUER}/c`, delivery: 'poll', ...managed }] }),
    []
  )
  t.strictSame(
    await problems({
      transmitters: [{
        issuer: ISSUER,
        delivery: 'poll',
        ...managed,
        clientSecret: undefined,
        clientAuth: 'private_key_jwt',
        keyFile: 'key.pem',
        streamId: 's'
      }]
    }),
    []
  )
  t.strictSame(await problems(transmitter(managed)), [])
  t.strictSame(await problems({ transmitters: [SENDER, { ...SENDER, issuer: 'https://b.example' }] }), [])
})

t.test('All problems are reported at once, each with its place', async t => {
  const places = new Map([['revocation.outage', 'config.yaml:3'], ['revocation.logout.clientId', 'config.yaml:5']])
  t.strictSame(await problems({ outage: 1, logout: { clientId: 2 } }, { places }), [
    'config.yaml:5: revocation.logout.clientId is 2; allowed: any non-empty text',
    'config.yaml:3: revocation.outage is 1; allowed: refuse or serve'
  ])
})

t.test('A secret is a text, a file without its BOM and its last line end, or a variable, and is never empty', async t => {
  const files = {
    './good': 'hush\r\n',
    './marked': '\ufeffhush',
    './empty': '\n',
    './twice': 'hush\n\n',
    './latin': Buffer.from('schl\u00fcssel', 'latin1')
  }
  const sources = {
    readFile: async (name: string) => Buffer.from(files[name as keyof typeof files] as string),
    environment: (name: string) => ({ GOOD: 'hush', EMPTY: '' })[name]
  }
  t.equal(await readSecret('hush', 'it', sources), 'hush')
  t.equal(await readSecret({ file: './good' }, 'it', sources), 'hush')
  t.equal(await readSecret({ file: './marked' }, 'it', sources), 'hush')
  await t.rejects(readSecret({ file: './latin' }, 'it', sources), {
    name: 'SettingsError',
    problems: ['it is not usable: the file ./latin is not UTF-8; allowed: a text, { file: PATH } or { env: NAME }']
  })
  for (const place of [{ file: '-----BEGIN PRIVATE KEY-----\nhush' }, { env: '{"kty":"OKP","d":"hush"}' }]) {
    await t.rejects(readSecret(place, 'it', sources), {
      name: 'SettingsError',
      problems: [
        'it is not usable: a key itself (not shown) is no path and no variable; allowed: a text, { file: PATH } or ' +
        '{ env: NAME }'
      ]
    })
  }
  t.equal(await readSecret({ env: 'GOOD' }, 'it', sources), 'hush')
  await t.rejects(readSecret({ file: './twice' }, 'it', sources), {
    name: 'SettingsError',
    problems: [
      'it is not usable: the file ./twice holds a control character; allowed: a text, { file: PATH } or { env: NAME }'
    ]
  })
  await t.rejects(readSecret({ file: './empty' }, 'it', sources), {
    name: 'SettingsError',
    problems: ['it is not usable: the file ./empty is empty; allowed: a text, { file: PATH } or { env: NAME }']
  })
  await t.rejects(readSecret({ env: 'EMPTY' }, 'it', sources), {
    name: 'SettingsError',
    problems: ['it is not usable: the variable EMPTY is not set; allowed: a text, { file: PATH } or { env: NAME }']
  })
  await t.rejects(readSecret({ env: 'NONE' }, 'it', sources), {
    name: 'SettingsError',
    problems: ['it is not usable: the variable NONE is not set; allowed: a text, { file: PATH } or { env: NAME }']
  })
})
