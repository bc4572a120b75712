import t from 'tap'
import type { RevocationEntry } from '../../../lib/revocation/entry.ts'
import { createRevocations } from '../../../lib/revocation/revocations.ts'
import { createMemoryStore } from '../../../lib/revocation/store/memory-store.ts'
import { UndecidedError } from '../../../lib/revocation/store/store.ts'
import { keyOf, type RevocableToken } from '../../../lib/revocation/target.ts'
import { createView } from '../../../lib/revocation/view.ts'

const NOW = 1_800_000_000
const now = () => NOW
const token = (claims: object = {}) =>
  ({
    claims: { sub: 'u1', iat: NOW - 5, exp: NOW + 60, ...claims },
    issuer: 'https://a.example',
    binding: { jkt: undefined }
  }) as unknown as RevocableToken
const ending = (sid: string): RevocationEntry => ({
  key: JSON.stringify(['sid', '*', sid]),
  effect: 'end',
  at: NOW,
  event: 'operator',
  source: 'o',
  sender: 'https://a.example',
  standing: 'issuer'
})

function start ({ outage = 'refuse' as 'refuse' | 'serve', max = 10 } = {}) {
  const view = createView({
    max,
    issuers: ['https://a.example'],
    lifeSeconds: 110,
    clockToleranceSeconds: 5,
    now,
    agreedNow: () => 0,
    seconds: () => 0
  })
  const appended: RevocationEntry[] = []
  const memory = createMemoryStore(view, { now })
  const age = { ms: 0 }
  const store = {
    ...memory,
    ageMs: () => age.ms,
    /** It takes its time, and fails for a session of this name. */
    async append (entries: readonly RevocationEntry[]) {
      await Promise.resolve()
      if (entries[0]!.key.includes('lost')) throw new UndecidedError('lost')
      appended.push(...entries)
      await memory.append(entries)
    }
  }
  return {
    age,
    appended,
    revocations: createRevocations({
      view,
      store,
      namesOf: () => ({ session: ['sid'], other: ['email', 'groups'] }),
      retentionSeconds: 100,
      staleSeconds: 10,
      outage,
      isIssuer: issuer => issuer === 'https://a.example',
      clockToleranceSeconds: 5,
      now
    })
  }
}

t.test('A process whose view is not current refuses, unless it is set to serve', t => {
  for (const outage of ['refuse', 'serve'] as const) {
    const { age, revocations } = start({ outage })
    const reasons = [10_000, 10_100, Infinity].map(ms => {
      age.ms = ms
      const refusal = revocations.refusalOf(token())
      return [refusal?.reason, refusal?.retryAfterSeconds, revocations.state().isCurrent]
    })
    t.strictSame(
      reasons,
      outage === 'refuse'
        ? [[undefined, undefined, true], ['revocation_unknown', 1, false], ['revocation_unknown', 1, false]]
        : [[undefined, undefined, true], [undefined, undefined, false], [undefined, undefined, false]]
    )
  }
  t.end()
})

t.test('A token with more than 1,000 values of a claim that revocations name is refused, and one with 1,000 is not', async t => {
  const { revocations } = start()
  const groups = Array.from({ length: 1000 }, (_, index) => `g${index}`)
  t.equal(revocations.refusalOf(token({ groups })), undefined)
  t.equal(revocations.refusalOf(token({ roles: [...groups, 'more'] })), undefined, 'no revocation names this claim')
  const refusal = revocations.refusalOf(token({ groups: [...groups, 'more'] }))
  t.strictSame([refusal?.reason, refusal?.detail], ['token_claim_invalid', {
    claim: 'groups',
    expected: 'at most 1000 values, and no integer beyond 2^53',
    found: 'more'
  }])
})

t.test('A known token is judged anew after each event', async t => {
  const { revocations } = start()
  const known = token({ sid: 's1' })
  t.equal(revocations.refusalOf(known), undefined)
  t.equal(revocations.refusalOf(known), undefined)
  await revocations.append([])
  await revocations.append([ending('s1')])
  t.strictSame([revocations.refusalOf(known)?.reason, revocations.refusalOf(known)?.detail], ['token_revoked', {
    event: 'operator',
    source: 'o',
    at: NOW
  }])
  t.strictSame(revocations.revocationOf(known), { event: 'operator', source: 'o', at: NOW })
  t.equal(revocations.revocationOf(token()), undefined)
})

t.test('What another service, or this one with other settings, has stored holds for the claims that it names', async t => {
  const { revocations } = start()
  const other = { ...ending('s1'), effect: 'block', key: keyOf(['claim', 'https://a.example/', 'device', 'd1']) } as const
  const tokens = [token({ device: 'd1' }), token({ device: 'd2' }), token({ session: 's1' }), token()]
  const judged = () => tokens.map(known => revocations.refusalOf(known)?.reason)
  t.strictSame(judged(), [undefined, undefined, undefined, undefined])
  await revocations.append([other])
  t.strictSame(judged(), ['token_revoked', undefined, undefined, undefined])
  t.equal(revocations.revocationOf(token({ device: ['d0', 'd1'] }))?.source, 'o')
  await revocations.append([{ ...ending('s1'), key: keyOf(['claim', 'https://a.example/', 'session', 's1']) }])
  t.strictSame(judged(), ['token_revoked', undefined, 'token_revoked', undefined])
  const long = 'd'.repeat(300)
  const known = token({ third: long })
  t.equal(revocations.refusalOf(known), undefined)
  await revocations.append([{ ...ending('s1'), key: keyOf(['claim', 'https://a.example/', 'third', long]) }])
  t.equal(revocations.refusalOf(known)?.reason, 'token_revoked', 'a value whose key is a hash')
  // Nobody has said whose claim this is.
  await revocations.append([{ ...ending('s1'), key: keyOf(['claim', '*', 'fourth', 's1']) }])
  t.equal(revocations.refusalOf(token({ fourth: 's1' })), undefined)
  t.equal(revocations.refusalOf({ ...token({ device: 'd1' }), issuer: 'https://b.example' }), undefined)
})

t.test('Without room nothing is stored, and an undo needs none', async t => {
  const { revocations } = start({ max: 1 })
  await revocations.append([ending('s1')])
  await t.rejects(
    revocations.append([ending('s2')]),
    new UndecidedError('there is no room for another cutoff of this sender')
  )
  t.equal(revocations.refusalOf(token({ sid: 's2' })), undefined)
  await revocations.append([{ ...ending('s1'), effect: 'undo' }])
  t.equal(revocations.state().entries, 0)
})

t.test('Events that are on their way to the log count: a sender takes no more than its part by sending many at once', async t => {
  const { revocations, appended } = start({ max: 4 })
  const one = (sid: string) =>
    revocations.append([{ ...ending(sid), sender: 'https://t.example', standing: 'other' }]).then(
      () => 'stored',
      ({ message }) => message
    )
  const noRoom = 'there is no room for another cutoff of this sender'
  t.strictSame(await Promise.all(['lost', 's2', 's3'].map(one)), ['lost', noRoom, noRoom])
  t.strictSame(await Promise.all(['s1', 's2', 's3'].map(one)), ['stored', noRoom, noRoom])
  t.strictSame([await one('s4'), appended.length], [noRoom, 1])
})

t.test('The lifetime of a token counts from iat, and from now if that is in the future; without iat it is not known', async t => {
  const { revocations } = start()
  const rows: ReadonlyArray<readonly [object, string?]> = [
    [{ iat: NOW, exp: NOW + 100 }],
    [{ iat: NOW, exp: NOW + 101 }, 'token_too_long'],
    [{ iat: undefined, exp: NOW + 14 }, 'token_too_long'],
    [{ iat: NOW * 1000, exp: NOW + 105 }],
    [{ iat: NOW * 1000, exp: NOW + 106 }, 'token_too_long'],
    [{ iat: 'x', exp: NOW + 101 }, 'token_too_long'],
    [{ iat: NOW, exp: undefined }, 'token_too_long']
  ]
  for (const [claims, reason] of rows) t.equal(revocations.refusalOf(token(claims))?.reason, reason)
  t.strictSame(revocations.refusalOf(token({ exp: NOW + 101 }))?.detail, {
    expected: 'an iat, and at most 100 seconds from it to exp',
    found: NOW + 101
  })
})

t.test('What no issuer of this service could have issued is not stored, and its sender gets to know', async t => {
  const { revocations, appended } = start()
  const rows: ReadonlyArray<readonly [string, boolean]> = [
    [keyOf(['sub', 'https://a.example', 'u']), true],
    [keyOf(['sub', 'https://A.example', 'u']), false],
    [keyOf(['sub', 'https://a.example//', 'u']), false],
    [keyOf(['sub', '*', 'u']), false],
    [keyOf(['jti', '*', 'u']), false],
    [keyOf(['client', '*', 'u']), false],
    [keyOf(['issuer', '*']), false],
    [keyOf(['sid', '*', 's']), true],
    [keyOf(['sid', '*', 's'.repeat(300)]), true],
    [keyOf(['claim', '*', 'email', 'a@b.example']), true],
    [keyOf(['jkt', 'thumbprint']), true]
  ]
  for (const [key, isStored] of rows) {
    const { length } = appended
    t.equal(await revocations.append([{ ...ending('s'), key }]), isStored, key)
    t.equal(appended.length > length, isStored, key)
  }
  t.equal(await revocations.append([]), true)
})
