import t from 'tap'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { startApp } from '../helpers/app.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { GATE_PROXIES, portFor, startGateProxy } from '../helpers/gate-proxies.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

const CLIENTS = 15
const GATES = 3
const ROUNDS = 4

for (const proxy of GATE_PROXIES.filter(({ keepsClients }) => keepsClients)) {
  t.test(`With several gates without a store, ${proxy.name} asks the one that knows the client.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const issuer = await startIssuer(t)
    const upstream = await startUpstream(t)
    const gates = await Promise.all(Array.from({ length: GATES }, () =>
      startApp(t, issuer, {
        GATE: { rules: [{ path: '/api/*' }], ...proxy.grpc && { grpcPort: 0 } },
        TRUST_PROXY: 'loopback',
        DPOP_NONCE: 'required',
        LOG_LEVEL: 'info'
      })))
    const [one = 0, ...others] = await Promise.all(gates.map(gate => portFor(proxy, gate)))
    const { url } = await startGateProxy(t, proxy, {
      gates: [one, ...others],
      application: Number(new URL(upstream.origin).port)
    })
    const send = (lines: readonly string[]) =>
      sendRaw(url, ['GET /api/x HTTP/1.1', `Host: ${new URL(url).host}`, 'Connection: close', ...lines])
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => createDpopClient()))
    const nonces = new Map<string, string>()
    const accepted: string[][] = []
    let challenges = 0
    for (let round = 0; round < ROUNDS; round++) {
      for (const client of clients) {
        // A new token each time: the key of the client stays.
        const token = issuer.token({ cnf: client.cnf })
        for (const isLast of [false, true]) {
          const lines = dpopLines(
            token,
            client.proof({ token, url: `${url}/api/x`, claims: { nonce: nonces.get(client.jkt) } })
          )
          const { status, headers } = await send(lines)
          const nonce = headers['dpop-nonce']
          if (nonce) nonces.set(client.jkt, nonce)
          if (status === 200) {
            accepted.push(lines)
            break
          }
          t.strictSame([status, isLast], [401, false])
          challenges++
        }
      }
    }
    t.strictSame(
      [accepted.length, challenges],
      [CLIENTS * ROUNDS, CLIENTS],
      'each client pays one challenge, and no more'
    )
    // Not all of them: 15 clients leave one of three gates without any once in 150 times.
    t.ok(new Set([...nonces.values()].map(nonce => nonce.slice(0, 4))).size > 1, 'clients are at several gates')
    const arrived = upstream.arrived.length
    for (const lines of accepted) t.equal((await send(lines)).status, 401)
    t.equal(upstream.arrived.length, arrived, 'a proof passes once')

    const before = gates.map(({ log }) => log.length)
    const holders = await Promise.all(
      Array.from({ length: 12 }, (_, n) => send(bearerLines(issuer.token({ jti: `${n}` }))))
    )
    t.strictSame(new Set(holders.map(({ status }) => status)), new Set([200]))
    t.ok(
      gates.filter(({ log }, at) => log.length > before[at]!).length > 1,
      'clients without proofs are at several gates'
    )
  })
}
