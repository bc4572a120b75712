import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'
import { createTransport } from '../../../../lib/guard/provider/transport.ts'
import { KNOWN_EVENT_TYPES } from '../../../../lib/revocation/effects.ts'
import { createTransmitterClient } from '../../../../lib/revocation/transmitter/client.ts'
import { ensureStream, type Ensured, type EnsuredStream } from '../../../../lib/revocation/transmitter/ensure-stream.ts'
import { destinationOf } from '../../../../lib/revocation/transmitter/own-stream.ts'
import { startEventTransmitter, type EventTransmitter } from '../../../helpers/event-transmitter.ts'

const PUSH_URL = 'https://api.example/revocation/events'
const PUSH: EnsuredStream = { delivery: 'push', pushUrl: PUSH_URL, pushAuthorization: undefined }
const POLL: EnsuredStream = { delivery: 'poll', pushUrl: undefined, pushAuthorization: undefined }
const OURS = { method: 'urn:ietf:rfc:8935', endpoint_url: PUSH_URL }
const OTHERS = { method: 'urn:ietf:rfc:8935', endpoint_url: 'https://other.example/events' }
const POLLED = { method: 'urn:ietf:rfc:8936', endpoint_url: 'https://t.example/poll' }
const WHOLE = { stream_id: 's1', aud: 'receiver', events_requested: KNOWN_EVENT_TYPES }
const CHANGE = { events_requested: KNOWN_EVENT_TYPES, description: 'Holdfast' }

type Given = Partial<EnsuredStream> & { isTaking?: boolean }

function clientOf (remote: EventTransmitter) {
  const configuration = {
    issuer: remote.url,
    jwksUri: `${remote.url}/keys`,
    configurationEndpoint: `${remote.url}/stream`,
    statusEndpoint: undefined,
    verificationEndpoint: undefined,
    defaultSubjects: undefined,
    criticalMembers: []
  }
  return createTransmitterClient({
    issuer: remote.url,
    authenticate: undefined,
    calls: createTransport(),
    configuration: () => configuration
  })
}

/** What is done at a transmitter that answers so. */
async function ensure (t: Test, { isTaking = false, ...wanted }: Given, answers: EventTransmitter['answers']) {
  const remote = await startEventTransmitter(t)
  Object.assign(remote.answers, { 'DELETE /stream': [204, ''] }, answers)
  let outcome: string
  let ensured: Ensured | undefined
  try {
    ensured = await ensureStream(clientOf(remote), { ...POLL, ...wanted }, {
      endpoint: `${remote.url}/stream`,
      isTaking,
      pause: async () => {}
    })
    outcome = ensured.did
  } catch (error) {
    outcome = error instanceof ProviderFailure ? error.message : String(error)
  }
  const calls = remote.requests.filter(({ what }) => what.endsWith('/stream')).map(({ what }) => what.split(' ')[0])
  return { outcome, ensured, calls, changes: remote.bodies('PATCH /stream'), remote }
}

t.test('What a transmitter cannot change of a stream that is delivered here is lived with', async t => {
  for (const status of [404, 405, 501]) {
    const answers: EventTransmitter['answers'] = {
      'GET /stream': [200, { ...WHOLE, events_requested: [KNOWN_EVENT_TYPES[0]], delivery: OURS }],
      'PATCH /stream': [status, {}]
    }
    const { outcome, ensured, calls } = await ensure(t, PUSH, answers)
    t.strictSame([outcome, calls], ['kept', ['GET', 'PATCH']])
    t.hasStrict(ensured, { status })
    const named = { ...PUSH, pushUrl: 'https://api.example/elsewhere', streamId: 's1' }
    t.equal((await ensure(t, named, answers)).outcome, `status: ${status}`, 'events would not come here')
  }
  const { outcome } = await ensure(t, PUSH, {
    'GET /stream': [200, { ...WHOLE, events_requested: [], delivery: OURS }],
    'PATCH /stream': [500, {}]
  })
  t.equal(outcome, 'status: 500')
})

t.test('Where there is none, a stream is created, then read', async t => {
  for (const none of [[200, []], [204, ''], [404, {}]] as const) {
    let isMade = false
    const { outcome, ensured, calls, remote } = await ensure(t, PUSH, {
      'GET /stream': () => isMade ? [200, { ...WHOLE, aud: 'read', delivery: OURS }] : none,
      'POST /stream': () => {
        isMade = true
        return [201, { stream_id: 's1' }]
      }
    })
    t.strictSame([outcome, calls], ['created', ['GET', 'POST', 'GET']])
    t.hasStrict(ensured, { stream: { aud: 'read' } })
    t.strictSame(remote.bodies('POST /stream'), [{ ...CHANGE, delivery: OURS }])
  }
  for (const status of [405, 501]) {
    const { outcome, ensured, remote } = await ensure(t, { ...POLL, pushUrl: PUSH_URL }, {
      'GET /stream': [status, {}],
      'POST /stream': [201, { ...WHOLE, delivery: POLLED }]
    })
    t.equal(outcome, 'created')
    t.hasStrict(ensured, { stream: { stream_id: 's1' } }, 'what was said when the stream was made')
    t.strictSame(
      remote.bodies('POST /stream'),
      [{ ...CHANGE, delivery: { method: POLLED.method } }],
      'the transmitter chooses where it is polled'
    )
  }
  const short = await ensure(t, { ...PUSH, pushAuthorization: 'Bearer agreed' }, {
    'GET /stream': [404, {}],
    'POST /stream': [201, { stream_id: 's1', events_requested: [], delivery: OURS }]
  })
  t.strictSame([short.outcome, short.changes], ['created', []], 'what has just been created is not changed')
  for (const status of [404, 405, 501, 500]) {
    const { outcome } = await ensure(t, PUSH, { 'GET /stream': [200, []], 'POST /stream': [status, {}] })
    t.equal(outcome, `status: ${status}`)
  }
})

t.test('After a 409 the streams are read anew, until the one that another has created is there', async t => {
  for (const late of [2, 4]) {
    let reads = 0
    const { outcome, calls } = await ensure(t, PUSH, {
      'GET /stream': () => ++reads < late ? [200, []] : [200, { ...WHOLE, delivery: OURS }],
      'POST /stream': [409, {}]
    })
    t.equal(outcome, 'kept')
    t.strictSame(calls.slice(0, 3), ['GET', 'POST', 'GET'])
    t.equal(calls.filter(call => call === 'GET').length, late)
  }
  const { outcome, calls } = await ensure(t, PUSH, { 'GET /stream': [404, {}], 'POST /stream': [409, {}] })
  t.equal(outcome, 'stream_missing')
  t.ok(calls.length <= 20)
})

t.test("Of several streams it takes its own, and never turns another service's to itself", async t => {
  const [a, b, c] = [{ ...WHOLE, stream_id: 'a', delivery: OTHERS }, { ...WHOLE, stream_id: 'b', delivery: OURS }, {
    ...WHOLE,
    stream_id: 'c',
    delivery: POLLED
  }]
  const rows: ReadonlyArray<readonly [string, readonly object[], Given, string, string | undefined]> = [
    ['the one that is pushed here', [a, c, b], PUSH, 'kept', 'b'],
    ['the one that is polled', [a, b, c], POLL, 'kept', 'c'],
    ['the one that the settings name', [a, b, c], { ...PUSH, streamId: 'b' }, 'kept', 'b'],
    ['none of two, so one is created', [a, { ...a, stream_id: 'd' }], PUSH, 'created', 's1'],
    ['one that is there, and goes elsewhere, so one is created', [a], PUSH, 'created', 's1'],
    ['one that is not there', [a, b], { ...PUSH, streamId: 'x' }, 'stream_missing', undefined]
  ]
  for (const [name, streams, wanted, did, id] of rows) {
    const { outcome, ensured, changes, calls } = await ensure(t, wanted, { 'GET /stream': [200, streams] })
    const found = ensured && 'stream' in ensured ? ensured.stream.stream_id : undefined
    t.strictSame([outcome, found, changes], [did, id, []], name)
    t.equal(calls.includes('POST'), did === 'created', name)
  }
  for (const streams of [[a], [a, { ...a, stream_id: 'd' }]]) {
    const { ensured, changes } = await ensure(t, PUSH, { 'GET /stream': [200, streams], 'POST /stream': [409, {}] })
    t.strictSame([ensured, changes], [{ did: 'nothing', streams }, []])
  }
})

t.test('With --take the only stream is turned here, where there can be no second one', async t => {
  for (const refusal of [409, 405]) {
    for (
      const [delivery, wanted, from] of [[OTHERS, PUSH, OTHERS.endpoint_url], [OTHERS, POLL, OTHERS.endpoint_url], [
        { method: 'urn:ietf:rfc:8936' },
        PUSH,
        'urn:ietf:rfc:8936'
      ], [undefined, PUSH, 'unknown']] as const
    ) {
      const answers: EventTransmitter['answers'] = {
        'GET /stream': [200, [{ ...WHOLE, delivery }]],
        'POST /stream': [refusal, {}]
      }
      const { outcome, ensured, changes } = await ensure(t, { ...wanted, isTaking: true }, answers)
      t.equal(outcome, 'changed')
      t.hasStrict(ensured, { from })
      t.strictSame(changes, [{
        stream_id: 's1',
        delivery: wanted === PUSH ? OURS : { method: 'urn:ietf:rfc:8936' }
      }])
      t.strictSame((await ensure(t, wanted, answers)).changes, [], 'not without')
    }
  }
  const several = await ensure(t, { ...PUSH, isTaking: true }, {
    'GET /stream': [200, [{ ...WHOLE, delivery: OTHERS }, { ...WHOLE, stream_id: 's2', delivery: OTHERS }]],
    'POST /stream': [409, {}]
  })
  t.strictSame([several.outcome, several.changes], ['nothing', []])
  const second = await ensure(t, { ...PUSH, isTaking: true }, { 'GET /stream': [200, [{ ...WHOLE, delivery: OTHERS }]] })
  t.strictSame([second.outcome, second.changes], ['created', []], 'nor where there can be a second one')
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
      const { outcome, changes } = await ensure(t, wanted, { 'GET /stream': [200, { ...WHOLE, delivery, ...stream }] })
      t.equal(outcome, isChanged ? 'changed' : 'kept', name)
      t.strictSame(changes, isChanged ? [{ stream_id: 's1', events_requested: KNOWN_EVENT_TYPES }] : [], name)
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
    const { ensured, changes } = await ensure(t, wanted, { 'GET /stream': [200, { ...WHOLE, delivery }] })
    t.strictSame(
      changes,
      isChanged ? [{ stream_id: 's1', delivery: { ...OURS, authorization_header: 'Bearer agreed' } }] : []
    )
    t.notOk('from' in ensured!, 'it went nowhere else')
  }
})

t.test('Of two that are alike the younger is ended, and never one that may be of another service', async t => {
  const stream = (id: string, more: object) => ({ ...WHOLE, stream_id: id, ...more })
  const ours = 'Holdfast'
  const rows: ReadonlyArray<readonly [string, Given, readonly object[], readonly string[]]> = [
    ['pushed here', PUSH, ['a', 'b', 'c'].map(id => stream(id, { delivery: OURS })), ['b', 'c']],
    ['pushed elsewhere', PUSH, [stream('a', { delivery: OURS }), stream('b', { delivery: OTHERS })], []],
    ['polled', POLL, ['a', 'b'].map(id => stream(id, { delivery: POLLED, description: ours })), ['b']],
    ['polled by who knows whom', POLL, ['a', 'b'].map(id => stream(id, { delivery: POLLED })), []],
    ['named', { ...PUSH, streamId: 'b' }, ['a', 'b'].map(id => stream(id, { delivery: OURS })), []]
  ]
  for (const [name, wanted, streams, expected] of rows) {
    for (const status of [204, 404, 405]) {
      const { outcome, ensured, remote } = await ensure(t, wanted, {
        'GET /stream': [200, streams],
        'DELETE /stream': [status, '']
      })
      t.equal(outcome, 'kept', name)
      t.strictSame(ensured && 'ended' in ensured && ensured.ended, status === 204 ? expected : [], name)
      t.strictSame(
        remote.requests.filter(({ what }) => what === 'DELETE /stream').map(({ path }) => path),
        expected.map(id => `/stream?stream_id=${id}`),
        name
      )
    }
  }
})

t.test('Of two that are polled, the one that was just created is ended, whatever it is described as', async t => {
  for (const made of ['b', 'c']) {
    let isMade = false
    const { outcome, ensured } = await ensure(t, POLL, {
      'GET /stream': () => [200, isMade ? ['a', 'b'].map(id => ({ ...WHOLE, stream_id: id, delivery: POLLED })) : []],
      'POST /stream': () => {
        isMade = true
        return [201, { stream_id: made }]
      }
    })
    t.equal(outcome, 'kept')
    t.hasStrict(ensured, { stream: { stream_id: 'a' }, ended: made === 'b' ? ['b'] : [] }, made)
  }
})

t.test('What a list says of a stream counts, if it cannot be read by its ID', async t => {
  const listed = { ...WHOLE, delivery: OURS }
  const { outcome, ensured } = await ensure(t, PUSH, {
    'GET /stream': ({ path }) => path.includes('stream_id=') ? [404, {}] : [200, [listed]]
  })
  t.equal(outcome, 'kept')
  t.hasStrict(ensured, { stream: listed })
})

t.test('A list without end is not worked through', async t => {
  const { outcome, calls } = await ensure(t, PUSH, {
    'GET /stream': [200, Array.from({ length: 1000 }, (_, n) => ({ stream_id: `s${n}`, delivery: OURS }))]
  })
  t.equal(outcome, 'changed')
  t.equal(calls.filter(call => call === 'DELETE').length, 50)
})

/** Keeps streams, at most so many, and takes its time. */
function keeping (remote: EventTransmitter, most: number, isSorted: boolean) {
  const streams: Array<Record<string, unknown>> = []
  let made = 0
  const idIn = (path: string) => new URL(path, remote.url).searchParams.get('stream_id')
  Object.assign(remote.answers, {
    'GET /stream': async ({ path }: { path: string }) => {
      await delay(Math.random() * 20)
      const id = idIn(path)
      const found = streams.filter(({ stream_id: own }) => id === null || own === id)
      const order = (one: object, other: object) => JSON.stringify(one) < JSON.stringify(other) ? -1 : 1
      return [200, isSorted ? found.toSorted(order) : found]
    },
    'POST /stream': async ({ body }: { body: object }) => {
      await delay(Math.random() * 20)
      if (streams.length >= most) return [409, {}]
      const stream = { ...body, stream_id: isSorted ? Math.random().toString(36) : `s${++made}`, aud: 'receiver' }
      streams.push(stream)
      return [201, stream]
    },
    'DELETE /stream': async ({ path }: { path: string }) => {
      await delay(Math.random() * 20)
      const at = streams.findIndex(({ stream_id: own }) => own === idIn(path))
      if (at < 0) return [404, {}]
      streams.splice(at, 1)
      return [204, '']
    },
    'PATCH /stream': [200, {}]
  })
  return streams
}

t.test('Ten at once leave one stream', async t => {
  const rows: ReadonlyArray<readonly [EnsuredStream, most: number, isSorted: boolean]> = [
    [PUSH, 1, false],
    [PUSH, Infinity, true],
    [POLL, Infinity, false]
  ]
  for (const [wanted, most, isSorted] of rows) {
    const remote = await startEventTransmitter(t)
    const streams = keeping(remote, most, isSorted)
    const options = { endpoint: `${remote.url}/stream`, isTaking: false, pause: () => delay(20) }
    const run = () => ensureStream(clientOf(remote), wanted, options)
    const results = await Promise.all(Array.from({ length: 10 }, run))
    t.equal(streams.length, 1, `${most}, ${wanted.delivery}`)
    t.notOk(results.some(({ did }) => did === 'nothing'))
    const before = remote.bodies('POST /stream').length
    await run()
    t.strictSame([streams.length, remote.bodies('POST /stream').length], [1, before], 'and one more finds it')
  }
})

t.test('Where a stream goes is shown without its secrets', async t => {
  t.equal(
    destinationOf({ delivery: { endpoint_url: 'https://user:hush@a.example/x?key=hush' } }),
    'https://a.example/x?...'
  )
})
