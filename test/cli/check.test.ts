import { generateKeyPairSync } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { containing } from '../helpers/containing.ts'
import { textOf } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import t, { type Test } from 'tap'
import { check } from '../../cli/check.ts'
import { COMMANDS, tryStore } from '../../cli/stored-revocations.ts'
import { PROVIDER_FAULTS, STORE_FAULTS } from '../../cli/explain/faults.ts'
import { bulk, startFakeRedis } from '../helpers/fake-redis.ts'
import { KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import { recordOf, writeRecord } from '../../lib/revocation/store/record.ts'
import { RECORDS } from '../../lib/revocation/store/scripts.ts'
import { newsEntry } from '../../lib/revocation/transmitter/stream-news.ts'
import { startEventTransmitter, type EventTransmitter } from '../helpers/event-transmitter.ts'
import { AUDIENCE, startIssuer } from '../helpers/issuer.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { skipRedis, startRedis } from '../helpers/redis.ts'

const issuer = await startIssuer(t)
const good = { IDP_ISSUER: issuer.url, IDP_AUDIENCE: AUDIENCE, PUBLIC_URL: 'https://api.example' }
const recorded = recordedOutputs(t, import.meta.filename)

async function run (
  env: NodeJS.ProcessEnv = good,
  files: Record<string, string> = {},
  argv: string[] = []
): Promise<{ code: number, text: string, result: string }> {
  const record = recorded(argv)
  let text = ''
  const code = await check(argv, {
    env,
    out: {
      write: part => {
        text += part
      }
    },
    readFile: path => files[path]
  })
  record(`${text}code ${code}`)
  return { code, text, result: text.slice(text.indexOf('\nResult\n') + 8) }
}

/** A provider whose answers have these headers and this key set. */
async function startProvider (
  t: Test,
  { headers = {}, keys = issuer.keys.map(({ jwk }) => jwk), path = '/keys' }: {
    headers?: Record<string, string>,
    keys?: object[],
    path?: string
  } = {}
): Promise<string> {
  const server = createServer((request, response) => {
    const url = `http://${request.headers.host}/`
    const document =
      { '/.well-known/openid-configuration': { issuer: url, jwks_uri: `${url}keys` }, [path]: { keys } }[request.url!]
    response.sendDate = false
    response.writeHead(document === undefined ? 404 : 200, headers).end(JSON.stringify(document ?? {}))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const dateIn = (seconds: number): string => new Date(Date.now() + seconds * 1000).toUTCString()

t.test('If all is well, it says so, with code 0, and shows each setting with its source.', async t => {
  const { code, text, result } = await run({ IDP_ISSUER: issuer.url, LOG_LEVEL: '' }, {
    'config.yaml':
      'idp:\n  audience: from.file\n  scopeClaims: [scope, scp]\nserver:\n  publicUrl: https://api.example\n ' +
      ` logLevel: warn\ndpop:\n  nonceSecret: ${'c2VjcmV0'.repeat(6)}\n`,
    '.env': `IDP_AUDIENCE=${AUDIENCE}\nDPOP_NONCE=required\n`
  })
  t.equal(code, 0)
  t.match(text, / {2}! .*nonceSecret/)
  t.equal(result, '  All is well but for what stands behind "!".\n')
  t.match(text, new RegExp(`IDP_ISSUER +environment +${issuer.url}\n`))
  t.match(text, new RegExp(`IDP_AUDIENCE +\\.env +${AUDIENCE}\n`))
  t.match(text, /IDP_SCOPE_CLAIMS +config\.yaml, line 3 +scope scp\n/)
  t.match(text, /LOG_LEVEL +config\.yaml, line 6 +warn\n/)
  t.notMatch(text, /DPOP_REPLAY_MAX|IDP_DOMAIN|default +/, 'what has its default is left out')
  t.match(text, /DPOP_NONCE_SECRET +config\.yaml, line 8 +\(not shown\)\n/)
  t.notMatch(text, containing('c2VjcmV0'), 'a secret is not shown')
  t.match(
    text,
    new RegExp(
      `GET ${issuer.url}\\.well-known/openid-configuration answered 200\\.\n.*GET ${issuer.url}keys answered ` +
        '200\\.\n.*1 usable key for RS256\\.\n.*clock .* agree\\.\n'
    )
  )
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
  const gate = (statementKey: object | string): object => ({
    upstream: 'http://127.0.0.1:1',
    statementAudience: 'https://app.example',
    statementKey,
    rules: []
  })
  const found = async (section: object, env: NodeJS.ProcessEnv = {}) => {
    const { code, text, result } = await run({ ...good, ...env }, { 'config.yaml': JSON.stringify(section) })
    return [code, result, text] as const
  }
  const usable = await found({
    audit: { to: join(folder, 'audit.log'), pseudonymKey: { file: join(folder, 'secret') } },
    gate: gate({ file: join(folder, 'statement.pem') })
  })
  t.equal(usable[0], 0)
  t.match(usable[2], /Files\n.*audit\.log can be written\.\n.*pseudonymKey can be used\.\n.*statementKey can be used\.\n/)
  t.notOk(existsSync(join(folder, 'audit.log')), 'no file is made')
  t.notMatch((await found({ audit: 'log' }))[2], containing('Files\n'))

  const CREATE = 'Create the file, and its folder if there is none, or correct its path.'
  const rows: Array<[section: object, env: NodeJS.ProcessEnv, says: string, cure: string]> = [
    [{}, { AUDIT: '/nonexistent/audit.log' }, 'AUDIT (audit.to) is "/nonexistent/audit.log", which cannot be', CREATE],
    [{ audit: folder }, {}, 'which cannot be written (EISDIR)', 'Name a file: that path leads to a folder.'],
    [
      { audit: join(folder, 'empty/audit.log') },
      {},
      'which cannot be written (ENOTDIR)',
      'Correct the path: a part of it is no folder.'
    ],
    [
      { audit: { to: 'log', pseudonymKey: { file: join(folder, 'none') } } },
      {},
      'audit.pseudonymKey is not usable: ENOENT',
      CREATE
    ],
    [
      { audit: { to: 'log', pseudonymKey: { env: 'TEST_UNSET' } } },
      {},
      'audit.pseudonymKey is not usable: the variable TEST_UNSET is not set',
      'Set the variable TEST_UNSET, or correct its name.'
    ],
    [
      { gate: gate({ file: join(folder, 'none.pem') }) },
      {},
      `gate.statementKey is "${join(folder, 'none.pem')}": the file cannot be read (ENOENT)`,
      CREATE
    ],
    [
      { gate: gate('-----BEGIN PRIVATE KEY-----\nAAAA') },
      {},
      'gate.statementKey is a key itself (not shown); allowed: path of a file with a private key',
      'docs/reference/settings.md lists every setting with its allowed values.'
    ],
    [
      { gate: gate({ file: join(folder, 'secret') }) },
      {},
      `gate.statementKey is "${join(folder, 'secret')}": `,
      'docs/reference/settings.md lists'
    ],
    [
      { dpop: { replay: { file: join(folder, 'none') } } },
      {},
      'DPOP_REPLAY (dpop.replay) is not usable: ENOENT',
      CREATE
    ],
    [
      { dpop: { replay: { file: join(folder, 'empty') } } },
      {},
      'DPOP_REPLAY (dpop.replay) is not usable: the file ',
      'Write the value into the file, or correct its path.'
    ],
    [
      { dpop: { replay: { env: 'TEST_UNSET' } } },
      {},
      'DPOP_REPLAY (dpop.replay) is not usable: the variable TEST_UNSET is not set',
      'Set the variable TEST_UNSET, or correct its name.'
    ],
    [
      { dpop: { replay: { url: 'rediss://localhost', ca: { file: join(folder, 'none') } } } },
      {},
      'DPOP_REPLAY (dpop.replay) has a cert, key or ca that is not usable (ENOENT)',
      CREATE
    ],
    [
      {
        revocation: {
          logout: { clientId: 'a' },
          store: { url: 'rediss://localhost', ca: { file: join(folder, 'none') } }
        }
      },
      {},
      'revocation.store has a cert, key or ca that is not usable (ENOENT)',
      CREATE
    ]
  ]
  for (const [section, env, says, cure] of rows) {
    const [code, result] = await found(section, env)
    t.equal(code, 1, says)
    t.match(result, containing('One thing is wrong.'))
    t.match(result, containing(says))
    t.match(result, containing(`What to do  ${cure}`))
  }

  const byKey = { IDP_INTROSPECTION: 'opaque', IDP_CLIENT_ID: 'a', IDP_CLIENT_AUTH: 'private_key_jwt' }
  const keyless = { ...byKey, IDP_CLIENT_KEY_FILE: join(folder, 'none.pem') }
  t.match(
    (await found({}, { ...keyless, IDP_ISSUER: await startProvider(t) }))[1],
    /2 things are wrong\.\n\n *1\. IDP_CLIENT_KEY_FILE .*\(ENOENT\)[^]* 2\. Introspection failed: introspection_endpoint/
  )
  t.match((await found({}, keyless))[1], /One thing is wrong\.\n\n *1\. IDP_CLIENT_KEY_FILE .*\(ENOENT\)/)
})

t.test('Each unusable setting is reported, and no provider is called.', async t => {
  const asked = issuer.requests.length
  const { code, text, result } = await run({
    ...good,
    DPOP_NONCE: 'sometimes',
    IDP_DPOP_MOD: 'REQUIRED',
    HTTPS_PROXY: 'ftp://me:hunter2@proxy',
    IDP_JWKS_URI: 'https://me:hunter2@keys'
  })
  t.equal(code, 1)
  t.match(
    result,
    /^ {2}4 things are wrong\.\n[^]*1\. unknown variable "IDP_DPOP_MOD"; did you mean IDP_DPOP_MODE\?\n[^]*DPOP_NONCE \(dpop\.nonce\) is "sometimes"; allowed: off or required/
  )
  t.notMatch(text, containing('hunter2'))
  t.equal(issuer.requests.length, asked)
  t.match((await run(good, {}, ['config.yaml'])).text, /Unexpected argument config\.yaml: settings come from/)
  t.match(await run(good, {}, ['--help']), { code: 0, text: /Exit code: 0 if all is well, 1 if something is not\.\n$/ })
})

t.test('A questionable setting is a warning, not a fault.', async t => {
  const { code, text } = await run({
    IDP_ISSUER: issuer.url,
    IDP_AUDIENCE: AUDIENCE,
    IDP_NONSENSE: '1',
    DPOP_REPLAY: 'off'
  })
  t.equal(code, 0)
  t.match(
    text,
    /! These variables look like settings but are not, and have no effect: IDP_NONSENSE\n[^]*! Neither PUBLIC_URL \(server\.publicUrl\) nor TRUST_PROXY[^]*! DPOP_REPLAY is off/
  )
  t.match((await run({ ...good, DPOP_ENABLED: 'false' })).text, /It is not used: DPoP is switched off/)
  const strict = { ...good, IDP_TOKEN_PROFILE: 'rfc9068' }
  const otherwise = /! It spells its issuer \S+, so under IDP_TOKEN_PROFILE=rfc9068 its tokens are refused\./
  t.notMatch((await run(strict)).text, otherwise)
  t.match((await run({ ...strict, IDP_ISSUER: issuer.url.replace(/\/$/, '') })).text, otherwise)
  const schemed = await run({
    IDP_DOMAIN: 'https://tenant.example',
    IDP_AUDIENCE: AUDIENCE,
    PUBLIC_URL: 'https://api.example'
  })
  t.equal(schemed.code, 1, 'a domain with a scheme refuses every token')
  t.match(schemed.result, /One thing is wrong\.\n\n {2}1\. IDP_DOMAIN starts with a scheme[^]*Write only the host/)
})

t.test('A key set that names EdDSA otherwise than IDP_ALGS does is a warning', async t => {
  const { publicKey } = generateKeyPairSync('ed25519')
  for (const [named, other] of [['Ed25519', 'EdDSA'], ['EdDSA', 'Ed25519']] as const) {
    const IDP_ISSUER = await startProvider(t, { keys: [{ ...publicKey.export({ format: 'jwk' }), alg: named }] })
    const said = containing(`IDP_ALGS names ${other} alone: a token whose header says ${named} is refused.`)
    t.match((await run({ ...good, IDP_ISSUER, IDP_ALGS: other })).text, said)
    t.notMatch((await run({ ...good, IDP_ISSUER, IDP_ALGS: `${other} ${named}` })).text, said)
    t.notMatch((await run({ ...good, IDP_ISSUER, IDP_ALGS: named })).text, said)
  }
})

t.test('A provider whose keys cannot be fetched or used is a fault, with its URL and its cure.', async t => {
  const unreachable = `http://127.0.0.1:${await freePort()}/`
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
  const rows: Array<{ title: string, env: NodeJS.ProcessEnv, says: RegExp, cure?: string }> = [
    {
      title: 'it is down',
      env: { IDP_ISSUER: unreachable },
      says: new RegExp(`GET ${unreachable}\\.well-known/openid-configuration: unreachable: ECONNREFUSED`),
      cure: PROVIDER_FAULTS.unreachable.cure
    },
    {
      title: 'its keys are missing',
      env: { IDP_ISSUER: await startProvider(t, { path: '/other' }) },
      says: /GET \S+\/keys: status: 404 \(/,
      cure: PROVIDER_FAULTS.status.cure
    },
    {
      title: 'the address is another',
      env: { IDP_JWKS_URI: `${issuer.url}nothing` },
      says: /GET \S+\/nothing: status: 404/,
      cure: PROVIDER_FAULTS.status.cure
    },
    {
      title: 'it names another issuer',
      env: { IDP_ISSUER: issuer.url.replace('127.0.0.1', 'localhost') },
      says: new RegExp(
        `: discovery_issuer: expected ${issuer.url.replace('127.0.0.1', 'localhost')}, found ${issuer.url} \\(`
      ),
      cure: PROVIDER_FAULTS.discovery_issuer.cure
    },
    {
      title: 'no key is usable',
      env: { IDP_ISSUER: await startProvider(t, { keys: [small, { kty: 'EC' }] }) },
      says: /publishes no key that can be used for RS256.*Passed over: 1 modulus, 1 key_type/
    }
  ]
  for (const { title, env, says, cure = 'Have the provider sign' } of rows) {
    const { code, result } = await run({ ...good, ...env })
    t.equal(code, 1, title)
    t.match(result, says, title)
    t.match(result, containing(cure.replaceAll('`', '')), title)
  }
  const leaky = await run({
    ...good,
    IDP_ISSUER: await startProvider(t, {
      keys: [...issuer.keys.map(({ jwk }) => jwk), { kty: 'RSA', d: 'x' }],
      headers: { date: dateIn(0) }
    })
  })
  t.equal(leaky.code, 0)
  t.match(leaky.text, /! It publishes a private key.*\n {4}Replace that key/)
})

t.test('A key that was written in place of the path of the key file is not shown.', async t => {
  const { code, text } = await run({ ...good, IDP_KEYS_FILE: '-----BEGIN PRIVATE KEY-----\nhush' }, {})
  t.equal(code, 1)
  t.match(text, containing('IDP_KEYS_FILE (idp.keysFile) is a key itself (not shown); allowed: path of a file'))
  t.notMatch(text, containing('hush'))
})

t.test('A provider of opaque tokens alone needs no keys: none at its address or in a file, or no jwks_uri.', async t => {
  const directory = t.testdir({ 'none.json': '{"keys":[]}', 'other.json': '{"keys":[{"kty":"oct","k":"AAAA"}]}' })
  const rows: Array<
    { title: string, document?: object, keys?: object[], env?: NodeJS.ProcessEnv, code: number, says: RegExp }
  > = [
    { title: 'no jwks_uri', document: { jwks_uri: undefined }, code: 0, says: /It publishes no keys, and needs none/ },
    { title: 'an empty set', keys: [], code: 0, says: /It publishes no keys, and needs none/ },
    {
      title: 'an empty key file',
      env: { IDP_KEYS_FILE: `${directory}/none.json` },
      code: 0,
      says: /It publishes no keys, and needs none/
    },
    {
      title: 'keys of which none can be used',
      keys: [{ kty: 'oct', k: 'AAAA' }],
      code: 1,
      says: /no key that can be used for RS256/
    },
    {
      title: 'the same in a file',
      env: { IDP_KEYS_FILE: `${directory}/other.json` },
      code: 1,
      says: /no key that can be used for RS256/
    },
    {
      title: 'JWTs are introspected too, and no jwks_uri',
      document: { jwks_uri: undefined },
      env: { IDP_INTROSPECTION: 'all' },
      code: 1,
      says: /discovery_malformed/
    }
  ]
  for (const { title, document, keys = [], env, code, says } of rows) {
    const server = createServer((request, response) => {
      const url = `http://${request.headers.host}/`
      response.end(
        JSON.stringify(
          request.url === '/introspect'
            ? { active: false }
            : request.url === '/keys'
              ? { keys }
              : { issuer: url, jwks_uri: `${url}keys`, introspection_endpoint: `${url}introspect`, ...document }
        )
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    t.match(
      await run({
        ...good,
        IDP_ISSUER: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        IDP_INTROSPECTION: 'opaque',
        IDP_CLIENT_ID: 'api',
        IDP_CLIENT_SECRET: 'hunter2',
        ...env
      }),
      { code, text: says },
      title
    )
  }
})

t.test('Introspection is tried with a made-up token.', async t => {
  const asking = { ...good, IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'hunter2' }
  issuer.introspection = { active: false }
  const fine = await run(asking)
  t.equal(fine.code, 0)
  t.match(
    fine.text,
    new RegExp(
      `Introspects all tokens, at ${issuer.url}introspect, as the client api\\.\n.*accepts the credentials of ` +
        'api, and reports a random token as not active'
    )
  )
  t.notMatch(fine.text, containing('hunter2'))
  issuer.introspection = { active: true }
  t.match(await run(asking), { code: 1, result: /reports a random token as active/ })
  issuer.introspection = { active: true, sub: 'u', aud: AUDIENCE }
  t.match(await run(asking), { code: 1, result: /reports a random token as active/ })
  issuer.introspection = { active: 'no' }
  t.match(await run(asking), { code: 1, result: /Introspection failed: introspection_malformed \(/ })
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: `${issuer.url}nowhere` }), {
    code: 1,
    result: /status: 404/
  })
  const withoutEndpoint = await startProvider(t)
  t.match(await run({ ...asking, IDP_ISSUER: withoutEndpoint }), {
    code: 1,
    result: /introspection_endpoint \([^]*set IDP_INTROSPECTION_ENDPOINT/
  })
  const refusing = createServer((_request, response) => {
    response.writeHead(401).end()
  }).listen(0, '127.0.0.1')
  await once(refusing, 'listening')
  t.teardown(() => {
    refusing.closeAllConnections()
    refusing.close()
  })
  t.match(
    await run({
      ...asking,
      IDP_INTROSPECTION_ENDPOINT: `http://127.0.0.1:${(refusing.address() as AddressInfo).port}/`
    }),
    { code: 1, result: /status: 401[^]*Check the client: IDP_CLIENT_ID/ }
  )
  t.match(await run({ ...asking, IDP_CLIENT_AUTH: 'private_key_jwt', IDP_CLIENT_KEY_FILE: '/nowhere' }), {
    code: 1,
    result: /IDP_CLIENT_KEY_FILE .* is "\/nowhere", which is not usable \(ENOENT\)/
  })
})

t.test('A provider that reads Basic credentials without decoding them is told from one that refuses them.', async t => {
  const asking = { ...good, IDP_INTROSPECTION: 'all', IDP_CLIENT_ID: 'api', IDP_CLIENT_SECRET: 'p%ss w+rd' }
  const accepts = async (credentials: string): Promise<string> => {
    const asked = createServer((request, response) => {
      const { authorization = '' } = request.headers
      const body: Buffer[] = []
      request.on('data', chunk => body.push(chunk)).on('end', () => {
        const form = new URLSearchParams(Buffer.concat(body).toString())
        const given = authorization === ''
          ? `post ${form.get('client_id')}:${form.get('client_secret')}`
          : Buffer.from(authorization.slice(6), 'base64').toString()
        response.writeHead(given === credentials ? 200 : 401).end('{"active":false}')
      })
    }).listen(0, '127.0.0.1')
    await once(asked, 'listening')
    t.teardown(() => {
      asked.closeAllConnections()
      asked.close()
    })
    return `http://127.0.0.1:${(asked.address() as AddressInfo).port}/`
  }
  const undecoded = await accepts('api:p%ss w+rd')
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: undecoded }), {
    code: 1,
    result: /reads the client's credentials without decoding them[^]*IDP_CLIENT_AUTH=client_secret_post/
  })
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: await accepts('api:p%25ss+w%2Brd') }), { code: 0 })
  t.match(await run({ ...asking, IDP_INTROSPECTION_ENDPOINT: await accepts('other') }), {
    code: 1,
    result: /status: 401[^]*Check the client: IDP_CLIENT_ID/
  })
  const named = { ...asking, IDP_CLIENT_ID: 'urn:api', IDP_CLIENT_SECRET: 'plain' }
  t.match(await run({ ...named, IDP_INTROSPECTION_ENDPOINT: await accepts('post urn:api:plain') }), {
    code: 1,
    result: /accepts them by client_secret_post\. The id or the secret holds .* such as a colon/
  })
  t.match(await run({ ...named, IDP_INTROSPECTION_ENDPOINT: await accepts('urn:api:plain') }), {
    code: 1,
    result: /Check the client: IDP_CLIENT_ID/
  }, 'an id with a colon cannot be sent without encoding')
  t.match(await run({ ...named, IDP_INTROSPECTION_ENDPOINT: await accepts('urn%3Aapi:plain') }), { code: 0 })
  t.match(await run({ ...asking, IDP_CLIENT_SECRET: 'plain', IDP_INTROSPECTION_ENDPOINT: undecoded }), {
    code: 1,
    result: /Check the client: IDP_CLIENT_ID/
  }, 'there is nothing to decode')
})

t.test('The clock of a provider whose keys are in a file is compared by its metadata.', async t => {
  const directory = t.testdir({ 'keys.json': JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }) })
  for (const [seconds, code] of [[60, 1], [0, 0]] as const) {
    const server = createServer((request, response) => {
      const url = `http://${request.headers.host}/`
      response.setHeader('date', dateIn(seconds))
      response.end(
        JSON.stringify(
          request.url === '/introspect'
            ? { active: false }
            : { issuer: url, introspection_endpoint: `${url}introspect` }
        )
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const IDP_ISSUER = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
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
  t.match(await run({ ...good, CLIENT_CERTIFICATE: 'socket' }), { code: 1, result: /this server does not end TLS/ })
  t.notMatch((await run()).text, containing('Certificates of clients'))
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
  t.match(usable, {
    code: 0,
    text: new RegExp(`Redis at 127\\.0\\.0\\.1:${redis.port} records proofs\\.\n.*Its policy keeps`)
  })
  t.notMatch(usable.text, containing('hunter2'))
  redis.override = ([name]) => name === 'AUTH' ? '+OK\r\n' : name === 'INFO' ? '-NOPERM no\r\n' : undefined
  t.match(await run({ ...good, DPOP_REPLAY }), {
    code: 0,
    text: /! It does not say whether it may evict records\.\n {4}Give the user/
  })
  redis.override = ([name]) =>
    name === 'AUTH'
      ? '+OK\r\n'
      : name === 'INFO'
        ? bulk('# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n')
        : undefined
  const evicting = await run({ ...good, DPOP_REPLAY })
  t.match(evicting, { code: 1, result: /cannot be used: evicts \([^]*maxmemory-policy noeviction/ })
  const gone = await run({ ...good, DPOP_REPLAY: `redis://127.0.0.1:${await freePort()}` })
  t.equal(gone.code, 1)
  t.match(gone.result, containing(STORE_FAULTS.unreachable.cure))
})

/** A configuration with one transmitter, and what is said of it. */
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
  const { code, text, result } = await run({ ...good, ...env }, { 'config.yaml': JSON.stringify(config) })
  const section = text.slice(text.indexOf(`Transmitter ${remote.url}`), text.indexOf('\nResult'))
  return {
    remote,
    code,
    text,
    result,
    lines: section.split('\n').slice(1).filter(line => /^ {2}\S/.test(line)).map(line =>
      line.slice(2).replaceAll(remote.url, 'URL')
    )
  }
}

const CLIENT = { clientId: 'c', clientSecret: 'hunter2' }
const FOUND = [
  '\u2713 GET URL/.well-known/ssf-configuration names the issuer URL.',
  '\u2713 It publishes 1 usable key for events.'
]

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
  t.match(
    text,
    containing(
      'revocation.transmitters[0].clientSecrte is unknown; did you mean revocation.transmitters[0].clientSecret?'
    )
  )
  t.match(
    text,
    containing(
      '{"transmitters":[{"issuer":"https://t.example","delivery":"push","clientId":"c","clientSecret":"(not ' +
        'shown)","pushAuthorization":{"file":"pw.txt"}}]}'
    )
  )
  t.match(text, containing('"introspection":{"for":"jwt","clientId":"c","clientSecret":"(not shown)"}'))
  t.notMatch(text, containing('hunter'))
})

t.test('A key that was written in place of its path is not shown', async t => {
  const { code, text } = await run({ IDP_CLIENT_KEY_FILE: '{"kty":"OKP","d":"hunter2"}' })
  t.equal(code, 1)
  t.match(text, /IDP_CLIENT_KEY_FILE +environment +\(not shown\)\n/)
  t.notMatch(text, containing('hunter'))
})

t.test('A transmitter whose stream works is reported as well, and no secret is shown.', async t => {
  const { code, text, lines, remote } = await checkTransmitter(t, {
    transmitter: { ...CLIENT, delivery: 'poll', pushAuthorization: 'hunter3' },
    prepare: ({ answers }) => {
      const [, usual] = answers['GET /stream'] as [number, object]
      answers['GET /stream'] = [200, { ...usual, events_requested: KNOWN_EVENT_TYPES }]
    }
  })
  t.equal(code, 0)
  t.strictSame(lines, [...FOUND, '\u2713 Its stream s1 is enabled, for receiver, by urn:ietf:rfc:8936.'])
  t.match(text, containing('Store of revocations\n  \u2713 It is the memory of the process: for one instance only'))
  t.match(text, /\n {2}revocation +.*"clientSecret":"\(not shown\)".*"pushAuthorization":"\(not shown\)"/)
  t.notMatch(text, /hunter/)
  t.strictSame(
    remote.requests.map(({ what }) => what).filter(what => /^(?:PATCH|POST)/.test(what)),
    ['POST /token'],
    'nothing is changed'
  )
  const silent = await checkTransmitter(t)
  t.strictSame([silent.code, silent.lines], [0, [
    ...FOUND,
    '\u2713 Without clientId and its configuration_endpoint its stream cannot be read.'
  ]])
})

t.test('For a transmitter the events that would be missed are reported.', async t => {
  const answering = (what: string, status: number, body: unknown) => (remote: EventTransmitter) => {
    remote.answers[what] = [status, body]
  }
  const rows: Array<[Parameters<typeof checkTransmitter>[1], number, RegExp]> = [
    [
      { document: { default_subjects: 'NONE' } },
      0,
      /^! Its default_subjects is NONE: it sends nothing until subjects are added to the stream\.$/m
    ],
    [
      { document: { default_subjects: 'NONE' }, transmitter: CLIENT },
      0,
      /Its stream s1 is enabled[^]*^! Its default_subjects is NONE/m
    ],
    [
      {
        document: { default_subjects: 'NONE' },
        transmitter: CLIENT,
        prepare: answering('GET /stream', 200, { stream_id: 's1', aud: 'receiver', default_subjects: 'ALL' })
      },
      0,
      /^(?!.*default_subjects)[^]*Its stream s1 is enabled(?![^]*default_subjects)/
    ],
    [
      {
        document: { default_subjects: 'ALL' },
        transmitter: CLIENT,
        prepare: answering('GET /stream', 200, { stream_id: 's1', aud: 'receiver', default_subjects: 'NONE' })
      },
      0,
      /^! Its default_subjects is NONE/m
    ],
    [
      { document: { default_subjects: 'NONE', configuration_endpoint: undefined }, transmitter: CLIENT },
      0,
      /^! Its default_subjects is NONE/m
    ],
    [
      {
        document: { default_subjects: 'NONE' },
        transmitter: CLIENT,
        prepare: answering('GET /stream', 404, {})
      },
      1,
      /There is no stream for this client[^]*^! Its default_subjects is NONE/m
    ],
    [
      { document: { status_endpoint: undefined }, transmitter: CLIENT },
      0,
      /Its stream s1 is of unknown status/m
    ],
    [
      { document: { configuration_endpoint: undefined }, transmitter: { ...CLIENT, delivery: 'poll' } },
      1,
      /^. Nothing says where to poll/m
    ],
    [{ transmitter: { delivery: 'poll' } }, 1, /^. Nothing says where to poll/m],
    [{ prepare: answering('GET /keys', 200, { keys: [] }) }, 1, /^. It publishes no key that can be used/m],
    [
      { prepare: answering('GET /keys', 500, {}) },
      1,
      /^. Its configuration at URL\/\.well-known\/ssf-configuration, or its keys, cannot be used: status: 500/m
    ],
    [
      { document: { issuer: 'https://other.example' } },
      1,
      /discovery_issuer: expected URL, found https:\/\/other\.example/
    ],
    [
      { transmitter: CLIENT, prepare: answering('GET /status', 200, { status: 'paused' }) },
      1,
      /^. Its stream s1 is paused/m
    ],
    [
      { transmitter: CLIENT, prepare: answering('GET /stream', 404, {}) },
      1,
      /^. There is no stream for this client\.$/m
    ],
    [
      { transmitter: CLIENT, prepare: answering('POST /token', 401, {}) },
      1,
      /^. Its stream cannot be read: status: 401/m
    ],
    [
      { transmitter: { ...CLIENT, clientSecret: { env: 'TEST_UNSET' } } },
      1,
      /^. revocation\.transmitters\[0\]\.clientSecret is not usable: the variable TEST_UNSET is not set; allowed: /m
    ],
    [
      { transmitter: { ...CLIENT, clientAuth: 'private_key_jwt', keyFile: '/nowhere' } },
      1,
      /^. revocation\.transmitters\[0\]\.keyFile is "\/nowhere", which is not usable \(ENOENT\); allowed: path of a file with a private key$/m
    ],
    [
      {
        transmitter: { ...CLIENT, clientSecret: { env: 'TEST_UNSET' } },
        prepare: answering('GET /.well-known/ssf-configuration', 500, {})
      },
      1,
      /^. revocation\.transmitters\[0\]\.clientSecret is not usable: .*\n. Its configuration at .* status: 500/m
    ],
    [
      { transmitter: { pushAuthorization: { env: 'TEST_UNSET' } } },
      1,
      /^. revocation\.transmitters\[0\]\.pushAuthorization is not usable: the variable TEST_UNSET is not set; allowed: /m
    ],
    [
      { transmitter: { ...CLIENT, streamId: 's9' }, prepare: answering('GET /stream', 404, {}) },
      1,
      /^. There is no stream s9 for this client\.$/m
    ],
    [
      { transmitter: CLIENT, prepare: answering('GET /stream', 200, [{ stream_id: 's1' }, { stream_id: 's2' }]) },
      1,
      /^. None of its 2 streams is delivered here\.$/m
    ],
    [
      { transmitter: { ...CLIENT, audience: 'another' } },
      1,
      /^. Its events are for receiver, and the settings say another/m
    ],
    [
      {
        transmitter: { ...CLIENT, delivery: 'poll' },
        prepare: answering('GET /stream', 200, {
          stream_id: 's1',
          aud: 'receiver',
          delivery: { method: 'urn:ietf:rfc:8936' }
        })
      },
      1,
      /^. It does not say where to poll\.$/m
    ],
    [
      {
        transmitter: { ...CLIENT, delivery: 'poll', endpoint: 'https://a.example/poll' },
        prepare: answering('GET /stream', 200, {
          stream_id: 's1',
          aud: 'receiver',
          delivery: { method: 'urn:ietf:rfc:8936' }
        })
      },
      0,
      /^(?![^]*where to poll)/
    ],
    [
      { transmitter: CLIENT },
      0,
      /^! Its events go to URL\/poll\.$/m
    ],
    [
      {
        transmitter: CLIENT,
        prepare: answering('GET /stream', 200, { stream_id: 's1', events_delivered: [KNOWN_EVENT_TYPES[0]] })
      },
      0,
      /^! It does not deliver credential-change, account-disabled\.$/m
    ]
  ]
  for (const [given, code, says] of rows) {
    const found = await checkTransmitter(t, given)
    t.match({ code: found.code, text: found.lines.join('\n') }, { code, text: says }, JSON.stringify(given))
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
    const fresh = await run(good, config(store))
    t.match(fresh, {
      code: 0,
      text:
        /Store of revocations\n.*can hold revocations\.\n.*Its policy keeps[^]*It can be read: 0 records\.\n/
    })
    const add = (event: string, at: number) => {
      const news = newsEntry({ sender: remote.url, event, at })
      return server.command('HSET', RECORDS, news.key, writeRecord(recordOf(news, { heard: at, life: 1, now: at })))
    }
    await add('verification', 1_800_000_600)
    await add('enabled', 1_800_000_700)
    t.match(await run(good, config(store)), {
      code: 0,
      text: /It can be read: 2 records\./
    })
    await server.command(
      'ACL',
      'SETUSER',
      'revoker',
      'on',
      '>hunter2',
      '~{holdfast:revocation}:*',
      '+info',
      ...COMMANDS.map(name => `+${name.toLowerCase()}`)
    )
    const rights = COMMANDS.map(name => `+${name.toLowerCase()}`).join(' ')
    t.ok(textOf('docs/reference/store.md').includes(`~{holdfast:revocation}:* +info ${rights}\n`))
    t.match(await run(good, config(`redis://revoker:hunter2@127.0.0.1:${server.port}`)), {
      code: 0,
      text: /It can be read: 2 records\./
    }, 'a user with the rights for this store alone')
    for (const name of COMMANDS.filter(name => name !== 'EVAL')) {
      await server.command('ACL', 'SETUSER', 'revoker', `-${name.toLowerCase()}`)
      t.match(await run(good, config(`redis://revoker:hunter2@127.0.0.1:${server.port}`)), {
        code: 1,
        result: new RegExp(`the user has no right to ${name}[.,]`)
      })
      await server.command('ACL', 'SETUSER', 'revoker', `+${name.toLowerCase()}`)
    }
    await server.command('ACL', 'SETUSER', 'revoker', '-eval')
    t.match(await run(good, config(`redis://revoker:hunter2@127.0.0.1:${server.port}`)), {
      code: 1,
      result: /cannot be used: auth \([^]*it needs\s+EVAL, EXISTS/
    })
    await server.command('DEL', RECORDS)
    await server.command('SET', RECORDS, 'x')
    t.match(await run(good, config(store)), {
      code: 1,
      result: /It cannot be read: Redis at 127\.0\.0\.1:\d+: WRONGTYPE/
    })
    t.match(await run(good, config(`redis://127.0.0.1:${await freePort()}`)), {
      code: 1,
      result: /cannot be used: unreachable \([^]*Requests with tokens would get 503/
    })
  }
)
