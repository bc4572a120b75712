import { generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startProvider } from '../../dev/provider/provider.ts'
import { createMcpClient } from '../../examples/mcp/client.ts'
import { startServer } from '../../examples/mcp/gated/server.ts'
import { asResource, CLIENT_ID } from '../../examples/mcp/site.ts'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import { createApp, startApp } from '../helpers/app.ts'
import { bearerLines } from '../helpers/call.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { atAnotherTime } from '../helpers/clock.ts'
import { freePort } from '../helpers/free-port.ts'
import { GATE_PROXIES, portFor, startGateProxy, type GateProxy } from '../helpers/gate-proxies.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { startRelay, toPort } from '../helpers/relay.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { createVisitor, logInAs } from '../helpers/visitor.ts'
import { sendRaw } from '../helpers/wire.ts'

/** No address: the resource is then the address that clients use. */
const NAME = 'orders'
const TRANSMITTER = 'http://127.0.0.1:1/'
const METADATA = '/.well-known/oauth-protected-resource'
const KEYS = '/.well-known/holdfast-jwks.json'
const STATEMENT_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem'
}) as string

/** A proxy that knows its gate only later, as the gate knows the address of the proxy. */
async function startFirst (t: Test, proxy: GateProxy, application: number) {
  const [asked, own] = [await startRelay(t), await startRelay(t)]
  const { url } = await startGateProxy(t, proxy, {
    gates: [proxy.grpc ? asked.port : own.port],
    own: own.port,
    application
  })
  return {
    url,
    async use (gate: Parameters<typeof portFor>[1]) {
      await own.use(toPort(Number(new URL(gate.url).port)))
      await asked.use(toPort(await portFor(proxy, gate)))
    }
  }
}

async function tryAddresses (t: Test, proxy: GateProxy) {
  const issuer = await startIssuer(t)
  const upstream = await startUpstream(t)
  const site = await startFirst(t, proxy, Number(new URL(upstream.origin).port))
  const { host } = new URL(site.url)
  const { app, url } = await startApp(t, issuer, {
    GATE: {
      rules: [
        { path: '/api/*', methods: ['GET'], scope: 'read' },
        { path: '/all/*' },
        { path: '/*', methods: ['OPTIONS'], allow: 'anyone' }
      ],
      statementKey: join(t.testdir({ 'statement.pem': STATEMENT_KEY }), 'statement.pem'),
      statementAudience: 'https://app.example',
      ...proxy.grpc && { grpcPort: 0 }
    },
    IDP_AUDIENCE: NAME,
    CORS_ORIGINS: 'https://page.example',
    TRUST_PROXY: 'loopback',
    REVOCATION: {
      transmitters: [{
        issuer: TRANSMITTER,
        audience: 'us',
        delivery: 'push',
        pushAuthorization: 'Bearer ours'
      }],
      logout: [{ clientId: 'client' }]
    }
  })
  await site.use({ app, url })

  const send = (target: string, lines: readonly string[] = [], method = 'GET') =>
    sendRaw(site.url, [`${method} ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...lines])
  const post = (target: string, body: string, lines: readonly string[]) =>
    send(target, [`Content-Length: ${body.length}`, ...lines, '', body], 'POST')
  t.equal((await send('/api/x', bearerLines(issuer.token({ aud: NAME, scope: 'read' })))).status, 200)
  const seen = upstream.arrived.length

  const ask = ['Origin: https://page.example', 'Access-Control-Request-Method: GET']
  t.equal((await send('/api/x', ask, 'OPTIONS')).status, 200, 'the application answers preflights')
  t.strictSame(upstream.arrived.splice(seen).map(({ method }) => method), ['OPTIONS'])
  t.equal((await send('/all/x', ask, 'OPTIONS')).status, 401, 'its twin under a rule for all methods')

  const forged = [
    'X-Forwarded-Host: evil.example',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Port: 1',
    'X-Forwarded-Prefix: /evil',
    'Forwarded: host=evil.example;proto=https'
  ]
  for (const lines of [[], forged]) {
    const { status, body } = await send(`${METADATA}?x`, lines)
    t.strictSame([status, JSON.parse(body).resource], [200, site.url], 'of the address that clients use')
  }
  t.hasStrict(JSON.parse((await send(METADATA)).body), { authorization_servers: [issuer.url], scopes_supported: ['read'] })
  t.equal((await send(`${METADATA}/api/x`)).status, 404, 'the gate has no such resource')
  t.equal(JSON.parse((await send(KEYS)).body).keys.length, 1)

  const type = 'Content-Type: application/secevent+jwt'
  const event = issuer.token({ iss: TRANSMITTER, aud: 'us', jti: '1', events: {}, exp: undefined, sub: undefined })
  const pushed = async (authorization: string) =>
    (await post('/revocation/events', event, [type, `Authorization: ${authorization}`])).status
  t.strictSame([await pushed('Bearer theirs'), await pushed('Bearer ours')], [401, 400], 'a transmitter is known')
  const chunked = await send('/revocation/events', [
    type,
    'Authorization: Bearer ours',
    'Transfer-Encoding: chunked',
    '',
    '1',
    'x',
    '0'
  ], 'POST')
  t.equal(chunked.status, 400, 'a transmitter may send chunks')
  const logout = await post('/revocation/logout', 'logout_token=x', ['Content-Type: application/x-www-form-urlencoded'])
  t.strictSame([logout.status, JSON.parse(logout.body).error], [400, 'invalid_request'])

  for (
    const target of [
      '/verify/nginx',
      '/verify/haproxy',
      '/verify/forwarded',
      '/verify/envoy/open/x',
      `/verify/envoy/open/..${METADATA}`,
      `${METADATA}/../../verify/envoy/open/x`,
      `${METADATA}/..%2f..%2fverify/envoy/open/x`,
      '/revocation/subjects',
      '/revocation/subjects/../events',
      '/revocation/events/',
      '/revocation/%65vents',
      '/Revocation/events',
      `/${KEYS}`,
      `${KEYS}/`,
      `${METADATA}x`,
      '/.well-known/openid-configuration',
      '/metrics',
      '/health/live',
      '/docs'
    ]
  ) {
    const { status, headers } = await send(target)
    // Traefik cleans paths first.
    if (!proxy.cleansPaths) t.match(String(status), /^40[034]$/, target)
    t.notOk(Object.keys(headers).some(name => name.startsWith('x-auth-')), `${target} is no authorization request`)
  }
  t.equal(upstream.arrived.length, seen, 'the application gets none of them')

  const refused = await send('/api/x', bearerLines(issuer.token({ aud: NAME })))
  t.strictSame([refused.status, refused.headers['retry-after']], [403, undefined], 'a refusal is no reason to wait')
  t.strictSame([(await send('/api/x')).headers['retry-after'], (await send('/api/x')).status], [undefined, 401])
}

/** Rules that the body decides, for those that send it, and rules by path alone. */
const rulesFor = (proxy: GateProxy) => {
  const scope = ['read:messages', 'write:messages']
  const others = { path: '/mcp', methods: ['GET', 'DELETE'], scope: scope[0] }
  if (!proxy.program!.endsWith('envoy')) return [{ path: '/mcp', methods: ['POST'], scope, maxAgeSeconds: 10 }, others]
  const methods = ['initialize', 'notifications/initialized', 'tools/list']
  return [
    { path: '/mcp', mcp: { methods }, scope: scope[0] },
    { path: '/mcp', mcp: { tools: ['read_messages'] }, scope: scope[0] },
    { path: '/mcp', mcp: { tools: ['send_message'] }, scope },
    { path: '/mcp', mcp: { tools: ['delete_messages'] }, scope, maxAgeSeconds: 10 },
    others
  ]
}

/** A client that knows the address of the server, and nothing of its provider. */
async function tryLogin (t: Test, proxy: GateProxy) {
  const server = await startServer(await freePort())
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const site = await startFirst(t, proxy, (server.address() as { port: number }).port)
  const [url, redirectUrl] = [`${site.url}/mcp`, `http://localhost:${await freePort()}/callback`]
  const provider = await startProvider({
    audience: url,
    ownClient: { clientId: CLIENT_ID, clientSecret: undefined, redirectUris: [redirectUrl] }
  })
  t.teardown(() => provider.close())
  const settings = asResource(
    url,
    await readSettings({
      IDP_ISSUER: provider.issuer,
      IDP_AUDIENCE: url,
      PUBLIC_URL: site.url,
      TRUST_PROXY: 'loopback',
      GATE: { rules: rulesFor(proxy), ...proxy.grpc && { grpcPort: 0 } }
    })
  )
  const gate = createApp(t, serverOptions(settings))
  await gate.register(holdfast, { settings })
  await site.use({ app: gate, url: await gate.listen({ port: 0, host: '127.0.0.1' }) })

  const { headers } = await sendRaw(site.url, [
    'GET /mcp HTTP/1.1',
    `Host: ${new URL(site.url).host}`,
    'Connection: close'
  ])
  t.strictSame(parseChallenges(headers['www-authenticate']!).map(({ parameters }) => parameters.resource_metadata), [
    `${site.url}${METADATA}/mcp`,
    `${site.url}${METADATA}/mcp`
  ])
  const [logins, visitor]: [URL[], ReturnType<typeof createVisitor>] = [[], createVisitor(provider.issuer)]
  const client = await atAnotherTime(-60, () =>
    createMcpClient({
      url,
      clientId: CLIENT_ID,
      redirectUrl,
      onLogin (loginUrl) {
        logins.push(loginUrl)
        logInAs(visitor, 'grace', loginUrl).then(back => fetch(back))
      }
    }))
  t.teardown(() => client.close())
  t.equal(logins.length, 1, 'it logs in')
  t.equal(logins[0]!.searchParams.get('resource'), url)
  t.equal(await client.call('send_message', { text: 'Hello' }), 'Sent.')
  t.equal(logins.length, 2, 'it is refused, and steps up')
  t.match(await client.call('read_messages'), /^grace: Hello$/m, 'the application knows the user')
  t.equal(await client.call('delete_messages'), 'Deleted: 1.')
}

for (const proxy of GATE_PROXIES) {
  const options = { skip: proxy.program === undefined && `${proxy.name} is not installed` }
  t.test(`Behind ${proxy.name} the gate's own addresses lead to the gate, and no others.`, options, t =>
    tryAddresses(t, proxy))
  t.test(`Behind ${proxy.name} a client finds the provider by itself, logs in, is refused and steps up.`, options, t =>
    tryLogin(t, proxy))
}
