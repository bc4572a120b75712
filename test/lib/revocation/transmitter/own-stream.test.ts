import t from 'tap'
import type { Test } from 'tap'
import { ProviderFailure } from '../../../../lib/provider/provider-failure.ts'
import { createTransport } from '../../../../lib/provider/transport.ts'
import { KNOWN_EVENT_TYPES } from '../../../../lib/revocation/effects.ts'
import { chooseStream, destinationOf, ensureStream } from '../../../../lib/revocation/transmitter/own-stream.ts'
import type { WantedStream } from '../../../../lib/revocation/transmitter/own-stream.ts'
import { createTransmitterClient } from '../../../../lib/revocation/transmitter/client.ts'
import { withSession } from '../../../../lib/provider/transport.ts'
import { fetchTransmitterConfiguration } from '../../../../lib/revocation/transmitter/configuration.ts'
import { startEventTransmitter } from '../../../helpers/event-transmitter.ts'
import type { EventTransmitter } from '../../../helpers/event-transmitter.ts'

const PUSH_URL = 'https://api.example/revocation/events'
const PUSH: WantedStream = { delivery: 'push', pushUrl: PUSH_URL, pushAuthorization: undefined }
const POLL: WantedStream = { delivery: 'poll', pushUrl: undefined, pushAuthorization: undefined }
const OURS = { method: 'urn:ietf:rfc:8935', endpoint_url: PUSH_URL }
const OTHERS = { method: 'urn:ietf:rfc:8935', endpoint_url: 'https://other.example/events' }
const POLLED = { method: 'urn:ietf:rfc:8936', endpoint_url: 'https://t.example/poll' }
const WHOLE = { stream_id: 's1', aud: 'receiver', events_requested: KNOWN_EVENT_TYPES }
const CHANGE = { events_requested: KNOWN_EVENT_TYPES, description: 'Holdfast' }

/** What the service does at a transmitter that answers so. */
async function ensure (t: Test, wanted: WantedStream, answers: EventTransmitter['answers']) {
  const remote = await startEventTransmitter(t)
  Object.assign(remote.answers, answers)
  const transport = createTransport()
  const address = { issuer: remote.url }
  const configuration = await withSession(transport, session => fetchTransmitterConfiguration(address, session))
  const client = createTransmitterClient({
    ...address,
    authenticate: undefined,
    calls: transport,
    configuration: () => configuration
  })
  const told: unknown[] = []
  let outcome: unknown
  try {
    outcome = (await ensureStream(client, { ...wanted, ...address }, event => {
      told.push(event.name === 'stream_redirected' ? event.from : event.status)
    })).stream_id
  } catch (error) {
    outcome = error instanceof ProviderFailure ? error.message : error
  }
  const calls = remote.requests.filter(({ what }) => what.endsWith('/stream')).map(({ what }) => what.split(' ')[0])
  return { outcome, calls, told, changes: remote.bodies('PATCH /stream'), remote }
}

t.test('A stream that is exactly what is wanted is read, and neither created nor changed', async t => {
  for (
    const [wanted, delivery] of [[PUSH, OURS], [POLL, POLLED], [PUSH, {
      ...OURS,
      method: 'https://schemas.openid.net/secevent/risc/delivery-method/push'
    }]] as const
  ) {
    const { outcome, calls, told } = await ensure(t, wanted, { 'GET /stream': [200, { ...WHOLE, delivery }] })
    t.strictSame([outcome, calls, told], ['s1', ['GET'], []])
  }
})

t.test('A restart at a transmitter that cannot PATCH does not end revocation: what differs is named and lived with', async t => {
  for (const status of [404, 405, 501]) {
    const { outcome, calls, told } = await ensure(t, PUSH, {
      'GET /stream': [200, { ...WHOLE, events_requested: [KNOWN_EVENT_TYPES[0]], delivery: OURS }],
      'POST /stream': [409, {}],
      'PATCH /stream': [status, {}]
    })
    t.strictSame([outcome, calls, told], ['s1', ['GET', 'PATCH'], [status]])
  }
  const { outcome } = await ensure(t, PUSH, {
    'GET /stream': [200, { ...WHOLE, events_requested: [], delivery: OURS }],
    'PATCH /stream': [500, {}]
  })
  t.equal(outcome, 'status: 500', 'anything else is tried again')
})

t.test('Where there is none, a stream is created, then read', async t => {
  for (const none of [[200, []], [404, {}]] as const) {
    let isMade = false
    const { outcome, calls, remote } = await ensure(t, PUSH, {
      'GET /stream': () => isMade ? [200, [{ ...WHOLE, aud: 'read', delivery: OURS }]] : none,
      'POST /stream': () => {
        isMade = true
        return [201, { stream_id: 's1' }]
      }
    })
    t.strictSame([outcome, calls], ['s1', ['GET', 'POST', 'GET']])
    t.strictSame(remote.bodies('POST /stream'), [{ ...CHANGE, delivery: OURS }])
  }
  const { outcome, calls, remote } = await ensure(t, { ...POLL, pushUrl: PUSH_URL }, {
    'GET /stream': [405, {}],
    'POST /stream': [201, { ...WHOLE, delivery: POLLED }]
  })
  t.strictSame(
    [outcome, calls],
    ['s1', ['GET', 'POST', 'GET']],
    'a transmitter that cannot be read: what it said when the stream was made'
  )
  t.strictSame(
    remote.bodies('POST /stream'),
    [{ ...CHANGE, delivery: { method: POLLED.method } }],
    'the transmitter chooses where it is polled'
  )
  const short = await ensure(t, { ...PUSH, pushAuthorization: 'Bearer agreed' }, {
    'GET /stream': [404, {}],
    'POST /stream': [201, { stream_id: 's1', events_requested: [], delivery: OURS }]
  })
  t.strictSame([short.outcome, short.changes], ['s1', []], 'what has just been created is not changed')
})

t.test('A stream that another instance has created meanwhile is read', async t => {
  let reads = 0
  const { outcome, calls } = await ensure(t, PUSH, {
    'GET /stream': () => ++reads === 1 ? [404, {}] : [200, { ...WHOLE, delivery: OURS }],
    'POST /stream': [409, {}]
  })
  t.strictSame([outcome, calls], ['s1', ['GET', 'POST', 'GET']])
  t.equal((await ensure(t, PUSH, { 'GET /stream': [404, {}], 'POST /stream': [409, {}] })).outcome, 'stream_missing')
})

t.test("Of several streams it takes its own, and never turns another service's to itself", async t => {
  const [a, b, c] = [{ ...WHOLE, stream_id: 'a', delivery: OTHERS }, { ...WHOLE, stream_id: 'b', delivery: OURS }, {
    ...WHOLE,
    stream_id: 'c',
    delivery: POLLED
  }]
  const rows: ReadonlyArray<readonly [string, readonly object[], WantedStream, unknown, readonly string[]]> = [
    ['the one that is pushed here', [a, c, b], PUSH, 'b', ['GET']],
    ['the one that is polled', [a, b, c], POLL, 'c', ['GET']],
    ['the one that the settings name', [a, b, c], { ...PUSH, streamId: 'b' }, 'b', ['GET']],
    ['none of them, so one is created', [a, { ...a, stream_id: 'd' }], PUSH, 's1', ['GET', 'POST', 'GET']],
    ['one that is not there', [a, b], { ...PUSH, streamId: 'x' }, 'stream_missing', ['GET']]
  ]
  for (const [name, streams, wanted, expected, made] of rows) {
    const { outcome, calls, told, changes } = await ensure(t, wanted, { 'GET /stream': [200, streams] })
    t.strictSame([outcome, calls, told, changes], [expected, made, [], []], name)
  }
  const { outcome, changes } = await ensure(t, PUSH, {
    'GET /stream': [200, [a, { ...a, stream_id: 'd' }]],
    'POST /stream': [409, {}]
  })
  t.strictSame([outcome, changes], ['stream_missing', []])
})

t.test('The only stream is turned here, with the old address', async t => {
  for (
    const [delivery, wanted, from] of [[OTHERS, PUSH, OTHERS.endpoint_url], [OTHERS, POLL, OTHERS.endpoint_url], [
      { method: 'urn:ietf:rfc:8936' },
      PUSH,
      'urn:ietf:rfc:8936'
    ], [undefined, PUSH, 'unknown']] as const
  ) {
    const { outcome, told, changes } = await ensure(t, wanted, { 'GET /stream': [200, [{ ...WHOLE, delivery }]] })
    t.strictSame([outcome, told, changes], ['s1', [from], [{
      ...CHANGE,
      stream_id: 's1',
      delivery: wanted === PUSH ? OURS : { method: 'urn:ietf:rfc:8936' }
    }]])
  }
  const { outcome, told } = await ensure(t, PUSH, {
    'GET /stream': [200, { ...WHOLE, delivery: OTHERS }],
    'PATCH /stream': [405, {}]
  })
  t.strictSame([outcome, told], ['status: 405', []], 'its events would not come')
})

t.test('A stream is changed where its events differ, and its delivery is left out then', async t => {
  const [first, ...rest] = KNOWN_EVENT_TYPES
  const ssf = KNOWN_EVENT_TYPES.filter(type => type.includes('/ssf/'))
  const rows: ReadonlyArray<readonly [string, object, boolean]> = [
    ['one is missing', { events_requested: rest }, true],
    ['one more', { events_requested: [...KNOWN_EVENT_TYPES, 'https://a.example/x'] }, true],
    ['it does not say', { events_requested: undefined }, true],
    ['another order', { events_requested: [...rest, first] }, false],
    [
      'without those of the stream itself',
      { events_requested: KNOWN_EVENT_TYPES.filter(type => !ssf.includes(type)) },
      false
    ],
    [
      'all that the transmitter has',
      { events_requested: [first], events_supported: [first, 'https://a.example/x'] },
      false
    ]
  ]
  for (const [name, stream, isChanged] of rows) {
    for (const [wanted, delivery] of [[PUSH, OURS], [POLL, POLLED]] as const) {
      const { changes } = await ensure(t, wanted, { 'GET /stream': [200, { ...WHOLE, delivery, ...stream }] })
      t.strictSame(changes, isChanged ? [{ ...CHANGE, stream_id: 's1' }] : [], name)
    }
  }
})

t.test('An agreed Authorization is sent again, unless the stream shows that it has it', async t => {
  const wanted = { ...PUSH, pushAuthorization: 'Bearer agreed' }
  for (
    const [delivery, isChanged] of [[OURS, true], [{ ...OURS, authorization_header: 'Bearer old' }, true], [{
      ...OURS,
      authorization_header: 'Bearer agreed'
    }, false]] as const
  ) {
    const { changes, told } = await ensure(t, wanted, { 'GET /stream': [200, { ...WHOLE, delivery }] })
    t.strictSame([changes, told], [
      isChanged ? [{ ...CHANGE, stream_id: 's1', delivery: { ...OURS, authorization_header: 'Bearer agreed' } }] : [],
      []
    ])
  }
})

t.test('No stream is chosen out of none, and where a stream goes is shown without its secrets', async t => {
  t.equal(chooseStream([], PUSH), undefined)
  t.equal(
    destinationOf({ delivery: { endpoint_url: 'https://user:hush@a.example/x?key=hush' } }),
    'https://a.example/x?...'
  )
})
