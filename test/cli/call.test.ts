import { createHash, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { startConnectProxy } from '../helpers/connect-proxy.ts'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import t from 'tap'
import { banner } from '../../dev/serve/banner.ts'
import { call } from '../../cli/call.ts'
import type { CallOptions } from '../../cli/call-options.ts'
import type { Exchange } from '../../cli/exchange.ts'
import { leftOutLines } from '../../cli/left-out.ts'
import type { Paint } from '../../cli/show.ts'
import type { Tenant } from '../../cli/tenants.ts'
import { startProvider, type LocalProvider } from '../../dev/provider/provider.ts'
import { ADVICE } from '../../cli/explain/advice.ts'
import type { Answer } from '../../cli/explain/answer.ts'
import type { RefusalReason } from '../../lib/refusal.ts'
import { HTU_ADVICE } from '../../cli/explain/htu-advice.ts'
import { startApp } from '../helpers/app.ts'
import type { Issuer } from '../helpers/issuer.ts'
import type { Variables } from '../helpers/variables.ts'

const audience = 'https://holdfast.example/api'
const provider = await startProvider({ audience })
t.teardown(() => provider.close())

async function startService (settings: Variables = {}, from: LocalProvider = provider): Promise<Tenant> {
  const { url } = await startApp(t, { url: from.issuer } as Issuer, {
    IDP_AUDIENCE: audience,
    LOG_LEVEL: 'silent',
    ...settings
  }, app => {
    app.register(async scope => {
      scope.get('/payments', { onRequest: scope.require({ acr: 'urn:example:mfa', maxAgeSeconds: 60 }) }, () => 'paid')
    })
  })
  return {
    ...from,
    loginClient: { clientId: from.browserClientId, redirectUri: 'http://localhost/callback' },
    pid: process.pid,
    url,
    settings: { IDP_ISSUER: from.issuer, IDP_AUDIENCE: audience, ...settings as Record<string, string> }
  }
}

/** Of an unknown provider. */
const unsignedToken = [
  '{"alg":"RS256"}',
  '{"iss":"https://provider.invalid/","sub":"a","aud":"b","exp":9999999999}',
  'x'
].map(part => Buffer.from(part).toString('base64url')).join('.')

interface Shown {
  code: number
  text: string
}

async function run (
  tenant: Tenant | undefined,
  argv: string[],
  env: NodeJS.ProcessEnv = {},
  isTTY = false
): Promise<Shown> {
  let text = ''
  const code = await call(argv, {
    env,
    out: {
      write: part => {
        text += part
      },
      isTTY
    },
    tenants: tenant === undefined ? [] : [tenant]
  })
  return { code, text }
}

const local = await startService()

t.test('A Bearer call shows the token request, the token, the request and the answer.', async t => {
  const { code, text } = await run(local, ['GET', '/api/private-scoped', '--scope', 'read:messages'])
  t.equal(code, 0)
  t.match(text, new RegExp(`POST ${provider.tokenEndpoint}`))
  t.match(text, /scope=read:messages/)
  t.match(text, /"exp": \d+, \(in 24 h\)/)
  t.match(text, new RegExp(`GET ${local.url}/api/private-scoped\n {2}Authorization: Bearer eyJ`))
  t.match(text, /200 OK/)
  t.match(text, /"user_id": "holdfast-cli"/)
  t.notMatch(text, /DPoP: ey/)
})

t.test('No secret is shown, and tokens are shortened without --full.', async t => {
  const short = await run(local, ['/api/private'])
  const full = await run(local, ['/api/private', '--full', '--body', 'json'])
  t.notMatch(short.text + full.text, provider.clientSecret)
  t.match(short.text, /Bearer eyJ\S+\u2026 \(\d+ characters\)/)
  t.match(full.text, /Bearer eyJ[\w-]+\.[\w-]+\.[\w-]+\n/)
})

t.test('A DPoP call binds the token to a fresh key and shows the proof.', async t => {
  for (const alg of ['ES256', 'Ed25519', 'PS256']) {
    const { code, text } = await run(local, ['--dpop', 'GET', '/api/private?x=1', '--alg', alg])
    t.equal(code, 0, alg)
    const key = /with a proof of the key ([\w-]+)/.exec(text)?.[1]
    t.match(text, containing(`"jkt": "${key}"`))
    t.match(text, containing(`"htu": "${local.url}/api/private"`))
    t.match(text, /Authorization: DPoP eyJ/)
  }
})

t.test('If the service and the provider require nonces, each gets its own.', async t => {
  const strict = await startProvider({ audience, nonce: true })
  t.teardown(() => strict.close())
  const service = await startService({ DPOP_NONCE: 'required' }, strict)
  const { code, text } = await run(service, ['--dpop', '/api/private'])
  t.equal(code, 0)
  t.match(text, /error="use_dpop_nonce"[\s\S]*Trying again[\s\S]*"nonce": "[\s\S]*200 OK/)
})

t.test('A refusal gives exit code 1, the checks, the reason and what to do about it.', async t => {
  const bound = await startService({ DPOP_REQUIRED: 'true' })
  const elsewhere = await startService({ IDP_AUDIENCE: 'https://holdfast.example/other' })
  const noDpop = await startService({ DPOP_ENABLED: 'false', ERROR_BODY: 'detailed' })
  const proxied = await startService({ PUBLIC_URL: 'https://www.holdfast.example/svc' })
  const other = ['--htu', 'https://api.holdfast.example/api/private']
  const rows: Array<
    {
      title: string,
      tenant: Tenant,
      argv: string[],
      status: number,
      failed: string,
      reason: RefusalReason,
      cure: string,
      option?: RegExp
    }
  > = [
    {
      title: 'no token',
      tenant: local,
      argv: ['/api/private', '--no-token'],
      status: 401,
      failed: 'credentials',
      reason: 'credentials_missing',
      cure: ADVICE.credentials_missing.cure,
      option: /--no-token/
    },
    {
      title: 'no scope',
      tenant: local,
      argv: ['/api/private-scoped'],
      status: 403,
      failed: 'requirement',
      reason: 'scope_missing',
      cure: ADVICE.scope_missing.cure,
      option: /--scope/
    },
    {
      title: 'another audience',
      tenant: elsewhere,
      argv: ['/api/private'],
      status: 401,
      failed: 'token.aud',
      reason: 'token_audience',
      cure: ADVICE.token_audience.cure,
      option: /--audience/
    },
    {
      title: 'Bearer where DPoP is required',
      tenant: bound,
      argv: ['/api/private'],
      status: 401,
      failed: 'credentials',
      reason: 'scheme_not_offered',
      cure: ADVICE.scheme_not_offered.cure,
      option: /--dpop/
    },
    {
      title: 'DPoP where it is off',
      tenant: noDpop,
      argv: ['/api/private', '--dpop'],
      status: 401,
      failed: 'credentials',
      reason: 'scheme_not_offered',
      cure: ADVICE.scheme_not_offered.cure
    },
    {
      title: 'another scheme in htu',
      tenant: local,
      argv: ['/api/private', '--dpop', '--htu', `${local.url.replace('http:', 'https:')}/api/private`],
      status: 401,
      failed: 'proof.htu',
      reason: 'htu_mismatch',
      cure: HTU_ADVICE.scheme,
      option: /--htu/
    },
    {
      title: 'another URL than the public one',
      tenant: proxied,
      argv: ['/api/private', '--dpop'],
      status: 401,
      failed: 'proof.htu',
      reason: 'htu_mismatch',
      cure: HTU_ADVICE.scheme
    },
    {
      title: 'another host in htu',
      tenant: proxied,
      argv: ['/api/private', '--dpop', ...other],
      status: 401,
      failed: 'proof.htu',
      reason: 'htu_mismatch',
      cure: HTU_ADVICE.host
    },
    {
      title: 'an algorithm that is not accepted',
      tenant: local,
      argv: ['/api/private', '--dpop', '--alg', 'ES512'],
      status: 401,
      failed: 'proof.header',
      reason: 'proof_algorithm',
      cure: ADVICE.proof_algorithm.cure,
      option: /--alg/
    }
  ]
  for (const { title, tenant, argv, status, failed, reason, cure, option = /What to do/ } of rows) {
    const { code, text } = await run(tenant, argv)
    t.equal(code, 1, title)
    t.match(text, containing(`\n  ${status} `), title)
    t.match(text, /\nWhy: \w+\n {2}\u2717 .*failed\n/, `${title}: the check that failed stands first`)
    t.ok(text.indexOf('\u2717') < 1200, `${title}: and soon`)
    t.strictSame(failedChecks(text), [failed], `${title}: the check that failed is named`)
    t.equal(verdict(text), `${reason}: ${cure}`, title)
    t.match(text.slice(text.indexOf('\nWhy')), option, title)
  }
  t.equal((await run(bound, ['/api/private', '--dpop'])).code, 0, 'and the accepted one')
  const limited = await startService({ RATE_LIMIT: '1' })
  t.equal((await run(limited, ['/api/private'])).code, 0)
  const tooMany = await run(limited, ['/api/private'])
  t.match(tooMany.text, /\n {2}429 /)
  t.equal(verdict(tooMany.text), `rate_limited: ${ADVICE.rate_limited.cure}`)
  t.notMatch(tooMany.text, /Checks/, 'nothing is wrong with the request')
  const missing = await run(local, ['/api/nothing'])
  t.equal(missing.code, 1)
  t.match(missing.text, /\n {2}404 [\s\S]*Why\n.*prefix/)
  t.notMatch(missing.text, /Checks/)
})

t.test('If the provider gives no token, its error is explained, and clocks that differ are named.', async t => {
  const other = await run(local, ['/api/private', '--audience', 'https://x.example'])
  t.equal(other.code, 1)
  t.match(
    other.text,
    containing('What to do      --audience must name an API that the provider knows, as it is registered there. The ' +
      `local tenant knows ${audience}.`)
  )
  let ahead = 0
  let error = ''
  const server = createServer((request, response) => {
    if (request.url === '/.well-known/openid-configuration') {
      const lists = { scopes_supported: ['a', 'b\u001b[2J'], dpop_signing_alg_values_supported: ['RS256'] }
      return response.end(JSON.stringify({ token_endpoint: `http://${request.headers.host}/token`, ...lists }))
    }
    response.setHeader('Date', new Date(Date.now() - ahead * 1000).toUTCString())
    response.writeHead(400).end(JSON.stringify(error === '' ? {} : { error }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const env = {
    CALL_ISSUER: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    CALL_CLIENT_ID: 'c',
    CALL_CLIENT_SECRET: 's'
  }
  const rows: Array<[error: string, ahead: number, says: RegExp | undefined]> = [
    ['invalid_dpop_proof', 600, /\nWhy: invalid_dpop_proof\n {2}The clock of this machine is 10 minutes ahead of that of the provider, by the Date of its answer\.\n[^]*signed with ES256 \(--alg\)\. The provider lists RS256\.\n/],
    ['invalid_dpop_proof', 0, /\nWhy: invalid_dpop_proof\n {2}What to do/],
    ['', -600, /\nWhy\n {2}The clock of this machine is 10 minutes behind that of the provider/],
    ['invalid_target', 0, /Some providers need --param resource=URI instead\.\n/],
    ['invalid_scope', 0, /The provider lists a, b\ufffd\[2J\./],
    ['invalid_client', 0, /Compare --client-id/],
    ['unauthorized_client', 0, /the grant client_credentials/],
    ['unsupported_grant_type', 0, /the grant client_credentials/],
    ['server_error', 0, undefined]
  ]
  for (const [name, seconds, says] of rows) {
    [error, ahead] = [name, seconds]
    const { code, text } = await run(undefined, ['--dpop', `${local.url}/api/private`], env)
    t.equal(code, 1)
    t.match(text, says ?? /\n {2}\}\n$/, name)
  }
})

t.test('A permission that was asked for and not granted is said to be left out by the provider.', async t => {
  const rows: Array<[argv: string[], says: RegExp | undefined]> = [
    [[], undefined],
    [['--scope', 'read:users'], undefined],
    [
      ['--scope', 'read:users read:nonsense'],
      /Left out {8}The call asked for read:nonsense, and the provider left it out\. The route needs read:messages\.\n/
    ],
    [
      ['--scope', 'read:messages', '--user', 'linus'],
      /asked for read:messages, and the provider left it out\. Have it grant that to linus, or log another user in/
    ]
  ]
  for (const [argv, says] of rows) {
    const { code, text } = await run(local, ['/api/private-scoped', ...argv])
    t.equal(code, 1)
    t.match(text, /\nWhy: scope_missing\n/)
    t.equal(text.includes('Left out'), says !== undefined, argv.join(' '))
    t.equal(text.includes('--scope asks for permissions.'), says === undefined, argv.join(' '))
    if (says) t.match(text, says)
    t.notMatch(text, /Token and proof/, 'a Bearer call has no proof')
  }
  const exchange = { requestHeaders: { Authorization: `Bearer ${unsignedToken}` } } as unknown as Exchange
  const asked = { scope: 'a', token: undefined } as unknown as CallOptions
  const answer = { scopes: ['a'] } as unknown as Answer
  const plain: Paint = (_style, text) => text
  t.match(leftOutLines(exchange, answer, asked, plain), [/Have it grant that to this client\.$/])
  t.strictSame(leftOutLines(exchange, answer, { ...asked, token: unsignedToken }, plain), [], 'not asked for by the call')
  const opaque = { requestHeaders: { Authorization: 'Bearer opaque' } } as unknown as Exchange
  t.strictSame(leftOutLines(opaque, answer, asked, plain), [], 'what it grants cannot be read')
})

t.test('For a service with unknown settings the checks say what is known, and its answer wins.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const env = {
    CALL_ISSUER: issuer,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  const elsewhere = await startService({ IDP_AUDIENCE: 'https://holdfast.example/other' })
  const bound = await startService({ DPOP_REQUIRED: 'true' })
  const shifted = await startService({ PUBLIC_URL: 'https://www.holdfast.example' })
  const rows: Array<
    {
      title: string,
      service: Tenant,
      argv?: string[],
      env?: NodeJS.ProcessEnv,
      failed?: string[],
      expected: string,
      says: RegExp
    }
  > = [
    {
      title: 'its audience is another',
      service: elsewhere,
      failed: ['token.aud'],
      expected: `token_audience: ${ADVICE.token_audience.cure}`,
      says: /\[token\.aud\] failed\n +aud +https:\/\/holdfast\.example\/api\n +asked for +https:\/\/holdfast\.example\/api\n[^]*It is what the call asked for/
    },
    {
      title: 'its URL is another',
      service: shifted,
      argv: ['--dpop'],
      failed: ['proof.htu'],
      expected: `htu_mismatch: ${ADVICE.htu_mismatch.cure}`,
      says: /\[proof\.htu\] failed\n {6}htu .*\n {6}The service saw another URL, which its log line holds; /
    },
    {
      title: 'the proof is for another URL',
      service: local,
      argv: ['--dpop', '--htu', 'http://127.0.0.1:1/api/private'],
      failed: ['proof.htu'],
      expected: `htu_mismatch: ${HTU_ADVICE.port}`,
      says: /URL of the request/
    },
    {
      title: 'it takes only DPoP',
      service: bound,
      failed: ['credentials'],
      expected: `scheme_not_offered: ${ADVICE.scheme_not_offered.cure}`,
      says: /accepted schemes +DPoP\n/
    },
    {
      title: 'a token of unknown origin',
      service: local,
      failed: ['token.iss'],
      env: { CALL_ISSUER: '', CALL_AUDIENCE: '', CALL_TOKEN: unsignedToken },
      expected: `token_issuer: ${ADVICE.token_issuer.cure}`,
      says: /\[token\.iss\] failed\n[^]*This tool does not know what the service expects/
    }
  ]
  for (const { title, service, argv = [], env: more = {}, failed = [], expected, says } of rows) {
    const { code, text } = await run(undefined, [`${service.url}/api/private`, ...argv], { ...env, ...more })
    t.equal(code, 1, title)
    t.strictSame(failedChecks(text), failed, title)
    t.equal(verdict(text), expected, title)
    t.match(text, says, title)
  }
})

t.test('The checks read the settings that `explain` reads, and what the call asked for is no proof of them.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const env = {
    CALL_ISSUER: issuer,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  const service = await startService({
    IDP_AUDIENCE: 'https://holdfast.example/other',
    PUBLIC_URL: 'http://svc.example/svc'
  })
  const seen = async (readFile: (path: string) => string | undefined): Promise<string> => {
    let text = ''
    t.equal(
      await call([`${service.url}/api/private`, '--full'], {
        env,
        readFile,
        out: {
          write: part => {
            text += part
          }
        }
      }),
      1
    )
    return text
  }
  const file = `IDP_ISSUER=${issuer}\nIDP_AUDIENCE=https://holdfast.example/other\nPUBLIC_URL=http://svc.example/svc\n`
  const known = await seen(path => path.endsWith('.env') ? file : undefined)
  t.match(
    known,
    /\u2717 It is meant for another API \[token\.aud\] failed\n +aud +https:\/\/holdfast\.example\/api\n +configured audience +https:\/\/holdfast\.example\/other\n/
  )
  t.match(known, /\u2713 It was issued by a configured issuer/)
  for (
    const [title, text] of [['no settings', undefined], ['settings that cannot be used', 'IDP_DOMAIN=a/b']] as const
  ) {
    const unknown = await seen(path => path.endsWith('.env') ? text : undefined)
    t.match(unknown, /\u2717 It is meant for another API \[token\.aud\] failed/, title)
    t.match(
      unknown,
      /\? It was issued by a configured issuer \[token\.iss\] not checked\n +It is what the call asked for/,
      title
    )
    t.notMatch(unknown, /\u2713 It is meant for this API/, title)
  }
})

t.test('A clock that differs is seen by the Date of the answer, and the checks go by that of the service.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const env = {
    CALL_ISSUER: issuer,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  let ahead = 0
  let says = ''
  const server = createServer((_request, response) => {
    response.setHeader('Date', new Date(Date.now() - ahead * 1000).toUTCString())
    response.writeHead(401, { 'WWW-Authenticate': `Bearer, DPoP error="invalid_dpop_proof"${says}, algs="ES256"` })
      .end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const to = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const reasonOf = (text: string): string | undefined => /\nWhy: (\w+)/.exec(text)?.[1]
  for (
    const [seconds, failed, clock] of [
      [600, 'iat_in_future', /clock of this machine is 10 minutes ahead of that of the service/],
      [-600, 'iat_too_old', /10 minutes behind/],
      [90, 'iat_in_future', /(?:8[89]|9[0-3]) seconds ahead/]
    ] as const
  ) {
    ahead = seconds
    const { text } = await run(undefined, ['--dpop', to], env)
    // Ten minutes before its issue the token is not refused: its iat is only a number.
    t.equal(reasonOf(text), failed)
    t.match(text, clock)
    t.match(text, /\u2717 It was made too long ago, or in the future \[proof\.iat\] failed/)
  }
  ahead = 0
  t.notMatch((await run(undefined, ['--dpop', to], env)).text, /clock of this machine/)
  says = ', error_description="The iat of the DPoP proof is too far in the future."'
  const answered = await run(undefined, ['--dpop', to], env)
  t.equal(reasonOf(answered.text), 'iat_in_future', 'the answer wins, although nothing fails here')
  t.match(answered.text, /\[proof\.iat\] failed/)
})

t.test('Another service than Holdfast is judged by its answer.', async t => {
  let answer: [status: number, headers: Record<string, string>] = [500, {}]
  const server = createServer((_request, response) => {
    response.writeHead(...answer).end('<p>\r\nno\rway')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const rows: Array<{ status: number, challenge?: string, argv?: string[], says: RegExp }> = [
    {
      status: 401,
      challenge: 'DPoP algs="EdDSA PS256", error="invalid_dpop_proof"',
      argv: ['--dpop'],
      says: /Why: proof_algorithm\n {2}\u2717 Its header has no accepted algorithm[^]*The answer names no reason/
    },
    {
      status: 401,
      challenge: 'Bearer error="invalid_token"',
      says: /Why\n {2}The answer names no reason, and no check fails/
    },
    { status: 401, argv: ['--no-token'], says: /Why: credentials_missing/ },
    { status: 401, challenge: 'DPoP error="use_dpop_nonce"', argv: ['--dpop'], says: /Why: nonce_missing/ },
    { status: 403, argv: ['--no-token'], says: /Why\n(?!.*knows the caller).*--scope.*no rule/ },
    { status: 403, says: /Why\n.*Unless the answer says why.*--scope/ },
    {
      status: 500,
      says: /500 Internal Server Error[^]*<p>\n {2}no\ufffdway\n\n--full shows all that was sent, and each check\.\n$/
    }
  ]
  for (const { status, challenge, argv = [], says } of rows) {
    answer = [status, challenge === undefined ? {} : { 'www-authenticate': challenge }]
    const { code, text } = await run(local, [`${url}/api/private`, ...argv])
    t.equal(code, 1)
    t.match(text, says, `${status} ${challenge}`)
  }
})

/** Names of the checks that failed, as shown. */
const failedChecks = (text: string): string[] =>
  [...text.matchAll(/^ {2}\u2717 .*\[([\w.]+)\] failed$/gm)].map(([, name]) => name!)

/** Reason and cure, as shown. */
const verdict = (text: string): string =>
  `${/\nWhy: (\w+)\n/.exec(text)?.[1]}: ${/^ {2}What to do +(.*)$/m.exec(text)?.[1]}`

t.test('The login that a route requires is shown, and a user of the local tenant can log in that way.', async t => {
  const { issuer, clientId, clientSecret } = provider
  const foreign = {
    CALL_ISSUER: issuer,
    CALL_AUDIENCE: audience,
    CALL_CLIENT_ID: clientId,
    CALL_CLIENT_SECRET: clientSecret
  }
  const asked = ['--param', 'acr_values=urn:example:mfa', '--param', 'max_age=60']
  for (
    const [title, refused] of [
      ['without a user', await run(local, ['/payments'])],
      ['a user without the second factor', await run(local, ['/payments', '--user', 'ada'])],
      ['a service whose settings are not known', await run(undefined, [`${local.url}/payments`], foreign)]
    ] as const
  ) {
    t.equal(refused.code, 1, title)
    t.strictSame(failedChecks(refused.text), ['requirement'], title)
    t.equal(verdict(refused.text), `acr_missing: ${ADVICE.acr_missing.cure}`, title)
    t.match(
      refused.text,
      /\n {2}Asked for {7}a login at most 60 seconds old, of the kind urn:example:mfa; in the authorization request: acr_values=urn:example:mfa&max_age=60\n[^]*Option +--user/,
      title
    )
  }
  for (const dpop of [[], ['--dpop']]) {
    const { code, text } = await run(local, ['/payments', '--user', 'ada', ...asked, ...dpop])
    t.equal(code, 0, text)
    t.match(text, /"sub": "ada"[^]*200 OK/)
    t.notMatch(text, /code_verifier/)
  }
  const strict = await startProvider({ audience, nonce: true })
  t.teardown(() => strict.close())
  t.equal(
    (await run(await startService({}, strict), [
      '/api/private-scoped',
      '--user',
      'grace',
      '--scope',
      'read:messages',
      '--dpop'
    ])).code,
    0,
    'also with a nonce of the provider'
  )
  const rows: Array<{ argv: string[], says: RegExp, tenant?: Tenant, env?: NodeJS.ProcessEnv }> = [
    { argv: ['--user', 'nobody'], says: /shows a page instead of a login/, tenant: local },
    {
      argv: ['--user', 'ada', '--param', 'acr_values=urn:example:card'],
      says: /ada was not logged in: unmet_authentication_requirements, this tenant knows no such login/,
      tenant: local
    },
    { argv: ['--user', 'ada', '--no-token'], says: /cannot be combined/, tenant: local },
    { argv: ['--user', 'ada'], says: /users of the local tenant/, env: foreign }
  ]
  for (const { argv, says, tenant, env } of rows) {
    const { code, text } = await run(tenant, [`${local.url}/payments`, ...argv], env)
    t.equal(code, 1)
    t.match(text, says, argv.join(' '))
  }
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
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
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
  t.match(text, /The provider gave no token[\s\S]*invalid_scope/)
  t.notMatch(text, /s:1|s%3A1/)
  t.notMatch(text, /[^\P{Cc}\n]/u, 'and an answer does not steer the terminal')
})

t.test('A client certificate is presented to the provider and to the API.', async t => {
  const fixture = (name: string): string => join(import.meta.dirname, `../fixtures/${name}.pem`)
  const [cert, key, cacert] = ['client-a.cert', 'client-a.key', 'provider.cert'].map(fixture)
  const seen: string[] = []
  const server = createSecureServer({
    cert: readFileSync(cacert!),
    key: readFileSync(fixture('provider.key')),
    requestCert: true,
    rejectUnauthorized: false
  }, (request, response) => {
    const { fingerprint256 } = (request.socket as TLSSocket).getPeerCertificate()
    seen.push(`${request.url} ${fingerprint256 === undefined ? 'without' : 'with certificate'}`)
    const endpoint = `https://${request.headers.host}/token`
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': {
        token_endpoint: endpoint,
        mtls_endpoint_aliases: { token_endpoint: `${endpoint}/mtls` }
      },
      '/token': { access_token: unsignedToken },
      '/token/mtls': { access_token: unsignedToken }
    }
    response.end(JSON.stringify(documents[request.url!] ?? {}))
  }).listen(0, 'localhost')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const argv = ['/', '--url', url, '--issuer', url, '--client-id', 'me']
  const shown = await run(undefined, [...argv, '--cert', cert!, '--key', key!, '--cacert', cacert!])
  t.equal(shown.code, 0, shown.text)
  const thumbprint = createHash('sha256').update(new X509Certificate(readFileSync(cert!)).raw).digest('base64url')
  t.match(shown.text, containing(`x5t#S256 ${thumbprint}`))
  t.strictSame(seen.splice(0), [
    '/.well-known/openid-configuration with certificate',
    '/token/mtls with certificate',
    '/ with certificate'
  ])
  t.equal((await run(undefined, [...argv, '--client-secret', 's', '--cacert', cacert!])).code, 0)
  t.strictSame(seen, ['/.well-known/openid-configuration without', '/token without', '/ without'])
  t.match(
    await run(undefined, [...argv, '--cert', cert!, '--key', key!]),
    { code: 1, text: /No answer/ },
    'the authority is not trusted'
  )
  t.match(await run(undefined, [...argv, '--key', key!]), { code: 1, text: /--cert names that/ })
  t.match(await run(undefined, [...argv, '--cert', cert!]), {
    code: 1,
    text: /--key .* is not a file with a private key in PEM/
  })
  t.match(await run(undefined, [...argv, '--cert', key!, '--key', key!]), {
    code: 1,
    text: /--cert .* is not a file with a certificate in PEM/
  })
  t.match(await run(undefined, [...argv, '--cacert', '/nowhere']), {
    code: 1,
    text: /--cacert \/nowhere is not a file/
  })
})

t.test('--resolve names the address of a host, and a Host line is refused.', async t => {
  const { port } = new URL(local.url)
  const env = { CALL_TOKEN: 'opaque', HTTP_PROXY: 'http://127.0.0.1:1' }
  const ask = (...argv: string[]): Promise<Shown> => run(undefined, [`http://api.example:${port}/api/public`, ...argv], env)
  t.match(await ask('--resolve', `other.example:${port}:127.0.0.2`, '--resolve', `API.example:${port}:127.0.0.1`), {
    code: 0,
    text: containing('200 OK')
  })
  t.match(await ask('--resolve', 'api.example:1:127.0.0.1'), { code: 1, text: /No answer/ }, 'of another port')
  const proxy = await startConnectProxy()
  t.teardown(() => proxy.close())
  env.HTTP_PROXY = proxy.url
  t.match(await ask('--resolve', 'api.example:1:127.0.0.1'), { code: 0, text: containing('200 OK') }, 'by a proxy')
  t.strictSame(proxy.tunnels, [`api.example:${port}`])
  t.match(await ask('--resolve', `api.example:${port}:localhost`), {
    code: 1,
    text: /--resolve api\.example:\d+:localhost is not HOST:PORT:ADDRESS/
  })
  t.match(await ask('--header', 'host: other.example'), { code: 1, text: /--header sends no Host: --url sets it/ })
})

t.test('A token that exists already is used as it is.', async t => {
  const { code, text } = await run(local, ['/api/private', '--full'], { CALL_TOKEN: 'opaque' })
  t.equal(code, 1)
  t.match(text, /from CALL_TOKEN\n {2}not a JWT/)
  t.match(text, /Why: token_malformed/)
})

t.test('A body is sent as a form or as JSON, by POST, and other headers win.', async t => {
  const seen: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    seen.push(`${request.method} ${request.headers['content-type']} ${body}`)
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const to = `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`
  const rows: Array<[argv: string[], expected: string]> = [
    [['--data', 'a=1&b=2'], 'POST application/x-www-form-urlencoded a=1&b=2'],
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

t.test('For a path that exists with another method, the methods are shown.', async t => {
  const posted = await run(local, ['POST', '/api/private'])
  t.match(posted.text, /\n {2}404 [^]*Why\n {2}The path is there, but not with this method\. It takes GET\.\n/)
  t.match((await run(local, ['POST', '/api/nothing'])).text, /Why\n {2}There is no such path, or no rule of a gate/)
})

t.test('Of several local tenants the one at the URL is used, else the oldest.', async t => {
  const second = await startProvider({ audience })
  t.teardown(() => second.close())
  const other = await startService({}, second)
  const codeOf = (argv: string[], tenants: Tenant[]): Promise<number> =>
    call(argv, { env: {}, out: { write () {} }, tenants })
  t.equal(await codeOf(['/api/private'], [local, other]), 0)
  t.equal(await codeOf(['/api/private', '--url', other.url], [local, other]), 0)
  t.equal(await codeOf([`${other.url}/api/private`], [local, other]), 0)
  t.equal(await codeOf([`${other.url}/api/private`], [local]), 1, 'a token of the first is nothing for the second')
})

t.test('An option that npm kept for itself is named.', async t => {
  const { code, text } = await run(local, ['/api/private'], { npm_config_dpop: 'true' })
  t.equal(code, 1)
  t.match(text, /npm has kept --dpop for itself\. Write -- before the options: npm run call -- --dpop/)
})

t.test('The packaged command names itself, and nothing that only a clone has.', async t => {
  const packaged = async (argv: string[], env: NodeJS.ProcessEnv = {}): Promise<Shown> => {
    let text = ''
    const code = await call(argv, {
      env,
      out: {
        write: part => {
          text += part
        }
      },
      program: 'holdfast',
      tenants: [local]
    })
    return { code, text }
  }
  const { code, text } = await packaged(['--help'])
  t.equal(code, 0)
  t.match(text, /\n {2}holdfast call \[METHOD\] PATH/)
  t.notMatch(text, containing('npm run'))
  t.match(text, /\nIf you already have a token, set CALL_TOKEN\.\nExit code: /)
  t.match(
    (await run(undefined, ['--help'])).text,
    /\n {2}npm run call -- \[METHOD\] PATH[^]*the local tenant of `npm run dev` is used:\nif several run/,
    'in a clone it is the script'
  )
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

t.test('A failure is reported in one line, without a stack.', async t => {
  const fixture = (name: string): Buffer => readFileSync(new URL(`../fixtures/provider.${name}.pem`, import.meta.url))
  const secure = createSecureServer({ key: fixture('key'), cert: fixture('cert') }).listen(0, '127.0.0.1')
  await once(secure, 'listening')
  t.teardown(() => secure.close())
  const encrypted = `https://127.0.0.1:${(secure.address() as AddressInfo).port}/`
  const rows: Array<{ argv: string[], says: RegExp, tenant?: Tenant }> = [
    { argv: [], says: /say what to call/ },
    { argv: ['GET', '/a', '/b'], says: /say what to call/ },
    { argv: ['--nonsense', '/a'], says: /There is no option --nonsense\n/ },
    { argv: ['--dpopp', '/a'], says: /There is no option --dpopp; did you mean --dpop\?/ },
    { argv: ['/a', '--json', '{a: 1}'], says: /is not JSON/, tenant: local },
    { argv: ['/a', '--json', '{}', '--data', 'a'], says: /cannot be combined/, tenant: local },
    { argv: ['GET', '/a', '--data', 'a'], says: /a GET request has no body/, tenant: local },
    {
      argv: ['https://' + new URL(local.url).host + '/api/public', '--no-token'],
      says: /No answer\.[^]*does not speak TLS[^]*http:\/\/ in the place of https:\/\//
    },
    {
      argv: [encrypted.replace('https:', 'http:'), '--no-token'],
      says: /No answer\.[^]*Does the port speak TLS\? Then it is https:\/\//
    },
    { argv: [`http://127.0.0.1:${await freePort()}/`, '--no-token'], says: /Nothing listens there/ },
    { argv: ['G T', '/a'], says: /is not a method/ },
    { argv: ['api/private'], says: /neither a path/ },
    { argv: ['/api/private'], says: /npm run dev starts one/ },
    { argv: ['http://localhost:1/', '--issuer', 'tenant.example'], says: /with its scheme/ },
    { argv: ['http://localhost:1/', '--issuer', 'https://tenant.example'], says: /--client-id/ },
    {
      argv: ['http://localhost:1/', '--issuer', 'https://tenant.example', '--client-id', 'a'],
      says: /CALL_CLIENT_SECRET/
    },
    { argv: ['http://localhost:1/'], says: /name a provider/ },
    { argv: ['http://[/'], says: /is not a URL/ },
    { argv: ['/a', '--body', 'xml'], says: /form or json/, tenant: local },
    { argv: ['/a', '--param', 'x'], says: /has no =/, tenant: local },
    { argv: ['/a', '--dpop', '--alg', 'HS256'], says: /not an algorithm/, tenant: local },
    { argv: ['/a', '--dpop', '--no-token'], says: /fresh key/, tenant: local },
    {
      argv: ['/a'],
      says: /No answer\.[\s\S]*ECONNREFUSED.*Nothing listens there\. Is it still starting\?/,
      tenant: { ...local, issuer: `http://127.0.0.1:${await freePort()}` }
    },
    { argv: ['/a'], says: /answered 404, with no token_endpoint/, tenant: { ...local, issuer: local.url } }
  ]
  for (const { argv, says, tenant } of rows) {
    const { code, text } = await run(tenant, argv)
    t.equal(code, 1, argv.join(' '))
    t.match(text, says, argv.join(' '))
  }
  const help = await run(undefined, ['--', '--help'])
  t.equal(help.code, 0)
  t.match(help.text, /--client-secret/)
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
    const text = await banner(await startService(settings), 'http://localhost:1', (_style, text) => text)
    const lines = text.split('\n').filter(line => line.includes('curl -i'))
    t.equal(lines.length, count, title)
    for (const line of lines) t.equal(await paste(line), 200, title)
    for (const line of lines) t.equal(await paste(line), line.includes('DPoP:') ? 401 : 200, title)
  }
})

async function paste (line: string): Promise<number> {
  const url = /curl -i (\S+)/.exec(line)?.[1] ?? ''
  const headers = [...line.matchAll(/-H '([\w-]+): ([^']+)'/g)].map((
    [, name = '', value = '']
  ): [string, string] => [name, value])
  return (await fetch(url, { headers })).status
}
