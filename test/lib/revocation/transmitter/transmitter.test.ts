import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTransport } from '../../../../lib/guard/provider/transport.ts'
import type { RevocationEntry } from '../../../../lib/revocation/entry.ts'
import { KNOWN_EVENT_TYPES, STREAM_UPDATED, VERIFICATION } from '../../../../lib/revocation/effects.ts'
import { UndecidedError } from '../../../../lib/revocation/store/store.ts'
import { createReceiver, type EventSender } from '../../../../lib/revocation/receiver.ts'
import { issuerOfKey } from '../../../../lib/revocation/target.ts'
import {
  createTransmitter,
  type TransmitterEvent,
  type TransmitterOptions
} from '../../../../lib/revocation/transmitter/transmitter.ts'
import { createPoll, type PolledEvents } from '../../../../lib/revocation/transmitter/poll.ts'
import { findSignerByCrypto } from '../../../../lib/guard/jose/signature.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'
import { startEventTransmitter, type EventTransmitter } from '../../../helpers/event-transmitter.ts'
import { until } from '../../../helpers/until.ts'

const SESSION_REVOKED = 'https://schemas.openid.net/secevent/caep/event-type/session-revoked'
const CONFIGURATION = 'GET /.well-known/ssf-configuration'
/** Waits are so many times shorter here. */
const HASTE = 20

interface Given extends Partial<TransmitterOptions> {
  isLeader?: boolean
  /** How wrong the clock is that can be set. */
  wrongMs?: number
  onKeyEvent?: (event: TransmitterEvent) => void
  /** Before it starts. */
  prepare?: (transmitter: EventTransmitter) => void
}

/** Has a transmitter answer polls with what waits. */
function answerFrom ({ answers }: EventTransmitter, waiting: Map<string, string>) {
  answers['POST /poll'] = ({ body }) => {
    const { ack, maxEvents, setErrs } = body as { ack: string[], maxEvents: number, setErrs: object }
    for (const jti of [...ack, ...Object.keys(setErrs)]) waiting.delete(jti)
    return [200, { sets: Object.fromEntries([...waiting].slice(0, maxEvents)) }]
  }
}

/** A stream of a transmitter on loopback, whose client is `c`. */
async function start (t: Test, { isLeader = true, wrongMs = 0, prepare, onKeyEvent, ...given }: Given = {}) {
  const remote = await startEventTransmitter(t)
  prepare?.(remote)
  const statuses: string[] = []
  const reasons: string[] = []
  const differences: unknown[] = []
  const polled: PolledEvents[] = []
  const stored: RevocationEntry[] = []
  const news: RevocationEntry[] = []
  const store: { fault?: Error | undefined } = {}
  const clock = { ms: 0, wrongMs }
  const now = () => (Date.now() + clock.ms + clock.wrongMs) / 1000
  const stream = createTransmitter({
    issuer: remote.url,
    delivery: 'poll',
    sessionClaim: 'sid',
    subjectClaims: {},
    authenticate: async form => ({ headers: {}, body: String(new URLSearchParams({ ...form, client_id: 'c' })) }),
    verify: true,
    pushAuthorization: undefined,
    untyped: false,
    pushUrl: undefined,
    transport: createTransport(),
    calls: createTransport(),
    surroundings: {
      ...processSurroundings,
      now,
      steadyMs: () => processSurroundings.steadyMs() + clock.ms,
      after: (ms, run) => processSurroundings.after(ms / HASTE, run)
    },
    take: (text, sender) => receiver.take(text, sender),
    lead: async () => isLeader,
    announce: async entry => stream.note(entry),
    onEvent (event) {
      switch (event.name) {
        case 'revocation_received':
        case 'revocation_refused':
          return polled.push(event)
        case 'stream_enabled':
          return statuses.push('enabled')
        case 'stream_without_subjects':
          return statuses.push('no_subjects')
        case 'stream_changed':
          if (event.reason !== undefined) reasons.push(event.reason)
          return statuses.push(event.status)
        case 'stream_differs':
          return differences.push([event.differs.join(), event.goesTo?.replace(remote.url, 'URL')])
        default:
          return onKeyEvent?.(event)
      }
    },
    ...given,
    ...given.metadata !== undefined && { metadata: `${remote.url}${given.metadata}` },
    ...given.endpoint !== undefined && { endpoint: `${remote.url}${given.endpoint}` }
  })
  t.teardown(() => stream.close())
  const receiver = createReceiver({
    senders: [stream.sender],
    logoutSenders: [],
    findSigner: findSignerByCrypto,
    now,
    append: async entries => {
      if (store.fault) throw store.fault
      for (const entry of entries) (entry.effect === 'state' ? news : stored).push(entry)
      for (const entry of news.splice(0)) stream.note(entry)
      return true
    }
  })
  stream.start()
  return { remote, stream, receiver, statuses, reasons, differences, polled, stored, store, clock }
}

/** Waits until the transmitter has had so many of these requests. */
const received = (remote: EventTransmitter, what: string, times: number) =>
  until(`${what} came ${times} times`, () => remote.bodies(what).length >= times)

/** A poll that gives these sets once each, in batches. */
function serving (remote: EventTransmitter, ...batches: object[]) {
  remote.answers['POST /poll'] = () => [200, { sets: batches.shift() ?? {}, moreAvailable: batches.length > 0 }]
}

const revoked = (remote: EventTransmitter, jti: string, claims: object = {}) =>
  remote.set(SESSION_REVOKED, {}, { jti, sub_id: { format: 'iss_sub', iss: remote.url, sub: jti }, ...claims })

t.test('A stream of several audiences takes an event for any of them', async t => {
  const { remote, stored } = await start(t, {
    prepare (remote) {
      const delivery = { method: 'urn:ietf:rfc:8936', endpoint_url: `${remote.url}/poll` }
      remote.answers['GET /stream'] = [200, { stream_id: 's1', aud: ['receiver', 'second'], delivery }]
      serving(remote, {
        j1: revoked(remote, 'j1', { aud: 'second' }),
        j2: revoked(remote, 'j2', { aud: ['another', 'receiver'] }),
        j3: revoked(remote, 'j3', { aud: 'another' })
      })
    }
  })
  await received(remote, 'POST /poll', 2)
  t.hasStrict(remote.bodies('POST /poll')[1], { ack: ['j1', 'j2'], setErrs: { j3: { err: 'invalid_audience' } } })
  t.equal(stored.length, 2)
})

t.test('Each batch acknowledges the last, and says what was wrong in it', async t => {
  const { remote, stored, statuses, stream } = await start(t, {
    prepare (remote) {
      serving(remote, {
        j1: revoked(remote, 'j1'),
        j2: revoked(remote, 'j2', { aud: 'another' }),
        j4: revoked(remote, 'j4', { iss: 'https://another.example' })
      }, { j3: revoked(remote, 'j3') })
    }
  })
  await received(remote, 'POST /poll', 4)
  const asked = { maxEvents: 100, returnImmediately: true }
  t.strictSame(remote.bodies('POST /poll').slice(0, 4), [
    { ...asked, ack: [], setErrs: {} },
    {
      ...asked,
      ack: ['j1'],
      setErrs: {
        j2: { err: 'invalid_audience', description: 'The token is meant for another audience.' },
        j4: { err: 'invalid_issuer', description: 'The token was issued by another issuer.' }
      }
    },
    { ...asked, ack: ['j3'], setErrs: {} },
    { ...asked, ack: [], setErrs: {} }
  ])
  t.equal(stored.length, 2)
  t.equal(remote.requests.find(({ what }) => what === 'POST /poll')!.authorization, 'Bearer token-1')
  t.strictSame(statuses, ['enabled'])
  t.strictSame(stream.state(), { transmitter: remote.url, status: 'enabled', verifiedAt: undefined })
})

t.test('Alike outcomes of a batch are one, and 100 forged events an answer are polled once a second', async t => {
  const forged = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`f${index}`, 'x']))
  const { remote, polled } = await start(t, {
    prepare: remote => {
      remote.answers['POST /poll'] = () => [200, { sets: { ...forged } }]
    }
  })
  await received(remote, 'POST /poll', 2)
  t.strictSame(polled[0], {
    name: 'revocation_refused',
    sender: remote.url,
    reason: 'The body is not a well-formed JWT.',
    events: 100
  })
  const before = remote.bodies('POST /poll').length
  const begun = performance.now()
  await delay(200)
  t.ok(remote.bodies('POST /poll').length - before <= (performance.now() - begun) * HASTE / 1000 + 1)
})

t.test('An event of more than 64 KiB is refused in a poll as it is in a push', async t => {
  const { polled } = await start(t, {
    prepare: remote =>
      serving(remote, {
        j1: revoked(remote, 'j1', { x: 'x'.repeat(64 * 1024) }),
        j2: revoked(remote, 'j2', { x: 'x'.repeat(47 * 1024) })
      })
  })
  await until('it was polled', () => polled.length > 1)
  t.strictSame(polled.map(event => 'reason' in event ? event.reason : event.outcome), [
    'The token is larger than 64 KiB.',
    'applied'
  ])
})

t.test('What is no text among the events of a batch is refused, and the others are taken', async t => {
  const { polled, statuses } = await start(t, {
    prepare: remote =>
      serving(remote, {
        j1: { toString: 1, valueOf: 1 } as unknown as string,
        j2: 5 as unknown as string,
        j3: revoked(remote, 'j3')
      })
  })
  await until('it was polled', () => polled.length > 1)
  t.strictSame(polled.map(event => ['reason' in event ? event.reason : event.outcome, event.events]), [[
    'The body is not a well-formed JWT.',
    2
  ], ['applied', 1]])
  t.notOk(statuses.includes('failing'))
})

t.test('The name of an event may be that of a member of every object', async t => {
  const { remote } = await start(t, {
    prepare: remote => {
      remote.answers['POST /poll'] = () => [200, '{"sets":{"__proto__":"x"}}']
    }
  })
  await until(
    'it is refused',
    () => remote.bodies('POST /poll').some(body => Object.hasOwn((body as { setErrs: object }).setErrs, '__proto__'))
  )
  t.pass('with the next poll')
})

t.test("The transmitter's configuration is fetched once at the start", async t => {
  const { remote } = await start(t)
  await received(remote, 'POST /poll', 2)
  t.equal(remote.bodies(CONFIGURATION).length, 1)
})

t.test('A stream that was found is not read with each poll', async t => {
  const { remote } = await start(t)
  await received(remote, 'POST /poll', 3)
  t.equal(remote.requests.filter(({ what }) => what === 'GET /stream').length, 1)
})

t.test('A configuration that the keys could not fetch, the stream fetches itself, before the keys try again', async t => {
  let answer = () => {}
  const isFailed = new Promise<void>(resolve => {
    answer = resolve
  })
  const { remote } = await start(t, {
    prepare: remote => {
      const good = remote.answers[CONFIGURATION]!
      let asked = 0
      remote.answers[CONFIGURATION] = request =>
        ++asked === 1 ? [500, {}] : typeof good === 'function' ? good(request) : good
    },
    onKeyEvent: ({ name }) => {
      if (name === 'keys_fetch_failed') answer()
    },
    lead: async () => {
      await isFailed
      return true
    }
  })
  await received(remote, 'POST /poll', 1)
  t.ok(remote.bodies(CONFIGURATION).length >= 2)
})

t.test('The state of a verification must come back, another one is invalid_state', async t => {
  const { remote, stream, receiver } = await start(t, { delivery: 'push', audience: 'receiver' })
  await received(remote, 'POST /verify', 1)
  const [{ state }] = remote.bodies('POST /verify') as [{ state: string }]
  const error = {
    name: 'SetError',
    err: 'invalid_state',
    message: 'The state of the verification is not one that was asked for.'
  }
  for (const other of ['x', 1, null, `${state}x`]) {
    await t.rejects(receiver.push(remote.set(VERIFICATION, { state: other }), undefined), error)
  }
  t.equal(stream.state().verifiedAt, undefined)
  t.strictSame([
    (await receiver.push(remote.set(VERIFICATION, { state }), undefined)).outcome,
    typeof stream.state().verifiedAt
  ], ['state', 'number'])
  t.equal((await receiver.push(remote.set(VERIFICATION, { state }), undefined)).outcome, 'state', 'a repeat')
  t.equal(
    (await receiver.push(remote.set(VERIFICATION, {}), undefined)).outcome,
    'state',
    'the transmitter has begun it'
  )
})

t.test('A stream whose verification does not come back is failing, and one that was asked too early is not', async t => {
  const { remote, stream, receiver, clock, statuses, reasons } = await start(t)
  const askedAgain = async (times: number) => {
    await until('it is asked for', () => remote.bodies('POST /verify').length === times)
    const polls = remote.bodies('POST /poll').length
    await received(remote, 'POST /poll', polls + 2)
  }
  const answer = async () => {
    const { state } = remote.bodies('POST /verify').at(-1) as { state: string }
    return receiver.take(remote.set(VERIFICATION, { state, event_timestamp: Date.now() + clock.ms }), stream.sender)
  }
  await askedAgain(1)
  t.equal(stream.state().status, 'enabled', 'it may take its time')
  clock.ms += 61_000
  await until('it is told', () => statuses.length === 2)
  t.strictSame([stream.state().status, statuses, reasons], ['failing', ['enabled', 'failing'], ['its verification does not come back']])
  await answer()
  await until('it is told', () => statuses.length === 3)
  t.equal(stream.state().status, 'enabled')
  clock.ms += 540_000
  await askedAgain(2)
  clock.ms += 61_000
  await askedAgain(2)
  t.equal(stream.state().status, 'enabled', 'an answer that was asked for too early is not missed')
  clock.ms += 600_000
  await askedAgain(3)
  clock.ms += 61_000
  await until('it is told', () => statuses.at(-1) === 'failing')
  await answer()
  await until('it is told', () => statuses.at(-1) === 'enabled')
})

t.test('A state that is asked for is announced under the name of the stream, and so is the one who leads', async t => {
  const entries: RevocationEntry[] = []
  const tasks = new Set<string>()
  const { remote, stream: { stream, sender: { name } } } = await start(t, {
    delivery: 'push',
    audience: 'receiver',
    lead: async task => {
      tasks.add(task)
      return true
    },
    announce: async entry => {
      entries.push(entry)
    }
  })
  await received(remote, 'POST /verify', 1)
  t.hasStrict(entries[0], { key: `asked ${stream}`, source: name, sender: name })
  t.equal(issuerOfKey(entries[0]!.key), name)
  t.strictSame([...tasks], [stream])
  t.equal(entries.length, 2, 'once more if it is not heard, and no more than that')
})

t.test('A state is announced again where news of a clock ahead of ours stood in a store that was not read', async t => {
  const stored = { event: 'asked other', at: Date.now() / 1000 + 3600 }
  const { remote, stream, receiver } = await start(t, {
    delivery: 'push',
    audience: 'receiver',
    announce: async ({ event, at }) => stream.note(at > stored.at ? { event, at } : stored)
  })
  await received(remote, 'POST /verify', 1)
  const [{ state }] = remote.bodies('POST /verify') as [{ state: string }]
  t.equal((await receiver.push(remote.set(VERIFICATION, { state }), undefined)).outcome, 'state')
})

t.test('A state that another instance has sent is known once its news have come, and the last eight are', async t => {
  const { remote, stream, receiver } = await start(t, { delivery: 'push', audience: 'receiver', isLeader: false })
  const pending = receiver.push(remote.set(VERIFICATION, { state: 's0' }), undefined)
  stream.note({ event: 'asked s0', at: 1 })
  t.equal((await pending).outcome, 'state')
  for (let n = 1; n <= 8; n++) stream.note({ event: `asked s${n}`, at: 1 })
  await t.rejects(receiver.push(remote.set(VERIFICATION, { state: 's0' }), undefined), {
    name: 'SetError',
    err: 'invalid_state'
  })
  t.equal((await receiver.push(remote.set(VERIFICATION, { state: 's1' }), undefined)).outcome, 'state')
})

t.test('News that no instance writes change nothing', async t => {
  const { stream, statuses } = await start(t, { delivery: 'push', authenticate: undefined, audience: 'receiver' })
  stream.note({ event: '<b>markup</b>', at: 1 })
  t.strictSame([stream.state(), statuses], [{
    transmitter: stream.sender.name,
    status: 'unknown',
    verifiedAt: undefined
  }, []])
})

t.test('What could not be stored is not acknowledged, and comes again', async t => {
  const { remote, stored, statuses, store } = await start(t, {
    prepare: remote => {
      remote.answers['POST /poll'] = () => [200, { sets: { j1: revoked(remote, 'j1') } }]
    }
  })
  store.fault = new Error('the log cannot be written')
  await until('it is failing', () => statuses.includes('failing'))
  t.strictSame(remote.bodies('POST /poll').map(body => (body as { ack: string[] }).ack).flat(), [])
  store.fault = undefined
  await until('it is stored', () => stored.length > 0)
  await until(
    'it is acknowledged',
    () => remote.bodies('POST /poll').some(body => (body as { ack: string[] }).ack.includes('j1'))
  )
  t.strictSame(statuses, ['enabled', 'failing', 'enabled'])
})

t.test('An event that cannot be stored keeps none behind it, even beside a hundred of its kind', async t => {
  const waiting = new Map<string, string>()
  const unstorable = 120
  const { remote, stored, statuses, stream } = await start(t, {
    take: async (text, sender) => {
      const { jti } = JSON.parse(Buffer.from(text.split('.')[1]!, 'base64url').toString()) as { jti: string }
      if (jti.startsWith('full')) throw new UndecidedError('there is no room')
      return receiver.take(text, sender)
    },
    prepare: remote => {
      for (let n = 0; n < unstorable; n++) waiting.set(`full${n}`, revoked(remote, `full${n}`))
      for (const jti of ['j1', 'j2']) waiting.set(jti, revoked(remote, jti))
      answerFrom(remote, waiting)
    }
  })
  const receiver = createReceiver({
    senders: [stream.sender],
    logoutSenders: [],
    findSigner: findSignerByCrypto,
    now: () => Date.now() / 1000,
    append: async entries => {
      stored.push(...entries)
      return true
    }
  })
  await until('those behind are stored', () => stored.length === 2)
  await until('they are acknowledged', () => waiting.size === unstorable)
  t.equal(stream.state().status, 'failing', 'and it is told')
  const { length } = remote.bodies('POST /poll')
  await received(remote, 'POST /poll', length + 1)
  t.ok(statuses.includes('failing'))
})

t.test('A store that is slow to say that it is away is not asked about the rest of a batch', async t => {
  for (const [slowMs, asked] of [[1000, 2], [500, 3], [100, 10]] as const) {
    let atMs = 0
    let takes = 0
    const poll = createPoll({
      client: { poll: async () => ({ sets: Array.from({ length: 10 }, (_, n) => [`j${n}`, 'x']), isWhole: true }) },
      sender: { name: 'https://t.example' } as EventSender,
      take: async () => {
        takes++
        atMs += slowMs
        throw new UndecidedError('the store is away')
      },
      onEvent () {},
      steadyMs: () => atMs
    })
    const { isMore, failure } = await poll('https://t.example/poll')
    t.strictSame([isMore, failure?.message, takes], [false, 'the store is away', asked], `${slowMs} ms each`)
  }
})

t.test('Fewer events are asked for at once if an answer was too large', async t => {
  for (const isWhole of [true, false]) {
    const poll = createPoll({
      client: { poll: async () => ({ sets: [], isWhole }) },
      sender: { name: 'https://t.example' } as EventSender,
      take: () => assert.fail('there is nothing to take'),
      onEvent () {},
      steadyMs: () => 0
    })
    t.equal((await poll('https://t.example/poll')).isMore, !isWhole)
  }
})

t.test('An answer above 1 MiB halves the events that are asked for, down to one, which is then refused', async t => {
  const waiting = new Map<string, string>()
  const { remote, stored, statuses } = await start(t, {
    prepare: remote => {
      const pad = { x: 'x'.repeat(8500) }
      for (let n = 0; n < 60; n++) waiting.set(`a${n}`, revoked(remote, `a${n}`, pad))
      waiting.set('huge', 'x'.repeat(2 * 1024 * 1024))
      for (let n = 0; n < 60; n++) waiting.set(`b${n}`, revoked(remote, `b${n}`, pad))
      answerFrom(remote, waiting)
    }
  })
  await until('all others are stored', () => stored.length === 120)
  await until('all are told of', () => waiting.size === 0)
  const polls = remote.bodies('POST /poll') as Array<{ maxEvents: number, setErrs: Record<string, unknown> }>
  t.strictSame(polls.map(({ maxEvents }) => maxEvents).slice(0, 2), [100, 50])
  t.ok(polls.some(({ maxEvents }) => maxEvents === 1))
  t.strictSame(polls.flatMap(({ setErrs }) => Object.entries(setErrs)), [['huge', {
    err: 'invalid_request',
    description: 'The token is larger than 64 KiB.'
  }]])
  t.notOk(statuses.includes('failing'))
})

t.test('A transmitter that sends all that it has, whatever is asked for, is taken at its first event', async t => {
  const waiting = new Map<string, string>()
  const { stored } = await start(t, {
    prepare: remote => {
      for (let n = 0; n < 92; n++) waiting.set(`a${n}`, revoked(remote, `a${n}`, { x: 'x'.repeat(8500) }))
      remote.answers['POST /poll'] = ({ body }) => {
        const { ack, setErrs } = body as { ack: string[], setErrs: object }
        t.strictSame(setErrs, {})
        for (const jti of ack) waiting.delete(jti)
        return [200, { sets: Object.fromEntries(waiting) }]
      }
    }
  })
  await until('all are stored', () => stored.length >= 92)
  await until('all are acknowledged', () => waiting.size === 0)
})

t.test('A poll that is not answered in time asks for fewer the next time', async t => {
  const { remote } = await start(t, {
    prepare: remote => {
      const answers: Array<[number, unknown]> = [[500, {}], [500, {}]]
      remote.answers['POST /poll'] = () => answers.shift() ?? [200, { sets: {} }]
    }
  })
  await received(remote, 'POST /poll', 4)
  t.strictSame(
    remote.bodies('POST /poll').slice(0, 4).map(body => (body as { maxEvents: number }).maxEvents),
    [100, 50, 25, 35]
  )
})

t.test('The service sends nothing that would change a stream, and says what differs', async t => {
  const at = (method: string, url: string) => ({ method: `urn:ietf:rfc:${method}`, endpoint_url: url })
  const pushUrl = 'https://api.example/revocation/events'
  const whole = { stream_id: 's1', aud: 'receiver', events_requested: KNOWN_EVENT_TYPES, delivery: at('8935', pushUrl) }
  const elsewhere = at('8935', 'https://other.example/x')
  const rows: ReadonlyArray<readonly [string, [number, unknown], object, unknown[], statuses: string[]]> = [
    ['as wanted', [200, whole], {}, [], ['enabled']],
    ['other events', [200, { ...whole, events_requested: [] }], {}, [['events', pushUrl]], ['enabled']],
    ['another address', [200, { ...whole, delivery: elsewhere }], {}, [['delivery', elsewhere.endpoint_url]], ['enabled']],
    ['no known address', [200, { ...whole, delivery: elsewhere }], { pushUrl: undefined }, [], ['enabled']],
    ['another audience', [200, { ...whole, aud: ['b', 'c'] }], {}, [['audience', pushUrl]], ['enabled']],
    ['none', [200, []], {}, [['missing', undefined]], ['failing']],
    ['none with that id', [404, {}], { streamId: 's1' }, [['missing', undefined]], ['failing']],
    ['none of two', [200, [{ ...whole, delivery: elsewhere }, { ...whole, stream_id: 's2', delivery: elsewhere }]], {}, [[
      'missing',
      undefined
    ]], ['failing']],
    ...[404, 405, 501].map(status =>
      [`one that cannot be read, ${status}`, [status, {}], {}, [['missing', undefined]], []] as (typeof rows)[number]
    )
  ]
  for (const [name, answer, given, expected, words] of rows) {
    const { remote, differences, statuses } = await start(t, {
      delivery: 'push',
      audience: 'receiver',
      pushUrl,
      ...given,
      prepare: remote => {
        remote.answers['GET /stream'] = answer as [number, unknown]
      }
    })
    await received(remote, 'GET /stream', 1)
    await until('its status is told', () => statuses.length >= words.length)
    await delay(300)
    t.strictSame([differences, statuses], [expected, words], name)
    t.strictSame(
      remote.requests.filter(({ what }) => /^(?:POST|PATCH|DELETE|PUT) \/(?!token|verify)/.test(what)),
      [],
      name
    )
  }
})

t.test('A stream that is found in a list is read once by its id', async t => {
  const { remote, stream } = await start(t, {
    prepare: ({ answers, url }) => {
      const whole = { stream_id: 's 2', delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${url}/poll` } }
      answers['GET /stream'] = ({ path }) =>
        [200, path === '/stream' ? [{ stream_id: 's1' }, whole] : { ...whole, aud: 'receiver' }]
    }
  })
  await received(remote, 'POST /poll', 3)
  t.strictSame(remote.bodies('GET /stream'), ['', '?stream_id=s+2'])
  t.strictSame(stream.sender.setRules.audience, ['receiver'])
})

t.test('Without verify, or an endpoint for it, nothing is asked for, and any state is taken', async t => {
  for (const verify of [false, true]) {
    const { remote, receiver, stream } = await start(t, {
      delivery: 'push',
      audience: 'receiver',
      verify,
      prepare: ({ answers }) => {
        if (!verify) return
        const [, usual] = answers[CONFIGURATION] as [number, object]
        answers[CONFIGURATION] = [200, { ...usual, verification_endpoint: undefined }]
      }
    })
    await until('it is found', () => stream.state().status === 'enabled')
    t.equal((await receiver.push(remote.set(VERIFICATION, { state: 'x' }), undefined)).outcome, 'state')
    t.equal(typeof stream.state().verifiedAt, 'number')
    t.strictSame(remote.bodies('POST /verify'), [])
  }
})

t.test('A transmitter that sends the same without end is polled at a bounded rate', async t => {
  const { remote } = await start(t, {
    prepare: remote => {
      remote.answers['POST /poll'] = () => [200, { sets: { j1: 'x' } }]
    }
  })
  await received(remote, 'POST /poll', 1)
  const before = remote.bodies('POST /poll').length
  const begun = performance.now()
  await delay(200)
  t.ok(remote.bodies('POST /poll').length - before <= (performance.now() - begun) * HASTE / 50 + 1)
})

t.test('An instance that does not lead reads the stream, and fetches nothing', async t => {
  const { remote, stream, statuses } = await start(t, { isLeader: false })
  await until('it knows the status', () => statuses.length > 0)
  await delay(200)
  t.strictSame(stream.sender.setRules.audience, ['receiver'])
  t.strictSame(remote.requests.filter(({ what }) => /^(?:POST|PATCH) \/(?!token)/.test(what)), [])
  t.strictSame(statuses, ['enabled'])
})

t.test('A stream is verified at the start and after ten minutes, or its own minimum', async t => {
  for (const [interval, isAgain] of [[0, true], [3600, false]] as const) {
    const { remote, clock, stream } = await start(t, {
      prepare: remote => {
        remote.answers['GET /status'] = [200, { status: 'of another word' }]
        remote.answers['GET /stream'] = [200, {
          stream_id: 's1',
          aud: 'receiver',
          min_verification_interval: interval,
          delivery: { endpoint_url: `${remote.url}/poll` }
        }]
      }
    })
    await until('it is verified', () => remote.bodies('POST /verify').length === 1)
    stream.note({ event: 'verification', at: Date.now() / 1000 })
    await delay(150)
    t.equal(remote.bodies('POST /verify').length, 1)
    clock.ms = 601_000
    const polls = remote.bodies('POST /poll').length
    await received(remote, 'POST /poll', polls + 2)
    t.equal(remote.bodies('POST /verify').length, isAgain ? 2 : 1)
    t.equal(stream.state().status, 'enabled')
  }
})

t.test('The status is read again with each verification, and a stream that was deleted is looked for', async t => {
  const { remote, clock, stream } = await start(t)
  await until('it is verified', () => remote.bodies('POST /verify').length === 1)
  remote.answers['GET /status'] = [200, { status: 'paused' }]
  clock.ms += 601_000
  await until('it is known', () => stream.state().status === 'paused')
  const found = remote.answers['GET /stream']!
  Object.assign(remote.answers, { 'GET /status': [404, {}], 'GET /stream': [200, []] })
  clock.ms += 601_000
  await until('it is looked for', () => remote.bodies('GET /stream').length >= 4)
  t.equal(stream.state().status, 'failing')
  remote.answers['GET /stream'] = found
  remote.answers['GET /status'] = [200, { status: 'enabled' }]
  await until('it is known', () => stream.state().status === 'enabled')
})

t.test('Events are polled although the status of their stream cannot be read, and it cannot be verified or read again', async t => {
  for (const [what, answer, statuses] of [
    ['GET /status', 404, ['failing']],
    ['GET /status', 500, ['failing']],
    ['POST /verify', 404, ['enabled', 'failing']],
    ['POST /verify', 500, ['enabled', 'failing']],
    ['GET /stream', 500, ['enabled', 'failing']]
  ] as const) {
    const { remote, clock, stored, ...seen } = await start(t, {
      prepare (remote) {
        if (what !== 'GET /stream') remote.answers[what] = [answer, {}]
        serving(remote, { j1: revoked(remote, 'j1') })
      }
    })
    await until('it is stored', () => stored.length > 0)
    if (what === 'GET /status') await until('it is told', () => seen.stream.state().status === 'failing')
    remote.answers[what] = [answer, {}]
    clock.ms += 601_000
    await until('it is asked for again', () => remote.bodies(what).length >= 2)
    serving(remote, { j2: revoked(remote, 'j2') })
    await until('it is stored', () => stored.length > 1)
    t.strictSame(statuses.filter(status => !seen.statuses.includes(status)), [], `${what} ${answer}`)
  }
})

t.test('An instance that does not lead learns within ten minutes that its stream was created anew', async t => {
  const { remote, clock, receiver, stream, differences } = await start(t, {
    delivery: 'push',
    pushUrl: 'https://api.example/revocation/events',
    isLeader: false,
    prepare: ({ answers }) => {
      // For verifications alone.
      answers['GET /stream'] = [200, { stream_id: 's1', aud: 'receiver', min_verification_interval: 1e9 }]
    }
  })
  const push = (aud: string) => receiver.push(revoked(remote, 'j1', { aud }), undefined)
  await until('it is known', () => stream.sender.setRules.audience !== undefined)
  await push('receiver')
  remote.answers['GET /stream'] = [200, { stream_id: 's2', aud: 'another' }]
  await t.rejects(push('another'), { name: 'SetError', err: 'invalid_audience' })
  clock.ms += 601_000
  await until('it is read again', () => stream.sender.setRules.audience!.includes('another'))
  await push('another')
  await t.rejects(push('receiver'), { name: 'SetError', err: 'invalid_audience' })
  t.equal(differences.length, 1, 'what differs still is told once')
})

t.test('Where the clock was ahead at the start and has been set right, a stream is verified and its news count', async t => {
  const { remote, clock, stream, receiver } = await start(t, { wrongMs: 86_400_000 })
  await until('it is verified', () => remote.bodies('POST /verify').length === 1)
  t.equal(stream.state().status, 'enabled')
  clock.wrongMs = 0
  for (const status of ['paused', 'enabled']) {
    await receiver.take(remote.set(STREAM_UPDATED, { status }), stream.sender)
    t.equal(stream.state().status, status)
  }
  clock.ms += 601_000
  await until('it is verified again', () => remote.bodies('POST /verify').length === 2)
  const polls = remote.bodies('POST /poll').length
  await received(remote, 'POST /poll', polls + 2)
  clock.ms += 61_000
  await until('it is told', () => stream.state().status === 'failing')
})

t.test('A transmitter that is down is retried until it is back', async t => {
  const { remote, statuses, stream } = await start(t, {
    prepare: remote => {
      remote.answers[CONFIGURATION] = [500, {}]
    }
  })
  await until('it is failing', () => statuses.length > 0)
  remote.answers[CONFIGURATION] = [200, {
    issuer: remote.url,
    jwks_uri: `${remote.url}/keys`,
    configuration_endpoint: `${remote.url}/stream`,
    default_subjects: 'NONE'
  }]
  await received(remote, 'POST /poll', 1)
  await until('it is well', () => stream.state().status !== 'failing')
  remote.answers['POST /poll'] = [500, {}]
  await until('it is failing', () => stream.state().status === 'failing')
  remote.answers['POST /poll'] = [200, { sets: [] }]
  await until('it is well', () => stream.state().status !== 'failing')
  t.strictSame(statuses.slice(-2), ['failing', 'no_subjects'], 'nothing is sent until subjects are added')
  t.equal(statuses[0], 'failing')
})

t.test('The status of a push without a client names a transmitter that sends nothing yet', async t => {
  const { remote, statuses, differences } = await start(t, {
    authenticate: undefined,
    delivery: 'push',
    audience: 'receiver',
    prepare: remote => {
      remote.answers[CONFIGURATION] = [200, {
        issuer: remote.url,
        jwks_uri: `${remote.url}/keys`,
        configuration_endpoint: `${remote.url}/stream`,
        default_subjects: 'NONE'
      }]
    }
  })
  await until('it is reported', () => statuses.length > 0)
  t.strictSame(statuses, ['no_subjects'])
  await until('its keys are fetched', () => remote.requests.length === 2)
  await delay(100)
  t.strictSame(remote.requests.map(({ what }) => what), [CONFIGURATION, 'GET /keys'], 'nothing else is requested')
  t.strictSame(differences, [], 'and nothing is missed')
})

t.test('The default subjects of a stream win over those of its transmitter', async t => {
  // Keycloak 26.7.3: ALL for one client is in its stream, and the configuration says NONE.
  const rows: Array<[ofTransmitter: string, ofStream: unknown, expected: string[]]> = [
    ['NONE', 'ALL', ['enabled']],
    ['ALL', 'NONE', ['no_subjects']],
    ['NONE', undefined, ['no_subjects']],
    ['NONE', 1, ['no_subjects']]
  ]
  for (const [ofTransmitter, ofStream, expected] of rows) {
    const { remote, stream, statuses, clock } = await start(t, {
      prepare ({ answers }) {
        answers[CONFIGURATION] = [200, {
          ...(answers[CONFIGURATION] as [number, object])[1],
          default_subjects: ofTransmitter
        }]
        answers['GET /stream'] = [200, {
          ...(answers['GET /stream'] as [number, object])[1],
          default_subjects: ofStream
        }]
      }
    })
    await until('it is verified', () => remote.bodies('POST /verify').length === 1)
    stream.note({ event: 'verification', at: Date.now() / 1000 })
    clock.ms += 601_000
    await until('its status is read again', () => remote.bodies('POST /verify').length === 2)
    t.strictSame(statuses, expected, `${ofTransmitter}, ${ofStream}`)
  }
})

t.test('A stream that is paused or disabled is said to be so, whatever its subjects are', async t => {
  for (const status of ['paused', 'disabled', 'enabled']) {
    const { remote, stream } = await start(t, {
      prepare ({ answers }) {
        answers['GET /stream'] = [200, { ...(answers['GET /stream'] as [number, object])[1], default_subjects: 'NONE' }]
        answers['GET /status'] = [200, { status }]
      }
    })
    await received(remote, 'POST /poll', 1)
    const expected = status === 'enabled' ? 'no_subjects' : status
    await until(expected, () => stream.state().status === expected)
    t.equal(stream.state().status, expected)
  }
})

t.test('A stream that cannot be trusted or used is refused', async t => {
  const rows: Array<[string, (url: string) => unknown, reason: string]> = [
    [
      'of another issuer',
      url => ({ stream_id: 's1', iss: `${url}/other`, aud: 'receiver', delivery: { endpoint_url: `${url}/poll` } }),
      'discovery_issuer'
    ],
    [
      'polled at another origin',
      () => ({ stream_id: 's1', aud: 'receiver', delivery: { endpoint_url: 'https://other.example/poll' } }),
      'foreign_address'
    ],
    [
      'pushed, while it is to be polled',
      url => ({
        stream_id: 's1',
        aud: 'receiver',
        delivery: { method: 'urn:ietf:rfc:8935', endpoint_url: `${url}/poll` }
      }),
      'discovery_malformed'
    ],
    ['none', () => [], 'stream_missing']
  ]
  for (const [name, stream, reason] of rows) {
    const { remote, statuses, reasons } = await start(t, {
      prepare: remote => {
        remote.answers['GET /stream'] = [200, stream(remote.url)]
      }
    })
    await until('it is failing', () => statuses.length > 0)
    t.strictSame(statuses, ['failing'], name)
    t.strictSame(reasons, [reason], name)
    t.strictSame(remote.bodies('POST /poll'), [], name)
  }
  const { remote, statuses } = await start(t, {
    prepare: remote => {
      remote.answers['GET /stream'] = [200, { stream_id: 's1', aud: 'receiver' }]
    }
  })
  await until('it is failing', () => statuses.includes('failing'))
  t.strictSame(remote.bodies('POST /poll'), [], 'it says nowhere where to poll')
})

t.test('Polling needs no stream if the settings say all, and no client', async t => {
  for (const isClient of [true, false]) {
    const { remote, stored } = await start(t, {
      ...!isClient && { authenticate: undefined },
      audience: 'receiver',
      endpoint: '/poll',
      tokenIssuers: ['https://issuer.example'],
      prepare: remote => {
        remote.answers[CONFIGURATION] = [200, {
          issuer: remote.url,
          jwks_uri: `${remote.url}/keys`,
          verification_endpoint: `${remote.url}/verify`
        }]
        serving(remote, { j1: revoked(remote, 'j1') })
      }
    })
    await until('it is stored', () => stored.length > 0)
    t.strictSame(remote.bodies('POST /verify'), [], 'there is no stream to verify')
    t.equal(
      remote.requests.find(({ what }) => what === 'POST /poll')!.authorization,
      isClient ? 'Bearer token-1' : undefined
    )
  }
})

t.test('Until the stream is known, an event is neither accepted nor rejected for good', async t => {
  const { remote, stream, receiver, stored } = await start(t, {
    metadata: '/.well-known/ssf-configuration',
    delivery: 'push',
    prepare: ({ answers }) => {
      answers['GET /stream'] = [500, {}]
    }
  })
  t.equal(stream.state().status, 'unknown')
  await t.rejects(receiver.push(revoked(remote, 'j1'), undefined), {
    name: 'UndecidedError',
    message: 'the stream of the sender, which names the audience, is not known yet'
  })
  remote.answers['GET /stream'] = [200, { stream_id: 's1', aud: 'receiver' }]
  await until('the stream is known', () => stream.sender.setRules.audience !== undefined)
  await receiver.push(revoked(remote, 'j1'), undefined)
  t.equal(stored.length, 1)
})

t.test('A session ends, or means its user where no token has one', async t => {
  for (const [sessionClaim, effect] of [['sid', 'end'], [false, 'login']] as const) {
    const { remote, receiver, stored } = await start(t, {
      delivery: 'push',
      authenticate: undefined,
      audience: 'receiver',
      sessionClaim
    })
    const user = { format: 'iss_sub', iss: remote.url, sub: 'u1' }
    const subject = { format: 'complex', user, session: { format: 'opaque', id: 's1' } }
    await receiver.push(revoked(remote, 'j1', { sub_id: subject }), undefined)
    t.strictSame(stored.map(entry => entry.effect), [effect], String(sessionClaim))
  }
})

t.test('Events about the stream change its state', async t => {
  const { remote, stream, receiver, statuses } = await start(t, {
    delivery: 'push',
    authenticate: undefined,
    audience: 'receiver'
  })
  const { sessionClaimsOf, ...rules } = stream.sender.subjectRules
  t.strictSame(sessionClaimsOf(remote.url, 's1'), ['sid'])
  t.strictSame(rules, {
    sender: remote.url,
    stream: stream.stream,
    tokenIssuers: [remote.url],
    subjectClaims: {},
    criticalMembers: []
  })
  const iat = Math.floor(Date.now() / 1000) - 5
  await receiver.push(remote.set(VERIFICATION, { state: 'x' }, { iat }), undefined)
  await receiver.push(remote.set(VERIFICATION, { state: 'x' }, { iat: iat - 60 }), undefined)
  t.equal(stream.state().verifiedAt, iat, 'an old one, sent again, does not pass for news')
  await receiver.push(remote.set(STREAM_UPDATED, { status: 'paused' }, { iat }), undefined)
  await receiver.push(remote.set(STREAM_UPDATED, { status: 'paused' }, { iat }), undefined)
  await receiver.push(remote.set(STREAM_UPDATED, { status: 'other' }), undefined)
  await receiver.push(remote.set(STREAM_UPDATED, { status: 'enabled' }, { iat: iat - 1 }), undefined)
  t.strictSame(statuses, ['paused'])
  t.equal(stream.state().status, 'paused')
  await receiver.push(remote.set(STREAM_UPDATED, { status: 'enabled' }, { iat: iat + 1 }), undefined)
  t.strictSame(statuses, ['paused', 'enabled'])
})

t.test('A stream that was closed leaves no timer behind', async t => {
  const timers = new Set<() => void>()
  const { stream, remote } = await start(t, {
    surroundings: {
      ...processSurroundings,
      after (ms, run) {
        const cancel = processSurroundings.after(ms / HASTE, () => {
          timers.delete(stop)
          run()
        })
        const stop = () => {
          timers.delete(stop)
          cancel()
        }
        timers.add(stop)
        return stop
      }
    }
  })
  // One is that of the keys.
  await until('it waits for the next round', () => remote.bodies('POST /poll').length > 0 && timers.size === 2)
  await stream.close()
  t.equal(timers.size, 0)
})

t.test('A stream that was closed sends no more requests, even in the middle of a poll', async t => {
  const { remote, stream } = await start(t)
  let isClosing = false
  remote.answers['POST /poll'] = () => {
    if (!isClosing) stream.close()
    isClosing = true
    return [200, { sets: {} }]
  }
  await until('it is closed', () => isClosing)
  await delay(20)
  const { length } = remote.requests
  await delay(200)
  t.equal(remote.requests.length, length)
})
