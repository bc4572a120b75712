import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import t from 'tap'
import { revoke } from '../../cli/revoke.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import type { Tenant } from '../../cli/tenants.ts'
import { showTools, TOOLS } from '../../cli/tools.ts'
import { startApp } from '../helpers/app.ts'
import { atAnotherTime, nowSeconds } from '../helpers/clock.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { startIssuer, type Issuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import { recordedRun } from '../helpers/shown.ts'
const recorded = recordedOutputs(t, import.meta.filename)

/** With local tenants the command is that of a clone. */
function run (
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  program = 'holdfast',
  tenants?: readonly Tenant[]
) {
  return recordedRun(recorded(argv), out => revoke(argv, { env, out, program: tenants ? undefined : program, tenants }))
}

t.test('An operator revokes each kind of subject, and can undo it.', async t => {
  const issuer = await startIssuer(t)
  const { url } = await startApp(t, issuer, { REVOCATION: { operators: { scope: 'revoke:tokens', issuers: '*' } } })
  const operator = issuer.token({
    sub: 'operator',
    scope: 'revoke:tokens',
    client_id: 'console',
    iat: nowSeconds() + 60
  })
  const env = { CALL_TOKEN: operator, CALL_URL: url }
  const iat = nowSeconds() - 10
  const rows = [
    { claims: { sub: 'user-2' }, option: ['--sub', 'user-2'] },
    { claims: { sid: 's2' }, option: ['--sid', 's2'] },
    { claims: { jti: 'j2' }, option: ['--jti', 'j2', '--issuer', issuer.url] },
    { claims: { client_id: 'app-2' }, option: ['--client', 'app-2'] },
    { claims: {}, option: ['--issuer', issuer.url] }
  ]
  for (const { claims, option } of rows) {
    const token = issuer.token({ iat, ...claims })
    const ask = async () =>
      (await fetch(`${url}/api/private`, { headers: { authorization: `Bearer ${token}` } })).status
    t.equal(await ask(), 200, option.join(' '))
    t.equal((await run(option, env)).code, 0)
    t.equal(await ask(), 401)
    // What revokes the whole issuer revokes the operator's own token too: the undo needs a newer one.
    t.equal(await atAnotherTime(60, async () => (await run([...option, '--undo'], env)).code), 0)
    t.equal(await ask(), 200)
  }
  for (const name of [issuer.url.toUpperCase(), `${issuer.url}//`, '*']) {
    const { code, text } = await run(['--sub', 'user-2', '--issuer', name], env)
    t.strictSame([code, text.includes(`can be of the user user-2 of ${name}.`)], [1, true], name)
  }
  t.equal(
    (await run(['--jkt', 'thumbprint', '--url', url], { CALL_TOKEN: operator })).code,
    0,
    'a key that no token has'
  )
  t.equal(
    (await run(['--sub', 'user-2'], { ...env, CALL_TOKEN: issuer.token({ scope: 'other' }) })).code,
    1,
    'without the scope'
  )
})

t.test('A failed revocation is reported in one sentence.', async t => {
  const rows = [
    [],
    ['--sub', 'a', '--sid', 'b'],
    ['--sub', 'a'],
    ['--sub', 'a', '--sub', 'b', '--issuer', 'https://a.test'],
    ['user-1'],
    ['--sid', 's', '--issuer', 'https://a.test'],
    ['--jkt', 'k', '--issuer', 'https://a.test', '--undo']
  ]
  const env = { CALL_TOKEN: 'opaque', CALL_URL: 'http://localhost:1' }
  for (const argv of rows) t.equal((await run(argv, env)).code, 1)
  for (const lacking of [{}, { CALL_TOKEN: 'opaque' }, { CALL_ISSUER: 'http://localhost:1' }]) t.equal((await run(['--sid', 'b'], lacking)).code, 1)
})

t.test('A success is a sentence, and a refusal is explained.', async t => {
  const issuer = await startIssuer(t)
  const { url } = await startApp(t, issuer, { REVOCATION: { operators: { scope: 'revoke:tokens' } } })
  const env = { CALL_TOKEN: issuer.token({ scope: 'revoke:tokens' }), CALL_URL: url }
  for (
    const argv of [['--sub', 'u', '--issuer', issuer.url], ['--sid', 's'], ['--sid', 's', '--undo'], ['--client', 'app']]
  ) t.equal((await run(argv, env)).code, 0)
  t.match(
    await run(['--sid', 'ALL'], env),
    { code: 1, text: /^Nothing is revoked: no token of the service can be of the session ALL\./ },
    'it means all sessions of a user, and names none'
  )
  const local = { pid: 1, url, issuer: issuer.url, audience: 'a', clientId: 'c', clientSecret: 's', settings: {} }
  t.match(await run(['--sub', 'u', '--url', url], { CALL_TOKEN: issuer.token({ iss: undefined, scope: 'revoke:tokens' }) }, undefined, [local]), {
    code: 1,
    text: /POST .*\/revocation\/subjects/
  }, 'the issuer is that of the local tenant')
  const torn = await run(['--sub', 'u', '--issuer', issuer.url], { ...env, CALL_TOKEN: 'secret\nsecret' })
  t.match(torn, { code: 1, text: /Invalid character in header content \["authorization"\]/i })
  t.notMatch(torn.text, /secret/, 'a token that cannot be sent is not shown')
  const ended = await run(['--client', 'app', '--issuer', issuer.url], { ...env, CALL_TOKEN: `${env.CALL_TOKEN}\n` })
  t.match(ended, { code: 0, text: /^Revoked/ }, 'the twin: a line break at its end')
  const refused = await run(['--sub', 'u'], { ...env, CALL_TOKEN: issuer.token({ scope: 'other' }) })
  t.match(refused, { code: 1, text: /Refused: scope_missing/ })
})

t.test('A service that accepts only bound tokens gets one.', async t => {
  const audience = 'https://holdfast.example/api'
  const provider = await startProvider({ audience })
  t.teardown(() => provider.close())
  const { url } = await startApp(t, { url: provider.issuer } as Issuer, {
    IDP_AUDIENCE: audience,
    DPOP_REQUIRED: 'true',
    REVOCATION: { operators: { scope: 'admin' } }
  })
  const settings = { IDP_ISSUER: provider.issuer, IDP_AUDIENCE: audience, DPOP_REQUIRED: 'true' }
  const revokeBy = (...argv: string[]) =>
    run(['--sub', 'ada', '--scope', 'admin', ...argv], {}, undefined, [{ ...provider, pid: 1, url, settings }])
  t.equal((await revokeBy('--dpop')).code, 0)
  t.match(await revokeBy(), { code: 1, text: /Refused: scheme_not_offered/ })
})

t.test('The subject is of the issuer whose token is sent.', async t => {
  const named: unknown[] = []
  const server = createServer((request, response) => {
    const at = `http://${request.headers.host}`
    if (request.url === '/.well-known/openid-configuration') return response.end(JSON.stringify({ token_endpoint: `${at}/token` }))
    if (request.url === '/token') return response.end('{"access_token":"t"}')
    let text = ''
    request.on('data', part => {
      text += part
    }).on('end', () => {
      named.push(JSON.parse(text).sub_id.iss)
      response.writeHead(204).end()
    })
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  const tenantOf = (url: string) => ({ pid: 1, url, issuer: url, audience: 'a', clientId: 'c', clientSecret: 's', settings: {} })
  const tenants = [tenantOf('http://127.0.0.1:1'), tenantOf(url)]
  const foreign = { CALL_ISSUER: url, CALL_CLIENT_ID: 'c', CALL_CLIENT_SECRET: 's' }
  t.equal((await run(['--sub', 'u', '--url', url], {}, undefined, tenants)).code, 0)
  t.equal((await run(['--sub', 'u'], { ...foreign, CALL_URL: url }, undefined, tenants.slice(0, 1))).code, 0)
  t.equal((await run(['--sub', 'u', '--url', url], foreign)).code, 0)
  t.strictSame(named, [url, url, url])
})

t.test('The packaged command and its page name every tool.', async t => {
  const page = readFileSync(new URL('../../packages/holdfast-cli/README.md', import.meta.url), 'utf8')
  for (const name of Object.keys(TOOLS)) {
    t.match(showTools('holdfast'), new RegExp(`\\n  holdfast ${name} +\\w`), name)
    t.match(showTools(), new RegExp(`\\n  ${name} +\\w`), name)
    t.match(page, new RegExp(`\\n\\| \`holdfast ${name}\` \\| \\w`), `${name} is on its page`)
  }
  t.match(showTools('holdfast'), /Each has --help\. holdfast --version prints the version\.\n$/)
})
