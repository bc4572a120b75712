import { createPublicKey, sign, verify } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { containing } from '../../../helpers/containing.ts'
import {
  createKeySetFetch,
  createKeySetFinder,
  type ProviderKeysOptions
} from '../../../../lib/guard/provider/fetch-key-set.ts'
import {
  createKeySource,
  KEY_SOURCE_STATUSES,
  type KeySource,
  type KeySourceEvent,
  type KeySourceOptions
} from '../../../../lib/guard/provider/key-source.ts'
import { ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'
import { createTransport, type Transport } from '../../../../lib/guard/provider/transport.ts'
import { Clock } from '../../../helpers/clock.ts'
import { startConnectProxy } from '../../../helpers/connect-proxy.ts'
import {
  cutShort,
  drip,
  endless,
  hang,
  html,
  json,
  redirect,
  startHostileProvider,
  text,
  type Behaviour,
  type HostileProvider,
  type HostileProviderOptions
} from '../../../helpers/hostile-provider.ts'
import { oddNumber, rsaJwk } from '../../../helpers/rsa-jwk.ts'
import { takeRsaKey } from '../../../helpers/rsa-keys.ts'
import { rowsOf } from '../../../helpers/rows.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const a = rsaJwk('a', 0x81)
const b = rsaJwk('b', 0x82)

/** What differs from one source to the next: where its keys are, and parts of it. */
interface SourceOptions extends Partial<KeySourceOptions & ProviderKeysOptions> {
  issuer?: string
  jwksUri?: string
}

async function setUp (
  t: { teardown (callback: () => unknown): unknown },
  { issuer, jwksUri, transport, locate, ...options }: SourceOptions = {},
  where: HostileProviderOptions = {}
) {
  const provider = await startHostileProvider(where)
  const clock = new Clock()
  const events: KeySourceEvent[] = []
  const source = createKeySource({
    fetch: createKeySetFetch({
      locate: locate ?? createKeySetFinder(issuer ?? provider.issuer, jwksUri),
      algs: ['RS256'],
      transport: transport ?? {
        open: () => createTransport({ deadlineMs: bench.impatient ? 200 : 5000 }).open()
      }
    }),
    now: clock.now,
    steadyMs: clock.steadyMs,
    after: clock.after,
    random: () => 0.5,
    onEvent: event => events.push(event),
    ...options
  })
  t.teardown(async () => {
    await source.close()
    await provider.close()
  })
  async function settled (fetches: number) {
    while (source.state().fetches < fetches || clock.timers.size === 0) await delay(2)
    await delay(0)
  }
  async function next () {
    const { fetches } = source.state()
    clock.advance(clock.nextMs)
    await settled(fetches + 1)
  }
  const bench = { provider, source, clock, events, impatient: false, settled, next }
  return bench
}

const kids = (source: KeySource) => source.candidates(undefined, 'RS256').map(({ kid }) => kid)

t.test('keys are fetched at the start without waiting, and are at hand from then on', async t => {
  const { publicKey, privateKey } = takeRsaKey()
  const { provider, source, events, settled } = await setUp(t)
  provider.publish({ ...publicKey.export({ format: 'jwk' }), kid: 'real', use: 'sig', alg: 'RS256' }, a)

  t.hasStrict(source.state(), { status: 'empty', keys: 0, fetches: 0, fetchedAt: undefined })
  t.strictSame(source.candidates('real', 'RS256'), [])
  t.equal(source.start(), undefined)
  source.start()
  t.strictSame(source.candidates('real', 'RS256'), [], 'nothing has come yet')
  await settled(1)
  t.strictSame(provider.requests, ['/.well-known/openid-configuration', '/jwks'], 'one request for each document')
  t.hasStrict(source.state(), {
    status: 'fresh',
    keys: 2,
    fetches: 1,
    failures: 0,
    fetchedAt: Date.UTC(2030, 0, 1) / 1000,
    lastFailure: undefined
  })
  t.strictSame(events, [{ name: 'keys_fetched', keys: 2, added: 2, removed: 0, passedOver: {} }])

  const [key] = source.candidates('real', 'RS256')
  t.equal(source.candidates('real', 'RS256').length, 1)
  t.equal(key!.kid, 'real')
  t.ok(
    verify('sha256', Buffer.from('x'), createPublicKey(key!.pem), sign('sha256', Buffer.from('x'), privateKey)),
    'the key is the one published'
  )
  t.ok(source.isTrusted(key!))
  t.notOk(source.isTrusted({ ...key! }), 'trust is in the object, not in what it says')
  t.strictSame(source.candidates('unknown', 'RS256'), [])
  t.strictSame(kids(source), ['real', 'a'])
})

t.test('an unchanged set gives the same keys, so none is tried twice', async t => {
  const { provider, source, settled, next } = await setUp(t)
  provider.publish(a, b)
  source.start()
  await settled(1)
  const before = source.candidates(undefined, 'RS256')
  const again = await source.fetchCandidates(undefined, 'RS256')
  t.ok(again.every((key, index) => key === before[index]))
  t.equal(provider.fetches, 2, 'it did fetch')
  provider.publish(b, a)
  await next()
  t.strictSame(source.candidates(undefined, 'RS256'), before.toReversed(), 'the order decides which are the first 8')
})

t.test('a set as large as a set may be is read whole', async t => {
  const { provider, source, settled } = await setUp(t)
  const keys = Array.from(
    { length: 100 },
    (_, index) => ({ ...rsaJwk(`k${index}`, 0x80 + index), n: oddNumber(4096, 0, 0x80 + index) })
  )
  provider.publish(...keys)
  source.start()
  await settled(1)
  t.equal(source.state().keys, 100)
  for (const { kid, n } of keys) {
    t.equal(createPublicKey(source.candidates(kid, 'RS256')[0]!.pem).export({ format: 'jwk' }).n, n)
  }
})

t.test('discovery says where the set is', async t => {
  await t.test('under an issuer with a path', async t => {
    const { provider, source, settled } = await setUp(t, {}, { path: '/realms/x' })
    provider.publish(a)
    source.start()
    await settled(1)
    t.strictSame(provider.requests, ['/realms/x/.well-known/openid-configuration', '/realms/x/jwks'])
    t.strictSame(kids(source), ['a'])
  })
  await t.test('with the issuer written without its trailing slash', async t => {
    const { provider, source, settled } = await setUp(t)
    provider.publish(a)
    provider.discovery = json({ issuer: provider.url, jwks_uri: provider.jwksUri })
    source.start()
    await settled(1)
    t.strictSame(kids(source), ['a'])
  })
  await t.test('on another origin', async t => {
    const { provider, source, settled } = await setUp(t)
    const elsewhere = await startHostileProvider()
    t.teardown(elsewhere.close)
    elsewhere.publish(b)
    provider.discovery = json({ issuer: provider.issuer, jwks_uri: elsewhere.jwksUri })
    source.start()
    await settled(1)
    t.strictSame(kids(source), ['b'])
  })
  await t.test('and without discovery, the set is at its usual place', async t => {
    const { provider, source, settled } = await setUp(t)
    provider.discovery = html(404)
    provider.fallback = json({ keys: [a] })
    source.start()
    await settled(1)
    t.strictSame(provider.requests, [
      '/.well-known/openid-configuration',
      '/.well-known/oauth-authorization-server',
      '/.well-known/jwks.json'
    ])
    t.strictSame(kids(source), ['a'])
  })
  await t.test('in RFC 8414 metadata alone, before or after the path of the issuer', async t => {
    const inserted = '/.well-known/oauth-authorization-server/realms/x'
    const appended = '/realms/x/.well-known/oauth-authorization-server'
    const first = '/realms/x/.well-known/openid-configuration'
    const rows: Array<{ title: string, at: string[], behaviour?: Behaviour, requests: string[], keys: string[] }> = [
      { title: 'inserted', at: [inserted, appended], requests: [first, inserted, '/realms/x/jwks'], keys: ['a'] },
      { title: 'appended', at: [appended], requests: [first, inserted, appended, '/realms/x/jwks'], keys: ['a'] },
      {
        title: 'nowhere',
        at: [],
        requests: [first, inserted, appended, '/realms/x/.well-known/jwks.json'],
        keys: ['b']
      },
      {
        title: 'any other answer ends the search',
        at: [inserted],
        behaviour: html(403),
        requests: [first, inserted],
        keys: []
      },
      {
        title: 'so does a document of another issuer',
        at: [inserted],
        behaviour: json({ issuer: 'https://stranger.example/', jwks_uri: 'https://stranger.example/' }),
        requests: [first, inserted],
        keys: []
      }
    ]
    for (const { title, at, behaviour, requests, keys } of rows) {
      const { provider, source, settled } = await setUp(t, {}, { path: '/realms/x' })
      provider.publish(a)
      provider.discovery = html(404)
      provider.fallback = json({ keys: [b] })
      for (const path of at) {
        provider.others.set(path, behaviour ?? json({ issuer: provider.issuer, jwks_uri: provider.jwksUri }))
      }
      source.start()
      await settled(1)
      t.strictSame(provider.requests, requests, title)
      t.strictSame(kids(source), keys, title)
    }
  })
  await t.test('or that there is none, for an issuer that needs none', async t => {
    const rows: Array<
      { title: string, discovery?: object, fallback?: Behaviour, mayHaveNone: boolean, state: object }
    > = [
      { title: 'a document without jwks_uri', discovery: {}, mayHaveNone: true, state: { status: 'fresh', keys: 0 } },
      {
        title: 'the same of an issuer that needs keys',
        discovery: {},
        mayHaveNone: false,
        state: { status: 'empty', lastFailure: 'discovery_malformed' }
      },
      {
        title: 'a jwks_uri that is no text',
        discovery: { jwks_uri: null },
        mayHaveNone: true,
        state: { status: 'empty', lastFailure: 'discovery_malformed' }
      },
      { title: 'no document at all', mayHaveNone: true, state: { status: 'fresh', keys: 0 } },
      {
        title: 'the same of an issuer that needs keys',
        mayHaveNone: false,
        state: { status: 'empty', lastFailure: 'status' }
      },
      {
        title: 'only keys at the usual place',
        fallback: json({ keys: [a] }),
        mayHaveNone: true,
        state: { status: 'fresh', keys: 1 }
      }
    ]
    for (const { title, discovery, fallback = html(404), mayHaveNone, state } of rows) {
      const provider = await startHostileProvider()
      t.teardown(provider.close)
      const { source, settled } = await setUp(t, {
        locate: createKeySetFinder(provider.issuer, undefined, { mayHaveNone })
      })
      provider.discovery = discovery ? json({ issuer: provider.issuer, ...discovery }) : html(404)
      provider.fallback = fallback
      source.start()
      await settled(1)
      t.hasStrict(source.state(), state, title)
    }
  })
  await t.test('unless the settings name it', async t => {
    const elsewhere = await startHostileProvider()
    t.teardown(elsewhere.close)
    elsewhere.publish(b)
    const { provider, source, settled } = await setUp(t, { jwksUri: elsewhere.jwksUri })
    source.start()
    await settled(1)
    t.strictSame(kids(source), ['b'])
    t.strictSame([provider.requests, elsewhere.requests], [[], ['/jwks']])
  })
})

t.test('a set on loopback by http is fetched without a proxy, whatever the issuer is', async t => {
  const proxy = await startConnectProxy()
  const elsewhere = await startHostileProvider()
  t.teardown(() => Promise.all([proxy.close(), elsewhere.close()]))
  elsewhere.publish(b)
  const transport = createTransport({ httpProxy: proxy.url, httpsProxy: proxy.url })
  const configured = await setUp(t, { issuer: 'https://tenant.example/', jwksUri: elsewhere.jwksUri, transport })
  configured.source.start()
  await configured.settled(1)
  t.strictSame(kids(configured.source), ['b'])
  const { provider, source, settled } = await setUp(t, { transport })
  provider.discovery = json({ issuer: provider.issuer, jwks_uri: elsewhere.jwksUri })
  source.start()
  await settled(1)
  t.strictSame(kids(source), ['b'])
  t.strictSame(proxy.tunnels, [])
})

/**
 * Ports that fetch refuses for the sake of browsers, without those that only root may listen on.
 * https://fetch.spec.whatwg.org/#port-blocking
 */
const BLOCKED_PORTS = [
  10080,
  6000,
  5060,
  5061,
  6566,
  6665,
  6666,
  6667,
  6668,
  6669,
  6679,
  6697,
  4045,
  4190,
  3659,
  2049,
  1719,
  1720,
  1723
]

t.test('a provider may be on a port that browsers block', async t => {
  let where: HostileProvider | undefined
  for (const port of BLOCKED_PORTS) where ??= await startHostileProvider({ port }).catch(() => undefined)
  t.teardown(() => where!.close())
  await t.rejects(fetch(where!.issuer), { cause: { message: 'bad port' } }, 'fetch refuses it')
  where!.publish(a)
  const byDiscovery = await setUp(t, { issuer: where!.issuer })
  const configured = await setUp(t, { issuer: where!.issuer, jwksUri: where!.jwksUri })
  for (const { source, settled } of [byDiscovery, configured]) {
    source.start()
    await settled(1)
    t.hasStrict(source.state(), { status: 'fresh', keys: 1, lastFailure: undefined })
  }
  const { provider, source, settled } = await setUp(t)
  provider.discovery = json({ issuer: provider.issuer, jwks_uri: where!.jwksUri })
  source.start()
  await settled(1)
  t.strictSame(kids(source), ['a'], 'when discovery leads there, too')
})

t.test('a discovery document and a set may be nested as deeply as 1 MiB allows', async t => {
  const { provider, source, settled } = await setUp(t)
  const deep = `${'['.repeat(500_000)}${']'.repeat(500_000)}`
  provider.discovery = text(`{"deep":${deep},"issuer":"${provider.issuer}","jwks_uri":"${provider.jwksUri}"}`)
  provider.jwks = text(`{"keys":[{"deep":${deep}},${JSON.stringify(a)}],"deep":[]}`)
  source.start()
  await settled(1)
  t.hasStrict(source.state(), { status: 'fresh', keys: 1, passedOver: { key_type: 1 }, lastFailure: undefined })
})

t.test('an address from which keys may not be fetched is refused at once', async t => {
  t.throws(() => createKeySetFinder('http://tenant.example/', undefined), TypeError)
  t.throws(() => createKeySetFinder('https://tenant.example/', 'http://tenant.example/'), TypeError)
  t.ok(createKeySetFinder('https://tenant.example/', 'https://tenant.example/'))
})

/** Hostile answers, and the failure that each is. */
function hostile (provider: HostileProvider) {
  const discovery = (document: object) => ({
    discovery: json({ issuer: provider.issuer, jwks_uri: provider.jwksUri, ...document })
  })
  return rowsOf<string, { discovery?: Behaviour, jwks?: Behaviour }>({
    deadline: { 'a set that hangs': { jwks: hang() }, 'a discovery document that drips': { discovery: drip() } },
    unreachable: { 'a set cut short': { jwks: cutShort() } },
    not_json: { HTML: { jwks: html() } },
    status: { 'a 500': { jwks: html(500) }, 'a 500 for discovery': { discovery: html(500) } },
    too_large: { 'a set of 1 GB': { jwks: endless(2 ** 30) } },
    redirect: { 'a redirect of discovery': { discovery: redirect('/elsewhere') } },
    set_malformed: {
      null: { jwks: json(null) },
      'an empty object': { jwks: json({}) },
      'keys that are a text': { jwks: json({ keys: 'abc' }) },
      'an array': { jwks: json([null]) },
      'keys of null': { jwks: json({ keys: [null] }) }
    },
    set_too_many_keys: { '10,000 keys': { jwks: json({ keys: Array(10_000).fill({ kty: 'RSA' }) }) } },
    discovery_malformed: {
      'discovery of null': { discovery: json(null) },
      'discovery without an issuer': discovery({ issuer: undefined }),
      'discovery without jwks_uri': discovery({ jwks_uri: undefined })
    },
    discovery_issuer: {
      'discovery of another issuer': discovery({ issuer: 'https://stranger.example/' }),
      'discovery of an issuer that is longer': discovery({ issuer: `${provider.issuer}x` })
    },
    jwks_uri_refused: {
      'jwks_uri on another scheme': discovery({ jwks_uri: 'http://stranger.example/jwks' }),
      'jwks_uri in a file': discovery({ jwks_uri: 'file:///etc/passwd' })
    }
  })
}

t.test('The event of a failure gives the URL, what came and what was expected', async t => {
  const rows: Array<
    {
      behaviours: (provider: HostileProvider) => { discovery?: Behaviour, jwks?: Behaviour },
      path: string,
      facts: object
    }
  > = [
    {
      behaviours: () => ({ jwks: html(500) }),
      path: '/jwks',
      facts: { failure: 'status', status: 500, contentType: 'text/html', expected: '200', found: '500' }
    },
    {
      behaviours: () => ({ jwks: html() }),
      path: '/jwks',
      facts: { failure: 'not_json', status: 200, contentType: 'text/html', expected: 'JSON' }
    },
    {
      behaviours: ({ jwksUri }) => ({
        discovery: json({ issuer: 'https://user:s3cret@stranger.example/\u001b[2J?key=s3cret', jwks_uri: jwksUri })
      }),
      path: '/.well-known/openid-configuration',
      facts: { failure: 'discovery_issuer', status: 200, found: 'https://stranger.example/\\u001b[2J?...' }
    },
    {
      behaviours: ({ issuer }) => ({ discovery: json({ issuer, jwks_uri: `http://${'x'.repeat(300)}/` }) }),
      path: '/.well-known/openid-configuration',
      facts: { failure: 'jwks_uri_refused', expected: 'an https URL', found: `http://${'x'.repeat(246)}...` }
    }
  ]
  for (const { behaviours, path, facts } of rows) {
    const { provider, source, events, settled } = await setUp(t)
    Object.assign(provider, behaviours(provider))
    source.start()
    await settled(1)
    t.hasStrict(events, [{ name: 'keys_fetch_failed', url: provider.url + path, proxy: undefined, ...facts }])
    if ('found' in facts && String(facts.found).includes('stranger')) {
      t.hasStrict(events, [{ expected: provider.issuer }])
    }
    t.notMatch(JSON.stringify(events), containing('s3cret'))
  }
})

t.test('a hostile provider with no key at hand: keys are unavailable, and it gets one request', async t => {
  const sample = await startHostileProvider()
  await sample.close()
  for (const [index, { title }] of hostile(sample).entries()) {
    await t.test(title, async t => {
      const bench = await setUp(t)
      const { provider, source, clock, events, settled, next } = bench
      const { value, outcome: word } = hostile(provider)[index]!
      bench.impatient = word === 'deadline'
      Object.assign(provider, { fallback: json({ keys: [a] }) }, value)
      source.start()
      await t.rejects(source.fetchCandidates('a', 'RS256'), {
        name: 'Refusal',
        reason: 'keys_unavailable',
        detail: { failure: word }
      })
      await settled(1)
      t.hasStrict(source.state(), { status: 'empty', keys: 0, fetches: 1, failures: 1, lastFailure: word })
      t.hasStrict(events, [{ name: 'keys_fetch_failed', failure: word, keys: 0 }])
      t.ok(provider.fetches <= 1)
      t.ok(clock.nextMs >= 1000 && clock.nextMs <= 2000, 'the first step of the back-off')

      provider.publish(a)
      bench.impatient = false
      await next()
      t.equal((await source.fetchCandidates('a', 'RS256')).length, 1, 'its twin without the fault is accepted')
      t.hasStrict(events.slice(1), [{ name: 'keys_fetched', keys: 1, added: 1 }])
    })
  }
})

t.test('a key that the set no longer has is refused at once', async t => {
  const { provider, source, events, settled, next } = await setUp(t)
  provider.publish(a, b)
  source.start()
  await settled(1)
  const [keyA] = source.candidates('a', 'RS256')
  const [keyB] = source.candidates('b', 'RS256')

  provider.publish(b, { kty: 'EC' })
  await next()
  t.notOk(source.isTrusted(keyA!))
  t.ok(source.isTrusted(keyB!))
  t.strictSame(source.candidates('a', 'RS256'), [])
  t.hasStrict(events.slice(1), [{ name: 'keys_fetched', keys: 1, added: 0, removed: 1 }])

  provider.publish({ ...b, n: a.n }, { kty: 'EC' })
  await next()
  t.notOk(source.isTrusted(keyB!), 'another key of the same name is another key')
  t.hasStrict(events.slice(2), [{ name: 'keys_fetched', keys: 1, added: 1, removed: 1 }])

  await next()
  t.equal(events.length, 3, 'a set that stays is no news')
  provider.publish({ ...b, n: a.n })
  await next()
  t.hasStrict(
    events.slice(3),
    [{ name: 'keys_fetched', added: 0, removed: 0, passedOver: {} }],
    'that an entry is no longer passed over is'
  )

  provider.publish()
  await next()
  t.hasStrict(source.state(), { status: 'fresh', keys: 0 }, 'an empty set takes all keys back')
  t.strictSame(source.candidates(undefined, 'RS256'), [])
})

t.test('keys are refreshed in the background before they are 10 minutes old', async t => {
  const bench = await setUp(t)
  const { provider, source, clock, settled, next } = bench
  provider.publish(a)
  source.start()
  await settled(1)
  t.equal(clock.nextMs, 8.75 * MINUTE)
  clock.advance(8.74 * MINUTE)
  t.equal(source.state().fetches, 1)
  provider.jwks = hang()
  bench.impatient = true
  clock.advance(0.01 * MINUTE)
  t.equal(source.state().fetches, 2)
  t.equal(source.candidates('a', 'RS256').length, 1, 'no request waits for it')
  t.equal((await source.fetchCandidates('a', 'RS256')).length, 1)
  clock.at += 2 * MINUTE
  t.equal(source.candidates('a', 'RS256').length, 1, 'nor when it takes long')
  t.equal(source.state().fetches, 2, 'one runs at a time')
  await settled(2)
  bench.impatient = false
  provider.publish(a)
  await next()
  t.hasStrict(source.state(), { status: 'fresh', fetchedAt: clock.now() })
})

t.test('when the timers stood still, the first request after it starts the refresh', async t => {
  for (const ask of ['candidates', 'isTrusted'] as const) {
    const { provider, source, clock, settled } = await setUp(t)
    provider.publish(a)
    source.start()
    await settled(1)
    const [key] = source.candidates('a', 'RS256')
    const use = () => {
      ask === 'candidates' ? source.candidates('a', 'RS256') : source.isTrusted(key!)
    }
    clock.at += 10 * MINUTE - 1
    use()
    t.equal(source.state().fetches, 1)
    clock.at += 1
    use()
    use()
    t.equal(source.state().fetches, 2)
    await settled(2)
    t.equal(source.state().fetchedAt, clock.now())
  }
})

t.test('with the provider down keys serve for 24 h and no longer', async t => {
  const { provider, source, clock, events, settled, next } = await setUp(t)
  provider.publish(a)
  const statuses = [source.state().status]
  source.start()
  await settled(1)
  statuses.push(source.state().status)
  const [key] = source.candidates('a', 'RS256')
  const [fetchedAt, fetchedAtMs] = [clock.now(), clock.at]
  await provider.vanish()
  await next()
  statuses.push(source.state().status)
  t.hasStrict(source.state(), { status: 'stale', keys: 1, lastFailure: 'unreachable', fetchedAt })
  await t.rejects(
    source.fetchCandidates('b', 'RS256'),
    { name: 'Refusal', reason: 'keys_unavailable' },
    'it is unknown whether the provider publishes another key'
  )

  clock.at = fetchedAtMs + 24 * HOUR - 1
  t.ok(source.isTrusted(key!))
  t.equal(source.candidates('a', 'RS256').length, 1)
  clock.at += 1
  t.notOk(source.isTrusted(key!))
  t.strictSame(source.candidates('a', 'RS256'), [])
  t.strictSame(source.candidates(undefined, 'RS256'), [])
  t.hasStrict(source.state(), { status: 'expired', keys: 0, fetchedAt })
  t.strictSame([...statuses, source.state().status], KEY_SOURCE_STATUSES, 'all that there are')
  await t.rejects(source.fetchCandidates('a', 'RS256'), {
    name: 'Refusal',
    reason: 'keys_unavailable',
    detail: { failure: 'unreachable' }
  })

  await next()
  await next()
  t.hasStrict(events.slice(1), [{ name: 'keys_fetch_failed', keys: 1 }, {
    name: 'keys_expired',
    failure: 'unreachable',
    keys: 0
  }])
  t.equal(events.length, 3, 'each reported once')
  await provider.resume()
  await next()
  t.ok(source.isTrusted(key!), 'recovery needs no restart')
  t.hasStrict(source.state(), { status: 'fresh', keys: 1 })
})

t.test('a process that was frozen for more than 24 h fetches before it answers', async t => {
  const { provider, source, clock, settled } = await setUp(t)
  provider.publish(a)
  source.start()
  await settled(1)
  clock.at += 25 * HOUR
  t.strictSame(source.candidates('a', 'RS256'), [])
  t.equal((await source.fetchCandidates('a', 'RS256')).length, 1)
  t.equal(provider.fetches, 2)
})

t.test('a process that was frozen while requests waited for keys does not say that there are none', async t => {
  let frozenMs = 0
  const { provider, source, clock, settled } = await setUp(t, {
    onEvent: () => {
      clock.at += frozenMs
    }
  })
  provider.publish(a)
  source.start()
  await settled(1)
  provider.publish(a, b)
  // It freezes between the fetch and the requests that wait for it.
  frozenMs = 25 * HOUR
  await t.rejects(source.fetchCandidates('b', 'RS256'), { name: 'Refusal', reason: 'keys_unavailable' })
})

t.test('a refresh that a frozen process catches up on does not count as one for a kid', async t => {
  let frozenMs = 0
  const { provider, source, clock, settled } = await setUp(t, {
    onEvent: () => {
      clock.at += frozenMs
    }
  })
  source.start()
  frozenMs = 11 * MINUTE
  const waiting = source.fetchCandidates('b', 'RS256')
  provider.publish(a)
  t.strictSame(await waiting, [])
  frozenMs = 0
  await settled(2)
  provider.publish(a, b)
  t.equal((await source.fetchCandidates('b', 'RS256')).length, 1)
  t.equal(source.state().fetches, 3)
})

t.test('while the provider fails, only the back-off retries', async t => {
  const { provider, source, clock, settled, next } = await setUp(t)
  await provider.vanish()
  source.start()
  await settled(1)
  const waits: number[] = []
  for (let failures = 1; failures <= 7; failures++) {
    waits.push(clock.nextMs)
    const retryAfterSeconds = Math.ceil(clock.nextMs / 1000)
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        t.rejects(source.fetchCandidates(`k${index}`, 'RS256'), {
          name: 'Refusal',
          reason: 'keys_unavailable',
          retryAfterSeconds
        }))
    )
    await t.rejects(source.fetchCandidates(undefined, 'RS256'), { name: 'Refusal', reason: 'keys_unavailable' })
    t.equal(source.state().fetches, failures, 'no request starts a fetch')
    await next()
  }
  t.strictSame(waits, [1500, 3000, 6000, 12_000, 24_000, 45_000, 45_000])
  await provider.resume()
  provider.publish(a)
  await next()
  t.equal(source.candidates('a', 'RS256').length, 1, 'recovery comes within one step')
  t.equal(clock.nextMs, 8.75 * MINUTE)
})

t.test('the very first fetch does not count as one for a kid: one for a key published just after it may follow at once', async t => {
  const { provider, source } = await setUp(t)
  provider.publish(a)
  t.equal((await source.fetchCandidates('a', 'RS256')).length, 1)
  provider.publish(a, b)
  t.equal((await source.fetchCandidates('b', 'RS256')).length, 1)
  t.equal(source.state().fetches, 2)
})

t.test('a foreign kid does not delay a key that is published just after it', async t => {
  const { provider, source, settled } = await setUp(t)
  provider.publish(a)
  source.start()
  await settled(1)
  t.strictSame(await source.fetchCandidates('foreign', 'RS256'), [])
  provider.publish(a, b)
  t.equal((await source.fetchCandidates('b', 'RS256')).length, 1)
  t.equal(provider.fetches, 3)
})

t.test('a key that is replaced under the same kid is found by the first token that the old one has not signed', async t => {
  const { provider, source, clock, settled } = await setUp(t)
  provider.publish(a, b)
  source.start()
  await settled(1)
  const [old] = source.candidates('a', 'RS256')
  const [other] = source.candidates('b', 'RS256')
  t.strictSame(await source.fetchCandidates('a', 'RS256'), [old], 'it may be a forged token')
  t.equal(provider.fetches, 2)
  provider.publish(rsaJwk('a', 0x83), b)
  const [[fresh], [again]] = await Promise.all([
    source.fetchCandidates('a', 'RS256'),
    source.fetchCandidates('a', 'RS256')
  ])
  t.not(fresh, old)
  t.equal(fresh, again)
  t.notOk(source.isTrusted(old!))
  t.ok(source.isTrusted(other!))
  t.equal(provider.fetches, 3)
  await source.fetchCandidates('a', 'RS256')
  await source.fetchCandidates('a', 'RS256')
  t.equal(provider.fetches, 4, 'forged tokens cause no more fetches than unknown kids')
  clock.advance(30_000)
  await source.fetchCandidates('a', 'RS256')
  t.equal(provider.fetches, 5)
})

t.test('a refresh by the clock does not delay a key that is published just after it', async t => {
  const { provider, source, settled } = await setUp(t)
  provider.publish(a)
  source.start()
  await settled(1)
  provider.publish(a, b)
  t.equal((await source.fetchCandidates('b', 'RS256')).length, 1)
})

t.test('a key that is published while a fetch is under way is fetched when that has ended', async t => {
  for (const kid of ['b', undefined]) {
    const { provider, source, settled, clock } = await setUp(t)
    provider.publish({ ...a, kid: kid && 'a' })
    source.start()
    await settled(1)
    const [old] = source.candidates(undefined, 'RS256')
    let release = () => {}
    provider.jwks = (request, response) => {
      release = () => json({ keys: [{ ...a, kid: kid && 'a' }] })(request, response)
    }
    clock.advance(clock.nextMs)
    while (provider.fetches < 2) await delay(2)
    provider.publish({ ...b, kid })
    const found = source.fetchCandidates(kid, 'RS256')
    release()
    const [key] = await found
    t.equal(key!.kid, kid)
    t.not(key, old)
    t.equal(provider.fetches, 3)
  }
})

t.test('a clock that was set back does not send clients away for longer', async t => {
  const { provider, source, clock, settled } = await setUp(t)
  await provider.vanish()
  source.start()
  await settled(1)
  await t.rejects(source.fetchCandidates('a', 'RS256'), { name: 'Refusal', retryAfterSeconds: 2 })
  clock.setBackMs = HOUR
  await t.rejects(source.fetchCandidates('a', 'RS256'), { name: 'Refusal', retryAfterSeconds: 2 })
})

t.test('once the source is closed, a fetch for an unknown kid fails as unavailable', async t => {
  const { provider, source, settled } = await setUp(t)
  provider.publish(a)
  source.start()
  await settled(1)
  provider.jwks = hang()
  const waiting = t.rejects(source.fetchCandidates('b', 'RS256'), {
    name: 'Refusal',
    reason: 'keys_unavailable',
    detail: { failure: 'closed' }
  })
  await source.close()
  await waiting
})

t.test('a fetch for an unknown kid that fails is reported as unavailable, and keys at hand stay in use', async t => {
  const { provider, source, settled } = await setUp(t)
  provider.publish(a)
  source.start()
  await settled(1)
  provider.jwks = html(500)
  await t.rejects(source.fetchCandidates('b', 'RS256'), {
    name: 'Refusal',
    reason: 'keys_unavailable',
    detail: { failure: 'status' }
  })
  t.equal((await source.fetchCandidates('a', 'RS256')).length, 1)
  t.equal(provider.fetches, 2)
})

t.test('a token without kid that no key has signed causes a fetch just as rarely', async t => {
  const { provider, source, clock, settled } = await setUp(t)
  provider.publish(rsaJwk(undefined, 0x81))
  source.start()
  await settled(1)
  const [before] = source.candidates(undefined, 'RS256')
  provider.publish(rsaJwk(undefined, 0x82))
  const [after] = await source.fetchCandidates(undefined, 'RS256')
  t.not(before!.pem, after!.pem)
  for (let left = 3; left > 0; left--) t.equal((await source.fetchCandidates(undefined, 'RS256'))[0], after)
  t.equal(provider.fetches, 4)
  clock.advance(30_000)
  await source.fetchCandidates(undefined, 'RS256')
  t.equal(provider.fetches, 5)
})

t.test('closing cuts a fetch under way and plans no other', async t => {
  // No deadline would end it before the test.
  const { provider, source, clock, events } = await setUp(t, { transport: createTransport({ deadlineMs: 600_000 }) })
  provider.publish(a)
  provider.jwks = hang()
  source.start()
  while (provider.fetches === 0) await delay(2)
  const waiting = t.rejects(source.fetchCandidates('a', 'RS256'), {
    name: 'Refusal',
    reason: 'keys_unavailable',
    detail: { failure: 'closed' }
  })
  await source.close()
  await waiting
  t.equal(clock.timers.size, 0)
  t.strictSame(events, [], 'nothing is reported')
  source.start()
  await t.rejects(source.fetchCandidates('a', 'RS256'), { name: 'Refusal', reason: 'keys_unavailable' })
  t.equal(provider.fetches, 1)
})

t.test('a source that is closed before it starts never fetches', async t => {
  const { provider, source } = await setUp(t)
  await source.close()
  source.start()
  await t.rejects(source.fetchCandidates('a', 'RS256'), { name: 'Refusal', reason: 'keys_unavailable' })
  t.strictSame([provider.requests, source.state().fetches], [[], 0])
})

t.test('closing while a set is being read adopts nothing', async t => {
  let arrive = () => {}
  const arrived = new Promise<void>(resolve => {
    arrive = resolve
  })
  const transport = {
    open: () => ({
      async send () {
        await arrived
        return { status: 200, body: Buffer.from(JSON.stringify({ keys: [a] })) }
      },
      close () {}
    })
  }
  const { source, clock, events } = await setUp(t, { transport, jwksUri: 'https://keys.example/' })
  source.start()
  const closed = source.close()
  arrive()
  await closed
  t.hasStrict(source.state(), { status: 'empty', keys: 0 })
  t.strictSame([clock.timers.size, events.length], [0, 0])
})

t.test('each fetch ends its session, whether it brings keys or fails', async t => {
  const answers = [async () => ({ status: 200, body: Buffer.from(JSON.stringify({ keys: [a] })) }), async () => {
    throw new ProviderFailure('unreachable')
  }]
  let closed = 0
  const transport = {
    open: () => ({
      send: () => answers.shift()!(),
      close () {
        closed++
      }
    })
  }
  const { source, events, next, settled } = await setUp(t, { transport, jwksUri: 'https://keys.example/' })
  source.start()
  await settled(1)
  t.strictSame([kids(source), closed], [['a'], 1])
  await next()
  t.hasStrict(events.at(-1), { name: 'keys_fetch_failed', failure: 'unreachable' })
  t.equal(closed, 2)
})

t.test('a fault of our own is a failure too, and does not end the fetching', async t => {
  const real = createTransport()
  const fault = () => {
    throw new RangeError('out of range')
  }
  const unreadable = {
    status: 200,
    get body () {
      return fault()
    }
  }
  const faults: Array<Pick<Transport, 'open'>> = [{ open: fault }, {
    open: () => ({ send: async () => unreadable, close () {} })
  }]
  for (const broken of faults) {
    let current = broken
    const { provider, source, events, next, settled } = await setUp(t, { transport: { open: () => current.open() } })
    provider.publish(a)
    source.start()
    await settled(1)
    t.hasStrict(events, [{ name: 'keys_fetch_failed', failure: 'unexpected', detail: 'RangeError' }])
    current = real
    await next()
    t.strictSame(kids(source), ['a'])
  }
})
