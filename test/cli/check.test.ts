import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { freePort } from '../helpers/free-port.ts'
import t from 'tap'
import type { Test } from 'tap'
import { check } from '../../cli/check.ts'
import { PROVIDER_FAULTS, STORE_FAULTS } from '../../explain/faults.ts'
import { bulk, startFakeRedis } from '../helpers/fake-redis.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'

const issuer = await startIssuer(t)
const good = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, PUBLIC_URL: 'https://api.example' }

async function run (env: NodeJS.ProcessEnv = good, files: Record<string, string> = {}, argv: string[] = []): Promise<{ code: number, text: string, result: string }> {
  let text = ''
  const code = await check(argv, { env, out: { write: (part) => { text += part } }, readFile: (path) => files[path] })
  return { code, text, result: text.slice(text.indexOf('\nResult\n') + 8) }
}

/** A provider whose answers have these headers and this key set. */
async function startProvider (t: Test, { headers = {}, keys = issuer.keys.map(({ jwk }) => jwk), path = '/keys' }: { headers?: Record<string, string>, keys?: object[], path?: string } = {}): Promise<string> {
  const server = createServer((request, response) => {
    const url = `http://${request.headers.host}/`
    const document = { '/.well-known/openid-configuration': { issuer: url, jwks_uri: `${url}keys` }, [path]: { keys } }[request.url!]
    response.sendDate = false
    response.writeHead(document === undefined ? 404 : 200, headers).end(JSON.stringify(document ?? {}))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const dateIn = (seconds: number): string => new Date(Date.now() + seconds * 1000).toUTCString()

t.test('If all is well, it says so, with code 0, and each setting with where it comes from.', async (t) => {
  const { code, text, result } = await run({ IDP_ISSUER: issuer.url, LOG_LEVEL: '' }, {
    'config.yaml': `idp:\n  audience: from.file\n  scopeClaims: [scope, scp]\nserver:\n  publicUrl: https://api.example\n  logLevel: warn\ndpop:\n  nonceSecret: ${'c2VjcmV0'.repeat(6)}\n`,
    '.env': `IDP_AUDIENCE=${AUDIENCE}\nDPOP_NONCE=required\n`
  })
  t.equal(code, 0)
  t.equal(result, '  All is well.\n')
  t.match(text, new RegExp(`IDP_ISSUER +environment +${issuer.url}\n`))
  t.match(text, new RegExp(`IDP_AUDIENCE +\\.env +${AUDIENCE}\n`))
  t.match(text, /IDP_SCOPE_CLAIMS +config\.yaml, line 3 +scope scp\n/)
  t.match(text, /LOG_LEVEL +config\.yaml, line 6 +warn\n/)
  t.match(text, /DPOP_REPLAY_MAX +default +2000000\n/)
  t.match(text, /IDP_DOMAIN +not set +required, unless IDP_ISSUER is set\n/)
  t.match(text, /DPOP_NONCE_SECRET +config\.yaml, line 8 +\(not shown\)\n/)
  t.notMatch(text, 'c2VjcmV0', 'a secret is not shown')
  t.match(text, new RegExp(`GET ${issuer.url}\\.well-known/openid-configuration answered 200\\.\n.*GET ${issuer.url}keys answered 200\\.\n.*1 usable key for RS256\\.\n.*clock .* agree\\.\n`))
})

t.test('Settings that are not usable are told one by one, and nobody is asked.', async (t) => {
  const asked = issuer.requests.length
  const { code, text, result } = await run({ ...good, DPOP_NONCE: 'sometimes', IDP_DPOP_MOD: 'REQUIRED', HTTPS_PROXY: 'ftp://me:hunter2@proxy', IDP_JWKS_URI: 'https://me:hunter2@keys' })
  t.equal(code, 1)
  t.match(result, /^ {2}4 things are wrong\.\n[^]*1\. unknown variable "IDP_DPOP_MOD"; did you mean IDP_DPOP_MODE\?\n[^]*DPOP_NONCE \(dpop\.nonce\) is "sometimes"; allowed: off or required/)
  t.notMatch(text, 'hunter2')
  t.equal(issuer.requests.length, asked)
  t.match((await run(good, {}, ['config.yaml'])).text, /nothing to check by the name of config\.yaml/)
  t.match(await run(good, {}, ['--help']), { code: 0, text: /Exit code: 0 if all is well, 1 if something is not\.\n$/ })
})

t.test('What an operator should reconsider is a warning, and no fault.', async (t) => {
  const { code, text } = await run({ IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, IDP_NONSENSE: '1', DPOP_REPLAY: 'off' })
  t.equal(code, 0)
  t.match(text, /! These variables look like settings but are not, and have no effect: IDP_NONSENSE\n[^]*! Neither PUBLIC_URL nor TRUST_PROXY[^]*! DPOP_REPLAY is off/)
  t.match((await run({ ...good, DPOP_ENABLED: 'false' })).text, /It is not used: DPoP is switched off/)
  const schemed = await run({ IDP_DOMAIN: 'https://tenant.example', IDP_AUDIENCE: AUDIENCE, PUBLIC_URL: 'https://api.example' })
  t.equal(schemed.code, 1, 'a domain with a scheme refuses every token')
  t.match(schemed.result, /One thing is wrong\.\n\n {2}1\. IDP_DOMAIN starts with a scheme[^]*Write only the host/)
})

t.test('A provider whose keys cannot be had or used is a fault, with its URL and its cure.', async (t) => {
  const nobody = `http://127.0.0.1:${await freePort()}/`
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
  const rows: Array<{ title: string, env: NodeJS.ProcessEnv, says: RegExp, cure?: string }> = [
    { title: 'nobody is there', env: { IDP_ISSUER: nobody }, says: new RegExp(`GET ${nobody}\\.well-known/openid-configuration: unreachable: ECONNREFUSED`), cure: PROVIDER_FAULTS.unreachable.cure },
    { title: 'its keys are not there', env: { IDP_ISSUER: await startProvider(t, { path: '/other' }) }, says: /GET \S+\/keys: status: 404 \(/, cure: PROVIDER_FAULTS.status.cure },
    { title: 'the address is another', env: { IDP_JWKS_URI: `${issuer.url}nothing` }, says: /GET \S+\/nothing: status: 404/, cure: PROVIDER_FAULTS.status.cure },
    { title: 'it names another issuer', env: { IDP_ISSUER: issuer.url.replace('127.0.0.1', 'localhost') }, says: /: discovery_issuer \(/, cure: PROVIDER_FAULTS.discovery_issuer.cure },
    { title: 'no key is usable', env: { IDP_ISSUER: await startProvider(t, { keys: [small, { kty: 'EC' }] }) }, says: /publishes no key that can be used for RS256.*Passed over: 1 modulus, 1 key_type/ }
  ]
  for (const { title, env, says, cure = 'Have the provider sign' } of rows) {
    const { code, result } = await run({ ...good, ...env })
    t.equal(code, 1, title)
    t.match(result, says, title)
    t.match(result, cure.replaceAll('`', ''), title)
  }
  const leaky = await run({ ...good, IDP_ISSUER: await startProvider(t, { keys: [...issuer.keys.map(({ jwk }) => jwk), { kty: 'RSA', d: 'x' }], headers: { date: dateIn(0) } }) })
  t.equal(leaky.code, 0)
  t.match(leaky.text, /! It publishes a private key.*\n {4}Replace that key/)
})

t.test('An issuer that is asked about tokens is asked about a made-up one.', async (t) => {
  const asking = { ...good, IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'hunter2' }
  issuer.introspection = { active: false }
  const fine = await run(asking)
  t.equal(fine.code, 0)
  t.match(fine.text, new RegExp(`asked about all tokens, at ${issuer.url}introspect, as the client api\\.\n.*takes the credentials of api, and says of a made-up token that it is not active`))
  t.notMatch(fine.text, 'hunter2')
  issuer.introspection = { active: true }
  t.match(await run(asking), { code: 1, result: /says of a made-up token that it is active/ })
  issuer.introspection = { active: true, sub: 'u', aud: AUDIENCE }
  t.match(await run(asking), { code: 1, result: /says of a made-up token that it is active/ })
  issuer.introspection = { active: 'no' }
  t.match(await run(asking), { code: 1, result: /could not be asked about a token: introspection_malformed \(/ })
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: `${issuer.url}nowhere` }), { code: 1, result: /status: 404/ })
  const withoutEndpoint = await startProvider(t)
  t.match(await run({ ...asking, IDP_ISSUER: withoutEndpoint }), { code: 1, result: /introspection_endpoint \([^]*set IDP_INTROSPECTION_ENDPOINT/ })
  const refusing = createServer((_request, response) => { response.writeHead(401).end() }).listen(0, '127.0.0.1')
  await once(refusing, 'listening')
  t.teardown(() => { refusing.closeAllConnections(); refusing.close() })
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: `http://127.0.0.1:${(refusing.address() as AddressInfo).port}/` }), { code: 1, result: /status: 401[^]*Look at the client: IDP_CLIENT_ID/ })
  t.match(await run({ ...asking, IDP_CLIENT_AUTH: 'private_key_jwt', IDP_CLIENT_KEY_FILE: '/nowhere' }), { code: 1, result: /IDP_CLIENT_KEY_FILE .* is "\/nowhere", which is not usable \(ENOENT\)/ })
})

t.test('It is said where certificates of clients come from.', async (t) => {
  const { code, text } = await run({ ...good, CLIENT_CERTIFICATE: 'nginx', TRUST_PROXY: 'loopback 10.0.0.0/8' })
  t.equal(code, 0)
  t.match(text, /header x-ssl-client-cert, from loopback, 10\.0\.0\.0\/8\./)
  t.match((await run({ ...good, CLIENT_CERTIFICATE: 'client-cert', TRUST_PROXY: 'true' })).text, /from every peer/)
  t.match(await run({ ...good, CLIENT_CERTIFICATE: 'socket' }), { code: 1, result: /this server does not end TLS/ })
  t.notMatch((await run()).text, 'Certificates of clients')
})

t.test('A clock that differs by more than the tolerance is a fault; a cache is not taken for one.', async (t) => {
  const rows: Array<{ title: string, headers: Record<string, string>, tolerance?: string, code: number, says: RegExp }> = [
    { title: 'ahead', headers: { date: dateIn(60) }, code: 1, says: /Its clock is \d\d s ahead of the one of this machine; IDP_CLOCK_TOLERANCE_SECONDS is 5\.\n[^]*by NTP/ },
    { title: 'behind', headers: { date: dateIn(-60) }, code: 1, says: /Its clock is \d\d s behind / },
    { title: 'within the tolerance', headers: { date: dateIn(-60) }, tolerance: '120', code: 0, says: /\u2713 Its clock is \d\d s behind / },
    { title: 'out of a cache', headers: { date: dateIn(-3600), age: '3600' }, code: 0, says: /agree/ },
    { title: 'not told', headers: {}, code: 0, says: /! No answer of the provider told the time/ },
    { title: 'not a date', headers: { date: 'now' }, code: 0, says: /! No answer of the provider told the time/ }
  ]
  for (const { title, headers, tolerance = '5', code, says } of rows) {
    const shown = await run({ ...good, IDP_ISSUER: await startProvider(t, { headers }), IDP_CLOCK_TOLERANCE_SECONDS: tolerance })
    t.equal(shown.code, code, title)
    t.match(shown.text, says, title)
  }
})

t.test('A shared store that cannot be used is a fault, with its host and its cure, but without the password.', async (t) => {
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  const DPOP_REPLAY = `redis://:hunter2@127.0.0.1:${redis.port}`
  redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : undefined
  const usable = await run({ ...good, DPOP_REPLAY })
  t.match(usable, { code: 0, text: new RegExp(`Redis at 127\\.0\\.0\\.1:${redis.port} records proofs\\.\n.*Its policy keeps`) })
  t.notMatch(usable.text, 'hunter2')
  redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : name === 'INFO' ? '-NOPERM no\r\n' : undefined
  t.match(await run({ ...good, DPOP_REPLAY }), { code: 0, text: /! It does not say whether it may evict records\.\n {4}Give the user/ })
  redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : name === 'INFO' ? bulk('# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n') : undefined
  const evicting = await run({ ...good, DPOP_REPLAY })
  t.match(evicting, { code: 1, result: /cannot be used: evicts \([^]*maxmemory-policy noeviction/ })
  const gone = await run({ ...good, DPOP_REPLAY: `redis://127.0.0.1:${await freePort()}` })
  t.equal(gone.code, 1)
  t.match(gone.result, STORE_FAULTS.unreachable.cure)
})
