import t from 'tap'
import { effectsOf, entriesAbout, eventName, KNOWN_EVENT_TYPES } from '../../../lib/revocation/effects.ts'
import { keyOf, type RevocationTarget } from '../../../lib/revocation/target.ts'
import { SetError } from '../../../lib/revocation/set-error.ts'

const NOW = 1_800_000_000
const SENDER = 'https://transmitter.example'
const TOKENS = 'https://tokens.example/'
const RULES: Parameters<typeof effectsOf>[1] = {
  sender: SENDER,
  tokenIssuers: [TOKENS],
  stream: `st ${SENDER}`,
  sessionClaimsOf: () => ['sid'],
  subjectClaims: { email: 'email' },
  criticalMembers: []
}

const CAEP = 'https://schemas.openid.net/secevent/caep/event-type/'
const RISC = 'https://schemas.openid.net/secevent/risc/event-type/'
const SSF = 'https://schemas.openid.net/secevent/ssf/event-type/'

const USER = { format: 'iss_sub', iss: SENDER, sub: 'u1' }
const SESSION = { format: 'opaque', id: 's1' }
const sub: RevocationTarget = ['sub', TOKENS, 'u1']
const sid: RevocationTarget = ['sid', TOKENS, 's1']

interface Row {
  title: string
  type?: string
  event?: object
  claims?: object
  rules?: Partial<typeof RULES>
  /** `applied` with what it changes, or another outcome, or the fault. */
  expected: ReadonlyArray<readonly [string, RevocationTarget]> | string
}

function outcome (
  { type = `${CAEP}session-revoked`, event = {}, claims = { sub_id: USER }, rules = {} }: Row
) {
  try {
    const { outcome, entries } = effectsOf(
      { type, event: event as Record<string, unknown>, claims: { iat: NOW - 3, ...claims } },
      { ...RULES, ...rules },
      NOW
    )
    return outcome === 'applied' ? entries.map(({ effect, key }) => [effect, key]) : outcome
  } catch (error) {
    if (!(error instanceof SetError)) throw error
    return /^The message cannot be understood: (.*)\.$/.exec(error.message)?.[1]
  }
}

const complex = (members: object) => ({ sub_id: { format: 'complex', ...members } })

const ROWS: readonly Row[] = [
  // The effect of each event.
  {
    title: 'a session that is revoked ends',
    claims: complex({ user: USER, session: SESSION }),
    expected: [['end', sid]]
  },
  {
    title: 'a session of ALL means the user',
    claims: complex({ user: USER, session: { format: 'opaque', id: 'ALL' } }),
    expected: [['login', sub]]
  },
  ...[['ALL', 's1'], ['s1', 'ALL']].map((ids): Row => ({
    title: `sessions that are ${ids.join(' and ')} mean the user`,
    claims: complex({
      user: USER,
      session: { format: 'aliases', identifiers: ids.map(id => ({ format: 'opaque', id })) }
    }),
    expected: [['login', sub]]
  })),
  { title: 'without a session the user is meant', expected: [['login', sub]] },
  {
    title: 'if no token has a session, the user is meant',
    claims: complex({ user: USER, session: SESSION }),
    rules: { sessionClaimsOf: () => [] },
    expected: [['login', sub]]
  },
  { title: 'an opaque subject of a session event is a session', claims: { sub_id: SESSION }, expected: [['end', sid]] },
  {
    title: 'an opaque subject that the settings map is compared with its claim',
    claims: { sub_id: SESSION },
    rules: { subjectClaims: { opaque: 'uid' } },
    expected: [['login', ['claim', TOKENS, 'uid', 's1']]]
  },
  {
    title: 'only a session, if no token has one, is compared with nothing',
    claims: complex({ session: SESSION }),
    rules: { sessionClaimsOf: () => [] },
    expected: 'unmapped'
  },
  {
    title: 'a changed credential is a cutoff',
    type: `${CAEP}credential-change`,
    event: { change_type: 'update' },
    expected: [['cutoff', sub]]
  },
  {
    title: 'a new credential changes nothing',
    type: `${CAEP}credential-change`,
    event: { change_type: 'create' },
    expected: 'none'
  },
  { title: 'changed claims are a cutoff', type: `${CAEP}token-claims-change`, expected: [['cutoff', sub]] },
  {
    title: 'changed claims of one token end it',
    type: `${CAEP}token-claims-change`,
    claims: { sub_id: { format: 'jwt_id', iss: TOKENS, jti: 'j1' } },
    expected: [['end', ['jti', TOKENS, 'j1']]]
  },
  {
    title: 'a lower assurance is a cutoff',
    type: `${CAEP}assurance-level-change`,
    event: { change_direction: 'decrease' },
    expected: [['cutoff', sub]]
  },
  {
    title: 'an assurance without direction is a cutoff',
    type: `${CAEP}assurance-level-change`,
    expected: [['cutoff', sub]]
  },
  {
    title: 'a higher assurance changes nothing',
    type: `${CAEP}assurance-level-change`,
    event: { change_direction: 'increase' },
    expected: 'none'
  },
  {
    title: 'a device that does not comply means its user',
    type: `${CAEP}device-compliance-change`,
    event: { current_status: 'not-compliant' },
    claims: complex({ user: USER, device: { format: 'opaque', id: 'd1' } }),
    expected: [['cutoff', sub]]
  },
  {
    title: 'a device that the settings map is the only subject',
    type: `${CAEP}device-compliance-change`,
    event: { current_status: 'not-compliant' },
    claims: complex({ user: USER, device: { format: 'opaque', id: 'd1' } }),
    rules: { subjectClaims: { device: 'device_id' } },
    expected: [['cutoff', ['claim', TOKENS, 'device_id', 'd1']]]
  },
  {
    title: 'a device that complies changes nothing',
    type: `${CAEP}device-compliance-change`,
    event: { current_status: 'compliant' },
    expected: 'none'
  },
  ...[
    'sessions-revoked',
    'credential-compromise',
    'account-credential-change-required',
    'identifier-changed',
    'identifier-recycled'
  ].map((name): Row => ({ title: `${name} is a cutoff`, type: RISC + name, expected: [['cutoff', sub]] })),
  ...['account-disabled', 'account-purged'].map((name): Row => ({
    title: `${name} blocks`,
    type: RISC + name,
    expected: [['block', sub]]
  })),
  { title: 'account-enabled lifts the block', type: `${RISC}account-enabled`, expected: [['enable', sub]] },
  ...(['disabled', 'enabled'] as const).flatMap(name =>
    (['device', 'tenant'] as const).map((member): Row => ({
      title: `account-${name} of a ${member} that the settings map means all of its tokens`,
      type: `${RISC}account-${name}`,
      claims: complex({ [member]: { format: 'opaque', id: 'x' } }),
      rules: { subjectClaims: { [member]: 'its_id' } },
      expected: [[name === 'disabled' ? 'block' : 'enable', ['claim', TOKENS, 'its_id', 'x']]]
    }))
  ),
  {
    title: 'an enabled session is nothing',
    type: `${RISC}account-enabled`,
    claims: complex({ session: SESSION }),
    expected: 'unmapped'
  },
  { title: 'a verification is news of the stream', type: `${SSF}verification`, expected: 'state' },
  {
    title: 'an update of the stream is news of it',
    type: `${SSF}stream-updated`,
    event: { status: 'paused' },
    expected: 'state'
  },
  { title: 'an unknown event changes nothing', type: `${CAEP}session-presented`, expected: 'unknown' },
  { title: 'a name that every object has is no event', type: 'constructor', expected: 'unknown' },
  {
    title: 'a credential change that names only a session ends it',
    type: `${CAEP}credential-change`,
    claims: complex({ session: SESSION }),
    expected: [['end', sid]]
  },

  // Where subjects are, and in which form.
  { title: 'the subject may be in the event', claims: {}, event: { subject: USER }, expected: [['login', sub]] },
  {
    title: 'sub_id goes before the subject of the event',
    event: { subject: { format: 'email', email: 'other@example.com' } },
    expected: [['login', sub]]
  },
  {
    title: 'subject_type is an older name of format',
    claims: { sub_id: { subject_type: 'iss-sub', iss: SENDER, sub: 'u1' } },
    expected: [['login', sub]]
  },
  {
    title: 'only names of members make a complex subject',
    claims: {},
    event: { subject: { user: USER, session: SESSION } },
    expected: [['end', sid]]
  },
  {
    title: 'an address is compared without case',
    claims: { sub_id: { format: 'email', email: 'Ann@Example.com' } },
    expected: [['login', ['claim', TOKENS, 'email', 'ann@example.com']]]
  },
  {
    title: 'the settings choose the claim of an address',
    claims: { sub_id: { format: 'email', email: 'Ann@example.com' } },
    rules: { subjectClaims: { email: 'upn' } },
    expected: [['login', ['email', TOKENS, 'upn', 'ann@example.com']]]
  },
  {
    title: 'what is no address is compared as it is',
    claims: { sub_id: { format: 'email', email: 'Ann' } },
    rules: { subjectClaims: { email: 'upn' } },
    expected: [['login', ['claim', TOKENS, 'upn', 'Ann']]]
  },
  {
    title: 'the settings choose the claim of a user',
    rules: { subjectClaims: { iss_sub: 'uid' } },
    expected: [['login', ['claim', TOKENS, 'uid', 'u1']]]
  },
  ...[{ format: 'phone_number', phone_number: '+1' }, { format: 'account', uri: 'acct:a@b' }, {
    format: 'did',
    url: 'did:x'
  }, { format: 'uri', uri: 'urn:x' }].flatMap(({ format, ...value }): Row[] => [
    {
      title: `${format} is compared with nothing by itself`,
      claims: { sub_id: { format, ...value } },
      expected: 'unmapped'
    },
    {
      title: `${format} is compared with the claim of the settings`,
      claims: { sub_id: { format, ...value } },
      rules: { subjectClaims: { [format]: 'claim' } },
      expected: [['login', ['claim', TOKENS, 'claim', Object.values(value)[0]!]]]
    }
  ]),
  ...['saml_assertion_id', 'constructor'].map((format) => ({
    title: `the unknown format ${format} is compared with nothing`,
    claims: { sub_id: { format } },
    expected: 'unmapped'
  })),
  {
    title: 'aliases all count',
    claims: { sub_id: { format: 'aliases', identifiers: [USER, { format: 'email', email: 'a@b' }] } },
    expected: [['login', sub], ['login', ['claim', TOKENS, 'email', 'a@b']]]
  },
  {
    title: 'an alias of another issuer beside one of this names nothing',
    claims: { sub_id: { format: 'aliases', identifiers: [{ ...USER, iss: 'https://other.example' }, USER] } },
    expected: [['login', sub]]
  },
  {
    title: 'only a device, which the settings map, is compared',
    type: `${CAEP}credential-change`,
    claims: complex({ device: { format: 'opaque', id: 'd1' } }),
    rules: { subjectClaims: { device: 'device_id' } },
    expected: [['cutoff', ['claim', TOKENS, 'device_id', 'd1']]]
  },
  {
    title: 'a tenant that the settings map is compared',
    type: `${CAEP}credential-change`,
    claims: complex({ tenant: { format: 'opaque', id: 't1' } }),
    rules: { subjectClaims: { tenant: 'org_id' } },
    expected: [['cutoff', ['claim', TOKENS, 'org_id', 't1']]]
  },
  {
    title: 'a tenant that the settings map to sub means the tokens with that sub',
    type: `${CAEP}credential-change`,
    claims: complex({ tenant: { format: 'opaque', id: 't1' } }),
    rules: { subjectClaims: { tenant: 'sub' } },
    expected: [['cutoff', ['sub', TOKENS, 't1']]]
  },
  {
    title: 'an address of a tenant is compared without case, too',
    type: `${CAEP}credential-change`,
    claims: complex({ tenant: { format: 'email', email: 'Ann@Example.com' } }),
    rules: { subjectClaims: { tenant: 'email' } },
    expected: [['cutoff', ['claim', TOKENS, 'email', 'ann@example.com']]]
  },
  {
    title: 'each issuer of tokens is meant',
    rules: { tokenIssuers: [TOKENS, 'https://two.example'] },
    expected: [['login', sub], ['login', ['sub', 'https://two.example', 'u1']]]
  },
  {
    title: 'an issuer of tokens may be named',
    claims: { sub_id: { ...USER, iss: 'https://two.example/' } },
    rules: { tokenIssuers: [TOKENS, 'https://two.example'] },
    expected: [['login', ['sub', 'https://two.example', 'u1']]]
  },

  // Subjects without effect.
  {
    title: 'a user of another issuer',
    claims: { sub_id: { ...USER, iss: 'https://other.example' } },
    expected: 'foreign'
  },
  {
    title: 'a user of another issuer beside a session',
    claims: complex({ user: { ...USER, iss: 'https://other.example' }, session: SESSION }),
    expected: 'foreign'
  },
  {
    title: 'a token of another issuer',
    claims: { sub_id: { format: 'jwt_id', iss: 'https://other.example', jti: 'j' } },
    expected: 'foreign'
  },
  {
    title: 'an alias of another issuer',
    claims: { sub_id: { format: 'aliases', identifiers: [{ ...USER, iss: 'https://other.example' }] } },
    expected: 'foreign'
  },
  {
    title: 'a user of another issuer by an alias beside a session',
    claims: complex({
      user: { format: 'aliases', identifiers: [{ ...USER, iss: 'https://other.example' }] },
      session: SESSION
    }),
    expected: 'foreign'
  },
  { title: 'a complex subject without a member', claims: complex({}), expected: 'foreign' },
  {
    title: 'a critical member that is not understood',
    claims: complex({ user: USER, application: { format: 'opaque', id: 'a' } }),
    rules: { criticalMembers: ['application'] },
    expected: 'foreign'
  },
  {
    title: 'a subject that is not complex has no members',
    claims: { sub_id: { ...USER, application: 1 } },
    rules: { criticalMembers: ['application'] },
    expected: [['login', sub]]
  },
  { title: 'a member that is null', claims: complex({ user: null }), expected: 'a member of the subject is not an object' },
  {
    title: 'a critical member that is understood',
    claims: complex({ user: USER }),
    rules: { criticalMembers: ['user'] },
    expected: [['login', sub]]
  },
  {
    title: 'a critical member that the settings map',
    claims: complex({ user: USER, tenant: { format: 'opaque', id: 't' } }),
    rules: { criticalMembers: ['tenant'], subjectClaims: { tenant: 'org_id' } },
    expected: [['login', sub]]
  },

  // Subjects that cannot be read.
  { title: 'no subject', claims: {}, expected: 'the subject is not an object' },
  { title: 'a subject of text', claims: { sub_id: 'u1' }, expected: 'the subject is not an object' },
  { title: 'a list', claims: { sub_id: [USER] }, expected: 'the subject is not an object' },
  { title: 'an empty object', claims: { sub_id: {} }, expected: 'the subject has no format' },
  {
    title: 'a format of another type',
    claims: { sub_id: { ...USER, format: 1 } },
    expected: 'the subject has no format'
  },
  {
    title: 'no format, and a name that is no member',
    claims: { sub_id: { user: USER, car: {} } },
    expected: 'the subject has no format'
  },
  {
    title: 'a user without sub',
    claims: { sub_id: { format: 'iss_sub', iss: SENDER } },
    expected: 'the subject has no sub'
  },
  { title: 'a user with an empty sub', claims: { sub_id: { ...USER, sub: '' } }, expected: 'the subject has no sub' },
  {
    title: 'a user whose iss is a list',
    claims: { sub_id: { ...USER, iss: [SENDER] } },
    expected: 'the subject has no iss'
  },
  {
    title: 'complex inside of complex',
    claims: complex({ user: { format: 'complex', user: USER } }),
    expected: 'a complex subject is inside another one'
  },
  { title: 'a member of text', claims: complex({ user: 'u1' }), expected: 'a member of the subject is not an object' },
  {
    title: 'aliases inside of aliases',
    claims: { sub_id: { format: 'aliases', identifiers: [{ format: 'aliases', identifiers: [USER] }] } },
    expected: 'aliases are inside aliases'
  },
  {
    title: 'aliases without identifiers',
    claims: { sub_id: { format: 'aliases', identifiers: [] } },
    expected: 'the aliases have no identifiers'
  },
  {
    title: 'an identifier of text',
    claims: { sub_id: { format: 'aliases', identifiers: ['u1'] } },
    expected: 'an identifier is not an object'
  },
  {
    title: '101 identifiers in two members',
    claims: {
      sub_id: {
        user: { format: 'aliases', identifiers: Array(50).fill(USER) },
        session: { format: 'aliases', identifiers: Array(51).fill(USER) }
      }
    },
    expected: 'there are more than 100 identifiers'
  },
  {
    title: 'identifiers of a subject without aliases are ignored',
    claims: { sub_id: { ...USER, identifiers: Array(101).fill(USER) } },
    expected: [['login', sub]]
  },
  {
    title: '1,000 identifiers',
    claims: { sub_id: { format: 'aliases', identifiers: Array(1000).fill(USER) } },
    expected: 'there are more than 100 identifiers'
  },
  { title: 'a time of text', event: { event_timestamp: '1800000000' }, expected: 'the time of the event is no time' },
  { title: 'a negative time', event: { event_timestamp: -1 }, expected: 'the time of the event is no time' },
  { title: 'a toe of another type', claims: { sub_id: USER, toe: {} }, expected: 'the time of the event is no time' }
]

for (const row of ROWS) {
  t.test(`An event: ${row.title}`, async t => {
    const { expected } = row
    t.strictSame(
      outcome(row),
      typeof expected === 'string' ? expected : expected.map(([effect, target]) => [effect, keyOf(target)])
    )
  })
}

t.test(
  'The moment is event_timestamp, else toe, else iat; large numbers are milliseconds, and one in the future ' +
    'stays there',
  async t => {
    const moment = (event: object, claims: object = {}) =>
      effectsOf(
        {
          type: `${CAEP}session-revoked`,
          event: event as Record<string, unknown>,
          claims: { sub_id: USER, iat: NOW - 3, ...claims }
        },
        RULES,
        NOW
      ).entries[0]!.at
    t.equal(moment({}), NOW - 3)
    t.equal(moment({}, { toe: NOW - 9 }), NOW - 9)
    t.equal(moment({ event_timestamp: NOW - 20 }, { toe: NOW - 9 }), NOW - 20)
    t.equal(moment({ event_timestamp: NOW - 20.5 }), NOW - 20.5)
    t.equal(moment({ event_timestamp: (NOW - 20) * 1000 }), NOW - 20)
    t.equal(moment({ event_timestamp: 1e11 }), 1e11, 'the largest number of seconds')
    t.equal(moment({ event_timestamp: 1e11 + 1 }), 100_000_000.001)
    t.equal(moment({ event_timestamp: NOW + 2 }), NOW + 2, 'a clock that runs ahead')
  }
)

t.test('News of a stream are a status of SSF, or that it was verified, whatever an update says', async t => {
  const news = (type: string, event: Record<string, unknown>) =>
    effectsOf({ type: `${SSF}${type}`, event, claims: { iat: NOW - 3 } }, RULES, NOW).entries
  const common = { effect: 'state', at: NOW - 3, source: SENDER, sender: SENDER, standing: 'other' }
  for (const status of ['enabled', 'paused', 'disabled']) {
    t.strictSame(news('stream-updated', { status }), [{ ...common, event: status, key: `stream st ${SENDER}` }])
  }
  for (const status of ['verification', 'asked AAAAAAAAAAAAAAAA', 'failing', undefined]) {
    t.strictSame(news('stream-updated', { status }), [], String(status))
  }
  t.strictSame(news('verification', { status: 'paused', event_timestamp: NOW + 9 }), [{
    ...common,
    at: NOW,
    event: 'verification',
    key: `verification st ${SENDER}`
  }])
})

t.test('Names of events are ends of known types', async t => {
  t.equal(KNOWN_EVENT_TYPES.length, 15)
  t.equal(eventName(`${RISC}account-disabled`), 'account-disabled')
  t.equal(eventName('https://example.com/text of the sender'), 'unknown')
})

t.test('An entry says whose part of the room it takes, and what its sender is to the tokens', async t => {
  const facts = { at: NOW, now: NOW, event: 'logout', sender: 'https://a.example/' }
  const rows = [
    { target: ['sub', 'https://a.example', 'u1'], isOperator: false, standing: 'issuer' },
    {
      target: ['sub', 'https://a.example/', 'u1'],
      isOperator: true,
      standing: 'operator'
    },
    { target: ['sub', 'https://b.example/', 'u1'], isOperator: true, standing: 'other' },
    { target: ['sid', '*', 's1'], isOperator: true, standing: 'other' },
    { target: ['jkt', 'k1'], isOperator: true, standing: 'operator' },
    { target: ['sub', 'https://b.example', 'u1'], isOperator: false, standing: 'other' }
  ] as const
  for (const { target, isOperator, standing } of rows) {
    t.hasStrict(entriesAbout([{ kind: 'other', target }], 'revoke', { ...facts, ...isOperator && { operator: 'x' } })[0], {
      source: isOperator ? 'x' : facts.sender,
      sender: 'https://a.example',
      standing
    }, `${target[1]}, ${standing}`)
  }
})
