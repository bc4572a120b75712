import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { containing } from '../helpers/containing.ts'
import { startApp } from '../helpers/app.ts'
import { bulk, startFakeRedis, type Reply } from '../helpers/fake-redis.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { until } from '../helpers/until.ts'

t.test('Readiness names a shared store that evicts, and one that is used without knowing whether it does', async t => {
  const policy = (text: string) => bulk(`# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:${text}\r\n`)
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
    const { url, log } = await startApp(t, issuer, {
      LOG_LEVEL: 'warn',
      DPOP_REPLAY: `redis://:s3cret@127.0.0.1:${fake.port}`
    })
    const expected = { status: status === 200 ? 'ok' : 'unavailable', checks: { process: 'ok', keys: 'ok', replay } }
    await until(`readiness is as of ${replay}`, async () => {
      const answer = await fetch(`${url}/health/ready`)
      return answer.status === status && isDeepStrictEqual(await answer.json(), expected)
    })
    // On a busy machine a connection may be lost, and then the same is said again.
    const said = log.filter(({ event, reason }) => String(event).startsWith('replay_') && !/unreachable|timeout/.test(String(reason)))
      .map(({ level, event, hosts }) => JSON.stringify([level, event, hosts]))
    t.strictSame([...new Set(said)], warnings.map(event => JSON.stringify([40, event, [`127.0.0.1:${fake.port}`]])))
    t.notMatch(JSON.stringify(log), containing('s3cret'))
  }
})
