import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { measureRows } from './compare.js'
import { startHoldfast } from './holdfast.js'
import { awaitQuiet, median, round } from './measure.js'
import { HOST } from './provider.js'
import { contender, hasOauth2Proxy, hasNginx, ROOT, startNginx, startServer } from './processes.js'

const RULES = [{ path: '/api/public', allow: 'anyone' }, { path: '/mcp', mcp: { tools: ['read_*'] } }, { path: '/*' }]

/** nginx as deploy/gate sets it up, and the gate that it asks. The CPU of both counts. */
const startAsking = async (bench, upstream) => {
  const gate = await startHoldfast(bench, 'gate-asked', { env: { TRUST_PROXY: 'loopback' }, config: { gate: { rules: RULES } }, probe: '/health/live' })
  if (gate === null) return null
  const file = readFileSync(join(ROOT, 'deploy/gate/nginx.conf'), 'utf8')
  const nginx = await startNginx(port => file.replaceAll('listen 80;', `listen 127.0.0.1:${port};`).replaceAll('api.example api.example;', `${HOST} ${HOST}; 127.0.0.1:${port} ${HOST};`).replaceAll('127.0.0.1:8000', `127.0.0.1:${gate.port}`).replaceAll('127.0.0.1:3000', upstream))
  bench.cleanUp(nginx.stop)
  return { ...nginx, beside: [gate.pid] }
}

const startPlainNginx = async (bench, upstream) => {
  const nginx = await startNginx(port => `upstream application { server ${upstream}; keepalive 64; }
    server { listen 127.0.0.1:${port}; large_client_header_buffers 4 16k; location / { proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; } }`)
  bench.cleanUp(nginx.stop)
  return nginx
}

/** oauth2-proxy as a guard for bearer tokens alone: no log, no page to log in, the user named by `sub`. */
const startOauth2Proxy = async (bench, upstream) => {
  const { issuer } = bench.provider
  const server = await startServer(port => ['oauth2-proxy', `--http-address=127.0.0.1:${port}`, `--upstream=http://${upstream}`, '--provider=oidc', `--oidc-issuer-url=${issuer}`,
    `--client-id=${bench.audience}`, '--client-secret=unused', '--skip-jwt-bearer-tokens', '--oidc-email-claim=sub', '--email-domain=*', '--api-route=^/',
    `--cookie-secret=${'0'.repeat(32)}`, '--request-logging=false', '--auth-logging=false', '--standard-logging=false'], {}, { probe: '/ping' })
  bench.cleanUp(server.stop)
  return server
}

/** What the gate costs in front of a server of bare Node, beside proxies that guard nothing. The CPU of the upstream does not count. */
const rowsFor = (upstream) => {
  const proxy = async (bench) => {
    const server = await startServer(contender('http-proxy'), { UPSTREAM: `http://${upstream}` })
    bench.cleanUp(server.stop)
    return server
  }
  const nginx = (start) => (bench) => hasNginx() ? start(bench, upstream) : bench.skip('nginx', 'nginx is not installed')
  const gate = { config: { gate: { upstream: `http://${upstream}`, rules: RULES } }, quick: true }
  return [
    { id: 'proxy-bare', label: '@fastify/http-proxy, no guard', kind: 'bearer', start: proxy, quick: true },
    { id: 'gate-bearer', label: 'holdfast gate', kind: 'bearer', bad: ['no credentials', 'token signature wrong'], ...gate },
    { id: 'gate-dpop', label: 'holdfast gate', kind: 'dpop', bad: ['no credentials', 'proof signature wrong', 'proof replayed'], ...gate },
    { id: 'gate-post', label: 'holdfast gate, a body that only goes on', kind: 'post', scheme: 'bearer', bad: ['no credentials', 'token signature wrong'], ...gate },
    { id: 'gate-message', label: 'holdfast gate, a body that a rule with `mcp` reads', kind: 'message', scheme: 'bearer', bad: ['message without credentials'], ...gate },
    { id: 'oauth2-proxy', label: 'oauth2-proxy', kind: 'bearer', bad: ['no credentials', 'token signature wrong'], start: (bench) => hasOauth2Proxy() ? startOauth2Proxy(bench, upstream) : bench.skip('oauth2-proxy', 'oauth2-proxy is not installed'), quick: true },
    { id: 'nginx-bare', label: 'nginx proxy_pass, no guard', kind: 'bearer', start: nginx(startPlainNginx), outruns: true, quick: true },
    { id: 'nginx-asking', label: 'nginx that asks the gate', kind: 'bearer', bad: ['no credentials', 'token signature wrong'], start: nginx(startAsking), quick: true },
    { id: 'nginx-asking-dpop', label: 'nginx that asks the gate', kind: 'dpop', bad: ['no credentials', 'proof replayed'], start: nginx(startAsking) }
  ]
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
      const figures = await round(bench, server, `${row.id} at half load`, [{ name: row.kind, count: Math.round(rate * seconds), rate }])
      p99Ms[index].push(figures.p99Ms)
    }
  }
  return { rate, proxyP99Ms: median(p99Ms[0]), gateP99Ms: median(p99Ms[1]) }
}

export const gate = async (bench) => {
  const entries = await measureRows(bench, rowsFor(`127.0.0.1:${await bench.load.call('upstream')}`))
  return { rows: entries.map(({ figures }) => figures), halfLoad: await atHalfLoad(bench, entries) }
}
