import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import {
  createClientAuthentication,
  parseClientKey,
  type ClientCredentials
} from '../../../../lib/guard/provider/client-authentication.ts'
import { ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'
import { createTransport } from '../../../../lib/guard/provider/transport.ts'
import {
  createTransmitterClient,
  type TransmitterClient,
  type TransmitterClientOptions
} from '../../../../lib/revocation/transmitter/client.ts'
import {
  configurationUrlOf,
  fetchTransmitterConfiguration,
  type TransmitterAddress,
  type TransmitterConfiguration
} from '../../../../lib/revocation/transmitter/configuration.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'
import { startEventTransmitter, type EventTransmitter } from '../../../helpers/event-transmitter.ts'

const calls = createTransport()
const CONFIGURATION = 'GET /.well-known/ssf-configuration'

async function configure (address: TransmitterAddress) {
  const session = calls.open()
  try {
    return await fetchTransmitterConfiguration(address, session)
  } finally {
    session.close()
  }
}

const credentials: ClientCredentials = {
  method: 'client_secret_basic',
  clientId: 'client id',
  clientSecret: 's:e',
  key: undefined,
  audience: () => 'https://t.example',
  now: processSurroundings.now,
  randomBytes: processSurroundings.randomBytes
}

async function open (transmitter: EventTransmitter, given: Partial<TransmitterClientOptions> = {}) {
  const configuration = await configure({ issuer: transmitter.url })
  return createTransmitterClient({
    issuer: transmitter.url,
    authenticate: createClientAuthentication(credentials),
    calls,
    configuration: () => configuration,
    ...given
  })
}

const readStreams = async (client: TransmitterClient, streamId?: string) => (await client.readStreams(streamId)).streams

/** The word of a failure and its status, or what came. */
async function outcomeOf (run: Promise<unknown>) {
  try {
    return await run
  } catch (error) {
    return error instanceof ProviderFailure ? error.message : (error as Error).name
  }
}

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

t.test('The configuration is at the well-known path, inserted before that of the issuer, or at the URL of the settings', async t => {
  t.equal(configurationUrlOf({ issuer: 'https://t.example' }), 'https://t.example/.well-known/ssf-configuration')
  t.equal(configurationUrlOf({ issuer: 'https://t.example/' }), 'https://t.example/.well-known/ssf-configuration')
  t.equal(
    configurationUrlOf({ issuer: 'https://t.example/a/b/' }),
    'https://t.example/.well-known/ssf-configuration/a/b'
  )
  t.equal(configurationUrlOf({ issuer: 'https://t.example', metadata: 'https://m.example/x' }), 'https://m.example/x')
})

t.test('A configuration is read, and a malformed one is refused', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const whole = {
    issuer: url,
    jwks_uri: `${url}/keys`,
    default_subjects: 'NONE',
    critical_subject_members: ['tenant', 1],
    delivery_methods_supported: ['urn:ietf:rfc:8935', 1]
  }
  const none = { configurationEndpoint: undefined, statusEndpoint: undefined, verificationEndpoint: undefined }
  const read = {
    issuer: url,
    jwksUri: `${url}/keys`,
    ...none,
    defaultSubjects: 'NONE',
    criticalMembers: ['tenant']
  }
  const rows: Array<[string, object, unknown]> = [
    ['whole', whole, read],
    ['a slash more', { ...whole, issuer: `${url}/` }, { ...read, issuer: `${url}/` }],
    ['members of another type', {
      ...whole,
      default_subjects: 1,
      critical_subject_members: 'tenant',
      status_endpoint: 1,
      delivery_methods_supported: 'x'
    }, { ...read, defaultSubjects: undefined, criticalMembers: [] }],
    ['an endpoint', { ...whole, status_endpoint: `${url}/status` }, { ...read, statusEndpoint: `${url}/status` }],
    ['an endpoint that is no URL', { ...whole, status_endpoint: '/status' }, 'foreign_address'],
    ['an endpoint with user info', { ...whole, status_endpoint: url.replace('//', '//user@') }, 'foreign_address'],
    ['no issuer', { ...whole, issuer: undefined }, 'discovery_malformed'],
    ['no keys', { ...whole, jwks_uri: 1 }, 'discovery_malformed'],
    ['another issuer', { ...whole, issuer: `${url}/other` }, 'discovery_issuer'],
    ['keys in the clear', { ...whole, jwks_uri: 'http://other.example/keys' }, 'foreign_address']
  ]
  for (const [name, document, outcome] of rows) {
    transmitter.answers[CONFIGURATION] = [200, document]
    t.strictSame(await outcomeOf(configure({ issuer: url })), outcome, name)
  }
  transmitter.answers[CONFIGURATION] = [500, whole]
  t.equal(await outcomeOf(configure({ issuer: url })), 'status: 500')
})

t.test('What the metadata document says must be the issuer of the settings', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const metadata = `${url}/.well-known/ssf-configuration`
  transmitter.answers[CONFIGURATION] = [200, { issuer: 'https://provider.example', jwks_uri: `${url}/keys` }]
  t.equal(await outcomeOf(configure({ issuer: url, metadata })), 'discovery_issuer')
  t.equal(
    ((await configure({ issuer: 'https://provider.example', metadata })) as TransmitterConfiguration).jwksUri,
    `${url}/keys`
  )
})

t.test("All addresses of a transmitter's documents are at the origin of its issuer or of its metadata", async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const address = { issuer: 'https://t.example/tenant', metadata: `${url}/.well-known/ssf-configuration` }
  const members = ['jwks_uri', 'configuration_endpoint', 'status_endpoint', 'verification_endpoint']
  const document = { issuer: address.issuer, jwks_uri: `${url}/keys` }
  for (const member of members) {
    for (
      const [at, expected] of [
        [`${url}/x`, 'taken'],
        ['https://t.example/x', 'taken'],
        ['https://other.example/x', 'foreign_address'],
        ['https://t.example.other.example/x', 'foreign_address'],
        ['https://t.example:8443/x', 'foreign_address']
      ] as const
    ) {
      transmitter.answers[CONFIGURATION] = [200, { ...document, [member]: at }]
      const outcome = await outcomeOf(configure(address))
      t.equal(typeof outcome === 'string' ? outcome : 'taken', expected, `${member} ${at}`)
    }
  }
})

t.test('A client gets its token at the discovered endpoint, with the scopes of streams if its provider has them', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  t.strictSame(await readStreams(client), [{
    stream_id: 's1',
    iss: transmitter.url,
    aud: ['receiver'],
    delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${transmitter.url}/poll` }
  }])
  await readStreams(client)
  const [asked, ...more] = transmitter.requests.filter(({ what }) => what === 'POST /token')
  t.strictSame(asked, {
    what: 'POST /token',
    path: '/token',
    authorization: basic('client+id:s%3Ae'),
    body: 'grant_type=client_credentials&scope=ssf.manage+ssf.read'
  })
  t.strictSame(more, [], 'the token is kept')
  t.strictSame(
    transmitter.requests.filter(({ what }) => what === 'GET /stream').map(({ authorization }) => authorization),
    ['Bearer token-1', 'Bearer token-1']
  )

  transmitter.requests.length = 0
  transmitter.answers['POST /other'] = ({ body }) =>
    String(body).includes('scope') ? [400, { error: 'invalid_scope' }] : [200, { access_token: 'token-2' }]
  const other = await open(transmitter, { tokenEndpoint: `${transmitter.url}/other` })
  await readStreams(other)
  t.strictSame(transmitter.bodies('POST /other'), [
    'grant_type=client_credentials&scope=ssf.manage+ssf.read',
    'grant_type=client_credentials'
  ])
  t.equal(transmitter.requests.at(-1)!.authorization, 'Bearer token-2')
})

t.test('The token endpoint is found by RFC 8414 where there is no OpenID discovery, or none that names it', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const issuer = `${url}/tenant/1`
  const OPENID = 'GET /tenant/1/.well-known/openid-configuration'
  const OAUTH = 'GET /.well-known/oauth-authorization-server/tenant/1'
  const token = { issuer, token_endpoint: `${url}/token` }
  const rows: Array<[string, [number, unknown], [number, unknown], unknown]> = [
    ['OpenID discovery alone', [200, token], [404, {}], 's1'],
    ['RFC 8414 alone', [404, {}], [200, token], 's1'],
    ['a discovery that is forbidden', [403, {}], [200, token], 's1'],
    ['a discovery that asks for a login', [401, {}], [200, token], 's1'],
    ['a discovery without the endpoint', [200, { issuer }], [200, token], 's1'],
    ['neither', [404, {}], [404, {}], 'discovery_malformed'],
    ['of another issuer', [404, {}], [200, { ...token, issuer: url }], 'discovery_issuer'],
    ['of no issuer', [404, {}], [200, { ...token, issuer: undefined }], 'discovery_issuer'],
    ['a discovery that is away', [500, {}], [200, token], 's1'],
    ['a discovery that is a page', [200, '<html>'], [200, token], 's1'],
    ['a discovery of another issuer', [200, { ...token, issuer: url }], [200, token], 's1'],
    ['a discovery that names another host', [200, { issuer, token_endpoint: 'https://b.example/' }], [200, token], 's1'],
    ['one that is away, and none', [503, {}], [404, {}], 'status: 503'],
    ['one that moved', [302, {}], [200, token], 's1']
  ]
  for (const [name, openid, oauth, outcome] of rows) {
    Object.assign(transmitter.answers, { [OPENID]: openid, [OAUTH]: oauth })
    transmitter.requests.length = 0
    const found = await outcomeOf(readStreams(await open(transmitter, { issuer })))
    t.equal(typeof found === 'string' ? found : (found as Array<{ stream_id: string }>)[0]!.stream_id, outcome, name)
    t.equal(transmitter.bodies('POST /token').length, outcome === 's1' ? 1 : 0, name)
  }
})

t.test('The client proves itself by a secret in the form, or by a key', async t => {
  const transmitter = await startEventTransmitter(t)
  const authenticate = (given: Partial<ClientCredentials>) => createClientAuthentication({ ...credentials, ...given })
  await readStreams(await open(transmitter, { authenticate: authenticate({ method: 'client_secret_post' }) }))
  t.strictSame(transmitter.requests.find(({ what }) => what === 'POST /token'), {
    what: 'POST /token',
    path: '/token',
    authorization: undefined,
    body: 'grant_type=client_credentials&scope=ssf.manage+ssf.read&client_id=client+id&client_secret=s%3Ae'
  })
  transmitter.requests.length = 0
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = parseClientKey(privateKey.export({ type: 'pkcs8', format: 'pem' }) as string)
  transmitter.answers['POST /token'] = ({ body }) =>
    String(body).includes('scope') ? [400, {}] : [200, { access_token: 'token-1' }]
  await readStreams(await open(transmitter, {
    authenticate: authenticate({ method: 'private_key_jwt', key, clientSecret: undefined })
  }))
  const assertions = transmitter.bodies('POST /token').map(body =>
    new URLSearchParams(String(body)).get('client_assertion')!
  )
  t.match(assertions, [/^[\w-]+\.[\w-]+\.[\w-]+$/, /^[\w-]+\.[\w-]+\.[\w-]+$/])
  t.not(assertions[0], assertions[1], 'an assertion is for one request')
})

t.test('The secret of the client goes nowhere but to the origin of issuer or metadata, unless that is set', async t => {
  const [transmitter, elsewhere] = [await startEventTransmitter(t), await startEventTransmitter(t)]
  const { url } = transmitter
  transmitter.answers['GET /.well-known/openid-configuration'] = [200, {
    issuer: url,
    jwks_uri: `${url}/keys`,
    token_endpoint: `${elsewhere.url}/token`
  }]
  t.equal(await outcomeOf(readStreams(await open(transmitter))), 'foreign_address')
  t.strictSame(elsewhere.requests, [])
  t.strictSame(
    await outcomeOf(readStreams(await open(transmitter, { metadata: `${elsewhere.url}/x` }))).then(found =>
      Array.isArray(found)
    ),
    true,
    'the origin of metadata'
  )
  t.strictSame(elsewhere.requests.length, 1)
  await readStreams(await open(transmitter, { tokenEndpoint: `${elsewhere.url}/token` }))
  t.strictSame(elsewhere.requests.length, 2)
})

t.test('A token that is no longer accepted is replaced, once', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  await readStreams(client)
  transmitter.answers['POST /token'] = [200, { access_token: 'token-2' }]
  transmitter.answers['GET /stream'] = ({ authorization }) =>
    authorization === 'Bearer token-2' ? [200, { stream_id: 's2' }] : [401, {}]
  t.strictSame(await readStreams(client), [{ stream_id: 's2' }])
  transmitter.answers['GET /stream'] = [401, {}]
  transmitter.requests.length = 0
  t.equal(await outcomeOf(readStreams(client)), 'status: 401')
  t.equal(transmitter.bodies('GET /stream').length, 2)
  t.equal(transmitter.bodies('POST /token').length, 1)
  transmitter.requests.length = 0
  t.equal(await outcomeOf(readStreams(await open(transmitter))), 'status: 401')
  t.equal(transmitter.bodies('GET /stream').length, 1, 'a new token is not replaced')
})

t.test('Without a client ID, calls carry no token', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter, { authenticate: undefined })
  await readStreams(client)
  t.equal(transmitter.requests.at(-1)!.authorization, undefined)
  transmitter.answers['GET /stream'] = [401, {}]
  t.equal(await outcomeOf(readStreams(client)), 'status: 401')
  t.equal(await outcomeOf(readStreams(client)), 'status: 401')
})

t.test('A token response without a token is a failure', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const rows: Array<[string, string, [number, unknown], unknown]> = [
    ['a refusal', 'POST /token', [401, {}], 'status: 401'],
    ['no text', 'POST /token', [200, { access_token: 1 }], 'discovery_malformed'],
    ['no JSON', 'POST /token', [200, 'x'], 'not_json'],
    [
      'no endpoint',
      'GET /.well-known/openid-configuration',
      [200, { issuer: url, jwks_uri: `${url}/keys` }],
      'discovery_malformed'
    ],
    ['no discovery', 'GET /.well-known/openid-configuration', [404, {}], 'discovery_malformed'],
    ['an endpoint in the clear', 'GET /.well-known/openid-configuration', [200, {
      issuer: url,
      jwks_uri: `${url}/keys`,
      token_endpoint: 'http://other.example/'
    }], 'foreign_address']
  ]
  for (const [name, what, answer, outcome] of rows) {
    const before = transmitter.answers[what]!
    transmitter.answers[what] = answer
    t.equal(await outcomeOf(readStreams(await open(transmitter))), outcome, name)
    transmitter.answers[what] = before
  }
  t.equal(
    (await outcomeOf(readStreams(await open(transmitter))) as Array<{ stream_id: string }>)[0]!.stream_id,
    's1'
  )
})

t.test('The streams of a client are one, a list, or none', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  const rows: Array<[[number, unknown], unknown]> = [
    [[200, { stream_id: 's1' }], [{ stream_id: 's1' }]],
    [[200, [{ stream_id: 's2' }, 1, { stream_id: 's3' }]], [{ stream_id: 's2' }, { stream_id: 's3' }]],
    [[200, []], []],
    [[204, ''], []],
    [[404, {}], []],
    [[405, {}], []],
    [[501, {}], []],
    [[200, '['], 'not_json'],
    [[403, {}], 'status: 403']
  ]
  for (const [answer, outcome] of rows) {
    transmitter.answers['GET /stream'] = answer
    t.strictSame(await outcomeOf(readStreams(client)), outcome, JSON.stringify(answer))
  }
  await outcomeOf(readStreams(client, 's 1'))
  t.equal(transmitter.bodies('GET /stream').at(-1), '?stream_id=s+1')
})

t.test('Whether streams were read, and as a list, is known of each answer', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  const rows: Array<[[number, unknown], string | undefined, isList: boolean, isRead: boolean]> = [
    [[200, { stream_id: 's1' }], undefined, false, true],
    [[200, []], undefined, true, true],
    [[204, ''], undefined, false, true],
    [[404, {}], 's1', false, true],
    [[404, {}], undefined, false, false],
    [[405, {}], 's1', false, false],
    [[501, {}], undefined, false, false]
  ]
  for (const [answer, streamId, isList, isRead] of rows) {
    transmitter.answers['GET /stream'] = answer
    const found = await client.readStreams(streamId)
    t.strictSame([found.isList, found.isRead], [isList, isRead], JSON.stringify([answer, streamId]))
  }
})

t.test('Of an answer to a poll that is too large, the first event is read', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  const poll = async (answer: unknown) => {
    transmitter.answers['POST /poll'] = [200, answer]
    return outcomeOf(client.poll(`${transmitter.url}/poll`, {}))
  }
  const sets = (count: number, size = 0) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`j${index}`, 'x'.repeat(size)]))
  t.ok(JSON.stringify({ sets: sets(70_000) }).length < 1024 * 1024, 'it is not the size alone')
  t.strictSame(await poll({ sets: sets(70_000) }), { sets: [['j0', '']], isWhole: false })
  t.strictSame(await poll({ moreAvailable: true, sets: sets(120, 11_700) }), {
    sets: [['j0', 'x'.repeat(11_700)]],
    isWhole: false
  })
  const [[jti, text]] = (await poll({ sets: { 'j"\u20ac': 'x'.repeat(3_000_000) } }) as { sets: [[string, string]] }).sets
  t.equal(jti, 'j"\u20ac')
  t.ok(text.length > 64 * 1024 && text.length <= 1024 * 1024, 'as far as it was read')
  t.equal(await poll({ x: 'x'.repeat(2_000_000), sets: { j1: 'x' } }), 'too_large', 'none is in sight')
  t.strictSame(await poll({ sets: sets(100) }), { sets: Object.entries(sets(100)), isWhole: true })
  t.strictSame(await poll({ sets: [] }), { sets: [], isWhole: true })
  for (const other of [{}, { sets: null }, { sets: ['x'] }]) t.equal(await poll(other), 'discovery_malformed')
})

t.test('The status of a stream is one of three words, and a verification that comes too early is left out', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  for (const status of ['enabled', 'paused', 'disabled']) {
    transmitter.answers['GET /status'] = [200, { status }]
    t.equal(await client.readStatus('s 1'), status)
  }
  t.equal(transmitter.bodies('GET /status')[0], '?stream_id=s+1')
  transmitter.answers['GET /status'] = [200, { status: 'other' }]
  t.equal(await client.readStatus('s1'), undefined)
  await client.requestVerification('s1', 'state')
  t.strictSame(transmitter.bodies('POST /verify'), [{ stream_id: 's1', state: 'state' }])
  transmitter.answers['POST /verify'] = [429, {}]
  t.equal(await outcomeOf(client.requestVerification('s1', 'state')), undefined)
  transmitter.answers['POST /verify'] = [500, {}]
  t.equal(await outcomeOf(client.requestVerification('s1', 'state')), 'status: 500')
})

t.test('A transmitter without endpoints has no stream', async t => {
  const transmitter = await startEventTransmitter(t)
  transmitter.answers[CONFIGURATION] = [200, { issuer: transmitter.url, jwks_uri: `${transmitter.url}/keys` }]
  const client = await open(transmitter)
  t.strictSame(await readStreams(client), [])
  t.equal(await client.readStatus('s1'), undefined)
  t.equal(await client.requestVerification('s1', 'state'), undefined)
})
