import t from 'tap'
import { exactly } from '../helpers/containing.ts'
import { startApp } from '../helpers/app.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { startIssuer } from '../helpers/issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

/** A way to confuse code that rebuilds the URL of the request to `path`; `inner` is the true host. */
interface Hostile {
  title: string
  target?: (path: string, inner: string) => string
  hosts?: (inner: string) => string[]
  version?: string
  lines?: string[]
  /** Only a trusted peer can confuse us with these. */
  forwarded?: boolean
  /** The target leads to no other route than the router finds in it. */
  unrouted?: boolean
  /** Right proofs pass: the input is odd, but says nothing else than a plain one. */
  harmless?: boolean
}

const withHost = (title: string, host: (inner: string) => string): Hostile => ({ title, hosts: inner => [host(inner)] })
const withLine = (...lines: string[]) => ({
  title: lines.map(line => line.slice(0, 60)).join(' and '),
  lines,
  forwarded: true
})

const HOSTILE: Hostile[] = [
  withHost('Host with a query', inner => `${inner}/api/protected?`),
  withHost('Host with a fragment', inner => `${inner}/api/protected#`),
  withHost('Host with only ?', inner => `${inner}?`),
  withHost('Host with only #', inner => `${inner}#`),
  withHost('Host with a slash', inner => `${inner}/`),
  withHost('Host with user info', inner => `user@${inner}`),
  withHost('Host with a space', inner => `${inner} x`),
  withHost('Host with a tab', inner => `${inner}\tx`),
  withHost('Host with a back-slash', inner => `${inner}\\x`),
  withHost('Host with bytes outside ASCII', inner => `\u00ff${inner}`),
  withHost('Host with a control byte', inner => `${inner}\u0001`),
  withHost('Host with a comma', inner => `evil.example, ${inner}`),
  withHost('empty Host', () => ''),
  { title: 'two Host lines', hosts: inner => [inner, 'evil.example'] },
  { title: 'twice the same Host line', hosts: inner => [inner, inner] },
  { title: 'HTTP/1.0 without Host', hosts: () => [], version: '1.0' },
  { title: 'absolute target of this host', target: (path, inner) => `http://${inner}${path}`, harmless: true },
  { title: 'absolute target of another host', target: path => `http://evil.example${path}` },
  { title: 'absolute target with user info', target: (path, inner) => `http://user@${inner}${path}` },
  { title: 'absolute target of another scheme', target: (path, inner) => `https://${inner}${path}` },
  {
    title: 'absolute target with a query before the path',
    target: (path, inner) => `http://${inner}?${path}`,
    unrouted: true
  },
  { title: 'dot segments', target: path => `/api/users/..${path}`, unrouted: true },
  { title: 'escaped dot segments', target: path => `/api/%2e%2e${path}`, unrouted: true },
  { title: 'a back-slash', target: path => path.replace('/api/', '/api\\'), unrouted: true },
  { title: 'a fragment', target: path => `${path}#/../x` },
  { title: 'a query with all of it', target: path => `${path}?/../x\\%zz`, harmless: true },
  { title: 'an escaped letter', target: path => path.replace('/api/p', '/api/%70'), harmless: true },

  { title: 'another header whose name has four letters', lines: ['From: evil.example', 'Link: x'], harmless: true },

  withLine('X-Forwarded-Proto: javascript'),
  withLine('X-Forwarded-Proto:'),
  withLine('X-Forwarded-Proto: https,'),
  withLine('X-Forwarded-Proto: http, https'),
  withLine('X-Forwarded-Proto: https', 'X-Forwarded-Proto: javascript'),
  withLine('X-Forwarded-Host:'),
  withLine('X-Forwarded-Host: evil.example'),
  withLine('X-Forwarded-Host: evil.example/api/protected?'),
  withLine('X-Forwarded-Port: 0', 'X-Forwarded-Host: evil.example'),
  withLine('X-Forwarded-Prefix:'),
  withLine('X-Forwarded-Prefix: /svc'),
  withLine('X-Forwarded-Prefix: /a/..'),
  withLine('X-Forwarded-Prefix: /a/%2e%2e'),
  withLine('X-Forwarded-Prefix: /api/protected?'),
  withLine('X-Forwarded-Prefix: /api/protected#'),
  withLine('X-Forwarded-Prefix: /a\\b'),
  withLine('X-Forwarded-Prefix: /a,,/b'),
  withLine('X-Forwarded-Prefix: /a', 'X-Forwarded-Prefix: /a'),
  withLine(`X-Forwarded-Prefix: ${','.repeat(8192)}`),
  withLine(`X-Forwarded-Host: ${','.repeat(8192)}`),
  withLine(`Forwarded: ${','.repeat(8192)}`),
  withLine('Forwarded: host="evil.example'),
  withLine('Forwarded: host="evil.example/api/protected?"'),
  withLine('Forwarded: proto=javascript')
]

t.test('No bad input makes one resource pass for another, or affects a request without a proof', async t => {
  const issuer = await startIssuer(t)
  const client = await createDpopClient()
  const bound = issuer.token({ cnf: client.cnf, scope: 'read:users' })
  const bearer = issuer.token({ scope: 'read:users' })

  for (const trusted of [false, true]) {
    const { url } = await startApp(t, issuer, { TRUST_PROXY: trusted ? '127.0.0.1' : 'false' })
    const inner = new URL(url).host

    for (const hostile of HOSTILE) {
      const { title, target = path => path, hosts = inner => [inner], version = '1.1', lines = [] } = hostile
      const passes = hostile.harmless || (hostile.forwarded && !trusted)

      const send = (path: string, ...credentials: string[]) =>
        sendRaw(url, [
          `GET ${target(path, inner)} HTTP/${version}`,
          ...hosts(inner).map(host => `Host: ${host}`),
          'Connection: close',
          ...lines,
          ...credentials
        ])
      const sendProof = (path: string, htuPath: string) =>
        send(path, `Authorization: DPoP ${bound}`, `DPoP: ${client.proof({ token: bound, url: url + htuPath })}`)

      await t.test(`${title}, ${trusted ? 'of a trusted peer' : 'of any peer'}`, async t => {
        const open = await send('/api/public')
        const asBearer = await send('/api/private', `Authorization: Bearer ${bearer}`)
        // Node refuses some of it before there is a request; else it must be answered as ever.
        if (open.status !== 400 && !hostile.unrouted) t.strictSame([open.status, asBearer.status], [200, 200])

        for (
          const [path, htuPath] of [['/api/private', '/api/private'], ['/api/private', '/api/protected'], [
            '/api/protected',
            '/api/private'
          ]] as const
        ) {
          const { status, headers } = await sendProof(path, htuPath)
          const routed = status !== 400 && status !== 404
          if (routed && passes && path === htuPath) {
            t.equal(status, 200)
          } else if (routed) {
            t.equal(status, 401)
            const marked = parseChallenges(headers['www-authenticate']!).filter(({ parameters }) =>
              'error' in parameters
            )
            t.match(marked, [{ scheme: exactly('DPoP'), parameters: { error: /^invalid_(request|dpop_proof)$/ } }])
          } else {
            t.equal(status, open.status)
          }
        }
      })
    }
  }
})
