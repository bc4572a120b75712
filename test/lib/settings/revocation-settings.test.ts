import t from 'tap'
import { parseRevocation, readSecret } from '../../../lib/settings/revocation-settings.ts'
import type { BesideRevocation } from '../../../lib/settings/revocation-settings.ts'

const ISSUER = 'https://a.example'
const BESIDE: BesideRevocation = { issuers: [ISSUER], replay: undefined, publicUrl: undefined }
const SENDER = { issuer: ISSUER, audience: 'r', delivery: 'push' }

const problems = (given: unknown, beside: Partial<BesideRevocation> = {}, places?: ReadonlyMap<string, string>): readonly string[] => parseRevocation(given, { ...BESIDE, ...beside }, places).problems
const transmitter = (given: object): object => ({ transmitters: [{ ...SENDER, ...given }] })

t.test('What is left out has its default, and what is given stays as it was', t => {
  const given = { logout: { clientId: 'c' }, transmitters: [SENDER] }
  t.strictSame(parseRevocation(given, BESIDE), {
    problems: [],
    settings: {
      transmitters: [{ ...SENDER, sessionClaim: 'sid', subjectClaims: {}, manage: false, untyped: false }],
      logout: [{ clientId: 'c', sessionClaim: 'sid', issuer: ISSUER }],
      operatorScope: undefined,
      retentionSeconds: 86_400,
      staleSeconds: 10,
      outage: 'refuse',
      store: 'memory'
    }
  })
  t.strictSame(given, { logout: { clientId: 'c' }, transmitters: [SENDER] })
  t.strictSame(parseRevocation({}, BESIDE).settings.transmitters, [])
  t.strictSame(parseRevocation({ operators: { scope: 'revoke' } }, BESIDE).settings.operatorScope, 'revoke')
  t.end()
})

t.test('The store is its own, else the Redis of the replay store, else memory', t => {
  const store = (given: object, replay: unknown): string => parseRevocation(given, { ...BESIDE, replay }).settings.store
  t.equal(store({}, 'redis://r.example'), 'redis://r.example')
  t.equal(store({ store: 'memory' }, 'redis://r.example'), 'memory')
  t.equal(store({ store: 'rediss://s.example' }, 'redis://r.example'), 'rediss://s.example')
  t.strictSame([store({}, 'off'), store({}, 'memory'), store({}, undefined)], ['memory', 'memory', 'memory'])
  t.end()
})

t.test('A logout client is of the one issuer, or names its own', t => {
  const none = ' names no issuer, and there is not exactly one; set its issuer'
  const several = { issuers: [ISSUER, 'https://b.example'] }
  t.strictSame(problems({ logout: { clientId: 'c' } }, several), [`revocation.logout${none}`])
  t.strictSame(problems({ logout: [{ issuer: ISSUER, clientId: 'c' }, { clientId: 'd' }] }, several), [`revocation.logout[1]${none}`])
  t.strictSame(problems({ logout: [{ issuer: ISSUER, clientId: 'c' }] }, several), [])
  t.strictSame(problems({ logout: { clientId: 'c' } }, { issuers: undefined }), [], 'the issuers have a problem of their own')
  t.end()
})

const URL_ALLOWED = 'https URL (http for a loopback host) without user info'
const ISSUER_ALLOWED = `${URL_ALLOWED}, query or fragment`
const SECRET = 'is not usable (its value is not shown); allowed: a text, { file: PATH } or { env: NAME }'
const ROWS: ReadonlyArray<readonly [string, unknown, string]> = [
  ['the section', 'yes', 'revocation is "yes"; allowed: a section with transmitters, logout or operators: docs/revocation.md'],
  ['nothing', null, 'revocation is null; allowed: a section with transmitters, logout or operators: docs/revocation.md'],
  ['an unknown member', { retentionSecond: 1 }, 'revocation.retentionSecond is unknown; did you mean revocation.retentionSeconds?'],
  ['an unknown member like none', { zzz: 1 }, 'revocation.zzz is unknown'],
  ['retentionSeconds', { retentionSeconds: 0 }, 'revocation.retentionSeconds is 0; allowed: integer, 1 to 31536000'],
  ['staleSeconds', { staleSeconds: 301 }, 'revocation.staleSeconds is 301; allowed: integer, 1 to 300'],
  ['outage', { outage: 'open' }, 'revocation.outage is "open"; allowed: refuse or serve'],
  ['store', { store: 'https://user:hush@s.example' }, 'revocation.store is not usable (its value is not shown); allowed: memory, or a redis:// or rediss:// URL'],
  ['operators', { operators: {} }, 'revocation.operators lacks scope; allowed: an object with scope'],
  ['a scope', { operators: { scope: 'a b' } }, 'revocation.operators.scope is "a b"; allowed: a scope'],
  ['no transmitters', { transmitters: [] }, 'revocation.transmitters is []; allowed: list of 1 to 50 transmitters'],
  ['delivery missing', { transmitters: [{ issuer: ISSUER, audience: 'r' }] }, 'revocation.transmitters[0] lacks delivery; allowed: an object with issuer or metadata, delivery, and audience unless manage is true'],
  ['delivery', transmitter({ delivery: 'mail' }), 'revocation.transmitters[0].delivery is "mail"; allowed: push or poll'],
  ['issuer', transmitter({ issuer: 'http://a.example' }), `revocation.transmitters[0].issuer is "http://a.example"; allowed: ${ISSUER_ALLOWED}`],
  ['metadata', transmitter({ metadata: 'a' }), `revocation.transmitters[0].metadata is "a"; allowed: ${URL_ALLOWED}`],
  ['audience', transmitter({ audience: '' }), 'revocation.transmitters[0].audience is ""; allowed: any non-empty text'],
  ['tokenIssuers', transmitter({ tokenIssuers: [] }), 'revocation.transmitters[0].tokenIssuers is []; allowed: list of issuers'],
  ['a token issuer', transmitter({ tokenIssuers: [ISSUER, 'b'] }), `revocation.transmitters[0].tokenIssuers[1] is "b"; allowed: ${ISSUER_ALLOWED}`],
  ['sessionClaim', transmitter({ sessionClaim: true }), 'revocation.transmitters[0].sessionClaim is true; allowed: name of a claim, or false'],
  ['subjectClaims', transmitter({ subjectClaims: { 'a/b': 1 } }), 'revocation.transmitters[0].subjectClaims is {"a/b":1}; allowed: map from a format or member of subjects to a claim'],
  ['manage', transmitter({ manage: 1 }), 'revocation.transmitters[0].manage is 1; allowed: true or false'],
  ['a secret that is no text', transmitter({ clientSecret: 12345 }), `revocation.transmitters[0].clientSecret ${SECRET}`],
  ['a secret of another form', transmitter({ pushAuthorization: { text: 'hush' } }), `revocation.transmitters[0].pushAuthorization ${SECRET}`],
  ['an unknown member of a transmitter', transmitter({ audienc: 'x' }), 'revocation.transmitters[0].audienc is unknown; did you mean revocation.transmitters[0].audience?'],
  ['no issuer', { transmitters: [{ audience: 'r', delivery: 'push' }] }, 'revocation.transmitters[0] names neither issuer nor metadata; allowed: one of them, or both'],
  ['no audience', { transmitters: [{ issuer: ISSUER, delivery: 'push' }] }, 'revocation.transmitters[0] has no audience; allowed: the aud of its events, which may be left out only with manage'],
  ['manage without a secret', transmitter({ delivery: 'poll', manage: true, clientId: 'c' }), 'revocation.transmitters[0] has manage, which needs clientId and clientSecret'],
  ['manage without an address', transmitter({ manage: true, clientId: 'c', clientSecret: 's' }), 'revocation.transmitters[0] has manage and push, which need PUBLIC_URL (server.publicUrl): it makes the address for pushes'],
  ['the same twice', { transmitters: [SENDER, SENDER] }, `revocation.transmitters[1] is "${ISSUER}", as revocation.transmitters[0] is; allowed: each transmitter once`],
  ['logout that is a text', { logout: 'c' }, 'revocation.logout is "c"; allowed: an object with clientId, and issuer if there are several'],
  ['logout without a client', { logout: {} }, 'revocation.logout lacks clientId; allowed: an object with clientId, and issuer if there are several'],
  ['a logout of a list', { logout: [{ clientId: 'c' }, { clientId: 1 }] }, 'revocation.logout[1].clientId is 1; allowed: any non-empty text'],
  ['an empty list', { logout: [] }, 'revocation.logout is []; allowed: a client, or a list of 1 to 50']
]

t.test('Each bad part is told with what it held and what is allowed, and no secret is shown', t => {
  for (const [title, given, problem] of ROWS) t.strictSame(problems(given), [problem], title)
  t.end()
})

t.test('What lacks something in one way passes in another', t => {
  const managed = { manage: true, clientId: 'c', clientSecret: { env: 'S' } }
  t.strictSame(problems({ transmitters: [{ metadata: `${ISSUER}/c`, delivery: 'poll', ...managed }] }), [])
  t.strictSame(problems(transmitter(managed), { publicUrl: 'https://h.example' }), [])
  t.strictSame(problems({ transmitters: [SENDER, { ...SENDER, issuer: 'https://b.example' }] }), [])
  t.end()
})

t.test('All problems are told at once, each with its place', t => {
  const places = new Map([['revocation.outage', 'config.yaml:3'], ['revocation.logout.clientId', 'config.yaml:5']])
  t.strictSame(problems({ outage: 1, logout: { clientId: 2 } }, {}, places), [
    'config.yaml:5: revocation.logout.clientId is 2; allowed: any non-empty text',
    'config.yaml:3: revocation.outage is 1; allowed: refuse or serve'
  ])
  t.end()
})

t.test('A secret is a text, a file without its last line end, or a variable, and is never empty', async t => {
  const files: Record<string, string> = { good: 'hush\r\n', empty: '\n' }
  const sources = { readFile: async (name: string) => Buffer.from(files[name]!), environment: (name: string) => ({ GOOD: 'hush', EMPTY: '' })[name] }
  t.equal(await readSecret('hush', sources), 'hush')
  t.equal(await readSecret({ file: 'good' }, sources), 'hush')
  t.equal(await readSecret({ env: 'GOOD' }, sources), 'hush')
  await t.rejects(readSecret({ file: 'empty' }, sources), new Error('the file empty is empty'))
  await t.rejects(readSecret({ env: 'EMPTY' }, sources), new Error('the variable EMPTY is not set'))
  await t.rejects(readSecret({ env: 'NONE' }, sources), new Error('the variable NONE is not set'))
})
