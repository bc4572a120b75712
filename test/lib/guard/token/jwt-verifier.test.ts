import t from 'tap'
import type { Refusal } from '../../../../lib/refusal.ts'
import { createIssuerTable, type IssuerTable, type TokenIssuer } from '../../../../lib/guard/token/issuer-table.ts'
import { createJwtVerifier } from '../../../../lib/guard/token/jwt-verifier.ts'
import { createVerifiedTokens } from '../../../../lib/guard/token/verified-tokens.ts'
import { encodeJws } from '../../../helpers/jws.ts'
import { untriedKey } from '../../../helpers/signing-key.ts'

const NOW = 1_800_000_000
const ISSUER = 'https://idp.example/'
const KEY = untriedKey()

t.test('Another audience replaces the one of each issuer, and the resource of the service', async t => {
  const asked: unknown[] = []
  const issuer = {
    issuer: ISSUER,
    dpopMode: 'ALLOWED',
    scopeClaims: ['scope'],
    keys: { candidates: () => [KEY], isTrusted: () => true },
    rules: {
      issuer: ISSUER,
      audiences: ['one'],
      profile: 'any',
      resource: 'two',
      algs: ['RS256'],
      audienceClaim: 'aud',
      clockToleranceSeconds: 5,
      bindings: ['jkt']
    },
    introspection: {
      covers: 'opaque',
      inquiry: {
        claimsOf: async (_text: string, _isStranger: boolean, rules: object) => {
          asked.push(rules)
          return { claims: { iss: ISSUER, sub: 'u', aud: 'three', exp: NOW + 60 }, isCurrent: () => true }
        }
      }
    }
  } as unknown as TokenIssuer
  const table = createIssuerTable([issuer])
  const asking: IssuerTable = { ...table, ofOpaque: undefined }
  const outcomesAt = (issuers: IssuerTable, audience: object) => {
    const verifier = createJwtVerifier({
      issuers,
      ...audience,
      findSigner: () => KEY,
      verified: createVerifiedTokens(),
      clockToleranceSeconds: 5
    })
    const outcomeOf = async (text: string) => {
      try {
        await verifier.verify(text, 'Bearer', undefined, NOW)
        return 'accepted'
      } catch (error) {
        return (error as Refusal).reason
      }
    }
    return Promise.all(
      ['one', 'two', 'three'].map(aud =>
        outcomeOf(encodeJws({ alg: 'RS256' }, { iss: ISSUER, sub: 'u', aud, exp: NOW + 60 }, () => Buffer.from('x')))
      ).concat(outcomeOf('opaque'))
    )
  }
  const refused = 'token_audience'
  t.strictSame(await outcomesAt(table, {}), ['accepted', 'accepted', refused, 'accepted'])
  t.strictSame(await outcomesAt(table, { audiences: ['three'] }), [refused, refused, 'accepted', 'accepted'])
  t.strictSame(await outcomesAt(asking, { audiences: ['three'] }), [refused, refused, 'accepted', 'token_malformed'])
  t.strictSame(
    asked,
    [issuer.rules, { ...issuer.rules, audiences: ['three'], resource: undefined }],
    'an opaque token is held to it too'
  )
})

t.test('A fault of the revocations is thrown, or rejects, whether the token is known or not', async t => {
  const issuer = {
    issuer: ISSUER,
    dpopMode: 'ALLOWED',
    scopeClaims: ['scope'],
    keys: { candidates: () => [KEY], isTrusted: () => true },
    rules: { issuer: ISSUER, audiences: ['one'], algs: ['RS256'], audienceClaim: 'aud', clockToleranceSeconds: 5 }
  } as unknown as TokenIssuer
  const verifier = createJwtVerifier({
    issuers: createIssuerTable([issuer]),
    findSigner: () => KEY,
    verified: createVerifiedTokens(),
    clockToleranceSeconds: 5,
    revocationOf () {
      throw new Error('a fault')
    }
  })
  const claims = { iss: ISSUER, sub: 'u', aud: 'one', exp: NOW + 60 }
  const text = encodeJws({ alg: 'RS256' }, claims, () => Buffer.from('x'))
  const verify = async () => verifier.verify(text, 'Bearer', verifier.known(text), NOW)
  t.equal(verifier.known(text), undefined)
  await t.rejects(verify(), { message: 'a fault' })
  t.hasStrict(verifier.known(text), { text })
  await t.rejects(verify(), { message: 'a fault' })
})

t.test('A token of a withdrawn key is not trusted, however current the answer about it is, nor beyond the answer', async t => {
  const [states, text] = [{ isKeyTrusted: true, isCurrent: true }, encodeJws({ alg: 'RS256' }, {
    iss: ISSUER,
    sub: 'u',
    aud: 'one',
    exp: NOW + 60
  }, () => Buffer.from('x'))]
  const issuer = {
    issuer: ISSUER,
    dpopMode: 'ALLOWED',
    scopeClaims: ['scope'],
    keys: { candidates: () => [KEY], isTrusted: () => states.isKeyTrusted },
    rules: {
      issuer: ISSUER,
      audiences: ['one'],
      profile: 'any',
      algs: ['RS256'],
      audienceClaim: 'aud',
      clockToleranceSeconds: 5,
      bindings: ['jkt']
    },
    introspection: { covers: 'jwt', inquiry: { confirm: async () => ({ isCurrent: () => states.isCurrent }) } }
  } as unknown as TokenIssuer
  const verifier = createJwtVerifier({
    issuers: createIssuerTable([issuer]),
    findSigner: () => KEY,
    verified: createVerifiedTokens(),
    clockToleranceSeconds: 5
  })
  const token = await verifier.verify(text, 'Bearer', undefined, NOW)
  for (const [isKeyTrusted, isCurrent] of [[true, true], [false, true], [true, false]] as const) {
    Object.assign(states, { isKeyTrusted, isCurrent })
    t.equal(token.isTrusted(), isKeyTrusted && isCurrent)
  }
})
