import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../helpers/app.ts'
import { freePort } from '../helpers/free-port.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { nginxProgram } from '../helpers/nginx.ts'
import { programOf, startProgram } from '../helpers/programs.ts'
import { openSite, type Site } from '../helpers/proxied-site.ts'

const skip = nginxProgram === undefined && 'nginx is not installed'
const fixture = (name: string) => readFileSync(join(import.meta.dirname, '..', 'fixtures', name), 'utf8')
const authority = fixture('provider.cert.pem')
const CLIENTS = {
  a: { cert: fixture('client-a.cert.pem'), key: fixture('client-a.key.pem') },
  b: { cert: fixture('client-b.cert.pem'), key: fixture('client-b.key.pem') },
  /** What a client sends that has a certificate of its authority to show, too. */
  chain: { cert: fixture('client-a.cert.pem') + fixture('client-b.cert.pem'), key: fixture('client-a.key.pem') }
}
const certificate = new X509Certificate(CLIENTS.a.cert)
const thumbprint = Buffer.from(certificate.fingerprint256.replaceAll(':', ''), 'hex').toString('base64url')
const escaped = encodeURIComponent(CLIENTS.a.cert)

/** The status of a request with these headers, and the reason of the service if it refused. */
function ask (
  site: Pick<Site, 'origin' | 'running'>,
  headers: Record<string, string>,
  client?: keyof typeof CLIENTS
): Promise<[status: number | undefined, reason: unknown]> {
  const before = site.running.reasons().length
  const { hostname, port } = new URL(site.origin)
  return new Promise((resolve, reject) => {
    request({
      host: hostname,
      servername: hostname,
      port,
      path: '/api/private',
      ca: authority,
      agent: false,
      headers,
      ...client && CLIENTS[client]
    }, response => {
      response.resume().on('end', () => resolve([response.statusCode, site.running.reasons()[before]]))
    }).on('error', reject).end()
  })
}

t.test('Behind nginx that requests client certificates, a bound token passes only with its own', { skip }, async t => {
  const site = await openSite(
    t,
    'tls.conf',
    () => ({ IDP_AUDIENCE: AUDIENCE, TRUST_PROXY: 'loopback', CLIENT_CERTIFICATE: 'nginx' }),
    undefined,
    undefined,
    { '#ssl_verify_client optional_no_ca;': 'ssl_verify_client optional_no_ca;' }
  )
  const bearer = { authorization: `Bearer ${site.issuer.token({ cnf: { 'x5t#S256': thumbprint } })}` }
  t.strictSame(await ask(site, bearer, 'a'), [200, undefined])
  t.strictSame(await ask(site, bearer, 'b'), [401, 'certificate_mismatch'])
  t.strictSame(await ask(site, bearer), [401, 'certificate_missing'])
  t.strictSame(
    await ask(site, { authorization: `Bearer ${site.issuer.token()}` }),
    [200, undefined],
    'a token that is not bound'
  )

  const forged = {
    'x-ssl-client-cert': escaped,
    'client-cert': `:${certificate.raw.toString('base64')}:`,
    'x-forwarded-client-cert': `Hash=${certificate.fingerprint256.replaceAll(':', '')}`
  }
  t.strictSame(
    await ask(site, { ...bearer, ...forged }),
    [401, 'certificate_missing'],
    'what the client says of itself is gone behind nginx'
  )
  t.strictSame(await ask(site, { ...bearer, ...forged }, 'b'), [401, 'certificate_mismatch'])
  t.strictSame(await ask(site, { ...bearer, ...forged }, 'a'), [200, undefined])

  const token = site.issuer.token({ cnf: { jkt: site.client.jkt, 'x5t#S256': thumbprint } })
  const dpop = () => ({
    authorization: `DPoP ${token}`,
    dpop: site.client.proof({ token, url: `${site.origin}/api/private` })
  })
  t.strictSame(await ask(site, dpop(), 'a'), [200, undefined], 'both bindings')
  t.strictSame(await ask(site, dpop(), 'b'), [401, 'certificate_mismatch'])
  t.strictSame(await ask(site, { authorization: `DPoP ${token}` }, 'a'), [401, 'proof_missing'])
})

t.test('Without a word about certificates in its configuration, nginx passes none on', { skip }, async t => {
  const site = await openSite(
    t,
    'tls.conf',
    () => ({ IDP_AUDIENCE: AUDIENCE, TRUST_PROXY: 'loopback', CLIENT_CERTIFICATE: 'nginx' })
  )
  const bearer = { authorization: `Bearer ${site.issuer.token({ cnf: { 'x5t#S256': thumbprint } })}` }
  t.strictSame(await ask(site, { ...bearer, 'x-ssl-client-cert': escaped }, 'a'), [401, 'certificate_missing'])
})

// No distribution that CI has carries it: `npm run test:traefik` runs it.
const traefik = programOf('traefik')

if (traefik !== undefined) {
  t.test(
    'Behind traefik with PassTLSClientCert a bound token passes only with its own certificate, and the header is ' +
      'the recorded one',
    async t => {
      const issuer = await startIssuer(t)
      const seen: unknown[] = []
      const running = await startApp(
        t,
        issuer,
        { TRUST_PROXY: 'loopback', CLIENT_CERTIFICATE: 'traefik' },
        undefined,
        app => {
          app.addHook('onRequest', async ({ headers }) => {
            seen.push(headers['x-forwarded-tls-client-cert'])
          })
        }
      )
      const port = await freePort()
      const folder = t.testdir()
      const file = (name: string) => join(import.meta.dirname, '..', 'fixtures', name)
      writeFileSync(
        join(folder, 'routing.yaml'),
        JSON.stringify({
          http: {
            routers: { api: { rule: 'PathPrefix(`/`)', middlewares: ['certificate'], service: 'api' } },
            middlewares: { certificate: { passTLSClientCert: { pem: true } } },
            services: { api: { loadBalancer: { servers: [{ url: running.url }] } } }
          },
          tls: {
            options: { default: { clientAuth: { clientAuthType: 'RequestClientCert' } } },
            stores: {
              default: {
                defaultCertificate: { certFile: file('provider.cert.pem'), keyFile: file('provider.key.pem') }
              }
            }
          }
        })
      )
      await startProgram(t, traefik, {
        args: [
          `--providers.file.filename=${join(folder, 'routing.yaml')}`,
          '--providers.file.watch=false',
          `--entrypoints.tls.address=127.0.0.1:${port}`,
          '--entrypoints.tls.http.tls=true',
          '--global.checknewversion=false',
          '--global.sendanonymoususage=false',
          '--log.level=ERROR'
        ],
        folder,
        ports: [port]
      })
      const site = { origin: `https://localhost:${port}`, running }
      // It listens before it has read its routes.
      while ((await ask(site, {}).catch(() => [404]))[0] === 404) await new Promise(resolve => setTimeout(resolve, 25))
      seen.length = 0
      const bearer = { authorization: `Bearer ${issuer.token({ cnf: { 'x5t#S256': thumbprint } })}` }
      t.strictSame(await ask(site, bearer, 'a'), [200, undefined])
      t.strictSame(await ask(site, bearer, 'chain'), [200, undefined])
      const recorded: Array<{ source: string, value: string }> = JSON.parse(fixture('certificate-headers.json'))
      t.strictSame(seen, recorded.filter(({ source }) => source === 'traefik').map(({ value }) => value))
      t.strictSame(await ask(site, bearer, 'b'), [401, 'certificate_mismatch'])
      t.strictSame(await ask(site, bearer), [401, 'certificate_missing'])
      const forged = { 'x-forwarded-tls-client-cert': certificate.raw.toString('base64') }
      t.strictSame(
        await ask(site, { ...bearer, ...forged }),
        [401, 'certificate_missing'],
        'what the client says of itself is gone behind traefik'
      )
      t.strictSame(await ask(site, { ...bearer, ...forged }, 'b'), [401, 'certificate_mismatch'])
      t.strictSame(await ask(site, { ...bearer, x_forwarded_tls_client_cert: forged['x-forwarded-tls-client-cert'] }), [
        401,
        'certificate_missing'
      ], 'under another name too')
    }
  )
}
