import { CLIENT_KEYS, STRANGER, TOKEN_KEYS, hmacOf, thumbprintOf, type Jwk } from './keys.ts'
import { AUDIENCE, ISSUER, type JwsParts, type Parts } from './parts.ts'
import type { Random } from './random.ts'

/** One change of a request. It may be good or bad: the two verifiers say which. */
export interface Mutation {
  name: string
  apply: (parts: Parts, random: Random) => void
}

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const VISIBLE = Array.from({ length: 94 }, (_, at) => String.fromCharCode(33 + at)).join('')

/** Values that some type check may forget. */
const JUNK: readonly unknown[] = [
  undefined,
  null,
  true,
  false,
  0,
  -1,
  1,
  1.5,
  1e308,
  '',
  ' ',
  'x',
  '0',
  'null',
  '__proto__',
  'constructor',
  '\ud800',
  'é',
  [],
  [[]],
  [null],
  ['x'],
  {},
  { toString: 'x' },
  { length: 1 },
  'a'.repeat(600)
]

const typs = (type: string) => [
  type,
  type.toUpperCase(),
  `application/${type}`,
  `APPLICATION/${type}`,
  `application/application/${type}`,
  ` ${type}`,
  `${type} `,
  `${type};v=1`,
  `${type}\u0000`,
  type.replace('+', '%2B'),
  type.replace('t', 'ｔ'),
  'JWT',
  'jwt',
  'application/jwt',
  'at+jwt',
  'dpop+jwt',
  'jose',
  [type],
  { type }
]
const ALGS = [
  'none',
  'NONE',
  'HS256',
  'HS512',
  'RS256',
  'PS256',
  'ES256',
  'ES384',
  'ES256K',
  'EdDSA',
  'Ed25519',
  'Ed448',
  'es256',
  'ES256 ',
  'ML-DSA-44',
  '__proto__',
  'toString',
  ['ES256']
]

const jws = (
  part: 'token' | 'proof',
  name: string,
  apply: (jws: JwsParts, random: Random, parts: Parts) => void
): Mutation => ({
  name: `${part}: ${name}`,
  apply: (parts, random) => apply(parts[part], random, parts)
})

/**
 * A member that is changed after the JSON has been written: twice, escaped, or a number that JSON.stringify cannot
 * write.
 */
function rewritten (json: string, random: Random) {
  const members = Object.entries(JSON.parse(json) as object)
  const [name, value] = random.among(members)
  const text = JSON.stringify(value)
  const found = `${JSON.stringify(name)}:${text}`
  switch (random.below(10)) {
    case 0:
      return json.replace(/}$/, () => `,${found}}`)
    case 1:
      return json.replace(/}$/, () => `,${JSON.stringify(name)}:${JSON.stringify(random.among(JUNK) ?? null)}}`)
    case 2:
      return json.replace(/^{/, () => `{${JSON.stringify(name)}:${JSON.stringify(random.among(JUNK) ?? null)},`)
    case 3:
      return json.replace(
        JSON.stringify(name),
        () => `"${[...name].map(char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
      )
    case 4:
      return typeof value === 'number'
        ? json.replace(
          found,
          () =>
            `${JSON.stringify(name)}:${
              random.among([
                '1e999',
                '-1e999',
                `${value}.0`,
                `${value}e0`,
                `0${value}`,
                `+${value}`,
                'NaN',
                `"${value}"`
              ])
            }`
        )
        : ` \t\r\n${json}\n `
    case 5:
      return `\ufeff${json}`
    case 6:
      return Buffer.concat([
        Buffer.from(json.slice(0, -1)),
        Buffer.from(',"x":"'),
        Buffer.from([random.among([0xff, 0xc0, 0xed, 0x80]), random.below(256)]),
        Buffer.from('"}')
      ])
    case 7:
      return json.slice(0, random.below(json.length))
    case 8:
      return json.replace(/}$/, () => `,"deep":${'['.repeat(40 + random.below(60))}${']'.repeat(40)}`)
    default:
      return json.replace(
        /}$/,
        () =>
          `,"deep":${'['.repeat(30 + random.below(100))}1`.replace(
            /\[+1$/,
            deep => deep + ']'.repeat(deep.length - 1)
          ) + '}'
      )
  }
}

const edited = (text: string, random: Random, chars: string) => {
  const at = random.below(text.length)
  const char = random.among([...chars])
  return random.among([
    text.slice(0, at) + char + text.slice(at),
    text.slice(0, at) + text.slice(at + 1),
    text.slice(0, at) + char + text.slice(at + 1)
  ])
}

/** What can be done to a JWS, whatever it is. */
const anyJws = (part: 'token' | 'proof', type: string) => [
  jws(part, 'typ', ({ header }, random) => {
    header.typ = random.oneIn(3) ? random.among(JUNK) : random.among(typs(type))
  }),
  jws(part, 'alg', ({ header }, random) => {
    header.alg = random.oneIn(3) ? random.among(JUNK) : random.among(ALGS)
  }),
  jws(part, 'alg and a signature by it', (parts, random) => {
    parts.header.alg = random.among(['none', 'HS256', 'ES256', 'EdDSA', 'Ed25519', 'RS256', 'PS256'])
    const other = [...Object.values(TOKEN_KEYS), ...CLIENT_KEYS].find(({ alg }) => alg === parts.header.alg)
    parts.signature = (_, input, key) =>
      parts.header.alg === 'none' ? '' : other ? other.sign(input) : hmacOf(key.pem, input)
  }),
  jws(part, 'crit', ({ header }, random) => {
    header.crit = random.among([...JUNK, ['exp'], ['b64'], ['x']])
  }),
  jws(part, 'b64', ({ header }, random) => {
    header.b64 = random.among([true, false, null, 'true', 0])
  }),
  jws(part, 'a key of its own', ({ header }, random) => {
    header[random.among(['jku', 'x5u', 'x5c', 'jwk', 'x5t', 'cty', 'zip', 'enc'])] = random.among([
      STRANGER.jwk,
      'https://evil.example/keys',
      ['x'],
      'DEF',
      'JWT'
    ])
  }),
  jws(part, 'JSON of the header', (parts, random) => {
    parts.rawHeader = json => rewritten(json, random)
  }),
  jws(part, 'JSON of the claims', (parts, random) => {
    parts.rawClaims = json => rewritten(json, random)
  }),
  jws(part, 'no object', (parts, random) => {
    parts[random.among(['rawHeader', 'rawClaims'] as const)] = json =>
      random.among(['null', '[]', '1', '"x"', 'true', '', `[${json}]`, JSON.stringify(json)])
  }),
  jws(part, 'signed by a stranger', parts => {
    parts.signature = (_, input) => STRANGER.sign(input)
  }),
  jws(part, 'signature', (parts, random) => {
    parts.signature = (signature, input, key) => {
      const copy = Buffer.from(signature)
      switch (random.below(7)) {
        case 0:
          copy[random.below(copy.length)]! ^= 1 << random.below(8)
          return copy
        case 1:
          return copy.subarray(0, random.below(copy.length))
        case 2:
          return Buffer.concat([copy, Buffer.alloc(1 + random.below(3))])
        case 3:
          return Buffer.alloc(copy.length, random.among([0, 255]))
        case 4:
          return derOf(copy)
        case 5:
          return key.sign(`${input}.`)
        default:
          return Buffer.concat([copy.subarray(copy.length / 2), copy.subarray(0, copy.length / 2)])
      }
    }
  }),
  jws(part, 'text', (parts, random) => {
    parts.edit = text => edited(text, random, random.oneIn(2) ? BASE64URL : VISIBLE)
  }),
  jws(part, 'base64', (parts, random) => {
    parts.edit = text => {
      const segments = text.split('.')
      const at = random.below(segments.length)
      segments[at] = otherBase64(segments[at]!, random)
      return segments.join('.')
    }
  }),
  jws(part, 'segments', (parts, random) => {
    parts.edit = text =>
      random.among([
        `${text}.`,
        `.${text}`,
        `${text}.${text}`,
        `${text}..`,
        text.replace('.', '..'),
        text.split('.').slice(0, 2).join('.'),
        `${text.split('.').slice(0, 2).join('.')}.`,
        text.replace(/\./g, '~'),
        ''
      ])
  })
]

/** The same bytes in another base64, or nearly. */
function otherBase64 (text: string, random: Random) {
  switch (random.below(5)) {
    case 0:
      return text + '='.repeat(1 + random.below(3))
    case 1:
      return text.replace(/-/g, '+').replace(/_/g, '/')
    case 2:
      return text.slice(0, -1) + BASE64URL[(BASE64URL.indexOf(text.at(-1)!) + 1 + random.below(3)) % 64]!
    case 3:
      return text + random.among(['A', 'AA', 'AAA', 'AAAA'])
    default:
      return `${text.slice(0, 4)} ${text.slice(4)}`
  }
}

/** The ASN.1 form of an ECDSA signature. */
function derOf (signature: Buffer) {
  const integer = (bytes: Buffer) => Buffer.concat([Buffer.from([2, bytes.length + 1, 0]), bytes])
  const body = Buffer.concat([integer(signature.subarray(0, 32)), integer(signature.subarray(32, 64))])
  return Buffer.concat([Buffer.from([0x30, body.length]), body])
}

const times = (now: number, random: Random, edges: readonly number[]) =>
  random.oneIn(4)
    ? random.among(JUNK)
    : now + random.among(edges) + random.among([-1, -0.5, 0, 0, 0, 0.5, 1])

const claim = (part: 'token' | 'proof', name: string, value: (random: Random, parts: Parts) => unknown) =>
  jws(part, name, ({ claims }, random, parts) => {
    claims[name] = value(random, parts)
  })

const TOKEN: readonly Mutation[] = [
  ...anyJws('token', 'at+jwt'),
  jws('token', 'kid', ({ header }, random) => {
    header.kid = random.among([...JUNK, ...Object.keys(TOKEN_KEYS), 'EC', 'ec ', 'unknown'])
  }),
  jws('token', 'no kid', ({ header }) => {
    delete header.kid
  }),
  jws('token', 'another key, named', (parts, random) => {
    const kid = random.among(Object.keys(TOKEN_KEYS))
    parts.key = TOKEN_KEYS[kid]!
    if (random.oneIn(2)) parts.header.kid = kid
    if (random.oneIn(2)) parts.header.alg = parts.key.alg
  }),
  jws('token', 'a name of Ed25519', ({ header }, random) => {
    if (header.alg === 'EdDSA' || header.alg === 'Ed25519') header.alg = random.among(['EdDSA', 'Ed25519'])
  }),
  claim(
    'token',
    'iss',
    random =>
      random.among([
        ...JUNK,
        ISSUER,
        ISSUER.slice(0, -1),
        `${ISSUER}/`,
        ISSUER.toUpperCase(),
        [ISSUER],
        'https://evil.example/',
        `${ISSUER}?`,
        'http://issuer.example/'
      ])
  ),
  claim(
    'token',
    'aud',
    random =>
      random.among([...JUNK, AUDIENCE, [AUDIENCE], ['x', AUDIENCE], [AUDIENCE, 1], [[AUDIENCE]], `${AUDIENCE}/`, {
        0: AUDIENCE
      }, `${AUDIENCE} x`])
  ),
  claim('token', 'sub', random => random.among([...JUNK, 'other'])),
  claim('token', 'client_id', random => random.among(JUNK)),
  claim('token', 'jti', random => random.among([...JUNK, 'token 2'])),
  claim('token', 'exp', (random, { now }) => times(now, random, [-5, 0, 5, -1e9, 1e9])),
  claim('token', 'nbf', (random, { now }) => times(now, random, [-5, 0, 5, -1e9, 1e9])),
  claim('token', 'iat', (random, { now }) => times(now, random, [0, 5, -1e9, 1e9])),
  claim(
    'token',
    'cnf',
    (random, { client }) =>
      random.among([
        ...JUNK,
        { jkt: client.jkt },
        { jkt: STRANGER.jkt },
        { jkt: '' },
        { jkt: [client.jkt] },
        { jkt: client.jkt, x: 1 },
        { jkt: client.jkt, 'x5t#S256': 'x' },
        { 'x5t#S256': client.jkt },
        { jwk: client.jwk },
        { kid: 'x' },
        [client.jkt],
        { jkt: `${client.jkt}=` },
        { jkt: client.jkt.toLowerCase() }
      ])
  )
]

/** Another spelling of a URL, or another URL. */
function respelt (url: string, random: Random) {
  const escape = (from: RegExp) => url.replace(from, char => `%${char.charCodeAt(0).toString(16)}`)
  return random.among([
    url,
    `${url}?a=b`,
    `${url}#a`,
    `${url}?`,
    `${url}/`,
    url.slice(0, -1),
    url.replace('http', 'HTTP'),
    url.replace('api', 'API'),
    url.replace('/api/', '/API/'),
    url.replace('://', '://user@'),
    url.replace('://', '://@'),
    url.replace('://', ':'),
    url.replace('://', ':/'),
    url.replace('://', ':///'),
    url.replace('://', ':\\\\'),
    url.replace(/^http/, 'https'),
    url.replace(/^https?:/, ''),
    url.replace(/^https?/, 'ftp'),
    escape(/[a-z](?=[^/]*$)/),
    escape(/~/),
    escape(/;/),
    escape(/\/(?=[^/]*$)/),
    url.replace(/%2F/, '%2f'),
    url.replace(/%2F/, '/'),
    url.replace(/%C3%A9/, '%c3%a9'),
    url.replace(/%C3%A9/, 'é'),
    url.replace(/%C3%A9/, 'e%CC%81'),
    url.replace(/\/\//g, '/'),
    url.replace(/([^/:])\/([^/])/, '$1/./$2'),
    url.replace(/([^/:])\/([^/])/, '$1/x/../$2'),
    url.replace(/([^/:])\/([^/])/, '$1/%2e/$2'),
    url.replace(/([^/:])\/([^/])/, '$1\\$2'),
    `${url}/..`,
    `${url}/.`,
    url.replace(/:\/\/([^/:[]+)(?=\/)/, '://$1:80'),
    url.replace(/:\/\/([^/:[]+)(?=\/)/, '://$1:443'),
    url.replace(/:\/\/([^/:[]+)(?=\/)/, '://$1:'),
    url.replace(/:\/\/([^/:[]+)(?=\/)/, '://$1.'),
    url.replace(/:(8\d+)/, ':0$1'),
    url.replace(/:(8\d+)/, ''),
    url.replace('127.0.0.1', '2130706433'),
    url.replace('127.0.0.1', '0x7f.1'),
    url.replace('127.0.0.1', '127.1'),
    url.replace('[::1]', '[0:0:0:0:0:0:0:1]'),
    url.replace('[::1]', '[::0001]'),
    url.replace('[::1]', '[::0.0.0.1]'),
    url.replace('[::1]', '[::1%25lo]'),
    url.replace('api.example', 'аpi.example'),
    url.replace('api.example', 'api。example'),
    url.replace('api.example', 'ap%69.example'),
    url.replace('api.example', 'api.example%00'),
    url.replace('example', 'exam\u00adple'),
    ` ${url}`,
    `${url} `,
    `${url}\t`,
    `\n${url}`,
    url.replace('a', 'a\t'),
    url.replace('a', 'a\n'),
    `${url}\u0000`,
    `${url}|`,
    `${url}"`,
    `${url}<`,
    `${url}^`,
    `${url}{`,
    `${url}%`,
    `${url}%zz`,
    `${url}%00`,
    `${url}é`,
    `${url}\ud800`,
    [url],
    { href: url },
    new URL(url).pathname
  ])
}

const withJwk = (
  name: string,
  change: (jwk: Record<string, unknown>, random: Random, parts: Parts) => Record<string, unknown>
) =>
  jws('proof', name, ({ header }, random, parts) => {
    header.jwk = change({ ...parts.client.jwk }, random, parts)
  })

const PROOF: readonly Mutation[] = [
  ...anyJws('proof', 'dpop+jwt'),
  jws('proof', 'jwk', ({ header }, random) => {
    header.jwk = random.among([...JUNK, STRANGER.jwk, [STRANGER.jwk], JSON.stringify(STRANGER.jwk)])
  }),
  withJwk(
    'jwk with another member',
    (jwk, random) => ({
      ...jwk,
      [random.among(['alg', 'use', 'key_ops', 'ext', 'kid', 'x5c', 'e', 'y', 'oth'])]: random.among([
        ...JUNK,
        jwk.kty,
        'ES256',
        'ES384',
        'sig',
        'enc',
        ['verify'],
        ['sign'],
        ['encrypt']
      ])
    })
  ),
  withJwk(
    'jwk with a member of another value',
    (jwk, random) => ({
      ...jwk,
      [random.among(Object.keys(jwk))]: random.among([
        ...JUNK,
        'P-384',
        'EC',
        'oct',
        'OKP',
        'Ed448',
        'X25519',
        'secp256k1',
        'AQAB',
        'Aw',
        'AQ',
        STRANGER.jwk.x
      ])
    })
  ),
  withJwk('private jwk', (_jwk, _random, { client }) => client.privateJwk),
  withJwk(
    'jwk with one private member',
    (jwk, random, { client }) => ({
      ...jwk,
      [random.among(['d', 'p', 'q', 'dp', 'dq', 'qi', 'k'])]: random.among([client.privateJwk.d, 'AA', null, ''])
    })
  ),
  withJwk('symmetric jwk', () => ({ kty: 'oct', k: 'c2VjcmV0' })),
  withJwk('jwk in another base64', (jwk, random) => {
    const name = random.among(['x', 'y', 'n', 'e'].filter(name => name in jwk))
    return { ...jwk, [name]: otherBase64(jwk[name] as string, random) }
  }),
  // One key must not have many thumbprints.
  {
    name: 'proof: jwk in another base64, and a token that is bound to it',
    apply (parts, random) {
      const { jwk } = parts.client
      const name = random.among(['x', 'y', 'n', 'e'].filter(name => name in jwk))
      const respelt = { ...jwk, [name]: otherBase64(jwk[name] as string, random) } as Jwk
      parts.proof.header.jwk = respelt
      parts.token.claims.cnf = { jkt: thumbprintOf(respelt) }
    }
  },
  jws('proof', 'a time without end', (proof, random) => {
    proof.rawClaims = json =>
      json.replace(/}$/, () => `,"${random.among(['exp', 'nbf', 'iat'])}":${random.among(['1e999', '-1e999'])}}`)
  }),
  jws('proof', 'key of another client', (parts, random) => {
    const other = random.oneIn(2) ? STRANGER : random.among(CLIENT_KEYS)
    parts.key = other
    parts.header.jwk = other.jwk
    parts.header.alg = other.alg
  }),
  jws('proof', 'key of the provider', parts => {
    parts.header.jwk = TOKEN_KEYS.ec!.jwk
  }),
  jws('proof', 'a name of Ed25519', ({ header }, random) => {
    if (header.alg === 'EdDSA' || header.alg === 'Ed25519') header.alg = random.among(['EdDSA', 'Ed25519'])
  }),
  claim(
    'proof',
    'jti',
    random => random.among([...JUNK, 'a'.repeat(512), 'a'.repeat(513), 'é'.repeat(512)]) ?? undefined
  ),
  claim(
    'proof',
    'htm',
    (random, { method }) => random.among([...JUNK, method, method.toLowerCase(), 'GET', 'POST', `${method} `, [method]])
  ),
  claim('proof', 'iat', (random, { now }) => times(now, random, [-300, -301, 0, 30, 31, 300, 301, -1e9, 1e9])),
  claim('proof', 'exp', (random, { now }) => times(now, random, [-30, -5, 0, 5, 30, 1e9])),
  claim('proof', 'nbf', (random, { now }) => times(now, random, [-30, -5, 0, 5, 30, 1e9])),
  claim('proof', 'iss', random => random.among([...JUNK, ISSUER])),
  claim('proof', 'aud', random => random.among([...JUNK, AUDIENCE])),
  claim('proof', 'nonce', random => random.among([...JUNK, 'a'.repeat(22)])),
  {
    name: 'proof: htu',
    apply (parts, random) {
      parts.htu = url => respelt(url, random)
    }
  },
  {
    name: 'proof: htu again',
    apply (parts, random) {
      parts.htu = url => respelt(url, random)
    }
  },
  {
    name: 'proof: htu junk',
    apply (parts, random) {
      parts.htu = () => random.among(JUNK)
    }
  },
  {
    name: 'proof: ath',
    apply (parts, random) {
      parts.ath = hash =>
        random.among([...JUNK, `${hash}=`, hash.toLowerCase(), hash.slice(0, -1), otherBase64(hash, random), [hash]])
    }
  },
  {
    name: 'proof: large',
    apply (parts, random) {
      parts.proof.claims.pad = 'a'.repeat(5000 + random.below(2000))
    }
  }
]

const WIRE: readonly Mutation[] = [
  {
    name: 'method',
    apply (parts, random) {
      parts.method = random.among(['GET', 'POST', 'DELETE', 'TRACE', 'PROPFIND', 'M-SEARCH'])
    }
  },
  {
    name: 'method of the request only',
    apply (parts, random) {
      parts.proof.claims.htm = parts.method
      parts.method = random.among(['GET', 'POST', 'HEAD'])
    }
  },
  {
    name: 'target',
    apply (parts, random) {
      parts.target = random.among([
        '*',
        '',
        'api',
        '/.',
        '/..',
        '/a/../b',
        '/%2e',
        '/a/%2E%2e/b',
        '/a\\b',
        '/a%5Cb',
        '/a%',
        '/a%zz',
        '/a%00',
        '/a|b',
        '/a"b',
        '/é',
        '//evil.example/x',
        '/a#b',
        '/a?b#c',
        '/%7Ea',
        `http://${parts.hosts[0]}/x`,
        `HTTP://${parts.hosts[0]}/x`,
        'http://evil.example/x',
        `https://${parts.hosts[0]}/x`,
        'ftp://x/'
      ])
    }
  },
  {
    name: 'target and htu',
    apply (parts, random) {
      parts.target = random.among([
        '/.',
        '/a/../b',
        '/%2e',
        '/a/%2E%2e/b',
        '/a\\b',
        '/%7Ea',
        '/a%2fb',
        '/a|b',
        '//evil.example/x',
        '/A',
        '/a;b=c',
        '/a%00',
        '/a?b',
        '/%E9'
      ])
      parts.url = parts.url.replace(/^(https?:\/\/[^/]+(?:\/base)?).*$/, (_, base: string) => base + parts.target)
    }
  },
  {
    name: 'absolute target and htu',
    apply (parts, random) {
      parts.target = parts.url = `${random.among(['http', 'https', 'HTTPS'])}://${parts.hosts[0]}${random.among(['', '/', '/x', '/x?y', '/a%2Fb'])}`
    }
  },
  {
    name: 'host',
    apply (parts, random) {
      parts.hosts = [
        random.among([
          '',
          'evil.example',
          'API.example',
          'api.example.',
          'api.example:80',
          'api.example:443',
          'api.example:',
          'api.example:0',
          'api.example:99999',
          'user@api.example',
          'api.example/x',
          'api.example?',
          'api.example#',
          '[::1',
          '[::2]',
          '0x7f.1:8000',
          'a b',
          'a_b.example',
          'é.example',
          'xn--e1awg7f.example',
          'api.example,evil.example'
        ])
      ]
    }
  },
  {
    name: 'host and htu',
    apply (parts, random) {
      if (parts.site !== 'public') {
        const host = random.among([
          'API.example',
          'api.example:80',
          'api.example:443',
          'a_b.example',
          '[0::1]:8000',
          '127.1:8000',
          'api.example.',
          'xn--e1awg7f.example'
        ])
        parts.url = parts.url.replace(parts.hosts[0]!, host)
        parts.hosts = [host]
      }
    }
  },
  {
    name: 'two hosts',
    apply (parts, random) {
      parts.hosts.push(random.oneIn(2) ? parts.hosts[0]! : 'evil.example')
    }
  },
  {
    name: 'no host',
    apply (parts) {
      parts.hosts = []
    }
  },
  {
    name: 'scheme',
    apply (parts, random) {
      parts.scheme = random.among([
        'Bearer',
        'DPoP',
        'bearer',
        'BEARER',
        'dpop',
        'DPOP',
        'Basic',
        'DPo',
        'DPoPx',
        'Bearer:',
        '',
        'DPoP Bearer'
      ])
    }
  },
  {
    name: 'gap',
    apply (parts, random) {
      parts.gap = random.among(['  ', '', '\t', ' \t', '     ', ',', '='])
    }
  },
  {
    name: 'rest',
    apply (parts, random) {
      parts.rest = random.among([
        ' ',
        ' x',
        '=',
        '==',
        '=x',
        ', DPoP x',
        ',',
        '\t',
        '\u00a0',
        '\u0080',
        '"',
        '/',
        '+',
        '~',
        '?'
      ])
    }
  },
  {
    name: 'Authorization lines',
    apply (parts, random) {
      parts.authorizations = random.among([0, 2])
    }
  },
  {
    name: 'proofs',
    apply (parts, random) {
      parts.proofs = random.among([0, 1, 2])
    }
  },
  {
    name: 'unbound',
    apply (parts) {
      delete parts.token.claims.cnf
    }
  },
  {
    name: 'a token as the proof',
    apply (parts) {
      parts.proof = {
        ...parts.token,
        claims: { ...parts.proof.claims, ...parts.token.claims },
        header: { ...parts.token.header, jwk: parts.token.key.jwk }
      }
    }
  },
  {
    name: 'a proof as the token',
    apply (parts) {
      parts.token = { ...parts.proof, claims: { ...parts.token.claims, ...parts.proof.claims } }
    }
  }
]

export const MUTATIONS: readonly Mutation[] = [...TOKEN, ...PROOF, ...WIRE]
