import { measureRows } from './compare.js'
import { awaitQuiet, median, round } from './measure.js'
import { contender, startServer } from './processes.js'

/**
 * What the gate costs in front of a server of bare Node, beside a proxy that guards nothing. The CPU of the upstream
 * does not count.
 */
const rowsFor = upstream => {
  const proxy = file => async bench => {
    const server = await startServer(contender(file), { UPSTREAM: upstream })
    bench.cleanUp(server.stop)
    return server
  }
  const rules = [{ path: '/api/public', allow: 'anyone' }, { path: '/mcp', mcp: { tools: ['search'] } }, { path: '/*' }]
  const gate = {
    label: 'holdfast gate',
    config: { gate: { upstream, rules } }
  }
  return [
    { id: 'proxy-undici', label: 'node:http and undici, no guard', kind: 'bearer', start: proxy('undici-proxy') },
    { id: 'proxy-node', label: 'node:http and its own client, no guard', kind: 'bearer', start: proxy('node-proxy') },
    { id: 'proxy-bare', label: '@fastify/http-proxy, no guard', kind: 'bearer', start: proxy('http-proxy') },
    { id: 'gate-bearer', kind: 'bearer', bad: ['no credentials', 'token signature wrong'], ...gate },
    { id: 'gate-dpop', kind: 'dpop', bad: ['no credentials', 'proof signature wrong', 'proof replayed'], ...gate },
    { id: 'gate-post', kind: 'post', ...gate },
    { id: 'gate-call', kind: 'call', bad: ['call without credentials'], ...gate, label: 'holdfast gate, body judged' }
  ].map(row => ({ ...row, quick: true }))
}

/** Latency at half of what the gate takes, for the gate and for the proxy that guards nothing. */
const atHalfLoad = async (bench, entries) => {
  const pair = ['proxy-bare', 'gate-bearer'].map(id => entries.find(({ row }) => row.id === id))
  if (pair.includes(undefined)) return undefined
  const rate = pair[1].figures.requestsPerSecond / 2
  const seconds = bench.quick ? 1 : 4
  const p99Ms = pair.map(() => [])
  for (let i = 0; i < bench.plan.rounds; i++) {
    await awaitQuiet(bench)
    for (const [index, { row, server }] of pair.entries()) {
      const figures = await round(bench, server, `${row.id} at half load`, [{
        name: row.kind,
        count: Math.round(rate * seconds),
        rate
      }])
      p99Ms[index].push(figures.p99Ms)
    }
  }
  return { rate, proxyP99Ms: median(p99Ms[0]), gateP99Ms: median(p99Ms[1]) }
}

export const gate = async bench => {
  const entries = await measureRows(bench, rowsFor(`http://127.0.0.1:${await bench.load.call('upstream')}`))
  return { rows: entries.map(({ figures }) => figures), halfLoad: await atHalfLoad(bench, entries) }
}
