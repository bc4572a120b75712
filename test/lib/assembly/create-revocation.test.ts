import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readSettings } from '../../../holdfast.ts'
import {
  createRevocation,
  createRevocationView,
  pushUrlOf,
  type RevocationEvent
} from '../../../lib/assembly/create-revocation.ts'
import { NODE_CRYPTO } from '../../../lib/assembly/jwt-tools.ts'
import { KNOWN_EVENT_TYPES, STREAM_UPDATED, VERIFICATION } from '../../../lib/revocation/effects.ts'
import { createStoreClock } from '../../../lib/revocation/store/clock.ts'
import { RUN } from '../../../lib/revocation/store/scripts.ts'
import { claimTarget, keyOf, type RevocableToken } from '../../../lib/revocation/target.ts'
import { createTransport } from '../../../lib/guard/provider/transport.ts'
import { SettingsError } from '../../../lib/base/settings-error.ts'
import { processSurroundings } from '../../../server/surroundings.ts'
import { nowSeconds } from '../../helpers/clock.ts'
import { startEventTransmitter } from '../../helpers/event-transmitter.ts'
import { encodeJws } from '../../helpers/jws.ts'
import { startFakeRedis } from '../../helpers/fake-redis.ts'
import { skipRedis, startRedis } from '../../helpers/redis.ts'
import { until } from '../../helpers/until.ts'

const ISSUER = 'https://issuer.example'
const SESSION_REVOKED = 'https://schemas.openid.net/secevent/caep/event-type/session-revoked'

async function create (
  revocation: object | undefined,
  values: object = {},
  isOpen = false,
  surroundings = processSurroundings
) {
  const events: RevocationEvent[] = []
  const settings = await readSettings({
    IDP_ISSUER: ISSUER,
    IDP_AUDIENCE: 'https://api.example',
    ...revocation && { REVOCATION: revocation },
    ...values
  })
  const parts = await createRevocation({
    surroundings,
    settings,
    jwtTools: NODE_CRYPTO,
    isOpen,
    transport: createTransport(),
    pushUrl: pushUrlOf(settings.server.publicUrl, '/v1'),
    onEvent: event => {
      events.push(event)
    }
  })
  return { parts, events }
}

t.test('Without the section there are no parts and no events', async t => {
  const { parts, events } = await create(undefined)
  t.equal(parts, undefined)
  t.strictSame(events, [])
})

t.test('Without a Redis the memory of the process is the store, with an event that says so', async t => {
  const { parts, events } = await create({ logout: { clientId: 'app' } })
  t.strictSame(events, [{ name: 'revocation_in_memory' }])
  t.strictSame(parts!.issuers, [ISSUER])
  parts!.count('logout', 'applied')
  parts!.count('logout', 'applied')
  t.strictSame([...parts!.counts], [['logout applied', 2]])
  await parts!.close()
})

t.test('The store is the Redis of proofs, or one of its own, and its faults are reported with its hosts', async t => {
  const redis = await startFakeRedis()
  t.teardown(() => redis.stop())
  redis.override = ([name]) => name === 'EVAL' ? '-LOADING Redis is loading the dataset in memory\r\n' : undefined
  const hosts = [`127.0.0.1:${redis.port}`]
  const { parts, events } = await create({ store: `redis://127.0.0.1:${redis.port}`, logout: { clientId: 'app' } })
  t.teardown(() => parts!.close())
  await until('the fault is reported', () => events.length > 0)
  t.strictSame(events, [{ name: 'revocation_unavailable', reason: 'loading', hosts }])
  t.equal(parts!.revocations.state().fault, 'loading')
  const [text, one] = ['$3\r\n0-0\r\n', '$1\r\n1\r\n']
  const answers: Record<string, string> = {
    HSCAN: '*2\r\n$1\r\n0\r\n*0\r\n',
    EVAL: `*10\r\n${text}${one}${one}${text}${text}:1\r\n${text}:0\r\n${text}:0\r\n`,
    EXISTS: ':0\r\n',
    XREAD: '*-1\r\n'
  }
  redis.override = ([name, script]) => script === RUN ? text : answers[name!]
  await until('the end is reported', () => events.length > 1)
  t.strictSame(events.slice(1), [{ name: 'revocation_available', hosts }])
  t.equal(parts!.revocations.state().isCurrent, true)
})

t.test(
  'Where the application decides which issuers there are, events about any of them are stored, else only those ' +
    "about the settings'",
  async t => {
    for (const [isOpen, count] of [[true, 1], [false, 0]] as const) {
      const remote = await startEventTransmitter(t)
      const { parts } = await create(
        {
          transmitters: [{
            issuer: remote.url,
            audience: 'receiver',
            delivery: 'push',
            tokenIssuers: ['https://tenant.example']
          }]
        },
        {},
        isOpen
      )
      t.teardown(() => parts!.close())
      parts!.start()
      const set = remote.set(SESSION_REVOKED, {}, {
        sub_id: { format: 'iss_sub', iss: 'https://tenant.example', sub: 'u' }
      })
      t.equal((await parts!.receiver.push(set, undefined)).outcome, isOpen ? 'applied' : 'unmatched')
      t.equal(parts!.revocations.state().entries, count)
    }
  }
)

t.test('An event that is dated more than a minute ahead is a warning, one a minute for each sender', async t => {
  let ms = 0
  const remote = await startEventTransmitter(t)
  const seconds = 1_800_000_000
  const { parts, events } = await create(
    { transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'push', tokenIssuers: [ISSUER] }] },
    {},
    undefined,
    { ...processSurroundings, now: () => seconds, steadyMs: () => ms }
  )
  t.teardown(() => parts!.close())
  parts!.start()
  const push = async (ahead: number, moment: object = { toe: seconds + ahead }) => {
    events.length = 0
    await parts!.receiver.push(
      remote.set(SESSION_REVOKED, {}, {
        jti: 'secret',
        iat: seconds,
        sub_id: { format: 'iss_sub', iss: ISSUER, sub: 'secret' },
        ...moment
      }),
      undefined
    )
    return events.filter(({ name }) => name === 'event_ahead')
  }
  const warning = (ahead: number) => ({ name: 'event_ahead', sender: remote.url, seconds: ahead })
  t.strictSame(await push(0), [])
  t.strictSame(await push(60), [])
  t.strictSame(await push(61), [warning(61)])
  ms = 59_999
  t.strictSame(await push(3600), [])
  ms = 60_000
  t.strictSame(await push(3600, { iat: seconds + 3600 }), [warning(3600)])
  ms = 120_000
  t.strictSame(
    await push(3600, { toe: seconds + 3600, sub_id: { format: 'uri', uri: 'a:b' } }),
    [],
    'an event without effect'
  )
})

t.test('An issuer has room for a million keys, and for no more', async t => {
  const { idp, revocation } = await readSettings({
    IDP_ISSUER: ISSUER,
    IDP_AUDIENCE: 'https://api.example',
    REVOCATION: { operators: { scope: 'revoke' } }
  })
  const { view } = createRevocationView(revocation!, {
    ...idp,
    ...createStoreClock(processSurroundings),
    now: processSurroundings.now
  })
  const said = { effect: 'cutoff', at: 1, event: 'e', source: 's', sender: ISSUER, standing: 'issuer' } as const
  const entries = Array.from({ length: 10_000 }, (_, index) => ({ ...said, key: String(index) }))
  let release: (() => void) | undefined
  for (let n = 0; n < 100; n++) release = view.reserve(entries)
  t.type(release, 'function')
  t.equal(view.reserve([{ ...said, key: 'more' }]), undefined)
  release!()
  t.type(view.reserve([{ ...said, key: 'more' }]), 'function')
})

t.test('A missing secret stops the start, and the problem names its place', async t => {
  for (
    const [secret, problem] of [[{ env: 'TEST_STREAM_UNSET' }, 'the variable TEST_STREAM_UNSET is not set'], [{
      file: '/nowhere/secret'
    }, "ENOENT: no such file or directory, open '/nowhere/secret'"]] as const
  ) {
    const transmitters = [{
      issuer: 'https://t.example',
      audience: 'a',
      delivery: 'push',
      clientId: 'c',
      clientSecret: secret
    }]
    await t.rejects(
      create({ transmitters }),
      new SettingsError([
        `revocation.transmitters[0].clientSecret is not usable: ${problem}; allowed: a text, { file: PATH } or { ` +
        'env: NAME }'
      ])
    )
  }
})

t.test('A stream that is not pushed to the address under PUBLIC_URL is named, with where it goes', async t => {
  const remote = await startEventTransmitter(t)
  const client = { clientId: 'c', clientSecret: 's' }
  const start = async (url: string) => {
    remote.answers['GET /stream'] = [200, {
      stream_id: 's1',
      aud: 'receiver',
      events_requested: KNOWN_EVENT_TYPES,
      delivery: { method: 'urn:ietf:rfc:8935', endpoint_url: url }
    }]
    const { parts, events } = await create({
      transmitters: [{ issuer: remote.url, ...client, delivery: 'push' }]
    }, { PUBLIC_URL: 'https://api.example/' })
    t.teardown(() => parts!.close())
    parts!.start()
    await until('the stream is read', () => events.some(({ name }) => name === 'stream_enabled'))
    return events.filter(({ name }) => name.startsWith('stream_'))
  }
  const transmitter = remote.url
  t.strictSame(await start('https://api.example/v1/revocation/events'), [{ name: 'stream_enabled', transmitter }])
  t.strictSame(await start('https://other.example/v1/revocation/events'), [
    {
      name: 'stream_differs',
      transmitter,
      differs: ['delivery'],
      goesTo: 'https://other.example/v1/revocation/events'
    },
    { name: 'stream_enabled', transmitter }
  ])
  remote.answers['GET /status'] = [405, {}]
  const { parts, events } = await create({ transmitters: [{ issuer: remote.url, ...client, delivery: 'push' }] })
  t.teardown(() => parts!.close())
  parts!.start()
  await until('it is failing', () => events.some(({ name }) => name === 'stream_changed'))
  t.hasStrict(events.find(({ name }) => name === 'stream_changed'), { status: 'failing', reason: 'status: 405' })
})

t.test('The address for pushes is normalised, as a transmitter may write it', t => {
  const rows: ReadonlyArray<readonly [publicUrl: string | undefined, mount: string, expected: string | undefined]> = [
    [undefined, '', undefined],
    ['https://api.example', '', 'https://api.example/revocation/events'],
    ['https://api.example/', '/v1', 'https://api.example/v1/revocation/events'],
    ['HTTPS://API.Example:443/Orders/', '', 'https://api.example/Orders/revocation/events'],
    ['https://bücher.example:8443/ä', '', 'https://xn--bcher-kva.example:8443/%C3%A4/revocation/events']
  ]
  for (const [publicUrl, mount, expected] of rows) t.equal(pushUrlOf(publicUrl, mount), expected)
  t.end()
})

t.test('The client of a transmitter proves itself by the key of a file', async t => {
  const remote = await startEventTransmitter(t)
  const keyFile = join(t.testdir({ key: '{' }), 'key.pem')
  writeFileSync(
    keyFile,
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
  )
  const transmitter = {
    issuer: remote.url,
    delivery: 'poll',
    audience: 'receiver',
    clientId: 'c',
    clientAuth: 'private_key_jwt',
    keyFile
  }
  const { parts } = await create({ transmitters: [transmitter] })
  t.teardown(() => parts!.close())
  parts!.start()
  await until('it is polled', () => remote.bodies('POST /poll').length > 0)
  const assertion = new URLSearchParams(String(remote.bodies('POST /token')[0])).get('client_assertion')!
  t.equal(
    (JSON.parse(Buffer.from(assertion.split('.')[1]!, 'base64url').toString()) as { aud: string }).aud,
    remote.url
  )
  const broken = join(dirname(keyFile), 'key')
  for (const [file, problem] of [['/nowhere/key', 'ENOENT'], [broken, 'not a private key']] as const) {
    await t.rejects(
      create({ transmitters: [{ ...transmitter, keyFile: file }] }),
      new SettingsError([
        `revocation.transmitters[0].keyFile is ${JSON.stringify(file)}, which is not usable (${problem}); ` +
        'allowed: path of a file with a private key'
      ])
    )
  }
})

t.test('A transmitter that sends nothing until subjects are added is reported by name, and so is a stream that pauses', async t => {
  const remote = await startEventTransmitter(t)
  const [, document] = remote.answers['GET /.well-known/ssf-configuration'] as [number, object]
  remote.answers['GET /.well-known/ssf-configuration'] = [200, { ...document, default_subjects: 'NONE' }]
  const { parts, events } = await create({
    transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'push' }]
  })
  t.teardown(() => parts!.close())
  parts!.start()
  const reported = () => events.filter(({ name }) => name.startsWith('stream_'))
  await until('it is reported', () => reported().length > 0)
  t.strictSame(reported(), [{ name: 'stream_without_subjects', transmitter: remote.url }])
  await parts!.receiver.push(remote.set(STREAM_UPDATED, { status: 'disabled' }), undefined)
  t.strictSame(reported().slice(1), [{ name: 'stream_changed', transmitter: remote.url, status: 'disabled' }])
  await parts!.receiver.push(remote.set(VERIFICATION, { state: 'x' }, { iat: 1_700_000_000 }), undefined)
  await parts!.revocations.append([{
    key: 'stream https://other.example',
    effect: 'state',
    at: 1,
    event: 'paused',
    source: 'https://other.example',
    sender: 'https://other.example',
    standing: 'other'
  }])
  t.equal(reported().length, 2, 'a transmitter that only other instances have')
  t.strictSame([parts!.transmitters[0]!.state().verifiedAt, parts!.revocations.state().entries], [1_700_000_000, 0])
})

t.test('A transmitter that names no issuers speaks about its own tokens, by its own names of claims', async t => {
  const { parts } = await create({
    transmitters: [{ issuer: ISSUER, audience: 'receiver', delivery: 'push', sessionClaim: 'session_id' }]
  })
  t.teardown(() => parts!.close())
  const now = nowSeconds()
  await parts!.revocations.append([{
    key: keyOf(claimTarget('session_id', ISSUER, 's1')),
    effect: 'end',
    at: now,
    event: 'session-revoked',
    source: ISSUER,
    sender: ISSUER,
    standing: 'issuer'
  }])
  const isRevoked = (claims: object) =>
    parts!.revocations.revocationOf(
      { claims: { sub: 'u', iat: now, ...claims }, issuer: ISSUER, binding: {} } as unknown as RevocableToken
    ) !== undefined
  t.strictSame([{ session_id: 's1' }, { session_id: 's2' }, { sid: 's1' }].map(isRevoked), [true, false, false])
})

t.test('Polled events are counted and reported like pushed ones', async t => {
  const remote = await startEventTransmitter(t)
  const sets = {
    j1: remote.set(KNOWN_EVENT_TYPES[0]!, {}, { sub_id: { format: 'opaque', id: 's1' } }),
    j2: 'x',
    j3: remote.set(KNOWN_EVENT_TYPES[0]!, {}, { jti: 'j3', sub_id: { format: 'opaque', id: 's2' } })
  }
  remote.answers['POST /poll'] = () => [200, { sets }]
  const { parts, events } = await create({
    transmitters: [{
      issuer: remote.url,
      audience: 'receiver',
      delivery: 'poll',
      endpoint: `${remote.url}/poll`,
      tokenIssuers: [ISSUER]
    }]
  })
  t.teardown(() => parts!.close())
  parts!.start()
  const reported = () => events.filter(({ name }) => name.startsWith('revocation_re'))
  await until('it is reported', () => reported().length >= 2)
  t.strictSame(reported().slice(0, 2), [
    { name: 'revocation_received', sender: remote.url, type: 'session-revoked', outcome: 'applied', events: 2 },
    { name: 'revocation_refused', sender: remote.url, reason: 'The body is not a well-formed JWT.', events: 1 }
  ])
  t.ok(parts!.counts.get('session-revoked applied')! >= 2 && parts!.counts.get('refused invalid')! >= 1)
})

t.test(
  'Services that share a store each poll their own stream of one transmitter, and hear the news of no other',
  { skip: skipRedis },
  async t => {
    const { port } = await startRedis(t)
    const remote = await startEventTransmitter(t)
    const news = (status: string) =>
      ({ sets: { [status]: remote.set(STREAM_UPDATED, { status }, { aud: status, jti: status }) } })
    const services = await Promise.all(['paused', 'disabled'].map(async status => {
      remote.answers[`POST /${status}`] = [200, news(status)]
      const { parts } = await create({
        store: `redis://127.0.0.1:${port}`,
        transmitters: [{ issuer: remote.url, audience: status, delivery: 'poll', endpoint: `${remote.url}/${status}` }]
      })
      t.teardown(() => parts!.close())
      parts!.start()
      return { status, parts: parts! }
    }))
    for (const { status, parts: { transmitters: [own] } } of services) {
      await until(`it is ${status}`, () => own!.state().status === status)
    }
  }
)

t.test('A polled event that cannot be judged now is counted as unavailable', async t => {
  const remote = await startEventTransmitter(t)
  remote.answers['GET /keys'] = [500, {}]
  remote.answers['POST /poll'] =
    () => [200, { sets: { j1: remote.set(KNOWN_EVENT_TYPES[0]!, {}, { sub_id: { format: 'opaque', id: 's1' } }) } }]
  const { parts } = await create({
    transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'poll', endpoint: `${remote.url}/poll` }]
  })
  t.teardown(() => parts!.close())
  parts!.start()
  await until('it is counted', () => parts!.counts.has('refused unavailable'))
  t.strictSame([...parts!.counts.keys()], ['refused unavailable'])
})

t.test('Events about the keys of a sender name its issuer', async t => {
  const remote = await startEventTransmitter(t)
  remote.answers['GET /keys'] = [500, {}]
  const { parts, events } = await create({
    transmitters: [{ issuer: remote.url, audience: 'receiver', delivery: 'push' }]
  })
  t.teardown(() => parts!.close())
  parts!.start()
  await until('it is reported', () => events.some(({ name }) => name === 'keys_fetch_failed'))
  const failure = events.find(({ name }) => name === 'keys_fetch_failed') as { issuer: string }
  t.equal(failure.issuer, remote.url)
})

t.test('Logout tokens of each issuer are verified with its own keys', async t => {
  const remote = await startEventTransmitter(t)
  remote.answers['GET /keys'] = [500, {}]
  const { parts, events } = await create({
    logout: [{ issuer: remote.url, clientId: 'app' }, { issuer: 'https://other.example', clientId: 'app' }]
  }, { IDP_ISSUER: remote.url })
  t.teardown(() => parts!.close())
  const claims = {
    iss: remote.url,
    aud: 'app',
    iat: nowSeconds(),
    exp: nowSeconds() + 60,
    jti: 'j1',
    sid: 's1',
    events: { 'http://schemas.openid.net/event/backchannel-logout': {} }
  }
  const token = encodeJws({ alg: 'RS256', typ: 'logout+jwt', kid: 'k' }, claims, () => Buffer.from('x'))
  await t.rejects(parts!.receiver.logout(`logout_token=${token}`), { name: 'Refusal', reason: 'keys_unavailable' })
  const failure = events.find(({ name }) => name === 'keys_fetch_failed') as { issuer: string }
  t.equal(failure.issuer, remote.url)
})
