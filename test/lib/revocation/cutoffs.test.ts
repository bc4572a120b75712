import fc from 'fast-check'
import t from 'tap'
import { createCutoffs } from '../../../lib/revocation/cutoffs.ts'
import type { RevocationFacts } from '../../../lib/revocation/target.ts'
import { keyOf } from '../../../lib/revocation/target.ts'
import type { RevocationEntry } from '../../../lib/revocation/log.ts'

const NOW = 1_800_000_000
const KEY = keyOf(['sub', 'https://issuer.example/', 'u1'])

const entry = (given: Partial<RevocationEntry> = {}): RevocationEntry => ({ key: KEY, effect: 'cutoff', at: NOW, recordedAt: NOW, event: 'session-revoked', source: 'https://transmitter.example', sender: 'https://issuer.example', standing: 'issuer', ...given })
const facts = (given: Partial<RevocationFacts> = {}): RevocationFacts => ({ keys: [KEY], issuedAt: NOW - 10, loginAt: undefined, ...given })
const position = (count: number): string => String(count).padStart(16, '0')

function view (given: { max?: number, retentionSeconds?: number, now?: () => number } = {}) {
  const cutoffs = createCutoffs({ max: 100, retentionSeconds: 100, now: () => NOW, ...given })
  let count = 0
  return { ...cutoffs, take: (...entries: RevocationEntry[]) => entries.forEach(one => cutoffs.apply(one, position(++count))) }
}

t.test('A token is refused if its iat is not after the cutoff, in whole seconds', async t => {
  const { take, revocationOf } = view()
  take(entry({ at: NOW - 5.5 }))
  const rows = [
    { issuedAt: NOW - 7, isRevoked: true },
    { issuedAt: NOW - 6, isRevoked: true },
    { issuedAt: NOW - 5.2, isRevoked: true },
    { issuedAt: NOW - 5, isRevoked: false },
    { issuedAt: NOW, isRevoked: false },
    { issuedAt: undefined, isRevoked: true }
  ]
  for (const { issuedAt, isRevoked } of rows) t.equal(revocationOf(facts({ issuedAt })) !== undefined, isRevoked, `iat ${issuedAt}`)
  t.equal(revocationOf(facts({ keys: [keyOf(['sub', 'https://issuer.example/', 'u2'])] })), undefined, 'another user')
  t.strictSame(revocationOf(facts({ keys: ['other', KEY] })), { event: 'session-revoked', source: 'https://transmitter.example', at: NOW - 5.5 }, 'it names the event')
})

t.test('Each key is restored to a store in its current state, and nothing twice', async t => {
  const { take, entries } = view()
  take(entry({ effect: 'login' }), entry({ key: 'ended', effect: 'end' }), entry({ key: 'both', effect: 'login', at: NOW - 5 }), entry({ key: 'both' }))
  t.strictSame(entries(), [entry({ effect: 'login' }), entry({ key: 'ended', effect: 'end' }), entry({ key: 'both' }), entry({ key: 'both', effect: 'login', at: NOW - 5 })])
})

t.test('A cutoff of logins refuses tokens of an earlier login, whenever they were issued', async t => {
  const { take, revocationOf } = view()
  take(entry({ effect: 'login', at: NOW }))
  t.ok(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW - 100 })))
  t.ok(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW })))
  t.notOk(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW + 1 })))
  t.notOk(revocationOf(facts({ issuedAt: NOW + 5 })), 'a token without auth_time is judged by its iat')
  const plain = view()
  plain.take(entry({ at: NOW }))
  t.notOk(plain.revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW - 100 })), 'a plain cutoff requires no login')
})

t.test('An ended session refuses tokens whatever their iat, until the retention is over', async t => {
  let now = NOW
  const { take, revocationOf, size } = view({ now: () => now })
  take(entry({ effect: 'end' }))
  t.ok(revocationOf(facts({ issuedAt: NOW + 50 })))
  now = NOW + 99.9
  t.ok(revocationOf(facts({ issuedAt: NOW + 50 })))
  now = NOW + 100
  t.notOk(revocationOf(facts({ issuedAt: NOW + 50 })))
  take(entry({ key: 'another', recordedAt: now }))
  t.equal(size(), 1, 'what is over is forgotten')
  take(entry({ recordedAt: NOW }))
  t.equal(size(), 1, 'what was over before it came is not taken in')
})

t.test('A block refuses every token until the account is enabled; the later moment holds, in any order', async t => {
  const block = entry({ effect: 'block', at: NOW - 20 })
  const enable = entry({ effect: 'enable', at: NOW - 10 })
  const again = entry({ effect: 'block', at: NOW - 5 })
  const rows = [
    { entries: [block], isRevoked: true },
    { entries: [block, enable], isRevoked: false },
    { entries: [enable, block], isRevoked: false },
    { entries: [enable], isRevoked: false },
    { entries: [block, enable, again], isRevoked: true },
    { entries: [again, enable, block], isRevoked: true },
    { entries: [block, entry({ effect: 'enable', at: NOW - 20 })], isRevoked: true, why: 'at the same moment it stays blocked' },
    { entries: [entry(), block, enable], isRevoked: true, why: 'a cutoff stays' }
  ]
  for (const { entries, isRevoked, why } of rows) {
    const { take, revocationOf } = view()
    take(...entries)
    t.equal(revocationOf(facts()) !== undefined, isRevoked, why ?? entries.map(({ effect }) => effect).join(', '))
  }
  let now = NOW
  const old = view({ now: () => now })
  old.take(block)
  now = NOW + 1e6
  old.take(entry({ key: 'another', recordedAt: now }))
  t.ok(old.revocationOf(facts({ issuedAt: now })), 'a block outlives the retention')
})

t.test('An undo removes what came before it, and a later event takes effect again', async t => {
  const cutoffs = createCutoffs({ max: 10, retentionSeconds: 100, now: () => NOW })
  cutoffs.apply(entry(), position(1))
  cutoffs.apply(entry({ effect: 'block' }), position(2))
  cutoffs.apply(entry({ effect: 'undo' }), position(3))
  t.notOk(cutoffs.revocationOf(facts()))
  cutoffs.apply(entry(), position(1))
  t.notOk(cutoffs.revocationOf(facts()), 'the log is read again')
  cutoffs.apply(entry(), position(4))
  t.ok(cutoffs.revocationOf(facts()), 'a later event')
  cutoffs.apply(entry({ effect: 'undo' }), position(3))
  t.ok(cutoffs.revocationOf(facts()), 'an undo that comes late')
})

t.test('An undo is forgotten after the retention, also behind an older one that was repeated', async t => {
  let now = NOW
  const cutoffs = createCutoffs({ max: 10, retentionSeconds: 100, now: () => now })
  const other = keyOf(['sub', 'https://issuer.example/', 'u2'])
  cutoffs.apply(entry({ effect: 'undo', key: other }), position(3))
  cutoffs.apply(entry({ effect: 'undo', recordedAt: NOW + 1 }), position(4))
  cutoffs.apply(entry({ effect: 'undo', key: other, recordedAt: NOW + 50 }), position(5))
  now = NOW + 101
  cutoffs.apply(entry({ effect: 'undo', key: other, recordedAt: now }), position(6))
  cutoffs.apply(entry({ recordedAt: now }), position(4))
  t.ok(cutoffs.revocationOf(facts()))
})

t.test('The number of keys is limited, and a known key needs no room', async t => {
  const { take, hasRoom, size, entries } = view({ max: 2 })
  take(entry({ key: 'a' }), entry({ key: 'b', effect: 'block' }))
  t.equal(hasRoom(['a']), true)
  t.equal(hasRoom(['b']), true)
  t.equal(hasRoom(['c']), false)
  take(entry({ key: 'c' }))
  t.equal(size(), 3, 'what another instance has stored is taken all the same')
  t.strictSame(entries(), [entry({ key: 'a' }), entry({ key: 'c' }), entry({ key: 'b', effect: 'block' })], 'and given to a store that has lost them')
})

t.test('A lifted block frees its room after the retention of a cutoff, and an active one does not', async t => {
  const clock = { now: NOW }
  const cutoffs = createCutoffs({ max: 2, retentionSeconds: 100, now: () => clock.now })
  cutoffs.apply(entry({ key: 'a', effect: 'block', at: NOW - 2, recordedAt: NOW - 2 }), position(1))
  cutoffs.apply(entry({ key: 'a', effect: 'enable', at: NOW - 1 }), position(2))
  cutoffs.apply(entry({ key: 'b', effect: 'block' }), position(3))
  t.equal(cutoffs.hasRoom(['c']), false)
  clock.now += 99
  t.equal(cutoffs.hasRoom(['c']), false, 'the time is that of the later entry')
  clock.now += 2
  t.strictSame([cutoffs.hasRoom(['c', 'd']), cutoffs.size()], [false, 1])
  t.equal(cutoffs.hasRoom(['c']), true)
  t.ok(cutoffs.revocationOf(facts({ keys: ['b'] })), 'it is not forgotten')
})

const effects = fc.constantFrom('cutoff', 'login', 'end', 'block', 'enable' as const)
const someEntry = fc.record({ effect: effects, at: fc.integer({ min: NOW - 50, max: NOW }), key: fc.constantFrom('a', 'b') })
  .map(given => entry(given as Partial<RevocationEntry>))

t.test('Repeats and any order of entries give the same answers, and so do the entries of a view', async t => {
  const answers = (cutoffs: Pick<ReturnType<typeof createCutoffs>, 'revocationOf'>): boolean[] =>
    [NOW - 60, NOW - 25, NOW - 1, NOW + 1].flatMap(issuedAt => [undefined, NOW - 30, NOW].flatMap(loginAt => ['a', 'b'].map(key => cutoffs.revocationOf({ keys: [key], issuedAt, loginAt }) !== undefined)))
  fc.assert(fc.property(fc.array(someEntry, { maxLength: 12 }), fc.infiniteStream(fc.nat()), (entries, numbers) => {
    const once = view()
    once.take(...entries)
    const shuffled = [...entries, ...entries].map(one => ({ one, rank: numbers.next().value as number })).sort((a, b) => a.rank - b.rank).map(({ one }) => one)
    const again = view()
    again.take(...shuffled)
    const restored = view()
    restored.take(...once.entries())
    t.strictSame(answers(again), answers(once))
    t.strictSame(answers(restored), answers(once))
  }))
})
