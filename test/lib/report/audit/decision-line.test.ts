import t from 'tap'
import { createDecisionLine } from '../../../../lib/report/audit/decision-line.ts'
import { createVerifiedToken } from '../../../../lib/guard/token/verified-tokens.ts'

const describe = createDecisionLine({ now: () => 1_790_000_000.125, pseudonymKey: undefined })

/** A request with a token of this text, which its issuer identifies by `jti`. */
const requestWith = (text: string, jti: unknown) => ({
  id: 'r1',
  method: 'GET',
  route: '/',
  call: undefined,
  ip: '192.0.2.1',
  peer: undefined,
  scheme: 'Bearer' as const,
  token: createVerifiedToken({
    text,
    claims: { iss: 'https://issuer.example/', sub: 'u1', exp: 0, jti } as never,
    issuer: { issuer: 'https://issuer.example/', dpopMode: 'ALLOWED', scopeClaims: [] },
    isTrusted: () => true
  })
})

t.test('The time of a line is that of the decision, in milliseconds', async t => {
  t.equal(describe(requestWith('t', 'j1'), undefined).time, '2026-09-21T14:13:20.125Z')
})

t.test('A jti that is the token itself is left out: the line would be as good as the token', async t => {
  t.equal(describe(requestWith('opaque', 'j1'), undefined).jti, 'j1')
  t.equal(describe(requestWith('opaque', 'opaque'), undefined).jti, undefined)
  t.equal(describe(requestWith('opaque', 5), undefined).jti, undefined)
})
