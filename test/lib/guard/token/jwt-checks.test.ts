import t from 'tap'
import { Refusal } from '../../../../lib/refusal.ts'
import { createScopeGranters, findScopeCircle } from '../../../../lib/guard/requirement/implied-scopes.ts'
import type { Introspector } from '../../../../lib/guard/introspection/introspector.ts'
import { isJwt } from '../../../../lib/guard/jose/signed-jwt.ts'
import { createInquiry, type Inquired, type InquiryOptions } from '../../../../lib/guard/token/inquiry.ts'
import { createDynamicIssuers } from '../../../../lib/guard/token/dynamic-issuers.ts'
import { createIssuerTable, type TokenIssuer } from '../../../../lib/guard/token/issuer-table.ts'
import {
  checkByRules,
  readToken,
  TOKEN_CHECKS,
  type TokenClaims,
  type TokenRules
} from '../../../../lib/guard/token/jwt-checks.ts'
import { createVerifiedToken, createVerifiedTokens, readScopes } from '../../../../lib/guard/token/verified-tokens.ts'
import { encodeJws } from '../../../helpers/jws.ts'
import { rowsOf } from '../../../helpers/rows.ts'

const NOW = 1_800_000_000
const POLICY: TokenRules = {
  issuer: 'https://idp.example/',
  audiences: ['api'],
  profile: 'any',
  algs: ['RS256', 'ES256'],
  audienceClaim: 'aud',
  clockToleranceSeconds: 5,
  bindings: ['jkt']
}
const CLAIMS = { iss: 'https://idp.example/', sub: 'user-1', aud: 'api', exp: NOW + 60 }
const deep = (levels: number): unknown => levels === 0 ? 'x' : [deep(levels - 1)]

/** A token that RFC 9068 describes, where only such ones pass. */
const OF_RFC_9068 = {
  header: { typ: 'at+jwt' },
  claims: { client_id: 'c', jti: 'j', iat: NOW },
  policy: { profile: 'rfc9068' }
} as const satisfies Row

/** `accepted`, or the reason with what the log says about it. */
function outcome (act: () => unknown) {
  try {
    act()
    return 'accepted'
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.detail ? [error.reason, error.detail] : error.reason
  }
}

function checkToken (header: object, claims: object, policy: Partial<TokenRules>) {
  return outcome(() => {
    const text = encodeJws({ alg: 'RS256', ...header }, { ...CLAIMS, ...claims }, () => Buffer.from('signature'))
    return checkByRules({ ...readToken(text), now: NOW }, { ...POLICY, ...policy })
  })
}

interface Row {
  header?: object
  claims?: object
  policy?: Partial<TokenRules>
  expected?: unknown
}

t.test('Header and claims of a token are checked against the rules, each row beside its twin', async t => {
  const expired = (exp: number, now = NOW) => ['token_expired', { expected: `exp after ${now - 5}`, found: exp }]
  const nameless = (claim: string, expected: string, value: unknown) => {
    const found = value === undefined
      ? 'nothing'
      : value === null
        ? 'null'
        : value === ''
          ? 'an empty text'
          : Array.isArray(value)
            ? 'a list'
            : `a ${typeof value}`
    return { claims: { [claim]: value }, expected: ['token_claim_invalid', { claim, expected, found }] }
  }
  const otherAlg = (found: string) => ['token_algorithm', { expected: 'RS256 ES256', found }]
  const rows: readonly Row[] = [
    { expected: 'accepted' },
    { header: { alg: 'ES256' } },
    { header: { alg: 'ES384' }, expected: otherAlg('ES384') },
    ...['rs256', ['RS256'], undefined].map(alg => ({ header: { alg }, expected: otherAlg('no known name') })),
    ...['JWT', 'jwt', 'at+jwt', 'AT+JWT', 'application/at+jwt'].map(typ => ({ header: { typ } })),
    ...['application/jwt', 'dpop+jwt', '', null, 1, ['JWT']].map(typ => ({ header: { typ }, expected: 'token_type' })),
    ...[[], ['exp'], null, false].map(crit => ({ header: { crit }, expected: 'token_critical' })),
    ...[true, false, null].map(b64 => ({ header: { b64 }, expected: 'token_critical' })),
    { header: { kid: '' } },
    ...[1, null, {}].map(kid => ({ header: { kid }, expected: 'token_malformed' })),

    { claims: { iss: 'https://idp.example' } },
    ...[
      'https://idp.example//',
      'https://idp.example/x',
      'HTTPS://idp.example/',
      'xhttps://idp.example/',
      'https://idp.exampl',
      ''
    ].map(iss => ({ claims: { iss }, expected: ['token_issuer', { expected: 'https://idp.example/', found: iss }] })),
    ...[undefined, null, 1, ['https://idp.example/']].map(iss => nameless('iss', 'a text', iss)),
    ...[undefined, null, 1, '', ['user-1']].map(sub => nameless('sub', 'a text that is not empty', sub)),

    { claims: { aud: ['other', 'api'] } },
    { claims: { aud: 'id' }, policy: { audiences: ['api', 'id'] } },
    { claims: { aud: ['other', 'id'] }, policy: { audiences: ['api', 'id'] } },
    {
      claims: { aud: 'api id' },
      policy: { audiences: ['api', 'id'] },
      expected: ['token_audience', { claim: 'aud', expected: 'api id', found: 'api id' }]
    },
    { claims: { aud: undefined, azp: 'id' }, policy: { audienceClaim: 'azp', audiences: ['api', 'id'] } },

    { ...OF_RFC_9068 },
    { ...OF_RFC_9068, header: { typ: 'Application/AT+JWT' } },
    ...['JWT', undefined].map(typ => ({ ...OF_RFC_9068, header: { typ }, expected: 'token_type' })),
    ...['client_id', 'jti', 'iat'].flatMap(claim =>
      [undefined, null, [], claim === 'iat' ? '1' : 1].map(value => ({
        ...OF_RFC_9068,
        claims: { ...OF_RFC_9068.claims, [claim]: value },
        expected: [
          'token_claim_invalid',
          {
            ...(nameless(
              claim,
              claim === 'iat' ? 'a number' : 'a text that is not empty',
              value
            ).expected[1] as object)
          }
        ]
      }))
    ),
    { ...OF_RFC_9068, claims: { ...OF_RFC_9068.claims, iat: NOW + 5 } },
    {
      ...OF_RFC_9068,
      claims: { ...OF_RFC_9068.claims, iat: NOW + 6 },
      expected: ['token_not_yet_valid', { claim: 'iat', expected: `at most ${NOW + 5}`, found: NOW + 6 }]
    },
    {
      ...OF_RFC_9068,
      claims: { ...OF_RFC_9068.claims, iss: 'https://idp.example' },
      expected: ['token_issuer', { expected: 'https://idp.example/', found: 'https://idp.example' }]
    },
    { claims: { aud: 'https://api.example' }, policy: { resource: 'https://api.example' } },
    { claims: { aud: ['https://api.example'] }, policy: { resource: 'https://api.example' } },
    {
      claims: { aud: 'https://api.example' },
      expected: ['token_audience', { claim: 'aud', expected: 'api', found: 'https://api.example' }]
    },
    ...['API', 'api ', 'apis', 'my-api', 'ap', ''].map(aud => ({
      claims: { aud },
      expected: ['token_audience', { claim: 'aud', expected: 'api', found: aud }]
    })),
    {
      claims: { aud: ['my-api', 'apis'] },
      expected: ['token_audience', { claim: 'aud', expected: 'api', found: 'my-api apis' }]
    },
    { claims: { aud: [] }, expected: ['token_audience', { claim: 'aud', expected: 'api', found: '' }] },
    ...[undefined, null, 1, {}, ['api', 1]].map(aud => nameless('aud', 'a text or a list of texts', aud)),

    ...(['azp', 'client_id'] as const).flatMap((claim) => [
      { claims: { aud: undefined, [claim]: 'api' }, policy: { audienceClaim: claim } },
      { claims: { aud: undefined, [claim]: ['other', 'api'] }, policy: { audienceClaim: claim } },
      { claims: { [claim]: 'api' }, policy: { audienceClaim: claim } },
      {
        claims: { aud: 'other', [claim]: 'api' },
        policy: { audienceClaim: claim },
        expected: ['token_audience', { claim: 'aud', expected: 'api', found: 'other' }]
      },
      {
        claims: { aud: 1, [claim]: 'api' },
        policy: { audienceClaim: claim },
        expected: ['token_claim_invalid', { claim: 'aud', expected: 'a text or a list of texts', found: 'a number' }]
      },
      {
        claims: { [claim]: 'other' },
        policy: { audienceClaim: claim },
        expected: ['token_audience', { claim, expected: 'api', found: 'other' }]
      },
      {
        claims: { aud: undefined, [claim]: 'https://api.example' },
        policy: { audienceClaim: claim, resource: 'https://api.example' },
        expected: ['token_audience', { claim, expected: 'api', found: 'https://api.example' }]
      },
      {
        claims: { aud: 'https://api.example', [claim]: 'api' },
        policy: { audienceClaim: claim, resource: 'https://api.example' }
      },
      {
        policy: { audienceClaim: claim },
        expected: ['token_claim_invalid', { claim, expected: 'a text or a list of texts', found: 'nothing' }]
      },
      {
        claims: { aud: undefined, [claim]: 'api' },
        expected: ['token_claim_invalid', { claim: 'aud', expected: 'a text or a list of texts', found: 'nothing' }]
      }
    ]),

    { claims: { exp: NOW - 4 } },
    { claims: { exp: NOW - 4.5 } },
    { claims: { exp: NOW - 5 }, expected: expired(NOW - 5) },
    {
      claims: { exp: NOW },
      policy: { clockToleranceSeconds: 0 },
      expected: ['token_expired', { expected: `exp after ${NOW}`, found: NOW }]
    },
    ...[undefined, null, String(NOW + 60), [NOW + 60]].map(exp => nameless('exp', 'a number', exp)),
    { claims: { nbf: NOW + 5 } },
    {
      claims: { nbf: NOW + 5.5 },
      expected: ['token_not_yet_valid', { expected: `nbf up to ${NOW + 5}`, found: NOW + 5.5 }]
    },
    ...[null, String(NOW)].map(nbf => nameless('nbf', 'a number', nbf)),
    { claims: { iat: NOW + 1e6 } },
    ...[null, String(NOW)].map(iat => nameless('iat', 'a number', iat)),
    { claims: { more: deep(63) } },
    {
      claims: { more: deep(64) },
      expected: ['token_claim_invalid', { claim: 'more', expected: 'at most 64 levels', found: 'more' }]
    },

    { claims: { cnf: { jkt: 'a' } } },
    { claims: { cnf: { jkt: 'a', other: 'b' } } },
    ...[{}, null, 'a', [], { jkt: '' }, { jkt: 1 }, { other: 'a' }, { 'x5t#S256': 'a' }, { jkt: 'a', 'x5t#S256': 'b' }]
      .map(cnf => ({ claims: { cnf }, expected: 'token_binding_unusable' })),
    { claims: { cnf: { jkt: 'a', 'x5t#S256': 'b' } }, policy: { bindings: ['jkt', 'x5t#S256'] } },
    {
      claims: { cnf: { jkt: 'a', 'x5t#S256': '' } },
      policy: { bindings: ['jkt', 'x5t#S256'] },
      expected: 'token_binding_unusable'
    },
    { policy: { neededBindings: ['jkt'] }, expected: 'token_not_sender_constrained' },
    { claims: { cnf: { jkt: 'a' } }, policy: { neededBindings: ['jkt'] } },
    {
      claims: { cnf: { 'x5t#S256': 'a' } },
      policy: { bindings: ['jkt', 'x5t#S256'], neededBindings: ['jkt'] },
      expected: 'token_binding_unusable'
    }
  ]
  for (const { header = {}, claims = {}, policy = {}, expected = 'accepted' } of rows) {
    t.strictSame(
      checkToken(header, claims, policy),
      expected,
      JSON.stringify({ header, claims: 'more' in claims ? 'deep' : claims, policy })
    )
  }
})

t.test('Each check of a token has decided whether it holds for opaque tokens, and holds for those it says', async t => {
  const ofHeader = ['alg', 'typ', 'crit', 'kid']
  const header = { alg: 'none', typ: 'dpop+jwt', crit: ['x'], kid: 1 }
  for (const { name, run } of TOKEN_CHECKS.filter(({ name }) => ofHeader.includes(name))) {
    t.not(outcome(() => run({ header, claims: CLAIMS, now: NOW }, POLICY)), 'accepted', name)
    t.equal(outcome(() => run({ header: undefined, claims: CLAIMS, now: NOW }, POLICY)), 'accepted', `${name}: no header`)
  }
  // Each of these would be refused by one check alone.
  const refused: Record<string, readonly [claims: object, reason: string]> = {
    iss: [{ iss: 'other' }, 'token_issuer'],
    kind: [{ events: {} }, 'token_kind'],
    claims: [{ iat: 'now' }, 'token_claim_invalid'],
    profile: [{}, 'accepted'],
    cnf: [{ cnf: {} }, 'token_binding_unusable'],
    aud: [{ aud: 'other' }, 'token_audience'],
    time: [{ nbf: NOW + 6 }, 'token_not_yet_valid']
  }
  t.strictSame(TOKEN_CHECKS.map(({ name }) => name), ['iss', ...ofHeader, ...Object.keys(refused).slice(1)])
  for (const [name, [claims, reason]] of Object.entries(refused)) {
    const rules = name === 'profile' ? { ...POLICY, profile: 'rfc9068' as const } : POLICY
    const found = outcome(() => checkByRules({ header: undefined, claims: { ...CLAIMS, ...claims }, now: NOW }, rules))
    t.equal([found].flat()[0], reason, name)
  }
})

t.test('A JWT, however it is spelt, is distinguished from an opaque token', async t => {
  const segment = (text: string | Buffer) => Buffer.from(text).toString('base64url')
  const HEADER = '{"alg":"RS256","typ":"~?>"}'
  const header = segment(HEADER)
  const rows: Record<'jwt' | 'opaque', Record<string, string>> = {
    jwt: {
      'three segments': `${header}.e30.AAAA`,
      'no signature': `${header}.e30.`,
      padding: `${header}.e30.AAAA==`,
      'only a header': header,
      'a dot before it': `.${header}.e30.AAAA`,
      'four segments': `${header}.e30.AAAA.AAAA`,
      'five segments': `${header}.e30.AAAA..`,
      'claims that are no JSON': `${header}.AAAA.AAAA`,
      'a header in the other alphabet': `${Buffer.from(HEADER).toString('base64')}.e30.AAAA`,
      'a header with a tilde in it': `${header.slice(0, 4)}~${header.slice(4)}.e30.AAAA`,
      'a header with spare bits': `${segment('{"alg":1}  ').slice(0, -1)}B.e30.AAAA`,
      'a header with a byte order mark': `${segment('\ufeff{"alg":1}')}.e30.AAAA`,
      'a header with a byte that is no UTF-8': `${segment(Buffer.from('{"alg":1,"x":"\xff"}', 'latin1'))}.e30.AAAA`,
      'three segments whose header has enc': `${segment('{"alg":"dir","enc":"A256GCM"}')}.e30.AAAA`
    },
    opaque: {
      'an encrypted JWT': `${segment('{"alg":"dir","enc":"A256GCM"}')}..AAAA.AAAA.AAAA`,
      'a header without alg': `${segment('{"typ":"JWT"}')}.e30.AAAA`,
      'a header that only inherits alg': `${segment('{"__proto__":{"alg":"RS256"}}')}.e30.AAAA`,
      'a header that is an array': `${segment('["alg"]')}.e30.AAAA`,
      'a header that is null': `${segment('null')}.e30.AAAA`,
      'a header that is text': `${segment('"alg"')}.e30.AAAA`,
      'one word': 'opaque',
      'three words': 'a.b.c',
      'five words': 'a.b.c.d.e',
      dots: '....'
    }
  }
  for (const { title, value, outcome } of rowsOf(rows)) t.equal(isJwt(value), outcome === 'jwt', title)
  t.equal(
    outcome(() => readToken(encodeJws('{}', '[]', () => Buffer.from('x')))),
    'token_malformed'
  )
})

t.test('A verified token is frozen to its depths, and found by its whole text only', async t => {
  const textOf = (start: string) => start + 's'.repeat(40)
  const made = (text: string, claims: object = {}) =>
    createVerifiedToken({
      text,
      claims: { ...CLAIMS, scope: 'a b', more: { list: [{}] }, ...claims } as TokenClaims,
      issuer: { issuer: CLAIMS.iss, dpopMode: 'ALLOWED', scopeClaims: ['scope'] },
      isTrusted: () => true
    })
  const token = made(textOf('one'), { cnf: { jkt: 'j', 'x5t#S256': 'x' } })
  t.hasStrict(token, { scopes: ['a', 'b'], binding: { jkt: 'j', x5tS256: 'x' }, expiresAt: CLAIMS.exp })
  for (
    const part of [
      token,
      token.claims,
      token.binding,
      token.scopes,
      token.claims.more,
      (token.claims.more as any).list,
      (token.claims.more as any).list[0]
    ]
  ) t.ok(Object.isFrozen(part))
  t.hasStrict(made('x').binding, { jkt: undefined, x5tS256: undefined })

  const kept = createVerifiedTokens(2)
  t.equal(kept.get(token.text), undefined)
  kept.keep(token)
  t.equal(kept.get(token.text), token)
  t.equal(kept.get(textOf('two')), undefined, 'the same end under another beginning')
  t.strictSame(kept.state(), { entries: 1, hits: 1, misses: 2 })
  kept.keep(made('b'.repeat(40)))
  kept.keep(made('c'.repeat(40)))
  t.equal(kept.state().entries, 2)
  t.equal(kept.get(token.text), undefined, 'the one that was silent for longest makes room')
  kept.forget(made('c'.repeat(40)))
  t.equal(kept.state().entries, 1)

  const large = createVerifiedTokens()
  for (let i = 0; i < 10; i++) large.keep({ ...token, text: String(i).repeat(4 * 1024 * 1024) })
  t.equal(large.state().entries, 7, 'in 128 MiB, at four bytes for each character')
})

t.test('Scopes are whole words of the configured claims, in the order of the token, each once', async t => {
  const rows: ReadonlyArray<{ claims: object, names?: Parameters<typeof readScopes>[1], expected: readonly string[] }> =
    [
      { claims: { scope: 'b a  b ' }, expected: ['b', 'a'] },
      { claims: { scope: ['b c', 'a', ''] }, expected: ['b c', 'a'] },
      { claims: { scope: ['a', 1] }, expected: [] },
      { claims: { scope: { a: true } }, expected: [] },
      { claims: { scp: 'a' }, expected: [] },
      { claims: { scope: 'a', permissions: ['b', 'a'] }, names: ['permissions', 'scope'], expected: ['b', 'a'] }
    ]
  for (const { claims, names = ['scope'] as const, expected } of rows) {
    t.strictSame(readScopes(claims as TokenClaims, names), expected, JSON.stringify(claims))
  }
})

t.test('A scope implies others, transitively, and a circle is reported', async t => {
  const granters = createScopeGranters({ admin: ['write', 'audit'], write: ['read'], read: [] })
  const table = { write: ['admin'], audit: ['admin'], read: ['write', 'admin'], admin: [], other: [], constructor: [] }
  for (const again of [false, true]) {
    for (const [scope, expected] of Object.entries(table)) {
      t.strictSame(granters(scope), expected, `${scope} ${again}`)
    }
  }
  t.equal(findScopeCircle({ admin: ['write', 'read'], write: ['read'], read: [] }), undefined)
  t.strictSame(findScopeCircle({ a: ['b'], b: ['c', 'd'], d: ['b'] }), ['b', 'd', 'b'])
  t.strictSame(findScopeCircle({ a: ['a'] }), ['a', 'a'])
  t.strictSame(findScopeCircle({ x: ['a'], a: ['b'], b: ['a'] }), ['a', 'b', 'a'], 'from where it begins')
  t.strictSame(
    findScopeCircle({ x: ['y'], a: ['b'], b: ['a'] }),
    ['a', 'b', 'a'],
    'also if the first scope does not lead to it'
  )
  t.equal(findScopeCircle({}), undefined)
})

t.test('Scopes that are reached in very many ways are looked at once', async t => {
  const levels = 60
  const diamonds = Object.fromEntries(
    Array.from(
      { length: levels },
      (_, n) => [[`s${n}`, [`l${n}`, `r${n}`]], [`l${n}`, [`s${n + 1}`]], [`r${n}`, [`s${n + 1}`]]] as const
    ).flat()
  )
  t.equal(findScopeCircle(diamonds), undefined)
  t.equal(createScopeGranters(diamonds)(`s${levels}`).length, levels * 3)
})

t.test('A chain of scopes may be longer than the call stack', async t => {
  const links = 30_000
  const chain = Object.fromEntries(Array.from({ length: links }, (_, n) => [`s${n}`, [`s${n + 1}`]]))
  t.equal(findScopeCircle(chain), undefined)
  t.equal(findScopeCircle({ ...chain, [`s${links}`]: ['s0'] })!.length, links + 2)
  t.equal(createScopeGranters(chain)(`s${links}`).length, links)
})

t.test('A list of issuers finds each by both spellings of its name', async t => {
  const issuer = (name: string, covers?: 'opaque' | 'jwt') =>
    ({ issuer: name, introspection: covers && { covers } }) as TokenIssuer
  const [plain, jwt, opaque] = [issuer('https://a/'), issuer('https://b/', 'jwt'), issuer('https://c/', 'opaque')]
  const table = createIssuerTable([plain, jwt, opaque])
  t.equal(await table.find('https://a'), plain)
  t.equal(await table.find('https://a/'), plain)
  t.equal(await table.find('https://d/'), undefined)
  t.equal(table.ofOpaque, opaque)
  t.equal(createIssuerTable([plain, jwt]).ofOpaque, undefined)
})

t.test('A function of the application is called once for each issuer, and the answer holds for 5 s', async t => {
  let nowMs = 0
  const asked: string[] = []
  const answers = new Map<string, TokenIssuer>()
  const gate: { hold?: Promise<void> } = {}
  const keys = { start () {}, async close () {}, isTrusted: () => true }
  const issuer = (name: string) =>
    ({ issuer: name, keys, rules: { ...POLICY, issuer: name } }) as unknown as TokenIssuer
  const table = createDynamicIssuers({
    maxIssuers: 10,
    nowMs: () => nowMs,
    async ask (iss) {
      asked.push(iss)
      await gate.hold
      return answers.get(iss)
    }
  })
  const find = async (iss: string) => (await table.find(iss))?.issuer
  const a = issuer('https://a/')
  answers.set('https://a/', a)
  t.strictSame(await Promise.all([find('https://a/'), find('https://a/')]), ['https://a/', 'https://a/'])
  const found = await table.find('https://a/')
  nowMs = 4999
  t.equal(await table.find('https://a/'), found)
  t.equal(found!.keys.isTrusted(undefined as never), true)
  t.equal(asked.length, 1)
  nowMs = 5000
  t.equal(found!.keys.isTrusted(undefined as never), false, 'a verified token is trusted for as long')
  t.equal(await table.find('https://a/'), found, 'the same answer is the same issuer')
  t.equal(found!.keys.isTrusted(undefined as never), true)
  t.equal(asked.length, 2)
  answers.set('https://a/', issuer('https://a/'))
  nowMs = 10_000
  t.not(await table.find('https://a/'), found)
  t.equal(table.all().length, 1)

  asked.length = 0
  t.equal(await find('https://b/'), undefined)
  nowMs = 14_999
  t.equal(await find('https://b/'), undefined)
  t.equal(asked.length, 1)
  nowMs = 15_000
  t.equal(await find('https://b/'), undefined)
  t.equal(asked.length, 2)
  answers.set('https://c', issuer('https://other/'))
  t.equal(await find('https://c'), undefined, 'an answer about another issuer')
  answers.set('https://c', issuer('https://c/'))
  nowMs = 20_000
  t.equal(await find('https://c'), 'https://c/', 'a last slash aside')

  asked.length = 0
  t.equal(await table.find('x'.repeat(2049)), undefined)
  t.equal(asked.length, 0, 'a longer name causes no call')
  t.equal(await find('x'.repeat(2048)), undefined)
  t.equal(asked.length, 1)

  let release = () => {}
  gate.hold = new Promise(resolve => {
    release = resolve
  })
  const waiting = Array.from({ length: 64 }, (_, index) => find(`https://${index}/`))
  t.equal(asked.length, 65)
  await t.rejects(find('https://64/'), { name: 'Refusal', reason: 'issuers_unavailable', retryAfterSeconds: 1 })
  release()
  t.strictSame(await Promise.all(waiting), Array(64).fill(undefined))
  t.equal(await find('https://64/'), undefined)
})

t.test('An issuer that is no longer listed is closed, and what it has signed is trusted no more', async t => {
  const closed: string[] = []
  const started: string[] = []
  const issuer = (name: string) =>
    ({
      issuer: name,
      keys: {
        start: () => {
          started.push(name)
        },
        close: async () => {
          closed.push(name)
        },
        isTrusted: (key: unknown) => key === 'good'
      },
      rules: { ...POLICY, issuer: name },
      introspection: {
        endpoint: { close: async () => {} },
        inquiry: {
          close: () => {
            closed.push(`inquiry of ${name}`)
          }
        }
      }
    }) as unknown as TokenIssuer
  const table = createDynamicIssuers({ maxIssuers: 3, nowMs: () => 0, ask: async iss => issuer(iss) })
  t.strictSame([table.isComplete, table.ofOpaque, table.all(), table.start()], [false, undefined, [], undefined])
  const first = (await table.find('https://0/'))!
  t.strictSame([first.keys.isTrusted('good' as never), first.keys.isTrusted('bad' as never)], [true, false])
  t.strictSame(started, [], 'its keys wait for the first token that nothing else refuses')
  for (let n = 1; n < 1000; n++) await table.find(`https://${n}/`)
  t.equal(first.keys.isTrusted('good' as never), true, 'there is room for a thousand of which no token was verified')
  t.strictSame(closed, [])
  t.strictSame(
    table.all().map(({ issuer }) => issuer),
    Array.from({ length: 50 }, (_, n) => `https://${n}/`),
    'as many as are shown, and no later one in their place'
  )
  table.recordUse!('https://1/')
  await table.find('https://1000/')
  t.strictSame(closed, [], 'one that is proven gives up its place among them')
  await table.find('https://1001/')
  t.equal(first.keys.isTrusted('good' as never), false, 'the first that came makes room')
  t.strictSame(closed, ['inquiry of https://0/', 'https://0/'])
  await table.close()
  t.equal(closed.length, 2 * 1002)
})

t.test('Only verified tokens make an issuer recent, and no number of other tokens evicts it', async t => {
  const closed: string[] = []
  const clock = { nowMs: 0 }
  const gate: { hold?: Promise<void> } = {}
  const sources = new Map<string, TokenIssuer>()
  const issuer = (name: string) =>
    ({
      issuer: name,
      keys: {
        start () {},
        close: async () => {
          closed.push(name)
        },
        isTrusted: () => true
      },
      rules: { ...POLICY, issuer: name }
    }) as unknown as TokenIssuer
  const table = createDynamicIssuers({
    maxIssuers: 2,
    nowMs: () => clock.nowMs,
    async ask (iss) {
      await gate.hold
      if (!sources.has(iss)) sources.set(iss, issuer(iss))
      return sources.get(iss)
    }
  })
  const use = async (name: string) => {
    await table.find(name)
    table.recordUse!(name)
  }
  const [a, b, c] = ['https://a/', 'https://b/', 'https://c/']
  /** Which of the three had to go, in order. */
  const gone = () => closed.filter(name => [a, b, c].includes(name))
  await use(a)
  await use(b)
  for (let n = 0; n < 1100; n++) await table.find(`https://${n}/`)
  t.equal(closed.length, 100, 'of those whose tokens may be forged')
  t.strictSame(gone(), [])
  for (let n = 0; n < 10; n++) await table.find(a)
  await use(c)
  t.strictSame(gone(), [a], 'the one without a verified token for longest makes room, however often it was named')
  await use(b)
  sources.delete(a)
  await use(a)
  t.strictSame(gone(), [a, c])
  table.recordUse!('https://unlisted/')
  t.strictSame(gone(), [a, c], 'a name that is not at hand is nothing')

  sources.set(b, issuer(b))
  clock.nowMs = 5000
  await table.find(b)
  t.strictSame(gone(), [a, c, b], 'other settings make another issuer')
  sources.delete(c)
  await use(c)
  t.strictSame(gone(), [a, c, b, a], 'which has its place')

  let release = () => {}
  gate.hold = new Promise(resolve => {
    release = resolve
  })
  clock.nowMs = 10_000
  const waiting = table.find(b) as Promise<unknown>
  gate.hold = undefined
  sources.delete(a)
  await use(c)
  await use(a)
  t.strictSame(gone(), [a, c, b, a, b])
  release()
  await t.rejects(
    waiting,
    { name: 'Refusal', reason: 'issuers_unavailable' },
    'one that was evicted during the call is not used'
  )
})

t.test('An unlisted name is forgotten for another one only when there are a thousand', async t => {
  const asked: string[] = []
  const table = createDynamicIssuers({
    maxIssuers: 3,
    nowMs: () => 0,
    ask: async iss => {
      asked.push(iss)
      return undefined
    }
  })
  for (let n = 0; n < 1000; n++) await table.find(`https://${n}/`)
  t.equal(await table.find('https://0/'), undefined)
  t.equal(asked.length, 1000)
  for (let n = 1000; n < 2000; n++) await table.find(`https://${n}/`)
  await table.find('https://0/')
  t.equal(asked.length, 2001)
})

/** An issuer that introspects tokens, and the requests to it. */
function createIssuerThatAnswers (
  answer: (text: string) => unknown,
  options: Partial<InquiryOptions> = {},
  expiresAt = Infinity
) {
  const asked: unknown[] = []
  const clock = { nowMs: 0, now: NOW }
  const introspector = {
    ask: async (text: string, isStranger: boolean) => {
      asked.push([text, isStranger])
      return { claims: answer(text), expiresAt }
    },
    state: () => ({ active: 1 }),
    close: () => {
      asked.push('closed')
    }
  } as unknown as Introspector
  const inquiry = createInquiry({
    introspector,
    audienceOptional: false,
    cacheSeconds: 10,
    nowMs: () => clock.nowMs,
    now: () => clock.now,
    ...options
  })
  type Answered = { reason?: unknown, inquired?: Inquired }
  const outcomeOf = (answer: Promise<Inquired>) =>
    answer.then(inquired => ({ inquired }), (error: Refusal) => ({ reason: error.reason }))
  const claimsOf = (text: string, { isStranger = true, more = {} } = {}): Promise<Answered> =>
    outcomeOf(inquiry.claimsOf(text, isStranger, { ...POLICY, ...more }, NOW))
  const confirm = (text: string, claims: object = {}): Promise<Answered> =>
    outcomeOf(inquiry.confirm(text, POLICY, { ...CLAIMS, ...claims } as TokenClaims))
  return { inquiry, asked, clock, claimsOf, confirm }
}

t.test('The audience of an opaque token may be in another claim of the answer', async t => {
  const rows: ReadonlyArray<{ answer: object, audienceOptional?: boolean, reason?: string }> = [
    { answer: { client_id: 'api' } },
    { answer: { client_id: 'other' }, reason: 'token_audience' },
    { answer: { client_id: 'api', aud: 'other' }, reason: 'token_audience' },
    { answer: { sub: 'a' }, reason: 'token_claim_invalid' },
    { answer: { sub: 'a', token_type: 'Bearer' }, audienceOptional: true }
  ]
  for (const { answer, audienceOptional = false, reason } of rows) {
    const { claimsOf } = createIssuerThatAnswers(() => answer, { audienceOptional })
    t.equal((await claimsOf('t', { more: { audienceClaim: 'client_id' } })).reason, reason, JSON.stringify(answer))
  }
})

t.test('An answer whose token_type is missing or another is refused with that name, and what was found if it is plain', async t => {
  const rows = [[undefined, 'nothing'], ['N_A', 'n_a'], ['a b', 'no plain word'], [5, 'no plain word']] as const
  for (const [type, found] of rows) {
    const { inquiry } = createIssuerThatAnswers(() => ({ sub: 'a', token_type: type }), { audienceOptional: true })
    const error = await inquiry.claimsOf('t', true, POLICY, NOW).catch((error: Refusal) => error)
    t.hasStrict(error, {
      reason: 'token_kind',
      detail: { claim: 'token_type', expected: 'Bearer or DPoP', found }
    })
  }
})

t.test('A token whose claims name another kind of token is refused, and an access token is not', async t => {
  for (const name of ['token_use', 'typ', 'token_type']) {
    for (
      const value of [
        'refresh',
        'Refresh',
        'refresh_token',
        'Offline',
        'offline_access',
        'ID',
        'id_token',
        'idToken',
        'application/id+jwt',
        'urn:ietf:params:oauth:token-type:refresh_token',
        ['access', 'refresh']
      ]
    ) {
      t.equal(checkToken({}, { [name]: value }, {}), 'token_kind', `${name} ${JSON.stringify(value)}`)
    }
    for (
      const value of ['access', 'Bearer', 'access_token', 'at+jwt', 'identifier', 'paid', '', null, 7, ['access'], {
        id: 'id'
      }]
    ) t.not(checkToken({}, { [name]: value }, {}), 'token_kind', `${name} ${JSON.stringify(value)}`)
  }
  for (const events of [{}, { 'http://schemas.openid.net/event/backchannel-logout': {} }, [], null, false]) {
    t.equal(checkToken({}, { events }, {}), 'token_kind', JSON.stringify(events))
  }
})

t.test('An answer is used for as long as is set, and a refusal for 5 s', async t => {
  const { claimsOf, confirm, asked, clock, inquiry } = createIssuerThatAnswers(text =>
    text === 'bad' ? undefined : { sub: 'a', aud: 'api' }
  )
  const { inquired } = await claimsOf('good')
  t.equal(inquired!.isCurrent(), true)
  clock.nowMs = 9999
  t.equal(inquired!.isCurrent(), true)
  clock.nowMs = 10_000
  t.equal(inquired!.isCurrent(), false)
  t.strictSame(inquiry.state(), { active: 1, cache: { entries: 0, hits: 0, misses: 1 } })

  t.equal((await claimsOf('bad')).reason, 'token_inactive')
  clock.nowMs = 14_999
  t.equal((await claimsOf('bad')).reason, 'token_inactive')
  t.equal((await confirm('bad')).reason, 'token_inactive', 'for both kinds')
  t.equal(asked.length, 2)
  t.strictSame(inquiry.state(), { active: 1, cache: { entries: 1, hits: 2, misses: 2 } })
  t.equal((await claimsOf('bad', { more: { audiences: ['other'] } })).reason, 'token_inactive')
  t.equal(asked.length, 3, 'what one audience refuses, another may accept')
  clock.nowMs = 15_000
  await claimsOf('bad', { isStranger: false })
  t.strictSame(asked.at(-1), ['bad', false])
  t.equal(asked.length, 4)
  inquiry.close()
  t.equal(asked.at(-1), 'closed')
  const unusable = createIssuerThatAnswers(() => ({ exp: 'soon' }))
  t.equal((await unusable.confirm('t')).inquired!.isCurrent(), false, 'an end that cannot be read is over')

  const failing = createIssuerThatAnswers(() => {
    throw new Refusal('keys_unavailable')
  })
  for (const turn of [1, 2]) {
    t.equal((await failing.claimsOf('t')).reason, 'keys_unavailable')
    t.equal(failing.asked.length, turn, 'a failed call is not cached')
  }
})
