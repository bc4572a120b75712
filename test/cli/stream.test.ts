import t, { type Test } from 'tap'
import { stream } from '../../cli/stream.ts'
import { KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import { containing } from '../helpers/containing.ts'
import { recordedOutputs } from '../helpers/recorded.ts'
import { startEventTransmitter, type EventTransmitter } from '../helpers/event-transmitter.ts'

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
): Promise<{ code: number, text: string }> {
  const record = recorded(argv)
  let text = ''
  const config = transmitters && { revocation: { transmitters } }
  const code = await stream(argv, {
    env: { IDP_DOMAIN: 'tenant.example', IDP_AUDIENCE: 'a', ...env },
    out: {
      write: part => {
        text += part
      }
    },
    program: 'holdfast',
    readFile: path => path === 'config.yaml' && config ? JSON.stringify(config) : undefined
  })
  record(`${text}code ${code}`)
  return { code, text }
}

/** A transmitter with these streams, and one that is asked for, by `DELETE`. */
async function start (
  t: Test,
  ...streams: object[]
): Promise<EventTransmitter & { settings: object, deleted (): string[] }> {
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
  t.match(text, containing('"stream_id": "b"'))
  t.match(text, containing('"authorization_header": "(not shown)"'))
  t.match(text, containing('  Its stream b is enabled, for receiver, by '))
  t.notMatch(text, containing('hunter'), 'no secret is shown')
  remote.answers['GET /status'] = [200, { status: 'other' }]
  t.match((await run([], [remote.settings])).text, containing('Its stream b is of unknown status'))
  t.strictSame(remote.deleted(), [])
})

t.test("With --delete the stream is ended, and another service's is not", async t => {
  const [ours, others] = [{ stream_id: 'b', delivery: PUSHED }, { stream_id: 'a', delivery: OTHERS }]
  const rows: ReadonlyArray<
    readonly [string, readonly object[], object, NodeJS.ProcessEnv | undefined, RegExp, readonly string[]]
  > = [
    ['ours', [others, ours], {}, undefined, /^ {2}Stream b was ended\.$/m, ['b']],
    [
      'the only one, that goes elsewhere',
      [others],
      {},
      undefined,
      /Stream a goes to https:\/\/other\.example\/events: it may be that of another service, and was not ended\.\n {2}If it is meant, set streamId: a\./,
      []
    ],
    ['one of a transmitter that does not say', [{ stream_id: 'a' }], {}, {}, /Stream a goes to unknown/, []],
    ['one that the settings name', [others, ours], { streamId: 'a' }, undefined, /Stream a was ended/, ['a']],
    ['the only one, while PUBLIC_URL is not set', [others], {}, {}, /Stream a was ended/, ['a']],
    [
      'one that is polled, while PUBLIC_URL is not set',
      [{ stream_id: 'a', delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: 'https://other.example/poll' } }],
      {},
      {},
      /Stream a goes to/,
      []
    ],
    ['none', [], {}, undefined, /There is no stream for this client\./, []],
    [
      'none of several',
      [others, { ...others, stream_id: 'c' }],
      {},
      undefined,
      /None of its 2 streams is delivered here\./,
      []
    ]
  ]
  for (const [name, streams, settings, env, says, ended] of rows) {
    const remote = await start(t, ...streams)
    const { code, text } = await run(['--delete'], [{ ...remote.settings, ...settings }], env)
    t.match(text, says, name)
    t.strictSame([code, remote.deleted()], [ended.length > 0 ? 0 : 1, ended.map(id => `/stream?stream_id=${id}`)], name)
  }
})

t.test('With --ensure the stream is made what the settings want, and what was done is said', async t => {
  const OURS = { stream_id: 'b', aud: 'receiver', events_requested: KNOWN_EVENT_TYPES, delivery: PUSHED }
  const authorized = { pushAuthorization: { env: 'TEST_PUSH' } }
  process.env['TEST_PUSH'] = 'Bearer hunter3'
  t.teardown(() => delete process.env['TEST_PUSH'])
  const others = { ...OURS, stream_id: 'a', delivery: OTHERS }
  const rows: ReadonlyArray<
    readonly [
      string,
      readonly object[],
      { argv?: readonly string[], settings?: object, answers?: EventTransmitter['answers'], env?: NodeJS.ProcessEnv },
      number,
      RegExp,
      readonly string[]
    ]
  > = [
    ['as it is wanted', [OURS], {}, 0, /^ {2}Stream b is as it was\.$/m, []],
    ['none', [], {}, 0, /^ {2}Stream s1 was created\.$/m, ['POST']],
    ['one elsewhere', [others], {}, 0, /^ {2}Stream s1 was created\.$/m, ['POST']],
    ['other events', [{ ...OURS, events_requested: [] }], {}, 0, /^ {2}Stream b was changed\.$/m, ['PATCH']],
    [
      'events that cannot be changed',
      [{ ...OURS, events_requested: [] }],
      { answers: { 'PATCH /stream': [405, {}] } },
      0,
      /Its transmitter cannot change it \(status 405\)\.\n {2}It does not ask for all event types\./,
      ['PATCH']
    ],
    [
      'no second one',
      [others],
      { answers: { 'POST /stream': [409, {}] } },
      1,
      /^ {2}Its streams go elsewhere \(a to https:\/\/other\.example\/events\), and it allows no further one\.\n.*--ensure --take/m,
      ['POST']
    ],
    [
      'the only one, with --take',
      [others],
      { argv: ['--ensure', '--take'], answers: { 'POST /stream': [409, {}] } },
      0,
      /^ {2}Stream a went to https:\/\/other\.example\/events until now, and is delivered here now\.$/m,
      ['POST', 'PATCH']
    ],
    [
      'the one that is named',
      [others, OURS],
      { settings: { streamId: 'a' } },
      0,
      /^ {2}Stream a went to https:\/\/other\.example\/events until now/m,
      ['PATCH']
    ],
    [
      'two that are alike',
      [OURS, { ...OURS, stream_id: 'c' }],
      {},
      0,
      /^ {2}Stream b is as it was\. What was like it was ended: c\.$/m,
      ['DELETE']
    ],
    ['one for another audience', [{ ...OURS, aud: 'x' }], {}, 1, /Its events are for x, and the settings say receiver/, []],
    ['no PUBLIC_URL', [], { env: {} }, 1, /PUBLIC_URL \(server\.publicUrl\) is not set/, []],
    ['no client', [], { settings: { clientId: undefined, clientSecret: undefined } }, 0, /Without clientId/, []],
    ['a transmitter that is away', [], { answers: { 'GET /stream': [503, {}] } }, 1, /cannot be created or changed: status: 503/, []]
  ]
  for (const [name, streams, given, code, says, expected] of rows) {
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
    t.match(found.text, says, name)
    t.notMatch(found.text, containing('hunter'), name)
    t.strictSame([
      found.code,
      remote.requests.filter(({ what }) => what.endsWith('/stream')).map(({ what }) => what.split(' ')[0])
        .filter(method => method !== 'GET')
    ], [code, expected], name)
    const sent = [...remote.bodies('POST /stream'), ...remote.bodies('PATCH /stream')] as Array<{ delivery?: unknown }>
    const others = sent.filter(({ delivery = PUSHED }) => JSON.stringify(delivery) !== JSON.stringify(PUSHED))
    t.strictSame(others, [], name)
  }
  t.strictSame(await run(['--ensure'], undefined), { code: 0, text: '' }, 'without transmitters there is nothing to do')
  t.match(await run(['--ensure', '--delete'], []), { code: 1, text: /^--delete goes with no other option/ })
  const [one, other] = [await start(t, OURS), await start(t, OURS)]
  t.match(await run(['--ensure'], [one, other].map(({ settings }) => ({ ...settings, ...authorized }))), {
    code: 0,
    text: /is as it was[^]*is as it was/
  })
})

t.test('A hostile transmitter takes bounded time, and gets the secret nowhere else', async t => {
  const [remote, elsewhere] = [await start(t), await startEventTransmitter(t)]
  const list = Array.from({ length: 1000 }, (_, n) => ({ stream_id: `s${n}`, delivery: OTHERS }))
  const rows: ReadonlyArray<readonly [string, [number, unknown], RegExp]> = [
    ['a thousand streams', [200, list], /Its streams go elsewhere \(s0 to [^)]*s19 to [^,)]*\)/],
    ['a list without end', [200, `[${'{},'.repeat(400_000)}`], /too_large/],
    ['a page', [200, '<html>'], /not_json/],
    ['a redirect', [302, {}], /redirect/]
  ]
  remote.answers['POST /stream'] = [409, {}]
  for (const [name, answer, says] of rows) {
    remote.answers['GET /stream'] = answer
    t.match(await run(['--ensure'], [remote.settings]), { code: 1, text: says }, name)
  }
  const [, usual] = remote.answers['GET /.well-known/ssf-configuration'] as [number, object]
  remote.answers['GET /.well-known/ssf-configuration'] = [200, {
    ...usual,
    configuration_endpoint: `${elsewhere.url}/stream`
  }]
  t.match(await run(['--ensure'], [remote.settings]), { code: 1, text: /foreign_address/ })
  t.strictSame(elsewhere.requests, [])
})

t.test('What stands in the way is said in a sentence', async t => {
  const [a, b] = [
    await start(t, { stream_id: 's', delivery: PUSHED }),
    await start(t, { stream_id: 's', delivery: PUSHED })
  ]
  t.match(await run([], undefined), { code: 1, text: /^There is no transmitter in the settings/ })
  t.match(await run(['https://x.example'], [a.settings]), {
    code: 1,
    text: new RegExp(`^There is no transmitter https://x\\.example in the settings; there are: ${a.url}\n`)
  })
  t.match(await run(['a', 'b'], [a.settings]), { code: 1, text: /^Unexpected argument b: / })
  t.match(await run(['--delete'], [a.settings, b.settings]), { code: 1, text: /^Say whose stream to end: / })
  t.match(await run([`${b.url}/`, '--delete'], [a.settings, b.settings]), { code: 0, text: /Stream s was ended/ })
  t.strictSame([a.deleted(), b.deleted()], [[], ['/stream?stream_id=s']])
  t.match(await run([], [a.settings, { ...b.settings, clientId: undefined, clientSecret: undefined }]), {
    code: 1,
    text: /Its stream s is enabled[^]*Without clientId its stream can be neither read nor changed\./
  })
  a.answers['DELETE /stream'] = [403, {}]
  t.match(await run(['--delete'], [a.settings]), { code: 1, text: /Its stream cannot be ended: status: 403/ })
  a.answers['DELETE /stream'] = [405, {}]
  t.match(await run(['--delete'], [a.settings]), { code: 1, text: /Stream s cannot be ended by this client/ })
  a.answers['POST /token'] = [401, {}]
  t.match(await run([], [a.settings]), { code: 1, text: /Its stream cannot be read: status: 401/ })
  t.match(await run([], [{ ...a.settings, delivery: 'mail' }]), {
    code: 1,
    text: /^The settings are not usable:\n[^]*holdfast stream --help tells more\.\n$/
  })
  t.match(await run(['--help'], undefined), {
    code: 0,
    text: /\n {2}holdfast stream https:\/\/tenant\.example --delete\n[^]*--delete +end the stream/
  })
})
