import t, { type Test } from 'tap'
import { stream } from '../../cli/stream.ts'
import { KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import { containing } from '../helpers/containing.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { startEventTransmitter, type EventTransmitter } from '../helpers/event-transmitter.ts'
import { recordedRun } from '../helpers/shown.ts'

const CLIENT = { clientId: 'c', clientSecret: 'hunter2' }
const PUSHED = {
  method: 'urn:ietf:rfc:8935',
  endpoint_url: 'https://api.example/revocation/events',
  authorization_header: 'Bearer hunter3'
}
const OTHERS = { method: 'urn:ietf:rfc:8935', endpoint_url: 'https://other.example/events' }
const recorded = recordedOutputs(t, import.meta.filename)

async function run (
  argv: readonly string[],
  transmitters: readonly object[] | undefined,
  env: NodeJS.ProcessEnv = { PUBLIC_URL: 'https://api.example' }
) {
  const config = transmitters && { revocation: { transmitters } }
  return recordedRun(recorded(argv), out =>
    stream(argv, {
      env: { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'a', ...env },
      out,
      program: 'holdfast',
      readFile: path => path === 'config.yaml' && config ? JSON.stringify(config) : undefined
    }))
}

/** A transmitter with these streams, and one that is asked for, by `DELETE`. */
async function start (
  t: Test,
  ...streams: object[]
) {
  const remote = await startEventTransmitter(t)
  remote.answers['GET /stream'] = ({ path }) => {
    const id = new URL(path, remote.url).searchParams.get('stream_id')
    return [200, streams.filter(({ stream_id: own }: { stream_id?: string }) => id === null || own === id)]
  }
  remote.answers['DELETE /stream'] = [204, '']
  return Object.assign(remote, {
    settings: { issuer: remote.url, audience: 'receiver', delivery: 'push', ...CLIENT },
    deleted: () => remote.requests.filter(({ what }) => what === 'DELETE /stream').map(({ path }) => path)
  })
}

t.test('The stream is shown with its configuration and its status', async t => {
  const remote = await start(t, { stream_id: 'a', delivery: OTHERS }, {
    stream_id: 'b',
    aud: 'receiver',
    events_requested: KNOWN_EVENT_TYPES,
    delivery: PUSHED
  })
  const { code, text } = await run([], [remote.settings])
  t.equal(code, 0)
  t.strictSame(remote.bodies('GET /stream'), ['', '?stream_id=b'], 'it is read once by its id')
  t.notMatch(text, containing('hunter'), 'no secret is shown')
  remote.answers['GET /status'] = [200, { status: 'other' }]
  t.equal((await run([], [remote.settings])).code, 0, 'its status is unknown')
  t.strictSame(remote.deleted(), [])
})

t.test("With --delete the stream is ended, and another service's is not", async t => {
  const [ours, others] = [{ stream_id: 'b', delivery: PUSHED }, { stream_id: 'a', delivery: OTHERS }]
  const polled = { method: 'urn:ietf:rfc:8936', endpoint_url: 'https://other.example/poll' }
  const rows: Record<string, { streams: object[], settings?: object, env?: NodeJS.ProcessEnv, ended?: string }> = {
    ours: { streams: [others, ours], ended: 'b' },
    'the only one, that goes elsewhere': { streams: [{ ...others, stream_id: '\u001b[2J' }] },
    'one of a transmitter that does not say': { streams: [{ stream_id: 'a' }], env: {} },
    'one that the settings name': { streams: [others, ours], settings: { streamId: 'a' }, ended: 'a' },
    'the only one, while PUBLIC_URL is not set': { streams: [others], env: {}, ended: 'a' },
    'one that is polled, while PUBLIC_URL is not set': { streams: [{ stream_id: 'a', delivery: polled }], env: {} },
    none: { streams: [] },
    'none of several': { streams: [others, { ...others, stream_id: 'c' }] }
  }
  for (const [name, { streams, settings, env, ended }] of Object.entries(rows)) {
    const remote = await start(t, ...streams)
    const { code, text } = await run(['--delete'], [{ ...remote.settings, ...settings }], env)
    t.notMatch(text, containing('\u001b'), 'no name steers a terminal')
    t.strictSame([code, remote.deleted()], ended ? [0, [`/stream?stream_id=${ended}`]] : [1, []], name)
  }
})

t.test('With --ensure the stream is made what the settings want, and what was done is said', async t => {
  const OURS = { stream_id: 'b', aud: 'receiver', events_requested: KNOWN_EVENT_TYPES, delivery: PUSHED }
  const authorized = { pushAuthorization: { env: 'TEST_PUSH' } }
  process.env['TEST_PUSH'] = 'Bearer hunter3'
  t.teardown(() => delete process.env['TEST_PUSH'])
  const others = { ...OURS, stream_id: 'a', delivery: OTHERS }
  interface Row {
    streams: object[]
    argv?: string[]
    settings?: object
    answers?: EventTransmitter['answers']
    env?: NodeJS.ProcessEnv
    code?: number
    sends?: string[]
  }
  const oneOnly = { 'POST /stream': [409, {}] } as const
  const otherEvents = { ...OURS, events_requested: [] }
  const rows: Record<string, Row> = {
    'as it is wanted': { streams: [OURS] },
    none: { streams: [], sends: ['POST'] },
    'one elsewhere': { streams: [others], sends: ['POST'] },
    'other events': { streams: [otherEvents], sends: ['PATCH'] },
    'events that cannot be changed': {
      streams: [otherEvents],
      answers: { 'PATCH /stream': [405, {}] },
      sends: ['PATCH']
    },
    'no second one': { streams: [others], answers: { ...oneOnly }, code: 1, sends: ['POST'] },
    'the only one, with --take': {
      streams: [others],
      argv: ['--ensure', '--take'],
      answers: { ...oneOnly },
      sends: ['POST', 'PATCH']
    },
    'the one that is named': { streams: [others, OURS], settings: { streamId: 'a' }, sends: ['PATCH'] },
    'two that are alike': { streams: [OURS, { ...OURS, stream_id: 'c' }], sends: ['DELETE'] },
    'one for another audience': { streams: [{ ...OURS, aud: 'x' }], code: 1 },
    'no PUBLIC_URL': { streams: [], env: {}, code: 1 },
    'no client': { streams: [], settings: { clientId: undefined, clientSecret: undefined } },
    'a transmitter that is away': { streams: [], answers: { 'GET /stream': [503, {}] }, code: 1 }
  }
  for (const [name, { streams, code = 0, sends = [], ...given }] of Object.entries(rows)) {
    const remote = await start(t, ...streams)
    Object.assign(remote.answers, {
      'POST /stream': () => {
        remote.answers['GET /stream'] = [200, { ...OURS, stream_id: 's1' }]
        return [201, { stream_id: 's1' }]
      },
      'PATCH /stream': ({ body }: { body: object }) => {
        const { stream_id: id } = body as { stream_id: string }
        const stream = { ...streams.find(({ stream_id: own }: { stream_id?: string }) => own === id), ...body }
        remote.answers['GET /stream'] = [200, stream]
        return [200, stream]
      },
      ...given.answers
    })
    const transmitter = { ...remote.settings, ...authorized, ...given.settings }
    const found = await run(given.argv ?? ['--ensure'], [transmitter], given.env)
    t.notMatch(found.text, containing('hunter'), name)
    t.strictSame([
      found.code,
      remote.requests.filter(({ what }) => what.endsWith('/stream')).map(({ what }) => what.split(' ')[0])
        .filter(method => method !== 'GET')
    ], [code, sends], name)
    const sent = [...remote.bodies('POST /stream'), ...remote.bodies('PATCH /stream')] as Array<{ delivery?: unknown }>
    const others = sent.filter(({ delivery = PUSHED }) => JSON.stringify(delivery) !== JSON.stringify(PUSHED))
    t.strictSame(others, [], name)
  }
  t.strictSame(await run(['--ensure'], undefined), { code: 0, text: '' }, 'without transmitters there is nothing to do')
  t.equal((await run(['--ensure', '--delete'], [])).code, 1)
  const [one, other] = [await start(t, OURS), await start(t, OURS)]
  t.equal((await run(['--ensure'], [one, other].map(({ settings }) => ({ ...settings, ...authorized })))).code, 0)
})

t.test('A hostile transmitter takes bounded time, and gets the secret nowhere else', async t => {
  const [remote, elsewhere] = [await start(t), await startEventTransmitter(t)]
  const list = Array.from({ length: 1000 }, (_, n) => ({ stream_id: `s${n}`, delivery: OTHERS }))
  const rows: Record<string, [status: number, body: unknown]> = {
    'a thousand streams': [200, list],
    'a list without end': [200, `[${'{},'.repeat(400_000)}`],
    'a page': [200, '<html>'],
    'a redirect': [302, {}]
  }
  remote.answers['POST /stream'] = [409, {}]
  for (const [name, answer] of Object.entries(rows)) {
    remote.answers['GET /stream'] = answer
    t.equal((await run(['--ensure'], [remote.settings])).code, 1, name)
  }
  const [, usual] = remote.answers['GET /.well-known/ssf-configuration'] as [number, object]
  remote.answers['GET /.well-known/ssf-configuration'] = [200, {
    ...usual,
    configuration_endpoint: `${elsewhere.url}/stream`
  }]
  t.equal((await run(['--ensure'], [remote.settings])).code, 1)
  t.strictSame(elsewhere.requests, [])
})

t.test('What stands in the way is said in a sentence', async t => {
  const [a, b] = [
    await start(t, { stream_id: 's', delivery: PUSHED }),
    await start(t, { stream_id: 's', delivery: PUSHED })
  ]
  t.equal((await run([], undefined)).code, 1)
  t.equal((await run(['https://x.example'], [a.settings])).code, 1)
  t.equal((await run(['a', 'b'], [a.settings])).code, 1)
  t.equal((await run(['--delete'], [a.settings, b.settings])).code, 1)
  t.equal((await run([`${b.url}/`, '--delete'], [a.settings, b.settings])).code, 0)
  t.strictSame([a.deleted(), b.deleted()], [[], ['/stream?stream_id=s']])
  t.equal((await run([], [a.settings, { ...b.settings, clientId: undefined, clientSecret: undefined }])).code, 1)
  a.answers['DELETE /stream'] = [403, {}]
  t.equal((await run(['--delete'], [a.settings])).code, 1)
  a.answers['DELETE /stream'] = [405, {}]
  t.equal((await run(['--delete'], [a.settings])).code, 1)
  a.answers['POST /token'] = [401, {}]
  t.equal((await run([], [a.settings])).code, 1)
  t.equal((await run([], [{ ...a.settings, delivery: 'mail' }])).code, 1)
  const [, usual] = b.answers['GET /.well-known/ssf-configuration'] as [number, object]
  b.answers['GET /.well-known/ssf-configuration'] = [200, { ...usual, configuration_endpoint: undefined }]
  for (const argv of [[], ['--delete']]) t.equal((await run(argv, [b.settings])).code, 1)
  t.equal((await run(['--help'], undefined)).code, 0)
})
