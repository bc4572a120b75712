import { sign, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import type { Test } from 'tap'
import { startApp, type RunningApp } from './app.ts'
import type { Variables } from './variables.ts'
import { startIssuer, makeIssuerKey, type Issuer, type IssuerKey } from './issuer.ts'
import { encodeJws } from './jws.ts'
import type { Owner } from './owner.ts'
import { listen } from './listen.ts'

export const CAEP = 'https://schemas.openid.net/secevent/caep/event-type/'
/** The `aud` of what it sends. */
export const RECEIVER = 'receiver'
const transmitterKey = makeIssuerKey('t1')

export interface Transmitter {
  url: string
  /** The published keys. */
  keys: IssuerKey[]
  /** What it answers instead of its documents, while set. */
  outage: number | undefined
  /** A token that passes, but for what is given. `signer`: another key. */
  set (given?: { claims?: object, header?: object, type?: string, event?: object, signer?: KeyObject }): string
}

/** A transmitter on loopback: its configuration, its keys, and tokens signed with them. */
export async function startTransmitter (t: Owner): Promise<Transmitter> {
  const server = createServer((request, response) => {
    const documents: Record<string, object> = {
      '/.well-known/ssf-configuration': { issuer: transmitter.url, jwks_uri: `${transmitter.url}/keys` },
      '/keys': { keys: transmitter.keys.map(({ jwk }) => jwk) }
    }
    const document = documents[request.url!]
    response.writeHead(transmitter.outage ?? (document ? 200 : 404), { 'content-type': 'application/json' }).end(
      JSON.stringify(document ?? {})
    )
  })
  const port = await listen(t, server)
  const transmitter: Transmitter = {
    keys: [transmitterKey],
    outage: undefined,
    url: `http://127.0.0.1:${port}`,
    set (
      { claims = {}, header = {}, type = `${CAEP}session-revoked`, event = {}, signer = transmitterKey.privateKey } = {}
    ) {
      const iat = Math.floor(Date.now() / 1000)
      return encodeJws({ alg: 'RS256', typ: 'secevent+jwt', kid: transmitterKey.kid, ...header }, {
        iss: transmitter.url,
        aud: RECEIVER,
        jti: 'j1',
        iat,
        events: { [type]: event },
        ...claims
      }, input => sign('sha256', input, signer))
    }
  }
  return transmitter
}

export interface Site extends RunningApp {
  issuer: Issuer
  transmitter: Transmitter
  /** The status for a Bearer token. */
  ask (token: string): Promise<number>
  push (set: string, headers?: Record<string, string>): Promise<Response>
  logout (form: string | URLSearchParams): Promise<Response>
  /** As an operator whose token has the scope `revoke`, unless another Authorization is given. */
  operate (body: unknown, headers?: Record<string, string>): Promise<Response>
}

export async function startRevocation (
  t: Test,
  given: {
    revocation?: (transmitter: Transmitter, issuer: Issuer) => object,
    values?: Variables | ((issuer: Issuer) => Variables),
    prepare?: Parameters<typeof startApp>[3]
  } = {}
): Promise<Site> {
  const issuer = await startIssuer(t)
  const transmitter = await startTransmitter(t)
  const revocation = given.revocation?.(transmitter, issuer) ??
    { transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push', tokenIssuers: [issuer.url] }] }
  const running = await startApp(t, issuer, {
    REVOCATION: revocation,
    ...typeof given.values === 'function' ? given.values(issuer) : given.values
  }, given.prepare)
  return {
    ...running,
    issuer,
    transmitter,
    ask: async token =>
      (await fetch(`${running.url}/api/private`, { headers: { authorization: `Bearer ${token}` } })).status,
    push: (set, headers = {}) =>
      fetch(`${running.url}/revocation/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/secevent+jwt', ...headers },
        body: set
      }),
    logout: form =>
      fetch(`${running.url}/revocation/logout`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: String(form)
      }),
    operate: (body, headers = { authorization: `Bearer ${issuer.token({ sub: 'operator', scope: 'revoke' })}` }) =>
      fetch(`${running.url}/revocation/subjects`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body)
      })
  }
}
