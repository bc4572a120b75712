import t from 'tap'
import { ProviderFailure } from '../../../lib/provider/provider-failure.ts'
import { createTransport } from '../../../lib/provider/transport.ts'
import { createTransmitterClient } from '../../../lib/revocation/transmitter-client.ts'
import type { TransmitterClientOptions } from '../../../lib/revocation/transmitter-client.ts'
import { configurationUrlOf, fetchTransmitterConfiguration } from '../../../lib/revocation/transmitter-configuration.ts'
import type { TransmitterAddress, TransmitterConfiguration } from '../../../lib/revocation/transmitter-configuration.ts'
import { startEventTransmitter } from '../../helpers/event-transmitter.ts'
import type { EventTransmitter } from '../../helpers/event-transmitter.ts'

const calls = createTransport()
const CONFIGURATION = 'GET /.well-known/ssf-configuration'
const WANTED = { events_requested: ['x'] }

async function configure (address: TransmitterAddress): Promise<TransmitterConfiguration> {
  const exchange = calls.open()
  try {
    return await fetchTransmitterConfiguration(address, exchange)
  } finally {
    exchange.close()
  }
}

async function open (transmitter: EventTransmitter, given: Partial<TransmitterClientOptions> = {}) {
  const configuration = await configure({ metadata: `${transmitter.url}/.well-known/ssf-configuration` })
  return createTransmitterClient({ clientId: 'client id', clientSecret: 's:e', calls, configuration: () => configuration, ...given })
}

/** The word of a failure and its status, or what came. */
async function outcomeOf (run: Promise<unknown>): Promise<unknown> {
  try {
    return await run
  } catch (error) {
    return error instanceof ProviderFailure ? error.message : (error as Error).name
  }
}

const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`

t.test('The configuration is at the well-known path, inserted before that of the issuer, or at the URL of the settings', async t => {
  t.equal(configurationUrlOf({ issuer: 'https://t.example' }), 'https://t.example/.well-known/ssf-configuration')
  t.equal(configurationUrlOf({ issuer: 'https://t.example/' }), 'https://t.example/.well-known/ssf-configuration')
  t.equal(configurationUrlOf({ issuer: 'https://t.example/a/b/' }), 'https://t.example/.well-known/ssf-configuration/a/b')
  t.equal(configurationUrlOf({ issuer: 'https://t.example', metadata: 'https://m.example/x' }), 'https://m.example/x')
})

t.test('A configuration is read, and a malformed one is refused', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const whole = { issuer: url, jwks_uri: `${url}/keys`, default_subjects: 'NONE', critical_subject_members: ['tenant', 1], delivery_methods_supported: ['urn:ietf:rfc:8935', 1] }
  const none = { configurationEndpoint: undefined, statusEndpoint: undefined, verificationEndpoint: undefined }
  const read = { issuer: url, jwksUri: `${url}/keys`, ...none, defaultSubjects: 'NONE', deliveryMethods: ['urn:ietf:rfc:8935'], criticalMembers: ['tenant'] }
  const rows: Array<[string, object, unknown]> = [
    ['whole', whole, read],
    ['a slash more', { ...whole, issuer: `${url}/` }, { ...read, issuer: `${url}/` }],
    ['members of another type', { ...whole, default_subjects: 1, critical_subject_members: 'tenant', status_endpoint: 1, delivery_methods_supported: 'x' }, { ...read, defaultSubjects: undefined, deliveryMethods: undefined, criticalMembers: [] }],
    ['an endpoint', { ...whole, status_endpoint: `${url}/status` }, { ...read, statusEndpoint: `${url}/status` }],
    ['an endpoint in the clear', { ...whole, status_endpoint: 'http://other.example/status' }, 'discovery_malformed'],
    ['no issuer', { ...whole, issuer: undefined }, 'discovery_malformed'],
    ['no keys', { ...whole, jwks_uri: 1 }, 'discovery_malformed'],
    ['another issuer', { ...whole, issuer: `${url}/other` }, 'discovery_issuer'],
    ['keys at another host', { ...whole, jwks_uri: 'https://other.example/keys' }, 'jwks_uri_refused'],
    ['keys in the clear', { ...whole, jwks_uri: 'http://other.example/keys' }, 'jwks_uri_refused']
  ]
  for (const [name, document, outcome] of rows) {
    transmitter.answers[CONFIGURATION] = [200, document]
    t.strictSame(await outcomeOf(configure({ issuer: url })), outcome, name)
  }
  transmitter.answers[CONFIGURATION] = [200, { ...whole, issuer: 'https://named.example' }]
  const { issuer } = await configure({ metadata: `${url}/.well-known/ssf-configuration` })
  t.equal(issuer, 'https://named.example', 'without an issuer in the settings, the document names it')
  transmitter.answers[CONFIGURATION] = [500, whole]
  t.equal(await outcomeOf(configure({ issuer: url })), 'status: 500')
})

t.test('A client gets its token at the discovered endpoint, with the scopes of streams if its provider has them', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  t.strictSame(await client.readStream(), { stream_id: 's1', iss: transmitter.url, aud: ['receiver'], delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${transmitter.url}/poll` } })
  await client.readStream()
  const [asked, ...more] = transmitter.requests.filter(({ what }) => what === 'POST /token')
  t.strictSame(asked, { what: 'POST /token', authorization: basic('client%20id:s%3Ae'), body: 'grant_type=client_credentials&scope=ssf.manage+ssf.read' })
  t.strictSame(more, [], 'the token is kept')
  t.strictSame(transmitter.requests.filter(({ what }) => what === 'GET /stream').map(({ authorization }) => authorization), ['Bearer token-1', 'Bearer token-1'])

  transmitter.requests.length = 0
  transmitter.answers['POST /other'] = ({ body }) => String(body).includes('scope') ? [400, { error: 'invalid_scope' }] : [200, { access_token: 'token-2' }]
  const other = await open(transmitter, { tokenEndpoint: `${transmitter.url}/other`, clientSecret: undefined })
  await other.readStream()
  t.strictSame(transmitter.bodies('POST /other'), ['grant_type=client_credentials&scope=ssf.manage+ssf.read', 'grant_type=client_credentials'])
  t.equal(transmitter.requests.at(-1)!.authorization, 'Bearer token-2')
})

t.test('A token that is no longer accepted is replaced, once', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  await client.readStream()
  transmitter.answers['POST /token'] = [200, { access_token: 'token-2' }]
  transmitter.answers['GET /stream'] = ({ authorization }) => authorization === 'Bearer token-2' ? [200, { stream_id: 's2' }] : [401, {}]
  t.strictSame(await client.readStream(), { stream_id: 's2' })
  transmitter.answers['GET /stream'] = [401, {}]
  transmitter.requests.length = 0
  t.equal(await outcomeOf(client.readStream()), 'status: 401')
  t.equal(transmitter.bodies('GET /stream').length, 2)
  t.equal(transmitter.bodies('POST /token').length, 1)
  transmitter.requests.length = 0
  t.equal(await outcomeOf((await open(transmitter)).readStream()), 'status: 401')
  t.equal(transmitter.bodies('GET /stream').length, 1, 'a new token is not replaced')
})

t.test('Without a client ID, calls carry no token', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter, { clientId: undefined })
  await client.readStream()
  t.equal(transmitter.requests.at(-1)!.authorization, undefined)
  transmitter.answers['GET /stream'] = [401, {}]
  t.equal(await outcomeOf(client.readStream()), 'status: 401')
  t.equal(await outcomeOf(client.readStream()), 'status: 401')
})

t.test('A token response without a token is a failure', async t => {
  const transmitter = await startEventTransmitter(t)
  const { url } = transmitter
  const rows: Array<[string, string, [number, unknown], unknown]> = [
    ['a refusal', 'POST /token', [401, {}], 'status: 401'],
    ['no text', 'POST /token', [200, { access_token: 1 }], 'discovery_malformed'],
    ['no JSON', 'POST /token', [200, 'x'], 'not_json'],
    ['no endpoint', 'GET /.well-known/openid-configuration', [200, { issuer: url, jwks_uri: `${url}/keys` }], 'discovery_malformed'],
    ['no discovery', 'GET /.well-known/openid-configuration', [404, {}], 'discovery_malformed'],
    ['an endpoint in the clear', 'GET /.well-known/openid-configuration', [200, { issuer: url, jwks_uri: `${url}/keys`, token_endpoint: 'http://other.example/' }], 'discovery_malformed']
  ]
  for (const [name, what, answer, outcome] of rows) {
    const before = transmitter.answers[what]!
    transmitter.answers[what] = answer
    t.equal(await outcomeOf((await open(transmitter)).readStream()), outcome, name)
    transmitter.answers[what] = before
  }
  t.equal((await outcomeOf((await open(transmitter)).readStream()) as { stream_id: string }).stream_id, 's1')
})

t.test('A stream is created, or the existing one is updated', async t => {
  const transmitter = await startEventTransmitter(t)
  const client = await open(transmitter)
  t.equal((await client.ensureStream(WANTED)).stream_id, 's1')
  t.strictSame(transmitter.bodies('POST /stream'), [WANTED])
  t.strictSame(transmitter.bodies('PATCH /stream'), [])
  transmitter.answers['POST /stream'] = [409, {}]
  t.equal((await client.ensureStream(WANTED)).stream_id, 's1')
  t.strictSame(transmitter.bodies('PATCH /stream'), [{ stream_id: 's1', ...WANTED }])
  transmitter.answers['GET /stream'] = [200, [{ stream_id: 's2' }, { stream_id: 's3' }]]
  await client.ensureStream(WANTED)
  t.strictSame(transmitter.bodies('PATCH /stream')[1], { stream_id: 's2', ...WANTED }, 'the first of a list')
  const polled = { method: 'urn:ietf:rfc:8936' }
  const pushed = { method: 'urn:ietf:rfc:8935', endpoint_url: 'https://api.example/revocation/events' }
  const rows = [
    { found: { ...polled, endpoint_url: 'https://a.example/poll' }, wanted: polled, sent: {} },
    { found: pushed, wanted: polled, sent: { delivery: polled } },
    { found: { ...polled, endpoint_url: 'https://a.example/poll' }, wanted: pushed, sent: { delivery: pushed } },
    { found: pushed, wanted: pushed, sent: { delivery: pushed } },
    { found: undefined, wanted: polled, sent: { delivery: polled } }
  ]
  for (const { found, wanted, sent } of rows) {
    transmitter.answers['GET /stream'] = [200, { stream_id: 's4', delivery: found }]
    await client.ensureStream({ description: 'x', delivery: wanted })
    t.strictSame(transmitter.bodies('PATCH /stream').at(-1), { stream_id: 's4', description: 'x', ...sent }, JSON.stringify([found, wanted]))
  }
  transmitter.answers['GET /stream'] = [200, []]
  t.equal(await outcomeOf(client.ensureStream(WANTED)), 'discovery_malformed', 'a list of none')
  transmitter.answers['GET /stream'] = [200, '[']
  t.equal(await outcomeOf(client.ensureStream(WANTED)), 'not_json')
  transmitter.answers['POST /stream'] = [403, {}]
  t.equal(await outcomeOf(client.ensureStream(WANTED)), 'status: 403')
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

t.test('A transmitter without endpoints has no stream to create', async t => {
  const transmitter = await startEventTransmitter(t)
  transmitter.answers[CONFIGURATION] = [200, { issuer: transmitter.url, jwks_uri: `${transmitter.url}/keys` }]
  const client = await open(transmitter)
  t.equal(await outcomeOf(client.ensureStream(WANTED)), 'discovery_malformed')
  t.equal(await client.readStream(), undefined)
  t.equal(await client.readStatus('s1'), undefined)
  t.equal(await client.requestVerification('s1', 'state'), undefined)
})
