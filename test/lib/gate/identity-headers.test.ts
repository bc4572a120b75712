import t from 'tap'
import { createIdentityHeaders, encodeValue, isIdentityName, parseClaimNames } from '../../../lib/gate/identity-headers.ts'

t.test('Values of claims are written as a client of the upstream can read them back.', t => {
  const rows: ReadonlyArray<readonly [value: unknown, written: string]> = [
    [undefined, ''], [null, ''], ['', ''], [0, '0'], [false, 'false'], ['a-Z~!', 'a-Z~!'], [' ', '%20'], ['%', '%25'], ['"#$&', '"#$&'], ['\n\t', '%0A%09'], ['\u007f', '%7F'],
    ['\u00e9', '%C3%A9'], ['\ud83d\ude00', '%F0%9F%98%80'], ['\ud83d', '%EF%BF%BD'], [['a', 1], '["a",1]'], [{ a: null }, '{"a":null}']
  ]
  for (const [value, written] of rows) t.equal(encodeValue(value), written, JSON.stringify(value))

  const headersOf = createIdentityHeaders([{ header: 'x-auth-claim-a', claim: 'a' }, { header: 'x-auth-claim-inherited', claim: 'toString' }])
  const empty = { 'x-auth-subject': '', 'x-auth-issuer': '', 'x-auth-scope': '', 'x-auth-client': '', 'x-auth-claim-a': '', 'x-auth-claim-inherited': '' }
  t.strictSame(headersOf(undefined), empty)
  const caller = (claims: object) => ({ claims: { iss: 'i', aud: 'a', exp: 1, sub: 's', ...claims }, scopes: ['x', 'y'], issuer: 'https://i.example/' })
  t.strictSame(headersOf(caller({})), { ...empty, 'x-auth-subject': 's', 'x-auth-issuer': 'https://i.example/', 'x-auth-scope': 'x%20y' })
  t.hasStrict(headersOf(caller({ a: 1, azp: 'app' })), { 'x-auth-client': 'app', 'x-auth-claim-a': '1' })
  t.hasStrict(headersOf(caller({ client_id: 'shop', azp: 'app' })), { 'x-auth-client': 'shop' }, 'RFC 9068 comes first')
  t.end()
})

t.test('A name that a program could take for one of ours is one of ours.', t => {
  for (const name of ['x-auth-subject', 'X-Auth-Subject', 'x_auth_subject', 'x.auth.subject', 'x-auth-issuer', 'x-auth-scope', 'x-auth-client', 'x-auth-statement', 'x-auth-claim-', 'X_AUTH_CLAIM_a', 'x-auth-claim-a']) t.equal(isIdentityName(name), true, name)
  for (const name of ['x-auth-subjec', 'x-auth-subject-2', 'my-x-auth-subject', 'x-auth-claim', 'my-x-auth-claim-a', 'x-auth-token']) t.equal(isIdentityName(name), false, name)

  t.strictSame(parseClaimNames([]), [])
  t.strictSame(parseClaimNames(['A.b']), [{ header: 'x-auth-claim-a-b', claim: 'A.b' }])
  t.strictSame(parseClaimNames({ Team: 'https://id.example/team' }), [{ header: 'x-auth-claim-team', claim: 'https://id.example/team' }])
  for (const bad of [undefined, null, 'email', 7, [''], [7], ['a', 'A'], ['a.b', 'a_b'], { a: 7 }, { '': 'a' }, { 'a b': 'a' }, { ' a': 'a' }, { 'a ': 'a' }, { a: 'x', A: 'y' }]) t.equal(parseClaimNames(bad), undefined, JSON.stringify(bad))
  t.end()
})
