import t, { type Test } from 'tap'
import { COMMANDS } from '../../cli/stored-revocations.ts'
import { openRedisLink } from '../../lib/guard/redis/redis-link.ts'
import { parseRedisUrl } from '../../lib/guard/redis/redis-url.ts'
import { keyOf } from '../../lib/revocation/target.ts'
import type { RevocationEntry } from '../../lib/revocation/entry.ts'
import { CHANGES, LEADER, RECORDS, STATE } from '../../lib/revocation/store/scripts.ts'
import type { Surroundings } from '../../lib/base/surroundings.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { judgeFlood } from '../helpers/revocation-flood.ts'
import { patientWriters } from '../helpers/patient-surroundings.ts'
import { skipRedis, skipRedisClock, startRedis } from '../helpers/redis.ts'
import { startStoreReader } from '../helpers/store-reader.ts'
import { until } from '../helpers/until.ts'

const now = () => Date.now() / 1000
const keyOfUser = (sub: string) => keyOf(['sub', 'https://issuer.example/', sub])
const entry = (sub: string, effect: RevocationEntry['effect'] = 'cutoff'): RevocationEntry => ({
  key: keyOfUser(sub),
  effect,
  at: now(),
  event: 'session-revoked',
  source: 'https://transmitter.example',
  sender: 'https://issuer.example',
  standing: 'issuer'
})

function startInstance (
  t: Test,
  port: number,
  given: { user?: string, surroundings?: Surroundings } = {}
) {
  const { user = '', surroundings = patientWriters } = given
  const target = parseRedisUrl(`redis://${user}127.0.0.1:${port}`)
  const reader = startStoreReader(t, {
    open: listeners => openRedisLink(target, listeners, processSurroundings.steadyMs),
    surroundings,
    lifeSeconds: 3610
  })
  return { ...reader, isRevoked: (sub: string) => reader.isRevoked(keyOfUser(sub)) }
}

/** The same, once it has read all. */
async function loadInstance (...given: Parameters<typeof startInstance>) {
  const instance = startInstance(...given)
  await instance.loaded()
  return instance
}

t.test('A Redis that is killed after an append and comes back empty gets all back, from those who have read it', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const [one, two] = await Promise.all([loadInstance(t, server.port), loadInstance(t, server.port)])
  await one.append([entry('u1'), entry('u2', 'block'), entry('u3')])
  await one.append([entry('u3', 'undo')])
  // What the other has not read of it would be restored by it.
  await until('the other has read it', () => two.isRevoked('u1') && !two.isRevoked('u3'))
  const hasty = await loadInstance(t, server.port, { surroundings: processSurroundings })
  await server.kill()
  t.equal(one.isRevoked('u1'), true)
  await t.rejects(hasty.append([entry('u4')]), { name: 'UndecidedError' })
  await server.start()
  await until('the other has all', () => two.isRevoked('u1') && two.isRevoked('u2'))
  const late = await loadInstance(t, server.port)
  await until('a new one has all', () => late.isRevoked('u1') && late.isRevoked('u2') && !late.isRevoked('u3'))
  t.strictSame([late.isRevoked('u3'), late.isRevoked('u4')], [false, false])
  t.equal(one.changes.includes('unreachable'), true)
  await until('the first has found the server again', () => one.fault() === undefined)
})

t.test(
  'A Redis that comes back with an older copy of its data gets all that came since, and an instance that starts ' +
    'with it judges by all of it',
  { skip: skipRedis },
  async t => {
    const server = await startRedis(t)
    const one = await loadInstance(t, server.port)
    await one.append([entry('u1'), entry('u2', 'block'), entry('u3', 'block'), entry('u4', 'block')])
    await server.command('SAVE')
    const first = await server.command('HGET', STATE, 'count')
    await one.append([entry('u5'), entry('u6', 'block'), { ...entry('u3', 'enable'), at: now() + 1 }, entry('u7')])
    await one.append([{ ...entry('u4', 'enable'), at: now() + 1 }, { ...entry('u4', 'block'), at: now() + 2 }])
    const users = ['u1', 'u2', 'u3', 'u4', 'u5', 'u6', 'u7', 'u8']
    const revoked = ['u1', 'u2', 'u4', 'u5', 'u6', 'u7']
    for (let n = 0; n < 3; n++) {
      await server.kill()
      await server.start()
      const late = await loadInstance(t, server.port)
      t.strictSame(users.filter(late.isRevoked), revoked)
      await until('the first has found the server again', () => one.isLoaded() && one.fault() === undefined)
      t.strictSame(users.filter(one.isRevoked), revoked)
      t.equal(await server.command('HGET', STATE, 'count'), first, 'it had the copy')
      await one.append([entry(`after ${n}`)])
      await until('the other has read it', () => late.isRevoked(`after ${n}`))
    }
  }
)

t.test('What was undone does not stand again after a restore of an older copy', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  await one.append([entry('u1', 'block'), entry('u2', 'block')])
  await server.command('SAVE')
  await one.append([entry('u1', 'undo')])
  await server.kill()
  await server.start()
  const late = await loadInstance(t, server.port)
  await until('all have it', () => [one, late].every(({ isLoaded }) => isLoaded()))
  t.strictSame([one, late].map(({ isRevoked }) => [isRevoked('u1'), isRevoked('u2')]), [[false, true], [false, true]])
  await one.append([{ ...entry('u1', 'block'), at: now() - 60 }])
  await until('a later event counts again', () => late.isRevoked('u1'))
})

t.test('What is reported to a store that was emptied is acknowledged once all is restored', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  await one.append([entry('u0')])
  const count = await server.command('HGET', STATE, 'count')
  await server.command('FLUSHALL')
  await until('it is acknowledged', () => one.append([entry('u1')]).then(() => true, () => false))
  t.not(await server.command('HGET', STATE, 'count'), count)
  t.equal(await server.command('HLEN', RECORDS), '2')
  t.equal(one.isLoaded(), true)
})

t.test('A Redis that is emptied while it runs gets all back', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  await one.append([entry('u1')])
  await server.command('FLUSHALL')
  await until('it is restored', async () => await server.command('HLEN', RECORDS) === '1')
  const late = await loadInstance(t, server.port)
  t.equal(late.isRevoked('u1'), true)
  t.equal(await one.lead('task'), true)
  t.equal(await late.lead('task'), false)
})

const many = (number: number, effect: RevocationEntry['effect'] = 'cutoff', part = 0) =>
  Array.from({ length: number }, (_, n) => entry(`${effect} ${n}${part ? ` ${part}` : ''}`, effect))

t.test('A lost connection stops no token: an instance reads on from its own place', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  for (let n = 0; n < 20; n++) await one.append(many(1000, 'cutoff', n))
  const size = one.view.size()
  const epoch = await server.command('HGET', STATE, 'epoch')
  await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await until('it has seen that', () => one.changes.includes('unreachable'))
  t.ok(one.isLoaded(), 'it still knows all')
  await until('it is back', () => one.fault() === undefined)
  await one.append([entry('later')])
  t.strictSame([one.isLoaded(), one.view.size(), one.isRevoked('later')], [true, size + 1, true])
  t.equal(await server.command('HGET', STATE, 'epoch'), epoch, 'nobody had to wait')
})

t.test('Many blocks stop no start: they are read in pages', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  for (let n = 0; n < 20; n++) {
    await one.append(many(1000, 'block', n))
  }
  const late = await loadInstance(t, server.port)
  t.equal(late.view.size(), 20_000)
})

t.test('A user without a right that is needed is a fault, and the one with all that are listed has none', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const rights = ['on', '>hunter2', '~{holdfast:revocation}:*', ...COMMANDS.map(name => `+${name.toLowerCase()}`)]
  await server.command('ACL', 'SETUSER', 'revoker', ...rights)
  await server.command('ACL', 'SETUSER', 'lame', ...rights, '-hset')
  const one = await loadInstance(t, server.port, { user: 'revoker:hunter2@' })
  const two = await loadInstance(t, server.port, { user: 'revoker:hunter2@' })
  await one.append(many(5))
  await server.command('FLUSHALL')
  await until('it has seen that', () => !one.isLoaded())
  await one.loaded()
  t.strictSame([...one.changes, ...two.changes], [])
  const lame = startInstance(t, server.port, { user: 'lame:hunter2@' })
  await until('it was refused', () => lame.changes.includes('auth'))
})

t.test('A SET repeated is stored once', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const event = entry('u1')
  for (let n = 0; n < 50; n++) await one.append([event])
  t.equal(await server.command('XLEN', CHANGES), '1')
  await one.append([{ ...event, at: event.at + 1 }])
  t.equal(await server.command('HLEN', RECORDS), '1')
})

t.test('An instance whose clock leaps for a time forgets nothing, and neither does one that starts then', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const one = await loadInstance(t, server.port)
  const { now: right } = Date
  t.teardown(() => {
    Date.now = right
  })
  const event = entry('u1')
  Date.now = () => right() + 2 * 86_400_000
  await one.append([event])
  await one.append(many(5000))
  const ahead = await loadInstance(t, server.port)
  Date.now = right
  const late = await loadInstance(t, server.port)
  t.strictSame([one, ahead, late].map(({ isRevoked }) => isRevoked('u1')), [true, true, true])
})

const DAYS = 2 * 86_400

/** A server whose clock can be set, and what shows that it is. */
async function startLeaping (t: Test) {
  const server = await startRedis(t, [], undefined, true)
  return {
    ...server,
    async leap (secondsAhead: number) {
      server.setClock(secondsAhead)
      const shown = Number((await server.command('TIME')).split(' ')[0])
      t.ok(Math.abs(shown - now() - secondsAhead) < 60, `its clock is ${secondsAhead} s ahead`)
    }
  }
}

t.test(
  'A Redis whose clock leaps for a time forgets nothing: of 300 users none passes at an instance that starts ' +
    'then or later',
  { skip: skipRedisClock },
  async t => {
    for (const ahead of [DAYS, -DAYS]) {
      const server = await startLeaping(t)
      const one = await loadInstance(t, server.port)
      await one.append(many(300, 'end'))
      await server.leap(ahead)
      await until('it is written meanwhile', () => one.append([entry('meanwhile')]).then(() => true, () => false))
      const meanwhile = await loadInstance(t, server.port)
      await server.leap(0)
      await until('it is written after that', () => one.append([entry('after')]).then(() => true, () => false))
      const late = startInstance(t, server.port)
      await Promise.all([one, meanwhile, late].map(({ loaded }) => loaded()))
      await until('all have read the last', () => [one, meanwhile, late].every(({ isRevoked }) => isRevoked('after')))
      for (const { isRevoked } of [one, meanwhile, late]) {
        t.strictSame(
          [...many(300, 'end').keys()].filter(n => !isRevoked(`end ${n}`)),
          []
        )
      }
      t.strictSame([one, meanwhile, late].map(({ isRevoked }) => isRevoked('meanwhile')), [true, true, true])
      t.equal(late.isRevoked('another'), false, 'the twin')
    }
  }
)

t.test(
  'What a Redis keeps for a time does not last for days after its clock was set right',
  { skip: skipRedisClock },
  async t => {
    const server = await startLeaping(t)
    const one = await loadInstance(t, server.port)
    await one.append([entry('u1')])
    await server.leap(DAYS)
    // It is restored meanwhile, and led by an instance that then leads no more.
    await server.command('FLUSHALL')
    await until('it is being restored', () => !one.isLoaded())
    await one.loaded()
    const gone = startInstance(t, server.port)
    await until('it leads', () => gone.lead('task'))
    await server.leap(0)
    t.ok(
      Number(await server.command('PTTL', `${LEADER}task`)) > 86_400_000,
      'the server would keep it for days'
    )
    const late = startInstance(t, server.port)
    await Promise.all([one, late].map(({ loaded }) => loaded()))
    t.equal(late.isRevoked('u1'), true)
    t.equal(await late.lead('task'), true, 'another instance leads')
    t.equal(await one.lead('task'), false, 'one at a time')
  }
)

for (const isAboutOurs of [false, true]) {
  t.test(
    'A flood of signed pushes about ' +
      `${isAboutOurs ? 'the issuer of the tokens' : 'an issuer that has no tokens here'} takes no room of others ` +
      'in a Redis',
    { skip: skipRedis },
    async t => {
      const { port } = await startRedis(t)
      await judgeFlood(t, isAboutOurs, { DPOP_REPLAY: `redis://127.0.0.1:${port}` })
    }
  )
}
