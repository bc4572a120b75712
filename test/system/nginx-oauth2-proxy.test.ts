import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { bearerLines, dpopLines } from '../helpers/call.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { freePort } from '../helpers/free-port.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { nginxProgram, startNginx } from '../helpers/nginx.ts'
import { startUpstream } from '../helpers/upstream.ts'
import { sendRaw } from '../helpers/wire.ts'

/** deploy/nginx/oauth2-proxy.conf in a real nginx. What stands for oauth2-proxy only takes down what it gets. */

t.test('nginx gives tokens to the gate and browsers to oauth2-proxy, without the headers of the gate.', {
  skip: nginxProgram === undefined && 'nginx is not installed'
}, async t => {
  const [issuer, behindGate, browsers, client] = [
    await startIssuer(t),
    await startUpstream(t),
    await startUpstream(t),
    await createDpopClient()
  ]
  const gate = await startApp(t, issuer, {
    TRUST_PROXY: 'loopback',
    GATE: { upstream: behindGate.origin, rules: [{ path: '/orders/*' }] }
  })
  const port = await freePort()
  await startNginx(t, {
    file: 'oauth2-proxy.conf',
    port,
    replacements: {
      'listen 80;': `listen 127.0.0.1:${port};`,
      'server 127.0.0.1:8000;': `server ${new URL(gate.url).host};`,
      'server 127.0.0.1:4180;': `server ${new URL(browsers.origin).host};`
    }
  })
  const FORGED = ['X-Auth-Subject: admin', 'X-Auth-Scope: all', 'X_Auth_Subject: admin', 'X-Forwarded-Uri: /open']
  const send = async (lines: readonly string[], { target = '/orders/a%2Fb?c=1', host = 'www.example.com' } = {}) => {
    const [gated, browsing] = [behindGate.arrived.length, browsers.arrived.length]
    const { status } = await sendRaw(`http://127.0.0.1:${port}`, [
      `GET ${target} HTTP/1.1`,
      `Host: ${host}`,
      'Connection: close',
      ...FORGED,
      ...lines
    ])
    return { status, gated: behindGate.arrived.slice(gated), browsing: browsers.arrived.slice(browsing) }
  }
  const subjects = (headers: Record<string, string>) =>
    Object.entries(headers).filter(([name]) => /^x.auth/.test(name)).map(([name, value]) => `${name}: ${value}`)

  const browser = await send(['Cookie: _oauth2_proxy=session'])
  t.equal(browser.status, 200)
  t.equal(browser.gated.length, 0)
  t.equal(browser.browsing[0]!.target, '/orders/a%2Fb?c=1', 'byte for byte')
  t.strictSame(subjects(browser.browsing[0]!.headers), [], 'no header of the gate')
  t.equal(browser.browsing[0]!.headers['x-forwarded-uri'], '/orders/a%2Fb?c=1')
  t.equal((await send(['Authorization: Basic YTpi'])).browsing.length, 1, 'another scheme is no matter of the gate')

  const target = '/orders/7?c=1'
  const passed = await send(bearerLines(issuer.token()), { target })
  t.strictSame([passed.status, passed.browsing.length], [200, 0])
  t.equal(passed.gated[0]!.target, target)
  t.equal(passed.gated[0]!.headers['x-auth-subject'], 'user-1', 'the caller, and not what it claims')

  const token = issuer.token({ cnf: client.cnf })
  const proven = (url: string) => send(dpopLines(token, client.proof({ token, url })), { target })
  t.equal((await proven('http://www.example.com/orders/7')).status, 200)
  t.equal((await proven('http://other.example/orders/7')).status, 401)

  for (const line of ['Authorization: Bearer', 'authorization: bearer x', 'Authorization:\tDPoP x', 'Authorization: Bearer\tx']) {
    const refused = await send([line, 'Cookie: _oauth2_proxy=session'], { target })
    t.strictSame([refused.gated.length, refused.browsing.length], [0, 0], `${line}: a cookie does not help`)
    t.ok(refused.status === 401 || refused.status === 400, `${line}: ${refused.status}`)
  }
  t.equal((await send([], { host: 'other.example' })).status, 421)
  t.equal((await send(bearerLines(issuer.token()), { target: '/metrics' })).status, 404)
})
