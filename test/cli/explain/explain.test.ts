import { createPublicKey, randomBytes, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readSettings } from '../../../holdfast.ts'
import { ADVICE } from '../../../cli/explain/advice.ts'
import { createNonces } from '../../../lib/guard/dpop/nonces.ts'
import { capturedRequest } from '../../../cli/explain/captured-request.ts'
import { showFindings } from '../../../cli/explain-report.ts'
import { explainRefusal, explainRequest, type Explanation, type ExplainOptions } from '../../../cli/explain/explain.ts'
import type { Step } from '../../../cli/explain/step.ts'
import { STEPS } from '../../../cli/explain/steps.ts'
import { keyOf } from '../../../lib/revocation/target.ts'
import { parseRequirement } from '../../../lib/guard/requirement/requirement.ts'
import { Refusal, type RefusalReason } from '../../../lib/refusal.ts'
import type { TokenClaims } from '../../../lib/guard/token/jwt-checks.ts'
import { createOffStore } from '../../../lib/guard/replay/create-store.ts'
import { createMemoryStore } from '../../../lib/guard/replay/memory-store.ts'
import type { Variables } from '../../helpers/variables.ts'
import { startApp, type RunningApp } from '../../helpers/app.ts'
import { createDpopClient, type DpopClient } from '../../helpers/dpop-client.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer, type Overrides } from '../../helpers/issuer.ts'
import { recordedOutputs } from '../../helpers/recorded.ts'
import { sendRaw } from '../../helpers/wire.ts'
import { signingKeyOf } from '../../helpers/signing-key.ts'

/** A request that passes. */
interface Good {
  readonly issuer: Issuer
  readonly client: DpopClient
  readonly host: string
  readonly path: string
  readonly token: string
  readonly proof: string
  /** A proof that passes but for the overrides, made anew. */
  remake (token: string, header?: Overrides, claims?: Overrides): string
}

/** What goes over the wire: every line of it. */
type Lines = readonly string[]

interface Pieces {
  readonly method?: string
  readonly path?: string
  readonly hosts?: readonly string[]
  readonly authorization?: readonly string[]
  readonly dpop?: readonly string[]
}

/** The lines of the request, with other pieces in place of its own. */
function linesOf (
  good: Good,
  {
    method = 'GET',
    path = good.path,
    hosts = [good.host],
    authorization = [`DPoP ${good.token}`],
    dpop = [good.proof]
  }: Pieces = {}
) {
  return [
    `${method} ${path} HTTP/1.1`,
    'Connection: close',
    ...hosts.map(host => `Host: ${host}`),
    ...authorization.map(value => `Authorization: ${value}`),
    ...dpop.map(value => `DPoP: ${value}`)
  ]
}

interface Bench {
  readonly issuer: Issuer
  readonly client: DpopClient
  readonly running: RunningApp
  readonly bound: string
  readonly good: () => Good
  explain (lines: Lines, options?: Partial<ExplainOptions>): Promise<Explanation>
  /** The reason for which the service refused the last request. */
  reason (): unknown
}

const recorded = recordedOutputs(t, import.meta.filename)
const path = '/api/private'
const now = () => Date.now() / 1000

async function prepare (t: Test, values: Variables = {}): Promise<Bench> {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const running = await startApp(t, issuer, values)
  const settings = await readSettings({ IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, ...values })
  const host = new URL(running.url).host
  const bound = issuer.token({ cnf: client.cnf })
  const remake: Good['remake'] = (token, header = {}, claims = {}) =>
    client.proof({ token, url: `http://${host}${path}`, header, claims })
  const keys = issuer.keys.map(({ kid, privateKey }) => signingKeyOf(createPublicKey(privateKey), kid))
  const candidates = (kid?: string) => keys.filter(key => kid === undefined || key.kid === kid)
  return {
    issuer,
    client,
    running,
    bound,
    good: () => ({ issuer, client, host, path, token: bound, proof: remake(bound), remake }),
    async explain (lines, options) {
      const record = recorded(lines[0])
      const explanation = await explainRequest(captured(lines), {
        settings,
        now: now(),
        keys: () => ({ candidates, fetchCandidates: async kid => candidates(kid) }),
        requirements: [],
        replay: createOffStore(),
        ...options
      })
      record(showFindings({ notes: [], explanation }, true, (_style, text) => text))
      return explanation
    },
    reason: () => running.reasons().at(-1)
  }
}

function captured (lines: Lines) {
  const [method = '', target = ''] = lines[0]!.split(' ')
  const headers = lines.slice(1).map(line =>
    [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)] as const
  )
  return { method, target, headers, encrypted: false, remoteAddress: '127.0.0.1' }
}

const outcomes = ({ steps }: Explanation) =>
  Object.fromEntries(steps.map(({ name, outcome }) => [name, outcome]))
const step = ({ steps }: Explanation, name: string) => steps.find(step => step.name === name)!

t.test('For an accepted request every check passed, with what was compared', async t => {
  const bench = await prepare(t)
  const good = bench.good()
  const explanation = await bench.explain(linesOf(good))
  t.hasStrict(explanation, { verdict: 'accepted', refusal: undefined, notChecked: [] })
  t.strictSame(
    explanation.steps.map(({ name }) => name),
    STEPS.filter(({ name }) =>
      !['certificate', 'token.introspection', 'token.lifetime', 'token.revocation'].includes(name)
    ).map(({ name }) => name)
  )
  t.strictSame([...new Set(Object.values(outcomes(explanation)))], ['passed'])
  t.match(new Map(step(explanation, 'token.time').compared).get('exp'), /^\d+ \(\d{4}-.+Z, (?:59\d|600) s ahead\)$/)
  t.strictSame(step(explanation, 'proof.jkt').compared, [['thumbprint of jwk', bench.client.jkt], [
    'cnf.jkt of the token',
    bench.client.jkt
  ]])
})

t.test('After a failed check nothing is reached, and there is advice', async t => {
  const bench = await prepare(t)
  const { proof, ...good } = bench.good()
  const refused = await bench.explain(
    linesOf({ ...good, proof: good.remake(good.token, {}, { htu: `https://${good.host}${path}` }) })
  )
  t.hasStrict(refused, {
    verdict: 'refused',
    refusal: {
      reason: 'htu_mismatch',
      status: 401,
      error: 'invalid_dpop_proof',
      detail: { cause: 'scheme' },
      meaning: ADVICE.htu_mismatch.meaning
    }
  })
  t.strictSame(step(refused, 'proof.iat').compared, [])

  const { jwk } = JSON.parse(Buffer.from(proof.split('.')[0]!, 'base64url').toString())
  const careless = good.remake(good.token, { jwk: { ...jwk, d: 'hunter2', key_ops: ['verify'] } })
  const leaking = await bench.explain(linesOf({ ...good, proof: careless }))
  t.equal(leaking.refusal?.reason, 'proof_key')
  t.strictSame(step(leaking, 'proof.header').compared[2], [
    'jwk',
    JSON.stringify({ ...jwk, d: '(not shown)', key_ops: ['verify'] })
  ])

  const pathless = await bench.explain(linesOf({ ...good, proof }, { path: '/api/./private' }))
  t.equal(pathless.refusal?.reason, 'target_path')
  t.strictSame(
    explainRefusal(new Refusal('htu_mismatch')).cure,
    ADVICE.htu_mismatch.cure,
    'without a cause the general advice'
  )
})

t.test('Where another claim holds the audience, it is shown beside aud', async t => {
  const bench = await prepare(t, { IDP_AUDIENCE_CLAIM: 'client_id' })
  const explainToken = (claims: object) =>
    bench.explain(
      linesOf(bench.good(), {
        authorization: [`Bearer ${bench.issuer.token({ aud: undefined, ...claims })}`],
        dpop: []
      })
    )
  t.equal((await explainToken({ client_id: AUDIENCE })).verdict, 'accepted')
  t.equal((await explainToken({ client_id: 'other' })).refusal?.reason, 'token_audience')
  t.equal((await explainToken({})).refusal?.reason, 'token_claim_invalid')
})

t.test('Each check has a sentence for its failure, and one without does not compile.', async t => {
  for (const { name, title, failed } of STEPS) t.ok(failed !== title && failed.length > 10, name)
  const { failed: _failed, ...rest } = STEPS[1]!
  // @ts-expect-error A new check would be such a one.
  const lacking: Step = rest
  t.ok(lacking)
})

t.test('Only requests with the DPoP scheme come to the checks of a proof', async t => {
  const bench = await prepare(t)
  const hasProofSteps = ({ steps }: Explanation) => steps.some(({ name }) => name.startsWith('proof'))
  const bearer = await bench.explain(['GET / HTTP/1.1', `Authorization:  Bearer ${bench.issuer.token()}\t`])
  t.equal(bearer.verdict, 'accepted')
  t.equal(hasProofSteps(bearer), false)
  t.equal(hasProofSteps(await bench.explain(['GET / HTTP/1.1'])), true, 'the scheme is not known yet')
  const disabled = await prepare(t, { IDP_DPOP_MODE: 'DISABLED' })
  t.equal(hasProofSteps(await disabled.explain(['GET / HTTP/1.1'])), false)
})

t.test('Keys and nonces of the service, and a proxy before it', async t => {
  const secret = Buffer.alloc(32, 7)
  const required = {
    DPOP_NONCE: 'required',
    DPOP_NONCE_SECRET: [secret.toString('base64url')],
    DPOP_REPLAY: 'redis://127.0.0.1:9'
  }
  const hoursOff = (good: Good) => {
    const nonce = createNonces([secret], 'shared').current(now())
    return linesOf(good, { dpop: [good.remake(good.token, {}, { nonce, iat: 1 })] })
  }
  const rows: Array<
    {
      title: string,
      values?: Variables,
      lines: (good: Good) => Lines,
      expected: RefusalReason | 'accepted'
    }
  > = [
    {
      title: 'a domain with a scheme',
      values: { IDP_DOMAIN: 'https://tenant.example' },
      lines: good => linesOf(good),
      expected: 'domain_has_scheme'
    },
    {
      title: 'a key that is not published',
      lines: good => linesOf(good, { authorization: [`DPoP ${good.issuer.token({}, { kid: 'other' })}`] }),
      expected: 'token_key_unknown'
    },
    {
      title: 'a key that signed something else',
      lines: good => linesOf(good, { authorization: [`DPoP ${good.issuer.token({}, {}, makeIssuerKey('k1'))}`] }),
      expected: 'token_signature'
    },
    {
      title: 'no nonce',
      values: required,
      lines: good => linesOf(good),
      expected: 'nonce_missing'
    },
    {
      title: 'a nonce of another service',
      values: required,
      lines: good => linesOf(good, { dpop: [good.remake(good.token, {}, { nonce: 'other' })] }),
      expected: 'nonce_stale'
    },
    {
      title: 'a nonce of this service and a clock hours off',
      values: required,
      lines: hoursOff,
      expected: 'accepted'
    },
    {
      title: 'a nonce of this service and a clock hours off, if the age is checked too',
      values: { ...required, DPOP_NONCE_IAT: 'checked' },
      lines: hoursOff,
      expected: 'iat_too_old'
    },
    {
      title: 'behind a proxy',
      values: { TRUST_PROXY: ['loopback'] },
      lines: good => [
        ...linesOf(good, { hosts: ['inner'] }),
        'X-Forwarded-Host: evil.example\t',
        `x-forwarded-host: ${good.host}`
      ],
      expected: 'accepted'
    }
  ]
  for (const { title, values = {}, lines, expected } of rows) {
    const bench = await prepare(t, { ...values, METRICS: 'off' })
    const explanation = await bench.explain(lines(bench.good()))
    t.equal(explanation.refusal?.reason ?? 'accepted', expected, title)
    t.strictSame(explanation.notChecked, [], `${title}: all of it was checked`)
  }
})

t.test('A check that cannot be made is shown as not checked, and what comes after it is still checked', async t => {
  const bench = await prepare(t, { DPOP_NONCE: 'required' })
  const good = bench.good()
  const blind = { keys: undefined, requirements: undefined, replay: undefined }
  const accepted = await bench.explain(
    linesOf(good, { dpop: [good.remake(good.token, {}, { nonce: 'whose' })] }),
    blind
  )
  t.hasStrict(accepted, {
    verdict: 'accepted',
    notChecked: ['token.key', 'token.signature', 'proof.nonce', 'proof.replay', 'requirement']
  })
  const [asked, other] = [createNonces([randomBytes(32)], 'process'), createNonces([randomBytes(32)], 'process')]
  for (const [nonces, expected] of [[asked, undefined], [other, 'nonce_of_another_instance']] as const) {
    const moved = await bench.explain(
      linesOf(good, { dpop: [good.remake(good.token, {}, { nonce: nonces.current(now()) })] }),
      { ...blind, answeredNonce: asked.current(now()) }
    )
    t.equal(moved.refusal?.reason, expected)
  }
  t.equal((await bench.explain(linesOf(good), blind)).refusal?.reason, 'nonce_missing', 'a missing one is known')
  t.equal((await bench.explain(linesOf(good, { dpop: [] }), blind)).refusal?.reason, 'proof_missing')

  const down = await bench.explain(linesOf(good), {
    keys: async () => {
      throw new Refusal('keys_unavailable')
    }
  })
  t.strictSame(down.notChecked, ['token.key', 'token.signature'])
  await t.rejects(
    bench.explain(linesOf(good), {
      keys: async () => {
        throw new Error('a fault')
      }
    }),
    { message: 'a fault' },
    'a fault stays a fault'
  )
})

t.test('The explanation shows what the route requires, what the token has, and what is missing', async t => {
  const bench = await prepare(t, { IDP_SCOPE_IMPLIES: { admin: ['read'] }, RESOURCE: 'https://api.example/v1' })
  const explain = (claims: object, requirements: ExplainOptions['requirements']) =>
    bench.explain(
      linesOf(bench.good(), {
        authorization: [`Bearer ${bench.issuer.token(claims as Record<string, unknown>)}`],
        dpop: []
      }),
      { requirements }
    )
  const at = Math.floor(now())
  const requirement = parseRequirement({
    scope: ['read', 'write'],
    acr: ['urn:mfa', 'urn:key'],
    maxAgeSeconds: 60,
    claims: { tenant: ['blue', 'red'], 'realm_access.roles': 'admin', constructor: () => true },
    authorizationDetails: [{ type: 'payment', check: ({ amount }) => amount === 1 }, { type: 'account' }]
  })
  const met = {
    scope: 'admin write',
    acr: 'urn:mfa',
    auth_time: at,
    tenant: 'red',
    realm_access: { roles: ['user', 'admin'] },
    constructor: 1,
    authorization_details: [{ type: 'account' }, { type: 'payment', amount: 1 }],
    aud: 'https://api.example/v1'
  }
  const accepted = await explain(met, [requirement])
  t.hasStrict(accepted, { verdict: 'accepted', notChecked: [] })
  const rows: ReadonlyArray<readonly [lack: object, reason: RefusalReason]> = [
    [{ acr: 'urn:pwd', scope: '' }, 'acr_missing'],
    [{ auth_time: at - 70 }, 'authentication_too_old'],
    [{ scope: 'write' }, 'scope_missing'],
    [{ tenant: 'green' }, 'claim_mismatch'],
    [{ realm_access: { roles: ['user'] } }, 'claim_mismatch'],
    [{ constructor: undefined }, 'claim_mismatch'],
    [{ authorization_details: [{ type: 'account' }] }, 'authorization_details_missing']
  ]
  for (const [lack, reason] of rows) {
    const refused = await explain({ ...met, ...lack }, [{}, requirement])
    t.equal(refused.refusal?.reason, reason)
  }
  t.equal(
    (await explain({ scope: '' }, [{ scope: ['x'] }, { acr: ['y'] }])).refusal?.reason,
    'scope_missing',
    'in the order of the guards'
  )

  const broken = await explain({}, [parseRequirement({
    claims: {
      sub: () => {
        throw new Error('no database')
      }
    }
  })])
  t.hasStrict(broken, { verdict: 'accepted', notChecked: ['requirement'] })
})

t.test('A guest of an optional route is accepted, and any credentials are checked', async t => {
  const bench = await prepare(t)
  const [optional, needed] = [{ optional: true }, {}] as const
  const guest = await bench.explain(['GET / HTTP/1.1'], { requirements: [optional, optional] })
  t.hasStrict(guest, { verdict: 'accepted', notChecked: [] })
  for (const requirements of [[optional, needed], [], undefined]) {
    t.equal((await bench.explain(['GET / HTTP/1.1'], { requirements })).refusal?.reason, 'credentials_missing')
  }
  t.equal(
    (await bench.explain(['GET / HTTP/1.1', 'DPoP: x'], { requirements: [optional] })).refusal?.reason,
    'credentials_missing'
  )
  t.equal(
    (await bench.explain(['GET / HTTP/1.1', 'Authorization: Bearer x'], { requirements: [optional] })).refusal?.reason,
    'token_malformed'
  )
})

t.test('Only a check whose settings are unknown is left out', async t => {
  const bench = await prepare(t)
  const elsewhere = linesOf(bench.good(), {
    authorization: [`Bearer ${bench.issuer.token({ iss: 'https://other.example/' })}`],
    dpop: []
  })
  t.equal((await bench.explain(elsewhere)).refusal?.reason, 'token_issuer')
  const explanation = await bench.explain(elsewhere, { unknown: ['token.iss'] })
  t.hasStrict(explanation, { verdict: 'accepted', notChecked: ['token.iss'] })
  t.equal(
    (await bench.explain(
      linesOf(bench.good(), { authorization: [`Bearer ${bench.issuer.token({ aud: 'other' })}`], dpop: [] }),
      { unknown: ['token.iss'] }
    )).refusal?.reason,
    'token_audience'
  )
})

t.test('A request of a client is what a service without a proxy gets.', async t => {
  const headers = [['Authorization', 'Bearer x']] as const
  t.strictSame(capturedRequest('GET', new URL('https://api.example:8443/a?b#c'), headers), {
    method: 'GET',
    target: '/a?b',
    headers: [['Host', 'api.example:8443'], ...headers],
    encrypted: true,
    remoteAddress: '127.0.0.1'
  })
  t.equal(capturedRequest('GET', new URL('http://api.example'), []).encrypted, false)
})

t.test('With a store of used proofs, a replay is found', async t => {
  const bench = await prepare(t)
  const replay = createMemoryStore({ max: 10, now, steadyMs: () => now() * 1000, randomBytes })
  t.teardown(() => replay.close())
  const lines = linesOf(bench.good())
  t.equal((await bench.explain(lines, { replay })).verdict, 'accepted')
  t.equal((await bench.explain(lines, { replay })).refusal?.reason, 'proof_replayed')
  t.equal((await bench.explain(linesOf(bench.good()), { replay })).verdict, 'accepted')
})

t.test('What is shown is bounded, and any value can be shown', async t => {
  const bench = await prepare(t)
  const good = bench.good()
  const long = await bench.explain(
    linesOf(good, { dpop: [good.remake(good.token, {}, { jti: 'a'.repeat(700), iat: 1e300, exp: null })] })
  )
  t.equal(long.refusal?.reason, 'proof_claim_invalid')
  t.match(new Map(step(long, 'proof.claims').compared), new Map([['jti', `${'a'.repeat(600)}\u2026 (700 characters)`]]))
  const odd = await bench.explain(linesOf(good, { authorization: [`Odd ${good.token}`] }))
  t.equal(odd.refusal?.reason, 'scheme_not_offered')
  const justNow = Math.floor(now())
  const exact = await bench.explain(linesOf(good, { dpop: [good.remake(good.token, {}, { iat: justNow })] }), {
    now: justNow
  })
  t.match(new Map(step(exact, 'proof.iat').compared).get('iat'), /, 0 s ago\)$/)
})

t.test('Every step has a title and says what it compares, even by itself', async t => {
  t.strictSame([...new Set(STEPS.map(({ name }) => name))].length, STEPS.length)
  const { settings } = (await prepare(t)).running.app
  const { createExamination } = await import('../../../cli/explain/examination.ts')
  const empty = createExamination({
    method: 'GET',
    target: '/',
    headers: [],
    encrypted: false,
    remoteAddress: undefined
  }, { settings, now: 0, requirements: [{ scope: ['a'], claims: [{ name: 'b', allowed: [1] }] }] })
  for (const { name, title, compared } of STEPS) {
    t.match(title, /^[A-Z].{10,}[^.]$/)
    t.ok(compared(empty).every(([label, value]) => label !== '' && typeof value === 'string'), name)
  }
})

t.test('For a certificate-bound token the certificate is checked if the capture has it', async t => {
  const { fingerprint256, raw } = new X509Certificate(
    readFileSync(join(import.meta.dirname, '../../fixtures/client-a.cert.pem'))
  )
  const thumbprint = Buffer.from(fingerprint256.replaceAll(':', ''), 'hex').toString('base64url')
  const header = `Client-Cert: :${raw.toString('base64')}:`
  const behind = await prepare(t, { CLIENT_CERTIFICATE: 'client-cert', TRUST_PROXY: ['loopback'] })
  const lines = (
    x5t: string,
    ...more: string[]
  ) => [
    ...linesOf(behind.good(), {
      authorization: [`Bearer ${behind.issuer.token({ cnf: { 'x5t#S256': x5t } })}`],
      dpop: []
    }),
    ...more
  ]
  const good = await behind.explain(lines(thumbprint, header))
  t.hasStrict([good.verdict, good.notChecked, step(good, 'certificate').outcome], ['accepted', [], 'passed'])
  t.equal((await behind.explain(lines('other', header))).refusal?.reason, 'certificate_mismatch')
  const bare = await behind.explain(lines(thumbprint))
  t.hasStrict(bare, { verdict: 'accepted', notChecked: ['certificate'] })

  const settings = await readSettings({
    IDP_ISSUER: behind.issuer.url,
    IDP_AUDIENCE: AUDIENCE,
    CLIENT_CERTIFICATE: 'socket'
  })
  const socket = await behind.explain(lines(thumbprint, header), { settings })
  t.hasStrict([socket.verdict, socket.notChecked], ['accepted', ['certificate']])
  const unbound = await behind.explain(linesOf(behind.good()))
  t.notOk(unbound.steps.some(({ name }) => name === 'certificate'), 'another token needs none')
})

t.test('For an introspected token the answer is shown; without an answer, what depends on it is not checked', async t => {
  const asking = { IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 's' }
  const bench = await prepare(t, asking)
  const settings = await readSettings({ IDP_ISSUER: bench.issuer.url, IDP_AUDIENCE: AUDIENCE, ...asking })
  let answer: Error | Record<string, unknown> = {}
  const answerNow = async () => {
    if (answer instanceof Error) throw answer
    return { claims: answer as TokenClaims, isCurrent: () => true }
  }
  const answering = async () => ({
    claimsOf: answerNow,
    confirm: answerNow
  })
  const { client } = bench
  const bearerOf = (token: string) => linesOf(bench.good(), { authorization: [`Bearer ${token}`], dpop: [] })
  const requirements = [parseRequirement({ scope: 'a' })]

  const unasked = await bench.explain(bearerOf('opaque'), { settings, requirements })
  t.strictSame([unasked.verdict, unasked.notChecked], ['accepted', ['token.introspection', 'scheme', 'requirement']])
  t.notOk(unasked.steps.some(({ name }) => name === 'token.signature'), 'checks that only a JWT has are left out')
  const proof = client.proof({ token: 'opaque', url: `http://${bench.good().host}${path}` })
  const proven = await bench.explain(linesOf(bench.good(), { authorization: ['DPoP opaque'], dpop: [proof] }), {
    settings
  })
  t.strictSame(
    [proven.verdict, proven.notChecked],
    ['accepted', ['token.introspection', 'scheme', 'proof.jkt']],
    'the rest of a proof is checked'
  )

  const claims = { iss: bench.issuer.url, sub: 'u', aud: AUDIENCE, exp: now() + 60, scope: 'a' }
  answer = claims
  const asked = await bench.explain(bearerOf('opaque'), { settings, requirements, introspect: answering })
  t.strictSame([asked.verdict, asked.notChecked], ['accepted', []])
  answer = { ...claims, scope: 'b' }
  t.equal(
    (await bench.explain(bearerOf('opaque'), { settings, requirements, introspect: answering })).refusal?.reason,
    'scope_missing'
  )
  answer = { ...claims, cnf: client.cnf }
  t.equal((await bench.explain(bearerOf('opaque'), { settings, introspect: answering })).refusal?.reason, 'token_bound')
  answer = new Refusal('token_inactive')
  t.equal(
    (await bench.explain(bearerOf('opaque'), { settings, introspect: answering })).refusal?.reason,
    'token_inactive'
  )
  answer = new Refusal('introspection_unavailable')
  t.strictSame((await bench.explain(bearerOf('opaque'), { settings, introspect: answering })).notChecked, [
    'token.introspection',
    'scheme'
  ])

  const token = bench.issuer.token()
  answer = {}
  t.strictSame((await bench.explain(bearerOf(token), { settings })).notChecked, ['token.introspection'])
  t.strictSame((await bench.explain(bearerOf(token), { settings, introspect: answering })).notChecked, [])
  answer = new Refusal('token_contradicted')
  t.equal(
    (await bench.explain(bearerOf(token), { settings, introspect: answering })).refusal?.reason,
    'token_contradicted'
  )
  const jwtOnly = await readSettings({
    IDP_ISSUER: bench.issuer.url,
    IDP_AUDIENCE: AUDIENCE,
    ...asking,
    IDP_INTROSPECTION: 'jwt'
  })
  t.equal((await bench.explain(bearerOf('opaque'), { settings: jwtOnly })).refusal?.reason, 'token_malformed')
})

t.test('The explanation holds a token to the resource and to the security profile, as the service does', async t => {
  const bench = await prepare(t, { RESOURCE: 'https://api.holdfast.test' })
  const lines = (claims: Record<string, unknown>) =>
    linesOf(bench.good(), { authorization: [`Bearer ${bench.issuer.token(claims)}`], dpop: [] })
  t.equal((await bench.explain(lines({ aud: 'https://api.holdfast.test' }))).verdict, 'accepted')
  const fapi = await readSettings({ IDP_ISSUER: bench.issuer.url, IDP_AUDIENCE: AUDIENCE, SECURITY_PROFILE: 'fapi2' })
  t.equal((await bench.explain(lines({}), { settings: fapi })).refusal?.reason, 'token_algorithm')
  const settings = { ...fapi, idp: { ...fapi.idp, issuers: [{ ...fapi.idp.issuers[0]!, algs: ['RS256'] as const }] } }
  t.equal((await bench.explain(lines({}), { settings })).refusal?.reason, 'token_not_sender_constrained')
})

t.test('What the profile of RFC 9068 needs of a token is shown if that is asked for', async t => {
  for (const IDP_TOKEN_PROFILE of ['rfc9068', 'any']) {
    const bench = await prepare(t, { IDP_TOKEN_PROFILE })
    const token = bench.issuer.token({ client_id: 'app', jti: 't1' }, { typ: 'at+jwt' })
    const explanation = await bench.explain(linesOf(bench.good(), { authorization: [`Bearer ${token}`], dpop: [] }))
    t.equal(explanation.verdict, 'accepted')
  }
})

t.test('The claims of a token are passed on, whatever becomes of it, and none if there is no token', async t => {
  const bench = await prepare(t)
  const read: unknown[] = []
  const onClaims: ExplainOptions['onClaims'] = claims => read.push(claims?.['sub'])
  const bearer = (sub: string, iss: string) =>
    linesOf(bench.good(), { authorization: [`Bearer ${bench.issuer.token({ sub, iss })}`], dpop: [] })
  await bench.explain(bearer('a', bench.issuer.url), { onClaims })
  await bench.explain(bearer('b', 'https://other.example/'), { onClaims })
  await bench.explain(linesOf(bench.good(), { authorization: [], dpop: [] }), { onClaims })
  t.strictSame(read, ['a', 'b', undefined])
})

t.test('A revoked token is shown with the event, and a token that is not revoked is not', async t => {
  const values = { REVOCATION: { operators: { scope: 'revoke' }, retentionSeconds: 3600 } }
  const bench = await prepare(t, values)
  const settings = await readSettings({ IDP_ISSUER: bench.issuer.url, IDP_AUDIENCE: AUDIENCE, ...values })
  const { revocations } = bench.running.app.holdfastGuard.parts.revocation!
  const iat = Math.floor(now()) - 5
  const linesFor = (token: string) => linesOf(bench.good(), { authorization: [`Bearer ${token}`], dpop: [] })
  const [lines, other] = [
    linesFor(bench.issuer.token({ iat, sid: 's1' })),
    linesFor(bench.issuer.token({ iat, sid: 's2' }))
  ]
  const outcomeOf = async (lines: Lines, options: Partial<ExplainOptions> = { revocations }) => {
    const explanation = await bench.explain(lines, { settings, ...options })
    return [
      explanation.refusal?.reason,
      outcomes(explanation)['token.lifetime'],
      outcomes(explanation)['token.revocation'],
      step(explanation, 'token.revocation').note
    ]
  }
  t.strictSame(await outcomeOf(lines), [undefined, 'passed', 'passed', undefined])
  const at = Math.floor(now())
  await revocations.append([{
    key: keyOf(['sid', '*', 's1']),
    effect: 'end',
    at,
    event: 'operator',
    source: 'ann',
    sender: 'https://operators.example',
    standing: 'other'
  }])
  t.strictSame([await outcomeOf(lines), await outcomeOf(other)], [
    ['token_revoked', 'passed', 'failed', 'The access token has been revoked.'],
    [undefined, 'passed', 'passed', undefined]
  ])
  await sendRaw(bench.running.url, lines)
  t.equal(bench.reason(), 'token_revoked')
  const { compared } = step(
    await bench.explain(lines, { settings, revocations, now: Math.round(at) + 7 }),
    'token.revocation'
  )
  t.strictSame(compared.slice(-2), [['revoked by', 'operator from ann'], [
    'at',
    `${at} (${new Date(at * 1000).toISOString()}, 7 s ago)`
  ]], 'the event, and when')

  const many = await bench.explain(linesFor(bench.issuer.token({ iat, email: Array(1001).fill('s') })), { settings, revocations })
  t.equal(many.refusal?.reason, 'token_claim_invalid')
  t.equal(step(many, 'token.revocation').compared.some(([name]) => name === 'revoked by'), false)

  const unknown = 'Only the running service knows what has been revoked: its store is the memory of the process.'
  t.strictSame(await outcomeOf(lines, {}), [undefined, 'passed', 'not checked', unknown])
  t.strictSame(await outcomeOf(lines, { revocations: 'It is away.' }), [
    undefined,
    'passed',
    'not checked',
    'It is away.'
  ])
  const long = linesFor(bench.issuer.token({ iat, exp: iat + 3601 }))
  t.strictSame(await outcomeOf(long), ['token_too_long', 'failed', 'not reached', undefined])
  await sendRaw(bench.running.url, long)
  t.equal(bench.reason(), 'token_too_long')
  t.strictSame(await outcomeOf(linesFor(bench.issuer.token({ iat: undefined, exp: iat + 3000 }))), [
    'token_too_long',
    'failed',
    'not reached',
    undefined
  ])

  const asking = await readSettings({
    IDP_ISSUER: bench.issuer.url,
    IDP_AUDIENCE: AUDIENCE,
    ...values,
    IDP_INTROSPECTION: 'all',
    IDP_CLIENT_ID: 'api',
    IDP_CLIENT_SECRET: 's'
  })
  t.strictSame((await bench.explain(linesFor('opaque'), { settings: asking, revocations })).notChecked, [
    'token.introspection',
    'token.lifetime',
    'token.revocation',
    'scheme'
  ])
})
