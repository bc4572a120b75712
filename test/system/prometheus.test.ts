import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { startApp } from '../helpers/app.ts'
import { bearerLines, call } from '../helpers/call.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { until } from '../helpers/until.ts'

const skip = ['promtool', 'prometheus'].some(program => spawnSync(program, ['--version']).status !== 0) &&
  'Prometheus is not installed'
const RULES = join(root, 'deploy/observability/alerts.yaml')

interface Alert {
  labels: { alertname: string, route?: string }
  state: string
}

/**
 * A Prometheus that asks one instance, with the shipped alerts, whose times are shortened to seconds. It ends with the
 * test.
 */
async function startPrometheus (t: Test, target: string) {
  const folder = t.testdir({
    'alerts.yaml': readFileSync(RULES, 'utf8').replace(/^ +for: .*\n/gm, '').replace(/\[\d+m\]/g, '[10s]'),
    'prometheus.yaml':
      'global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [alerts.yaml]\nscrape_configs: [{ ' +
      `job_name: holdfast, static_configs: [{ targets: ["${target}"] }] }]\n`
  })
  const port = await freePort()
  const child = spawn('prometheus', [
    '--config.file',
    join(folder, 'prometheus.yaml'),
    '--storage.tsdb.path',
    join(folder, 'data'),
    '--web.listen-address',
    `127.0.0.1:${port}`,
    '--log.level=error'
  ], { stdio: ['ignore', 'inherit', 'inherit'] })
  t.teardown(() =>
    new Promise(resolve => {
      child.once('exit', resolve)
      child.kill('SIGKILL')
    })
  )
  const ask = async (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined)
  await until('Prometheus is ready', async () => (await ask('/-/ready'))?.status === 200)
  return {
    alerts: async () =>
      (await (await ask('/api/v1/alerts'))!.json() as { data: { alerts: Alert[] } }).data.alerts.filter(({ state }) =>
        state === 'firing'
      )
  }
}

t.test('promtool takes the alerts and the metrics of a gate', { skip }, async t => {
  t.equal(spawnSync('promtool', ['check', 'rules', RULES]).status, 0)
  const broken = join(
    t.testdir({ 'alerts.yaml': readFileSync(RULES, 'utf8').replace('> 0.8', '>> 0.8') }),
    'alerts.yaml'
  )
  t.not(spawnSync('promtool', ['check', 'rules', broken]).status, 0, 'and no expression that is broken')
  const { url } = await startApp(t, await startIssuer(t), {
    AUDIT: '/dev/null',
    GATE: { upstream: 'http://127.0.0.1:1', rules: [{ path: '/*' }] }
  })
  const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: await (await fetch(`${url}/metrics`)).text(),
    encoding: 'utf8'
  })
  // Status 3 is for advice about names: those of Node.js are of prom-client.
  t.ok(status === 0 || status === 3, stderr)
  t.notOk(stderr.split('\n').some(line => line.startsWith('holdfast_')), stderr)
})

t.test(
  'A live Prometheus raises the alerts of a gate: an upstream that fails, clients that go, paths without a rule, ' +
    'a lost audit',
  { skip },
  async t => {
    const issuer = await startIssuer(t)
    const upstream = await startUpstream(t, (request, response) => {
      if (request.url === '/broken/x') request.socket.destroy()
      else if (request.url !== '/slow/x') response.end('{}')
    })
    const audit = join(t.testdir({}), 'audit.log')
    const rules = [{ path: '/broken/*' }, { path: '/slow/*' }, { path: '/good/*' }]
    const site = await startApp(t, issuer, { AUDIT: audit, GATE: { upstream: upstream.origin, rules } })
    const lines = bearerLines(issuer.token())
    const { host, port } = new URL(site.url)
    const { alerts } = await startPrometheus(t, host)
    const raised = async () =>
      [...new Set((await alerts()).map(({ labels }) => [labels.alertname, labels.route].filter(Boolean).join(' ')))]
        .sort()

    const goAway = () =>
      new Promise<void>(resolve => {
        const client = connect(Number(port), '127.0.0.1').on('error', () => {})
        client.write(['GET /slow/x HTTP/1.1', `Host: ${host}`, ...lines, '', ''].join('\r\n'))
        upstream.server.once('request', () => client.destroy())
        client.once('close', () => resolve())
      })
    await call(site, { path: '/good/x', lines })
    t.strictSame(await raised(), [], 'none while all is well')
    const over = new AbortController()
    const traffic = (async () => {
      while (!over.signal.aborted) {
        await call(site, { path: '/good/x', lines })
        await call(site, { path: '/broken/x', lines })
        await goAway()
        await call(site, { path: '/none' })
      }
    })()
    const expected = [
      'HoldfastAuditLost',
      'HoldfastClientsGone /slow/*',
      'HoldfastNoRule',
      'HoldfastUpstreamFailing /broken/*'
    ]
    const wait = (names: readonly string[]) =>
      until(names.join(), async () => {
        const now = await raised()
        return names.every(name => now.includes(name))
      })
    await wait(expected.slice(1))
    t.notOk((await raised()).includes(expected[0]!), 'its audit can be written')
    renameSync(audit, `${audit}.1`)
    mkdirSync(audit)
    await wait(expected)
    over.abort()
    await traffic
    t.strictSame(await raised(), expected)
  }
)
