import t from 'tap'
import { logoutEntries, readLogoutForm } from '../../../lib/revocation/logout-token.ts'
import { keyOf } from '../../../lib/revocation/target.ts'

const NOW = 1_800_000_000
const ISSUER = 'https://issuer.example/'

const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
const entriesOf = (claims: object, sessionClaim: string | false = 'sid') =>
  logoutEntries({ claims: { iat: NOW - 5, events, ...claims } } as unknown as Parameters<typeof logoutEntries>[0], {
    issuer: ISSUER,
    sessionClaim,
    clockToleranceSeconds: 5
  }, NOW)

t.test('An entry of a logout token names its issuer as the source, and the session or the user that it is about', async t => {
  const common = {
    at: NOW - 5,
    event: 'logout',
    source: ISSUER,
    sender: ISSUER.slice(0, -1),
    standing: 'issuer'
  }
  t.strictSame(entriesOf({ sub: 'u1', sid: 's1' }), [{ key: keyOf(['sid', ISSUER, 's1']), effect: 'end', ...common }])
  t.strictSame(entriesOf({ sub: 'u1' }), [{ key: keyOf(['sub', ISSUER, 'u1']), effect: 'login', ...common }])
})

t.test('What is no logout token is an invalid request, for a reason of its own', async t => {
  const rows: ReadonlyArray<readonly [claims: object, message: string | undefined]> = [
    [{ events: undefined }, 'The token has no logout event.'],
    [{ events: { other: {} } }, 'The token has no logout event.'],
    [{ nonce: 'n' }, 'A logout token has no nonce.'],
    [{ exp: NOW - 5 }, 'The logout token has expired.'],
    [{ exp: `${NOW + 60}` }, 'The logout token has expired.'],
    [{ exp: NOW - 4 }, undefined],
    ...['sub', 'sid'].flatMap(name =>
      [1, '', null].map(value => [{ [name]: value }, 'A sub or sid of the logout token is not a text.'] as const)
    ),
    [{ sub: undefined }, 'The logout token has neither sub nor sid.']
  ]
  for (const [claims, message] of rows) {
    const run = () => entriesOf({ sub: 'u1', ...claims })
    if (message === undefined) t.doesNotThrow(run)
    else t.throws(run, { name: 'SetError', err: 'invalid_request', message }, JSON.stringify(claims))
  }
  t.throws(() => entriesOf({ sid: 's1' }, false), {
    err: 'invalid_request',
    message: 'The logout token has only a sid, and access tokens have none here.'
  })
})

t.test('A form has exactly one logout token among at most a hundred members', async t => {
  const rows: ReadonlyArray<readonly [form: string, message: string]> = [
    [`logout_token=x${'&a=b'.repeat(100)}`, 'The form has too many members.'],
    ['a=b', 'The form does not have exactly one logout_token.'],
    ['logout_token=x&logout_token=x', 'The form does not have exactly one logout_token.']
  ]
  for (const [form, message] of rows) {
    t.throws(() => readLogoutForm(form), { name: 'SetError', err: 'invalid_request', message }, message)
  }
  t.equal(readLogoutForm(`logout_token=x%2E${'&a=b'.repeat(99)}`), 'x.')
})
