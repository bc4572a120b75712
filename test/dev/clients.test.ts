import { randomUUID } from 'node:crypto'
import * as dpop from 'dpop'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import t, { type Test } from 'tap'
import { startProvider } from '../../dev/provider/provider.ts'
import type { Variables } from '../helpers/variables.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { atAnotherTime } from '../helpers/clock.ts'
import { AUDIENCE, type Issuer } from '../helpers/issuer.ts'

const provider = await startProvider({ audience: AUDIENCE })
t.teardown(() => provider.close())

const HOURS = 3600
const grant = { resource: AUDIENCE, scope: 'read:messages' }
const insecure = { [oauth.allowInsecureRequests]: true } as const

/** The service in front of the local provider. */
const start = (t: Test, values: Variables = {}) =>
  startApp(t, { url: provider.issuer } as Issuer, values)

/** What the service made of its requests so far: the status of each. */
const statuses = ({ log }: RunningApp) =>
  log.filter(({ msg }) => msg === 'request answered').map(({ status }) => status)

/** The log line of a request is written once its answer has been sent. */
async function expectStatuses (t: Test, running: RunningApp, expected: number[]) {
  for (let tries = 0; statuses(running).length < expected.length && tries < 6000; tries++) {
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  t.strictSame(statuses(running), expected, `the service answered ${expected.join(', then ')}`)
}

/** Calls the API once, by the library's own means, with its one retry if it gets a nonce. Rejects when refused. */
interface RealClient {
  /** `skewSeconds` is how far the clock of the client is off when it makes its proofs. */
  call (url: string, options: { bound: boolean, skewSeconds?: number }): Promise<number>
}

const oauth4webapi: RealClient = {
  async call (url, { bound, skewSeconds = 0 }) {
    const issuer = new URL(provider.issuer)
    const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure))
    const client: oauth.Client = { client_id: provider.clientId }
    const keyPair = await oauth.generateKeyPair('ES256')
    const handle = bound ? oauth.DPoP(client, keyPair) : undefined
    const answer = await oauth.clientCredentialsGrantRequest(
      server,
      client,
      oauth.ClientSecretPost(provider.clientSecret),
      grant,
      { ...insecure, DPoP: handle }
    )
    const { access_token: token } = await oauth.processClientCredentialsResponse(server, client, answer)
    const DPoP = bound ? oauth.DPoP({ ...client, [oauth.clockSkew]: skewSeconds }, keyPair) : undefined
    const request = () =>
      oauth.protectedResourceRequest(token, 'GET', new URL(url), undefined, null, { ...insecure, DPoP })
    const response = await request().catch(error => {
      if (DPoP && oauth.isDPoPNonceError(error)) return request()
      throw error
    })
    return response.status
  }
}

const openidClient: RealClient = {
  async call (url, { bound, skewSeconds = 0 }) {
    const discover = (metadata: object) =>
      openid.discovery(
        new URL(provider.issuer),
        provider.clientId,
        metadata,
        openid.ClientSecretPost(provider.clientSecret),
        { execute: [openid.allowInsecureRequests] }
      )
    const config = await discover({})
    const keyPair = await openid.randomDPoPKeyPair('ES256')
    const handle = bound ? openid.getDPoPHandle(config, keyPair) : undefined
    const { access_token: token } = await openid.clientCredentialsGrant(config, grant, handle && { DPoP: handle })
    const skewed = await discover({ [openid.clockSkew]: skewSeconds })
    const response = await openid.fetchProtectedResource(
      skewed,
      token,
      new URL(url),
      'GET',
      undefined,
      undefined,
      bound ? { DPoP: openid.getDPoPHandle(skewed, keyPair) } : undefined
    )
    return response.status
  }
}

/**
 * The library makes proofs and nothing else: the token request, and the retry on a nonce, are the application's. It has
 * no setting for a clock that is off.
 */
const npmDpop: RealClient = {
  async call (url, { bound, skewSeconds = 0 }) {
    const keyPair = await dpop.generateKeyPair('Ed25519')
    const headers: Record<string, string> = bound
      ? { dpop: await dpop.generateProof(keyPair, provider.tokenEndpoint, 'POST') }
      : {}
    const body = new URLSearchParams({
      ...grant,
      grant_type: 'client_credentials',
      client_id: provider.clientId,
      client_secret: provider.clientSecret
    })
    const { access_token: token } = await (await fetch(provider.tokenEndpoint, { method: 'POST', body, headers }))
      .json() as { access_token: string }
    const request = async (nonce?: string) =>
      fetch(url, {
        headers: bound
          ? {
              authorization: `DPoP ${token}`,
              dpop: await atAnotherTime(skewSeconds, () => dpop.generateProof(keyPair, url, 'GET', nonce, token))
            }
          : { authorization: `Bearer ${token}` }
      })
    let response = await request()
    if (mayRetry(response)) response = await request(response.headers.get('dpop-nonce')!)
    if (!response.ok) throw new Error(`answered ${response.status}`)
    return response.status
  }
}

/** When auth0-spa-js sends a request again: a 401 that names the error, and a nonce to use. */
function mayRetry ({ status, headers }: Response) {
  return status === 401 && (headers.get('www-authenticate') ?? '').includes('use_dpop_nonce') &&
    Boolean(headers.get('dpop-nonce'))
}

const CLIENTS: Record<string, RealClient> = { oauth4webapi, 'openid-client': openidClient, dpop: npmDpop }

for (const [name, client] of Object.entries(CLIENTS)) {
  t.test(`${name} is served with Bearer and with DPoP, and with a nonce after one retry`, async t => {
    for (const nonce of ['off', 'required']) {
      const running = await start(t, { DPOP_NONCE: nonce })
      const url = `${running.url}/api/private-scoped`
      t.equal(await client.call(url, { bound: false }), 200, `Bearer, nonce ${nonce}`)
      t.equal(await client.call(url, { bound: true }), 200, `DPoP, nonce ${nonce}`)
      await expectStatuses(t, running, nonce === 'off' ? [200, 200] : [200, 401, 200])
      t.strictSame(running.reasons(), nonce === 'off' ? [] : ['nonce_missing'])
    }
  })

  t.test(`${name} with a clock that is hours off is served with a nonce, and refused without`, async t => {
    const [off, required] = [await start(t), await start(t, { DPOP_NONCE: 'required' })]
    for (const skewSeconds of [-5 * HOURS, 5 * HOURS]) {
      await t.rejects(client.call(`${off.url}/api/private`, { bound: true, skewSeconds }))
      t.equal(await client.call(`${required.url}/api/private`, { bound: true, skewSeconds }), 200)
    }
    t.strictSame(off.reasons(), ['iat_too_old', 'iat_in_future'])
    t.strictSame(required.reasons(), ['nonce_missing', 'nonce_missing'])
  })

  t.test(`${name} where only DPoP is accepted`, async t => {
    const running = await start(t, { IDP_DPOP_MODE: 'REQUIRED' })
    await t.rejects(client.call(`${running.url}/api/private`, { bound: false }))
    t.equal(await client.call(`${running.url}/api/private`, { bound: true }), 200)
    t.strictSame(running.reasons(), ['scheme_not_offered'])
  })
}

t.test('A client that retries by the rule of auth0-spa-js does so only for a nonce', async t => {
  const running = await start(t, { DPOP_NONCE: 'required' })
  const url = `${running.url}/api/private`
  const keyPair = await dpop.generateKeyPair('ES256')
  const token = await boundToken(keyPair)
  const send = async (proof: string) =>
    fetch(url, { headers: { authorization: `DPoP ${token}`, dpop: proof } })
  const proof = (nonce?: string, htu = url) => dpop.generateProof(keyPair, htu, 'GET', nonce, token)

  const first = await send(await proof())
  t.equal(mayRetry(first), true, 'no nonce yet')
  t.equal(mayRetry(await send(await proof(randomUUID()))), true, 'a nonce of another server')
  const nonce = first.headers.get('dpop-nonce')!
  t.equal((await send(await proof(nonce))).status, 200)
  for (
    const [title, refused] of [
      ['another URL', await send(await proof(nonce, `${running.url}/api/public`))],
      ['no credentials', await fetch(url)],
      ['a token that is none', await fetch(url, { headers: { authorization: 'DPoP abc' } })],
      [
        'a missing permission',
        await fetch(`${running.url}/api/admin`, {
          headers: { authorization: `DPoP ${token}`, dpop: await proof(nonce, `${running.url}/api/admin`) }
        })
      ]
    ] as const
  ) {
    t.hasStrict(refused, { ok: false }, title)
    t.equal(mayRetry(refused), false, `${title}: trying again would not help`)
  }
})

async function boundToken (keyPair: dpop.KeyPair) {
  const body = new URLSearchParams({
    resource: AUDIENCE,
    grant_type: 'client_credentials',
    client_id: provider.clientId,
    client_secret: provider.clientSecret
  })
  const headers = { dpop: await dpop.generateProof(keyPair, provider.tokenEndpoint, 'POST') }
  const { access_token: token } = await (await fetch(provider.tokenEndpoint, { method: 'POST', body, headers }))
    .json() as { access_token: string }
  return token
}
