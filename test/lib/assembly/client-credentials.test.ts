import t from 'tap'
import { createAuthentication } from '../../../lib/assembly/client-credentials.ts'
import type { SecretValue } from '../../../lib/settings/secret.ts'
import type { IntrospectionSettings } from '../../../lib/settings/settings.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

t.test('The secret of the client is a text, the text of a file, or that of a variable.', async t => {
  const files = t.testdir({ good: 'hush\n', empty: '\n' })
  const surroundings = {
    ...processSurroundings,
    environment: (name: string) => ({ GOOD: 'hush', EMPTY: '' })[name]
  }
  const authenticate = async (clientSecret: SecretValue, path = 'idp.introspection') => {
    const client = { path, auth: 'client_secret_basic', clientId: 'api', clientSecret } as IntrospectionSettings
    return (await createAuthentication(() => 'https://idp.example/', client, surroundings))({})
  }
  for (const secret of ['hush', { file: `${files}/good` }, { env: 'GOOD' }]) {
    t.strictSame(await authenticate(secret), {
      headers: { authorization: `Basic ${Buffer.from('api:hush').toString('base64')}` },
      body: ''
    })
  }
  const refused: ReadonlyArray<readonly [SecretValue, string]> = [
    [{ file: `${files}/empty` }, `the file ${files}/empty is empty`],
    [{ env: 'EMPTY' }, 'the variable EMPTY is not set'],
    [{ env: 'NONE' }, 'the variable NONE is not set']
  ]
  for (const [secret, reason] of refused) {
    await t.rejects(authenticate(secret), {
      name: 'SettingsError',
      problems: [
        `IDP_CLIENT_SECRET (idp.introspection.clientSecret) is not usable: ${reason}; allowed: a text, { file: ` +
        'PATH } ' +
        'or { env: NAME }'
      ]
    })
  }
  const ofEntry = authenticate({ env: 'NONE' }, 'idp.issuers[1].introspection')
  await t.rejects(ofEntry, { message: /- idp\.issuers\[1\]\.introspection\.clientSecret is not usable: / })
})
