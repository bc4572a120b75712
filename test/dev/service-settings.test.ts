import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { removeTenant } from '../../cli/tenants.ts'
import { chooseServiceSettings } from '../../dev/serve/service-settings.ts'
import { settingsFromOptions } from '../../lib/settings/options.ts'
import { collectSettings, readTextIfThere } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

const folder = temporaryFolder(t, 'service-settings')
t.teardown(() => removeTenant(process.pid))

/** A configuration file of a real service, and what `npm run dev` makes of it. */
async function choose (content: object, env: NodeJS.ProcessEnv = {}) {
  const file = join(folder, 'config.json')
  writeFileSync(file, JSON.stringify(content))
  const chosen = await chooseServiceSettings({ ...env, CONFIG_FILE: file }, {
    issuer: 'http://localhost:8001',
    audience: 'https://holdfast.example/api',
    origins: ['http://localhost:8002', 'http://localhost:3000'],
    revocation: { operators: { scope: 'admin' } }
  })
  const { environment, settings, shown } = chosen
  const readFile = (path: string) => path === '.env' ? undefined : readTextIfThere(path)
  const api = await validateSettings(collectSettings({ environment, readFile }), processSurroundings)
  t.strictSame(...[api, settings].map(one => JSON.parse(JSON.stringify(one))) as [object, object], 'the API goes by the same')
  t.equal(statSync(environment.CONFIG_FILE).mode & 0o77, 0, 'nobody else reads it')
  return { settings, shown, written: readFileSync(environment.CONFIG_FILE, 'utf8') }
}

const idp = { domain: 'tenant.example', audience: ['https://api.example', 'b'] }

t.test('The API under npm run dev gets what no variable can hold.', async t => {
  Object.assign(process.env, { OWN_STORE: 'rediss://r.example', OWN_KEY: Buffer.alloc(32, 1).toString('base64url') })
  const { settings, shown, written } = await choose({
    idp: { ...idp, scopeImplies: { admin: ['read:users'] } },
    audit: { to: 'log', pseudonymKey: { env: 'OWN_KEY' } },
    dpop: { replay: { url: { env: 'OWN_STORE' } }, nonce: 'required', nonceSecret: [{ env: 'OWN_KEY' }] }
  }, { LOG_LEVEL: 'warn', HTTPS_PROXY: 'http://proxy.example:3128', PORT: '9000' })
  t.strictSame(settings.idp.scopeImplies, { admin: ['read:users'] })
  t.match(written, /"dpop\.nonceSecret":\[\{"env":"OWN_KEY"\}\]/)
  t.notMatch(written, /object Object/)
  t.hasStrict(shown, { IDP_SCOPE_IMPLIES: { admin: ['read:users'] }, LOG_LEVEL: 'warn' })
  t.notOk('DPOP_NONCE_SECRET' in shown || 'DPOP_REPLAY' in shown)
  settingsFromOptions(shown)
})

t.test('What a variable holds is the same in the file.', async t => {
  const { settings } = await choose({ idp }, {
    API_PROFILE: '2',
    CORS_HEADERS: 'X-A, X-B',
    DPOP_ALGS: 'ES256 EdDSA',
    DPOP_ENABLED: 'TRUE',
    DPOP_REPLAY_MAX: '5',
    IDP_SCOPE_CLAIMS: 'scope,scp',
    METRICS: 'off',
    RATE_LIMIT: '5',
    RESOURCE: 'https://r.example',
    TRUST_PROXY: 'loopback 192.0.2.0/24'
  })
  t.hasStrict(settings, {
    api: { profile: '2' },
    dpop: { algs: ['ES256', 'EdDSA'], replayMax: 5 },
    server: { metrics: 'off', trustProxy: ['loopback', '192.0.2.0/24'] }
  })
})

t.test('What is for a real provider, or for a gate, does not reach it.', async t => {
  const introspection = { for: 'jwt', endpoint: 'https://tenant.example/introspect', clientId: 'c', clientSecret: 's' }
  const { settings, written } = await choose({
    idp: { ...idp, introspection, audienceClaim: 'client_id' },
    gate: { upstream: 'http://127.0.0.1:3000', rules: [{ path: '/a' }] },
    server: { observe: new Date().toISOString().slice(0, 10), publicUrl: 'https://api.example' },
    audit: 'audit.log'
  })
  t.equal(settings.audit && settings.audit.to, resolve('audit.log'))
  t.notMatch(written, /tenant\.example|api\.example|client_id|gate|observe/)
})
