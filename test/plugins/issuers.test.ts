import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { containing, exactly } from '../helpers/containing.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import type { IssuerLookup } from '../../lib/settings/option-types.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import type { Variables } from '../helpers/variables.ts'
import auth from '../../plugins/auth.ts'
import health from '../../routes/health.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createApp, createLoggedApp, startApp, type RunningApp } from '../helpers/app.ts'
import { bearerLines, call, callBearer, callDpop, dpopLines, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { html } from '../helpers/hostile-provider.ts'
import { AUDIENCE, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { createTokenKey, makeToken, startTokenProvider } from '../helpers/token-issuer.ts'

const a = await createTokenKey('RS256', 'k')
const b = await createTokenKey('RS256', 'k')
const c = await createTokenKey('ES256', 'c')

const startList = (
  t: Test,
  entries: Variables[],
  values: Variables = {},
  prepare?: (app: FastifyInstance) => void
) => startApp(t, {} as Issuer, { IDP_ISSUERS: entries, ...values }, prepare)

async function startTwo (
  t: Test,
  ofA: Variables = {},
  ofB: Variables = {},
  values: Variables = {}
) {
  const [first, second] = [await startTokenProvider(t, a.jwk), await startTokenProvider(t, b.jwk)]
  const running = await startList(
    t,
    [{ issuer: first.issuer, ...ofA }, { issuer: second.issuer, ...ofB }],
    values,
    app => {
      app.get('/api/auth', { onRequest: app.authenticate() }, ({ auth }) => auth)
    }
  )
  return { first, second, running }
}

async function readiness (url: string) {
  const answer = await fetch(`${url}/health/ready`)
  const { checks, issuers } = await answer.json() as { checks: { keys: string }, issuers?: Record<string, string> }
  return { status: answer.status, keys: checks.keys, issuers }
}

async function until (isTrue: () => boolean | Promise<boolean>) {
  for (let left = 1500; left > 0 && !await isTrue(); left--) await delay(10)
}

t.test('Under rfc9068 an ID token does not pass, and an issuer that is spelled otherwise is a warning', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  const { issuer } = provider
  const claims = { client_id: 'c', iat: Math.floor(Date.now() / 1000) }
  const token = (iss: string, typ = 'at+jwt') => makeToken(iss, a, { header: { typ }, claims })
  const ask = async (running: RunningApp, text: string) =>
    (await callBearer(running, text, '/api/private')).status
  const spelled = (running: RunningApp) =>
    running.log.filter(({ event }) => event === 'issuer_spelled_otherwise')
  const exact = await startList(t, [{ issuer, tokenProfile: 'rfc9068' }])
  t.strictSame([await ask(exact, token(issuer)), await ask(exact, token(issuer, 'JWT'))], [200, 401])
  t.strictSame(spelled(exact), [])
  const other = await startList(t, [{ issuer: issuer.slice(0, -1), tokenProfile: 'rfc9068' }])
  t.equal(await ask(other, token(issuer)), 401)
  await until(() => spelled(other).length > 0)
  t.hasStrict(spelled(other), [{ issuer: issuer.slice(0, -1), spelled: issuer, level: 40 }])
  const any = await startList(t, [{ issuer: issuer.slice(0, -1) }])
  t.strictSame([await ask(any, token(issuer, 'JWT')), spelled(any)], [200, []])
})

t.test('The tokens of each issuer are held to its own keys, audience, algorithms and claims', async t => {
  const { first, second, running } = await startTwo(t, {}, {
    audience: 'https://b.example',
    scopeClaims: ['permissions']
  })
  const ask = (token: string) => callBearer(running, token, '/api/auth')
  const claims = { aud: 'https://b.example', scope: 'x', permissions: ['read:messages'] }
  t.hasStrict(await ask(makeToken(first.issuer, a)), { status: 200, body: { issuer: first.issuer, scopes: [] } })
  t.hasStrict(
    await ask(makeToken(first.issuer.slice(0, -1), a)),
    { status: 200, body: { issuer: first.issuer } },
    'without the last slash'
  )
  t.hasStrict(await ask(makeToken(first.issuer, a, { claims: { scope: 'x', permissions: ['y'] } })), {
    body: { scopes: ['x'] }
  })
  t.hasStrict(await ask(makeToken(second.issuer, b, { claims })), {
    status: 200,
    body: { issuer: second.issuer, scopes: ['read:messages'] }
  })
  const rows: Array<[title: string, token: string, reason: RefusalReason]> = [
    ['the audience of the other', makeToken(first.issuer, a, { claims }), 'token_audience'],
    ['the default audience for an issuer with its own', makeToken(second.issuer, b), 'token_audience'],
    [
      'both issuers in an array',
      makeToken(first.issuer, a, { claims: { iss: [first.issuer, second.issuer] } }),
      'token_claim_invalid'
    ],
    ['an issuer in an array', makeToken(first.issuer, a, { claims: { iss: [first.issuer] } }), 'token_claim_invalid'],
    ['an issuer that is a number', makeToken(first.issuer, a, { claims: { iss: 7 } }), 'token_claim_invalid'],
    ['an issuer that objects inherit', makeToken('__proto__', a), 'token_issuer'],
    ['an issuer with two slashes', makeToken(`${first.issuer}/`, a), 'token_issuer'],
    ['an issuer below', makeToken(`${first.issuer}realm`, a), 'token_issuer'],
    ['a prefix of the issuer', makeToken(first.issuer.slice(0, -2), a), 'token_issuer'],
    ['the issuer in another case', makeToken(first.issuer.toUpperCase(), a), 'token_issuer'],
    [
      'an unlisted issuer with a bad algorithm',
      makeToken('https://other.example/', a, { header: { alg: 'none' } }),
      'token_issuer'
    ],
    [
      'an unlisted issuer on a port that is open',
      makeToken(`${running.url}/`, a, { header: { jku: `${running.url}/jku`, x5u: `${running.url}/x5u` } }),
      'token_issuer'
    ],
    ['no JWT', 'opaque', 'token_malformed']
  ]
  const before = [first.requests.length, second.requests.length]
  for (const [title, token, reason] of rows) expectRefusal(t, await ask(token), reason, 'Bearer', title)
  t.strictSame([first.requests.length, second.requests.length], before, 'none of them causes a call')
  expectRefusal(
    t,
    await ask(makeToken(second.issuer, a, { claims })),
    'token_signature',
    'Bearer',
    'the key of the other'
  )
  t.strictSame([first.requests.length, second.requests.slice(before[1])], [before[0], [
    '/.well-known/openid-configuration',
    '/jwks'
  ]], 'a signature that fails under the key of its kid has the keys of its issuer fetched again')
  t.notOk(running.log.some(({ msg, url }) => msg === 'request answered' && /jku|x5u|jwks/.test(String(url))))
  t.strictSame(await readiness(running.url), {
    status: 200,
    keys: 'ok',
    issuers: { [first.issuer]: 'ok', [second.issuer]: 'ok' }
  })
  const named = new Map(running.log.filter(({ reason }) => reason).map(({ reason, issuer }) => [reason, issuer]))
  t.strictSame(Object.fromEntries(named), {
    token_signature: second.issuer,
    token_audience: second.issuer,
    token_claim_invalid: undefined,
    token_issuer: undefined,
    token_malformed: undefined
  }, 'a refusal names the issuer once it is chosen, and never by the token')
  expectRefusal(
    t,
    await callBearer(running, makeToken(first.issuer, a), '/api/admin'),
    'scope_missing',
    'Bearer'
  )
  expectRefusal(t, await callDpop(running, makeToken(first.issuer, a), 'x'), 'token_unbound', 'DPoP')
  t.strictSame(running.log.filter(({ reason }) => reason).slice(-2).map(({ issuer }) => issuer), [
    first.issuer,
    first.issuer
  ])
  const metrics = await (await fetch(`${running.url}/metrics`)).text()
  t.match(metrics, containing(`holdfast_refusals_total{issuer="${first.issuer}",reason="scope_missing"} 1`))
  t.match(metrics, containing('holdfast_refusals_total{reason="token_issuer"} 7'))
  t.match(metrics, containing(`holdfast_keys{issuer="${first.issuer}"} 1`))
  t.match(metrics, containing(`holdfast_keys_status{issuer="${second.issuer}",status="fresh"} 1`))
  t.strictSame(
    running.log.filter(({ event }) => event === 'keys_fetched').map(({ issuer }) => issuer).sort(),
    [first.issuer, second.issuer].sort()
  )
  t.hasStrict(running.log.find(({ event }) => event === 'settings_in_force'), {
    issuers: [first.issuer, second.issuer],
    audience: [AUDIENCE, 'https://b.example']
  })
  t.strictSame(
    ((await (await fetch(`${running.url}/.well-known/oauth-protected-resource`)).json()) as {
      authorization_servers: unknown
    }).authorization_servers,
    [first.issuer],
    'the other has an audience of its own, which is not the resource'
  )
})

t.test('An issuer that is a prefix of another one is a different issuer', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  const longer = `${provider.issuer}realm`
  const running = await startList(t, [
    { issuer: provider.issuer, jwksUri: provider.jwksUri },
    { issuer: longer, jwksUri: (await startTokenProvider(t, b.jwk)).jwksUri }
  ])
  t.equal((await callBearer(running, makeToken(provider.issuer, a))).status, 200)
  t.equal((await callBearer(running, makeToken(longer, b))).status, 200)
  await expectBearerRefusal(t, running, makeToken(longer, a), 'token_signature')
  await expectBearerRefusal(t, running, makeToken(`${longer}2`, b), 'token_issuer')
})

const MODES = ['DISABLED', 'ALLOWED', 'REQUIRED'] as const

t.test('Each issuer has its own mode, and the schemes that are offered are those of all of them', async t => {
  const client = await createDpopClient()
  for (const mode of MODES) {
    for (const other of MODES) {
      const { first, running } = await startTwo(t, { dpopMode: mode }, { dpopMode: other })
      const { fetches } = first
      const url = `${running.url}/api/private`
      const bound = () => makeToken(first.issuer, a, { claims: { cnf: client.cnf } })
      const offers = { Bearer: ['DISABLED', 'ALLOWED'], DPoP: ['ALLOWED', 'REQUIRED'] }
      const offered = (['Bearer', 'DPoP'] as const).filter(scheme =>
        offers[scheme].includes(mode) || offers[scheme].includes(other)
      )
      const rows: Array<[title: string, lines: string[], expected: Record<typeof mode, RefusalReason | undefined>]> = [
        ['unbound as Bearer', bearerLines(makeToken(first.issuer, a)), {
          DISABLED: undefined,
          ALLOWED: undefined,
          REQUIRED: 'scheme_not_offered'
        }],
        ['bound as Bearer', bearerLines(bound()), {
          DISABLED: undefined,
          ALLOWED: 'token_bound',
          REQUIRED: 'scheme_not_offered'
        }],
        ['unbound as Bearer beside a bad proof', [...bearerLines(makeToken(first.issuer, a)), 'DPoP: x'], {
          DISABLED: undefined,
          ALLOWED: 'proof_beside_bearer',
          REQUIRED: 'scheme_not_offered'
        }],
        ['bound as DPoP', (token => dpopLines(token, client.proof({ token, url })))(bound()), {
          DISABLED: 'scheme_not_offered',
          ALLOWED: undefined,
          REQUIRED: undefined
        }],
        ['expired as Bearer', bearerLines(makeToken(first.issuer, a, { claims: { exp: 1 } })), {
          DISABLED: 'token_expired',
          ALLOWED: 'token_expired',
          REQUIRED: 'scheme_not_offered'
        }]
      ]
      for (const [title, lines, { [mode]: expected }] of rows) {
        for (const turn of ['new', 'known']) {
          const name = `${title}, ${mode} beside ${other}, ${turn}`
          if (turn === 'known' && title === 'bound as DPoP') {
            lines[1] = `DPoP: ${client.proof({ token: lines[0]!.split(' ')[2]!, url })}`
          }
          const outcome = await call(running, { lines })
          t.strictSame([outcome.reason, outcome.status], [expected, expected ? 401 : 200], name)
          if (expected === 'scheme_not_offered') {
            t.strictSame(
              outcome.challenges.map(({ scheme, parameters }) => [scheme, 'error' in parameters]),
              offered.map(scheme => [scheme, false]),
              name
            )
          }
        }
      }
      if (mode === 'REQUIRED') t.ok(first.fetches <= fetches + 1)
    }
  }
})

t.test('A token that was verified with one scheme is refused with one that its issuer does not offer', async t => {
  const client = await createDpopClient()
  const { first, running } = await startTwo(t, { dpopMode: 'DISABLED' }, { dpopMode: 'REQUIRED' })
  const token = makeToken(first.issuer, a, { claims: { cnf: client.cnf } })
  t.equal((await callBearer(running, token)).status, 200)
  expectRefusal(
    t,
    await callDpop(running, token, client.proof({ token, url: `${running.url}/api/private` })),
    'scheme_not_offered'
  )
  const metadata = await (await fetch(`${running.url}/.well-known/oauth-protected-resource`)).json() as Record<
    string,
    unknown
  >
  t.equal(metadata.dpop_bound_access_tokens_required, false)
})

t.test('The service is ready when each first fetch has ended and one has succeeded', async t => {
  const [first, second] = [await startTokenProvider(t, a.jwk), await startTokenProvider(t, b.jwk)]
  const held: Array<() => void> = []
  second.jwks = (_request, response) => {
    held.push(() => response.writeHead(500).end())
  }
  const running = await startList(t, [{ issuer: first.issuer }, { issuer: second.issuer }])
  await until(() => held.length > 0 && running.log.some(({ event }) => event === 'keys_fetched'))
  t.strictSame(await readiness(running.url), {
    status: 503,
    keys: 'empty',
    issuers: { [first.issuer]: 'ok', [second.issuer]: 'empty' }
  })
  t.equal(
    (await callBearer(running, makeToken(first.issuer, a))).status,
    200,
    'the other one is in use already'
  )
  held[0]!()
  await until(async () => (await readiness(running.url)).status === 200)
  t.strictSame(await readiness(running.url), {
    status: 200,
    keys: 'partly',
    issuers: { [first.issuer]: 'ok', [second.issuer]: 'empty' }
  })
  const outcome = await callBearer(running, makeToken(second.issuer, b))
  t.match(outcome, { status: 503, reason: exactly('keys_unavailable'), headers: { 'retry-after': /^\d+$/ } })
})

t.test('The service is not ready if no first fetch has succeeded', async t => {
  const { first, second, running } = await (async () => {
    const [first, second] = [await startTokenProvider(t), await startTokenProvider(t, b.jwk)]
    second.jwks = html(500)
    return { first, second, running: await startList(t, [{ issuer: first.issuer }, { issuer: second.issuer }]) }
  })()
  await until(async () => (await readiness(running.url)).keys !== 'empty')
  t.strictSame(await readiness(running.url), {
    status: 503,
    keys: 'none_usable',
    issuers: { [first.issuer]: 'none_usable', [second.issuer]: 'empty' }
  })
})

t.test('A user of one issuer cannot use up the limit of a namesake of another one', async t => {
  const { first, second, running } = await startTwo(t, {}, {}, { RATE_LIMIT: '2' })
  const statuses = async (iss: string, key: typeof a) => {
    const token = makeToken(iss, key)
    return [
      await callBearer(running, token),
      await callBearer(running, token),
      await callBearer(running, token)
    ].map(({ status }) => status)
  }
  t.strictSame(await statuses(first.issuer, a), [200, 200, 429])
  t.strictSame(await statuses(second.issuer, b), [200, 200, 429])
})

t.test(
  'Two local tenants and a key file in one service: when one of them dies under load, no request of the others ' +
    'fails',
  async t => {
    const tenants = [await startProvider({ audience: AUDIENCE }), await startProvider({ audience: AUDIENCE })]
    t.teardown(() => Promise.all(tenants.map(({ close }) => close())))
    const keysFile = join(t.testdir({ 'keys.json': JSON.stringify({ keys: [c.jwk] }) }), 'keys.json')
    const running = await startList(t, [...tenants.map(({ issuer }) => ({ issuer })), {
      issuer: 'https://offline.example/',
      keysFile,
      algs: ['ES256']
    }])
    const tokenOf = async ({ tokenEndpoint, clientId, clientSecret }: typeof tenants[number]) => {
      const body = new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret,
        audience: AUDIENCE
      })
      return ((await (await fetch(tokenEndpoint, { method: 'POST', body })).json()) as { access_token: string })
        .access_token
    }
    const [dying, living] = [await tokenOf(tenants[0]!), await tokenOf(tenants[1]!)]
    const ask = async (token: string) => {
      const answer = await fetch(`${running.url}/api/private`, { headers: { authorization: `Bearer ${token}` } })
      await answer.arrayBuffer()
      return answer.status
    }
    const unknownKey = () =>
      encodeJws({ alg: 'RS256', kid: `unknown-${Math.random()}` }, {
        iss: tenants[0]!.issuer,
        aud: AUDIENCE,
        sub: 'u',
        exp: 9e9
      }, a.sign)
    t.strictSame([await ask(dying), await ask(living), await ask(makeToken('https://offline.example/', c))], [
      200,
      200,
      200
    ])
    const statuses = new Set<number>()
    const load = { isOn: true }
    let turns = 0
    const clients = Promise.all([1, 2, 3].map(async () => {
      while (load.isOn) {
        for (const token of [living, makeToken('https://offline.example/', c)]) statuses.add(await ask(token))
        await ask(unknownKey())
        turns++
      }
    }))
    await until(() => turns > 10)
    await tenants[0]!.close()
    const before = turns
    await until(() => turns > before + 50)
    load.isOn = false
    await clients
    t.strictSame([...statuses], [200])
    t.equal(await ask(dying), 200, 'even its own known keys serve on')
  }
)

t.test('A key file replaces the provider, and there is no call', async t => {
  const provider = await startTokenProvider(t, b.jwk)
  const directory = t.testdir({ 'keys.json': JSON.stringify({ keys: [a.jwk] }) })
  const { connect } = net.Socket.prototype
  const calls: unknown[] = []
  const connected = net.Socket.prototype.connect
  net.Socket.prototype.connect = function (this: net.Socket, ...args: unknown[]) {
    calls.push(args)
    return Reflect.apply(connect, this, args) as net.Socket
  } as typeof connected
  t.teardown(() => {
    net.Socket.prototype.connect = connected
  })
  const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_KEYS_FILE: join(directory, 'keys.json') })
  const inject = async (token: string) =>
    (await running.app.inject({ url: '/api/private', headers: { authorization: `Bearer ${token}` } })).statusCode
  const token = makeToken(provider.issuer, a)
  t.strictSame([await inject(token), await inject(token)], [200, 200])
  t.equal(await inject(makeToken(provider.issuer, a, { header: { kid: undefined } })), 200)
  t.equal(await inject(makeToken(provider.issuer, b)), 401)
  t.equal(await inject(makeToken(provider.issuer, { ...b, kid: 'unknown' })), 401)
  t.strictSame([calls, provider.requests], [[], []])
  t.equal((await running.app.inject('/health/ready')).json().checks.keys, 'ok')
})

/** The service with a file of keys, behind a link to its folder. */
async function startWithFile (
  t: Test,
  content: string
): Promise<
  { file: string, running: RunningApp, status (key: typeof a): Promise<number>, changed (event: string): Promise<void> }
> {
  const directory = t.testdir({ data1: { 'keys.json': content } })
  symlinkSync('data1', join(directory, 'current'))
  const running = await startApp(t, { url: 'https://offline.example/' } as Issuer, {
    IDP_KEYS_FILE: join(directory, 'current', 'keys.json')
  })
  const events = (name: string) => running.log.filter(({ event }) => event === name).length
  return {
    file: directory,
    running,
    status: async key =>
      (await callBearer(running, makeToken('https://offline.example/', key))).status,
    async changed (event) {
      const before = events(event)
      await until(() => events(event) > before)
    }
  }
}

/** How long 5 s are for the timers of the service. */
let fiveSecondsMs = 5000
const { after } = processSurroundings
Object.assign(processSurroundings, {
  after: (ms: number, run: () => void) => after(ms === 5000 ? fiveSecondsMs : ms, run)
})

const setOf = (...keys: object[]) => JSON.stringify({ keys })

t.test('A change of the key file is seen, also when a link is swapped; a broken file keeps the old keys', async t => {
  fiveSecondsMs = 50
  t.teardown(() => {
    fiveSecondsMs = 5000
  })
  const { file, running, status, changed } = await startWithFile(t, setOf(a.jwk))
  const keys = () => running.app.holdfastGuard.parts.issuers!.all()[0]!.keys.state()
  t.strictSame([await status(a), await status(b)], [200, 401])

  mkdirSync(join(file, 'data2'))
  const good = setOf({ ...b.jwk, kid: 'k' }, { ...a.jwk, kid: 'leaked', d: 'AQAB' })
  writeFileSync(join(file, 'data2', 'keys.json'), good)
  symlinkSync('data2', join(file, 'next'))
  renameSync(join(file, 'next'), join(file, 'current'))
  await changed('keys_private')
  t.strictSame([await status(a), await status(b)], [401, 200])
  t.hasStrict(running.log.filter(({ event }) => event === 'keys_fetched').at(-1), {
    keys: 1,
    added: 1,
    removed: 1,
    passedOver: { private_key: 1 },
    issuer: 'https://offline.example/'
  })
  t.hasStrict(running.log.find(({ event }) => event === 'keys_private'), { level: 40, passedOver: 1 })

  writeFileSync(join(file, 'data2', 'keys.json'), '{"keys":[')
  await changed('keys_fetch_failed')
  t.equal(await status(b), 200)
  t.strictSame(await readiness(running.url), { status: 200, keys: 'stale', issuers: undefined })
  t.hasStrict(running.log.find(({ event }) => event === 'keys_fetch_failed'), {
    level: 40,
    failure: 'not_json',
    keys: 1
  })
  rmSync(join(file, 'data2', 'keys.json'))
  await until(() => keys().lastFailure === 'file_unreadable')
  t.equal(await status(b), 200, 'without the file')

  writeFileSync(join(file, 'data2', 'keys.json'), good)
  await changed('keys_fetched')
  t.strictSame(
    await readiness(running.url),
    { status: 200, keys: 'ok', issuers: undefined },
    'the same file is good again'
  )
  const [before, events] = [keys().fetches, running.log.length]
  await until(() => keys().fetches > before + 2)
  t.notOk(running.log.slice(events).some(({ event }) => event), 'a file that stays as it is is nothing new')

  const verified = makeToken('https://offline.example/', { ...b, kid: 'k' })
  t.equal((await callBearer(running, verified)).status, 200)
  writeFileSync(join(file, 'data2', 'keys.json'), setOf())
  await changed('keys_fetched')
  t.equal(await status(b), 401, 'an empty set withdraws all')
  await expectBearerRefusal(t, running, verified, 'token_key_unknown', 'also for a token that was verified before')
  t.strictSame(await readiness(running.url), { status: 503, keys: 'none_usable', issuers: undefined })
})

t.test('A key file that is missing or broken stops the start, and each is named', async t => {
  const directory = t.testdir({
    good: setOf(a.jwk),
    broken: '{',
    list: '[]',
    many: setOf(...Array(101).fill(a.jwk)),
    big: ' '.repeat(1024 * 1024 + 1),
    folder: {}
  })
  const cases: Array<[path: string, word: string]> = [
    ['good', ''],
    ['missing', 'file_unreadable: ENOENT'],
    ['broken', 'not_json'],
    ['list', 'set_malformed'],
    ['many', 'set_too_many_keys: 101'],
    ['big', 'file_unreadable: TOO_LARGE'],
    ['folder', 'file_unreadable: NOT_A_FILE'],
    ['/dev/zero', 'file_unreadable: NOT_A_FILE']
  ]
  for (const [path, word] of cases) {
    const keysFile = join(path.startsWith('/') ? '' : directory, path)
    const app = createApp(t)
    const start = async () => {
      await app.register(auth, { idp: { issuer: 'https://offline.example/', audience: AUDIENCE, keysFile } })
    }
    if (word === '') await t.resolves(start())
    else {
      await t.rejects(start(), {
        name: 'SettingsError',
        problems: [
          `IDP_KEYS_FILE (idp.keysFile) is ${JSON.stringify(keysFile)}, which is not usable (${word}); allowed: ` +
          'path of a file with a JWK set of public keys'
        ]
      }, path)
    }
  }
  await t.rejects(
    startList(t, [{ issuer: 'https://a.example/' }, { issuer: 'https://b.example/', keysFile: 'nowhere' }]),
    { message: /idp\.issuers\[1\]\.keysFile is "nowhere"/ }
  )
  await t.rejects(
    startList(t, [{ issuer: 'https://a.example/', keysFile: '-----BEGIN PRIVATE KEY-----' }]),
    { message: /idp\.issuers\[0\]\.keysFile is a key itself \(not shown\), which is not usable/ }
  )
})

/** Another app, with a function instead of the list. */
async function startWithFunction (
  t: Test,
  lookUp: IssuerLookup,
  idp: object = {},
  server: object = {}
): Promise<
  {
    app: FastifyInstance,
    asked: string[],
    log: Array<Record<string, unknown>>,
    ask (
      token: string,
      headers?: object
    ): Promise<{ status: number, body: Record<string, unknown>, retryAfter: unknown }>
  }
> {
  const asked: string[] = []
  const { app, log } = createLoggedApp(t)
  await app.register(auth, {
    idp: {
      audience: AUDIENCE,
      issuers: (iss: string) => {
        asked.push(iss)
        return lookUp(iss)
      },
      ...idp
    },
    server
  })
  app.get('/', { onRequest: app.authenticate() }, ({ auth }) => auth)
  app.decorate('closing', { hasBegun: false } as never)
  app.register(health, { ownPrefix: '' })
  return {
    app,
    asked,
    log,
    async ask (token) {
      const answer = await app.inject({ url: '/', headers: { authorization: `Bearer ${token}` } })
      return { status: answer.statusCode, body: answer.json(), retryAfter: answer.headers['retry-after'] }
    }
  }
}

/** Milliseconds by which the steady clock of the process is ahead. */
let aheadMs = 0
const realNow = performance.now.bind(performance)
performance.now = () => realNow() + aheadMs

t.test('A function may name the issuers: it is called once, and again after 5 s', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  let record: object | undefined = { issuer: provider.issuer }
  const { app, asked, ask, log } = await startWithFunction(t, async iss => iss === provider.issuer ? record : undefined)
  const token = makeToken(provider.issuer, a)
  t.hasStrict(log.find(({ event }) => event === 'settings_in_force'), { issuers: 'function', audience: AUDIENCE })
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(token)))
  t.ok(answers.every(({ status, body }) => status === 200 && body.issuer === provider.issuer))
  t.equal((await ask(token)).status, 200)
  t.strictSame([asked, provider.fetches], [[provider.issuer], 1])
  t.equal((await ask(makeToken('https://other.example/', a))).status, 401)
  t.equal((await ask(makeToken('https://other.example/', a))).status, 401)
  t.equal(
    (await ask(makeToken(`https://${'x'.repeat(3000)}.example/`, a))).status,
    401,
    'the function is not called with a name of that length'
  )
  t.strictSame(asked, [provider.issuer, 'https://other.example/'])
  t.strictSame(app.holdfastGuard.parts.issuers!.all().map(({ issuer }) => issuer), [provider.issuer])
  t.hasStrict(
    (await app.inject('/health/ready')).json(),
    { status: 'ok', checks: { keys: 'ok' } },
    'no tenant takes the others out of service'
  )

  aheadMs += 5000
  t.equal((await ask(token)).status, 200)
  t.strictSame([asked.length, provider.fetches], [3, 1], 'the same answer keeps the keys')
  aheadMs += 5000
  record = { issuer: provider.issuer, audience: 'https://b.example' }
  t.equal((await ask(token)).status, 401, 'another answer holds at once, also for tokens that were verified before')
  t.equal((await ask(makeToken(provider.issuer, a, { claims: { aud: 'https://b.example' } }))).status, 200)
  aheadMs += 5000
  record = undefined
  t.equal(
    (await ask(makeToken(provider.issuer, a, { claims: { aud: 'https://b.example' } }))).status,
    401,
    'and so does the end of an issuer'
  )
  t.strictSame(app.holdfastGuard.parts.issuers!.all(), [])
})

t.test('A function may name a key file, which is logged and read again like any other', async t => {
  fiveSecondsMs = 50
  t.teardown(() => {
    fiveSecondsMs = 5000
  })
  const issuer = 'https://offline.example/'
  const keysFile = join(t.testdir({ 'keys.json': setOf(a.jwk) }), 'keys.json')
  const { ask, log } = await startWithFunction(t, async () => ({ issuer, keysFile }))
  t.equal((await ask(makeToken(issuer, a))).status, 200)
  const fetched = () => log.filter(({ event }) => event === 'keys_fetched')
  t.hasStrict(fetched(), [{ issuer, keys: 1, added: 1, removed: 0 }])
  writeFileSync(keysFile, setOf({ ...b.jwk, kid: 'k' }))
  await until(() => fetched().length > 1)
  t.strictSame([(await ask(makeToken(issuer, a))).status, (await ask(makeToken(issuer, b))).status], [401, 200])
})

t.test('A function that fails, or returns an unusable issuer, is 503; one that returns another issuer counts as none', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  let answer: () => unknown = () => ({ issuer: provider.issuer })
  const { ask, log } = await startWithFunction(t, async () => answer() as object | undefined)
  const bad: Array<[title: string, answer: () => unknown]> = [
    ['it throws', () => {
      throw new Error('the database is away')
    }],
    ['it rejects', () => Promise.reject(new Error('the database is away'))],
    ['it names an unknown member', () => ({ issuer: provider.issuer, audiance: 'x' })],
    ['it names a bad value', () => ({ issuer: provider.issuer, algs: ['HS256'] })],
    ['it names no issuer', () => ({ audience: 'x' })],
    ['it answers with a text', () => 'yes'],
    ['it answers with null', () => null],
    ['it names a missing key file', () => ({ issuer: provider.issuer, keysFile: '/nowhere' })]
  ]
  for (const [title, make] of bad) {
    answer = make
    t.hasStrict(await ask(makeToken(provider.issuer, a)), { status: 503, retryAfter: '1' }, title)
  }
  const failures = () =>
    log.filter(({ event }) => event === 'issuers_unavailable').map(({ level, failure }) => [level, failure])
  t.strictSame(failures(), [[40, 'the database is away']], 'logged once')
  answer = () => ({ issuer: 'https://other.example/' })
  t.equal((await ask(makeToken(provider.issuer, a))).status, 401)
  aheadMs += 5000
  answer = () => ({ issuer: provider.issuer.slice(0, -1), audience: AUDIENCE })
  t.equal((await ask(makeToken(provider.issuer, a))).status, 200, 'the last slash makes no difference')
  aheadMs += 5000
  answer = () => {
    throw new Error('away again')
  }
  for (const turn of ['first', 'again']) t.equal((await ask(makeToken(provider.issuer, a))).status, 503, turn)
  t.strictSame(failures(), [[40, 'the database is away'], [40, 'away again']], 'a failure after a success is news')
})

t.test('A function that rejects with anything but an error is in the log as well', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  for (
    const [reason, failure] of [[undefined, 'it failed without an error'], [null, 'it failed without an error'], [
      'a text',
      'it failed without an error'
    ], [{ message: 'an object' }, 'an object']] as const
  ) {
    const { ask, log } = await startWithFunction(t, () => Promise.reject(reason))
    t.hasStrict(await ask(makeToken(provider.issuer, a)), { status: 503, retryAfter: '1' })
    t.strictSame(
      log.filter(({ event }) => event === 'issuers_unavailable').map(({ level, failure }) => [level, failure]),
      [[40, failure]],
      String(reason)
    )
  }
})

t.test('A function cannot name the issuer of opaque tokens, because they name none', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  const client = { clientId: 'api', clientSecret: 's' }
  const allowed = 'allowed if a function names the issuers: off or jwt, because an opaque token names no issuer'
  for (const covers of ['opaque', 'all'] as const) {
    const { ask, log } = await startWithFunction(
      t,
      async () => ({ issuer: provider.issuer, introspection: { for: covers, ...client } })
    )
    t.hasStrict(await ask(makeToken(provider.issuer, a)), { status: 503, retryAfter: '1' }, covers)
    t.strictSame(log.filter(({ event }) => event === 'issuers_unavailable').map(({ failure }) => failure), [
      `The settings are not usable:\n  - idp.issuers[0].introspection.for is "${covers}"; ${allowed}`
    ])
    await t.rejects(startWithFunction(t, async () => undefined, { introspection: { for: covers, ...client } }), {
      name: 'SettingsError',
      message: `The settings are not usable:\n  - IDP_INTROSPECTION (idp.introspection.for) is "${covers}"; ${allowed}`
    })
  }
  const { ask } = await startWithFunction(t, async () => ({ issuer: provider.issuer, introspection: { for: 'off' } }), {
    introspection: { for: 'jwt', ...client }
  })
  t.equal((await ask(makeToken(provider.issuer, a))).status, 200, 'the twin')
})

t.test(
  'What a function leaves out of introspection is taken from the settings beside it, and what is missing in both ' +
    'is logged',
  async t => {
    const provider = await startTokenProvider(t, a.jwk)
    const failures = async (idp: object) => {
      const { ask, log } = await startWithFunction(
        t,
        async () => ({ issuer: provider.issuer, introspection: { for: 'jwt' } }),
        idp
      )
      t.equal((await ask(makeToken(provider.issuer, a))).status, 503)
      return log.filter(({ event }) => event === 'issuers_unavailable').map(({ failure }) => failure)
    }
    t.strictSame(
      await failures({ introspection: { clientId: 'api', clientSecret: 's' } }),
      [],
      'the provider is called, and has no introspection endpoint'
    )
    t.match(await failures({ introspection: { clientId: 'api' } }), [
      /^The settings are not usable:\n {2}- idp\.issuers\[0\]\.introspection\.clientSecret is not set; /
    ])
  }
)

t.test(
  'A function that does not answer is 503 after 5 s, and a flood of made-up issuers does not affect the known ' +
    'ones',
  async t => {
    const provider = await startTokenProvider(t, a.jwk)
    fiveSecondsMs = 1500
    t.teardown(() => {
      fiveSecondsMs = 5000
    })
    const waiting: Array<(record?: object) => void> = []
    const { ask, asked, log } = await startWithFunction(
      t,
      iss =>
        iss === provider.issuer
          ? { issuer: provider.issuer }
          : new Promise(resolve => {
            waiting.push(resolve)
          })
    )
    t.equal((await ask(makeToken(provider.issuer, a))).status, 200)
    const flood = Promise.all(Array.from({ length: 100 }, (_, index) => ask(makeToken(`https://${index}.example/`, a))))
    await until(() => waiting.length === 64)
    aheadMs += 5000
    t.equal((await ask(makeToken(provider.issuer, a))).status, 200)
    t.equal(asked.length, 66)
    for (const resolve of waiting.slice(1)) resolve()
    const statuses = (await flood).map(({ status }) => status)
    t.strictSame(
      [503, 401].map(status => statuses.filter(each => each === status).length),
      [37, 63],
      'one has waited for 5 s, 36 were too many'
    )
    t.hasStrict(log.filter(({ event }) => event === 'issuers_unavailable'), [{ failure: 'no answer within 5 s' }])
  }
)

t.test('A token that its claims refuse fetches no keys, and neither does one that waits for the function at the close', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  const waiting: Array<(record?: object) => void> = []
  const { app, ask } = await startWithFunction(
    t,
    () =>
      new Promise(resolve => {
        waiting.push(resolve)
      })
  )
  const refused = ask(makeToken(provider.issuer, a, { claims: { aud: 'https://other.example' } }))
  await until(() => waiting.length === 1)
  waiting[0]!({ issuer: provider.issuer })
  t.equal((await refused).status, 401)
  aheadMs += 5000
  const late = ask(makeToken(provider.issuer, a))
  await until(() => waiting.length === 2)
  await app.holdfastGuard.parts.close()
  waiting[1]!({ issuer: provider.issuer, tokenProfile: 'any', algs: ['RS256', 'ES256'] })
  t.equal((await late).status, 503)
  t.equal(provider.fetches, 0)
})

t.test('While requests are only observed, a function that does not answer holds none up for 5 s', async t => {
  const waiting: Array<(record?: object) => void> = []
  const { ask, log } = await startWithFunction(
    t,
    () =>
      new Promise(resolve => {
        waiting.push(resolve)
      }),
    {},
    { observe: new Date(Date.now() + 86_400_000).toISOString().slice(0, 10) }
  )
  // The timers of the guard keep no process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  t.equal((await ask(makeToken('https://a.example/', a))).status, 200)
  t.hasStrict(log.filter(({ enforced }) => enforced === false), [{ reason: 'issuers_unavailable' }])
  t.notOk(log.some(({ event }) => event === 'issuers_unavailable'), 'the function itself still has time')
  for (const resolve of waiting) resolve()
})

t.test('120 tenants in turn cause one call each; forged tokens of others evict no tenant', async t => {
  const provider = await startTokenProvider(t, a.jwk)
  const lookUp: IssuerLookup = iss => ({ issuer: iss, jwksUri: provider.jwksUri })
  const { ask } = await startWithFunction(t, lookUp)
  // More than is kept of the keys of a single issuer.
  const tenants = Array.from({ length: 120 }, (_, n) => `https://tenant-${n}.example/`)
  const statuses = async () => {
    const seen = []
    for (const tenant of tenants) seen.push((await ask(makeToken(tenant, a))).status)
    return [...new Set(seen)]
  }
  t.strictSame([await statuses(), provider.fetches], [[200], 120])
  t.strictSame([await statuses(), provider.fetches], [[200], 120], 'the second time there is no call')

  const few = await startWithFunction(t, lookUp, { maxIssuers: 1 })
  t.equal((await few.ask(makeToken(tenants[0]!, a))).status, 200)
  for (const tenant of tenants.slice(1, 20)) {
    t.equal((await few.ask(makeToken(tenant, { ...b, kid: a.kid }))).status, 401)
  }
  await provider.vanish()
  t.equal((await few.ask(makeToken(tenants[0]!, a))).status, 200, 'with its provider down')
  t.equal((await few.ask(makeToken(tenants[1]!, a))).status, 200, 'another one passes too')
  t.equal((await few.ask(makeToken(tenants[0]!, a))).status, 503, 'and takes the one place')
})

t.test('The number of tenants that are kept is an integer, and belongs to a function', async t => {
  for (const maxIssuers of [1, 100_000]) await t.resolves(startWithFunction(t, async () => undefined, { maxIssuers }))
  for (const maxIssuers of [0, 1.5, 100_001, '7', null]) {
    await t.rejects(startWithFunction(t, async () => undefined, { maxIssuers }), {
      name: 'SettingsError',
      problems: [`idp.maxIssuers is ${JSON.stringify(maxIssuers)}; allowed: integer, 1 to 100000`]
    })
  }
  await t.rejects(async () => {
    await Fastify().register(auth, { idp: { issuer: 'https://a.example/', audience: AUDIENCE, maxIssuers: 7 } })
  }, { name: 'SettingsError', problems: ['options: unknown key "idp.maxIssuers"'] })
})

t.test('A function replaces the single settings, and cannot be set beside them', async t => {
  for (const idp of [{ issuer: 'https://a.example/' }, { domain: 'a.example' }]) {
    await t.rejects(
      async () => {
        await Fastify().register(auth, { dpop: {} })
      },
      { message: /IDP_DOMAIN \(idp\.domain\) is not set/ },
      'and without any, they are missing'
    )
    await t.rejects(startWithFunction(t, async () => undefined, idp), {
      name: 'SettingsError',
      message: /idp\.issuers is set too/
    })
  }
})
