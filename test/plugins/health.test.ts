import t from 'tap'
import { containing } from '../helpers/containing.ts'
import { startApp } from '../helpers/app.ts'
import { bulk, startFakeRedis, type Reply } from '../helpers/fake-redis.ts'
import { startIssuer } from '../helpers/issuer.ts'

t.test('Readiness names a shared store that evicts, and one that is used without knowing whether it does', async t => {
  const policy = (text: string): Reply => bulk(`# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:${text}\r\n`)
  const rows: ReadonlyArray<{ info: Reply, status: number, replay: string, warnings: string[] }> = [
    { info: policy('noeviction'), status: 200, replay: 'ok', warnings: [] },
    {
      info: "-NOPERM this user has no permissions to run the 'info' command\r\n",
      status: 200,
      replay: 'policy_unknown',
      warnings: ['replay_policy_unknown']
    },
    { info: policy('allkeys-lru'), status: 503, replay: 'evicts', warnings: ['replay_unavailable'] }
  ]
  const issuer = await startIssuer(t)
  // Loading the service holds this process up. No connection to a store is to be late for that.
  await startApp(t, issuer)
  for (const { info, status, replay, warnings } of rows) {
    const fake = await startFakeRedis()
    t.teardown(() => fake.stop())
    fake.override = ([name]) => name === 'INFO' ? info : undefined
    const { app, url, log } = await startApp(t, issuer, {
      LOG_LEVEL: 'warn',
      DPOP_REPLAY: `redis://:s3cret@127.0.0.1:${fake.port}`
    })
    const checks = async (): Promise<Record<string, string>> => (await app.inject('/health/ready')).json().checks
    for (let left = 5000; left > 0 && ((await checks()).replay !== replay || (await checks()).keys !== 'ok'); left--) {
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    const answer = await fetch(`${url}/health/ready`)
    t.strictSame([answer.status, await answer.json()], [status, {
      status: status === 200 ? 'ok' : 'unavailable',
      checks: { process: 'ok', keys: 'ok', replay }
    }])
    // On a busy machine a connection may be lost, and then the same is said again.
    const said = log.filter(({ event, reason }) => String(event).startsWith('replay_') && reason !== 'unreachable')
      .map(({ level, event, hosts }) => JSON.stringify([level, event, hosts]))
    t.strictSame([...new Set(said)], warnings.map(event => JSON.stringify([40, event, [`127.0.0.1:${fake.port}`]])))
    t.notMatch(JSON.stringify(log), containing('s3cret'))
  }
})
