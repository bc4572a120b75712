import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { GATE_PROXIES, portFor, startGateProxy } from '../helpers/gate-proxies.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { CLIENTS } from '../mcp/clients.ts'
import { startServer } from '../mcp/servers.ts'

const METHODS = [
  'initialize',
  'notifications/initialized',
  'notifications/cancelled',
  'ping',
  'server/discover',
  'subscriptions/listen',
  'tools/list'
]

// Programs in other languages take their time to start.
t.setTimeout(900_000)

for (const proxy of GATE_PROXIES) {
  t.test(`Behind ${proxy.name} each client of the protocol calls a tool and reads a stream, or is refused.`, {
    skip: proxy.program === undefined && `${proxy.name} is not installed`
  }, async t => {
    const issuer = await startIssuer(t)
    const application = Number(new URL(await startServer(t, 'both')).port)
    // Of the proxies that ask, only Envoy sends the body.
    const rules = proxy.program!.endsWith('envoy')
      ? [
          { path: '/mcp', mcp: { methods: METHODS }, scope: 'use' },
          { path: '/mcp', mcp: { tools: ['read', 'stream'] }, scope: 'use' },
          { path: '/mcp', methods: ['GET', 'DELETE'], scope: 'use' }
        ]
      : [{ path: '/mcp', scope: 'use' }]
    const gate = await startApp(t, issuer, {
      GATE: { rules, ...proxy.grpc && { grpcPort: 0 } },
      TRUST_PROXY: 'loopback'
    })
    const { reasons } = gate
    const own = Number(new URL(gate.url).port)
    const site = await startGateProxy(t, proxy, { gates: [await portFor(proxy, gate)], own, application })
    for (const [name, make] of CLIENTS) {
      const before = reasons().length
      const agent = make({ url: `${site.url}/mcp`, token: issuer.token({ scope: 'use' }) })
      t.teardown(() => agent.close().catch(() => {}))
      await agent.begin()
      t.equal((await agent.call('read')).text, 'read: done', name)
      const { text, progress } = await agent.call('stream')
      t.strictSame([text, progress > 0 || agent.hasNoProgress], ['stream: done', true], `${name}: a stream`)
      await agent.close()
      t.strictSame(reasons().slice(before), [], name)

      const other = make({ url: `${site.url}/mcp`, token: issuer.token({ scope: 'other' }) })
      t.teardown(() => other.close().catch(() => {}))
      await t.rejects(other.begin().then(() => other.call('read')), `${name} without the scope`)
      t.ok(reasons().slice(before).includes('scope_missing'), 'the gate has said so')
    }
  })
}
