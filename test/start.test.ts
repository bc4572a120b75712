import { join } from 'node:path'
import t from 'tap'
import { AUDIENCE } from './helpers/issuer.ts'
import { GOOD, build, root, run, startService } from './helpers/compiled-service.ts'
import { containing } from './helpers/containing.ts'
import { freePort } from './helpers/free-port.ts'

// The other starts are in programs/start.test.ts.
await build()

t.test('npm start with bad settings ends with one message that names each of them.', async t => {
  const { code, stderr } = await run('npm', ['start'], {
    IDP_DOMAIN: 'tenant.example/',
    CONFIG_FILE: join(t.testdir({}), 'none.yaml'),
    PORT: 'http'
  }, root)
  t.equal(code, 1)
  t.match(
    stderr,
    /The settings are not usable:\n {2}- CONFIG_FILE is ".*none\.yaml": there is no such file\n {2}- IDP_DOMAIN \(idp\.domain\) is "tenant\.example\/"; allowed: .*\n {2}- PORT is "http"; allowed: /
  )
  t.notMatch(stderr, /^\s+at /m, 'no stack trace')
})

t.test('The service starts and serves what is public while the provider is down.', async t => {
  const port = await freePort()
  const { url, ended, terminate, ...service } = await startService(t, {
    ...GOOD,
    PORT: String(port),
    IDP_COLOUR: 's3cret',
    DPOP_REPLAY: 'redis://:s3cret@127.0.0.1:9'
  })
  t.equal(service.port, port, 'it listens on PORT')
  const answer = await fetch(`${url}/api/public`)
  t.equal(answer.status, 200)
  t.type((await answer.json() as { message: unknown }).message, 'string')
  t.equal((await fetch(`${url}/%ff`)).status, 400, 'a target that cannot be routed')
  t.equal((await fetch(`${url}/health/live`)).status, 200)
  t.equal((await fetch(`${url}/health/ready`)).status, 503)
  const log = service.log()
  t.hasStrict(log.filter(({ event }) => event === 'settings_in_force'), [{
    level: 30,
    issuers: [GOOD.IDP_ISSUER],
    audience: AUDIENCE,
    dpopMode: 'ALLOWED',
    replay: { kind: 'redis', hosts: ['127.0.0.1:9'] }
  }])
  t.match(log.map(({ msg }) => msg).join('\n'), /have no effect: IDP_COLOUR\n/)
  t.notMatch(JSON.stringify(log), containing('s3cret'))
  terminate()
  t.strictSame(await ended, { code: 0, stderr: '' })
})
