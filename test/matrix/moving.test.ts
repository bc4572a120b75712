import { createHmac, sign } from 'node:crypto'
import { cpSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startApp } from '../helpers/app.ts'
import { startLine } from '../helpers/command-line.ts'
import { readSection, readTable, root, textOf } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { install, packHoldfast } from '../helpers/package-apps.ts'
import { programOf, startProgram } from '../helpers/programs.ts'
import { startUpstream } from '../helpers/upstream.ts'

/**
 * The set-ups of examples/migration, old and new side by side on the same 200 requests. Each difference stands in the
 * table of its README, and each row of that table is a difference.
 */

t.setTimeout(900_000)

const PAGE = 'examples/migration/README.md'
const ENVOY = 'envoy-jwt-authn'
const LIBRARIES = ['fastify-jwt-jwks', 'fastify-auth0-verify', 'express-oauth2-jwt-bearer', 'passport-jwt', ENVOY] as const
const REQUESTS = 200
const SEED = 59

/** Numbers from 0 up to 1, the same for each run (mulberry32). */
function randomFrom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Sent {
  readonly authorization?: string | readonly string[]
  readonly query?: string
}
type Claims = Record<string, unknown>
type Kind = (issuer: Issuer, claims: Claims) => Sent

const bearer = (token: string): Sent => ({ authorization: `Bearer ${token}` })
const seconds = (): number => Math.floor(Date.now() / 1000)
const withClaims = (more: (issuer: Issuer) => Claims): Kind => (issuer, claims) =>
  bearer(issuer.token({ ...claims, ...more(issuer) }))
const withHeader = (header: Claims): Kind => (issuer, claims) => bearer(issuer.token(claims, header))
const stranger = makeIssuerKey('k1')

const KINDS: Readonly<Record<string, Kind>> = {
  'a good token': (issuer, claims) => bearer(issuer.token(claims)),
  '`typ` JWT': withHeader({ typ: 'JWT' }),
  'no `typ`': withHeader({ typ: undefined }),
  '`typ` of a logout token': withHeader({ typ: 'logout+jwt' }),
  '`typ` of a DPoP proof': withHeader({ typ: 'dpop+jwt' }),
  'no `kid`': withHeader({ kid: undefined }),
  'an unknown `kid`': withHeader({ kid: 'k9' }),
  'an unknown `crit`': withHeader({ crit: ['urn:example:x'], 'urn:example:x': 1 }),
  'one of several audiences': withClaims(() => ({ aud: ['https://other.example', AUDIENCE] })),
  'another audience': withClaims(() => ({ aud: 'https://other.example' })),
  'no `aud`': withClaims(() => ({ aud: undefined })),
  'another issuer': withClaims(() => ({ iss: 'https://other.example/' })),
  'the issuer without its slash': withClaims(({ url }) => ({ iss: url.slice(0, -1) })),
  'no `iss`': withClaims(() => ({ iss: undefined })),
  'no `sub`': withClaims(() => ({ sub: undefined })),
  'another scope': withClaims(() => ({ scope: 'read:others' })),
  'scopes as a list': withClaims(() => ({ scope: ['read:orders'] })),
  expired: withClaims(() => ({ exp: seconds() - 120 })),
  'no `exp`': withClaims(() => ({ exp: undefined })),
  '`exp` as text': withClaims(() => ({ exp: String(seconds() + 600) })),
  '`nbf` in an hour': withClaims(() => ({ nbf: seconds() + 3600 })),
  '`iat` in an hour': withClaims(() => ({ iat: seconds() + 3600 })),
  'no `iat`': withClaims(() => ({ iat: undefined })),
  'bound to a key, without a proof': withClaims(() => ({ cnf: { jkt: 'a'.repeat(43) } })),
  'bound to a certificate, without it': withClaims(() => ({ cnf: { 'x5t#S256': 'a'.repeat(43) } })),
  'signed with another key': (issuer, claims) => bearer(issuer.token(claims, {}, stranger)),
  '`alg` none': (issuer, claims) =>
    bearer(encodeJws({ alg: 'none', typ: 'at+jwt' }, issuer.claims(claims), () => Buffer.alloc(0))),
  'HS256 with the public key': (issuer, claims) =>
    bearer(encodeJws(
      { alg: 'HS256', typ: 'at+jwt', kid: 'k1' },
      issuer.claims(claims),
      input => createHmac('sha256', JSON.stringify(issuer.keys[0]!.jwk)).update(input).digest()
    )),
  RS512: (issuer, claims) =>
    bearer(encodeJws(
      { alg: 'RS512', typ: 'at+jwt', kid: 'k1' },
      issuer.claims(claims),
      input => sign('sha512', input, issuer.keys[0]!.privateKey)
    )),
  'claims of another token': (issuer, claims) => {
    const [header, , signature] = issuer.token(claims).split('.')
    return bearer([header, issuer.token({ ...claims, sub: 'admin' }).split('.')[1], signature].join('.'))
  },
  'without its end': (issuer, claims) => bearer(issuer.token(claims).slice(0, -9)),
  'no token': () => ({}),
  'an empty Bearer': () => ({ authorization: 'Bearer' }),
  Basic: () => ({ authorization: `Basic ${Buffer.from('ann:secret').toString('base64')}` }),
  'no JWT': () => bearer('0123456789abcdef'),
  'the scheme in small letters': (issuer, claims) => ({ authorization: `bearer ${issuer.token(claims)}` }),
  'two spaces before it': (issuer, claims) => ({ authorization: `Bearer  ${issuer.token(claims)}` }),
  'two `Authorization` lines': (issuer, claims) => ({
    authorization: [`Bearer ${issuer.token(claims)}`, `Bearer ${issuer.token({ ...claims, sub: 'admin' })}`]
  }),
  'in the query': (issuer, claims) => ({ query: `?access_token=${issuer.token(claims)}` })
}

/** The status, and the body if it is 200. */
function send (origin: string, { authorization, query = '' }: Sent): Promise<readonly [status: number, body: string]> {
  return new Promise((resolve, reject) => {
    const headers = { ...authorization !== undefined && { authorization } } as Record<string, string>
    request(`${origin}/orders${query}`, { headers, agent: false }, answer => {
      let body = ''
      answer.setEncoding('utf8').on('data', part => {
        body += part
      }).on('end', () => resolve([answer.statusCode!, answer.statusCode === 200 ? body : '']))
    }).on('error', reject).end()
  })
}

/** The kinds of 200 requests, shuffled: each comes five times, the good token for the rest. */
function drawKinds (random: () => number): string[] {
  const kinds = Object.keys(KINDS).flatMap(kind => Array<string>(5).fill(kind))
  while (kinds.length < REQUESTS) kinds.push('a good token')
  for (let at = kinds.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [kinds[at], kinds[other]] = [kinds[other]!, kinds[at]!]
  }
  return kinds
}

const { folder, tarball } = await packHoldfast(t)
const cwd = join(folder, 'migration')
cpSync(join(root, 'examples/migration'), cwd, { recursive: true })
await install(cwd, tarball)

/** Envoy, and the gate in its place, before the same service. */
async function startEnvoy (t: Test, issuer: Issuer, side: string): Promise<string> {
  const upstream = await startUpstream(t)
  const text = textOf(`examples/migration/${ENVOY}/${side}.yaml`).replaceAll('https://tenant.example/', issuer.url)
  const config = parse(text.replaceAll('https://api.example', AUDIENCE))
  if (side === 'after') return (await startApp(t, issuer, { GATE: { ...config.gate, upstream: upstream.origin } })).url
  const { listeners: [listener], clusters: [tenant, application] } = config.static_resources
  const port = await freePort()
  listener.address.socket_address.port_value = port
  for (const [cluster, origin] of [[tenant, issuer.url], [application, upstream.origin]] as const) {
    const { hostname, port } = new URL(origin)
    const [{ endpoint }] = cluster.load_assignment.endpoints[0].lb_endpoints
    endpoint.address.socket_address = { address: hostname, port_value: Number(port) }
  }
  // The provider of the test has no certificate.
  delete tenant.transport_socket
  const file = join(folder, 'envoy.json')
  writeFileSync(file, JSON.stringify(config))
  const args = ['-c', file, '--disable-hot-restart', '--concurrency', '1', '-l', 'warn']
  await startProgram(t, programOf('envoy')!, { args, folder, ports: [port] })
  return `http://127.0.0.1:${port}`
}

t.test('Old and new answer 200 requests alike, but for the rows of the table.', {
  skip: programOf('envoy') === undefined && 'envoy is not installed'
}, async t => {
  const issuer = await startIssuer(t)
  const start = async (library: string, side: string): Promise<string> => {
    const file = `${library}/${side}`
    const port = String(await freePort())
    if (library !== ENVOY) startLine(t, cwd, `exec node ${file}.js`, { PORT: port, ISSUER: issuer.url, AUDIENCE })
    const origin = library === ENVOY ? await startEnvoy(t, issuer, side) : `http://127.0.0.1:${port}`
    // The first token has the keys of the provider fetched.
    const first = KINDS['a good token']!(issuer, { scope: 'read:orders' })
    for (let left = 200; ; left--) {
      const answer = await send(origin, first).catch((error: Error) => error)
      if (!(answer instanceof Error) && answer[0] === 200) return origin
      if (left === 0) throw new Error(`${file} answers no good token: ${answer}`)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
  const random = randomFrom(SEED)
  const kinds = drawKinds(random)
  t.equal(kinds.length, REQUESTS)
  const differences = new Map<string, Record<string, string>>()
  const counts: Record<string, number> = {}
  for (const library of LIBRARIES) {
    const [before, after] = [await start(library, 'before'), await start(library, 'after')]
    for (const kind of kinds) {
      const claims = { scope: 'read:orders', sub: `user-${Math.floor(random() * 1000)}` }
      const sent = KINDS[kind]!(issuer, claims)
      const [[was, body], [is, newBody]] = [await send(before, sent), await send(after, sent)]
      counts[is] = (counts[is] ?? 0) + 1
      if (was === is) {
        t.equal(newBody, body, `${library}: ${kind}`)
        continue
      }
      const row = differences.get(kind) ?? differences.set(kind, {}).get(kind)!
      const seen = row[library]
      if (seen !== undefined) t.equal(`${was}, ${is}`, seen, `${library}: ${kind}, each time`)
      row[library] = `${was}, ${is}`
    }
  }
  t.ok(counts[200]! > 100 && counts[401]! > 100, `many pass and many do not: ${JSON.stringify(counts)}`)

  const cells = (row: Readonly<Record<string, string>>): string[] => LIBRARIES.map(library => row[library] ?? '')
  const found = [...differences].map(([kind, row]) => [kind, ...cells(row)]).sort()
  const listed = readTable(readSection(PAGE, 'The same requests to both'))
  t.strictSame(found, [...listed].sort(), 'each difference is in the table, and no other')
})
