import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { startConnectProxy } from '../helpers/connect-proxy.ts'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import t from 'tap'
import { banner } from '../../dev/serve/banner.ts'
import { call } from '../../cli/call.ts'
import { exchangeWithNonce, type Exchange } from '../../cli/exchange.ts'
import type { Tenant } from '../../cli/tenants.ts'
import { startProvider, type LocalProvider } from '../../dev/provider/provider.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { showTools, TOOLS } from '../../cli/tools.ts'
import { startApp } from '../helpers/app.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import type { Variables } from '../helpers/variables.ts'
import { recordedRun, shownBy } from '../helpers/shown.ts'

const audience = 'https://holdfast.example/api'
const provider = await startProvider({ audience })
t.teardown(() => provider.close())

async function startService (settings: Variables = {}, from: LocalProvider = provider) {
  const { url } = await startApp(t, { url: from.issuer } as Issuer, {
    IDP_AUDIENCE: audience,
    LOG_LEVEL: 'silent',
    ...settings
  })
  return {
    ...from,
    pid: process.pid,
    url,
    settings: { IDP_ISSUER: from.issuer, IDP_AUDIENCE: audience, ...settings as Record<string, string> }
  }
}

function run (
  tenant: Tenant | undefined,
  argv: string[],
  env: NodeJS.ProcessEnv = {},
  isTTY = false
) {
  const tenants = tenant === undefined ? [] : [tenant]
  return recordedRun(recorded(argv), out => call(argv, { env, out, tenants }), isTTY)
}

const local = await startService()
const recorded = recordedOutputs(t, import.meta.filename)

t.test('A Bearer call shows the token request, the token, the request and the answer.', async t => {
  t.equal((await run(local, ['GET', '/api/private-scoped', '--scope', 'read:messages'])).code, 0)
})

t.test('No secret is shown, and tokens are shortened without --full.', async t => {
  const short = await run(local, ['/api/private'])
  const full = await run(local, ['/api/private', '--full', '--body', 'json'])
  t.notMatch(short.text + full.text, provider.clientSecret)
  const secrets = ['password', 'code', 'refresh_token', 'subject_token', 'client_assertion']
  const params = [...secrets, 'subject_token_type', 'login_code'].flatMap(name => ['--param', `${name}=hunter2`])
  const { text } = await run(local, ['/api/private', ...params])
  for (const name of secrets) t.match(text, containing(`${name}=(hidden)`))
  t.match(text, /subject_token_type=hunter2\n.*login_code=hunter2/)
  t.match(short.text, /Bearer eyJ\S+\u2026 \(\d+ characters\)/)
  t.match(full.text, /Bearer eyJ[\w-]+\.[\w-]+\.[\w-]+\n/)
})

t.test('A DPoP call binds the token to a fresh key and shows the proof.', async t => {
  const { code, text } = await run(local, ['--dpop', 'GET', '/api/private?x=1'])
  t.equal(code, 0)
  const key = /with a proof of the key ([\w-]+)/.exec(text)?.[1]
  t.match(text, containing(`"jkt": "${key}"`))
  const odd = await run(local, ['--dpop', '/api/admin/../users/a b{\u00fc}', '--scope', 'read:users'])
  t.equal(odd.code, 0, 'the proof names the URL as it is sent')
})

t.test('If the service and the provider require nonces, each gets its own.', async t => {
  const strict = await startProvider({ audience, nonce: true })
  t.teardown(() => strict.close())
  const service = await startService({ DPOP_NONCE: 'required' }, strict)
  t.equal((await run(service, ['--dpop', '/api/private'])).code, 0)
})

t.test('A request is sent once more only if its answer asks for a nonce, and gives one.', async t => {
  const asks = 'DPoP error="use_dpop_nonce"'
  const rows: Array<[nonce: string, challenge: string, body: string, sends: number]> = [
    ['n', asks, '', 2],
    ['n', '', '{"error":"use_dpop_nonce"}', 2],
    ['', asks, '', 1],
    ['n', 'DPoP', '{"error":"use_nonce"}', 1]
  ]
  for (const [nonce, challenge, body, sends] of rows) {
    const headers = new Headers(challenge === '' ? {} : { 'www-authenticate': challenge })
    if (nonce !== '') headers.set('dpop-nonce', nonce)
    const sent: unknown[] = []
    const { nonce: used } = await exchangeWithNonce(async given => {
      sent.push(given)
      return { headers, body } as Exchange
    })
    t.strictSame([sent, used], [[undefined, 'n'].slice(0, sends), [undefined, 'n'][sends - 1]], challenge + body)
  }
})

const reasonIn = (text: string) => /^ {2}Refused: (\w+),/m.exec(text)?.[1]

t.test('A refusal gives exit code 1, the checks, the reason and what to do about it.', async t => {
  const bound = await startService({ DPOP_REQUIRED: 'true' })
  const elsewhere = await startService({ IDP_AUDIENCE: 'https://holdfast.example/other' })
  const noDpop = await startService({ DPOP_ENABLED: 'false', ERROR_BODY: 'detailed' })
  const proxied = await startService({ PUBLIC_URL: 'https://www.holdfast.example/svc' })
  const rows: Array<{ title: string, tenant: Tenant, argv: string[], reason: RefusalReason }> = [
    { title: 'no token', tenant: local, argv: ['/api/private', '--no-token'], reason: 'credentials_missing' },
    { title: 'no scope', tenant: local, argv: ['/api/private-scoped'], reason: 'scope_missing' },
    { title: 'another audience', tenant: elsewhere, argv: ['/api/private'], reason: 'token_audience' },
    {
      title: 'Bearer where DPoP is required',
      tenant: bound,
      argv: ['/api/private'],
      reason: 'scheme_not_offered'
    },
    {
      title: 'DPoP where it is off',
      tenant: noDpop,
      argv: ['/api/private', '--dpop'],
      reason: 'scheme_not_offered'
    },
    {
      title: 'another URL than the public one',
      tenant: proxied,
      argv: ['/api/private', '--dpop'],
      reason: 'htu_mismatch'
    }
  ]
  for (const { title, tenant, argv, reason } of rows) {
    const { code, text } = await run(tenant, argv)
    t.strictSame([code, reasonIn(text)], [1, reason], title)
  }
  t.equal((await run(bound, ['/api/private', '--dpop'])).code, 0, 'and the accepted one')
  const limited = await startService({ RATE_LIMIT: '1' })
  t.equal((await run(limited, ['/api/private'])).code, 0)
  t.equal(reasonIn((await run(limited, ['/api/private'])).text), 'rate_limited', 'the body names the reason')
  t.equal((await run(local, ['/api/nothing'])).code, 1)
})

t.test('Of a service whose settings are unknown, nothing that the caller chose counts as its own.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const env = {
    CALL_ISSUER: issuer,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  const elsewhere = await startService({ IDP_AUDIENCE: 'https://holdfast.example/other' })
  const { code, text } = await run(undefined, [`${elsewhere.url}/api/private`], env)
  t.strictSame([code, reasonIn(text)], [1, 'token_audience'])
})

t.test('Any provider is reached by flags or by the environment, and flags win.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const env = {
    CALL_URL: local.url,
    CALL_ISSUER: `${issuer}/`,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  t.equal((await run(undefined, ['/api/private'], env)).code, 0)
  const flags = ['--url', `${local.url}/`, '--issuer', issuer, '--audience', audience, '--client-id', clientId]
  t.equal(
    (await run(undefined, ['/api/private', ...flags], {
      CALL_CLIENT_SECRET: clientSecret,
      CALL_URL: 'http://localhost:1'
    })).code,
    0
  )
  t.equal(
    (await run(undefined, [`${local.url}/api/private`, '--param', `resource=${audience}`], {
      ...env,
      CALL_URL: '',
      CALL_AUDIENCE: ''
    })).code,
    0
  )
})

t.test('A provider that takes the secret only in a header gets it there, and it is not shown.', async t => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    if (request.url === '/.well-known/openid-configuration') {
      return response.end(JSON.stringify({ token_endpoint: `http://${request.headers.host}/token` }))
    }
    seen.push(String(request.headers.authorization))
    response.writeHead(400).end('{"error":"invalid_scope","error_description":"\u001b[2J\u009b"}')
  })
  const issuer = `http://127.0.0.1:${await listen(t, server)}`
  const { code, text } = await run(undefined, [
    `${local.url}/api/private`,
    '--issuer',
    issuer,
    '--client-id',
    'a b',
    '--client-secret',
    's:1'
  ])
  t.equal(code, 1)
  t.strictSame(seen, [`Basic ${Buffer.from('a+b:s%3A1').toString('base64')}`])
  t.notMatch(text, /s:1|s%3A1/)
  t.notMatch(text, /[^\P{Cc}\n]/u, 'and an answer does not steer the terminal')
})

t.test('A token endpoint is found by RFC 8414, too, and shown as it is called.', async t => {
  const asked: string[] = []
  const server = createServer(({ url = '', headers: { host } }, response) => {
    asked.push(url)
    if (url.startsWith('/token')) return response.end('{"access_token":"opaque"}')
    response.writeHead(url === '/.well-known/oauth-authorization-server/a' ? 200 : 404)
    response.end(JSON.stringify({ token_endpoint: `http://${host}/token\u001b[2J` }))
  })
  const issuer = `http://127.0.0.1:${await listen(t, server)}/a/`
  const { code, text } = await run(undefined, [`${local.url}/api/public`, '--issuer', issuer, '--client-id', 'a', '--client-secret', 'b'])
  t.equal(code, 0)
  t.strictSame(asked, ['/a/.well-known/openid-configuration', '/.well-known/oauth-authorization-server/a', '/token%1B[2J'])
  t.notMatch(text, /[^\P{Cc}\n]/u)
})

t.test('A token endpoint that is no URL is none.', async t => {
  const server = createServer((_, response) => response.end('{"token_endpoint":"token"}'))
  const issuer = `http://127.0.0.1:${await listen(t, server)}`
  const { code } = await run(undefined, [`${local.url}/api/private`, '--issuer', issuer, '--client-id', 'a', '--client-secret', 'b'])
  t.equal(code, 1)
})

t.test('--resolve names the address of a host, and a Host line is refused.', async t => {
  const { port } = new URL(local.url)
  const env = { CALL_TOKEN: 'opaque', HTTP_PROXY: 'http://127.0.0.1:1' }
  const ask = (...argv: string[]) => run(undefined, [`http://api.example:${port}/api/public`, ...argv], env)
  t.equal((await ask('--resolve', `other.example:${port}:127.0.0.2`, '--resolve', `API.example:${port}:127.0.0.1`)).code, 0)
  t.equal((await ask('--resolve', 'api.example:1:127.0.0.1')).code, 1, 'of another port')
  const proxy = await startConnectProxy()
  t.teardown(() => proxy.close())
  env.HTTP_PROXY = proxy.url
  t.equal((await ask('--resolve', 'api.example:1:127.0.0.1')).code, 0, 'by a proxy')
  Object.assign(env, { HTTP_PROXY: new URL(proxy.url).host, http_proxy: '' })
  t.equal((await ask()).code, 0, 'a proxy without its scheme, as curl takes it; an empty variable is none')
  env.HTTP_PROXY = 'ftp://127.0.0.1:1'
  t.equal((await ask()).code, 1, 'no proxy')
  t.equal((await run(undefined, [local.url + '/api/public'], env)).code, 0, 'this machine is asked without one, whatever it is')
  env.HTTP_PROXY = proxy.url
  proxy.tunnels.pop()
  const apart = [`http://[::ffff:127.0.0.1]:${port}/api/public`]
  t.equal((await run(undefined, apart, { ...env, NO_PROXY: '::/0' })).code, 0, 'NO_PROXY may hold a network, as for the service')
  for (const host of ['localhost', '127.0.0.1']) {
    t.equal((await run(undefined, [`http://${host}:${port}/api/public`], env)).code, 0, host)
  }
  // Not recorded: something may listen there.
  await call(['https://api.example/', '--resolve', 'api.example:443:127.0.0.1'], { env, out: { write () {} }, tenants: [] })
  t.strictSame(proxy.tunnels, [`api.example:${port}`], 'this machine is asked without one')
  t.equal((await ask('--resolve', `api.example:${port}:localhost`)).code, 1)
  t.equal((await ask('--resolve', `a:api.example:${port}:127.0.0.1`)).code, 1)
  t.equal((await ask('--header', 'host: other.example')).code, 1)
})

t.test('A token that exists already is used as it is.', async t => {
  t.equal((await run(local, ['/api/private', '--full'], { CALL_TOKEN: 'opaque' })).code, 1)
})

t.test('A body is sent as JSON, by POST, and other headers win.', async t => {
  const seen: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    seen.push(`${request.method} ${request.headers['content-type']} ${body}`)
    response.end('{}')
  })
  const to = `http://127.0.0.1:${await listen(t, server)}/orders`
  const rows: Array<[argv: string[], expected: string]> = [
    [['--json', '{"a": 1}'], 'POST application/json {"a": 1}'],
    [
      ['PUT', '--json', '[]', '--header', 'content-type: application/merge-patch+json'],
      'PUT application/merge-patch+json []'
    ]
  ]
  for (const [argv, expected] of rows) {
    const [method, ...rest] = argv
    const { code } = await run(
      undefined,
      method === 'PUT' ? [method, to, ...rest, '--no-token'] : [to, ...argv, '--no-token']
    )
    t.equal(code, 0, expected)
    t.equal(seen.at(-1), expected)
  }
})

t.test('Of several local tenants the one at the URL is used, else the oldest.', async t => {
  const second = await startProvider({ audience })
  t.teardown(() => second.close())
  const other = await startService({}, second)
  const codeOf = (argv: string[], tenants: Tenant[]) =>
    call(argv, { env: {}, out: { write () {} }, tenants })
  t.equal(await codeOf(['/api/private'], [local, other]), 0)
  t.equal(await codeOf(['/api/private', '--url', other.url], [local, other]), 0)
  t.equal(await codeOf([`${other.url}/api/private`], [local, other]), 0)
  t.equal(await codeOf([`${other.url}/api/private`], [local]), 1, 'a token of the first is nothing for the second')
})

t.test('An option that npm kept for itself is named.', async t => {
  t.equal((await run(local, ['/api/private'], { npm_config_dpop: 'true' })).code, 1)
})

t.test('The packaged command names itself, and nothing that only a clone has.', async t => {
  const packaged = (argv: string[], env: NodeJS.ProcessEnv = {}) =>
    shownBy(out => call(argv, { env, out, program: 'holdfast' }))
  const { code, text } = await packaged(['--help'])
  t.equal(code, 0)
  t.notMatch(text, containing('npm run'))
  t.equal((await run(undefined, ['--help'])).code, 0, 'in a clone it is the script')
  t.equal(
    (await packaged(['/api/private'])).text,
    'say with --url where the API is\nholdfast call --help tells more.\n'
  )
  t.equal(
    (await packaged(['/api/private', '--url', 'http://localhost:1'])).text,
    'name a provider with --issuer, or call with --no-token\nholdfast call --help tells more.\n'
  )
  t.equal(
    (await packaged(['nowhere'], { npm_config_url: 'http://localhost:1' })).text,
    '"nowhere" is neither a path that starts with / nor a URL\nholdfast call --help tells more.\n',
    'npx keeps no option for itself'
  )
})

t.test('Every tool has its help, in a clone and as a package.', async t => {
  for (const program of [undefined, 'holdfast']) {
    recorded('--help')(showTools(program))
    for (const [name, [, load]] of Object.entries(TOOLS)) {
      const record = recorded(name)
      const tool = await load()
      const { code, text } = await shownBy(out =>
        tool(['-h'], { env: {}, out, program, tenants: program ? undefined : [], input: {} } as never))
      t.equal(code, 0)
      record(text)
    }
  }
})

t.test('A failure is reported in one line, without a stack.', async t => {
  const fixture = (name: string) => readFileSync(new URL(`../fixtures/provider.${name}.pem`, import.meta.url))
  const secure = createSecureServer({ key: fixture('key'), cert: fixture('cert') })
  const encrypted = `https://127.0.0.1:${await listen(t, secure)}/`
  const rows: Array<{ argv: string[], tenant?: Tenant }> = [
    { argv: [] },
    { argv: ['GET', '/a', '/b'] },
    { argv: ['--nonsense', '/a'] },
    { argv: ['--dpopp', '/a'] },
    { argv: ['/a', '--json', '{a: 1}'], tenant: local },
    { argv: ['GET', '/a', '--json', '{}'], tenant: local },
    { argv: ['https://' + new URL(local.url).host + '/api/public', '--no-token'] },
    { argv: [encrypted.replace('https:', 'http:'), '--no-token'] },
    { argv: [`http://127.0.0.1:${await freePort()}/`, '--no-token'] },
    { argv: ['get', 'http://127.0.0.1:1/', '--no-token'] },
    { argv: ['G T', '/a'] },
    { argv: ['api/private'] },
    { argv: ['/api/private'] },
    { argv: ['http://localhost:1/', '--issuer', 'tenant.example'] },
    { argv: ['http://localhost:1/', '--issuer', 'https://tenant.example'] },
    { argv: ['http://localhost:1/', '--issuer', 'https://tenant.example', '--client-id', 'a'] },
    { argv: ['http://localhost:1/'] },
    { argv: ['http://[/'] },
    { argv: ['/a', '--body', 'xml'], tenant: local },
    { argv: ['/a', '--param', 'x'], tenant: local },
    { argv: ['/a', '--dpop', '--no-token'], tenant: local },
    {
      argv: ['/a'],
      tenant: { ...local, issuer: `http://127.0.0.1:${await freePort()}` }
    },
    { argv: ['/a'], tenant: { ...local, issuer: local.url } }
  ]
  for (const { argv, tenant } of rows) {
    const { code } = await run(tenant, argv)
    t.equal(code, 1, argv.join(' '))
  }
  t.equal((await run(undefined, ['--', '--help', 'a', 'b', 'c'])).code, 0, 'whatever stands beside it')
})

t.test('Colour is used only on a terminal, and not with NO_COLOR.', async t => {
  const coloured = /\p{Cc}\[/u
  const argv = ['/api/public', '--no-token']
  t.match((await run(local, argv, {}, true)).text, coloured)
  t.notMatch((await run(local, argv, { NO_COLOR: '1' }, true)).text, coloured)
  t.notMatch((await run(local, argv, {}, false)).text, coloured)
})

t.test('Every line that the start prints works as pasted, whatever the mode, and the DPoP one only once.', async t => {
  const rows: Array<[settings: Variables, lines: number]> = [
    [{}, 4],
    [{ DPOP_NONCE: 'required' }, 4],
    [{ DPOP_REQUIRED: 'true' }, 2],
    [{ DPOP_ENABLED: 'false' }, 3]
  ]
  for (const [settings, count] of rows) {
    const title = JSON.stringify(settings)
    const rest = { to: '', ownClient: undefined, transmitter: 'http://localhost:2' }
    const text = await banner(await startService(settings), 'http://localhost:1', (_style, text) => text, rest)
    const lines = text.split('\n').filter(line => line.includes('curl -i'))
    t.equal(lines.length, count, title)
    for (const line of lines) t.equal(await paste(line), 200, title)
    for (const line of lines) t.equal(await paste(line), line.includes('DPoP:') ? 401 : 200, title)
  }
})

async function paste (line: string) {
  const url = /curl -i (\S+)/.exec(line)?.[1] ?? ''
  const headers = [...line.matchAll(/-H '([\w-]+): ([^']+)'/g)].map((
    [, name = '', value = '']
  ) => [name, value])
  return (await fetch(url, { headers })).status
}
