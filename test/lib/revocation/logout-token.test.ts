import t from 'tap'
import { logoutEntries } from '../../../lib/revocation/logout-token.ts'
import { keyOf } from '../../../lib/revocation/target.ts'

const NOW = 1_800_000_000
const ISSUER = 'https://issuer.example/'

t.test('An entry of a logout token names its issuer as the source, and the session or the user that it is about', async t => {
  const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
  const entriesOf = (claims: object) =>
    logoutEntries({ claims: { iat: NOW - 5, events, ...claims } } as unknown as Parameters<typeof logoutEntries>[0], {
      issuer: ISSUER,
      sessionClaim: 'sid',
      clockToleranceSeconds: 5
    }, NOW)
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
