import { randomBytes, sign } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { stopClock, nowSeconds } from '../helpers/clock.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { startConnectProxy } from '../helpers/connect-proxy.ts'
import { html, startHostileProvider, type HostileProvider } from '../helpers/hostile-provider.ts'
import { AUDIENCE, makeIssuerKey, type Issuer, type IssuerKey } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { rsaJwk } from '../helpers/rsa-jwk.ts'
import { JWT_TOOLS, jwtToolsInUse } from '../helpers/jwt-tools.ts'
import { countVerifications } from '../helpers/verifications.ts'
import type { Variables } from '../helpers/variables.ts'
import { listen } from '../helpers/listen.ts'

const a = makeIssuerKey('a')
const b = makeIssuerKey('b')
const c = makeIssuerKey('c')

interface Bench extends RunningApp {
  provider: HostileProvider
  /** Status and Retry-After of a request with a fresh token of this key. */
  ask (key: IssuerKey, kid?: string): Promise<{ status: number, retryAfter: string | null }>
  send (token: string): Promise<{ status: number, retryAfter: string | null }>
  /** Without a kid of its own it has that of the key; null is none. */
  token (key: IssuerKey, kid?: string | null): string
  ready (): Promise<{ status: number, keys: unknown }>
  events (): unknown[]
}

async function start (t: Test, prepare: (provider: HostileProvider) => void, settings: Variables = {}): Promise<Bench> {
  const provider = await startHostileProvider()
  t.teardown(provider.close)
  prepare(provider)
  const running = await startApp(t, { url: provider.issuer } as Issuer, settings)
  let serial = 0
  const token = ({ privateKey }: IssuerKey, kid: string | null) => {
    const now = nowSeconds()
    const claims = { iss: provider.issuer, aud: AUDIENCE, sub: 'user-1', exp: now + 3600, jti: String(serial++) }
    return encodeJws({ alg: 'RS256', kid: kid ?? undefined }, claims, input => sign('sha256', input, privateKey))
  }
  const send = async (text: string) => {
    const answer = await fetch(`${running.url}/api/private`, { headers: { authorization: `Bearer ${text}` } })
    await answer.arrayBuffer()
    return { status: answer.status, retryAfter: answer.headers.get('retry-after') }
  }
  return {
    ...running,
    provider,
    token: (key, kid = key.kid) => token(key, kid),
    send,
    ask: (key, kid = key.kid) => send(token(key, kid)),
    async ready () {
      const answer = await fetch(`${running.url}/health/ready`)
      return { status: answer.status, keys: (await answer.json() as { checks: { keys: unknown } }).checks.keys }
    },
    events: () => running.log.map(({ event }) => event).filter(event => String(event).startsWith('keys_'))
  }
}

/** Milliseconds by which the clock of the process is ahead. Timers stay as they are. */
let aheadMs = 0
const realNow = Date.now
Date.now = () => realNow() + aheadMs

t.test('Through a rotation under load no good request fails, and the tokens of the old key end with it', async t => {
  const { provider, ask, send, token } = await start(t, provider => provider.publish(a.jwk))
  const old = token(a)
  t.equal((await send(old)).status, 200)
  let current = [a]
  const load = { isOn: true, turns: [0, 0] }
  const statuses = new Map<number, number>()
  const client = async (_: unknown, number: number) => {
    for (let turn = 0; load.isOn; turn++) {
      const { status } = await ask(current[turn % current.length]!)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      load.turns[number]!++
      await delay(1)
    }
  }
  t.teardown(() => {
    load.isOn = false
  })
  const clients = Promise.all(load.turns.map(client))
  /** Until each client has begun and ended a request with each key. */
  const clientsHaveSeen = async () => {
    const before = [...load.turns]
    while (load.turns.some((turns, number) => turns < before[number]! + 3)) await delay(5)
  }
  await clientsHaveSeen()
  provider.publish(a.jwk, b.jwk)
  current = [a, b]
  await clientsHaveSeen()
  current = [b]
  await clientsHaveSeen()
  provider.publish(b.jwk)
  aheadMs += 10 * 60_000
  await ask(b)
  // A verified token of the key that is gone, as soon as the set has been read.
  while ((await send(old)).status !== 401) await delay(5)
  await clientsHaveSeen()
  load.isOn = false
  await clients
  t.strictSame([...statuses.keys()], [200])
  t.ok(
    provider.fetches <= 4,
    `${provider.fetches} fetches: the start, the new key, the refresh, and one for the token of the old key`
  )
})

t.test(
  'A flood of unknown kids causes one fetch each 30 s on average, with three in reserve, and no good request ' +
    'fails',
  async t => {
    // On a busy machine the flood may take longer than the next fetch has to wait.
    const advance = stopClock(t)
    const { provider, ask, token, send } = await start(t, provider => provider.publish(a.jwk))
    t.equal((await ask(a)).status, 200)
    // Without a key nobody looks at a signature, and to make one takes longer than to refuse it.
    const forged = (kid: string) =>
      encodeJws(
        { alg: 'RS256', kid },
        { iss: provider.issuer, aud: AUDIENCE, sub: 'u', exp: 9e9 },
        () => randomBytes(256)
      )
    const flood = () =>
      Promise.all(
        Array.from({ length: 100 }, (_, index) => index % 10 ? send(forged(`unknown-${index}`)) : ask(a))
      )
    for (let round = 0; round < 4; round++) {
      const answers = await flood()
      t.ok(answers.every(({ status }, index) => status === (index % 10 ? 401 : 200)))
    }
    t.equal(provider.fetches, 4)
    for (const claims of [{ aud: 'other' }, { exp: 1 }]) {
      const text = encodeJws({ alg: 'RS256', kid: 'x' }, {
        iss: provider.issuer,
        aud: AUDIENCE,
        sub: 'u',
        exp: 9e9,
        ...claims
      }, input => sign('sha256', input, b.privateKey))
      advance(30_000)
      t.equal((await send(text)).status, 401)
    }
    t.equal(provider.fetches, 4, 'tokens that their claims refuse cause none')
    provider.publish(a.jwk, b.jwk)
    t.equal((await send(token(b))).status, 200, 'a new key is found at the next fetch that is allowed')
    t.equal(provider.fetches, 5)
  }
)

t.test('With no key at hand all waiting requests share one fetch, and get Retry-After', async t => {
  const held: ServerResponse[] = []
  const { app, provider, ask, ready, url, events } = await start(t, provider => {
    provider.publish(a.jwk)
    provider.jwks = (_request, response) => {
      held.push(response)
    }
  })
  const arrived: unknown[] = []
  app.server.on('request', ({ url }) => {
    if (url === '/api/private') arrived.push(url)
  })
  const waiting = Promise.all(Array.from({ length: 50 }, () => ask(a)))
  while (held.length === 0) await delay(5)
  t.equal((await fetch(`${url}/api/public`)).status, 200, 'public endpoints answer meanwhile')
  t.strictSame(await ready(), { status: 503, keys: 'empty' })
  while (arrived.length < 50) await delay(5)
  provider.publish(a.jwk)
  held[0]!.writeHead(500).end()
  for (const { status, retryAfter } of await waiting) {
    t.ok(status === 503 && /^[12]$/.test(retryAfter!), `${status} ${retryAfter}`)
  }
  t.equal(provider.fetches, 1)
  for (let left = 100; (await ask(a)).status !== 200 && left > 0; left--) await delay(50)
  t.equal(provider.fetches, 2, 'and the provider is found again without a restart')
  t.strictSame(await ready(), { status: 200, keys: 'ok' })
  t.strictSame(events(), ['keys_fetch_failed', 'keys_fetched'])
})

t.test('While a refresh fails the keys at hand stay in use, and readiness says so', async t => {
  const { provider, ask, ready, events, log } = await start(t, provider => provider.publish(a.jwk))
  t.equal((await ask(a)).status, 200)
  provider.jwks = html(500)
  t.match(await ask(b), { status: 503, retryAfter: /^[12]$/ }, 'it is unknown whether there is such a key')
  t.equal((await ask(a)).status, 200)
  t.strictSame(await ready(), { status: 200, keys: 'stale' })
  for (let turn = 0; turn < 5; turn++) await ask(b)
  t.strictSame(events(), ['keys_fetched', 'keys_fetch_failed'], 'one line for the change, none for requests')
  aheadMs += 24 * 60 * 60_000
  t.hasStrict(await ask(a), { status: 503 })
  t.strictSame(await ready(), { status: 503, keys: 'expired' })
  while (!events().includes('keys_expired')) await delay(5)
  t.hasStrict(
    log.filter(({ event }) => event === 'keys_expired'),
    [{ level: 40, msg: 'keys expired' }],
    'logged when the next fetch has failed'
  )
})

t.test('Without a usable key the service is not ready, and tokens are refused, because the provider has answered', async t => {
  const unusable = { ...a.jwk, use: 'enc' }
  const { provider, ask, ready, url, reasons } = await start(t, provider => provider.publish(unusable))
  t.equal((await ask(a)).status, 401)
  t.strictSame(await ready(), { status: 503, keys: 'none_usable' })
  t.strictSame(await (await fetch(`${url}/health/ready`)).json(), {
    status: 'unavailable',
    checks: { process: 'ok', keys: 'none_usable', replay: 'ok' }
  })
  t.equal((await fetch(`${url}/health/live`)).status, 200)
  t.strictSame(reasons(), ['token_key_unknown'])

  aheadMs += 30_000
  provider.jwks = html(500)
  t.equal((await ask(a)).status, 503, 'it is unknown whether there is a key by now')
  t.strictSame(await ready(), { status: 503, keys: 'none_usable' }, 'a failure afterwards makes it no readier')
})

t.test('One usable key makes the service ready, and an empty set makes it unready again', async t => {
  const { provider, ask, ready } = await start(t, provider => provider.publish({ ...a.jwk, use: 'enc' }, b.jwk))
  t.equal((await ask(b)).status, 200)
  t.strictSame(await ready(), { status: 200, keys: 'ok' })
  provider.publish()
  await ask(a)
  t.strictSame(await ready(), { status: 503, keys: 'none_usable' })
  t.equal((await ask(b)).status, 401)
})

t.test('Of several keys under one kid each verifies tokens, and when one goes only its own tokens go with it', async t => {
  const twin = { ...b, kid: a.kid, jwk: { ...b.jwk, kid: a.kid } }
  const { provider, ask, send, token, reasons } = await start(t, provider => provider.publish(a.jwk, twin.jwk))
  const [ofFirst, ofSecond] = [token(a), token(twin)]
  t.equal((await send(ofFirst)).status, 200)
  t.equal((await send(ofSecond)).status, 200)
  t.equal((await ask(c, a.kid)).status, 401, 'a key that is not published')
  t.strictSame(reasons(), ['token_signature'])
  t.equal(provider.fetches, 2, 'it may have been put under a known kid')
  provider.publish(twin.jwk)
  await ask(c, 'unknown')
  t.equal((await send(ofFirst)).status, 401)
  t.equal((await send(ofSecond)).status, 200)
  t.strictSame(reasons(), ['token_signature', 'token_key_unknown', 'token_signature'])
})

t.test('A token is tried against at most 8 keys and confirmed by one, whatever the provider publishes', async t => {
  const others = Array.from({ length: 99 }, (_, index) => rsaJwk('many', 0x80 + index))
  const { provider, send, token, reasons } = await start(
    t,
    provider => provider.publish(...others.slice(0, 7), b.jwk, ...others.slice(7))
  )
  // Of these keys, fast-jwt parses the one that it confirms; node:crypto has nothing to confirm.
  const isConfirmed = jwtToolsInUse() === JWT_TOOLS.packages ? 1 : 0
  const cases: Array<
    [text: string, status: number, reason: string | undefined, kept: number, anew: number, title: string]
  > = [
    [token(a, null), 401, 'token_signature', 8, 0, 'no key, without kid, whose keys were parsed when they were fetched'],
    [token(b, null), 200, undefined, 8, isConfirmed, 'the eighth key, without kid'],
    [token(a, 'many'), 401, 'token_signature', 8, 0, 'no key of that kid'],
    [token(b, 'many'), 401, 'token_signature', 8, 0, 'a key of another kid'],
    [token(a, null), 401, 'token_signature', 8, 0, 'no key, without kid'],
    [token(b), 200, undefined, 1 - isConfirmed, isConfirmed, 'the key of that kid'],
    [token(a, 'x'.repeat(10_000)), 401, 'token_key_unknown', 0, 0, 'a long kid of no key'],
    [token(a, '__proto__'), 401, 'token_key_unknown', 0, 0, 'a kid that objects inherit']
  ]
  for (const [text, status, reason, kept, anew, title] of cases) {
    const [before, logged] = [countVerifications(), reasons().length]
    t.equal((await send(text)).status, status, title)
    const after = countVerifications()
    t.strictSame(reasons().slice(logged), reason === undefined ? [] : [reason], title)
    t.strictSame({ kept: after.kept - before.kept, anew: after.anew - before.anew }, { kept, anew }, title)
  }
  t.equal(provider.fetches, 4, 'the set was fetched three times more, for all that no key has signed')
})

/** A proxy that answers as the provider itself, with a key of its own. */
async function startForgingProxy (
  t: Test,
  key: IssuerKey
) {
  const requests: string[] = []
  let host = ''
  const server = createServer((request, response) => {
    requests.push(request.url!)
    response.end(JSON.stringify({ issuer: `http://${host}/`, jwks_uri: `http://${host}/jwks`, keys: [key.jwk] }))
  })
  server.on('connect', (request, client: Duplex) => {
    host = request.url!
    client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    server.emit('connection', client)
  })
  const port = await listen(t, server)
  return { url: `http://127.0.0.1:${port}`, requests }
}

t.test('A proxy cannot replace the keys of a provider on loopback', async t => {
  const proxy = await startForgingProxy(t, b)
  const { provider, ask } = await start(t, provider => provider.publish(a.jwk), {
    HTTP_PROXY: proxy.url,
    HTTPS_PROXY: proxy.url
  })
  t.equal((await ask(a)).status, 200)
  t.equal((await ask(b)).status, 401, 'the key of the proxy')
  t.strictSame(proxy.requests, [])
  t.ok(provider.fetches > 0)
})

t.test('The settings of proxies apply to the calls to the provider', async t => {
  const proxy = await startConnectProxy()
  const provider = await startHostileProvider({ tls: true, hostname: 'idp.test' })
  t.teardown(() => Promise.all([proxy.close(), provider.close()]))
  const tunnel = `idp.test:${provider.port}`
  for (
    const [settings, tunnels] of [
      [{ HTTPS_PROXY: proxy.url, NO_PROXY: 'idp.test' }, []],
      [{ HTTP_PROXY: proxy.url }, [tunnel]],
      [{ HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: proxy.url }, [tunnel]]
    ] as const
  ) {
    proxy.tunnels.length = 0
    const { log } = await startApp(t, { url: provider.issuer } as Issuer, settings)
    while (!log.some(({ event }) => event === 'keys_fetch_failed')) await delay(5)
    // Its certificate is not trusted here, so it is soon asked again.
    t.strictSame([...new Set(proxy.tunnels)], tunnels)
  }
})
