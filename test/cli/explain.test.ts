import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import { startStoreReader } from '../helpers/store-reader.ts'
import t from 'tap'
import { readCurlLine } from '../../cli/read-curl.ts'
import { explain, readInput } from '../../cli/explain.ts'
import type { Tenant } from '../../cli/tenants.ts'
import { createProof, createProofKey, requestToken } from '../../cli/token.ts'
import { startProvider } from '../../dev/provider/provider.ts'
import { createNonces, type Nonces } from '../../lib/guard/dpop/nonces.ts'
import { REFUSALS, type RefusalReason } from '../../lib/refusal.ts'
import { curlLine, curlOutput, harEntry, harFile, rawHead, type Sent } from '../helpers/captures.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { RECORDS } from '../../lib/revocation/store/scripts.ts'
import { openRedisLink } from '../../lib/guard/redis/redis-link.ts'
import { parseRedisUrl } from '../../lib/guard/redis/redis-url.ts'
import { keyOf } from '../../lib/revocation/target.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { createDpopClient } from '../helpers/dpop-client.ts'
import { AUDIENCE, startIssuer, type Overrides } from '../helpers/issuer.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'
import { shownBy } from '../helpers/shown.ts'

const url = 'https://api.example/api/private?page=2'
const issuer = await startIssuer(t)
const client = await createDpopClient()
const provider = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE }
const now = Math.floor(Date.now() / 1000)
const recorded = recordedOutputs(t, import.meta.filename, now)
const SEED = Number(process.env['FC_SEED'] ?? 9449)

/** A request to the service of this test, unless it says otherwise. */
const sent = (parts: Partial<Sent>) => ({ url, at: now, lines: [], ...parts })
const curl = (version: '1.1' | '2', parts: Partial<Sent>) => curlOutput(version, sent(parts))
const har = (parts: Partial<Sent>) => harFile(sent(parts))
const raw = (parts: Partial<Sent>) => rawHead(sent(parts))

const tokenOf = (claims: Overrides = {}) => issuer.token({ iat: now, exp: now + 600, ...claims })
const bearer = (claims?: Overrides) => sent({ lines: [['Authorization', `Bearer ${tokenOf(claims)}`]] })

function dpop (
  claims: Overrides = {},
  { token = tokenOf({ cnf: client.cnf }), header = {} }: { token?: string, header?: Overrides } = {}
) {
  return sent({
    lines: [['Authorization', `DPoP ${token}`], [
      'DPoP',
      client.proof({ token, url: 'https://api.example/api/private', claims: { iat: now, ...claims }, header })
    ]]
  })
}

async function * streamOf (text: string) {
  yield Buffer.from(text)
}

interface World {
  input?: string
  files?: Record<string, string>
  env?: NodeJS.ProcessEnv
  tenant?: Tenant
  isTTY?: boolean
  program?: string
  /** By the clock of this machine, which goes on. */
  isLive?: boolean
  /** Without --full. */
  isShort?: boolean
}
interface Shown {
  code: number
  text: string
}

/** With --full, unless it is to be short or has no arguments. */
async function run (
  argv: string[],
  { input = '', files = {}, env = provider, tenant, isTTY = false, program, isLive = tenant !== undefined, isShort = argv.length === 0 }: World = {}
) {
  const record = isLive ? undefined : recorded(argv)
  const shown = await shownBy(out =>
    explain(isShort ? argv : ['--full', ...argv], {
      env,
      out,
      readFile: path => files[path],
      input: streamOf(input),
      tenants: program === undefined ? [tenant ?? []].flat() : undefined,
      now,
      program
    }), isTTY)
  record?.(`${shown.text}code ${shown.code}`)
  return shown
}

const folder = temporaryFolder(t, 'explain')
writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }))
const OFFLINE = ['--set', `IDP_KEYS_FILE=${join(folder, 'jwks.json')}`]
const outcomes = (text: string) =>
  Object.fromEntries(
    [...text.matchAll(/^ {2}. .*\[([\w.]+)\] (passed|failed|not reached|not checked)$/gm)].map((
      [, name, outcome]
    ) => [name!, outcome!])
  )
const failed = (text: string) =>
  Object.entries(outcomes(text)).find(([, outcome]) => outcome === 'failed')?.[0]
const reason = (text: string) => /^ {2}Refused: (\w+),/m.exec(text)?.[1]

t.test('For an accepted request every check is shown as passed, from a file and without a network.', async t => {
  const asked = issuer.requests.length
  const { code, text } = await run([...OFFLINE, 'captured.txt'], { files: { 'captured.txt': curl('1.1', bearer()) } })
  t.equal(code, 0)
  t.strictSame([...new Set(Object.values(outcomes(text)))], ['passed'])
  const bound = await run(OFFLINE, { input: curl('1.1', dpop()) })
  t.equal(bound.code, 0)
  t.equal(issuer.requests.length, asked, 'nothing was fetched')
})

t.test('The verdict comes first, then the check that failed; those that passed are counted unless --full is given.', async t => {
  const input = curl('1.1', dpop({ htu: 'http://api.example/api/private' }))
  const short = (await run(OFFLINE, { input, isShort: true })).text
  t.strictSame(Object.values(outcomes(short)), ['failed'])
  const full = (await run(OFFLINE, { input })).text
  t.ok(full.length > short.length)
  t.ok(Object.keys(outcomes(full)).length > 15)
  const good = (await run(OFFLINE, { input: curl('1.1', dpop()), isShort: true })).text
  t.strictSame(outcomes(good), { 'proof.replay': 'not checked' })
})

t.test('Every form of a capture gives the same result, for a good request and for a bad one.', async t => {
  const forms: Record<string, (parts: Sent) => string> = {
    'curl -v, HTTP/1.1': parts => curl('1.1', parts),
    'curl -v, HTTP/2': parts => curl('2', parts),
    'a redirect before it': parts =>
      curl('1.1', { lines: [], url: 'http://api.example/', answered: [301] }) + '\n* Issue another request\n' +
      curl('2', parts),
    'a HAR file': har,
    'an entry of a HAR file': parts => JSON.stringify(harEntry(parts)),
    'the request of an entry': parts => JSON.stringify(harEntry(parts).request),
    'the text of a request': raw,
    'a curl line for bash': parts => curlLine(parts, ["--data-raw '{}' -X GET -sS --compressed"]),
    'a line that was typed': ({ lines }) =>
      `$ curl -i ${url} ${lines.map(([name, value]) => `-H "${name}: ${value}"`).join(' ')} | jq .`
  }
  const copied = raw(dpop())
  for (const [line, code] of [[' HTTP/2', 0], [' HTTP/1.1', 1]] as const) {
    t.equal((await run(OFFLINE, { input: copied.replace(' HTTP/1.1', line) })).code, code, 'the headers as Firefox copies them')
  }
  const [good, bad] = [dpop(), dpop({ htu: 'http://api.example/api/private' })]
  for (const [title, form] of Object.entries(forms)) {
    const argv = [...OFFLINE, ...form === raw ? ['--url', url] : []]
    const [accepted, refused] = await Promise.all(
      [good, bad].map(async parts => run(argv, { input: '\ufeff' + form(parts) }))
    ) as [Shown, Shown]
    t.equal(accepted.code, 0, title)
    t.strictSame([refused.code, reason(refused.text)], [1, 'htu_mismatch'], title)
  }
})

t.test('Each kind of failure is named, with the values compared and the cure.', async t => {
  const token = tokenOf({ cnf: client.cnf })
  const rows: Array<{ parts: Partial<Sent>, expected: RefusalReason, argv?: string[] }> =
    [
      { parts: { lines: [] }, expected: 'credentials_missing' },
      {
        parts: { lines: [...bearer().lines, ...bearer().lines] },
        expected: 'authorization_repeated'
      },
      {
        parts: bearer(),
        expected: 'scheme_not_offered',
        argv: ['--set', 'DPOP_REQUIRED=true']
      },
      {
        parts: bearer(),
        expected: 'domain_has_scheme',
        argv: ['--set', 'IDP_DOMAIN=https://tenant.example']
      },
      { parts: { lines: [['Authorization', 'Bearer opaque']] }, expected: 'token_malformed' },
      {
        parts: bearer({ iss: 'https://other.example/' }),
        expected: 'token_issuer'
      },
      {
        parts: { lines: [['Authorization', `Bearer ${token.slice(0, -4)}AAAA`]] },
        expected: 'token_signature'
      },
      { parts: { lines: [['Authorization', `DPoP ${token}`]] }, expected: 'proof_missing' },
      { parts: dpop({ htm: 'POST' }), expected: 'htm_mismatch' },
      {
        parts: dpop({ iat: now - 400 }),
        expected: 'iat_too_old'
      },
      { parts: dpop(), expected: 'nonce_missing', argv: ['--set', 'DPOP_NONCE=required'] },
      {
        parts: { ...bearer(), url: 'https://api.example/api/private-scoped' },
        expected: 'scope_missing'
      },
      {
        parts: bearer({ scope: 'a' }),
        expected: 'scope_missing',
        argv: ['--scope', 'a b']
      }
    ]
  for (const { parts, expected, argv = [] } of rows) {
    const { code, text } = await run([...OFFLINE, ...argv], { input: curl('1.1', parts) })
    t.equal(code, 1, expected)
    t.equal(reason(text), expected)
  }
  const { text } = await run(OFFLINE, { input: har({ lines: [['authorization', 'api.example']] }) })
  t.equal(reason(text), 'scheme_not_offered', 'a value that equals the host is no second host')
})

t.test('An opaque token is explained, and it is introspected only with --introspect.', async t => {
  const env = { ...provider, IDP_INTROSPECTION: 'opaque', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'hunter2' }
  const files = { request: raw(sent({ lines: [['Authorization', 'Bearer opaque']] })) }
  issuer.introspection = { active: true, sub: 'ada', aud: AUDIENCE, scope: 'read:messages' }
  const before = issuer.requests.length
  const unasked = await run([...OFFLINE, '--url', url, 'request'], { files, env })
  t.equal(unasked.code, 0)
  t.equal(issuer.requests.length, before)
  const asked = await run([...OFFLINE, '--introspect', '--url', url, 'request'], { files, env })
  t.equal(asked.code, 0)
  issuer.introspection = { active: false }
  const refused = await run([...OFFLINE, '--introspect', '--url', url, 'request'], { files, env })
  t.strictSame([refused.code, reason(refused.text)], [1, 'token_inactive'])
  t.notMatch(refused.text, containing('hunter2'))
})

t.test('Keys come from the provider if none are given, and from the local tenant if no provider is named.', async t => {
  const fetched = await run([], { input: curl('1.1', bearer()) })
  t.match(fetched.text, /Accepted\./)
  t.ok(issuer.requests.includes('/keys'))

  const audience = 'https://holdfast.example/api'
  const local = await startProvider({ audience })
  t.teardown(() => local.close())
  const tenant: Tenant = {
    ...local,
    pid: process.pid,
    url: 'http://localhost:8000',
    settings: { IDP_ISSUER: local.issuer, IDP_AUDIENCE: audience, DPOP_NONCE: 'required' }
  }
  const key = await createProofKey()
  const { token } = await requestToken({ ...local, key, body: 'form', parameters: [] }, {})
  const to = 'http://localhost:8000/api/private'
  const captured: Partial<Sent> = {
    url: to,
    lines: [['Authorization', `DPoP ${token}`], [
      'DPoP',
      await createProof(key, { method: 'GET', url: to, token: token!, nonce: 'n', iat: now })
    ]]
  }
  const real = await run([], { input: curl('1.1', captured), env: {}, tenant, isShort: false })
  t.hasStrict(outcomes(real.text), {
    'token.signature': 'passed',
    'proof.signature': 'passed',
    'proof.nonce': 'not checked'
  }, 'the settings of its API hold')
  t.match(
    (await run(['--set', 'IDP_AUDIENCE=other'], { input: curl('1.1', captured), env: {}, tenant })).text,
    /Refused: token_audience/,
    'and a flag wins over them'
  )
  const unnamed = await run([], { input: curl('1.1', captured), env: {}, isLive: true })
  t.match(
    unnamed.text,
    /No setting names a provider \(IDP_DOMAIN\)[^]*Not checked: token\.iss, token\.aud, token\.key, token\.signature, proof\.replay\./
  )
  t.equal(unnamed.code, 0, 'what needs no provider is checked')
})

t.test('Checks with unknown keys are not made, and the rest are.', async t => {
  const unreachable = `http://127.0.0.1:${await freePort()}`
  const env = { ...provider, IDP_JWKS_URI: `${unreachable}/keys` }
  const { code } = await run([], { input: curl('1.1', bearer()), env, isShort: false })
  t.equal(code, 0)
  t.equal(reason((await run([], { input: curl('1.1', bearer({ aud: 'other' })), env })).text), 'token_audience')
})

t.test('It judges at the time of the capture, else now.', async t => {
  const early = { ...dpop(), at: now + 400 }
  t.equal(reason((await run(OFFLINE, { input: curl('1.1', early) })).text), 'iat_too_old')
  t.equal(reason((await run(OFFLINE, { input: curl('1.1', dpop()) })).text), undefined)
  const byTheClient = { ...dpop({ iat: now - 400 }), at: now - 400 }
  t.equal(reason((await run(OFFLINE, { input: har(byTheClient) })).text), undefined)
  const dated = JSON.parse(JSON.stringify(harEntry(sent(byTheClient))))
  dated.response.headers.push({ name: 'date', value: new Date(now * 1000).toUTCString() })
  t.equal(reason((await run(OFFLINE, { input: JSON.stringify(dated) })).text), 'iat_too_old', 'by the clock of the service')
  t.match(
    (await run(OFFLINE, { input: raw(dpop()) })).text,
    containing(`judged at  ${now} (`),
    'the text of a request is of now'
  )
})

t.test('The reason in the answer counts, and is compared with the result of the checks.', async t => {
  const challenge =
    `Bearer error="invalid_token", error_description="${REFUSALS.token_audience.description}", DPoP algs="ES256"`
  for (const form of [har, (parts: Partial<Sent>) => curl('1.1', parts), (parts: Partial<Sent>) => curl('2', parts)]) {
    const other = await run(OFFLINE, { input: form({ ...bearer(), answered: [401, challenge] }) })
    t.strictSame([other.code, reason(other.text)], [1, 'token_audience'])
    const same = await run([...OFFLINE, '--set', 'IDP_AUDIENCE=other'], {
      input: form({ ...bearer(), answered: [401, challenge] })
    })
    t.equal(failed(same.text), 'token.aud')
  }
  const limited = JSON.stringify({ message: REFUSALS.rate_limited.description })
  for (const status of [429, 200]) {
    const parts = { ...bearer(), answered: [status] } as const
    const entry = harEntry(sent(parts)) as unknown as { response: object }
    const inHar = JSON.stringify({ ...entry, response: { ...entry.response, content: { text: limited } } })
    for (const input of [inHar, `${curl('1.1', parts)}\n${limited}`]) {
      t.equal(reason((await run(OFFLINE, { input })).text), status === 429 ? 'rate_limited' : undefined, 'the body of a refusal')
    }
  }
  const replayed = `DPoP error="e", error_description="${REFUSALS.proof_replayed.description}", algs="ES256"`
  const { text } = await run(OFFLINE, { input: curl('1.1', { ...dpop(), answered: [401, replayed] }) })
  t.equal(reason(text), 'proof_replayed', 'also one that only the service knows')
})

t.test('A nonce of another instance is recognised in a capture that holds the nonce of the answer.', async t => {
  const [asked, other] = [1, 2].map(byte => createNonces([Buffer.alloc(32, byte)], 'process')) as [Nonces, Nonces]
  const challenge =
    `DPoP error="use_dpop_nonce", error_description="${REFUSALS.nonce_of_another_instance.description}", algs="ES256"`
  const required = [...OFFLINE, '--set', 'DPOP_NONCE=required']
  for (const form of [har, (parts: Partial<Sent>) => curl('1.1', parts), (parts: Partial<Sent>) => curl('2', parts)]) {
    const moved = await run(required, {
      input: form({ ...dpop({ nonce: other.current(now) }), answered: [401, challenge, asked.current(now)] })
    })
    t.strictSame([reason(moved.text), failed(moved.text)], ['nonce_of_another_instance', 'proof.nonce'])
    const stayed = await run(required, {
      input: form({ ...dpop({ nonce: asked.current(now - 60) }), answered: [200, undefined, asked.current(now)] })
    })
    t.strictSame([reason(stayed.text), outcomes(stayed.text)['proof.nonce']], [undefined, 'not checked'])
    const bare = await run(required, { input: form({ ...dpop({ nonce: other.current(now) }), answered: [200] }) })
    t.strictSame([reason(bare.text), outcomes(bare.text)['proof.nonce']], [undefined, 'not checked'])
  }
})

t.test('Route, proxy and public address are taken into account.', async t => {
  const behind = {
    ...bearer(),
    lines: [...dpop().lines, ['X-Forwarded-Proto', 'https'], ['X-Forwarded-Host', 'api.example']] as Sent['lines'],
    url: 'http://127.0.0.1:8000/api/private'
  }
  const trusting = [...OFFLINE, '--set', 'TRUST_PROXY=loopback']
  t.equal(reason((await run([...trusting, '--peer', '127.0.0.1'], { input: raw(behind) })).text), undefined)
  t.equal(reason((await run([...trusting, '--peer', '192.0.2.7'], { input: raw(behind) })).text), 'htu_mismatch')
  const svc = 'https://api.example/svc/api/private'
  const prefixed = await run([...OFFLINE, '--set', 'PUBLIC_URL=https://api.example/svc'], {
    input: curl('2', { ...dpop({ htu: svc }), url: svc })
  })
  t.equal(reason(prefixed.text), undefined)
  for (const { lines } of [bearer(), sent({})]) {
    const { code } = await run(OFFLINE, { input: curl('1.1', { lines, url: 'https://api.example/api/public' }) })
    t.equal(code, 0, `${lines.length} of credentials`)
  }
  for (const path of ['/health/live', '/docs?a', '/.well-known/oauth-protected-resource/svc']) {
    const { code, text } = await run(OFFLINE, { input: curl('1.1', { lines: [], url: `https://api.example${path}` }) })
    t.strictSame([code, /This route has no guard/.test(text)], [0, true], path)
  }
  t.equal((await run(OFFLINE, { input: curl('1.1', { lines: [], url: 'https://api.example/docsearch' }) })).code, 1)
  const unknown = { ...bearer(), url: 'https://api.example/nothing', answered: [404] } as const
  t.equal((await run(OFFLINE, { input: curl('1.1', unknown) })).code, 0)
  const elsewhere = { ...bearer(), url: 'https://api.example/mine' }
  t.equal((await run([...OFFLINE, '--scope', ''], { input: curl('1.1', elsewhere) })).code, 0, 'a route of one\'s own')
})

t.test('A curl line may stand in the arguments, and a request may have its body and answer.', async t => {
  const token = tokenOf({ aud: 'other', cnf: client.cnf })
  const good = bearer().lines[0]![1]
  const rows: Array<{ title: string, argv?: string[], input?: string, failed?: string }> = [
    {
      title: 'the words of a curl line',
      argv: ['curl', '-sX', 'POST', url, '-H', `Authorization: ${good}`, '-d', 'a=1']
    },
    {
      title: 'options before it',
      argv: ['--set', 'IDP_AUDIENCE=other', 'curl', url, '-H', `Authorization: ${good}`],
      failed: 'token.aud'
    },
    {
      title: 'options of curl that set headers',
      argv: ['curl', '-Gd', 'a=1', '--oauth2-bearer', token, 'api.example/api/private'],
      failed: 'token.aud'
    },
    { title: 'a password', input: `curl -I -u me:secret ${url}`, failed: 'credentials' },
    {
      title: 'several curl lines',
      input: `curl ${url} -H 'Authorization: ${good}' ;\ncurl https://www.example/logo.png -H 'accept;' -H ` +
        "'user-agent:' -H @file"
    },
    {
      title: 'a whole request with its body and answer',
      input: `POST /api/private HTTP/1.1\nHost: api.example\nAuthorization: ${good}\n\n{"a": 1}\n\nHTTP/1.1 401 ` +
        `Unauthorized\nDate: ${new Date(now * 1000).toUTCString()}`
    }
  ]
  for (const { title, argv = [], input = '', failed: expected } of rows) {
    const { code, text } = await run([...OFFLINE, ...argv], { input })
    t.equal(failed(text), expected, title)
    t.equal(code, expected === undefined ? 0 : 1, title)
    t.notMatch(text, /secret/, title)
  }
})

t.test('A curl line is read as its shell would read it, whatever is in it.', t => {
  const value = fc.string({ unit: fc.constantFrom(...'ab !"#$%&\'()*^`\\\n|;<>{}\u00e9 '), maxLength: 30 }).map(text =>
    `x${text}x`
  )
  fc.assert(
    fc.property(value, text => {
      const capture = readCurlLine(curlLine(sent({ lines: [['Authorization', text], ['x-after', 'there']] })))
      return JSON.stringify(capture?.headers.slice(2)) ===
        JSON.stringify([['Authorization', text], ['x-after', 'there']])
    }),
    { seed: SEED, numRuns: Number(process.env['FC_RUNS'] ?? 160) }
  )
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'curl -XH"\'^\\$;|\n htp:/a'), maxLength: 200 }), text => {
      readCurlLine(`curl ${text}`)
    }),
    { seed: SEED, numRuns: Number(process.env['FC_RUNS'] ?? 160) }
  )
  t.end()
})

t.test('Input that is no request is refused with an example; lines around a request are noted.', async t => {
  const nothing = {
    nothing: '',
    words: 'hello world',
    bytes: randomBytes(3000).toString('latin1'),
    'an HTML page': '<!doctype html><title>401</title>',
    'headers of something else': 'a: 1\nb: 2',
    'broken JSON': '{"log": {',
    'JSON of another kind': '{"a": 1}',
    'JSON of no kind': '[null, 5, [], "x"]',
    'a HAR file without entries': '{"log":{"entries":"none"}}',
    'an entry that is no HTTP': '{"request":{"url":"data:,x"}}',
    'curl without a request': '* [HTTP/2] [1] OPENED stream\n* Could not resolve host',
    'curl without a URL': 'curl -v',
    'curl of another scheme': 'curl ftp://api.example/',
    'an opaque token': 'opaque',
    'header lines alone': 'Authorization: Bearer x'
  }
  for (const [title, input] of Object.entries(nothing)) {
    t.equal((await run(OFFLINE, { input })).code, 1, title)
  }
  t.equal((await run([...OFFLINE, 'curl', '-v'])).code, 1)
  const [name, value] = bearer().lines[0]!
  const around = `GET /api/private HTTP/1.1\nwhat is this\n${name}: ${value}\nGET / HTTP/1.1\n\u0000`
  t.equal(reason((await run(OFFLINE, { input: around })).text), undefined, 'lines around a header')
  const rows: Record<string, string> = {
    'a HAR file without credentials': har({ lines: [] }),
    'a HAR file with odd headers': JSON.stringify({
      request: { url, headers: [5, null, { name: 'a' }] },
      response: { status: 'x', headers: [null] }
    }),
    'fields that are not known': JSON.stringify(harEntry(sent({ lines: [[':odd', '1']] })))
  }
  for (const [title, input] of Object.entries(rows)) {
    t.equal(reason((await run(OFFLINE, { input })).text), 'credentials_missing', title)
  }
})

t.test('Large input gives a short report, and input over the limit is refused.', async t => {
  const lines = await run(OFFLINE, { input: 'GET /api/private HTTP/1.1\n' + 'no header here\n'.repeat(200_000) })
  t.ok(lines.text.length < 10_000)
  const headers = await run(OFFLINE, { input: raw(bearer()).trimEnd() + '\r\nHost: a'.repeat(100_000) })
  t.equal(headers.code, 1)
  const endless = async function * () {
    for (;;) yield Buffer.alloc(1024 * 1024)
  }
  await t.rejects(readInput(endless()), { message: /64 MiB/ })
  t.equal(
    await readInput((async function * () {
      yield Buffer.from('\u20ac').subarray(0, 1)
      yield Buffer.from('\u20ac').subarray(1)
    })()),
    '\u20ac'
  )
})

t.test('The report holds no signature, and nothing that steers a terminal or passes for a line of it.', async t => {
  const bound = dpop()
  const { text } = await run(OFFLINE, { input: curl('1.1', bound) })
  for (const [, value] of bound.lines) t.notMatch(text, value.split('.').at(-1))
  const odd = '\u001b[2J\u009b1m\u202e\r\n  \u2713 Accepted'
  const hostile: Partial<Sent> = {
    method: `GET${odd}`,
    lines: [['Authorization', `Bearer ${tokenOf({ iss: odd, sub: odd })}`], ['Host', odd]]
  }
  const shown = await run(OFFLINE, { input: har(hostile) })
  t.equal(reason(shown.text), 'token_issuer')
  t.notMatch(shown.text, /[^\P{Cc}\n]|[\u202a-\u202e]/u)
  t.notMatch(shown.text, /^ {2}\u2713 Accepted/m)
  const files = { 'config.json': JSON.stringify({ gate: { rules: [{ path: '/orders' }] } }) }
  const unruled = await run(OFFLINE, { input: har(hostile), files })
  t.equal(reason(unruled.text), 'no_rule')
  t.notMatch(unruled.text, /[^\P{Cc}\n]|[\u202a-\u202e]/u, 'the rules of a gate neither')
  const bare = await run(OFFLINE, { input: raw({ lines: [['Authorization', tokenOf()]] }) })
  t.equal(reason(bare.text), 'scheme_not_offered')
  t.notMatch(bare.text, /eyJ/, 'a token without a scheme is no scheme')
  t.match((await run(OFFLINE, { input: raw(bearer()), isTTY: true })).text, /\p{Cc}\[32m\u2713/u, 'only our own colour')
})

t.test('A failure is reported in one line, without a stack.', async t => {
  const rows = [
    ['one', 'two'],
    ['nothing.txt'],
    ['eyJhbGciOiJSUzI1NiJ9.e30.c2ln'],
    ['--nonsense'],
    ['--scop', 'a'],
    ['--url'],
    ['--url', '/api/private'],
    ['--peer', 'localhost'],
    ['--set', 'DPOP_NONCE'],
    ['--set', 'DPOP_NONSENSE=1'],
    ['--set', 'DPOP_NONCE=sometimes']
  ]
  for (const argv of rows) {
    t.equal((await run(argv, { input: raw(bearer()) })).code, 1, argv.join(' '))
  }
  t.equal((await run(['--', '--help'], { isShort: true })).code, 0)
  const packaged = await run(['--help'], { program: 'holdfast' })
  t.equal(packaged.code, 0)
  t.notMatch(packaged.text, containing('npm run'))
})

t.test('An issuer that calls itself otherwise is named as it does.', async t => {
  const here = issuer.url.replace('127.0.0.1', 'localhost')
  const { code } = await run([], {
    input: curl('1.1', bearer({ iss: here })),
    env: { ...provider, IDP_ISSUER: here }
  })
  t.equal(code, 0)
})

t.test('Revocations are read from the configured store; the memory of a service cannot be read.', async t => {
  const config = (revocation: string) => ({
    files: { 'config.yaml': `revocation:\n  operators: { scope: revoke }\n${revocation}` },
    input: curl('1.1', bearer())
  })
  const inMemory = await run(OFFLINE, config(''))
  t.strictSame([inMemory.code, outcomes(inMemory.text)['token.revocation']], [0, 'not checked'])
  for (const more of ['', 'gate: { upstream: "http://127.0.0.1:9" }\n']) {
    const ask = (claims: Overrides, method = 'POST') => {
      const { lines } = bearer(claims)
      return run(OFFLINE, { ...config(more), input: curl('1.1', { lines, method, url: 'https://api.example/revocation/subjects?a' }) })
    }
    t.equal(reason((await ask({})).text), 'scope_missing', 'it is guarded, at a gate too')
    t.equal((await ask({ scope: 'revoke' })).code, 0)
    t.equal(reason((await ask({}, 'GET')).text), undefined, 'only what is posted')
  }
  const away = `127.0.0.1:${await freePort()}`
  const outage = await run(OFFLINE, config(`  store: redis://:hunter2@${away}\n`))
  t.strictSame([outage.code, outcomes(outage.text)['token.revocation']], [0, 'not checked'])
  t.notMatch(outage.text, containing('hunter2'))
})

t.test(
  'The event that has revoked a token is read from a Redis, as of the time of the capture.',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t)
    const target = parseRedisUrl(`redis://127.0.0.1:${server.port}`)
    const stored = startStoreReader(t, {
      open: listeners => openRedisLink(target, listeners, processSurroundings.steadyMs),
      surroundings: processSurroundings,
      lifeSeconds: 86_400,
      issuers: [issuer.url.replace(/\/$/, '')]
    })
    await stored.loaded()
    const common = {
      key: keyOf(['sid', issuer.url, 's1']),
      effect: 'end',
      at: now - 2,
      event: 'session-revoked',
      source: 'https://transmitter.example',
      sender: 'https://transmitter.example',
      standing: 'other'
    } as const
    const world = (lines: Sent) => ({
      files: {
        'config.yaml': `revocation:\n  operators: { scope: revoke }\n  store: redis://127.0.0.1:${server.port}\n`
      },
      input: curl('1.1', lines),
      isLive: true
    })
    const ofSession = bearer({ sid: 's1', iat: now - 5 })
    await stored.append([common, {
      ...common,
      key: keyOf(['sub', issuer.url, 'u2']),
      effect: 'block'
    }])
    const at = Math.ceil(Date.now() / 1000)
    const { code, text } = await run(OFFLINE, world({ ...ofSession, at }))
    t.strictSame([code, failed(text), reason(text)], [1, 'token.revocation', 'token_revoked'])
    t.match(
      text,
      containing(
        `revoked by  session-revoked from https://transmitter.example\n      at          ${now - 2} ` +
          `(${new Date((now - 2) * 1000).toISOString()}, `
      )
    )
    t.equal(failed((await run(OFFLINE, world({ ...bearer({ sub: 'u2' }), at }))).text), 'token.revocation')
    t.equal(
      outcomes((await run(OFFLINE, world(bearer({ sid: 's2' })))).text)['token.revocation'],
      'passed'
    )
    t.equal(
      outcomes(
        (await run(OFFLINE, world({ ...ofSession, at: now - 30 }))).text
      )['token.revocation'],
      'passed',
      'it had not arrived by then'
    )
    stored.close()
    await server.command('SET', RECORDS, '1')
    const broken = await run(OFFLINE, world(ofSession))
    t.match(broken.text, /The store of revocations cannot be read: Redis at 127\.0\.0\.1:\d+: WRONGTYPE/)
  }
)

t.test('At a gate the rules judge a captured request, and the message in its body.', async t => {
  const config = {
    gate: {
      upstream: 'http://127.0.0.1:9',
      rules: [
        { path: '/orders/*', methods: ['GET'], scope: 'read' },
        { path: '/open', allow: 'anyone' },
        { path: '/mcp', mcp: { methods: ['initialize', 'tools/list'] } },
        { path: '/mcp', mcp: { tools: ['drop_*'] }, scope: 'drop' },
        { path: '/mcp', mcp: { tools: ['own'], arguments: { user: { claim: 'sub' } } } },
        { path: '/other/*', audience: 'https://other.example' },
        { path: '/cut', mcp: { methods: ['tools/list'], onlyRuled: true } },
        { path: '/hello', allow: 'anyone', mcp: { methods: ['initialize'] } },
        { path: '/both', allow: 'anyone', mcp: { methods: ['initialize'] } },
        { path: '/both', mcp: { methods: ['tools/list'] } }
      ]
    }
  }
  const files = { 'config.json': JSON.stringify(config) }
  const token = tokenOf({ scope: 'read' })
  const ask = async (words: string[]) =>
    run([...OFFLINE, 'curl', '-H', `Authorization: Bearer ${token}`, ...words], { files })
  const post = (body: object | string, path = 'mcp') =>
    ask([`http://gate.example/${path}`, '--json', typeof body === 'string' ? body : JSON.stringify(body)])
  const calling = (name: string, args?: object) => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name, arguments: args }
  })
  const { sub } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
  const rows: ReadonlyArray<{ title: string, shown: Promise<Shown>, code: number, reason?: string }> = [
    { title: 'a rule', shown: ask(['http://gate.example/orders/7']), code: 0 },
    {
      title: 'no rule',
      shown: ask(['http://gate.example/other']),
      code: 1,
      reason: 'no_rule'
    },
    {
      title: 'no rule for the method',
      shown: ask(['http://gate.example/orders/7', '-X', 'PUT']),
      code: 1,
      reason: 'no_rule'
    },
    { title: 'two readings', shown: ask(['http://gate.example/orders/a%2Fb']), code: 1, reason: 'target_path' },
    { title: 'a message', shown: post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), code: 0 },
    { title: 'a tool that needs more', shown: post(calling('drop_all')), code: 1, reason: 'scope_missing' },
    { title: 'an argument that fits', shown: post(calling('own', { user: sub })), code: 0 },
    {
      title: 'an argument that does not',
      shown: post(calling('own', { user: 'bob' })),
      code: 1,
      reason: 'argument_refused'
    },
    {
      title: 'a tool without a rule',
      shown: post(calling('other')),
      code: 1,
      reason: 'no_rule'
    },
    { title: 'no message', shown: post('{'), code: 1, reason: 'message_refused' },
    {
      title: 'a form',
      shown: ask(['http://gate.example/mcp', '-d', '{}', '-H', 'Content-Type: text/plain']),
      code: 1,
      reason: 'message_refused'
    },
    {
      title: 'a body that the capture lacks',
      shown: ask(['http://gate.example/mcp', '-X', 'POST']),
      code: 0
    },
    {
      title: 'a token for the configured audience',
      shown: ask(['http://gate.example/other/1']),
      code: 1,
      reason: 'token_audience'
    },
    {
      title: 'one for the audience of the rule',
      shown: run([...OFFLINE, 'curl', 'http://gate.example/other/1', '--oauth2-bearer', tokenOf({ aud: 'https://other.example' })], { files }),
      code: 0
    },
    { title: 'a list that is cut', shown: post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, 'cut'), code: 0 },
    {
      title: 'the same in a batch',
      shown: post([{ jsonrpc: '2.0', id: 1, method: 'tools/list' }], 'cut'),
      code: 1,
      reason: 'message_refused'
    },
    {
      title: 'a stranger for whom no rule is',
      shown: run([...OFFLINE, 'curl', 'http://gate.example/hello', '--json', JSON.stringify(calling('other'))], { files }),
      code: 1,
      reason: 'no_rule'
    }
  ]
  for (const { title, shown, code, reason: expected } of rows) {
    const { code: found, text } = await shown
    t.strictSame([found, reason(text)], [code, expected], title)
  }
  for (const path of ['mcp', 'both']) {
    const message = JSON.stringify(calling('other'))
    const stranger = await run([...OFFLINE, 'curl', `http://gate.example/${path}`, '--json', message], { files })
    t.equal(reason(stranger.text), 'credentials_missing', `a stranger gets 401 at /${path}, as at the gate`)
  }
  const har = JSON.stringify({
    request: {
      method: 'POST',
      url: 'http://gate.example/mcp',
      headers: [{ name: 'Authorization', value: `Bearer ${token}` }, { name: 'Content-Type', value: 'application/json' }],
      postData: { text: JSON.stringify(calling('drop_all')) }
    }
  })
  t.equal(reason((await run(OFFLINE, { files, input: har })).text), 'scope_missing')
  const raw = `POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n\r\n` +
    JSON.stringify(calling('drop_all'))
  t.equal(reason((await run(OFFLINE, { files, input: raw })).text), 'scope_missing')
})

t.test('A CORS preflight is told from a request that lacks credentials, and what answers it is named.', async t => {
  const preflight = ['-X', 'OPTIONS', '-H', 'Origin: https://app.example', '-H', 'Access-Control-Request-Method: GET']
  const ask = (env: NodeJS.ProcessEnv, more: string[] = preflight) =>
    run([...OFFLINE, 'curl', 'https://api.example/api/private', ...more], { env: { ...provider, ...env } })
  t.equal((await ask({})).code, 1)
  t.equal((await ask({ CORS_ORIGINS: 'https://other.example' })).code, 1)
  t.equal((await ask({ CORS_ORIGINS: 'https://app.example' })).code, 0)
  t.equal((await ask({ CORS_ORIGINS: 'https://app.example' }, preflight.slice(0, 4))).code, 1, 'no preflight')
  const odd = preflight.with(3, 'Origin: \u001b[2J')
  t.notMatch((await ask({ CORS_ORIGINS: 'https://app.example' }, odd)).text, containing('\u001b'), 'no origin steers a terminal')
})
