import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { RawSettings } from '../../lib/settings/specs.ts'
import { startApp } from '../helpers/app.ts'
import type { RunningApp } from '../helpers/app.ts'
import { bearerLines, call, dpopLines, expectRefusal } from '../helpers/call.ts'
import { advanceClock } from '../helpers/clock.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { startOpaqueTenant } from '../helpers/opaque-tenant.ts'
import type { OpaqueTenant } from '../helpers/opaque-tenant.ts'

const tenant = await startOpaqueTenant(t)

const startFor = (t: Test, client: string, values: RawSettings): Promise<RunningApp> =>
  startApp(t, { url: tenant.issuer } as Issuer, { IDP_CLIENT_ID: client, IDP_CLIENT_SECRET: tenant.clientSecret, ...values })

/** Each way in which the service may prove itself, with plain or signed answers. */
function clientsOf (t: Test, { clientKey }: OpaqueTenant): ReadonlyArray<{ client: string, values: RawSettings }> {
  const directory = t.testdir({ 'key.pem': clientKey.export({ type: 'pkcs8', format: 'pem' }) as string })
  return [
    { client: 'client_secret_basic', values: {} },
    { client: 'client_secret_post', values: { IDP_CLIENT_AUTH: 'client_secret_post' } },
    { client: 'private_key_jwt', values: { IDP_CLIENT_AUTH: 'private_key_jwt', IDP_CLIENT_SECRET: undefined, IDP_CLIENT_KEY_FILE: join(directory, 'key.pem') } },
    { client: 'signed', values: { IDP_INTROSPECTION_SIGNED: true } }
  ]
}

const KINDS = [
  { covers: 'opaque', formats: ['opaque'] },
  { covers: 'jwt', formats: ['jwt'] },
  { covers: 'all', formats: ['opaque', 'jwt'] }
] as const

t.test('A provider answers about its tokens, by each way in which the service proves itself', async t => {
  for (const { client, values } of clientsOf(t, tenant)) {
    for (const { covers, formats } of KINDS) {
      const running = await startFor(t, client, { ...values, IDP_INTROSPECTION: covers })
      for (const format of formats) {
        const title = `${format} by ${covers} and ${client}`
        const token = await tenant.token(format)
        t.match(await call(running, { path: '/api/private-scoped', lines: bearerLines(token) }), { status: 200, body: { user_id: format } }, title)
        t.equal(tenant.asked.at(-1), token, title)
        expectRefusal(t, await call(running, { lines: bearerLines(await tenant.token(format, { resource: 'https://other.example' })) }), 'token_audience', 'Bearer', `${title}, for another API`)
      }
      if (covers !== 'jwt') expectRefusal(t, await call(running, { lines: bearerLines('made-up') }), 'token_inactive', 'Bearer', client)
    }
  }
})

t.test('A token that was revoked is refused once the answer about it is too old', async t => {
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'client_secret_basic', { IDP_INTROSPECTION: covers })
    for (const format of formats) {
      const [token, twin] = [await tenant.token(format), await tenant.token(format)]
      for (const each of [token, twin]) t.equal((await call(running, { lines: bearerLines(each) })).status, 200, `${format} by ${covers}`)
      await tenant.revoke(token)
      t.equal((await call(running, { lines: bearerLines(token) })).status, 200, 'the answer still holds')
      advanceClock(t, 10_000)
      expectRefusal(t, await call(running, { lines: bearerLines(token) }), 'token_inactive', 'Bearer', `${format} by ${covers}`)
      t.equal((await call(running, { lines: bearerLines(twin) })).status, 200, 'and the other one passes')
    }
  }
})

t.test('A token that the provider has bound to a key passes only with its proof', async t => {
  const client = await createDpopClient()
  for (const { covers, formats } of KINDS) {
    const running = await startFor(t, 'signed', { IDP_INTROSPECTION: covers, IDP_INTROSPECTION_SIGNED: true })
    const url = `${running.url}/api/private`
    for (const format of formats) {
      const token = await tenant.token(format, { headers: { dpop: client.proof({ token: '', url: `${tenant.issuer}/token`, method: 'POST', claims: { ath: undefined } }) } })
      t.equal((await call(running, { lines: dpopLines(token, client.proof({ token, url })) })).status, 200, `${format} by ${covers}`)
      expectRefusal(t, await call(running, { lines: bearerLines(token) }), 'token_bound', 'Bearer')
      expectRefusal(t, await call(running, { lines: dpopLines(token, (await createDpopClient()).proof({ token, url })) }), 'jkt_mismatch', 'DPoP')
    }
  }
})
