import { readFileSync } from 'node:fs'
import t from 'tap'
import { JWK_FAULTS } from '../../../../lib/guard/jose/public-key.ts'
import {
  candidatesIn,
  parseKeySet,
  usableKey,
  type UsableKey
} from '../../../../lib/guard/provider/key-set.ts'
import type { JwsAlg } from '../../../../lib/guard/jose/signature.ts'
import type { SigningKey } from '../../../../lib/guard/jose/signed-jwt.ts'
import { parseDocument } from '../../../../lib/guard/provider/provider-document.ts'
import { KEY_SOURCE_STATUSES } from '../../../../lib/guard/provider/key-source.ts'
import { PROVIDER_FAILURES, ProviderFailure } from '../../../../lib/guard/provider/provider-failure.ts'
import {
  isLoopbackHttp,
  parseConfiguredJwksUri,
  parseDiscoveredUri,
  parseIssuer,
  withoutTrailingSlash
} from '../../../../lib/guard/provider/provider-url.ts'
import { backOffMs, refreshAfterMs } from '../../../../lib/guard/provider/fetch-loop.ts'
import { rowsOf } from '../../../helpers/rows.ts'
import { oddNumber } from '../../../helpers/rsa-jwk.ts'
import { untriedKey } from '../../../helpers/signing-key.ts'

const n = oddNumber(2048)
const evenNumber = Buffer.from(n, 'base64url').fill(0xfe, 255).toString('base64url')
const good = { kty: 'RSA', kid: 'a', n, e: 'AQAB' }
/** Its numbers as Node writes them. */
const withoutLeadingZeros = ({ n, ...rest }: typeof good) => {
  const bytes = Buffer.from(n, 'base64url')
  return { ...rest, n: bytes.subarray(bytes.findIndex(byte => byte !== 0)).toString('base64url') }
}
/** What a set gives for an RSA key when only RS256 is accepted. */
const ofSet = ({ kid, n, e }: { kid?: string, n: string, e: string }) => ({
  kid,
  material: { kty: 'RSA', n, e },
  algs: ['RS256']
})
const asBytes = (document: unknown) => Buffer.from(JSON.stringify(document))
/** What a verdict says, with the material of its key. */
const shown = (verdict: UsableKey | string) => {
  if (typeof verdict === 'string') return verdict
  const { key, ...rest } = verdict
  return { ...rest, material: { ...key.export({ format: 'jwk' }) } }
}
/** What a set says, its usable keys in order. */
const readSet = (body: Uint8Array) => {
  const { usable, passedOver } = parseKeySet(body)
  return { usable: usable.map(shown), passedOver }
}
const without = (member: string) => Object.fromEntries(Object.entries(good).filter(([name]) => name !== member))

t.test('a key is usable when it can verify RS256 and is not set aside for anything else', async t => {
  const accepted: [string, object][] = [
    ['with only the members it needs', good],
    ['without kid', without('kid')],
    ['with an empty kid', { ...good, kid: '' }],
    ['for signatures', { ...good, use: 'sig' }],
    ['for RS256', { ...good, alg: 'RS256' }],
    ['for verifying', { ...good, key_ops: ['verify'] }],
    ['for signing and verifying', { ...good, key_ops: ['sign', 'verify'] }],
    ['with a certificate beside it', { ...good, x5c: ['MIIB'], x5t: 'abc' }],
    ['with 4096 bits', { ...good, n: oddNumber(4096) }],
    ['with a leading zero in its modulus', { ...good, n: oddNumber(2048, 1) }],
    ['with a modulus of 700 characters', { ...good, n: oddNumber(4096, 13) }],
    ['with the exponent 3', { ...good, e: 'Aw' }],
    ['with the largest exponent of 32 bits', { ...good, e: '_____w' }]
  ]
  for (const [title, jwk] of accepted) {
    t.strictSame(shown(usableKey(jwk)), ofSet(withoutLeadingZeros(jwk as typeof good)), title)
  }
})

t.test('any other entry is passed over, for a stable reason', async t => {
  const refused: Record<string, Record<string, unknown>> = {
    not_a_key: { null: null, 'a text': 'abc', 'an array': [good] },
    key_type: {
      'a symmetric key': { ...good, kty: 'oct', k: 'AAAA' },
      'an EC key': { kty: 'EC', crv: 'P-256', kid: 'a', x: 'AA', y: 'AA' },
      'a key without kty': without('kty'),
      'a key whose kty is in another case': { ...good, kty: 'rsa' }
    },
    key_use: {
      'a key for encryption': { ...good, use: 'enc' },
      'a key whose use is null': { ...good, use: null },
      'a key only for signing': { ...good, key_ops: ['sign'] },
      'a key whose key_ops is a text': { ...good, key_ops: 'verify' }
    },
    algorithm: {
      'a key for another algorithm': { ...good, alg: 'RS512' },
      'a key for encryption by its algorithm': { ...good, alg: 'RSA-OAEP' }
    },
    key_id: { 'a key whose kid is a number': { ...good, kid: 1 } },
    private_key: {
      ...Object.fromEntries(['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'].map(member =>
        [`a key that is published with ${member}`, { ...good, [member]: 'AQAB' }]
      )),
      'a key that is published with an empty private member': { ...good, d: undefined }
    },
    modulus: {
      'a key without a modulus': without('n'),
      'an empty modulus': { ...good, n: '' },
      'a modulus with padding': { ...good, n: `${n}==` },
      'a modulus in base64': { ...good, n: `${n.slice(0, -2)}+w` },
      'a modulus with stray trailing bits': { ...good, n: `${n.slice(0, -1)}x` },
      'an even modulus': { ...good, n: evenNumber },
      'a modulus of 512 bits': { ...good, n: oddNumber(512) },
      'a modulus of 2040 bits': { ...good, n: oddNumber(2040) },
      'a modulus of 4104 bits': { ...good, n: oddNumber(4104) },
      'a modulus of 702 characters': { ...good, n: oddNumber(4096, 14) },
      'a modulus of 16384 bits': { ...good, n: oddNumber(16384) }
    },
    exponent: {
      'a key without an exponent': without('e'),
      'an exponent that is a number': { ...good, e: 65537 },
      'the exponent 0': { ...good, e: 'AA' },
      'the exponent 1': { ...good, e: 'AQ' },
      'an even exponent': { ...good, e: 'AQAA' },
      'an exponent of 33 bits': { ...good, e: 'AQAAAAE' },
      'an exponent as long as the modulus': { ...good, e: n }
    }
  }
  for (const { title, value, outcome } of rowsOf(refused)) t.equal(usableKey(value), outcome, title)
  t.strictSame(
    Object.keys(refused),
    JWK_FAULTS.filter(word => word !== 'curve' && word !== 'point'),
    'in the order of the checks'
  )
})

t.test('a set gives its usable keys and counts the others', async t => {
  const other = { ...good, kid: 'b', n: oddNumber(2048, 0, 0x81) }
  t.strictSame(
    readSet(asBytes({ keys: [null, { kty: 'oct', k: 'AA' }, { kty: 'EC' }, good, { ...other, use: 'enc' }] })),
    {
      usable: [ofSet(good)],
      passedOver: { not_a_key: 1, key_type: 2, key_use: 1 }
    }
  )
  t.strictSame(readSet(asBytes({ keys: [] })), { usable: [], passedOver: {} }, 'an empty set is a set')
  t.strictSame(
    readSet(asBytes({ keys: [{ kty: 'EC' }] })),
    { usable: [], passedOver: { key_type: 1 } },
    'so is one of other keys'
  )
  t.equal(
    readSet(Buffer.from(`\uFEFF${JSON.stringify({ keys: [good] })}`)).usable.length,
    1,
    'a byte order mark is dropped'
  )
})

t.test('several keys of one kid are all used, and the same key twice is one', async t => {
  const twin = { ...good, n: oddNumber(2048, 0, 0x81) }
  const another = { ...good, kid: 'b' }
  t.strictSame(readSet(asBytes({ keys: [good, another, twin, good, { ...twin, use: 'sig', alg: 'RS256' }] })), {
    usable: [ofSet(good), ofSet(another), ofSet(twin)],
    passedOver: {}
  })
  t.equal(readSet(asBytes({ keys: [good, { ...good, e: 'Aw' }] })).usable.length, 2, 'the exponent counts too')
  t.strictSame(readSet(asBytes({ keys: [good, { ...twin, use: 'enc' }] })), {
    usable: [ofSet(good)],
    passedOver: { key_use: 1 }
  })
  t.equal(
    readSet(asBytes({ keys: [{ ...good, kid: undefined }, { ...twin, kid: undefined }, { ...good, kid: '' }] })).usable
      .length,
    3,
    'an empty kid is one, and no kid is none'
  )
})

t.test('anything but a key set is a fault of the provider', async t => {
  const refused: Record<string, Record<string, Buffer>> = {
    set_malformed: {
      null: asBytes(null),
      'an array': asBytes([null]),
      'a text': asBytes('keys'),
      'an object without keys': asBytes({}),
      'keys that are a text': asBytes({ keys: 'abc' }),
      'keys that are an object with a length': asBytes({ keys: { length: 1, 0: good } }),
      'keys of which none is an object': asBytes({ keys: [null, 'abc'] })
    },
    set_too_many_keys: {
      '101 keys': asBytes({ keys: Array(101).fill(good) }),
      '10,000 keys': asBytes({ keys: Array(10_000).fill({}) })
    },
    not_json: {
      HTML: Buffer.from('<!doctype html>'),
      nothing: Buffer.alloc(0),
      'half a document': asBytes({ keys: [good] }).subarray(0, 20),
      'bytes that are not UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
      'brackets without end': Buffer.from('['.repeat(1024 * 1024))
    }
  }
  for (const { title, value, outcome: word } of rowsOf(refused)) {
    t.throws(() => readSet(value), { name: 'ProviderFailure', word }, title)
  }
  t.equal(readSet(asBytes({ keys: Array(100).fill(good) })).usable.length, 1, '100 keys are a set')
  for (const other of [null, 'text', 7, true, [{}]]) {
    t.throws(() => parseDocument(asBytes(other), 'discovery_malformed'), {
      name: 'ProviderFailure',
      word: 'discovery_malformed'
    })
  }
  t.strictSame(parseDocument(asBytes({}), 'discovery_malformed'), {})
})

t.test('an issuer is an https URL, or an http one on loopback', async t => {
  const accepted: [string, string][] = [
    ['https://tenant.example/', 'https://tenant.example/'],
    ['https://tenant.example', 'https://tenant.example/'],
    ['https://Tenant.Example:8443/realms/x', 'https://tenant.example:8443/realms/x/'],
    ['http://localhost:3000', 'http://localhost:3000/'],
    ['http://127.0.0.1:3000/', 'http://127.0.0.1:3000/'],
    ['http://127.9.9.9/', 'http://127.9.9.9/'],
    ['http://[::1]:3000/', 'http://[::1]:3000/']
  ]
  for (const [text, base] of accepted) t.equal(parseIssuer(text), base, text)
  for (
    const text of [
      'tenant.example',
      '',
      'http://tenant.example/',
      'http://127.0.0.1.example/',
      'http://localhost.example/',
      'ftp://localhost/',
      'file:///etc/',
      'https://user@tenant.example/',
      'https://:secret@tenant.example/',
      'https://tenant.example/?a=b',
      'https://tenant.example/#a'
    ]
  ) t.throws(() => parseIssuer(text), TypeError, text)
})

t.test('loopback is only 127.0.0.0/8, ::1 and localhost, however the URL writes them', async t => {
  const loopback = [
    '127.0.0.0',
    '127.0.0.1',
    '127.255.255.255',
    '127.1',
    '127.0.0.1.',
    '0x7f000001',
    '0177.0.0.1',
    '2130706433',
    '%31%32%37.0.0.1',
    '１２７.0.0.1',
    'localhost',
    'LOCALHOST',
    'LocalHost',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::0001]'
  ]
  const elsewhere = [
    '126.255.255.255',
    '128.0.0.0',
    '0.0.0.0',
    '10.0.0.1',
    '169.254.0.1',
    '127.0.0.1.example',
    '127.example',
    'localhost.',
    'localhost.example',
    'idp.localhost',
    'mylocalhost',
    '[::]',
    '[::2]',
    '[1::1]',
    '[::127.0.0.1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[fe80::1]'
  ]
  for (const [hosts, isLoopback] of [[loopback, true], [elsewhere, false]] as const) {
    for (const host of hosts) {
      t.equal(isLoopbackHttp(new URL(`http://${host}:8080/`)), isLoopback, host)
      t.equal(isLoopbackHttp(new URL(`https://${host}:8080/`)), false, `https ${host}`)
    }
  }
  for (const host of loopback) t.ok(parseIssuer(`http://${host}:8080/`), host)
  for (const host of elsewhere) t.throws(() => parseIssuer(`http://${host}:8080/`), TypeError, host)
})

t.test('keys are fetched by https, or by http on loopback if the issuer is on loopback too', async t => {
  const issuer = 'https://tenant.example/'
  t.equal(
    parseDiscoveredUri('https://keys.example/set?v=3#x', issuer, 'jwks_uri_refused'),
    'https://keys.example/set?v=3',
    'on another host too'
  )
  t.equal(
    parseDiscoveredUri('http://localhost:1/set', 'http://localhost:1/', 'jwks_uri_refused'),
    'http://localhost:1/set'
  )
  t.equal(
    parseConfiguredJwksUri('http://localhost:1/set'),
    'http://localhost:1/set',
    'the operator may choose loopback for any issuer'
  )
  t.equal(parseConfiguredJwksUri('https://keys.example/set'), 'https://keys.example/set')
  for (
    const text of [
      'http://localhost:1/set',
      'http://tenant.example/set',
      'file:///etc/set',
      'data:application/json,{}',
      '/set',
      'https://a:b@tenant.example/'
    ]
  ) {
    t.throws(() => parseDiscoveredUri(text, issuer, 'jwks_uri_refused'), {
      name: 'ProviderFailure',
      word: 'jwks_uri_refused'
    }, text)
  }
  t.throws(() => parseDiscoveredUri('http://tenant.example/set', 'http://localhost:1/', 'jwks_uri_refused'), {
    name: 'ProviderFailure',
    word: 'jwks_uri_refused'
  })
  t.throws(() => parseDiscoveredUri('ftp://a/', issuer, 'introspection_endpoint'), {
    name: 'ProviderFailure',
    word: 'introspection_endpoint',
    facts: { expected: 'an https URL', found: 'ftp://a/' }
  })
  t.throws(() => parseConfiguredJwksUri('set'), {
    message: 'The address of the keys must be an https URL (http on loopback only) without user info.'
  })
  t.throws(() => parseIssuer('set'), {
    message: 'The issuer must be an https URL (http on loopback only) without user info, query and fragment.'
  })
  t.equal(parseConfiguredJwksUri('https://keys.example/set?a#b'), 'https://keys.example/set?a', 'without a fragment')
  t.strictSame(['https://a/', 'https://a', '/', ''].map(withoutTrailingSlash), ['https://a', 'https://a', '', ''])
  for (const text of ['https://a@tenant.example/', 'https://:b@tenant.example/']) {
    t.throws(() => parseConfiguredJwksUri(text), TypeError, text)
  }
  for (const text of ['http://tenant.example/set', 'set', 'https://a:b@tenant.example/']) {
    t.throws(() => parseConfiguredJwksUri(text), TypeError, text)
  }
})

t.test('a refresh comes before the keys are 10 minutes old, and the back-off stays between 1 s and 60 s', async t => {
  t.strictSame([refreshAfterMs(0), refreshAfterMs(1)], [480_000, 570_000])
  t.strictSame([backOffMs(1, 0), backOffMs(1, 1)], [2000, 1000])
  t.strictSame([1, 2, 3, 4, 5, 6, 7, 1000, 5000].map(failures => backOffMs(failures, 0)), [
    2000,
    4000,
    8000,
    16_000,
    32_000,
    60_000,
    60_000,
    60_000,
    60_000
  ])
})

t.test('docs/reference/monitoring.md explains each state, failure and reason', async t => {
  const page = readFileSync(new URL('../../../../docs/reference/monitoring.md', import.meta.url), 'utf8')
  const section = page.slice(page.indexOf('## Signing keys'))
  const rows = (title: string) => {
    const [part = ''] = section.slice(section.indexOf(`### ${title}\n`) + 3).split('\n### ', 1)
    return [...part.matchAll(/^\| `(\w+)` \|/gm)].map(([, word]) => word!)
  }
  t.strictSame(rows('States'), KEY_SOURCE_STATUSES)
  t.strictSame(rows('Failures'), PROVIDER_FAILURES)
  t.strictSame(rows('Entries that are passed over'), JWK_FAULTS)
  const partsOf = ({ name, message, word, detail, facts }: ProviderFailure) => ({ name, message, word, detail, facts })
  for (const word of PROVIDER_FAILURES) {
    t.strictSame(partsOf(new ProviderFailure(word)), {
      name: 'ProviderFailure',
      message: word,
      word,
      detail: undefined,
      facts: {}
    })
  }
  const failure = new ProviderFailure('status', 500, { url: 'a' }).with({ url: 'b', status: 500 })
  t.strictSame(partsOf(failure), {
    name: 'ProviderFailure',
    message: 'status: 500',
    word: 'status',
    detail: 500,
    facts: { url: 'a', status: 500 }
  }, 'the first fact stays')
})

t.test('Each key that may have signed a token is tried once, and eight at most', async t => {
  const key = (name: string, kid: string | undefined, algs: SigningKey['algs'] = ['RS256']) =>
    untriedKey(name, kid, algs)
  const names = (found: readonly SigningKey[]) => found.map(({ pem }) => pem).join(' ')
  const set = (...keys: SigningKey[]) => ({ keys, passedOver: {} })
  const mixed = set(key('a', 'k1'), key('b', undefined), key('c', 'k1', ['RS256', 'PS256']), key('d', 'k2', ['ES256']))
  t.equal(names(candidatesIn(mixed, undefined, 'RS256')), 'a b c')
  t.equal(names(candidatesIn(mixed, 'k1', 'RS256')), 'a c')
  t.equal(names(candidatesIn(mixed, 'k1', 'PS256')), 'c')
  t.equal(names(candidatesIn(mixed, 'k2', 'RS256')), '')
  t.equal(names(candidatesIn(mixed, 'k1', 'RS512')), '')
  const many = (alg: JwsAlg) => set(...Array.from({ length: 10 }, (_, index) => key(String(index), 'k', [alg])))
  const eight = '0 1 2 3 4 5 6 7'
  for (
    const [alg, first] of [['RS256', eight], ['ES256', eight], ['EdDSA', eight], ['ES384', '0 1 2 3'], [
      'ES512',
      '0 1 2 3'
    ]] as const
  ) {
    t.equal(names(candidatesIn(many(alg), undefined, alg)), first, `${alg} without kid`)
    t.equal(names(candidatesIn(many(alg), 'k', alg)), eight, `${alg} with kid`)
  }
})
