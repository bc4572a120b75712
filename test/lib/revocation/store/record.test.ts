import assert from 'node:assert/strict'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t from 'tap'
import type { RevocationEffect } from '../../../../lib/revocation/entry.ts'
import {
  isRecordOver,
  KINDS,
  mergeInto,
  mergeRecords,
  readRecord,
  recordOf,
  writeRecord,
  type MergeMode,
  type RevocationRecord
} from '../../../../lib/revocation/store/record.ts'
import * as scripts from '../../../../lib/revocation/store/scripts.ts'
import { skipRedis, startRedis } from '../../../helpers/redis.ts'

/** Later than the clock of any server, which takes part in what operators say. */
const LATER_MS = 9_000_000_000_000
const CLOCK = 1000
const RUNS = Number(process.env['FC_RUNS'] ?? 200)
const SEED = Number(process.env['FC_SEED'] ?? 9449)

const part = fc.record({
  kind: fc.constantFrom(...KINDS),
  at: fc.integer({ min: LATER_MS, max: LATER_MS + 3 }),
  heard: fc.integer({ min: CLOCK - 3, max: CLOCK }),
  life: fc.constantFrom(1, 100),
  origin: fc.constantFrom('logout\thttps://t.example', 'logout\té\u{1F600}', 'operator\t', 'operator\t/')
}, { noNullPrototype: true })
const someRecord: fc.Arbitrary<RevocationRecord> = fc.record({
  holder: fc.constantFrom('', '* https://t.example', 'https://u.example'),
  since: fc.integer({ min: 1, max: 2 }),
  parts: fc.uniqueArray(part, { selector: ({ kind }) => kind, minLength: 1, maxLength: 4 }).map(parts =>
    [...parts].sort((a, b) => a.kind < b.kind ? -1 : 1)
  )
}, { noNullPrototype: true })

t.test('Records merge to the same in any order, and a repeat changes nothing', async t => {
  t.doesNotThrow(() => fc.assert(fc.property(someRecord, someRecord, someRecord, (a, b, c) => {
    assert.deepEqual(mergeRecords(a, b), mergeRecords(b, a))
    const undone = Math.max(...[a, b, c].flatMap(({ parts }) => parts.map(({ kind, heard }) => kind === 'u' ? heard : 0)))
    const orders = [mergeRecords(mergeRecords(a, b), c), mergeRecords(a, mergeRecords(b, c))] as const
    if (undone === 0) assert.deepEqual(...orders)
    for (const { kind, at, heard } of [a, b, c].flatMap(({ parts }) => parts)) {
      const isKept = orders.every(({ parts }) => parts.some(part => part.kind === kind && part.at >= at))
      assert.ok(isKept || heard <= undone, 'what arrived after each undo stands')
    }
    assert.deepEqual(mergeRecords(mergeRecords(a, b), b), mergeRecords(a, b))
    assert.deepEqual(readRecord(writeRecord(a)), a)
    assert.deepEqual(readRecord(writeRecord(readRecord(writeRecord(a), -7)!), 7), a)
  }), { seed: SEED, numRuns: RUNS }))
})

t.test('An undo ends what arrived before, and what arrived after it stands, whoever knows of them', async t => {
  const cutoff = { kind: 'c', at: LATER_MS, heard: CLOCK, life: 100, origin: 'logout\t' }
  const stored: RevocationRecord = { holder: '', since: 1, parts: [cutoff] }
  const undo: RevocationRecord = { holder: '', since: 1, parts: [{ ...cutoff, kind: 'u', heard: CLOCK - 2 }] }
  const undone = mergeInto(stored, undo, 'undo', { seconds: CLOCK, unixMs: LATER_MS })
  t.strictSame(undone.parts, [{ ...cutoff, kind: 'u', at: LATER_MS + 1 }])
  t.strictSame(mergeRecords(undone, stored), undone)
  const later = { ...stored, parts: [{ ...cutoff, at: 1, heard: CLOCK + 1 }] }
  for (const merged of [mergeRecords(undone, later), mergeRecords(later, undone)]) {
    t.strictSame(merged.parts, [...later.parts, ...undone.parts])
  }
})

const record = (...parts: Array<Partial<RevocationRecord['parts'][0]>>): RevocationRecord => ({
  holder: '',
  since: 1,
  parts: parts.map(given => ({ kind: 'c', at: 5000, heard: CLOCK, life: 10, origin: 'logout\t', ...given }))
})

t.test('An undo is kept for as long as what it ends, however far ahead that is dated', async t => {
  const at = 99_999_999_999_999
  const undo: RevocationRecord = { holder: '', since: 1, parts: [{ kind: 'u', at: 5000, heard: CLOCK, life: 10, origin: 'operator\t' }] }
  for (const ahead of [20_000, at]) {
    const stored = record({ kind: 'e', at: ahead })
    const undone = readRecord(writeRecord(mergeInto(stored, undo, 'undo', { seconds: CLOCK, unixMs: 5000 })))!
    t.strictSame(undone.parts.map(({ kind }) => kind), ['u'])
    for (const now of [ahead / 1000 + 9, ahead / 1000 + 11]) {
      t.equal(isRecordOver(undone, CLOCK + 99, now), isRecordOver(stored, CLOCK + 99, now))
    }
  }
})

t.test('The script that runs in Redis merges as the process does', { skip: skipRedis }, async t => {
  const { port } = await startRedis(t)
  const redis = new Redis(port)
  t.teardown(() => redis.disconnect())
  const { CHANGES, INSTANCES, MERGE, RECORDS, RESTORING, STATE } = scripts
  await redis.hset(STATE, { count: 'c', clock: String(CLOCK * 1000), epoch: 'e', floor: '0-0' })
  await redis.hset(INSTANCES, 'me', '0 0-0 0')
  const modes = fc.constantFrom<MergeMode>('event', 'operator', 'undo', 'restore')
  await t.resolves(fc.assert(
    fc.asyncProperty(fc.option(someRecord, { nil: undefined }), someRecord, modes, async (stored, given, mode) => {
      if (stored) await redis.hset(RECORDS, 'k', writeRecord(stored))
      else await redis.hdel(RECORDS, 'k')
      const text = writeRecord(given)
      const changes = await redis.xlen(CHANGES)
      const [length, , , answer] = await redis.eval(
        MERGE,
        5,
        STATE,
        INSTANCES,
        RESTORING,
        CHANGES,
        RECORDS,
        ...['me', 0, 1, 'c', 0, 'new', '', '0-0', mode, 'k', text]
      ) as [number, string, number, string | undefined]
      const merged = writeRecord(mergeInto(stored, given, mode, { seconds: CLOCK, unixMs: 0 }))
      const stands = await redis.hget(RECORDS, 'k')
      assert.equal(stands, merged)
      assert.equal(answer ?? text, merged)
      assert.equal(length - changes, stored && merged === writeRecord(stored) ? 0 : 1, 'a change is heard')
    }),
    { seed: SEED, numRuns: RUNS }
  ))
})

t.test('A record is over with its last part; a block lives until it is lifted', async t => {
  const rows: ReadonlyArray<readonly [RevocationRecord, number, number, boolean]> = [
    [record({}), CLOCK + 10, 2000, true],
    [record({}), CLOCK + 9, 2000, false],
    [record({}), CLOCK + 10, 14, false],
    [record({}), CLOCK + 10, 15, true],
    [record({}, { kind: 'e', heard: CLOCK + 1 }), CLOCK + 10, 2000, false],
    [record({ kind: 'b' }), CLOCK + 99, 2000, false],
    [record({ kind: 'b' }, { kind: 'n' }), CLOCK + 99, 2000, false],
    [record({ kind: 'b' }, { kind: 'n', at: 5001 }), CLOCK + 99, 2000, true],
    [record({ kind: 'b' }, { kind: 'n', at: 5001, heard: CLOCK + 90 }), CLOCK + 99, 2000, false],
    [record({ kind: 'n' }), CLOCK + 99, 2000, true]
  ]
  for (const [given, seconds, now, isOver] of rows) {
    t.equal(isRecordOver(given, seconds, now), isOver, JSON.stringify([given.parts, seconds, now]))
  }
})

t.test('News are kept for an hour at least, all else for as long as it is asked for', async t => {
  const lifeOf = (effect: RevocationEffect, life: number): number | undefined =>
    recordOf(
      { key: 'k https://i.example', effect, at: 1, event: 'logout', source: 's', sender: 's', standing: 'issuer' },
      { heard: 1, life, now: 1 }
    ).parts[0]?.life
  for (const [life, ofNews] of [[10, 3600], [3600, 3600], [86_400, 86_400]] as const) {
    t.equal(lifeOf('state', life), ofNews)
    t.equal(lifeOf('cutoff', life), life)
  }
})

t.test('A record that no instance can have written puts nothing before people', async t => {
  const text = writeRecord(record({}, { kind: 'e' }))
  t.ok(readRecord(text))
  const news = writeRecord(record({ kind: 's', origin: `asked ${'aZ_-'.repeat(4)}\thttps://t.example` }))
  t.ok(readRecord(news))
  const wrong = [
    '',
    '{}',
    'x',
    `${'h'.repeat(601)}\t1`,
    text.replace('logout', '<b>'),
    text.replace('logout', 'a'.repeat(65)),
    text.replace('5000', '1e999'),
    text.replace('\t1\n', '\t1x\n'),
    text.replace('\t1\n', '\t\n'),
    text.replace('5000', '-1'),
    text.replace('\t10\t', '\tx\t'),
    text.replace('\ne', '\nc'),
    text.replace('\ne', '\nx'),
    `${text}s`.repeat(2),
    text + 's'.repeat(601)
  ]
  for (const each of wrong) t.equal(readRecord(each), undefined, each.slice(0, 80))
})
