import t from 'tap'
import { createCutoffs } from '../../../lib/revocation/cutoffs.ts'
import { createMemoryLog, RevocationLogError } from '../../../lib/revocation/log.ts'
import type { RevocationEntry } from '../../../lib/revocation/log.ts'
import { createRevocations } from '../../../lib/revocation/revocations.ts'
import type { RevocableToken } from '../../../lib/revocation/target.ts'

const NOW = 1_800_000_000
const now = (): number => NOW
const token = (claims: object = {}): RevocableToken => ({ claims: { sub: 'u1', iat: NOW - 5, exp: NOW + 60, ...claims }, issuer: 'https://a.example', binding: { jkt: undefined } }) as unknown as RevocableToken
const ending = (sid: string): RevocationEntry => ({ key: JSON.stringify(['sid', '*', sid]), effect: 'end', at: NOW, recordedAt: NOW, event: 'operator', source: 'o', sender: 'https://a.example', standing: 'issuer' })

function start ({ outage = 'refuse' as 'refuse' | 'serve', max = 10 } = {}) {
  const cutoffs = createCutoffs({ max, retentionSeconds: 100, now })
  const memory = createMemoryLog(cutoffs.apply)
  const age = { ms: 0 }
  const log = { ...memory, ageMs: () => age.ms }
  return { age, revocations: createRevocations({ cutoffs, log, namesOf: () => ({ session: ['sid'], other: ['email', 'groups'] }), retentionSeconds: 100, staleSeconds: 10, outage, now }) }
}

t.test('A process whose view is not current refuses, unless it is set to serve', t => {
  for (const outage of ['refuse', 'serve'] as const) {
    const { age, revocations } = start({ outage })
    const reasons = [10_000, 10_100, Infinity].map(ms => {
      age.ms = ms
      const refusal = revocations.refusalOf(token())
      return [refusal?.reason, refusal?.retryAfterSeconds, revocations.state().isCurrent]
    })
    t.strictSame(reasons, outage === 'refuse' ? [[undefined, undefined, true], ['revocation_unknown', 1, false], ['revocation_unknown', 1, false]] : [[undefined, undefined, true], [undefined, undefined, false], [undefined, undefined, false]])
  }
  t.end()
})

t.test('A token with more than 1,000 values of a claim that revocations name is refused, and one with 1,000 is not', async t => {
  const { revocations } = start()
  const groups = Array.from({ length: 1000 }, (_, index) => `g${index}`)
  t.equal(revocations.refusalOf(token({ groups })), undefined)
  t.equal(revocations.refusalOf(token({ roles: [...groups, 'more'] })), undefined, 'no revocation names this claim')
  const refusal = revocations.refusalOf(token({ groups: [...groups, 'more'] }))
  t.strictSame([refusal?.reason, refusal?.detail], ['token_claim_invalid', { expected: 'at most 1000 values of groups' }])
})

t.test('A known token is judged anew after each event', async t => {
  const { revocations } = start()
  const known = token({ sid: 's1' })
  t.equal(revocations.refusalOf(known), undefined)
  t.equal(revocations.refusalOf(known), undefined)
  await revocations.append([])
  await revocations.append([ending('s1')])
  t.strictSame([revocations.refusalOf(known)?.reason, revocations.refusalOf(known)?.detail], ['token_revoked', { event: 'operator', source: 'o', at: NOW }])
  t.strictSame(revocations.revocationOf(known), { event: 'operator', source: 'o', at: NOW })
  t.equal(revocations.revocationOf(token()), undefined)
})

t.test('Without room nothing is stored, and an undo needs none', async t => {
  const { revocations } = start({ max: 1 })
  await revocations.append([ending('s1')])
  await t.rejects(revocations.append([ending('s2')]), new RevocationLogError('there is no room for another cutoff'))
  t.equal(revocations.refusalOf(token({ sid: 's2' })), undefined)
  await revocations.append([{ ...ending('s3'), effect: 'undo' }])
  t.equal(revocations.state().entries, 1)
})

t.test('The lifetime of a token counts from iat, else from now; a time that is not a number counts as missing', t => {
  const { revocations } = start()
  const rows: ReadonlyArray<readonly [object, string?]> = [[{ iat: NOW, exp: NOW + 100 }], [{ iat: NOW, exp: NOW + 101 }, 'token_too_long'], [{ iat: undefined, exp: NOW + 100 }], [{ iat: 'x', exp: NOW + 101 }, 'token_too_long'], [{ iat: NOW, exp: undefined }, 'token_too_long']]
  for (const [claims, reason] of rows) t.equal(revocations.refusalOf(token(claims))?.reason, reason)
  t.end()
})
