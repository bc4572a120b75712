import t from 'tap'
import { readAnswer, requirementsIn } from '../../../cli/explain/answer.ts'
import { REFUSALS } from '../../../lib/refusal.ts'

t.test('A challenge says why the service refused, and what it needs.', async t => {
  const { description } = REFUSALS.scope_missing
  t.strictSame(
    readAnswer({
      challenge: `Bearer, DPoP error="insufficient_scope", error_description="${description}", scope="a  b", ` +
        'algs="ES256 EdDSA", acr_values="gold silver", max_age="60"'
    }),
    {
      reason: 'scope_missing',
      scopes: ['a', 'b'],
      acrValues: ['gold', 'silver'],
      maxAgeSeconds: 60
    }
  )
  t.strictSame(readAnswer({ challenge: 'Bearer realm="DPoP", max_age="soon"' }), {
    reason: undefined,
    scopes: undefined,
    acrValues: undefined,
    maxAgeSeconds: undefined
  }, 'a text is no number of seconds')
})

t.test('Where the challenge has no sentence, the body names the reason.', async t => {
  const body = JSON.stringify({ statusCode: 429, message: REFUSALS.rate_limited.description })
  t.equal(readAnswer({ body }).reason, 'rate_limited')
  t.equal(readAnswer({ body: '{}' }).reason, undefined)
})

t.test('What the route needs is what the challenge asks for.', async t => {
  const needs = (challenge: string) => requirementsIn(readAnswer({ challenge }))
  t.strictSame(needs('Bearer scope="a b"'), [{ scope: ['a', 'b'] }])
  t.strictSame(needs('Bearer acr_values="gold", max_age="0"'), [{ acr: ['gold'], maxAgeSeconds: 0 }])
  t.equal(needs('Bearer'), undefined)
})
