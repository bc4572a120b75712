import t from 'tap'
import { createIdentityHeaders } from '../../../../lib/gate/identity-headers.ts'
import { findClaim } from '../../../../lib/guard/requirement/judge.ts'
import type { AccessTokenClaims } from '../../../../lib/guard/token/access-token-claims.ts'

t.test('A dotted name leads into objects, by the longest own member name, with no way back', async t => {
  const rows: ReadonlyArray<{ name: string, claims: object, found: unknown }> = [
    { name: 'a', claims: { a: 1 }, found: 1 },
    { name: 'a.b', claims: { a: { b: 1 } }, found: 1 },
    { name: 'a.b', claims: { 'a.b': 1, a: { b: 2 } }, found: 1 },
    { name: 'kubernetes.io.namespace', claims: { 'kubernetes.io': { namespace: 'shop' } }, found: 'shop' },
    {
      name: 'https://hasura.io/jwt/claims.x-hasura-role',
      claims: { 'https://hasura.io/jwt/claims': { 'x-hasura-role': 'editor' } },
      found: 'editor'
    },
    {
      name: 'resource_access.my.client.roles',
      claims: { resource_access: { 'my.client': { roles: ['r'] } } },
      found: ['r']
    },
    { name: 'a.b.c', claims: { 'a.b': {}, a: { b: { c: 1 } } }, found: undefined },
    { name: 'a.b.c', claims: { 'a.b': 'text', a: { b: { c: 1 } } }, found: undefined },
    { name: 'a.b.c', claims: { a: { 'b.c': 1, b: { c: 2 } } }, found: 1 },
    { name: 'a.b', claims: { ab: { b: 1 }, a: { bc: 1 } }, found: undefined },
    { name: 'a.0', claims: { a: ['x'] }, found: undefined },
    { name: 'a.length', claims: { a: 'text' }, found: undefined },
    { name: 'a.b', claims: { a: null }, found: undefined },
    { name: '__proto__.x', claims: {}, found: undefined },
    { name: 'a.constructor', claims: { a: {} }, found: undefined },
    { name: 'a.', claims: { a: { '': 1 } }, found: 1 },
    { name: '.a', claims: { '': { a: 1 } }, found: 1 },
    { name: '.a', claims: { a: 1 }, found: undefined },
    { name: '', claims: { '': 1 }, found: 1 },
    { name: 'a..b', claims: { a: { '': { b: 1 } } }, found: 1 },
    { name: 'a.b', claims: { a: { b: null } }, found: null }
  ]
  for (const { name, claims, found } of rows) {
    t.strictSame(findClaim(claims as Record<string, unknown>, name), found, `${name} in ${JSON.stringify(claims)}`)
  }
})

t.test('Told claims are read in the same way', async t => {
  const identify = createIdentityHeaders([{ header: 'x-auth-claim-namespace', claim: 'kubernetes.io.namespace' }, {
    header: 'x-auth-claim-roles',
    claim: 'resource_access.my.client.roles'
  }, { header: 'x-auth-claim-none', claim: 'kubernetes.none' }])
  const claims = {
    sub: 'u',
    iss: 'i',
    'kubernetes.io': { namespace: 'shop' },
    resource_access: { 'my.client': { roles: ['a', 'b'] } }
  } as unknown as AccessTokenClaims
  t.hasStrict(identify({ claims, scopes: [], issuer: 'i' }), {
    'x-auth-claim-namespace': 'shop',
    'x-auth-claim-roles': '["a","b"]',
    'x-auth-claim-none': ''
  })
})
