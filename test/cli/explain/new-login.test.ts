import t from 'tap'
import { newLoginAt, type LoginClaims } from '../../../cli/explain/new-login.ts'

const AT = 1_000
const TOLERANCE = 5

interface Row {
  title: string
  isRefused: (claims: { iat: number, sid: string }) => boolean
  now?: number
  expected: number | undefined
}

const ROWS: readonly Row[] = [
  { title: 'a session that ended', isRefused: ({ sid }) => sid === 'old', expected: undefined },
  { title: 'a revocation by the issuer', isRefused: ({ iat }) => iat <= AT, expected: AT + 1 },
  { title: 'one by another sender', isRefused: ({ iat }) => iat <= AT + TOLERANCE, expected: AT + TOLERANCE + 1 },
  { title: 'a block', isRefused: () => true, expected: undefined },
  { title: 'what is not yet known for a block', isRefused: () => true, now: AT + 0.9, expected: AT + TOLERANCE + 1 }
]

t.test('A new login counts from the second that is the first to pass', async t => {
  for (const { title, isRefused, now = AT + 1, expected } of ROWS) {
    t.equal(
      newLoginAt({ event: 'e', source: 's', at: AT + 0.5 }, {
        claims: { iat: AT - 10, sid: 'old', auth_time: AT - 10, jti: 'old', sub: 'u' },
        isRefused,
        clockToleranceSeconds: TOLERANCE,
        now
      }),
      expected,
      title
    )
  }
})

t.test('Only a token that says when its user logged in gets a new time of login', async t => {
  const asked: LoginClaims[] = []
  for (const claims of [{ iat: 1 }, { iat: 1, auth_time: 1 }]) {
    newLoginAt({ event: 'e', source: 's', at: AT }, {
      claims,
      isRefused: changed => asked.push(changed) === 0,
      clockToleranceSeconds: TOLERANCE,
      now: AT
    })
  }
  t.strictSame(asked, [
    { jti: 'new', sid: 'new', iat: AT },
    { jti: 'new', sid: 'new', iat: AT, auth_time: AT }
  ])
})
