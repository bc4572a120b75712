import { inspect } from 'node:util'
import t from 'tap'
import { Refusal } from '../../lib/refusal.ts'

t.test('A refusal with more fields keeps the others, and the first stays as it was', async t => {
  const first = new Refusal('keys_unavailable', {
    detail: { cause: 'a' },
    retryAfterSeconds: 3,
    headers: { 'dpop-nonce': 'n' }
  })
  const second = first.with({ issuer: 'https://tenant.example/' })
  const fields = ({ reason, detail, retryAfterSeconds, issuer, headers }: Refusal) => ({
    reason,
    detail,
    retryAfterSeconds,
    issuer,
    headers
  })
  t.strictSame(fields(second), {
    reason: 'keys_unavailable',
    detail: { cause: 'a' },
    retryAfterSeconds: 3,
    issuer: 'https://tenant.example/',
    headers: { 'dpop-nonce': 'n' }
  })
  t.equal(first.issuer, undefined)
  t.strictSame(fields(second.with({ headers: {} })), { ...fields(second), headers: {} })
})

t.test('A framework that logs a refusal writes a line.', async t => {
  t.equal(inspect(new Refusal('token_expired', { detail: { expected: 'x' } })), 'Refusal token_expired: The access token has expired.')
})
