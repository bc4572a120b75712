import { execFile } from 'node:child_process'
import { createHash, createPublicKey, sign, X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import jwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import holdfast, { type HoldfastOptions } from '../../packages/holdfast/index.ts'
import { nowSeconds } from '../helpers/clock.ts'
import { readSection, readTable, textOf } from '../helpers/documents.ts'
import { createDpopClient, type DpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, makeIssuerKey, startIssuer, type Issuer } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { createApp } from '../helpers/app.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/**
 * The rows of docs/guide/moving/express-oauth2-jwt-bearer.md and of examples/migration/README.md: an app with the other
 * library, the same app with this one, and the same requests to both.
 */

const folder = temporaryFolder(t, 'migration')
t.setTimeout(600_000)

type Middleware = (request: IncomingMessage, response: unknown, next: (error?: unknown) => void) => void
interface Express {
  get (path: string, ...handlers: unknown[]): void
  use (...handlers: unknown[]): void
}
/** What of express-oauth2-jwt-bearer the rows use. */
interface Library extends
  Record<
    'requiredScopes' | 'scopeIncludesAny' | 'claimEquals' | 'claimIncludes' | 'claimCheck',
    (...args: never[]) => Middleware
  > {
  auth (options: object): Middleware
}

const load: { express?: (() => Express) & { urlencoded (options: object): Middleware }, library?: Library } = {}

t.before(async () => {
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  await promisify(execFile)('npm', [
    'i',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    'express@5',
    'express-oauth2-jwt-bearer@1.10'
  ], { cwd: folder })
  const require = createRequire(join(folder, 'index.js'))
  load.express = require('express')
  load.library = require('express-oauth2-jwt-bearer')
})

async function listen (t: Test, listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await new Promise<void>(resolve => server.once('listening', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Everything that a row needs beside the two apps. */
interface Site {
  issuer: Issuer
  other: Issuer
  client: DpopClient
  es512: DpopClient
}

interface Sent {
  headers?: Record<string, string>
  query?: string
  body?: string
}
type Answers = readonly [status: number, error?: string]

interface Row {
  /** The first cell of the row; after `callers`, what the list about callers says. */
  row: string
  there: (site: Site, library: Library) => Middleware[]
  here: (site: Site) => HoldfastOptions
  /** The requirement of the route. A valid token unless given. */
  guard?: (app: FastifyInstance) => unknown
  requests: (
    site: Site
  ) => ReadonlyArray<readonly [title: string, sent: Sent | ((url: string) => Sent), there: Answers, here: Answers]>
}

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
const basics = ({ issuer }: Site) => ({ issuerBaseURL: issuer.url, audience: AUDIENCE })
const options = ({ issuer }: Site, idp: object = {}) =>
  ({ idp: { issuer: issuer.url, audience: AUDIENCE, ...idp } }) as HoldfastOptions
const OK: Answers = [200]
const NOBODY: Answers = [401]
const BAD: Answers = [401, 'invalid_token']
const certificate = readFileSync(new URL('../fixtures/client-a.cert.pem', import.meta.url), 'utf8')
const stranger = readFileSync(new URL('../fixtures/client-b.cert.pem', import.meta.url), 'utf8')
const thumbprint = createHash('sha256').update(new X509Certificate(certificate).raw).digest('base64url')
const withCertificate = (token: string, pem: string) => ({
  headers: { authorization: `Bearer ${token}`, 'x-ssl-client-cert': encodeURIComponent(pem) }
})
const pkcs = makeIssuerKey('ps')
const signedPs256 = (issuer: Issuer) =>
  encodeJws(
    { alg: 'PS256', typ: 'at+jwt', kid: 'ps' },
    issuer.claims(),
    input => sign('sha256', input, { key: pkcs.privateKey, padding: 6, saltLength: 32 })
  )
const BAD_PROOF: Answers = [401, 'invalid_dpop_proof']
const BAD_PROOF_THERE: Answers = [400, 'invalid_dpop_proof']
/** A bound token with its proof, in which something may differ. */
function proven ({ issuer, client }: Pick<Site, 'issuer' | 'client'>, change: object = {}): (url: string) => Sent {
  const token = issuer.token({ cnf: client.cnf })
  return url => ({
    headers: { authorization: `DPoP ${token}`, dpop: client.proof({ token, url: `${url}/orders`, ...change }) }
  })
}
const claimRow = (row: string, there: Row['there'], claims: object): Row => ({
  row,
  there,
  here: options,
  guard: app => app.require({ claims } as never),
  requests: ({ issuer }) => [
    ['the claim', bearer(issuer.token({ team: ['a', 'b'], tier: 'gold' })), OK, OK],
    ['another one', bearer(issuer.token({ team: ['c'], tier: 'lead' })), [401, 'invalid_token'], [
      403,
      'insufficient_scope'
    ]],
    ['none', bearer(issuer.token()), [401, 'invalid_token'], [403, 'insufficient_scope']]
  ]
})

const ROWS: readonly Row[] = [
  {
    row: '`auth({ issuerBaseURL })`, `ISSUER_BASE_URL`',
    there: (site, { auth }) => [auth(basics(site))],
    here: options,
    requests: ({ issuer, other }) => [
      ['a good token', bearer(issuer.token()), OK, OK],
      ['none', {}, NOBODY, NOBODY],
      ['another issuer', bearer(other.token()), BAD, BAD],
      ['expired', bearer(issuer.token({ exp: 1 })), BAD, BAD]
    ]
  },
  {
    row: '`audience`, `AUDIENCE`',
    there: (site, { auth }) => [auth({ ...basics(site), audience: [AUDIENCE, 'second'] })],
    here: site => options(site, { audience: [AUDIENCE, 'second'] }),
    requests: (
      { issuer }
    ) => [['the first', bearer(issuer.token()), OK, OK], [
      'the second',
      bearer(issuer.token({ aud: 'second' })),
      OK,
      OK
    ], ['neither', bearer(issuer.token({ aud: 'x' })), BAD, BAD]]
  },
  {
    row: '`strict`',
    there: (site, { auth }) => [auth({ ...basics(site), strict: true })],
    here: site => options(site, { tokenProfile: 'rfc9068' }),
    requests: ({ issuer }) => {
      const whole = { client_id: 'app', jti: 'j1' }
      return [['of the profile', bearer(issuer.token(whole)), OK, OK], [
        'another `typ`',
        bearer(issuer.token(whole, { typ: 'JWT' })),
        BAD,
        BAD
      ], ['no `client_id`', bearer(issuer.token({ jti: 'j1' })), BAD, BAD]]
    }
  },
  {
    row: '`jwksUri`',
    there: ({ issuer }, { auth }) => [auth({ issuer: issuer.url, jwksUri: `${issuer.url}keys`, audience: AUDIENCE })],
    here: site => options(site, { jwksUri: `${site.issuer.url}keys` }),
    requests: (
      { issuer }
    ) => [['a good token', bearer(issuer.token()), OK, OK], ['a bad one', bearer(issuer.token({ aud: 'x' })), BAD, BAD]]
  },
  {
    row: '`tokenSigningAlg`, `publicKey`',
    there: (site, { auth }) => [auth({ ...basics(site), tokenSigningAlg: 'PS256' })],
    here: site => options(site, { algs: ['PS256'] }),
    requests: (
      { issuer }
    ) => [['PS256', bearer(signedPs256(issuer)), OK, OK], ['RS256', bearer(issuer.token()), BAD, BAD]]
  },
  {
    row: '`clockTolerance`',
    there: (site, { auth }) => [auth({ ...basics(site), clockTolerance: 60 })],
    here: site => options(site, { clockToleranceSeconds: 60 }),
    requests: ({ issuer }) => {
      const now = nowSeconds()
      return [['30 seconds too old', bearer(issuer.token({ exp: now - 30 })), OK, OK], [
        '300',
        bearer(issuer.token({ exp: now - 300 })),
        BAD,
        BAD
      ]]
    }
  },
  {
    row: '`authRequired: false`',
    there: (site, { auth }) => [auth({ ...basics(site), authRequired: false })],
    here: options,
    guard: app => app.require({ optional: true }),
    requests: (
      { issuer }
    ) => [['no token', {}, OK, OK], ['a good token', bearer(issuer.token()), OK, OK], [
      'a bad token',
      bearer(issuer.token({ aud: 'x' })),
      OK,
      BAD
    ]]
  },
  {
    row: '`mcd`',
    there: ({ issuer, other }, { auth }) => [auth({ mcd: { issuers: [issuer.url, other.url] }, audience: AUDIENCE })],
    here: ({ issuer, other }) =>
      ({ idp: { issuers: [{ issuer: issuer.url }, { issuer: other.url }], audience: AUDIENCE } }) as HoldfastOptions,
    requests: (
      { issuer, other }
    ) => [['of the first', bearer(issuer.token()), OK, OK], ['of the second', bearer(other.token()), OK, OK], [
      'of a third',
      bearer(issuer.token({ iss: 'https://third.example/' })),
      BAD,
      BAD
    ]]
  },
  {
    row: '`mtls`, `getCertificate`',
    there: (
      site,
      { auth }
    ) => [
      auth({
        ...basics(site),
        getCertificate: (request: IncomingMessage) =>
          request.headers['x-ssl-client-cert'] && decodeURIComponent(String(request.headers['x-ssl-client-cert']))
      })
    ],
    here: ({ issuer }) =>
      ({
        idp: { issuer: issuer.url, audience: AUDIENCE },
        server: { clientCertificate: 'nginx', trustProxy: ['loopback'] }
      }) as HoldfastOptions,
    requests: ({ issuer }) => {
      const token = issuer.token({ cnf: { 'x5t#S256': thumbprint } })
      return [['its certificate', withCertificate(token, certificate), OK, OK], [
        'another',
        withCertificate(token, stranger),
        BAD,
        BAD
      ], ['none', bearer(token), [400, 'invalid_request'], BAD]]
    }
  },
  {
    row: '`dpop: { enabled, required }`',
    there: (site, { auth }) => [auth({ ...basics(site), dpop: { enabled: true, required: true } })],
    here: site => options(site, { dpopMode: 'REQUIRED' }),
    requests: site => [
      ['a token and a proof', proven(site), OK, OK],
      ['Bearer', bearer(site.issuer.token()), [400], NOBODY],
      ['a proof for another URL', proven(site, { url: 'http://x.example/' }), BAD_PROOF_THERE, BAD_PROOF]
    ]
  },
  {
    row: '`dpop: { iatOffset, iatLeeway }`',
    there: (site, { auth }) => [auth({ ...basics(site), dpop: { enabled: true, iatOffset: 60, iatLeeway: 5 } })],
    here: site => options(site, { dpopIatOffsetSeconds: 60, dpopIatLeewaySeconds: 5 }),
    requests: site => [
      ['half a minute old', proven(site, { claims: { iat: nowSeconds() - 30 } }), OK, OK],
      ['two minutes old', proven(site, { claims: { iat: nowSeconds() - 120 } }), BAD_PROOF_THERE, BAD_PROOF],
      ['of the future', proven(site, { claims: { iat: nowSeconds() + 60 } }), BAD_PROOF_THERE, BAD_PROOF]
    ]
  },
  {
    row: '`maxTokenAge`',
    there: (site, { auth }) => [auth({ ...basics(site), maxTokenAge: 60 })],
    here: options,
    guard: app => app.require({ claims: { iat: iat => nowSeconds() - Number(iat) <= 60 } }),
    requests: (
      { issuer }
    ) => [['a fresh token', bearer(issuer.token()), OK, OK], [
      'one of two minutes ago',
      bearer(issuer.token({ iat: nowSeconds() - 120 })),
      BAD,
      [403, 'insufficient_scope']
    ]]
  },
  {
    row: '`validators`',
    there: (site, { auth }) => [auth({ ...basics(site), validators: { tier: 'gold' } })],
    here: options,
    guard: app => app.require({ claims: { tier: 'gold' } }),
    requests: (
      { issuer }
    ) => [['the claim', bearer(issuer.token({ tier: 'gold' })), OK, OK], [
      'another',
      bearer(issuer.token({ tier: 'lead' })),
      BAD,
      [403, 'insufficient_scope']
    ]]
  },
  {
    row: '`app.use(auth())` for all routes',
    there: (site, { auth }) => [auth(basics(site))],
    here: options,
    guard: app => {
      app.addHook('onRequest', app.authenticate())
      return []
    },
    requests: ({ issuer }) => [['a good token', bearer(issuer.token()), OK, OK], ['none', {}, NOBODY, NOBODY]]
  },
  {
    row: "`requiredScopes('a b')`",
    there: (site, { auth, requiredScopes }) => [auth(basics(site)), requiredScopes('a b' as never)],
    here: options,
    guard: app => app.requireScope('a', 'b'),
    requests: (
      { issuer }
    ) => [['both', bearer(issuer.token({ scope: 'b a' })), OK, OK], ['one', bearer(issuer.token({ scope: 'a' })), [
      403,
      'insufficient_scope'
    ], [403, 'insufficient_scope']]]
  },
  {
    row: "`scopeIncludesAny('a b')`",
    there: (site, { auth, scopeIncludesAny }) => [auth(basics(site)), scopeIncludesAny('a b' as never)],
    here: options,
    guard: app => app.requireScope({ any: ['a', 'b'] }),
    requests: (
      { issuer }
    ) => [['one', bearer(issuer.token({ scope: 'a' })), OK, OK], ['neither', bearer(issuer.token({ scope: 'c' })), [
      403,
      'insufficient_scope'
    ], [403, 'insufficient_scope']]]
  },
  claimRow(
    "`claimEquals('tier', 'gold')`",
    (site, { auth, claimEquals }) => [auth(basics(site)), claimEquals('tier' as never, 'gold' as never)],
    { tier: 'gold' }
  ),
  claimRow(
    "`claimIncludes('team', 'a', 'b')`",
    (site, { auth, claimIncludes }) => [auth(basics(site)), claimIncludes('team' as never, 'a' as never, 'b' as never)],
    { team: (team: unknown) => Array.isArray(team) && ['a', 'b'].every(name => team.includes(name)) }
  ),
  claimRow(
    '`claimCheck(check)`',
    (site, { auth, claimCheck }) => [
      auth(basics(site)),
      claimCheck((({ tier }: { tier?: string }) => tier === 'gold') as never)
    ],
    { tier: (tier: unknown) => tier === 'gold' }
  ),
  {
    row: 'callers: a proof that is sent twice',
    there: (site, { auth }) => [auth(basics(site))],
    here: options,
    requests: site => {
      const sent = new Map<string, Sent>()
      const once = (url: string) => sent.get(url) ?? sent.set(url, proven(site)(url)).get(url)!
      return [['once', once, OK, OK], ['twice', once, OK, BAD_PROOF]]
    }
  },
  {
    row: 'callers: a proof with ES512',
    there: (site, { auth }) => [auth(basics(site))],
    here: options,
    requests:
      site => [['ES512', proven({ ...site, client: site.es512 }), OK, BAD_PROOF], ['ES256', proven(site), OK, OK]]
  },
  {
    row: 'callers: a proof with ES512, and `DPOP_ALGS` with it',
    there: (site, { auth }) => [auth(basics(site))],
    here: site => ({ ...options(site), dpop: { algs: ['ES256', 'ES512'] } }) as HoldfastOptions,
    requests: site => [['ES512', proven({ ...site, client: site.es512 }), OK, OK]]
  },
  {
    row: 'callers: a token in the query or in a form',
    there: (site, { auth }) => [load.express!.urlencoded({ extended: false }), auth(basics(site))],
    here: options,
    requests: (
      { issuer }
    ) => [['in the header', bearer(issuer.token()), OK, OK], [
      'in the query',
      { query: `?access_token=${issuer.token()}` },
      OK,
      NOBODY
    ], ['in a form', { body: `access_token=${issuer.token()}` }, OK, NOBODY]]
  }
]

async function send (url: string, { headers = {}, query = '', body }: Sent) {
  const answer = await fetch(`${url}/orders${query}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...headers, ...body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' } },
    ...body !== undefined && { body }
  })
  const error = /error="(\w+)"/.exec(answer.headers.get('www-authenticate') ?? '')?.[1]
  return error === undefined ? [answer.status] : [answer.status, error]
}

async function startThere (t: Test, row: Row, site: Site) {
  const app = load.express!() as Express & RequestListener & {
    all (path: string, ...handlers: unknown[]): void,
    use (handler: unknown): void
  }
  app.all(
    '/orders',
    ...row.there(site, load.library!),
    (_request: unknown, response: { json (body: object): void }) => response.json({})
  )
  app.use(
    ((error: { status?: number, headers?: object }, _request: unknown, response: any, _next: unknown) =>
      response.status(error.status ?? 500).set(error.headers ?? {}).json({})) as never
  )
  return listen(t, app)
}

async function startHere (t: Test, row: Pick<Row, 'here' | 'guard'>, site: Site) {
  const app = createApp(t)
  await app.register(holdfast, row.here(site))
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, body)
  )
  app.route({
    method: ['GET', 'POST'],
    url: '/orders',
    onRequest: (row.guard?.(app) ?? app.authenticate()) as never,
    handler: () => ({})
  })
  return app.listen({ port: 0, host: '127.0.0.1' })
}

for (const row of ROWS) {
  t.test(`From express-oauth2-jwt-bearer: ${row.row}.`, async t => {
    const site = await openSite(t)
    const [there, here] = [await startThere(t, row, site), await startHere(t, row, site)]
    for (const [title, sent, was, is] of row.requests(site)) {
      const at = (url: string) => typeof sent === 'function' ? sent(url) : sent
      t.strictSame(await send(there, at(there)), was, `${title}: there`)
      t.strictSame(await send(here, at(here)), is, `${title}: here`)
    }
  })
}

/** An app with @fastify/jwt, and what takes its place. `guard` is in the route, `handle` in its handler. */
const OF_FASTIFY_JWT: ReadonlyArray<
  {
    row: string,
    there: { guard?: (request: any) => unknown, handle?: (request: any) => unknown },
    here: { guard?: (app: FastifyInstance) => unknown, handle?: (request: any) => unknown }
  }
> = [
  {
    row: '`onRequest: request => request.jwtVerify()`',
    there: { guard: request => request.jwtVerify() },
    here: { guard: app => app.authenticate() }
  },
  {
    row: '`await request.jwtVerify()` in a handler',
    there: { handle: request => request.jwtVerify() },
    here: { handle: request => request.authenticate() }
  },
  {
    row: 'scopes checked by hand',
    there: {
      guard: async request => {
        const { scope = '' } = await request.jwtVerify()
        if (!scope.split(' ').includes('a')) throw Object.assign(new Error('no scope'), { statusCode: 403 })
      }
    },
    here: { guard: app => app.requireScope('a') }
  }
]

for (const { row, there, here } of OF_FASTIFY_JWT) {
  t.test(`From @fastify/jwt: ${row}.`, async t => {
    const issuer = await startIssuer(t)
    const open = async (
      app: FastifyInstance,
      { guard, handle }: { guard?: unknown, handle?: (request: any) => unknown }
    ) => {
      t.teardown(() => app.close())
      app.get('/orders', { ...guard !== undefined && { onRequest: guard as never } }, async request => {
        await handle?.(request)
        return { of: (request.user as { sub: string }).sub }
      })
      return app.listen({ port: 0, host: '127.0.0.1' })
    }
    const before = Fastify()
    const pem = createPublicKey(issuer.keys[0]!.privateKey).export({ type: 'spki', format: 'pem' }) as string
    await before.register(
      jwt,
      {
        secret: { public: pem },
        verify: { allowedIss: issuer.url, allowedAud: AUDIENCE, algorithms: ['RS256'] }
      } as never
    )
    const after = Fastify()
    await after.register(holdfast, { idp: { issuer: issuer.url, audience: AUDIENCE } } as HoldfastOptions)
    const urls = [await open(before, there), await open(after, { ...here, guard: here.guard?.(after) })]
    const rows: ReadonlyArray<readonly [title: string, token: string | undefined, status: number]> = [
      ['a good token', issuer.token({ scope: 'b a' }), 200],
      ['another scope', issuer.token({ scope: 'b' }), row === 'scopes checked by hand' ? 403 : 200],
      ['another audience', issuer.token({ aud: 'x', scope: 'a' }), 401],
      ['another issuer', issuer.token({ iss: 'https://x.example/', scope: 'a' }), 401],
      ['none', undefined, 401]
    ]
    for (const [title, token, status] of rows) {
      const answers = await Promise.all(
        urls.map(url =>
          fetch(`${url}/orders`, { headers: token === undefined ? {} : { authorization: `Bearer ${token}` } })
        )
      )
      t.strictSame(answers.map(answer => answer.status), [status, status], title)
      if (status === 200) {
        t.strictSame(
          await Promise.all(answers.map(answer => answer.json())),
          [{ of: 'user-1' }, { of: 'user-1' }],
          `${title}: request.user`
        )
      }
    }
  })
}

/** A row about Auth0's plugin, which is not on the registry that this runs with: only the app after the move is run. */
type Auth0Row = Pick<Row, 'row' | 'here' | 'guard'> & {
  requests: (
    site: Site
  ) => ReadonlyArray<readonly [title: string, sent: Sent | ((url: string) => Sent), here: Answers]>
}

const modeOf = (site: Site, dpopMode: string) => options(site, { dpopMode })
const passes = (
  { issuer }: Site
): ReturnType<Auth0Row['requests']> => [['a good token', bearer(issuer.token({ scope: 'read:data' })), OK], [
  'none',
  {},
  NOBODY
], ['another audience', bearer(issuer.token({ aud: 'x' })), BAD]]
const aged = (site: Site, ahead: number) => proven(site, { claims: { iat: nowSeconds() + ahead } })

const OF_AUTH0: readonly Auth0Row[] = [
  { row: '`domain`, `audience`', here: options, requests: passes },
  {
    row: '`domains` (several custom domains)',
    here: ({ issuer, other }) =>
      ({ idp: { audience: AUDIENCE, issuers: [{ issuer: issuer.url }, { issuer: other.url }] } }) as HoldfastOptions,
    requests: (
      { issuer, other }
    ) => [['the first', bearer(issuer.token()), OK], ['the second', bearer(other.token()), OK], [
      'neither',
      bearer(issuer.token({ iss: 'https://x.example/' })),
      BAD
    ]]
  },
  {
    row: '`algorithms`',
    here: site => options(site, { algs: 'PS256' }),
    requests: ({ issuer }) => [['PS256', bearer(signedPs256(issuer)), OK], ['RS256', bearer(issuer.token()), BAD]]
  },
  {
    row: '`dpop.mode` `allowed`, `required`, `disabled`',
    here: site => modeOf(site, 'ALLOWED'),
    requests: site => [['a proof', proven(site), OK], ['none', bearer(site.issuer.token()), OK]]
  },
  {
    row: '`dpop.mode` `allowed`, `required`, `disabled`',
    here: site => modeOf(site, 'REQUIRED'),
    requests: site => [['a proof', proven(site), OK], ['none', bearer(site.issuer.token()), NOBODY]]
  },
  {
    row: '`dpop.mode` `allowed`, `required`, `disabled`',
    here: site => modeOf(site, 'DISABLED'),
    requests: site => [['a proof', proven(site), NOBODY], ['none', bearer(site.issuer.token()), OK]]
  },
  {
    row: '`dpop.iatOffset`, `dpop.iatLeeway`',
    here: options,
    requests: site => [['300 s old', aged(site, -290), OK], ['older', aged(site, -310), BAD_PROOF], [
      '30 s ahead',
      aged(site, 20),
      OK
    ], ['further', aged(site, 40), BAD_PROOF]]
  },
  {
    row: '`dpop.iatOffset`, `dpop.iatLeeway`',
    here: site => options(site, { dpopIatOffsetSeconds: 60, dpopIatLeewaySeconds: 60 }),
    requests: site => [['older', aged(site, -70), BAD_PROOF], ['ahead', aged(site, 50), OK]]
  },
  {
    row: 'only proofs with ES256',
    here: site => ({ ...options(site), dpop: { algs: 'ES256' } }) as HoldfastOptions,
    requests: site => [['ES256', proven(site), OK], ['ES512', proven({ ...site, client: site.es512 }), BAD_PROOF]]
  },
  {
    row: 'only proofs with ES256',
    here: site => ({ ...options(site), dpop: { algs: ['ES256', 'ES512'] } }) as HoldfastOptions,
    requests: site => [['ES256', proven(site), OK], ['ES512', proven({ ...site, client: site.es512 }), OK]]
  },
  { row: '`preHandler: fastify.requireAuth()`', here: options, guard: app => app.authenticate(), requests: passes },
  {
    row: "`requireAuth({ scopes: 'read:data' })`",
    here: options,
    guard: app => app.requireScope('read:data'),
    requests: (
      { issuer }
    ) => [['the scope', bearer(issuer.token({ scope: 'read:data' })), OK], [
      'another one',
      bearer(issuer.token({ scope: 'read:datas' })),
      [403, 'insufficient_scope']
    ]]
  },
  {
    row: "the proof's URL from `request.protocol` and `request.host`",
    here: site => ({ ...options(site), server: { trustProxy: 'loopback' } }) as HoldfastOptions,
    requests: site => [
      ['as a proxy says it', behindProxy(site, 'https://api.example:8443/v1/orders'), OK],
      ['without the prefix', behindProxy(site, 'https://api.example:8443/orders'), BAD_PROOF],
      ['without the port', behindProxy(site, 'https://api.example/v1/orders'), BAD_PROOF]
    ]
  },
  {
    row: "the proof's URL from `request.protocol` and `request.host`",
    here: site => ({ ...options(site), server: { publicUrl: 'https://api.example/v1' } }) as HoldfastOptions,
    requests: site => [['the public URL', behindProxy(site, 'https://api.example/v1/orders'), OK], [
      'another one',
      behindProxy(site, 'https://api.example:8443/v1/orders'),
      BAD_PROOF
    ]]
  }
]

function behindProxy ({ issuer, client }: Site, url: string) {
  const token = issuer.token({ cnf: client.cnf })
  return {
    headers: {
      authorization: `DPoP ${token}`,
      dpop: client.proof({ token, url }),
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'api.example',
      'x-forwarded-port': '8443',
      'x-forwarded-prefix': '/v1'
    }
  }
}

async function openSite (t: Test) {
  const [issuer, other, client, es512] = [
    await startIssuer(t),
    await startIssuer(t),
    await createDpopClient(),
    await createDpopClient('ES512')
  ]
  issuer.keys.push({ ...pkcs, jwk: { ...pkcs.jwk, alg: 'PS256' } })
  return { issuer, other, client, es512 }
}

for (const [index, row] of OF_AUTH0.entries()) {
  t.test(`From Auth0's Fastify plugin, ${index + 1}: ${row.row}.`, async t => {
    const site = await openSite(t)
    const url = await startHere(t, row, site)
    for (const [title, sent, expected] of row.requests(site)) {
      t.strictSame(await send(url, typeof sent === 'function' ? sent(url) : sent), expected, title)
    }
  })
}

/** Rows that say what is not offered, or what another test shows. */
const NOT_RUN: Record<string, readonly string[]> = {
  'From express-oauth2-jwt-bearer': [
    '`secret`',
    '`cache`, `cacheMaxAge`, `cooldownDuration`, `timeoutDuration`',
    '`req.auth.payload`',
    '`req.auth.header`, `req.auth.token`',
    "Express's `trust proxy`"
  ],
  "From Auth0's Fastify plugin": [
    '`discoveryCache`',
    '`customFetch`',
    '`request.user`, typed by merging `Token`',
    '`auth0Client`, token exchange'
  ],
  'From @fastify/jwt alone': [
    '`secret` with a public key, or a function that asks get-jwks',
    '`verify: { allowedIss, allowedAud, algorithms }`',
    '`request.user`',
    '`formatUser`, `trusted`, `cookie`, `jwtSign`',
    'errors `FST_JWT_*`'
  ]
}

t.test('Each row of the page is run, or listed as a row without code.', async t => {
  const run: Record<string, ReadonlyArray<{ row: string }>> = {
    'From express-oauth2-jwt-bearer': ROWS.filter(({ row }) => !row.startsWith('callers')),
    "From Auth0's Fastify plugin": OF_AUTH0,
    'From @fastify/jwt alone': OF_FASTIFY_JWT
  }
  for (const [section, rows] of Object.entries(run)) {
    const text = section === 'From express-oauth2-jwt-bearer'
      ? textOf('docs/guide/moving/express-oauth2-jwt-bearer.md')
      : readSection('examples/migration/README.md', section)
    const names = readTable(text).map(([there]) => there!)
    t.strictSame([...new Set([...rows.map(({ row }) => row), ...NOT_RUN[section]!])].sort(), names.sort(), section)
  }
})
