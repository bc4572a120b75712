import type { Test } from 'tap'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'
import type { Variables } from './variables.ts'
import { startApp, type RunningApp } from './app.ts'
import { parseChallenges } from './challenges.ts'
import { dpopLines } from './call.ts'
import { createDpopClient, type DpopClient, type ProofParts } from './dpop-client.ts'
import { portFor, startGateProxy, type GateProxy } from './gate-proxies.ts'
import { startIssuer, type Issuer } from './issuer.ts'
import { startRelay, toPort, type Relay } from './relay.ts'
import { startUpstream, type Answerer, type TestUpstream } from './upstream.ts'
import { sendRaw, type WireAnswer } from './wire.ts'

export const RULES = [
  { path: '/open/*', allow: 'anyone' },
  { path: '/api/*' },
  { path: '/svc/api/*' },
  { path: '/orders/:id', scope: 'read:orders' },
  { path: '/socket', upgrade: true }
]

/** A gate that answers authorization requests. */
interface AuthorizingGate extends RunningApp {
  /** The port for the authorization requests of this proxy. */
  authorizationPort: number
}

/** A gate, its proxy with the file of deploy/gate, and an application that only the proxy reaches. */
export interface GatedSite {
  proxy: GateProxy
  issuer: Issuer
  upstream: TestUpstream
  /** Between proxy and gate. */
  relay: Relay
  /** Of the proxy. */
  url: string
  tlsUrl: string
  client: DpopClient
  /** Bound to the key of the client. */
  token: string
  /** Another gate takes the place of the one before. */
  replaceGate (values?: Variables, issuer?: Issuer): Promise<AuthorizingGate>
  send (target: string, lines?: readonly string[], method?: string): Promise<WireAnswer>
  /** The lines of the token with a fresh proof for a path of this site. */
  proofLines (target: string, overrides?: Partial<ProofParts>): string[]
}

export async function openGatedSite (
  t: Test,
  proxy: GateProxy,
  { isImpatient, answer, claim }: { isImpatient?: boolean, answer?: Answerer, claim?: string } = {}
): Promise<GatedSite> {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t, answer)
  const relay = await startRelay(t)
  const { url, tlsUrl } = await startGateProxy(t, proxy, {
    gates: [relay.port],
    application: Number(new URL(upstream.origin).port),
    isImpatient,
    claim
  })
  const client = await createDpopClient()
  const token = issuer.token({ cnf: client.cnf, scope: 'read:orders' })
  const { host } = new URL(url)
  return {
    proxy,
    issuer,
    upstream,
    relay,
    url,
    tlsUrl,
    client,
    token,
    async replaceGate (values = {}, other = issuer) {
      const running = await startApp(t, other, {
        GATE: { rules: RULES, ...proxy.grpc && { grpcPort: 0 } },
        TRUST_PROXY: 'loopback',
        ...values
      })
      const authorizationPort = await portFor(proxy, running)
      await relay.use(toPort(authorizationPort))
      return { ...running, authorizationPort }
    },
    send: (target, lines = [], method = 'GET') =>
      sendRaw(url, [`${method} ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...lines]),
    proofLines: (target, overrides) => dpopLines(token, client.proof({ token, url: url + target, ...overrides }))
  }
}

/** Asserts that a refusal has come to the client as the gate gave it. */
export function expectRefused (
  t: Test,
  { proxy: { passesBodies } }: GatedSite,
  { status, lines, body }: WireAnswer,
  reason: RefusalReason,
  scheme: string | undefined,
  title: string
) {
  const { status: expected, error, description } = REFUSALS[reason]
  const values = lines.filter(([name]) => name === 'www-authenticate').map(([, value]) => value)
  const marked = values.flatMap(parseChallenges).filter(({ parameters }) => 'error' in parameters)
  t.strictSame({
    status,
    values: values.length,
    marked: marked.map(({ scheme, parameters }) => [scheme, parameters.error, parameters.error_description]),
    message: passesBodies ? JSON.parse(body).message : description
  }, {
    status: expected,
    values: 1,
    marked: error && scheme ? [[scheme, error, description]] : [],
    message: description
  }, title)
}
