import { countVerifications } from '../helpers/verifications.ts'
import t from 'tap'
import { makeIssuerKey } from '../helpers/issuer.ts'
import { encodeJws } from '../helpers/jws.ts'
import { RECEIVER, startRevocation, type Site } from '../helpers/revocation-site.ts'
import { createTokenKey, type TokenKey } from '../helpers/token-issuer.ts'
import { sendRaw } from '../helpers/wire.ts'

/** Members that make the claims hold so many values more: each a comma. */
const members = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`m${n}`, 0]))

const errorOf = async (answer: Response): Promise<unknown[]> => {
  const body = await answer.text()
  return body === ''
    ? [answer.status]
    : [answer.status, JSON.parse(body).description ?? JSON.parse(body).error_description ?? JSON.parse(body).message]
}

/** A count of the work of one request. */
async function verificationsOf (
  work: () => Promise<unknown>
) {
  const before = countVerifications()
  await work()
  const after = countVerifications()
  return { kept: after.kept - before.kept, anew: after.anew - before.anew }
}

t.test(
  'A forged event costs one verification under each of the first four candidate keys, and none of them parses a ' +
    'key again',
  async t => {
    const ALGS = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519']
    const keys = new Map<string, TokenKey[]>()
    for (const alg of ALGS) keys.set(alg, await Promise.all(Array.from({ length: 9 }, () => createTokenKey(alg))))
    const { transmitter, push } = await startRevocation(t, {
      revocation: transmitter => {
        // The ninth of each is that of a forger. All of an algorithm share one kid.
        transmitter.keys.splice(
          0,
          Infinity,
          ...[...keys.values()].flatMap(ofAlg =>
            ofAlg.slice(0, 8).map(({ alg, jwk }) =>
              ({ jwk: { ...jwk, alg } }) as unknown as ReturnType<typeof makeIssuerKey>
            )
          )
        )
        return { transmitters: [{ issuer: transmitter.url, audience: RECEIVER, delivery: 'push' }] }
      }
    })
    const event = ({ alg, sign }: TokenKey, kid: string | undefined, claims: object = {}) =>
      encodeJws({ alg, typ: 'secevent+jwt', ...kid !== undefined && { kid } }, {
        iss: transmitter.url,
        aud: RECEIVER,
        jti: 'j1',
        iat: Math.floor(Date.now() / 1000),
        events: { 'https://a.example/unknown': {} },
        ...claims
      }, sign)
    for (const [alg, ofAlg] of keys) {
      // EdDSA and Ed25519 are two names of one algorithm, so each is tried under the first four of both.
      const [signer, forger] = [keys.get(alg === 'Ed25519' ? 'EdDSA' : alg)![0]!, ofAlg[8]!]
      const named = { ...signer, alg }
      const kid = signer.kid
      t.strictSame(await errorOf(await push(event(named, kid))), [202], alg)
      const fourth = keys.get(alg === 'Ed25519' ? 'EdDSA' : alg)![3]!
      t.strictSame(await errorOf(await push(event({ ...fourth, alg }, undefined))), [202], `${alg}, by the fourth key`)
      t.equal((await push(event({ ...ofAlg[4]!, alg }, undefined))).status, 400, `${alg}, by the fifth key`)
      for (const name of [undefined, forger.kid]) {
        t.equal((await push(event(forger, name))).status, 400, `${alg}: now each key is parsed`)
      }
      for (const [title, name] of [['without kid', undefined], ['with the kid of all', forger.kid]] as const) {
        t.strictSame(await verificationsOf(() => push(event(forger, name))), { kept: 4, anew: 0 }, `${alg} ${title}`)
      }
      const pad = 'x'.repeat(8 * 1024)
      t.strictSame(
        await verificationsOf(async () => {
          t.strictSame(await errorOf(await push(event(forger, undefined, { pad }))), [
            400,
            'A token of this size must name its key.'
          ], alg)
        }),
        { kept: 0, anew: 0 },
        `${alg}, beyond 8 KiB`
      )
    }
  }
)

t.test('A large event passes under its only candidate key', async t => {
  const { transmitter, push } = await startRevocation(t)
  const claims = { sub_id: { format: 'opaque', id: 'a' }, pad: 'x'.repeat(40_000) }
  t.strictSame(await errorOf(await push(transmitter.set({ claims }))), [202])
  t.strictSame(await errorOf(await push(transmitter.set({ claims, header: { kid: undefined } }))), [202])
  const { kept, anew } = await verificationsOf(() =>
    push(transmitter.set({ claims: { ...claims, iss: 'https://other.example' } }))
  )
  t.strictSame({ kept, anew }, { kept: 0, anew: 0 }, 'of another issuer')
})

t.test('An event of too many values is refused before it is parsed, and its signature is not looked at', async t => {
  const { transmitter, push } = await startRevocation(t)
  const set = (claims: object, header: object = {}) =>
    transmitter.set({ claims: { sub_id: { format: 'opaque', id: 'a' }, ...claims }, header })
  // Each begins with a brace or a comma, but for the claims as a whole, and the event, which is empty.
  const usual = Buffer.from(set({}).split('.')[1]!, 'base64url').toString().replace(/[^{[,]/g, '').length
  const MANY = [400, 'The token holds too many values.']
  const rows: ReadonlyArray<readonly [title: string, event: string, expected: readonly unknown[]]> = [
    ['1,000', set(members(1000 - usual)), [202]],
    ['1,001', set(members(1001 - usual)), MANY],
    ['1,001 brackets', set({ x: JSON.parse('['.repeat(1001) + ']'.repeat(1001)) }), MANY],
    ['60 levels', set({ x: JSON.parse('['.repeat(60) + ']'.repeat(60)) }), [202]],
    ['64 levels within it', set({ x: JSON.parse('['.repeat(64) + ']'.repeat(64)) }), MANY],
    ['objects', set({ x: Array.from({ length: 1001 }, () => ({})) }), MANY],
    ['in the header', set({}, members(1001)), MANY],
    ['what is no JSON', `${Buffer.from('['.repeat(24_000)).toString('base64url')}.e30.AA`, MANY]
  ]
  for (const [title, event, expected] of rows) t.strictSame(await errorOf(await push(event)), expected, title)
  t.strictSame(await verificationsOf(() => push(set(members(1001)))), { kept: 0, anew: 0 })
})

t.test('A form has at most 100 members', async t => {
  const { issuer, logout } = await startRevocation(t, { revocation: () => ({ logout: { clientId: 'c' } }) })
  const token = issuer.token({
    aud: 'c',
    jti: 'l1',
    sid: 's1',
    events: { 'http://schemas.openid.net/event/backchannel-logout': {} }
  }, { typ: 'logout+jwt' })
  t.strictSame(await errorOf(await logout(`logout_token=${token}${'&a'.repeat(99)}`)), [200])
  for (const form of [`logout_token=${token}${'&a'.repeat(100)}`, '&'.repeat(16_000)]) {
    const answer = await logout(form)
    t.strictSame([answer.status, await answer.json()], [
      400,
      { error: 'invalid_request', error_description: 'The form has too many members.' }
    ])
  }
})

t.test('A subject of too many values is refused before it is parsed', async t => {
  const { operate } = await startRevocation(t, { revocation: () => ({ operators: { scope: 'revoke' } }) })
  const sub = { format: 'opaque', id: 'a' }
  // Four values beside them: the body, the subject, and its two members.
  const [whole, more] = [996, 997].map(count => ({ sub_id: sub, ...members(count) }))
  t.strictSame(await errorOf(await operate(whole!)), [204])
  const refused = [400, 'The message cannot be understood: the body holds too many values.']
  t.strictSame(await errorOf(await operate(more!)), refused)
  t.strictSame(await errorOf(await operate('['.repeat(60_000))), refused)
  t.strictSame(await errorOf(await operate('{')), [400, 'The message cannot be understood: the body is not JSON.'])
  t.strictSame(await errorOf(await operate('{"__proto__":{"sub_id":{}}}')), [400, 'The message cannot be understood: the body has no sub_id.'])
})

t.test('A body in more than 256 pieces is 413', async t => {
  const { transmitter, url }: Site = await startRevocation(t)
  const event = transmitter.set({ claims: { sub_id: { format: 'opaque', id: 'a' } } })
  const inPieces = async (count: number) => {
    // The last piece is the rest.
    const parts = [...event.slice(0, count - 1), event.slice(count - 1)]
    const lines = parts.flatMap(part => [part.length.toString(16), part])
    return (await sendRaw(url, [
      'POST /revocation/events HTTP/1.1',
      `Host: ${new URL(url).host}`,
      'Connection: close',
      'Content-Type: application/secevent+jwt',
      'Transfer-Encoding: chunked',
      '',
      ...lines,
      '0',
      ''
    ])).status
  }
  t.strictSame([await inPieces(1), await inPieces(256), await inPieces(257)], [202, 202, 413])
})
