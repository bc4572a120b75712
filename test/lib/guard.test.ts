import Fastify from 'fastify'
import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { isGuest } from '../../lib/guard/admission.ts'
import { createChallenges } from '../../lib/guard/challenge.ts'
import { parseCredentials, splitCredentials, type AuthScheme, type DpopMode } from '../../lib/guard/credentials.ts'
import { readProofLine, verifyCertificate, verifySchemeFits } from '../../lib/guard/guard.ts'
import { createJudge, isScopeGranted } from '../../lib/guard/requirement/judge.ts'
import { urlUnder } from '../../lib/guard/url/http-url.ts'
import {
  ANY_TOKEN,
  parseRequiredScopes,
  parseRequirement,
  type AuthorizationDetail,
  type Requirement
} from '../../lib/guard/requirement/requirement.ts'
import {
  describeResource,
  insertedPath,
  metadataUrlOf,
  resourceWarning
} from '../../lib/assembly/resource-metadata.ts'
import {
  hooksAround,
  isOptional,
  phrasesOf,
  requirementJson,
  requirementsOf,
  scopeAlternatives,
  type RouteHooks
} from '../../lib/guard/requirement/route-guard.ts'
import { createRateLimit } from '../../lib/guard/rate-limit.ts'
import { Message } from '../../lib/guard/message.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import { parsePublicUrl } from '../../lib/guard/url/base-url.ts'

/** What an act gives, or the reason of its refusal with its detail. */
function outcomeOf (act: () => unknown): unknown {
  try {
    return act()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.detail ? [error.reason, error.detail] : error.reason
  }
}

const messageOf = (...rawHeaders: string[]): Message =>
  new Message({ method: 'GET', url: '/', headers: {}, rawHeaders, socket: {} })

t.test('Credentials are one line: a scheme, spaces, and a token68.', t => {
  const rows: ReadonlyArray<readonly [line: string, expected: unknown]> = [
    ['Bearer a', { scheme: 'Bearer', token: 'a' }],
    ['bearer   a', { scheme: 'Bearer', token: 'a' }],
    ['DPOP aZ09-._~+/', { scheme: 'DPoP', token: 'aZ09-._~+/' }],
    ['Bearer a=', { scheme: 'Bearer', token: 'a=' }],
    ['Bearer a==', { scheme: 'Bearer', token: 'a==' }],
    ['Bearer', 'credentials_missing'],
    ['Bearer ', 'credentials_missing'],
    ['', 'credentials_missing'],
    ['Basic a', 'scheme_not_offered'],
    ['Bearera', 'scheme_not_offered'],
    ['Bearer\ta', 'scheme_not_offered'],
    ['Bearer =', 'authorization_malformed'],
    ['Bearer =a', 'authorization_malformed'],
    ['Bearer a=b', 'authorization_malformed'],
    ['Bearer a=b=', 'authorization_malformed'],
    ['Bearer a b', 'authorization_malformed'],
    ['Bearer a ', 'authorization_malformed'],
    ['Bearer a,', 'authorization_malformed'],
    ['Bearer \u00e9', 'authorization_malformed'],
    ['Bearer a=\n', 'authorization_malformed']
  ]
  for (const [line, expected] of rows) {
    t.strictSame(
      outcomeOf(() => parseCredentials(messageOf('Authorization', line), 'ALLOWED')),
      expected,
      JSON.stringify(line)
    )
  }
  t.equal(
    outcomeOf(() => splitCredentials(messageOf('Authorization', 'Bearer a', 'authorization', 'Bearer a'))),
    'authorization_repeated'
  )
  t.equal(outcomeOf(() => splitCredentials(messageOf())), 'credentials_missing')
  const offered: ReadonlyArray<readonly [mode: DpopMode, bearer: boolean, dpop: boolean]> = [
    ['DISABLED', true, false],
    ['ALLOWED', true, true],
    ['REQUIRED', false, true]
  ]
  for (const [mode, bearer, dpop] of offered) {
    t.strictSame(
      ['Bearer a', 'DPoP a'].map(line =>
        outcomeOf(() => parseCredentials(messageOf('Authorization', line), mode)) !== 'scheme_not_offered'
      ),
      [bearer, dpop],
      mode
    )
  }
  t.end()
})

t.test('The scheme must match the binding of the token.', t => {
  const rows: ReadonlyArray<{ scheme: AuthScheme, jkt?: string, proofs?: number, mode?: DpopMode, expected: unknown }> =
    [
      { scheme: 'DPoP', jkt: 'k', proofs: 1, expected: undefined },
      { scheme: 'DPoP', proofs: 1, expected: 'token_unbound' },
      { scheme: 'Bearer', expected: undefined },
      { scheme: 'Bearer', jkt: 'k', expected: 'token_bound' },
      { scheme: 'Bearer', jkt: 'k', proofs: 1, expected: 'token_bound' },
      { scheme: 'Bearer', proofs: 1, expected: 'proof_beside_bearer' },
      { scheme: 'Bearer', jkt: 'k', proofs: 1, mode: 'DISABLED', expected: undefined },
      { scheme: 'Bearer', proofs: 1, mode: 'REQUIRED', expected: 'proof_beside_bearer' }
    ]
  for (const { scheme, jkt, proofs = 0, mode = 'ALLOWED', expected } of rows) {
    const message = messageOf(...Array.from({ length: proofs }, () => ['DPoP', 'p']).flat())
    t.equal(
      outcomeOf(() => verifySchemeFits(scheme, { jkt, x5tS256: undefined }, message, mode)),
      expected,
      `${scheme} ${jkt} ${proofs} ${mode}`
    )
  }
  const proofs: ReadonlyArray<readonly [lines: string[], expected: unknown]> = [
    [['DPoP', 'p'], 'p'],
    [[], 'proof_missing'],
    [['DPoP', ''], 'proof_missing'],
    [['DPoP', 'p', 'dpop', 'p'], 'proof_repeated'],
    [['DPoP', 'p,q'], 'proof_repeated']
  ]
  for (const [lines, expected] of proofs) {
    t.equal(outcomeOf(() => readProofLine(messageOf(...lines))), expected, lines.join(' '))
  }

  let read = 0
  const certify = (x5tS256: string | undefined): unknown =>
    outcomeOf(() =>
      verifyCertificate({ jkt: undefined, x5tS256 }, messageOf(), () => {
        read++
        return 'A'
      })
    )
  t.strictSame([certify(undefined), read], [undefined, 0], 'nothing is read for another token')
  t.strictSame([certify('A'), certify('B'), read], [undefined, 'certificate_mismatch', 2])
  t.end()
})

t.test('Only a request without any credentials comes from a guest.', t => {
  const missing = new Refusal('credentials_missing')
  t.equal(isGuest(missing, messageOf('Host', 'a')), true)
  for (const lines of [['Authorization', ''], ['DPoP', '']]) {
    t.equal(isGuest(missing, messageOf(...lines)), false, lines.join())
  }
  for (
    const error of [
      new Refusal('token_expired'),
      new Error('credentials_missing'),
      Object.assign(new Error('x'), { reason: 'credentials_missing' }),
      null
    ]
  ) t.equal(isGuest(error, messageOf()), false)
  t.end()
})

t.test('A login is recent enough to the very second, and a scope is granted by itself or by one that implies it.', t => {
  let now = 1000.9
  const judge = createJudge({
    granters: scope => scope === 'read' ? ['admin', 'root'] : [],
    clockToleranceSeconds: 5,
    now: () => now
  })
  const claims = { iss: 'i', sub: 's', aud: 'a', exp: 1 }
  const judged = (requirement: Requirement, more: object = {}, scopes: readonly string[] = []): unknown =>
    outcomeOf(() => judge({ scopes, claims: { ...claims, ...more } }, requirement))
  const recent: ReadonlyArray<readonly [authTime: unknown, expected: unknown]> = [
    [940, undefined],
    [939.9, 'authentication_too_old'],
    [1000, undefined],
    [1005.9, undefined],
    [1006, 'authentication_too_old'],
    [-1, 'authentication_too_old'],
    ['1000', 'authentication_too_old'],
    [undefined, 'authentication_too_old'],
    [NaN, 'authentication_too_old']
  ]
  for (const [authTime, expected] of recent) {
    t.equal(judged({ maxAgeSeconds: 60 }, { auth_time: authTime }), expected, String(authTime))
  }
  t.equal(judged({ maxAgeSeconds: 0 }, { auth_time: 1000 }), undefined, 'an age of 0 is met within the second')
  now = 30
  t.equal(judged({ maxAgeSeconds: 60 }, { auth_time: 0 }), undefined)
  t.equal(judged({ maxAgeSeconds: 60 }, { auth_time: -0.5 }), 'authentication_too_old')

  const read = { scope: ['read'] }
  const lacking = (missing: string): unknown => ['scope_missing', { missing }]
  for (const scopes of [['read'], ['x', 'admin'], ['root']]) t.equal(judged(read, {}, scopes), undefined, scopes.join())
  for (const scopes of [[], ['x'], ['rea'], ['reader']]) {
    t.strictSame(judged(read, {}, scopes), lacking('read'), scopes.join())
  }
  t.equal(isScopeGranted('other', ['admin'], () => []), false)
  t.strictSame(judged({ scope: ['read', 'x', 'y'] }, {}, ['admin']), lacking('x y'), 'all of them')
  t.equal(judged({ anyScope: ['x', 'read'] }, {}, ['admin']), undefined, 'any of them')
  t.strictSame(judged({ scope: ['x'], anyScope: ['y', 'z'] }, {}, ['x']), lacking('y z'))
  t.strictSame(judged({ scope: ['x'], anyScope: ['y', 'z'] }, {}, ['y']), lacking('x'))

  t.strictSame(judged({ claims: [{ name: 'a', allowed: [1] }, { name: 'b', allowed: [2, 3] }] }, { a: 1, b: [4] }), [
    'claim_mismatch',
    { claim: 'b' }
  ])
  t.equal(
    judged({ claims: [{ name: 'a', allowed: [1] }, { name: 'b', allowed: [2, 3] }] }, { a: 1, b: [4, 3] }),
    undefined
  )
  t.strictSame(judged({ authorizationDetails: [{ type: 'x' }] }, { authorization_details: [{ type: 'y' }] }), [
    'authorization_details_missing',
    { type: 'x' }
  ])
  t.strictSame(
    judged({ authorizationDetails: [{ type: 'x' }] }, { authorization_details: [Object.create({ type: 'x' })] }),
    ['authorization_details_missing', { type: 'x' }],
    'an inherited type is none'
  )
  t.equal(judged(ANY_TOKEN), undefined)
  t.equal(judged({ acr: ['1'] }, { acr: '1' }), undefined, 'without a predicate there is no promise')
  t.ok(judged({ claims: [{ name: 'a', isAllowed: () => true }] }, { a: 1 }) instanceof Promise)
  t.ok(
    judged({ authorizationDetails: [{ type: 'x' }, { type: 'y', check: () => true }] }, {
      authorization_details: [{ type: 'x' }, { type: 'y' }]
    }) instanceof Promise,
    'one of several is enough'
  )
  t.end()
})

t.test('Predicates run in their order, and the first that fails is the reason.', async t => {
  const judge = createJudge({ granters: () => [], clockToleranceSeconds: 5, now: () => 1000 })
  const asked: unknown[] = []
  const rule = (name: string, isAllowed: boolean) => ({
    name,
    isAllowed: (value: unknown) => {
      asked.push([name, value])
      return isAllowed
    }
  })
  const detail = (type: string, least: number) => ({
    type,
    check: ({ amount }: AuthorizationDetail) => {
      asked.push([type, amount])
      return Number(amount) >= least
    }
  })
  const grant = {
    scopes: [],
    claims: {
      iss: 'i',
      sub: 's',
      aud: 'a',
      exp: 1,
      a: 1,
      b: 2,
      authorization_details: [{ type: 'x', amount: 1 }, { type: 'x', amount: 2 }, { type: 'x', amount: 3 }, {
        type: 'y'
      }]
    }
  }
  const reasonOf = (requirement: Requirement): Promise<unknown> =>
    Promise.resolve(judge(grant, requirement)).then(() => 'passed', (error: Refusal) => [error.reason, error.detail])
  t.equal(
    await reasonOf({
      claims: [rule('a', true), { name: 'b', allowed: [2] }],
      authorizationDetails: [detail('x', 2), { type: 'y' }]
    }),
    'passed'
  )
  t.strictSame(asked.splice(0), [['a', 1], ['x', 1], ['x', 2]], 'until one passes')
  t.strictSame(
    await reasonOf({ claims: [rule('a', true), rule('b', false)], authorizationDetails: [detail('x', 2)] }),
    ['claim_mismatch', { claim: 'b' }]
  )
  t.strictSame(asked.splice(0), [['a', 1], ['b', 2]])
  t.strictSame(await reasonOf({ authorizationDetails: [detail('x', 9)] }), ['authorization_details_missing', {
    type: 'x'
  }])
})

t.test('What a route requires is given in words and as JSON.', t => {
  const requirement: Requirement = {
    scope: ['a'],
    anyScope: ['b', 'c'],
    acr: ['gold', 'silver'],
    maxAgeSeconds: 0,
    claims: [{ name: 'team', allowed: ['x', 2, true] }, { name: 'na`me', isAllowed: () => true }],
    authorizationDetails: [{ type: 'payment' }, { type: 'account', check: () => true }]
  }
  t.strictSame(phrasesOf(requirement), [
    'a login with the acr `gold` or `silver`',
    'a login at most 0 seconds ago',
    'the claim `team` with `x` or `2` or `true`',
    "the claim `na'me` with a value that the route accepts",
    'an authorization detail of the type `payment`',
    'an authorization detail of the type `account` that the route accepts'
  ])
  t.strictSame(phrasesOf(ANY_TOKEN), [])
  t.strictSame(JSON.parse(JSON.stringify(requirementJson(requirement))), {
    scope: ['a'],
    anyScope: ['b', 'c'],
    acr: ['gold', 'silver'],
    maxAgeSeconds: 0,
    claims: { team: ['x', 2, true], 'na`me': 'predicate' },
    authorizationDetails: [{ type: 'payment' }, { type: 'account', check: 'predicate' }]
  })
  t.strictSame(requirementJson(ANY_TOKEN), {})
  t.strictSame(scopeAlternatives([]), [[]])
  t.strictSame(
    scopeAlternatives([{ scope: ['a', 'b'] }, { scope: ['b', 'c'], anyScope: ['d', 'a'] }]),
    [['a', 'b', 'c', 'd'], ['a', 'b', 'c']]
  )
  t.strictSame(scopeAlternatives([{ anyScope: ['a', 'b'] }, { anyScope: ['c', 'd'] }]), [
    ['a', 'c'],
    ['a', 'd'],
    ['b', 'c'],
    ['b', 'd']
  ])
  t.strictSame(
    [[{ optional: true }], [{ optional: true }, ANY_TOKEN], [ANY_TOKEN]].map(requirements =>
      Boolean(isOptional(requirements as never))
    ),
    [true, false, false]
  )
  t.end()
})

t.test('The guards of a route are found in all of its hooks, in the order in which they run.', async t => {
  const guard = (name: string) => Object.assign(() => {}, { requirement: { scope: [name] } })
  const namesOf = (...hooks: readonly RouteHooks[]): unknown =>
    requirementsOf(...hooks).map(({ scope }) => scope!.join())
  t.strictSame(
    namesOf({ onRequest: guard('outer'), preHandler: [guard('late')] }, {
      onRequest: [() => {}, guard('own')],
      preParsing: guard('parse'),
      preValidation: guard('valid')
    }),
    ['outer', 'own', 'parse', 'valid', 'late']
  )
  t.strictSame(namesOf({}, { onRequest: undefined }), [])
  t.strictSame(
    namesOf({ onRequest: Object.assign(() => {}, { requirement: 'a' }), preHandler: { requirement: {} } }),
    [],
    'what is no guard'
  )
  t.strictSame(requirementsOf({ onRequest: guard('a') }), [{ scope: ['a'] }])
  t.strictSame(requirementsOf({ onRequest: () => {} }), [])

  const app = Fastify()
  const hook = guard('around')
  app.addHook('onRequest', hook as never)
  await app.register(async inner => {
    t.strictSame(namesOf(hooksAround(inner)), ['around'], 'of the scope around as well')
  })
  t.strictSame(namesOf(hooksAround(app)), ['around'])
  t.strictSame(hooksAround({}), {}, 'without such a property')
  t.strictSame(hooksAround(Object.create(null)), {})
})

t.test('A requirement is frozen, and has only the members that were set.', t => {
  t.equal(parseRequirement({}), ANY_TOKEN)
  t.equal(parseRequirement({ optional: false }), ANY_TOKEN)
  t.strictSame(parseRequirement({ optional: true }), { optional: true })
  const details = parseRequirement({
    authorizationDetails: [{ type: 'a' }],
    claims: { x: [1] },
    acr: 'b',
    maxAgeSeconds: 0
  })
  t.strictSame(details, {
    authorizationDetails: [{ type: 'a' }],
    claims: [{ name: 'x', allowed: [1] }],
    acr: ['b'],
    maxAgeSeconds: 0
  })
  for (
    const part of [
      details,
      details.authorizationDetails,
      details.authorizationDetails![0],
      details.claims,
      details.claims![0]!.allowed,
      details.acr
    ]
  ) t.ok(Object.isFrozen(part))
  t.strictSame(parseRequiredScopes({ any: ['a', 'b'] }), { anyScope: ['a', 'b'] })
  t.strictSame(parseRequiredScopes('a', 'b'), { scope: ['a', 'b'] })
  for (const char of ['!', '#', '[', ']', '~', '/']) t.strictSame(parseRequiredScopes(char), { scope: [char] }, char)
  for (const char of ['"', '\\', ' ', '\u007f', '\u0080', 'a\n', '\na']) {
    t.throws(() => parseRequiredScopes(char), TypeError, JSON.stringify(char))
  }
  t.strictSame(
    parseRequirement(Object.assign(Object.create(null), { scope: 'a' })),
    { scope: ['a'] },
    'an object without a prototype'
  )
  t.throws(() => parseRequirement(Object.create({})), {
    message: "require takes one plain object, such as { scope: 'read:messages' }"
  })
  t.end()
})

t.test('A limit holds to its last request and to the last millisecond of its minute.', t => {
  let nowMs = 0
  const limit = createRateLimit({ max: 2, nowMs: () => nowMs })
  t.strictSame([limit.take('a'), limit.take('a'), limit.take('a')], [undefined, undefined, 60])
  limit.giveBack('a')
  t.equal(limit.take('a'), undefined)
  nowMs = 59_999
  t.equal(limit.take('a'), 0.001)
  nowMs = 60_000
  t.equal(limit.take('a'), undefined, 'the next minute begins with the first request after the last one')
  nowMs = 119_999
  t.equal(limit.take('a'), undefined)
  t.equal(limit.take('a'), 0.001)
  for (let i = 0; i < 60_000; i++) limit.take(`other-${i}`)
  t.equal(limit.take('a'), undefined, 'without a number of its own it forgets the oldest of 50 000 clients')
  t.end()
})

t.test('A challenge names all scopes of a route at once, and challenges are cached by the guard of the route.', t => {
  const challenges = createChallenges({ mode: 'DISABLED', algs: ['ES256'], resourceMetadataUrl: undefined })
  const requirement = { scope: ['a'] }
  const guard = [{ anyScope: ['b', 'a'] }, requirement]
  const text = (context: object): string =>
    challenges('credentials_missing', { scheme: undefined, requirement, ...context })['www-authenticate']!
  for (const turn of ['first', 'kept']) {
    t.equal(text({}), 'Bearer scope="a"', turn)
    t.equal(text({ guard }), 'Bearer scope="b a"', turn)
    t.equal(text({ guard: [] }), 'Bearer scope="a"', turn)
  }
  t.equal(
    challenges('credentials_missing', { scheme: undefined, requirement: ANY_TOKEN })['www-authenticate'],
    'Bearer'
  )
  t.equal(
    challenges('scope_missing', { scheme: 'Bearer', requirement: ANY_TOKEN })['www-authenticate'],
    'Bearer error="insufficient_scope", error_description="The access token lacks a permission that this ' +
      'resource needs."'
  )
  t.strictSame(challenges('rate_limited', { scheme: 'Bearer', requirement, retryAfterSeconds: 0.5 }), {
    'retry-after': '1'
  })
  const nonce = createChallenges({ mode: 'ALLOWED', algs: ['ES256', 'PS256'], resourceMetadataUrl: 'https://a/x' })(
    'nonce_stale',
    { scheme: 'DPoP', requirement, nonce: 'n' }
  )
  t.match(nonce, {
    'dpop-nonce': exactly('n'),
    'www-authenticate': /^DPoP error="use_dpop_nonce", error_description="[^"]+", algs="ES256 PS256"$/
  })
  t.end()
})

t.test('The metadata and its address follow from the settings.', t => {
  const base = parsePublicUrl('https://api.example/svc')!
  const settings = (
    idp: { audience?: string, issuers?: object[], dpopMode?: string } = {},
    server: object = {},
    gate?: object
  ): Settings => ({
    idp: {
      issuers: [{ issuer: 'https://i.example/', audiences: [idp.audience ?? 'api'] }],
      dpopMode: 'ALLOWED',
      ...idp,
      audience: [idp.audience ?? 'api']
    },
    dpop: { algs: ['ES256'] },
    server: { clientCertificate: 'off', securityProfile: 'none', ...server },
    gate
  } as unknown as Settings)
  const describe = (...more: Parameters<typeof settings>) => describeResource(base, ['a'], settings(...more))
  t.strictSame(describe(), {
    resource: 'https://api.example/svc',
    authorization_servers: ['https://i.example/'],
    scopes_supported: ['a'],
    bearer_methods_supported: ['header'],
    resource_name: 'api.example',
    resource_documentation: 'https://api.example/svc/docs',
    dpop_bound_access_tokens_required: false,
    dpop_signing_alg_values_supported: ['ES256']
  })
  t.equal(describe({}, { resourceName: 'Orders API' }).resource_name, 'Orders API')
  t.equal(describe({}, {}, { ownPrefix: '/-' }).resource_documentation, 'https://api.example/svc/-/docs')
  t.notOk('authorization_servers' in describe({ issuers: [] }))
  t.notOk('dpop_signing_alg_values_supported' in describe({ dpopMode: 'DISABLED' }))
  const bound: ReadonlyArray<
    readonly [more: Parameters<typeof settings>, required: boolean, certificates: true | undefined]
  > = [
    [[{ dpopMode: 'REQUIRED' }], true, undefined],
    [[{}, { securityProfile: 'fapi2' }], true, undefined],
    [[{}, { securityProfile: 'fapi2', clientCertificate: 'socket' }], false, true],
    [[{}, { clientCertificate: 'socket' }], false, true],
    [[{ dpopMode: 'REQUIRED' }, { securityProfile: 'fapi2', clientCertificate: 'socket' }], true, true]
  ]
  for (const [more, required, certificates] of bound) {
    const {
      dpop_bound_access_tokens_required: isRequired,
      tls_client_certificate_bound_access_tokens: hasCertificates
    } = describe(...more)
    t.strictSame([isRequired, hasCertificates], [required, certificates], JSON.stringify(more))
  }
  t.equal(describe({}, { resource: 'https://r.example' }).resource, 'https://r.example')
  for (const audience of ['https://a.example', 'https://a.example/x?y']) {
    t.equal(describe({ audience }).resource, audience)
  }
  for (const audience of ['https://', 'xhttps://a.example', 'https://a.example/#', 'https://[', 'http://a.example']) {
    t.equal(describe({ audience }).resource, base.href, audience)
  }

  t.match(resourceWarning(settings()), /names the address that the client used as the resource\. .* Set RESOURCE$/)
  t.match(
    resourceWarning(settings({}, { publicUrl: 'https://a.example' })),
    /names PUBLIC_URL as the resource\. .* Set RESOURCE$/
  )
  for (
    const made of [
      settings({}, { resource: 'https://r.example' }),
      settings({ audience: 'https://a.example' }),
      settings({ audience: 'http://a.example' }, { publicUrl: 'http://a.example/' })
    ]
  ) t.equal(resourceWarning(made), undefined)

  t.strictSame(['https://a', 'https://a/', 'https://a/b/'].map(insertedPath), ['', '', '/b/'])
  t.strictSame(urlUnder(base, '/m'), {
    scheme: 'https',
    host: 'api.example',
    path: '/svc/m',
    href: 'https://api.example/svc/m'
  })
  const well = '/.well-known/oauth-protected-resource'
  t.equal(metadataUrlOf(settings(), ''), undefined)
  t.equal(metadataUrlOf(settings({}, { resource: 'https://r.example/x' }), '/m'), `https://r.example${well}/x`)
  t.equal(
    metadataUrlOf(settings({}, { resource: 'https://r.example/x', publicUrl: 'https://p.example/y' }), '/m'),
    `https://p.example${well}/y/m`
  )
  t.end()
})
