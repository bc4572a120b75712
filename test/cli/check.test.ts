import { generateKeyPairSync } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text as bodyOf } from 'node:stream/consumers'
import { containing } from '../helpers/containing.ts'
import { textOf } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import { check } from '../../cli/check.ts'
import { COMMANDS, tryStore } from '../../cli/stored-revocations.ts'
import { bulk, startFakeRedis } from '../helpers/fake-redis.ts'
import { KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import { recordOf, writeRecord } from '../../lib/revocation/store/record.ts'
import * as scripts from '../../lib/revocation/store/scripts.ts'
import { newsEntry } from '../../lib/revocation/transmitter/stream-news.ts'
import { startEventTransmitter, type EventTransmitter } from '../helpers/event-transmitter.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { listen } from '../helpers/listen.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'
import { rowsOf } from '../helpers/rows.ts'
import { recordedRun } from '../helpers/shown.ts'

const issuer = await startIssuer(t)
const good = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, PUBLIC_URL: 'https://api.example' }
const recorded = recordedOutputs(t, import.meta.filename)

function run (
  env: NodeJS.ProcessEnv = good,
  files: Record<string, string> = {},
  argv: string[] = []
) {
  return recordedRun(recorded(argv), out => check(argv, { env, out, readFile: path => files[path] }))
}

/** A server with these answers, each behind a byte order mark. Gives its URL. */
async function serve (
  t: Test,
  answer: (request: IncomingMessage) => { status?: number, headers?: Record<string, string>, body?: object }
) {
  const server = createServer((request, response) => {
    const { status = 200, headers = { date: dateIn(0) }, body = {} } = answer(request)
    response.sendDate = false
    request.resume().on('end', () => response.writeHead(status, headers).end(`\ufeff${JSON.stringify(body)}`))
  })
  return `http://127.0.0.1:${await listen(t, server)}/`
}

/** A provider whose answers have these headers and this key set. */
async function startProvider (
  t: Test,
  { headers = {}, keys = issuer.keys.map(({ jwk }) => jwk), path = '/keys' }: {
    headers?: Record<string, string>,
    keys?: object[],
    path?: string
  } = {}
) {
  return serve(t, request => {
    const url = `http://${request.headers.host}/`
    const document =
      { '/.well-known/openid-configuration': { issuer: url, jwks_uri: `${url}keys` }, [path]: { keys } }[request.url!]
    return { status: document === undefined ? 404 : 200, headers, body: document ?? {} }
  })
}

const dateIn = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString()

t.test('If all is well, it says so, with code 0, and shows each setting with its source.', async t => {
  const { code, text } = await run({ IDP_ISSUER: issuer.url, LOG_LEVEL: '' }, {
    'config.yaml':
      'idp:\n  audience: from.file\n  scopeClaims: [scope, scp]\nserver:\n  publicUrl: https://api.example\n ' +
      ` logLevel: warn\ndpop:\n  nonceSecret: ${'c2VjcmV0'.repeat(6)}\n`,
    '.env': `IDP_AUDIENCE=${AUDIENCE}\nDPOP_NONCE=required\n`
  })
  t.equal(code, 0)
  t.notMatch(text, containing('c2VjcmV0'), 'a secret is not shown')
})

t.test('What the service warns of at its start is no word of all is well.', async t => {
  const rows: Array<[env: NodeJS.ProcessEnv, gate: object | undefined, warned: RegExp | undefined]> = [
    [{}, { upstream: 'http://127.0.0.1:1', rules: [] }, /! The gate has no rules, so nothing passes it/],
    [{}, { rules: [{ path: '/a' }] }, /! The gate is asked by proxies, but TRUST_PROXY trusts no peer/],
    [{ IDP_AUDIENCE: 'api' }, undefined, /! The audience is not an https URL and RESOURCE is not set/],
    [{ TRUST_PROXY: '192.0.2.1' }, { rules: [{ path: '/a' }] }, undefined]
  ]
  for (const [env, gate, warned] of rows) {
    const { code, text } = await run({ ...good, RESOURCE: env['IDP_AUDIENCE'] ? '' : 'https://a.example', ...env }, { 'config.yaml': JSON.stringify({ gate }) })
    t.equal(code, 0)
    t.match(text, warned ?? /The gate|/)
    t.notMatch(text, warned ? /All is well\./ : /! The (?:gate|audience)/)
  }
})

t.test('What the service opens at its start is opened, and a setting that names a file wrongly is a fault.', async t => {
  const secret = 'c2VjcmV0'.repeat(6)
  const folder = t.testdir({
    'statement.pem': generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
      type: 'pkcs8',
      format: 'pem'
    }) as string,
    secret,
    empty: ''
  })
  const gate = (statementKey: object | string) => ({
    upstream: 'http://127.0.0.1:1',
    statementAudience: 'https://app.example',
    statementKey,
    rules: []
  })
  const found = async (section: object, env: NodeJS.ProcessEnv = {}) =>
    (await run({ ...good, ...env }, { 'config.yaml': JSON.stringify(section) })).code
  const inFolder = (name: string) => ({ file: join(folder, name) })
  const usable = {
    audit: { to: join(folder, 'audit.log'), pseudonymKey: inFolder('secret') },
    gate: gate(inFolder('statement.pem'))
  }
  t.equal(await found(usable), 0)
  t.notOk(existsSync(join(folder, 'audit.log')), 'no file is made')
  t.equal(await found({ audit: 'log' }), 0)

  const withoutAuthority = { url: 'rediss://localhost', ca: inFolder('none') }
  t.equal(await found({}, { AUDIT: '/nonexistent/audit.log' }), 1)
  const unusable: object[] = [
    { audit: folder },
    { audit: join(folder, 'empty/audit.log') },
    { audit: { to: 'log', pseudonymKey: inFolder('none') } },
    { audit: { to: 'log', pseudonymKey: { env: 'TEST_UNSET' } } },
    { gate: gate(inFolder('none.pem')) },
    { gate: gate('-----BEGIN PRIVATE KEY-----\nAAAA') },
    { gate: gate(inFolder('secret')) },
    { dpop: { replay: inFolder('none') } },
    { dpop: { replay: inFolder('empty') } },
    { dpop: { replay: { env: 'TEST_UNSET' } } },
    { dpop: { replay: withoutAuthority } },
    { revocation: { logout: { clientId: 'a' }, store: withoutAuthority } }
  ]
  for (const section of unusable) t.equal(await found(section), 1, JSON.stringify(section))

  const byKey = { IDP_INTROSPECTION: 'opaque', IDP_CLIENT_ID: 'a', IDP_CLIENT_AUTH: 'private_key_jwt' }
  const keyless = { ...byKey, IDP_CLIENT_KEY_FILE: join(folder, 'none.pem') }
  t.equal(await found({}, { ...keyless, IDP_ISSUER: await startProvider(t) }), 1, 'it cannot be introspected either')
  t.equal(await found({}, keyless), 1)
})

t.test('Each unusable setting is reported, and no provider is called.', async t => {
  const asked = issuer.requests.length
  const { code, text } = await run({
    ...good,
    DPOP_NONCE: 'sometimes',
    IDP_DPOP_MOD: 'REQUIRED',
    HTTPS_PROXY: 'ftp://me:hunter2@proxy',
    IDP_JWKS_URI: 'https://me:hunter2@keys'
  })
  t.equal(code, 1)
  t.notMatch(text, containing('hunter2'))
  t.equal(issuer.requests.length, asked)
  t.equal((await run(good, {}, ['config.yaml'])).code, 1)
  t.equal((await run(good, {}, ['--help'])).code, 0)
})

t.test('A questionable setting is a warning, not a fault.', async t => {
  const set = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE }
  t.equal((await run({ ...set, IDP_NONSENSE: '1', DPOP_REPLAY: 'off' })).code, 0)
  t.equal((await run({ ...good, DPOP_ENABLED: 'false' })).code, 0)
  const strict = { ...good, IDP_TOKEN_PROFILE: 'rfc9068' }
  t.equal((await run(strict)).code, 0)
  t.equal((await run({ ...strict, IDP_ISSUER: issuer.url.replace(/\/$/, '') })).code, 0)
  const schemed = { ...good, IDP_ISSUER: undefined, IDP_DOMAIN: 'https://tenant.example' }
  t.equal((await run(schemed)).code, 1, 'a domain with a scheme refuses every token')
})

t.test('A key set that names EdDSA otherwise than IDP_ALGS does is a warning', async t => {
  const { publicKey } = generateKeyPairSync('ed25519')
  for (const [named, other] of [['Ed25519', 'EdDSA'], ['EdDSA', 'Ed25519']] as const) {
    const IDP_ISSUER = await startProvider(t, { keys: [{ ...publicKey.export({ format: 'jwk' }), alg: named }] })
    for (const IDP_ALGS of [other, `${other} ${named}`, named]) {
      t.equal((await run({ ...good, IDP_ISSUER, IDP_ALGS })).code, 0)
    }
  }
})

t.test('A provider whose keys cannot be fetched or used is a fault, with its URL and its cure.', async t => {
  const unreachable = `http://127.0.0.1:${await freePort()}/`
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
  const rows: Record<string, NodeJS.ProcessEnv> = {
    'it is down': { IDP_ISSUER: unreachable },
    'its keys are missing': { IDP_ISSUER: await startProvider(t, { path: '/other' }) },
    'the address is another': { IDP_JWKS_URI: `${issuer.url}nothing` },
    'it names another issuer': { IDP_ISSUER: issuer.url.replace('127.0.0.1', 'localhost') },
    'no key is usable': { IDP_ISSUER: await startProvider(t, { keys: [small, { kty: 'EC' }] }) }
  }
  for (const [title, env] of Object.entries(rows)) t.equal((await run({ ...good, ...env })).code, 1, title)
  const leaky = await run({
    ...good,
    IDP_ISSUER: await startProvider(t, {
      keys: [...issuer.keys.map(({ jwk }) => jwk), { kty: 'RSA', d: 'x' }],
      headers: { date: dateIn(0) }
    })
  })
  t.equal(leaky.code, 0, 'a private key among its keys is a warning')
})

t.test('A key that was written in place of the path of the key file is not shown.', async t => {
  const { code, text } = await run({ ...good, IDP_KEYS_FILE: '-----BEGIN PRIVATE KEY-----\nhush' }, {})
  t.equal(code, 1)
  t.notMatch(text, containing('hush'))
})

t.test('A provider of opaque tokens alone needs no keys: none at its address or in a file, or no jwks_uri.', async t => {
  const directory = t.testdir({ 'none.json': '\ufeff{"keys":[]}', 'other.json': '{"keys":[{"kty":"oct","k":"AAAA"}]}', 'large.json': `${' '.repeat(2 ** 20)}{"keys":[]}` })
  const rows: Array<
    { title: string, document?: object, keys?: object[], env?: NodeJS.ProcessEnv, code: number }
  > = [
    { title: 'no jwks_uri', document: { jwks_uri: undefined }, code: 0 },
    { title: 'no jwks_uri, and EdDSA', document: { jwks_uri: undefined }, env: { IDP_ALGS: 'EdDSA' }, code: 0 },
    { title: 'an empty set', keys: [], code: 0 },
    { title: 'an empty key file', env: { IDP_KEYS_FILE: `${directory}/none.json` }, code: 0 },
    { title: 'keys of which none can be used', keys: [{ kty: 'oct', k: 'AAAA' }], code: 1 },
    { title: 'a file that the service does not read whole', env: { IDP_KEYS_FILE: `${directory}/large.json` }, code: 1 },
    { title: 'the same in a file', env: { IDP_KEYS_FILE: `${directory}/other.json` }, code: 1 },
    {
      title: 'JWTs are introspected too, and no jwks_uri',
      document: { jwks_uri: undefined },
      env: { IDP_INTROSPECTION: 'all' },
      code: 1
    }
  ]
  for (const { title, document, keys = [], env, code } of rows) {
    const IDP_ISSUER = await serve(t, request => {
      const url = `http://${request.headers.host}/`
      const body = { '/introspect': { active: false }, '/keys': { keys } }[request.url!] ??
        { issuer: url, jwks_uri: `${url}keys`, introspection_endpoint: `${url}introspect`, ...document }
      return { body }
    })
    const asking = {
      ...good,
      IDP_ISSUER,
      IDP_INTROSPECTION: 'opaque',
      IDP_CLIENT_ID: 'api',
      IDP_CLIENT_SECRET: 'hunter2'
    }
    t.equal((await run({ ...asking, ...env })).code, code, title)
  }
})

t.test('Introspection is tried with a made-up token.', async t => {
  const asking = { ...good, IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'hunter2' }
  issuer.introspection = { active: false }
  const fine = await run(asking)
  t.equal(fine.code, 0)
  t.notMatch(fine.text, containing('hunter2'))
  for (const answer of [{ active: true }, { active: true, sub: 'u', aud: AUDIENCE }, { active: 'no' }]) {
    issuer.introspection = answer
    t.equal((await run(asking)).code, 1, JSON.stringify(answer))
  }
  const rows: Record<string, NodeJS.ProcessEnv> = {
    'a wrong address': { IDP_INTROSPECTION_ENDPOINT: `${issuer.url}nowhere` },
    'no address': { IDP_ISSUER: await startProvider(t) },
    'refused credentials': { IDP_INTROSPECTION_ENDPOINT: await serve(t, () => ({ status: 401 })) },
    'no key file': { IDP_CLIENT_AUTH: 'private_key_jwt', IDP_CLIENT_KEY_FILE: '/nowhere' }
  }
  for (const [title, env] of Object.entries(rows)) t.equal((await run({ ...asking, ...env })).code, 1, title)
})

t.test('A provider that reads Basic credentials without decoding them is told from one that refuses them.', async t => {
  const asking = { ...good, IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'p%ss w+rd' }
  const accepts = async (credentials: string) => {
    const server = createServer(async (request, response) => {
      const { authorization = '' } = request.headers
      const form = new URLSearchParams(await bodyOf(request))
      const given = authorization === ''
        ? `post ${form.get('client_id')}:${form.get('client_secret')}`
        : Buffer.from(authorization.slice(6), 'base64').toString()
      response.writeHead(given === credentials ? 200 : 401).end('{"active":false}')
    })
    return `http://127.0.0.1:${await listen(t, server)}/`
  }
  const named = { ...asking, IDP_CLIENT_ID: 'urn:api', IDP_CLIENT_SECRET: 'plain' }
  const undecoded = 'api:p%ss w+rd'
  const rows: Array<{ title: string, accepted: string, env?: NodeJS.ProcessEnv, code: number }> = [
    { title: 'not decoded', accepted: undecoded, code: 1 },
    { title: 'decoded', accepted: 'api:p%25ss+w%2Brd', code: 0 },
    { title: 'refused', accepted: 'other', code: 1 },
    { title: 'accepted in the body alone', accepted: 'post urn:api:plain', env: named, code: 1 },
    { title: 'an id with a colon cannot be sent without encoding', accepted: 'urn:api:plain', env: named, code: 1 },
    { title: 'the same, decoded', accepted: 'urn%3Aapi:plain', env: named, code: 0 },
    {
      title: 'there is nothing to decode',
      accepted: undecoded,
      env: { ...asking, IDP_CLIENT_SECRET: 'plain' },
      code: 1
    }
  ]
  for (const { title, accepted, env = asking, code } of rows) {
    t.equal((await run({ ...env, IDP_INTROSPECTION_ENDPOINT: await accepts(accepted) })).code, code, title)
  }
})

t.test('The clock of a provider whose keys are in a file is compared by its metadata.', async t => {
  const directory = t.testdir({ 'keys.json': JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }) })
  for (const [seconds, code] of [[60, 1], [0, 0]] as const) {
    const IDP_ISSUER = await serve(t, request => {
      const url = `http://${request.headers.host}/`
      return {
        headers: { date: dateIn(seconds) },
        body: request.url === '/introspect'
          ? { active: false }
          : { issuer: url, introspection_endpoint: `${url}introspect` }
      }
    })
    t.match(
      await run({
        ...good,
        IDP_ISSUER,
        IDP_KEYS_FILE: `${directory}/keys.json`,
        IDP_INTROSPECTION: 'jwt',
        IDP_CLIENT_ID: 'api',
        IDP_CLIENT_SECRET: 's'
      }),
      { code, text: code === 1 ? /Its clock is \d\d s ahead/ : /clock and the one of this machine agree/ }
    )
  }
})

t.test('Certificates of a connection that this server does not end are a fault.', async t => {
  t.equal((await run({ ...good, CLIENT_CERTIFICATE: 'socket' })).code, 1)
  t.equal((await run()).code, 0)
})

t.test('A clock that differs by more than the tolerance is a fault; a cache is not taken for one.', async t => {
  const rows: Array<
    { title: string, headers: () => Record<string, string>, tolerance?: string, code: number, says: RegExp }
  > = [
    {
      title: 'ahead',
      headers: () => ({ date: dateIn(60) }),
      code: 1,
      says: /Its clock is \d\d s ahead of the one of this machine; IDP_CLOCK_TOLERANCE_SECONDS is 5\.\n[^]*by NTP/
    },
    { title: 'behind', headers: () => ({ date: dateIn(-60) }), code: 1, says: /Its clock is \d\d s behind / },
    {
      title: 'ahead by little more',
      headers: () => ({ date: dateIn(95) }),
      tolerance: '60',
      code: 1,
      says: /Its clock is [6-9]\d s ahead /
    },
    {
      title: 'within the tolerance',
      headers: () => ({ date: dateIn(-60) }),
      tolerance: '120',
      code: 0,
      says: /\u2713 Its clock is \d\d s behind /
    },
    { title: 'out of a cache', headers: () => ({ date: dateIn(-3600), age: '3600' }), tolerance: '60', code: 0, says: /agree/ },
    { title: 'no date', headers: () => ({}), code: 0, says: /! No answer of the provider has a date/ },
    { title: 'an invalid date', headers: () => ({ date: 'now' }), code: 0, says: /! No answer of the provider has a date/ }
  ]
  for (const { title, headers, tolerance = '5', code, says } of rows) {
    const shown = await run({
      ...good,
      IDP_ISSUER: await startProvider(t, { headers: headers() }),
      IDP_CLOCK_TOLERANCE_SECONDS: tolerance
    })
    t.equal(shown.code, code, title)
    t.match(shown.text, says, title)
  }
})

t.test('A shared store that cannot be used is a fault, with its host and its cure, but without the password.', async t => {
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  const DPOP_REPLAY = `redis://:hunter2@127.0.0.1:${redis.port}`
  redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : undefined
  const usable = await run({ ...good, DPOP_REPLAY })
  t.equal(usable.code, 0)
  t.notMatch(usable.text, containing('hunter2'))
  const evicting = bulk('# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n')
  for (const [info, code] of [['-NOPERM no\r\n', 0], [evicting, 1]] as const) {
    redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : name === 'INFO' ? info : undefined
    t.equal((await run({ ...good, DPOP_REPLAY })).code, code, info)
  }
  t.equal((await run({ ...good, DPOP_REPLAY: `redis://127.0.0.1:${await freePort()}` })).code, 1)
})

/** What is said of a configuration with one transmitter. */
async function checkTransmitter (
  t: Test,
  { transmitter = {}, document = {}, env = {}, prepare }: {
    transmitter?: object,
    document?: object,
    env?: NodeJS.ProcessEnv,
    prepare?: (remote: EventTransmitter) => void
  } = {}
) {
  const remote = await startEventTransmitter(t)
  const [, usual] = remote.answers['GET /.well-known/ssf-configuration'] as [number, object]
  remote.answers['GET /.well-known/ssf-configuration'] = [200, { ...usual, ...document }]
  prepare?.(remote)
  const config = {
    revocation: { transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'push', ...transmitter }] }
  }
  return { remote, ...await run({ ...good, ...env }, { 'config.yaml': JSON.stringify(config) }) }
}

const CLIENT = { clientId: 'c', clientSecret: 'hunter2' }

t.test('A secret under a misspelt name is not shown, in a section and in an entry of a list.', async t => {
  const config = {
    idp: {
      audience: AUDIENCE,
      issuers: [{ issuer: issuer.url, introspection: { for: 'jwt', clientId: 'c', clientSecret: 'hunter2' } }]
    },
    revocation: {
      transmitters: [{
        issuer: 'https://t.example',
        clientId: 'c',
        clientSecrte: 'hunter3',
        pushAuthorization: { file: 'pw.txt' },
        clientSecret: { evn: 'hunter4' },
        delivery: 'push'
      }],
      operaters: { password: 'hunter5' }
    }
  }
  const { code, text } = await run({ PUBLIC_URL: 'https://api.example' }, { 'config.yaml': JSON.stringify(config) })
  t.equal(code, 1)
  t.notMatch(text, containing('hunter'))
})

t.test('A key that was written in place of its path is not shown', async t => {
  const { code, text } = await run({ IDP_CLIENT_KEY_FILE: '{"kty":"OKP","d":"hunter2"}' })
  t.equal(code, 1)
  t.notMatch(text, containing('hunter'))
})

t.test('A transmitter whose stream works is reported as well, and no secret is shown.', async t => {
  const { code, text, remote } = await checkTransmitter(t, {
    transmitter: { ...CLIENT, delivery: 'poll', pushAuthorization: 'hunter3' },
    prepare: ({ answers }) => {
      const [, usual] = answers['GET /stream'] as [number, object]
      answers['GET /stream'] = [200, { ...usual, events_requested: KNOWN_EVENT_TYPES }]
    }
  })
  t.equal(code, 0)
  t.notMatch(text, /hunter/)
  t.strictSame(
    remote.requests.map(({ what }) => what).filter(what => /^(?:PATCH|POST)/.test(what)),
    ['POST /token'],
    'nothing is changed'
  )
  t.equal((await checkTransmitter(t)).code, 0)
})

t.test('For a transmitter the events that would be missed are reported.', async t => {
  const answering = (what: string, status: number, body: unknown) => ({
    prepare: (remote: EventTransmitter) => {
      remote.answers[what] = [status, body]
    }
  })
  const stream = (parts: object) => answering('GET /stream', 200, { stream_id: 's1', aud: 'receiver', ...parts })
  const silent = { document: { default_subjects: 'NONE' } }
  const client = { transmitter: CLIENT }
  const byPoll = { transmitter: { ...CLIENT, delivery: 'poll' } }
  const unsetSecret = { transmitter: { ...CLIENT, clientSecret: { env: 'TEST_UNSET' } } }
  const rows: Record<'warned of' | 'a fault', Record<string, Parameters<typeof checkTransmitter>[1]>> = {
    'warned of': {
      'it sends nothing by itself': silent,
      'it sends nothing by itself, and has a stream': { ...silent, ...client },
      'its stream sends all in spite of it': { ...silent, ...client, ...stream({ default_subjects: 'ALL' }) },
      'its stream sends nothing': {
        document: { default_subjects: 'ALL' },
        ...client,
        ...stream({ default_subjects: 'NONE' })
      },
      'nothing says where its streams are': {
        document: { default_subjects: 'NONE', configuration_endpoint: undefined },
        ...client
      },
      'its stream has no status': { document: { status_endpoint: undefined }, ...client },
      'the settings say where to poll': {
        transmitter: { ...CLIENT, delivery: 'poll', endpoint: 'https://a.example/poll' },
        ...stream({ delivery: { method: 'urn:ietf:rfc:8936' } })
      },
      'its events go elsewhere': client,
      'it delivers only some events': {
        ...client,
        ...answering('GET /stream', 200, { stream_id: 's1', events_delivered: [KNOWN_EVENT_TYPES[0]] })
      }
    },
    'a fault': {
      'it sends nothing, and has no stream': { ...silent, ...client, ...answering('GET /stream', 404, {}) },
      'nothing says where to poll': { document: { configuration_endpoint: undefined }, ...byPoll },
      'the same without a client': { transmitter: { delivery: 'poll' } },
      'it has no keys': answering('GET /keys', 200, { keys: [] }),
      'its keys cannot be fetched': answering('GET /keys', 500, {}),
      'it calls itself otherwise': { document: { issuer: 'https://other.example' } },
      'its stream is paused': { ...client, ...answering('GET /status', 200, { status: 'paused' }) },
      'its stream is disabled': { ...client, ...answering('GET /status', 200, { status: 'disabled' }) },
      'it has no stream': { ...client, ...answering('GET /stream', 404, {}) },
      'it refuses the client': { ...client, ...answering('POST /token', 401, {}) },
      'the secret is not set': unsetSecret,
      'there is no key file': {
        transmitter: { ...CLIENT, clientAuth: 'private_key_jwt', keyFile: '/nowhere' }
      },
      'the secret is not set, and it is down': {
        ...unsetSecret,
        ...answering('GET /.well-known/ssf-configuration', 500, {})
      },
      'the secret for pushes is not set': { transmitter: { pushAuthorization: { env: 'TEST_UNSET' } } },
      'it has not the stream of this name': {
        transmitter: { ...CLIENT, streamId: 's9' },
        ...answering('GET /stream', 404, {})
      },
      'none of its streams is delivered here': {
        ...client,
        ...answering('GET /stream', 200, [{ stream_id: 's1' }, { stream_id: 's2' }])
      },
      'its stream is for another': { transmitter: { ...CLIENT, audience: 'another' } },
      'its stream does not say where to poll': {
        ...byPoll,
        ...stream({ delivery: { method: 'urn:ietf:rfc:8936' } })
      }
    }
  }
  for (const { title, value, outcome } of rowsOf(rows)) {
    t.equal((await checkTransmitter(t, value)).code, outcome === 'a fault' ? 1 : 0, title)
  }
})

t.test('What a user has no right to is named in the words of each version of Redis, and no other error counts.', async t => {
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  const refused = {
    GET: 'NOPERM User u has no permissions',
    PTTL: "ERR The user executing the script can't run this command",
    XDEL: "ERR ACL failure in script: User u has no permissions to run the 'xdel' command",
    XLEN: 'ERR no such key'
  }
  redis.override = ([name]) =>
    name === 'EVAL'
      ? `*4\r\n${Object.entries(refused).map(words => `*2\r\n${words.map(bulk).join('')}`).join('')}`
      : undefined
  t.strictSame(await tryStore(`redis://127.0.0.1:${redis.port}`), {
    reason: undefined,
    lacking: ['GET', 'PTTL', 'XDEL']
  })
})

t.test(
  'The store of revocations is tried.',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t)
    const store = `redis://127.0.0.1:${server.port}`
    const remote = await startEventTransmitter(t)
    const config = (url: string) => ({
      'config.yaml': JSON.stringify({
        revocation: { store: url, transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'push' }] }
      })
    })
    const codeAt = async (url: string) => (await run(good, config(url))).code
    t.equal(await codeAt(store), 0)
    const add = (event: string, at: number) => {
      const news = newsEntry({ sender: remote.url, stream: `st ${remote.url}`, event, at })
      return server.command('HSET', scripts.RECORDS, news.key, writeRecord(recordOf(news, { heard: at, life: 1, now: at })))
    }
    await add('verification', 1_800_000_600)
    await add('enabled', 1_800_000_700)
    t.equal(await codeAt(store), 0)
    await server.command(
      'ACL',
      'SETUSER',
      'revoker',
      'on',
      '>hunter2',
      '~{holdfast:revocation}:*',
      ...COMMANDS.map(name => `+${name.toLowerCase()}`)
    )
    const called = JSON.stringify(scripts).matchAll(/redis\.call\(\W*(\w+)/g)
    t.strictSame([...called].map(([, name]) => name!).filter(name => !COMMANDS.includes(name)), [])
    const rights = COMMANDS.map(name => `+${name.toLowerCase()}`).join(' ')
    t.ok(textOf('docs/reference/store.md').includes(`~{holdfast:revocation}:* ${rights}\n`))
    const revoker = `redis://revoker:hunter2@127.0.0.1:${server.port}`
    t.equal(await codeAt(revoker), 0, 'a user with the rights for this store alone')
    for (const name of COMMANDS.filter(name => name !== 'EVAL')) {
      await server.command('ACL', 'SETUSER', 'revoker', `-${name.toLowerCase()}`)
      t.equal(await codeAt(revoker), 1, name)
      await server.command('ACL', 'SETUSER', 'revoker', `+${name.toLowerCase()}`)
    }
    await server.command('ACL', 'SETUSER', 'revoker', '-eval')
    t.equal(await codeAt(revoker), 1)
    await server.command('DEL', scripts.RECORDS)
    await server.command('SET', scripts.RECORDS, 'x')
    t.equal(await codeAt(store), 1, 'its records are of another kind')
    t.equal(await codeAt(`redis://127.0.0.1:${await freePort()}`), 1, 'it is away')
  }
)
