import fc from 'fast-check'
import t from 'tap'
import type { RevocationEntry } from '../../../lib/revocation/entry.ts'
import { createMemoryStore } from '../../../lib/revocation/store/memory-store.ts'
import {
  KINDS,
  readRecord,
  recordOf,
  writeRecord,
  type RevocationRecord
} from '../../../lib/revocation/store/record.ts'
import { keyOf, type RevocationFacts } from '../../../lib/revocation/target.ts'
import { createView, type ViewOptions } from '../../../lib/revocation/view.ts'

const NOW = 1_800_000_000
const TOLERANCE = 5
const A = 'https://a.example'
const B = 'https://b.example'
const KEY = keyOf(['sub', A, 'u1'])

const entry = (given: Partial<RevocationEntry> = {}): RevocationEntry => ({
  key: KEY,
  effect: 'cutoff',
  at: NOW,
  event: 'session-revoked',
  source: A,
  sender: A,
  standing: 'issuer',
  ...given
})
const facts = (given: Partial<RevocationFacts> = {}) => ({
  keys: [KEY],
  issuedAt: NOW - 10,
  loginAt: undefined,
  ...given
})

/** Another key of the same issuer. */
const k = (name: string | number) => keyOf(['sub', A, `${name}`])

/** Lives end after 110 seconds. */
function start (given: Partial<ViewOptions> = {}) {
  const clock = { now: NOW, ms: 0 }
  const news: unknown[] = []
  const view = createView({
    max: 100,
    issuers: [A],
    transmitters: [A],
    lifeSeconds: 110,
    clockToleranceSeconds: TOLERANCE,
    now: () => clock.now,
    agreedNow: () => Math.min(clock.now, NOW + clock.ms / 1000),
    seconds: () => clock.ms / 1000,
    onNews: one => news.push(one),
    ...given
  })
  const store = createMemoryStore(view, { now: () => clock.now })
  return {
    ...view,
    clock,
    news,
    hasUnsaid: view.backlog.hasSome,
    unsaid: view.backlog.take,
    said: (keys: readonly string[], call: number) => keys.forEach(key => view.backlog.confirm(key, call)),
    putBack: (keys: readonly string[]) => keys.forEach(view.backlog.add),
    // It does all that it does at once.
    take: (...entries: RevocationEntry[]) => { store.append(entries) },
    hear: (key: string, record: RevocationRecord, call = 1, isWhole = true) =>
      view.take(key, writeRecord(record), call, isWhole),
    hasRoom (entries: readonly RevocationEntry[]) {
      const release = view.reserve(entries)
      release?.()
      return release !== undefined
    },
    pass (seconds: number) {
      clock.now += seconds
      clock.ms += seconds * 1000
    }
  }
}
/** As another instance has written it. */
const record = (
  given: Partial<RevocationEntry> = {},
  times: { heard?: number, life?: number } = {}
) =>
  recordOf(entry(given), { heard: 0, life: 110, now: NOW, ...times })

t.test('A token is refused if its iat is not after the cutoff, in whole seconds', async t => {
  const { take, revocationOf } = start()
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
  for (const source of [`${A}/`, 'https://other.example/']) {
    take(entry({ key: k(source), source }))
    t.equal(revocationOf(facts({ keys: [k(source)] }))?.source, source, 'and its source as it is spelled')
  }
})

t.test('A provider whose clock is ahead has its own moment; that of any other sender has the tolerance added', async t => {
  for (
    const [standing, last] of [['issuer', NOW + 2], ['operator', NOW + 2 + TOLERANCE], [
      'other',
      NOW + 2 + TOLERANCE
    ]] as const
  ) {
    const { take, revocationOf, pass } = start()
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
    const login = start()
    login.take(entry({ effect: 'login', at: NOW + 2, standing }))
    login.pass(TOLERANCE + 4)
    const isRevoked = (loginAt: number) => login.revocationOf(facts({ issuedAt: last + 1, loginAt })) !== undefined
    t.strictSame([isRevoked(last), isRevoked(last + 1)], [true, false], `${standing}, logins`)
  }
})

t.test('A cutoff of logins refuses tokens of an earlier login, whenever they were issued', async t => {
  const { take, revocationOf, size } = start()
  take(entry({ effect: 'login', at: NOW }))
  t.ok(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW - 100 })))
  t.ok(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW })))
  t.notOk(revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW + 1 })))
  t.notOk(revocationOf(facts({ issuedAt: NOW + 5 })), 'a token without auth_time is judged by its iat')
  take(entry({ at: NOW - 1 }))
  t.equal(size(), 1, 'a key with both cutoffs is one')
  const plain = start()
  plain.take(entry({ at: NOW }))
  t.notOk(plain.revocationOf(facts({ issuedAt: NOW + 5, loginAt: NOW - 100 })), 'a plain cutoff requires no login')
  const ended = start()
  ended.take(entry({ effect: 'end' }))
  t.ok(ended.revocationOf(facts({ issuedAt: NOW + 5 })), 'an end requires nothing')
})

t.test('What no instance can have written changes nothing', async t => {
  const { hear, version, recordOf: known, revocationOf } = start()
  const before = version()
  for (const wrong of [{ since: NaN }, { parts: [] }]) hear(KEY, { ...record(), ...wrong })
  t.strictSame([version(), known(KEY), revocationOf(facts())], [before, undefined, undefined])
  hear(KEY, record())
  t.ok(revocationOf(facts()), 'the twin')
})

t.test('Nothing is forgotten, and nothing is kept from being revoked, when our clock leaps', async t => {
  for (const leap of [2 * 86_400, -2 * 86_400]) {
    const { take, revocationOf, clock, size, sweep } = start()
    take(entry({ effect: 'end' }), entry({ key: k('a') }))
    clock.now += leap
    take(entry({ key: k('b'), effect: 'end' }))
    sweep()
    clock.now -= leap
    sweep()
    t.strictSame([size(), ...[KEY, k('a'), k('b')].map(key => revocationOf(facts({ keys: [key] })) !== undefined)], [
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
    const { take, revocationOf } = start()
    take(...entries)
    t.equal(revocationOf(facts()) !== undefined, isRevoked, why ?? entries.map(({ effect }) => effect).join(', '))
  }
  const old = start()
  old.take(block, entry({ key: k('lifted'), effect: 'block', at: NOW - 2 }), entry({ key: k('lifted'), effect: 'enable' }))
  old.pass(1e6)
  old.sweep()
  t.ok(old.revocationOf(facts({ issuedAt: old.clock.now })), 'a block outlives the retention')
  t.equal(old.size(), 1, 'one that was lifted does not')
})

t.test('One half of each table is kept for the issuers in equal parts, and nobody takes the part of another', async t => {
  const issuers = [A, B]
  const named = (count: number, given: Partial<RevocationEntry>) =>
    Array.from(
      { length: count },
      (_, n) => entry({ key: k(`${given.sender} ${given.standing} ${given.effect} ${n}`), ...given })
    )
  for (const effect of ['cutoff', 'block'] as const) {
    const { take, hasRoom, size } = start({ issuers })
    const of = (count: number, sender: string, standing: RevocationEntry['standing']) =>
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
    const { take, hasRoom, reserve } = start()
    const of = (count: number, effect: RevocationEntry['effect'] = 'cutoff', name = '') =>
      Array.from(
        { length: count },
        (_, n) => entry({ key: k(`${name} ${n}`), sender: 'https://t.example', standing: 'other', effect })
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
  const { take, hasRoom } = start({ issuers: [A, B] })
  take(...Array.from({ length: 25 }, (_, n) => entry({ key: k(`k${n}`), sender: 'https://t.example', standing: 'other' })))
  take(...Array.from({ length: 25 }, (_, n) => entry({ key: k(`k${n}`), at: NOW + 1 })))
  t.equal(hasRoom(Array.from({ length: 50 }, (_, n) => entry({ key: k(`own ${n}`) }))), true)
  t.equal(hasRoom([entry({ key: k('new'), sender: 'https://t.example', standing: 'other' })]), false)
})

t.test(
  'Where the application keeps the list of issuers, those that hold a key divide the half; one that is no longer ' +
    'listed has no part',
  async t => {
    const of = (count: number, sender: string) =>
      Array.from({ length: count }, (_, n) => entry({ key: k(`${sender} ${n}`), sender }))
    const open = start({ issuers: undefined })
    t.equal(open.hasRoom(of(100, A)), true)
    open.take(...of(75, A))
    t.strictSame([open.hasRoom(of(25, B)), open.hasRoom(of(26, B))], [true, false])
    open.take(...of(25, B))
    t.equal(open.hasRoom(of(26, B)), false)
    t.equal(open.hasRoom([entry({ key: k('x'), sender: 'https://t.example', standing: 'other' })]), false)
    const closed = start({ issuers: [A] })
    t.strictSame([closed.hasRoom(of(25, B)), closed.hasRoom(of(26, B))], [true, false])
    t.equal(start({ issuers: [] }).hasRoom(of(26, B)), false)
  }
)

t.test('What is over makes room, in small steps', async t => {
  const { take, hasRoom, pass, size } = start({ max: 100 })
  take(...Array.from({ length: 100 }, (_, n) => entry({ key: k(`k${n}`) })))
  t.equal(hasRoom([entry({ key: k('new') })]), false)
  pass(111)
  t.equal(hasRoom([entry({ key: k('new') })]), true)
  t.equal(size(), 0)
  const large = start({ max: 10_000 })
  for (let n = 0; n < 2005; n++) large.hear(k(n), record({ key: k(n) }))
  large.pass(111)
  // The first one begins anew, and finds nothing.
  for (const left of [2005, 1005, 5]) {
    large.sweep()
    t.equal(large.size(), left)
  }
  large.take(entry({ key: k('new') }))
  t.equal(large.size(), 2, 'four keys, with one that comes')
})

t.test('Moments are kept to the millisecond: of a block and what lifts it, the later holds', async t => {
  const rows: ReadonlyArray<readonly [number, number, boolean]> = [[0.001, 0.999, false], [0.999, 0.001, true], [
    0.5,
    0.5,
    true
  ]]
  for (const [blocked, enabled, isRevoked] of rows) {
    const { take, revocationOf } = start()
    take(entry({ effect: 'block', at: NOW + blocked }), entry({ effect: 'enable', at: NOW + enabled }))
    t.equal(revocationOf(facts()) !== undefined, isRevoked, `${blocked}, ${enabled}`)
  }
})

t.test('A login whose time is no past time is refused by a cutoff of logins, and a token without one is not', async t => {
  const { take, revocationOf } = start()
  take(entry({ effect: 'login' }))
  for (
    const [loginAt, isRevoked] of [[Infinity, true], [NOW * 1000, true], [NOW + TOLERANCE + 1, true], [
      NOW + TOLERANCE,
      false
    ], [undefined, false]] as const
  ) t.equal(revocationOf(facts({ issuedAt: NOW + 5, loginAt })) !== undefined, isRevoked, `${loginAt}`)
})

t.test('An ended session refuses tokens whatever their iat, until its own end', async t => {
  const { take, revocationOf, size, pass, sweep, version } = start()
  take(entry({ effect: 'end' }))
  pass(109.9)
  t.ok(revocationOf(facts({ issuedAt: NOW + 200 })))
  const before = version()
  take(entry({ effect: 'end' }))
  t.equal(version(), before, 'the same event changes nothing')
  pass(0.1)
  t.notOk(revocationOf(facts({ issuedAt: NOW + 200 })))
  take(entry({ effect: 'end' }))
  t.not(version(), before, 'after its end it counts again, for tokens that were judged in between')
  t.ok(revocationOf(facts({ issuedAt: NOW + 200 })))
  pass(110)
  take(entry({ key: k('another'), at: NOW + 220 }))
  sweep()
  t.equal(size(), 1, 'what is over is forgotten')
})

t.test('A session that is ended again is kept for as long again', async t => {
  const { take, revocationOf, pass } = start()
  take(entry({ effect: 'end' }))
  pass(60)
  take(entry({ effect: 'end', at: NOW - 1 }))
  pass(109)
  t.ok(revocationOf(facts()))
  pass(1)
  t.notOk(revocationOf(facts()))
})

t.test('An event of the future is kept from its own moment on, however wrong our clock was when it came', async t => {
  for (const wrong of [-600, 0, 86_400 * 2]) {
    const { take, revocationOf, pass, clock, sweep } = start()
    clock.now += wrong
    take(entry({ effect: 'end', at: NOW + 50.5 }))
    clock.now -= wrong
    pass(160.4)
    t.ok(revocationOf(facts()), `${wrong} s`)
    clock.now += 86_400
    sweep()
    clock.now -= 86_400
    t.ok(revocationOf(facts()), `${wrong} s: our clock has leaped once more`)
    pass(0.1)
    t.notOk(revocationOf(facts()), `${wrong} s: over`)
  }
})

t.test('An undo ends what stands, everywhere, and a later event counts again, whatever its moment', async t => {
  const { take, revocationOf, size, hear } = start()
  const [before, other] = [record(), record({ effect: 'block', at: NOW + 9 })]
  take(entry(), entry({ effect: 'block' }), entry({ at: NOW + 3600 }))
  take(entry({ effect: 'undo' }))
  t.strictSame([revocationOf(facts()), size()], [undefined, 0])
  hear(KEY, before)
  hear(KEY, other)
  t.equal(revocationOf(facts()), undefined, 'who has missed it brings nothing back')
  take(entry({ at: NOW - 5 }))
  t.strictSame([revocationOf(facts())?.at, size()], [NOW - 5, 1])
})

t.test('Only records of its issuers and news of its transmitters are held', async t => {
  const { hear, size, news, recordOf } = start()
  for (const [issuer, held] of [[A, 1], [B, 1], ['*', 2]] as const) {
    hear(keyOf(['claim', issuer, 'email', 'a@b.example']), record())
    t.equal(size(), held, issuer)
  }
  hear(keyOf(['jkt', 'thumbprint']), record())
  t.equal(size(), 3)
  const long = 's'.repeat(300)
  for (const issuer of [A, B]) hear(keyOf(['sub', issuer, long]), record())
  t.equal(size(), 4, 'a long key says its issuer too')
  for (const issuer of [A, B]) {
    hear(`stream ${issuer}`, record({ key: `stream ${issuer}`, effect: 'state', event: 'paused', source: issuer }))
  }
  t.strictSame(news, [{ event: 'paused', source: A, key: `stream ${A}`, at: NOW }])
  t.equal(recordOf(`stream ${B}`), undefined)
  const served = start({ issuers: [B] })
  served.hear(KEY, record())
  served.hear(`stream ${A}`, record({ key: `stream ${A}`, effect: 'state', event: 'paused' }))
  t.strictSame([served.size(), served.news.length], [0, 1], 'of a transmitter that is no issuer here, only its news')
  const open = start({ issuers: undefined })
  open.hear(keyOf(['sub', B, 'u']), record())
  t.equal(open.size(), 1)
})

t.test('News that come late change nothing, and later ones do', async t => {
  const { take, news } = start()
  const state = (event: string, at: number) => entry({ key: `stream ${A}`, effect: 'state', event, at })
  take(state('enabled', NOW), state('paused', NOW - 1), state('enabled', NOW), state('disabled', NOW + 0.001))
  t.strictSame(news.map(one => (one as RevocationEntry).event), ['enabled', 'disabled'])
})

t.test('What the store may not know is said to it, the newest first', async t => {
  const { hear, lose, unsaid, said, putBack, hasUnsaid, pass } = start({ issuers: [A] })
  const keysOf = (limit = 9) => unsaid(limit).map(([key]) => key)
  for (const n of [1, 2, 3, 4]) hear(k(n), record(), n)
  t.equal(hasUnsaid(), false)
  lose(2)
  t.strictSame([keysOf(1), keysOf()], [[k(4)], [k(3)]])
  putBack([k(4)])
  said([k(3)], 7)
  t.strictSame(keysOf(), [k(4)], 'what could not be said is said later')
  said([k(4)], 6)
  hear(k(1), record({ at: NOW - 1 }), 8)
  t.strictSame(keysOf(), [k(1)], 'the store knows less of it')
  hear(k(2), record({ at: NOW - 1 }), 8, false)
  t.strictSame(keysOf(), [], 'an older change says nothing of what the store has now')
  hear(k(5), record({}, { life: 50 }), 9)
  const [[key, text]] = unsaid(9) as [ReturnType<typeof unsaid>[0]]
  t.strictSame([key, readRecord(text)!.parts[0]!.life], [k(5), 110], 'the longest retention of the services that share it counts')
  pass(60)
  hear(k(6), record({}, { life: 50 }), 9)
  t.strictSame(keysOf(), [], 'what is over stays over')
})

t.test('What was heard before the last of many calls is said again once the store has lost more than these', async t => {
  const { hear, lose, unsaid } = start({ issuers: [A], max: 1_000_000 })
  for (let n = 1; n <= 150_000; n++) hear(k(n % 1000), record(), n)
  lose(149_999)
  t.strictSame(unsaid(9).map(([key]) => key), [k(0)])
  lose(10)
  t.equal(unsaid(9999).length, 1000)
})

t.test('A record can be read as it was written, whatever its parts', async t => {
  const { hear, recordOf } = start()
  const all: RevocationRecord = {
    holder: '* https://t.example',
    since: NOW,
    parts: [...KINDS].filter(kind => kind !== 's').map((kind, n) => ({
      kind,
      at: NOW * 1000 + n,
      heard: n,
      life: 200 + n,
      origin: `logout\thttps://t.example/${n}`
    }))
  }
  hear(KEY, all)
  t.strictSame(recordOf(KEY), all)
  t.strictSame(readRecord(writeRecord(all)), all)
})

t.test('A million senders leave nothing that grows', async t => {
  const { take, revocationOf } = start({ max: 10_000 })
  for (let n = 0; n < 1100; n++) take(entry({ key: k(n), source: `s${n}` }))
  t.equal(revocationOf(facts({ keys: [k(1099)] }))!.source, 's1099')
})

const someEntry = fc.record({
  effect: fc.constantFrom('cutoff', 'login', 'end', 'block', 'enable' as const),
  at: fc.integer({ min: NOW - 50, max: NOW }),
  key: fc.constantFrom(k('a'), k('b')),
  standing: fc.constantFrom('issuer', 'other')
}).map(given => entry(given as Partial<RevocationEntry>))

t.test('Repeats and any order of entries give the same answers', async t => {
  const answers = ({ revocationOf }: ReturnType<typeof start>) =>
    [NOW - 60, NOW - 25, NOW - 1, NOW + 1].flatMap(issuedAt =>
      [undefined, NOW - 30, NOW].flatMap(loginAt =>
        ['a', 'b'].map(name => revocationOf({ keys: [k(name)], issuedAt, loginAt }) !== undefined)
      )
    )
  fc.assert(fc.property(fc.array(someEntry, { maxLength: 12 }), fc.infiniteStream(fc.nat()), (entries, numbers) => {
    const once = start()
    once.take(...entries)
    const shuffled = [...entries, ...entries].map(one => ({ one, rank: numbers.next().value as number })).sort((a, b) =>
      a.rank - b.rank
    ).map(({ one }) => one)
    const again = start()
    again.take(...shuffled)
    t.strictSame(answers(again), answers(once))
  }), { seed: Number(process.env['FC_SEED'] ?? 9449) })
})

t.test('What the store has lost is said to it again, the newest first, but for what it has since', async t => {
  const { hear, lose, unsaid, said, putBack, hasUnsaid } = start()
  const names = (limit = 10) => unsaid(limit).map(([key]) => key)
  const keys = ['a', 'b', 'c', 'd'].map(k)
  const [, b, c, d] = keys as [string, string, string, string]
  const again = (key: string, call: number) => hear(key, record({ key }), call)
  for (const [index, key] of keys.entries()) again(key, index)
  t.strictSame([hasUnsaid(), names()], [false, []])
  lose(1)
  t.strictSame([hasUnsaid(), names(1), hasUnsaid(), names(), hasUnsaid()], [true, [d], true, [c], false])
  lose(-1)
  t.strictSame(names(), [b], 'what came by no call was never in a store')
  said([b, c], 5)
  putBack([d])
  again(d, 6)
  t.strictSame(names(), [], 'the only one is there since')
  lose(5)
  t.strictSame(names(), [d])
  lose(4)
  again(b, 7)
  t.strictSame(names(), [c])
  putBack([c, b])
  t.strictSame(names(), [b, c], 'it was not taken')
  lose(6)
  t.strictSame(names(), [b])
})

t.test('What the store does not show when it is read anew is over, unless it was not said or was lost', async t => {
  const [over, shown, lifted] = [k('over'), k('shown'), k('lifted')]
  for (const [isUnsaid, isLost] of [[false, false], [true, false], [false, true]] as const) {
    const { hear, lose, expectAll, forgetUnseen, sweep, pass, recordOf, size } = start()
    hear(over, record({ key: over }))
    for (const key of [shown, lifted]) hear(key, record({ key, effect: 'block' }))
    if (isUnsaid) hear(k('u'), record({ key: k('u') }, { life: 50 }), 2)
    expectAll()
    pass(111)
    // The first one finds the beginning.
    for (let n = 0; n < 2; n++) sweep()
    hear(shown, record({ key: shown, effect: 'block' }), 3)
    if (isLost) lose(1)
    forgetUnseen()
    t.strictSame([recordOf(lifted) === undefined, size()], isUnsaid || isLost ? [false, 2] : [true, 1])
  }
})

t.test('By which call the store had a key is known of the last keys, and beyond all are said', async t => {
  const rows = [[100_000, 1, 100_000], [100_001, 49_999, 2], [100_001, 50_000, 50_002]] as const
  for (const [calls, last, expected] of rows) {
    const { hear, lose, unsaid } = start()
    const first = k('first')
    hear(first, record({ key: first }))
    for (let call = 2; call < calls; call++) hear(KEY, record(), call)
    hear(first, record({ key: first, at: NOW + 1 }), calls)
    lose(last)
    hear(KEY, record(), calls + 1)
    lose(last)
    const said = unsaid(1e6).map(([key]) => key)
    t.strictSame([said.length, said[0]], [expected, expected === 2 ? first : KEY], `${calls} calls, ${last}`)
  }
})

t.test('Undos have a table of their own, and what lifts a block is in that of blocks', async t => {
  const of = (count: number, effect: RevocationEntry['effect']) =>
    Array.from({ length: count }, (_, n) => entry({ key: k(`${effect} ${n}`), sender: B, standing: 'other', effect }))
  const effects = ['undo', 'enable', 'block', 'cutoff', 'login', 'end', 'state'] as const
  for (const [taken, full] of [['undo', 'undo'], ['enable', 'enable block'], ['block', 'enable block']] as const) {
    const { take, hasRoom } = start()
    take(...of(25, taken))
    t.equal(effects.filter(effect => !hasRoom(of(1, effect).map(one => ({ ...one, key: k('x') })))).join(' '), full)
  }
})

t.test('The version changes with what is new, and news of a stream are told once', async t => {
  const { hear, version, news, pass } = start()
  const step = (given: Partial<RevocationEntry>, times: { heard?: number } = {}) => {
    const before = version()
    hear(given.key ?? KEY, record(given, times))
    return version() - before
  }
  t.strictSame([step({}), step({}), step({ at: NOW - 1 }), step({ at: NOW + 1 })], [1, 0, 0, 1])
  t.equal(step({ at: NOW + 1 }, { heard: 50 }), 0, 'it is heard again')
  pass(161)
  t.equal(step({ at: NOW + 1 }, { heard: 161 }), 1, 'and after its end')
  t.equal(step({ effect: 'block' }, { heard: 161 }), 1)
  const status = { key: `stream ${A}`, effect: 'state', event: 'enabled' } as const
  t.strictSame([step(status), step(status), step({ ...status, event: 'paused', at: NOW + 2 })], [1, 0, 1])
  t.strictSame(news, [
    { event: 'enabled', source: A, key: status.key, at: NOW },
    { event: 'paused', source: A, key: status.key, at: NOW + 2 }
  ])
})

t.test('What is kept for longer here is said to the store, and a part of a record says nothing of the rest', async t => {
  for (const life of [50, 110, 500]) {
    const { hear, hasUnsaid } = start()
    hear(KEY, record({}, { life }), 1, false)
    t.equal(hasUnsaid(), life === 50, `${life}`)
  }
  for (const ahead of [0, 200]) {
    const { hear, hasUnsaid, pass } = start()
    pass(60)
    hear(KEY, record({ at: NOW + ahead }, { life: 50 }), 1, false)
    t.equal(hasUnsaid(), ahead > 0, 'what is over stays over, and what is dated ahead is not')
  }
  const { hear, lose, hasUnsaid, sweep, size, pass, issuers } = start()
  hear(KEY, record({ effect: 'block' }), 1)
  hear(KEY, record(), 2, false)
  lose(1)
  t.equal(hasUnsaid(), false)
  for (let n = 0; n < 9; n++) hear(k(n), record({ key: k(n) }))
  sweep()
  pass(111)
  hear(KEY, record({ effect: 'block', at: NOW + 1 }), 3)
  t.equal(size(), 7, 'each change looks at four more')
  t.strictSame([issuers, start({ issuers: undefined }).issuers], [[A], []])
})

t.test('Nothing refuses for longer where our clock was behind when we started', async t => {
  const { take, revocationOf, pass } = start({ agreedNow: () => NOW - 3600 })
  take(entry({ effect: 'end' }))
  pass(109)
  t.ok(revocationOf(facts()))
  pass(1)
  t.notOk(revocationOf(facts()))
})
