import t from 'tap'
import { claimOfKey, claimTarget, issuerOfKey, keyOf, revocationFactsOf, type RevocableToken } from '../../../lib/revocation/target.ts'

const ISSUER = 'https://issuer.example/'
const factsOf = (claims: object, names = { session: ['sid'], other: ['uid'] }) =>
  revocationFactsOf(
    { claims: { sub: 'u', ...claims }, issuer: ISSUER, binding: {} } as unknown as RevocableToken,
    names
  )
const always = factsOf({}).keys
const added = (...given: Parameters<typeof factsOf>) =>
  factsOf(...given).keys.filter(key => !always.includes(key))
const uid = (value: string) => [keyOf(['claim', ISSUER, 'uid', value]), keyOf(['claim', '*', 'uid', value])]

t.test('A claim is compared by each of its values, a text or a number.', async t => {
  t.strictSame(added({ uid: 7 }), uid('7'))
  t.strictSame(added({ uid: ['a', 'b', {}, null] }), [...uid('a'), ...uid('b')])
  t.strictSame(added({ uid: {} }), [])
  t.strictSame(added({ sid: 's' }), [keyOf(['sid', ISSUER, 's']), keyOf(['sid', '*', 's'])])
})

t.test('An address is compared without case in each claim, and as it is written too', async t => {
  const claims = { sub: 'Ann@A.example', email: 'Ann@A.example', uid: ['Ann@A.example', 'Ann'], sid: 'S' }
  t.strictSame(factsOf(claims, { session: ['sid'], other: ['email', 'uid'] }).keys, [
    keyOf(['sub', ISSUER, 'Ann@A.example']),
    keyOf(['email', ISSUER, 'sub', 'ann@a.example']),
    keyOf(['issuer', ISSUER]),
    keyOf(['sid', ISSUER, 'S']),
    keyOf(['sid', '*', 'S']),
    keyOf(['claim', ISSUER, 'email', 'ann@a.example']),
    keyOf(['claim', '*', 'email', 'ann@a.example']),
    ...uid('Ann@A.example'),
    keyOf(['email', ISSUER, 'uid', 'ann@a.example']),
    ...uid('Ann')
  ])
})

t.test('A dotted name leads into objects if no claim has the whole name.', async t => {
  const names = { session: ['session.id'], other: [] }
  const keys = [keyOf(claimTarget('session.id', ISSUER, 's')), keyOf(claimTarget('session.id', '*', 's'))]
  t.strictSame(added({ session: { id: 's' } }, names), keys)
  t.strictSame(added({ 'session.id': 's', session: { id: 'other' } }, names), keys)
  t.strictSame(added({ session: [{ id: 's' }] }, names), [])
  const values = Array.from({ length: 1001 }, (_, index) => index)
  t.equal(factsOf({ session: { id: values } }, names).uncertain, 'session.id')
})

t.test('Only a token with a key is compared by it', async t => {
  const keysOf = (binding: object) =>
    revocationFactsOf({ claims: { sub: 'u' }, issuer: ISSUER, binding } as unknown as RevocableToken, {
      session: [],
      other: []
    }).keys
  const ofEach = [keyOf(['sub', ISSUER, 'u']), keyOf(['issuer', ISSUER])]
  t.strictSame(keysOf({}), ofEach)
  t.strictSame(keysOf({ jkt: 'k' }), [...ofEach, keyOf(['jkt', 'k'])])
})

t.test("A user's 21st group and 25th sid are compared, and all up to 1,000", async t => {
  const values = Array.from({ length: 1000 }, (_, index) => String(index))
  t.strictSame(added({ uid: values }), values.flatMap(uid))
  t.strictSame(added({ sid: values.slice(0, 25) }).at(-2), keyOf(['sid', ISSUER, '24']))
  t.strictSame([
    factsOf({ uid: values, jti: values }).uncertain,
    factsOf({ uid: [...values, 'more'] }).uncertain,
    factsOf({ appid: [...values, 'more'] }).uncertain
  ], [undefined, 'uid', 'appid'])
})

t.test('A jti and a client may be a number or a list', async t => {
  const jti = (value: string) => keyOf(['jti', ISSUER, value])
  t.strictSame(added({ jti: 7 }), [jti('7')])
  t.strictSame(added({ jti: ['a', 8] }), [jti('a'), jti('8')])
  t.strictSame(added({ client_id: 7 }), [keyOf(['client', ISSUER, '7'])])
  t.strictSame(added({ client_id: ['a', 'b'] }), [keyOf(['client', ISSUER, 'a']), keyOf(['client', ISSUER, 'b'])])
})

t.test('A client is client_id, azp, cid or appid', async t => {
  for (const claim of ['client_id', 'azp', 'cid', 'appid']) {
    t.strictSame(added({ [claim]: 'c' }), [keyOf(['client', ISSUER, 'c'])], claim)
  }
  t.strictSame(added({ client_id: 'c', azp: 'c', appid: 'd' }), [
    keyOf(['client', ISSUER, 'c']),
    keyOf(['client', ISSUER, 'd'])
  ])
  t.strictSame(added({ client: 'c' }), [])
})

t.test('A time that is a text is taken as its number, and any other value as no past time', async t => {
  const loginAt = (value: unknown) => factsOf({ auth_time: value }).loginAt
  t.strictSame([1_800_000_000, '1800000000', '1800000000.5'].map(loginAt), [
    1_800_000_000,
    1_800_000_000,
    1_800_000_000.5
  ])
  t.strictSame(['', 'now', '-1', '0x10', '1e9', null, [1], NaN].map(loginAt), Array(8).fill(Infinity))
  t.equal(loginAt(undefined), undefined, 'a login that is not named is none')
})

t.test('A session in a claim of another name than sid has a key of its own', async t => {
  const names = { session: ['session_id'], other: [] }
  t.strictSame(added({ session_id: 's', sid: 'other' }, names), [
    keyOf(['claim', ISSUER, 'session_id', 's']),
    keyOf(['claim', '*', 'session_id', 's'])
  ])
  t.strictSame(claimTarget('session_id', ISSUER, 's'), ['claim', ISSUER, 'session_id', 's'])
  t.strictSame(claimTarget('sid', ISSUER, 's'), ['sid', ISSUER, 's'])
})

t.test('Keys are short, and say apart what differs', async t => {
  t.equal(
    keyOf(['sub', 'https://i.example/', 'u']),
    keyOf(['sub', 'https://i.example', 'u']),
    'the last slash of an issuer'
  )
  t.not(keyOf(['sub', 'https://i.example', 'u']), keyOf(['sid', 'https://i.example', 'u']))
  t.not(keyOf(['claim', 'https://i.example', 'a', 'b c']), keyOf(['claim', 'https://i.example', 'a b', 'c']))
  t.equal(keyOf(['jkt', 'abc/']), '["jkt","abc/"]', 'a thumbprint is no issuer')
  const long = keyOf(['sub', 'https://i.example', 'u'.repeat(60_000)])
  t.equal(long.length, 65)
  t.equal(issuerOfKey(long), 'https://i.example')
  t.equal(issuerOfKey(keyOf(['jkt', 'k'.repeat(60_000)])), undefined, 'no issuer has made a key')
  t.not(long, keyOf(['sub', 'https://i.example', 'u'.repeat(60_001)]))
})

t.test('A key of more than 200 characters is a hash, with the issuer behind it', t => {
  const rest = keyOf(['sub', ISSUER, '']).length
  const [whole, hashed] = [200, 201].map(length => keyOf(['sub', ISSUER, 'x'.repeat(length - rest)])) as [string, string]
  t.equal(whole.length, 200)
  t.match(hashed, /^sub [\w-]{43} https:/)
  t.equal(issuerOfKey(hashed), issuerOfKey(whole))
  t.end()
})

t.test('The claim can be read in a key, and its issuer behind it.', t => {
  const rows: Array<[target: Parameters<typeof keyOf>[0], claim: string | undefined]> = [
    [['sid', ISSUER, 's'], 'sid'],
    [['sid', ISSUER, 's'.repeat(200)], 'sid'],
    [['sid', '*', 's'.repeat(200)], 'sid'],
    [['claim', ISSUER, 'device', 'd'], 'device'],
    [['claim', '*', 'https://a.example/"x", \\', 'd'], 'https://a.example/"x", \\'],
    [['claim', ISSUER, 'device', 'd'.repeat(200)], 'device'],
    [['claim', '*', 'https://a.example/"x", \\ \\', 'd'.repeat(200)], 'https://a.example/"x", \\ \\'],
    [['email', ISSUER, 'upn', 'a@b'], 'upn'],
    [['email', ISSUER, 'https://a.example/"x"', 'a@b'.repeat(100)], 'https://a.example/"x"'],
    [['sub', ISSUER, 'sid'], undefined],
    [['client', ISSUER, 'claim'], undefined],
    [['issuer', ISSUER], undefined],
    [['jkt', 'k'], undefined]
  ]
  for (const [target, claim] of rows) {
    const key = keyOf(target)
    t.equal(claimOfKey(key), claim, key)
    if (claim !== undefined) t.equal(issuerOfKey(key), target[1].replace(/\/$/, ''), key)
  }
  t.end()
})
