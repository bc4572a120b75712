import t from 'tap'
import type { RefusalReason } from '../../lib/refusal.ts'
import { startApp } from '../helpers/app.ts'
import { callBearer, expectBearerRefusal, expectRefusal } from '../helpers/call.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { createTokenKey, makeToken, startTokenProvider, type TokenKey } from '../helpers/token-issuer.ts'
import { countVerifications } from '../helpers/verifications.ts'

/** The keys that one token without kid is tried against. With the kid of all, eight are. */
const TRIED = { RS256: 8, PS256: 8, ES256: 8, EdDSA: 8, ES384: 4, ES512: 4 }

t.test(
  'A forged token costs no more than a few verifications under keys at hand, and an accepted one in its place is ' +
    'confirmed once',
  async t => {
    const keys = new Map<string, TokenKey[]>()
    // All keys of an algorithm share one kid.
    for (const alg of Object.keys(TRIED)) {
      keys.set(
        alg,
        await Promise.all(Array.from({ length: 9 }, () => createTokenKey(alg)))
      )
    }
    const published = [...keys.values()].flatMap(ofAlg => ofAlg.slice(0, 8).map(({ alg, jwk }) => ({ ...jwk, alg })))
    const provider = await startTokenProvider(t, ...published)
    const running = await startApp(t, { url: provider.issuer } as Issuer, { IDP_ALGS: Object.keys(TRIED).join(' ') })
    for (const [alg, triedOfAll] of Object.entries(TRIED)) {
      const ofAlg = keys.get(alg)!
      const forger = ofAlg[8]!
      // Only of these keys does @fastify/jwt keep what it has parsed.
      const keptByPackage = alg === 'EdDSA' ? 1 : 0
      // From now on each key of the algorithm is parsed, and the package knows those that it will confirm.
      for (const signer of [forger, ofAlg[0]!, ofAlg[triedOfAll - 1]!, ofAlg[7]!]) {
        await callBearer(running, makeToken(provider.issuer, signer, { header: { kid: undefined } }))
      }
      for (const kid of [undefined, alg]) {
        const tried = kid === undefined ? triedOfAll : 8
        const rows: ReadonlyArray<
          readonly [title: string, signer: TokenKey, refusal: RefusalReason | undefined, kept: number, anew: number]
        > = [
          ['a forged token', forger, 'token_signature', tried, 0],
          ['one by the last key that is tried', ofAlg[tried - 1]!, undefined, tried + keptByPackage, 1 - keptByPackage],
          ['one by the first key', ofAlg[0]!, undefined, 1 + keptByPackage, 1 - keptByPackage],
          ...(tried < 8 ? [['one by the next key', ofAlg[tried]!, 'token_signature', tried, 0] as const] : [])
        ]
        for (const [title, signer, refusal, kept, anew] of rows) {
          const name = `${alg} ${kid === undefined ? 'without kid' : 'with the kid of all'}: ${title}`
          const before = countVerifications()
          const outcome = await callBearer(running, makeToken(provider.issuer, signer, { header: { kid } }))
          const after = countVerifications()
          if (refusal) expectRefusal(t, outcome, refusal, 'Bearer', name)
          else t.equal(outcome.status, 200, name)
          t.strictSame({ kept: after.kept - before.kept, anew: after.anew - before.anew }, { kept, anew }, name)
        }
      }
      const short = makeToken(provider.issuer, forger, { header: { kid: undefined } }).replace(/[^.]+$/, 'AAAA')
      const before = countVerifications()
      await expectBearerRefusal(t, running, short, 'token_signature', `${alg}, a signature that is too short`)
      if (alg.startsWith('ES')) t.strictSame(countVerifications(), before, `${alg}: no key can have made it`)
    }
  }
)
