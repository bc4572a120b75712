import { createProof, createProofKey, type ProofKey } from '../../cli/token.ts'
import type { Variables } from '../../test/helpers/variables.ts'
import { runCheck, startService, type Service } from './holdfast.ts'
import { requestToken, type Keycloak } from './keycloak.ts'
import { AS_THE_PAGE_SAYS, MACHINE, makeRealm, PASSWORD, SERVICE, type Recipe } from './realm.ts'
import type { Row } from './rows.ts'

const INTROSPECTION = {
  IDP_INTROSPECTION: 'jwt',
  IDP_CLIENT_ID: SERVICE.clientId,
  IDP_CLIENT_SECRET: SERVICE.secret
} as const

/** What a row works with: the issuer of its realm, and how tokens are had there. */
interface Site {
  issuer: string
  machine (key?: ProofKey): Promise<string>
  user (name: string, scope?: string): Promise<string>
  /** One call of the service with these settings. */
  call (path: string, token: string, key?: ProofKey, settings?: Variables): Promise<string>
  withService<Result>(settings: Variables, use: (service: Service) => Promise<Result>): Promise<Result>
}

/** Access tokens of Keycloak: what each setting of docs/reference/providers.md does, with it and without. */
export async function tokens (keycloak: Keycloak): Promise<Row[]> {
  const rows: Row[] = []
  let realms = 0

  async function realm (
    setting: string,
    change: Partial<Recipe>,
    fill: (
      site: Site,
      row: (sent: string, expected: string, run: () => Promise<string>) => Promise<void>
    ) => Promise<void>
  ) {
    const issuer = await makeRealm(keycloak, `holdfast-${++realms}`, { ...AS_THE_PAGE_SAYS, ...change })
    await fill(openSite(issuer), async (sent, expected, run) => {
      const came = await run().catch(error => (error as Error).message)
      rows.push({ setting, sent, came, expected })
      console.error(`${setting} | ${sent} | ${came}`)
    })
  }

  await realm('as below, both mappers', {}, async ({ issuer, machine, user, call, withService }, row) => {
    await row('a token of a service account', '200', async () => call('/private', await machine()))
    await row(
      'the same, with introspection',
      '200',
      async () => call('/private', await machine(), undefined, INTROSPECTION)
    )
    await row('a token that was revoked at Keycloak, with introspection', '401 `token_inactive`', async () => {
      const token = await machine()
      await fetch(`${issuer}/protocol/openid-connect/revoke`, {
        method: 'POST',
        body: new URLSearchParams({ token, client_id: MACHINE.clientId, client_secret: MACHINE.secret })
      })
      return call('/private', token, undefined, INTROSPECTION)
    })
    await row(
      '`npm run check`, the clocks',
      'code 0: No answer of the provider has a date, so the clocks were not compared.',
      () => runCheck(issuer, {}, 'clock')
    )
    await row(
      'Ada has the role, and asks for `admin`',
      '200',
      async () => call('/admin', await user('ada', 'admin'))
    )
    await row(
      'Bob has not, and asks for `admin`',
      '403 `scope_missing`',
      async () => call('/admin', await user('bob', 'admin'))
    )
    await row(
      'Ada, a route that asks for the role in `realm_access.roles`',
      '200',
      async () => call('/role', await user('ada'))
    )
    await row('Bob, the same route', '403 `claim_mismatch`', async () => call('/role', await user('bob')))
    await row('DPoP: a bound token with a proof', '200', async () => {
      const key = await createProofKey()
      return call('/private', await machine(key), key)
    })
    await row('DPoP: the same with introspection', '200', async () => {
      const key = await createProofKey()
      return call('/private', await machine(key), key, INTROSPECTION)
    })
    await row('DPoP: the same proof twice', '200, then 401 `proof_replayed`', () =>
      withService({}, async service => {
        const key = await createProofKey()
        const token = await machine(key)
        const proof = await service.proof('/private', token, key)
        return `${await service.call('/private', token, proof)}, then ${await service.call(
          '/private',
          token,
          proof
        )}`
      }))
    await row(
      'DPoP: the bound token as Bearer',
      '401 `token_bound`',
      async () => call('/private', await machine(await createProofKey()))
    )
  })
  await realm('no audience mapper', { audience: false, service: false }, async ({ machine, call }, row) => {
    await row('a token of a service account', '401 `token_audience`', async () => call('/private', await machine()))
  })
  await realm('only the mapper of the API', { service: false }, async ({ machine, call }, row) => {
    await row('a token of a service account', '200', async () => call('/private', await machine()))
    await row(
      'the same, with introspection',
      '401 `token_inactive`',
      async () => call('/private', await machine(), undefined, INTROSPECTION)
    )
  })
  await realm('no role on the Scope tab', { roleOnScope: false }, async ({ user, call }, row) => {
    await row(
      'Bob has not the role, and asks for `admin`',
      '200',
      async () => call('/admin', await user('bob', 'admin'))
    )
  })
  await realm('*Require DPoP bound tokens*', { dpopRequired: true }, async ({ machine }, row) => {
    await row('a token request without a proof', '400 invalid_request: DPoP proof is missing', () => machine())
  })
  await realm('lightweight access tokens', { lightweight: 'bare' }, async ({ machine, call }, row) => {
    await row(
      'a token of a service account',
      '401 `token_claim_invalid`',
      async () => call('/private', await machine())
    )
  })
  await realm(
    'lightweight, *Add to lightweight access token* in both audience mappers',
    { lightweight: 'with aud' },
    async ({ machine, user, call }, row) => {
      await row('a token of a service account', '200', async () => call('/private', await machine()))
      await row(
        'the same, with introspection',
        '200',
        async () => call('/private', await machine(), undefined, INTROSPECTION)
      )
      await row('a token of Ada', '401 `token_claim_invalid`', async () => call('/private', await user('ada')))
    }
  )
  await realm(
    'lightweight, the same in the mapper `sub` of `basic` too',
    { lightweight: 'with aud and sub' },
    async ({ user, call }, row) => {
      await row('a token of Ada', '200', async () => call('/private', await user('ada')))
      await row(
        'the same, with introspection',
        '200',
        async () => call('/private', await user('ada'), undefined, INTROSPECTION)
      )
    }
  )
  await realm('no client scope `basic`', { basic: false }, async ({ machine, user, call }, row) => {
    await row('a token of Ada', '401 `token_claim_invalid`', async () => call('/private', await user('ada')))
    await row('a token of a service account', '200', async () => call('/private', await machine()))
  })
  return rows
}

function openSite (issuer: string): Site {
  const withService: Site['withService'] = async (settings, use) => {
    const service = await startService(issuer, settings)
    try {
      return await use(service)
    } finally {
      await service.close()
    }
  }
  return {
    issuer,
    withService,
    call: (path, token, key, settings = {}) => withService(settings, service => service.call(path, token, key)),
    machine: async key =>
      requestToken(issuer, {
        grant_type: 'client_credentials',
        client_id: MACHINE.clientId,
        client_secret: MACHINE.secret
      }, key && { dpop: await createProof(key, { method: 'POST', url: `${issuer}/protocol/openid-connect/token` }) }),
    user: (username, scope = '') =>
      requestToken(issuer, {
        grant_type: 'password',
        client_id: 'app',
        username,
        password: PASSWORD,
        ...scope !== '' && { scope }
      })
  }
}
