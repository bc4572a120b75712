import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { openRedisLink } from '../../../../lib/redis/redis-link.ts'
import { parseRedisUrl } from '../../../../lib/redis/redis-url.ts'
import type { RevocationEntry } from '../../../../lib/revocation/entry.ts'
import { readRecord, recordOf, writeRecord } from '../../../../lib/revocation/store/record.ts'
import { CHANGES, INSTANCES, MERGE, READ, RECORDS, RESTORING, STATE } from '../../../../lib/revocation/store/scripts.ts'
import { keyOf } from '../../../../lib/revocation/target.ts'
import { processSurroundings } from '../../../../server/surroundings.ts'
import { skipRedis, startRedis } from '../../../helpers/redis.ts'
import { startRelay, toPort } from '../../../helpers/relay.ts'
import { startStoreReader } from '../../../helpers/store-reader.ts'
import { until } from '../../../helpers/until.ts'

const ISSUER = 'https://issuer.example'
const now = (): number => Date.now() / 1000
const k = (sub: string, issuer = ISSUER): string => keyOf(['sub', issuer, sub])
const entry = (sub: string, given: Partial<RevocationEntry> = {}): RevocationEntry => ({
  key: k(sub),
  effect: 'cutoff',
  at: now(),
  event: 'session-revoked',
  source: ISSUER,
  sender: ISSUER,
  standing: 'issuer',
  ...given
})

function startInstance (t: Test, port: number, given: Partial<Parameters<typeof startStoreReader>[1]> = {}) {
  const reader = startStoreReader(t, {
    open: listeners =>
      openRedisLink(parseRedisUrl(`redis://127.0.0.1:${port}`), listeners, processSurroundings.steadyMs),
    surroundings: processSurroundings,
    lifeSeconds: 100,
    ...given
  })
  const startedAt = now()
  return { ...reader, isRevoked: (sub: string) => reader.isRevoked(k(sub), startedAt - 10) }
}

const LOG = '{holdfast:revocation}:log'
const LONG = 's'.repeat(300)

t.test('A log of the version before becomes records, once, and is in force from the first answer on', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const clockMs = 1_700_000_000_000
  const row = (sub: string, effect: string, given: object = {}): Promise<string> =>
    server.command(
      'XADD',
      LOG,
      '*',
      'e',
      JSON.stringify({ ...entry(sub), effect, recordedAt: 1, t: clockMs - 10_000, ...given })
    )
  const at = now()
  await row('cut', 'cutoff')
  await row('ended', 'end', { at: at - 85, t: clockMs - 85_000 })
  await row('over', 'end', { at: at - 200, t: clockMs - 200_000 })
  await row('blocked', 'block', { at: at - 5, t: clockMs - 500_000 })
  await row('lifted', 'block', { at: at - 5, also: at - 1 })
  await row('undone', 'block', { at: at - 5 })
  await row('undone', 'undo')
  await row('again', 'block', { at: at - 5 })
  await row('again', 'undo')
  await row('again', 'cutoff')
  await row('login', 'cutoff', { also: at })
  await row('other', 'cutoff', { standing: 'other', sender: 'https://t.example', at: at - 12 })
  await row('long', 'end', { key: keyOf(['sub', ISSUER, LONG]).split(' ').slice(0, 2).join(' ') })
  await row('stream', 'state', { key: `stream ${ISSUER}`, event: 'paused' })
  await server.command('XADD', LOG, '*', 'e', '{')
  for (const [name, text] of [['clock', clockMs], ['epoch', 'e'], ['cleaned', '0-0']]) {
    await server.command('SET', `{holdfast:revocation}:${name}`, String(text))
  }
  const news: string[] = []
  const instances = [1, 2].map(() =>
    startInstance(t, server.port, { transmitters: [ISSUER], onNews: ({ event }) => news.push(event) })
  )
  await Promise.all(instances.map(({ loaded }) => loaded()))
  const late = startInstance(t, server.port)
  await late.loaded()
  for (const instance of [...instances, late]) {
    t.strictSame(
      ['cut', 'ended', 'over', 'blocked', 'lifted', 'undone', 'again', 'login', 'other', LONG].map(instance.isRevoked),
      [true, true, false, true, false, false, true, true, true, true]
    )
    t.ok(instance.view.revocationOf({ keys: [k('login')], issuedAt: at + 5, loginAt: at }))
    t.notOk(instance.view.revocationOf({ keys: [k('cut')], issuedAt: at + 5, loginAt: at }))
  }
  t.ok(instances.some(({ takenOver }) => takenOver.length === 1))
  t.strictSame(late.takenOver, [])
  t.ok(news.includes('paused'))
  const names = ['log', 'clock', 'epoch', 'cleaned'].map(name => `{holdfast:revocation}:${name}`)
  t.equal(await server.command('EXISTS', ...names), '0')
  await until('an entry keeps its age', () => !late.isRevoked('ended'))
  t.equal(late.isRevoked('cut'), true)
})

t.test('An instance that has missed changes reads the records again, and goes on answering', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const [one, two] = [startInstance(t, server.port), startInstance(t, server.port)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry('u1')])
  await until('it is heard', () => two.isRevoked('u1'))
  // As if both had been away while much came.
  const missed = recordOf(entry('missed'), { heard: Math.ceil(now()), life: 100, now: now() })
  await server.command('HSET', RECORDS, k('missed'), writeRecord(missed))
  const epoch = await server.command('HGET', STATE, 'epoch')
  await server.command('HSET', STATE, 'floor', '9999999999999-0')
  await until('it is read', () => one.isRevoked('missed') && two.isRevoked('missed'))
  t.strictSame([one.isLoaded(), two.isLoaded()], [true, true])
  t.equal(await server.command('HGET', STATE, 'epoch'), epoch, 'nobody has to wait')
})

t.test('An instance that comes back after the store has forgotten it makes nobody wait, if nothing was lost', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const [one, two] = [startInstance(t, server.port), startInstance(t, server.port)]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append([entry('u1')])
  await until('it is heard', () => two.isRevoked('u1'))
  const epoch = await server.command('HGET', STATE, 'epoch')
  await server.command('DEL', INSTANCES)
  await one.append([entry('u2')])
  await until('all know it', () => two.isRevoked('u2') && two.isLoaded() && one.isLoaded())
  t.equal(await server.command('HGET', STATE, 'epoch'), epoch)
  await server.command('DEL', INSTANCES, RECORDS)
  await until('the twin: what was lost is restored', async () => await server.command('HLEN', RECORDS) === '2')
  t.not(await server.command('HGET', STATE, 'epoch'), epoch)
})

t.test('One that is stopped while it restores is waited for until it has said nothing for as long as it asks', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const one = startInstance(t, server.port)
  await one.loaded()
  await server.command('HSET', RESTORING, 'stopped', `${await server.command('HGET', STATE, 'clock')} 3000`)
  const startedMs = processSurroundings.steadyMs()
  await until('it waits', () => !one.isLoaded())
  const late = startInstance(t, server.port)
  await Promise.all([one.loaded(), late.loaded()])
  t.ok(processSurroundings.steadyMs() - startedMs > 2000)
})

t.test('Of two services on one store, none takes what the other has revoked, and the longest retention counts', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const elsewhere = 'https://elsewhere.example'
  const short = startInstance(t, server.port, { lifeSeconds: 2 })
  const long = startInstance(t, server.port, { lifeSeconds: 100 })
  const foreign = startInstance(t, server.port, { lifeSeconds: 2, issuers: [elsewhere] })
  await Promise.all([short, long, foreign].map(({ loaded }) => loaded()))
  await short.append([entry('u1', { effect: 'end' })])
  await foreign.append([entry('u2', { effect: 'end', key: k('u2', elsewhere), sender: elsewhere })])
  t.strictSame([short.view.size(), foreign.view.size()], [1, 1], 'each holds what its own issuers can have issued')
  await until('it is asked for', async () =>
    readRecord(await server.command('HGET', RECORDS, k('u1')))?.parts[0]!.life === 100
  )
  short.close()
  long.close()
  foreign.close()
  const last = startInstance(t, server.port, { issuers: [] })
  await last.loaded()
  await until('what is over is removed, also of issuers that nobody has', async () =>
    await server.command('HEXISTS', RECORDS, k('u2', elsewhere)) === '0'
  )
  t.equal(await server.command('HEXISTS', RECORDS, k('u1')), '1')
})

t.test('Known names with rising moments take one record each', { skip: skipRedis }, async t => {
  const server = await startRedis(t)
  const one = startInstance(t, server.port)
  await one.loaded()
  const at = now()
  for (let n = 0; n < 50; n++) {
    await one.append(Array.from({ length: 100 }, (_, i) => entry(`u${i}`, { at: at + n })))
  }
  t.equal(await server.command('HLEN', RECORDS), '100')
  await until('changes that all have read are gone', async () => Number(await server.command('XLEN', CHANGES)) < 200)
})

t.test('An event that is acknowledged stands when the one that alone knew of an undo comes back', {
  skip: skipRedis
}, async t => {
  const server = await startRedis(t)
  const relays = await Promise.all([startRelay(t), startRelay(t)])
  await Promise.all(relays.map(relay => relay.use(toPort(server.port))))
  const [one, two] = relays.map(({ port }) => startInstance(t, port)) as [
    ReturnType<typeof startInstance>,
    ReturnType<typeof startInstance>
  ]
  await Promise.all([one.loaded(), two.loaded()])
  await one.append(['again', 'undone'].map(sub => entry(sub, { effect: 'block' })))
  await until('both know it', () => two.isRevoked('again') && two.isRevoked('undone'))
  await server.command('SAVE')
  await relays[1]!.stop()
  await one.append(['again', 'undone'].map(sub => entry(sub, { effect: 'undo', event: 'operator' })))
  await relays[0]!.stop()
  await server.kill()
  await server.start()
  await relays[1]!.restart()
  // As long as an instance is waited for at least: the store counts in seconds.
  await delay(2000)
  await until('it is acknowledged', () => two.append([entry('again')]).then(() => true, () => false))
  t.strictSame(['again', 'undone'].map(two.isRevoked), [true, true], 'nobody else knows of the undo')
  await relays[0]!.restart()
  await until('the undo is heard', () => !two.isRevoked('undone') && one.isRevoked('again'))
  t.strictSame([one, two].map(({ isRevoked }) => ['again', 'undone'].map(isRevoked)), [[true, false], [true, false]])
})

t.test('An instance passes its own rows only if it has read all before them', { skip: skipRedis }, async t => {
  const redis = new Redis((await startRedis(t)).port)
  t.teardown(() => redis.disconnect())
  const text = writeRecord(recordOf(entry('u'), { heard: 1, life: 100, now: 1 }))
  const names = [STATE, INSTANCES, RESTORING, CHANGES]
  const merge = async (who: string, sub: string, place: string): Promise<string> => {
    const args = [who, 1, 2, 'c', 0, 'c', '', place, 'event', k(sub), text]
    const [, passed] = await redis.eval(MERGE, 5, ...names, RECORDS, ...args) as [number, string]
    return passed
  }
  for (const who of ['me', 'other']) await redis.eval(READ, 4, ...names, who, -1, 1, 'c', 0, 'c', '$', 1000, '')
  await merge('other', 'u1', '0-0')
  t.equal(await merge('me', 'u2', '0-0'), '', 'it has not read what the other has written')
  const last = await redis.hget(STATE, 'last') as string
  t.not(await merge('me', 'u3', last), '', 'the twin')
  const [, , , , , , , place, , ...news] = await redis.eval(READ, 4, ...names, 'me', 2, 3, 'c', 0, 'c', '0-0', 9, '') as
    string[]
  t.strictSame([place, news], [await redis.hget(STATE, 'last'), [k('u1'), text]])
})
