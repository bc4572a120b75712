import fc from 'fast-check'
import t from 'tap'
import { createCutoffs } from '../../../lib/revocation/cutoffs.ts'
import type { CutoffsOptions } from '../../../lib/revocation/cutoffs.ts'
import type { RevocationFacts } from '../../../lib/revocation/target.ts'
import { keyOf } from '../../../lib/revocation/target.ts'
import type { RevocationEntry } from '../../../lib/revocation/log.ts'

const NOW = 1_800_000_000
const TOLERANCE = 5
const A = 'https://a.example'
const B = 'https://b.example'
const KEY = keyOf(['sub', A, 'u1'])

const entry = (given: Partial<RevocationEntry> = {}): RevocationEntry => ({
  key: KEY,
  effect: 'cutoff',
  at: NOW,
  recordedAt: NOW,
  event: 'session-revoked',
  source: A,
  sender: A,
  standing: 'issuer',
  ...given
})
const facts = (given: Partial<RevocationFacts> = {}): RevocationFacts => ({
  keys: [KEY],
  issuedAt: NOW - 10,
  loginAt: undefined,
  ...given
})

/** Lives end after 110 seconds: 100 and a tenth. */
function view (given: Partial<CutoffsOptions> = {}) {
  const clock = { now: NOW, ms: 0 }
  const cutoffs = createCutoffs({
    max: 100,
    issuers: [A],
    retentionSeconds: 100,
    clockToleranceSeconds: TOLERANCE,
    now: () => clock.now,
    steadyMs: () => clock.ms,
    ...given
  })
  let place = 0
  return {
    ...cutoffs,
    clock,
    take: (...entries: RevocationEntry[]) => entries.forEach(one => cutoffs.apply(one, 0, ++place)),
    hasRoom (entries: readonly RevocationEntry[]): boolean {
      const release = cutoffs.reserve(entries)
      release?.()
      return release !== undefined
    },
    kept: (after = -1, upTo = Infinity) => [...cutoffs.held(after, upTo)].map(({ entry }) => entry),
    pass (seconds: number) {
      clock.now += seconds
      clock.ms += seconds * 1000
    }
  }
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
    { issuedAt: undefined, isRevoked: true },
    { issuedAt: NOW + TOLERANCE, isRevoked: false },
    { issuedAt: NOW + TOLERANCE + 1, isRevoked: true },
    { issuedAt: NOW * 1000, isRevoked: true }
  ]
  for (const { issuedAt, isRevoked } of rows) {
    t.equal(revocationOf(facts({ issuedAt })) !== undefined, isRevoked, `iat ${issuedAt}`)
  }
  t.equal(revocationOf(facts({ keys: [keyOf(['sub', A, 'u2'])] })), undefined, 'another user')
  t.equal(
    revocationOf(facts({ keys: [keyOf(['sub', A, 'u2'])], issuedAt: NOW * 1000 })),
    undefined,
    'another user, in milliseconds'
  )
  t.strictSame(
    revocationOf(facts({ keys: ['other', KEY] })),
    { event: 'session-revoked', source: A, at: NOW - 6 },
    'it names the event'
  )
})

t.test('A provider whose clock is ahead has its own moment; that of any other sender has the tolerance added', async t => {
  for (
    const [standing, last] of [['issuer', NOW + 2], ['operator', NOW + 2 + TOLERANCE], [
      'other',
      NOW + 2 + TOLERANCE
    ]] as const
  ) {
    const { take, revocationOf, pass } = view()
    take(entry({ at: NOW + 2, standing }))
    pass(TOLERANCE + 3)
    t.strictSame(
      [
        revocationOf(facts({ issuedAt: last })) !== undefined,
        revocationOf(facts({ issuedAt: last + 1 })) !== undefined
      ],
      [true, false],
      standing
    )
  }
})

t.test('Each key is restored to a store in its current state, by one entry', async t => {
  const { take, kept } = view()
  take(
    entry({ effect: 'login' }),
    entry({ key: 'ended', effect: 'end' }),
    entry({ key: 'both', effect: 'login', at: NOW - 5, standing: 'other' }),
    entry({ key: 'both', standing: 'other' })
  )
  take(
    entry({ key: 'plain' }),
    entry({ key: 'lifted', effect: 'block', at: NOW - 9 }),
    entry({ key: 'lifted', effect: 'enable', at: NOW - 4, event: 'account-enabled' }),
    entry({ key: 'enabled', effect: 'enable' }),
    entry({ key: 'blocked', effect: 'block' }),
    entry({ key: 's', effect: 'state', event: 'paused' })
  )
  t.strictSame(kept(), [
    entry({ effect: 'login' }),
    entry({ key: 'ended', effect: 'end' }),
    entry({ key: 'both', also: NOW - 5, standing: 'other' }),
    entry({ key: 'plain' }),
    entry({ key: 'lifted', effect: 'block', at: NOW - 9, also: NOW - 4 }),
    entry({ key: 'enabled', effect: 'enable' }),
    entry({ key: 'blocked', effect: 'block' }),
    entry({ key: 's', effect: 'state', event: 'paused' })
  ])
})

t.test('1,000 states are held, and each of them can change', async t => {
  const { take, heldOf } = view()
  take(
    ...Array.from({ length: 1001 }, (_, n) => entry({ key: `s${n}`, effect: 'state', event: 'enabled' })),
    entry({ key: 's0', effect: 'state', event: 'paused' })
  )
  t.strictSame(['s0', 's999', 's1000'].map(key => heldOf(key).map(({ entry }) => entry.event)), [['paused'], [
    'enabled'
  ], []])
})

t.test('A state that comes late does not replace a later one', async t => {
  const { take, heldOf } = view()
  const state = (event: string, at: number): RevocationEntry => entry({ key: 's', effect: 'state', event, at })
  take(state('enabled', NOW), state('paused', NOW - 1))
  t.strictSame(heldOf('s').map(held => held.entry.event), ['enabled'])
  take(state('disabled', NOW))
  t.strictSame(heldOf('s').map(held => held.entry.event), ['disabled'])
})

t.test('What has been changed at some places of the log is known, and can be forgotten', async t => {
  const { take, apply, kept, heldOf, dropUpTo, size, isChange } = view()
  take(
    entry({ key: 'a' }),
    entry({ key: 'b', effect: 'block' }),
    entry({ key: 's', effect: 'state' }),
    entry({ key: 'c' })
  )
  t.strictSame([kept(1, 3).map(({ key }) => key), kept(3, 4).map(({ key }) => key)], [['b', 's'], ['c']])
  apply(entry({ key: 'a', at: NOW - 1 }), 0, 5)
  t.strictSame(kept(4, 5), [], 'an older moment says nothing new')
  apply(entry({ key: 'a' }), 0, 6)
  t.strictSame(kept(4, 6).map(({ key }) => key), ['a'], 'the same again says all')
  apply(entry({ key: 'a', at: NOW + 1 }), 0, 0)
  t.strictSame(kept(-1, 0).map(({ key }) => key), ['a'], 'what is news is to be written, wherever it was')
  t.strictSame(['b', 's', 'c', 'none'].map(key => heldOf(key).length), [1, 1, 1, 0])
  const [held] = heldOf('c')
  take(entry({ key: 'c', effect: 'undo' }))
  t.equal(held!.merged.place, Infinity, 'whoever is about to write it again sees that it is gone')
  dropUpTo(3)
  t.strictSame([size(), isChange(entry({ key: 'b', effect: 'block' }))], [0, true])
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
  const { take, revocationOf, size, pass, apply, sweep } = view()
  take(entry({ effect: 'end' }))
  t.ok(revocationOf(facts({ issuedAt: NOW })))
  pass(109.9)
  t.ok(revocationOf(facts({ issuedAt: NOW + 50 })))
  pass(0.1)
  t.notOk(revocationOf(facts({ issuedAt: NOW + 50 })))
  take(entry({ key: 'another' }))
  sweep()
  t.equal(size(), 1, 'what is over is forgotten')
  apply(entry({ effect: 'end' }), 110, 9)
  t.equal(size(), 1, 'what was over before it came is not taken in')
  apply(entry({ effect: 'end' }), 109, 9)
  t.equal(size(), 2)
})

t.test('Nothing is forgotten, and nothing is kept from being revoked, when our clock leaps', async t => {
  for (const leap of [2 * 86_400, -2 * 86_400]) {
    const { take, revocationOf, clock, size, sweep } = view()
    take(entry({ effect: 'end' }), entry({ key: 'a' }))
    clock.now += leap
    take(entry({ key: 'b', effect: 'end' }))
    sweep()
    clock.now -= leap
    sweep()
    t.strictSame([size(), ...[KEY, 'a', 'b'].map(key => revocationOf(facts({ keys: [key] })) !== undefined)], [
      3,
      true,
      true,
      true
    ])
  }
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
    {
      entries: [block, entry({ effect: 'enable', at: NOW - 20 })],
      isRevoked: true,
      why: 'at the same moment it stays blocked'
    },
    {
      entries: [block, entry({ effect: 'enable', at: NOW + TOLERANCE })],
      isRevoked: false,
      why: 'within the tolerance'
    },
    { entries: [block, entry({ effect: 'enable', at: NOW + 3600 })], isRevoked: true, why: 'not before its time' },
    { entries: [entry(), block, enable], isRevoked: true, why: 'a cutoff stays' }
  ]
  for (const { entries, isRevoked, why } of rows) {
    const { take, revocationOf } = view()
    take(...entries)
    t.equal(revocationOf(facts()) !== undefined, isRevoked, why ?? entries.map(({ effect }) => effect).join(', '))
  }
  const old = view()
  old.take(block, entry({ key: 'lifted', effect: 'block', at: NOW - 2 }), entry({ key: 'lifted', effect: 'enable' }))
  old.pass(1e6)
  old.sweep()
  t.ok(old.revocationOf(facts({ issuedAt: old.clock.now })), 'a block outlives the retention')
  t.equal(old.size(), 1, 'one that was lifted does not')
})

t.test('An undo removes what came before it, and leaves nothing; a later event takes effect again', async t => {
  const { take, revocationOf, size, isChange, version } = view()
  take(entry(), entry({ effect: 'block' }))
  t.equal(isChange(entry({ effect: 'undo' })), true)
  take(entry({ effect: 'undo' }))
  t.notOk(revocationOf(facts()))
  t.strictSame([size(), isChange(entry({ effect: 'undo' }))], [0, false])
  const before = version()
  take(entry({ effect: 'undo' }))
  t.equal(version(), before)
  take(entry())
  t.ok(revocationOf(facts()), 'a later event')
})

t.test('What changes nothing is no news', async t => {
  const rows: ReadonlyArray<{ known: Partial<RevocationEntry>, again: Partial<RevocationEntry>, isChange: boolean }> = [
    { known: {}, again: {}, isChange: false },
    { known: {}, again: { at: NOW - 1, event: 'other' }, isChange: false },
    { known: {}, again: { at: NOW + 0.5 }, isChange: false },
    { known: {}, again: { at: NOW + 1 }, isChange: true },
    { known: {}, again: { standing: 'other' }, isChange: true },
    { known: { standing: 'other' }, again: { at: NOW + TOLERANCE }, isChange: false },
    { known: {}, again: { effect: 'login' }, isChange: true },
    { known: { effect: 'login' }, again: {}, isChange: false },
    { known: { effect: 'end' }, again: { effect: 'end', at: NOW + 1 }, isChange: false },
    { known: {}, again: { effect: 'end' }, isChange: true },
    { known: {}, again: { effect: 'block' }, isChange: true },
    { known: { effect: 'block' }, again: { effect: 'block', at: NOW - 1 }, isChange: false },
    { known: { effect: 'block' }, again: { effect: 'enable', at: NOW - 1 }, isChange: true },
    { known: { effect: 'enable' }, again: { effect: 'enable' }, isChange: false },
    { known: { effect: 'state', event: 'paused' }, again: { effect: 'state', event: 'paused' }, isChange: false },
    { known: { effect: 'state', event: 'paused' }, again: { effect: 'state', event: 'enabled' }, isChange: true },
    {
      known: { effect: 'state', event: 'paused' },
      again: { effect: 'state', event: 'paused', at: NOW + 1 },
      isChange: true
    },
    {
      known: { effect: 'state', event: 'paused' },
      again: { effect: 'state', event: 'enabled', at: NOW - 1 },
      isChange: false
    }
  ]
  for (const { known, again, isChange } of rows) {
    const cutoffs = view()
    cutoffs.take(entry(known))
    const before = cutoffs.version()
    t.equal(cutoffs.isChange(entry(again)), isChange, JSON.stringify([known, again]))
    if (!isChange) cutoffs.take(entry(again))
    if (!isChange) t.equal(cutoffs.version(), before)
  }
})

t.test('An event that happened later than the first was learned is kept for as long again', async t => {
  const { take, isChange, pass, revocationOf, clock } = view()
  take(entry({ effect: 'end' }))
  pass(9)
  t.equal(
    isChange(entry({ effect: 'end', at: clock.now })),
    false,
    'what it would outlive the first by is given to all'
  )
  pass(51)
  t.equal(isChange(entry({ effect: 'end' })), false, 'the same event')
  const later = entry({ effect: 'end', at: clock.now })
  t.equal(isChange(later), true)
  take(later)
  pass(100)
  t.ok(revocationOf(facts({ issuedAt: NOW })))
})

t.test('A million senders and streams leave nothing that grows', async t => {
  const { take, kept } = view({ max: 10_000 })
  for (let n = 0; n < 1100; n++) {
    take(entry({ key: `k${n}`, source: `s${n}` }), entry({ key: `stream ${n}`, effect: 'state' }))
  }
  t.equal(kept().filter(({ effect }) => effect === 'state').length, 1000)
  t.strictSame(kept()[1099], entry({ key: 'k1099', source: 's1099' }))
})

t.test('One half of each table is kept for the issuers in equal parts, and nobody takes the part of another', async t => {
  const issuers = [A, B]
  const named = (count: number, given: Partial<RevocationEntry>): RevocationEntry[] =>
    Array.from(
      { length: count },
      (_, n) => entry({ key: `${given.sender} ${given.standing} ${given.effect} ${n}`, ...given })
    )
  for (const effect of ['cutoff', 'block'] as const) {
    const { take, hasRoom, size } = view({ issuers })
    const of = (count: number, sender: string, standing: RevocationEntry['standing']): RevocationEntry[] =>
      named(count, { sender, standing, effect })
    t.strictSame([hasRoom(of(25, 'https://t.example', 'other')), hasRoom(of(26, 'https://t.example', 'other'))], [
      true,
      false
    ], 'a quarter for a sender that is not the issuer')
    take(...of(25, 'https://t.example', 'other'))
    t.equal(hasRoom(of(25, 'https://t.example', 'other')), true, 'known keys need no room')
    t.equal(hasRoom(of(26, 'https://t.example', 'other')), false)
    t.strictSame(
      [hasRoom(of(50, A, 'issuer')), hasRoom(of(51, A, 'issuer'))],
      [true, false],
      'a part, and what the others have left of the other half'
    )
    take(...of(50, A, 'issuer'))
    t.strictSame(
      [hasRoom(of(1, 'https://u.example', 'other')), hasRoom(of(51, A, 'operator')), hasRoom(of(1, B, 'other'))],
      [false, false, false],
      'the other half is used up'
    )
    t.strictSame([hasRoom(of(25, B, 'issuer')), hasRoom(of(25, B, 'operator')), hasRoom(of(26, B, 'issuer'))], [
      true,
      true,
      false
    ], 'the part of the other issuer is there')
    t.equal(hasRoom([entry({ effect: 'undo' }), entry({ effect: 'state' })]), true, 'an undo needs no room')
    t.equal(
      hasRoom(
        named(25, { sender: 'https://t.example', standing: 'other', effect: effect === 'cutoff' ? 'block' : 'cutoff' })
      ),
      true,
      'the other table is free'
    )
    t.equal(size(), 75)
    take(...of(30, B, 'issuer'))
    t.equal(size(), 105, 'what another instance has stored is taken all the same')
    take(...of(25, 'https://t.example', 'other').map(one => ({ ...one, effect: 'undo' as const })))
    t.equal(hasRoom(of(15, 'https://u.example', 'other')), true, 'what was undone is free again')
  }
})

t.test(
  "Room that is kept for entries on their way is nobody else's, in each table, and none is kept where they do not fit",
  async t => {
    const { take, hasRoom, reserve } = view()
    const of = (count: number, effect: RevocationEntry['effect'] = 'cutoff', name = ''): RevocationEntry[] =>
      Array.from(
        { length: count },
        (_, n) => entry({ key: `${name} ${n}`, sender: 'https://t.example', standing: 'other', effect })
      )
    const releases = [reserve(of(20))!, reserve(of(25, 'block'))!]
    t.strictSame([hasRoom(of(5)), hasRoom(of(6)), hasRoom(of(1, 'block'))], [true, false, false])
    t.equal(reserve(of(6)), undefined)
    t.equal(hasRoom(of(5)), true)
    take(...of(20))
    releases.forEach(release => release())
    t.strictSame([hasRoom(of(5, 'cutoff', 'other')), hasRoom(of(6, 'cutoff', 'other')), hasRoom(of(25, 'block'))], [
      true,
      false,
      true
    ])
  }
)

t.test('A key counts for the sender that named it first', async t => {
  const { take, hasRoom } = view({ issuers: [A, B] })
  take(...Array.from({ length: 25 }, (_, n) => entry({ key: `k${n}`, sender: 'https://t.example', standing: 'other' })))
  take(...Array.from({ length: 25 }, (_, n) => entry({ key: `k${n}`, at: NOW + 1 })))
  t.equal(hasRoom(Array.from({ length: 50 }, (_, n) => entry({ key: `own ${n}` }))), true)
  t.equal(hasRoom([entry({ key: 'new', sender: 'https://t.example', standing: 'other' })]), false)
})

t.test(
  'Where the application keeps the list of issuers, those that hold a key divide the half; one that is no longer ' +
    'listed has no part',
  async t => {
    const of = (count: number, sender: string): RevocationEntry[] =>
      Array.from({ length: count }, (_, n) => entry({ key: `${sender} ${n}`, sender }))
    const open = view({ issuers: undefined })
    t.equal(open.hasRoom(of(100, A)), true)
    open.take(...of(75, A))
    t.strictSame([open.hasRoom(of(25, B)), open.hasRoom(of(26, B))], [true, false])
    open.take(...of(25, B))
    t.equal(open.hasRoom(of(26, B)), false)
    t.equal(open.hasRoom([entry({ key: 'x', sender: 'https://t.example', standing: 'other' })]), false)
    const closed = view({ issuers: [A] })
    t.strictSame([closed.hasRoom(of(25, B)), closed.hasRoom(of(26, B))], [true, false])
    t.equal(view({ issuers: [] }).hasRoom(of(26, B)), false)
  }
)

t.test('What is over makes room, in small steps', async t => {
  const { take, hasRoom, pass, size } = view({ max: 100 })
  take(...Array.from({ length: 100 }, (_, n) => entry({ key: `k${n}` })))
  t.equal(hasRoom([entry({ key: 'new' })]), false)
  pass(111)
  t.equal(hasRoom([entry({ key: 'new' })]), true)
  t.equal(size(), 0)
})

const effects = fc.constantFrom('cutoff', 'login', 'end', 'block', 'enable' as const)
const someEntry = fc.record({
  effect: effects,
  at: fc.integer({ min: NOW - 50, max: NOW }),
  key: fc.constantFrom('a', 'b'),
  standing: fc.constantFrom('issuer', 'other')
})
  .map(given => entry(given as Partial<RevocationEntry>))

t.test('Repeats and any order of entries give the same answers, and so do the entries of a view', async t => {
  const answers = (cutoffs: Pick<ReturnType<typeof createCutoffs>, 'revocationOf'>): boolean[] =>
    [NOW - 60, NOW - 25, NOW - 1, NOW + 1].flatMap(issuedAt =>
      [undefined, NOW - 30, NOW].flatMap(loginAt =>
        ['a', 'b'].map(key => cutoffs.revocationOf({ keys: [key], issuedAt, loginAt }) !== undefined)
      )
    )
  fc.assert(fc.property(fc.array(someEntry, { maxLength: 12 }), fc.infiniteStream(fc.nat()), (entries, numbers) => {
    const once = view()
    once.take(...entries)
    const shuffled = [...entries, ...entries].map(one => ({ one, rank: numbers.next().value as number })).sort((a, b) =>
      a.rank - b.rank
    ).map(({ one }) => one)
    const again = view()
    again.take(...shuffled)
    const restored = view()
    restored.take(...once.kept())
    const frugal = view()
    for (const one of shuffled) if (frugal.isChange(one)) frugal.take(one)
    t.strictSame(answers(again), answers(once))
    t.strictSame(answers(restored), answers(once))
    t.strictSame(answers(frugal), answers(once))
  }))
})
