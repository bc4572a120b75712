import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import t from 'tap'
import { exactly } from '../../helpers/containing.ts'
import { createStatementSigner, readStatementKey, type StatementSigner } from '../../../lib/gate/statement.ts'
import { openStatementKeys, type StatementKeySource } from '../../../lib/gate/statement-keys.ts'

t.test('A statement is signed by the key that is published, for a minute.', async t => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const signer = createStatementSigner([readStatementKey(pem)!], {
    now: () => 1_700_000_000.999,
    randomBytes: size => Buffer.alloc(size, 7)
  })
  const claims = { iss: 'i', aud: 'a', exp: 1, sub: 'user-1' }
  const statement = signer.sign({ claims, scopes: ['a', 'b'], issuer: 'https://a.example/' }, {
    issuer: 'https://gate.example',
    audience: 'http://up',
    method: 'PUT',
    path: '/x'
  })
  const [header, payload, signature] = statement.split('.') as [string, string, string]
  const { keys: [jwk, ...others] } = signer.keySet as unknown as { keys: [Record<string, string>] }
  t.strictSame(others, [])
  t.ok(
    verify('sha256', Buffer.from(`${header}.${payload}`), {
      key: createPublicKey({ key: jwk, format: 'jwk' }),
      dsaEncoding: 'ieee-p1363'
    }, Buffer.from(signature, 'base64url'))
  )
  const read = (part: string): unknown => JSON.parse(String(Buffer.from(part, 'base64url')))
  t.strictSame(read(header), { alg: 'ES256', typ: 'JWT', kid: jwk.kid })
  t.strictSame(read(payload), {
    iss: 'https://gate.example',
    aud: 'http://up',
    sub: 'user-1',
    sub_id: { format: 'iss_sub', iss: 'https://a.example/', sub: 'user-1' },
    scope: 'a b',
    method: 'PUT',
    path: '/x',
    iat: 1_700_000_000,
    exp: 1_700_000_060,
    jti: Buffer.alloc(16, 7).toString('base64url')
  })
  t.match(jwk, {
    kty: exactly('EC'),
    crv: exactly('P-256'),
    alg: exactly('ES256'),
    use: exactly('sig'),
    kid: /^[\w-]{43}$/
  })
  t.strictSame(Object.keys(jwk).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'], 'and nothing private')

  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const sec1 = privateKey.export({ type: 'sec1', format: 'pem' }) as string
  for (
    const bad of [
      '',
      sec1,
      '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
      p384.export({ type: 'pkcs8', format: 'pem' }) as string,
      rsa.export({ type: 'pkcs8', format: 'pem' }) as string
    ]
  ) {
    t.equal(readStatementKey(bad), undefined)
  }
})

const makePem = () =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
const kidOf = (statement: string): string => JSON.parse(String(Buffer.from(statement.split('.')[0]!, 'base64url'))).kid
const kidsOf = ({ keySet }: StatementSigner) => keySet.keys.map(key => (key as { kid: string }).kid)
const caller = (issuer: string) => ({
  claims: { iss: issuer, aud: 'a', exp: 1, sub: 'admin' },
  scopes: [],
  issuer
})
const request = { issuer: 'https://gate.example', audience: 'http://up', method: 'GET', path: '/' }

t.test('Of several keys the first signs, and each is published once.', async t => {
  const [a, b] = [makePem(), makePem()]
  const signerOf = (...pems: string[]) =>
    createStatementSigner(pems.map(pem => readStatementKey(pem)!), { now: () => 0, randomBytes: Buffer.alloc })
  const [first, second] = kidsOf(signerOf(a, b))
  t.not(first, second)
  t.strictSame([kidsOf(signerOf(b, a)), kidsOf(signerOf(a, a))], [[second, first], [first]])
  t.strictSame([signerOf(a, b), signerOf(b, a)].map(signer => kidOf(signer.sign(caller('i'), request))), [
    first,
    second
  ])
})

t.test('A key may be in a variable, and without its text nothing is opened.', async t => {
  const [a, b] = [makePem(), makePem()]
  const open = (...sources: StatementKeySource[]) =>
    openStatementKeys({
      sources,
      now: () => 0,
      randomBytes: Buffer.alloc,
      readFile: async path => Buffer.from(path === 'b.pem' ? b : raise()),
      environment: name => name === 'KEY' ? a : undefined,
      every: () => () => {},
      onChange () {}
    })
  const raise = () => {
    throw Object.assign(new Error('no file'), { code: 'ENOENT' })
  }
  const both = kidsOf((await open('b.pem', { env: 'KEY' })).current)
  t.equal(new Set(both).size, 2)
  t.strictSame(kidsOf((await open({ env: 'KEY' }, { file: 'b.pem' })).current), both.toReversed())
  await t.rejects(open({ env: 'NONE' }), {
    name: 'StatementKeyError',
    source: { env: 'NONE' },
    message: 'the variable is not set'
  })
  await t.rejects(open({ file: 'none.pem' }), {
    name: 'StatementKeyError',
    source: 'none.pem',
    message: 'the file cannot be read (ENOENT)'
  })
})

t.test('The files of keys are read again when they change, and a broken one changes nothing.', async t => {
  const [a, b, c] = [makePem(), makePem(), makePem()]
  const files: Record<string, string> = { 'a.pem': a, 'b.pem': b }
  const events: unknown[] = []
  let look = () => {}
  const open = (...paths: string[]) =>
    openStatementKeys({
      sources: paths,
      environment: () => undefined,
      now: () => 0,
      randomBytes: Buffer.alloc,
      readFile: async path => Buffer.from(files[path] ?? raise()),
      every (ms, run) {
        t.equal(ms, 5000)
        look = run
        return () => {
          events.push('closed')
        }
      },
      onChange: error => {
        events.push(error && [error.name, error.source, error.message])
      }
    })
  const raise = () => {
    throw Object.assign(new Error('no file'), { code: 'ENOENT' })
  }
  const again = async () => {
    look()
    await new Promise(setImmediate)
    return kidsOf(keys.current)
  }
  const keys = await open('a.pem', 'b.pem')
  const [kidA, kidB] = kidsOf(keys.current)
  t.strictSame(await again(), [kidA, kidB])
  t.strictSame(events, [], 'nothing has changed')
  Object.assign(files, { 'a.pem': b, 'b.pem': c })
  const changed = await again()
  t.equal(changed[0], kidB)
  t.equal(kidOf(keys.current.sign(caller('i'), request)), kidB)
  files['b.pem'] = 'x'
  t.strictSame([await again(), await again()], [changed, changed])
  delete files['a.pem']
  t.strictSame(await again(), changed)
  Object.assign(files, { 'a.pem': a, 'b.pem': b })
  t.strictSame(await again(), [kidA, kidB])
  delete files['a.pem']
  await again()
  const ABSENT = ['StatementKeyError', 'a.pem', 'the file cannot be read (ENOENT)']
  t.strictSame(events, [
    undefined,
    ['StatementKeyError', 'b.pem', 'it is no private key in PKCS#8 and PEM form, EC P-256'],
    ABSENT,
    undefined,
    ABSENT
  ], 'each fault once, until the files are right again')
  keys.close()
  t.equal(events.at(-1), 'closed')
  files['b.pem'] = 'x'
  await t.rejects(open('b.pem'), {
    name: 'StatementKeyError',
    message: 'it is no private key in PKCS#8 and PEM form, EC P-256'
  })
})
