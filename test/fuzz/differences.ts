import { verify } from 'node:crypto'
import { TOKEN_KEYS, thumbprintOf, type Jwk } from './keys.ts'
import type { Ours } from './ours.ts'
import { ISSUER, urlOf, type Made } from './parts.ts'
import type { Theirs } from './theirs.ts'

type Members = Record<string, any>

/** What can be read off a request without either verifier. */
export interface Facts {
  made: Made
  now: number
  nonce: string
  /** The text after the scheme. */
  token: string
  /** Whether the guard has accepted this proof, or one with its key and jti. */
  isUsed: boolean
  /** Undefined if they cannot be read by any reading of base64. */
  header: Members
  claims: Members
  proofHeader: Members
  proofClaims: Members
  ours: Ours
  theirs: Theirs
}

interface Difference {
  name: string
  /** The section that decides. */
  by: string
  /** The reason of ours, if ours refuses and theirs does not. */
  ours?: RegExp
  /** Their message, if theirs refuses and ours does not. */
  theirs?: RegExp
  holds: (facts: Facts) => boolean
  /**
   * The requests that ours must refuse, whatever theirs says: if one passes, the check of the row is gone. Left out in
   * a row for what ours refuses, these are the ones for which the row holds.
   */
  refused?: (facts: Facts) => boolean
}

/** The segment as a forgiving reader takes it. */
function read (segment: string | undefined) {
  try {
    const value: unknown = JSON.parse(Buffer.from(segment ?? '', 'base64url').toString().replace(/^\ufeff/, ''))
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

export function factsOf (made: Made, nonce: string, isUsed: boolean): Omit<Facts, 'ours' | 'theirs'> {
  const { rawHeaders } = made.wire
  const token = (rawHeaders[rawHeaders.indexOf('Authorization') + 1] ?? '').replace(/^[^ ]* +/, '')
  const [header, claims] = token.split('.')
  const [proofHeader, proofClaims] = (made.proof ?? '').split('.')
  return {
    made,
    now: made.wire.now,
    nonce,
    token,
    isUsed,
    header: read(header),
    claims: read(claims),
    proofHeader: read(proofHeader),
    proofClaims: read(proofClaims)
  }
}

const isCanonical = (text: string) =>
  text.split('.').every(segment => Buffer.from(segment, 'base64url').toString('base64url') === segment)
const isUtf8 = (text: string) =>
  text.split('.').slice(0, 2).every(segment =>
    Buffer.from(Buffer.from(segment, 'base64url').toString()).equals(Buffer.from(segment, 'base64url')) &&
    Buffer.from(segment, 'base64url')[0] !== 0xef
  )
const isInfinite = (...values: unknown[]) => values.some(value => value === Infinity || value === -Infinity)
const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0

/** A URL as RFC 3986 compares it: unreserved characters decoded, escapes in upper case, the rest by the URL class. */
function normal (url: string) {
  const decoded = url.replace(/%[0-9A-Fa-f]{2}/g, escape => {
    const char = String.fromCharCode(parseInt(escape.slice(1), 16))
    return /[A-Za-z0-9._~-]/.test(char) ? char : escape.toUpperCase()
  })
  const { protocol, host, pathname } = new URL(decoded)
  return `${protocol}//${host}${pathname}`
}

const hostOf = ({ wire }: Made) => wire.rawHeaders[wire.rawHeaders.indexOf('Host') + 1] ?? ''
const isSameUrl = (htu: unknown, url: string) => {
  try {
    return typeof htu === 'string' && normal(htu) === normal(url)
  } catch {
    return false
  }
}

// scheme://authority path, in the characters of RFC 3986 and, for other scripts, RFC 3987. Dotted numbers are an IPv4
// address only if there are four.
const PLAIN_URL =
  /^https?:\/\/(?:\[[0-9a-f:.]+\]|[A-Za-z0-9._~%\u0080-\uffff-]+)(?::[0-9]{0,5})?(?:\/(?:[A-Za-z0-9._~!$&'()*+,;=:@/\u0080-\uffff-]|%[0-9A-Fa-f]{2})*)?(?:[?#][^]*)?$/i
const isNumericHost = (url: string) =>
  /^https?:\/\/(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+))*\.?(?:[:/?#]|$)/i.test(url) &&
  !/^https?:\/\/(?:(?:[1-9]?[0-9]|[12][0-9]{2})(?:[:/?#]|\.(?=[0-9]))){4}/i.test(url)

/**
 * What the class URL mends, and RFC 3986 does not: blanks, back-slashes, slashes that are missing, numbers for hosts,
 * characters that it escapes.
 */
const isMended = (htu: unknown) =>
  typeof htu === 'string' && (!PLAIN_URL.test(htu) || isNumericHost(htu) || !htu.isWellFormed())

/**
 * Whether two URLs have one text, but for the case of letters, the default port, dot segments, needless escapes, and
 * what follows the path.
 */
function isWrittenAlike (htu: string, url: string) {
  const [one, other] = [htu, url].map(text =>
    plainPath(
      unescaped(text.split(/[?#]/, 1)[0]!).toLowerCase().replace(
        /^(?:(http:\/\/[^/]*):80|(https:\/\/[^/]*):443)(?=\/|$)/,
        '$1$2'
      ).replace(/^([^/]*\/\/[^/]*):?\/?$/, '$1')
    )
  )
  return one === other
}

/** RFC 3986 section 6.2.2.2: escapes of unreserved characters. */
const unescaped = (text: string) =>
  text.replace(/%[0-9a-f]{2}/gi, escape => {
    const char = String.fromCharCode(parseInt(escape.slice(1), 16))
    return /[\w.~-]/.test(char) ? char : escape
  })

/** RFC 3986 section 5.2.4. */
function plainPath (url: string) {
  const [scheme = '', empty = '', authority = '', ...segments] = url.split('/')
  const path: string[] = []
  for (const [index, segment] of segments.entries()) {
    if (segment === '..') path.pop()
    else if (segment !== '.') path.push(segment)
    if (index === segments.length - 1 && /^\.\.?$/.test(segment)) path.push('')
  }
  return [scheme, empty, authority, ...path].join('/')
}

const isPort = (text = '1') => Number(text) >= 1 && Number(text) <= 65535

const isUnsafePath = (target: string) =>
  /(?:^|\/)(?:\.|%2e){1,2}(?:[/?#]|$)|\\|[^\u0021-\u007e\u0080-\u00ff]|#|%(?![0-9a-f]{2})|[^!-~]|["<>^`{|}]/i.test(
    target
  ) || !target.startsWith('/')

const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']
const isObject = (value: unknown): value is Members => typeof value === 'object' && value !== null

/** The members that make the key. */
const partsOf = ({ kty, n, e, x, y }: Members): unknown[] => kty === 'RSA' ? [n, e] : kty === 'EC' ? [x, y] : [x]

/**
 * Whether the path of a target has dot segments, back-slashes, a fragment, escapes that are none, or bytes that no URI
 * has.
 */
function isReadInTwoWays (target: string) {
  const [path] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)
  return /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)|[^\u0021-\u007e]|[#\\]|%(?![0-9a-f]{2})/i.test(path!)
}

/**
 * The hosts that no rule of RFC 3986 allows, and those that are said twice or not at all. With PUBLIC_URL a single one
 * is not read.
 */
function isOneHost ({ site, rawHeaders }: Made['wire']) {
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1] === 'Host')
  return hosts.length <= 1 &&
    (site === 'public' ||
      (hosts.length === 1 && hosts[0] !== '' && !/[@/?#,\\ ]|^[^\]]*\[[^\]]*$/.test(hosts[0]!) &&
        isPort(/:([0-9]+)$/.exec(hosts[0]!)?.[1])))
}

/** Whether an absolute target names another authority than Host does. */
function isOfAnotherAuthority (made: Made) {
  const { target } = made.wire
  if (target.startsWith('/')) return false
  const [, scheme = '', authority] = /^(https?):\/\/([^/?#]*)/i.exec(target) ?? []
  const port = scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/
  const plain = (text: string) => text.toLowerCase().replace(port, '').replace(/:$/, '')
  return authority === undefined || plain(authority) !== plain(hostOf(made))
}

/** Whether one of the Ed25519 keys that are published has signed the token, only by node:crypto. */
function isSignedByEd25519 (token: string) {
  const [input, signature] = [token.slice(0, token.lastIndexOf('.')), token.slice(token.lastIndexOf('.') + 1)]
  return Object.values(TOKEN_KEYS).some(({ jwk, pem }) =>
    jwk.kty === 'OKP' && verify(null, Buffer.from(input), pem, Buffer.from(signature, 'base64url'))
  )
}

/**
 * Whether one of the members of RFC 7517 that say what a key is for is present, and says something else. The two names
 * of Ed25519 are one.
 */
const forbidsVerifying = (jwk: Members, alg: unknown) =>
  ('use' in jwk && jwk.use !== 'sig') ||
  ('key_ops' in jwk && !(Array.isArray(jwk.key_ops) && jwk.key_ops.includes('verify'))) ||
  ('alg' in jwk && jwk.alg !== alg &&
    !(['EdDSA', 'Ed25519'].includes(jwk.alg) && ['EdDSA', 'Ed25519'].includes(alg as string)))

export const DIFFERENCES: readonly Difference[] = [
  // Ours passes, theirs does not.
  {
    name: 'a plain JWT passes, because many providers issue no other',
    by: 'contract 4: typ',
    theirs: /unexpected JWT "typ"/,
    holds: ({ header: { typ } }) => typ === undefined || String(typ).toLowerCase() === 'jwt'
  },
  {
    name: 'iat, jti and client_id may be missing',
    by: 'contract 4: required claims',
    theirs: /JWT "(?:iat|jti|client_id)" \(.*\) claim missing/,
    holds: ({ claims }) => [claims.iat, claims.jti, claims.client_id].includes(undefined)
  },
  {
    name: 'jti and client_id may have any type',
    by: 'contract 4: required claims',
    theirs: /unexpected JWT "(?:jti|client_id)" claim type/,
    holds: ({ claims }) => typeof claims.jti !== 'string' || typeof claims.client_id !== 'string'
  },
  {
    name: 'the issuer without its trailing slash',
    by: 'contract 4: iss',
    theirs: /unexpected JWT "iss" \(issuer\) claim value/,
    holds: ({ claims }) => claims.iss === ISSUER.slice(0, -1)
  },
  {
    name: 'an unknown member of cnf, beside jkt',
    by: 'contract 4: cnf',
    theirs: /multiple confirmation claims/,
    holds: ({ claims: { cnf } }) => typeof cnf?.jkt === 'string' && !('x5t#S256' in cnf)
  },
  {
    name: 'several keys may fit: each is tried',
    by: 'contract 4: keys',
    theirs: /multiple applicable keys/,
    holds: ({ header }) => header.kid === undefined
  },
  {
    name: 'without kid each key of the algorithm is tried, whichever of its two names a key has',
    by: 'contract 4: keys',
    theirs: /JWT signature verification failed/,
    holds: ({ header, token }) =>
      header.kid === undefined && ['EdDSA', 'Ed25519'].includes(header.alg) && isSignedByEd25519(token)
  },
  {
    name: 'EdDSA and Ed25519 name one algorithm',
    by: 'contract 4: keys',
    theirs: /no applicable keys found/,
    holds: ({ header }) => header.alg === 'EdDSA' || header.alg === 'Ed25519'
  },
  {
    name: 'escaped unreserved characters equal plain ones',
    by: 'contract 6, RFC 3986 section 6.2.2.2',
    theirs: /DPoP Proof htu mismatch/,
    holds: ({ made, proofClaims }) => isSameUrl(proofClaims.htu, urlOf(made.wire.site, hostOf(made), made.wire.target))
  },
  {
    name: 'iss and aud of a proof have no meaning',
    by: 'contract 5, check 4',
    theirs: /unexpected JWT "(?:iss|aud)" .*claim type/,
    holds: ({ proofClaims: { iss, aud } }) =>
      (iss !== undefined && typeof iss !== 'string') ||
      (aud !== undefined && typeof aud !== 'string' && !Array.isArray(aud))
  },
  {
    name: 'exp and nbf of a proof have the leeway of proofs',
    by: 'contract 5, check 4',
    theirs: /unexpected JWT "(?:exp|nbf)" .*claim value/,
    holds: ({ proofClaims: { exp, nbf }, now }) =>
      (exp <= now - 5 && exp > now - 30) || (nbf > now + 5 && nbf <= now + 30)
  },
  {
    name: 'beside a nonce of ours the age by iat does not count',
    by: 'contract 5, RFC 9449 section 11.1',
    theirs: /iat is not recent enough/,
    holds: ({ made, proofClaims, nonce }) => made.wire.site === 'nonce' && proofClaims.nonce === nonce
  },
  {
    name: 'the members of a jwk that do not make the key or say its use are not read',
    by: 'contract 5, check 3; RFC 7638 section 3.2',
    theirs: /^Cannot convert/,
    holds: ({ proofHeader: { jwk } }) =>
      Object.keys(jwk ?? {}).some(name =>
        ![
          'alg',
          'use',
          'key_ops',
          ...(jwk.kty === 'RSA' ? ['kty', 'n', 'e'] : ['kty', 'crv', 'x', ...(jwk.kty === 'EC' ? ['y'] : [])])
        ].includes(name)
      )
  },
  {
    name: 'a Bearer token is tied to no URL',
    by: 'contract 6: the URL counts for a DPoP token',
    theirs: /Failed to parse URL|URL that includes credentials/,
    holds: ({ made }) => made.proof === undefined
  },
  {
    name: 'the Fetch standard has no words for such a target',
    by: 'contract 3: open to any method',
    theirs: /HTTP method is unsupported/,
    holds: ({ made: { wire } }) => wire.method === 'TRACE'
  },

  // Theirs passes, ours does not.
  {
    name: 'base64url has one spelling',
    by: 'RFC 7515 section 2, contract 5, check 2',
    ours: /^(?:token_malformed|authorization_malformed|proof_malformed|proof_repeated)$/,
    holds: ({ token, made: { proof = '' } }) => !isCanonical(token) || !isCanonical(proof)
  },
  {
    name: 'JSON is UTF-8 without a mark',
    by: 'RFC 7519 section 7.2, RFC 8259 section 8.1',
    ours: /^(?:token|proof)_malformed$/,
    holds: ({ made: { token, proof = '' } }) => !isUtf8(token) || !isUtf8(proof)
  },
  {
    name: 'b64 is refused like crit',
    by: 'RFC 7797 section 6',
    ours: /^(?:token|proof)_critical$/,
    holds: ({ header, proofHeader }) => header.b64 !== undefined || proofHeader.b64 !== undefined
  },
  {
    name: 'claims of a token have their types and are finite',
    by: 'contract 4: required claims',
    ours: /^token_claim_invalid$/,
    holds: ({ claims: { sub, aud, exp, nbf, iat } }) =>
      sub === '' || (Array.isArray(aud) && !aud.every(entry => typeof entry === 'string')) || isInfinite(exp, nbf, iat)
  },
  {
    name: 'claims of a token are at most 64 levels deep',
    by: 'docs/reference/security.md: everything is bounded',
    ours: /^token_claim_invalid$/,
    holds: ({ claims }) => depthOf(claims) > 64
  },
  {
    name: 'a cnf that cannot be honoured is refused',
    by: 'contract 4: cnf; RFC 7800 section 3.1',
    ours: /^token_binding_unusable$/,
    holds: ({ claims: { cnf } }) => typeof cnf?.jkt !== 'string' || cnf.jkt === '',
    refused: ({ claims: { cnf } }) =>
      cnf !== undefined && (typeof cnf?.jkt !== 'string' || cnf.jkt === '' || 'x5t#S256' in cnf)
  },
  {
    name: 'jti of a proof has 1 to 512 characters',
    by: 'contract 5, check 4',
    ours: /^proof_claim_invalid$/,
    holds: ({ proofClaims: { jti } }) => typeof jti === 'string' && (jti.length === 0 || jti.length > 512)
  },
  {
    name: 'times of a proof are finite numbers',
    by: 'contract 5, check 4',
    ours: /^proof_claim_invalid$/,
    holds: ({ proofClaims: { iat, exp, nbf } }) => isInfinite(iat, exp, nbf)
  },
  {
    name: 'a proof has at most 8 KiB',
    by: 'contract 5, check 2',
    ours: /^proof_too_large$/,
    holds: ({ made }) => made.proof!.length > 8192,
    refused: ({ made: { proof = '' } }) => proof.length > 8192
  },
  {
    name: 'a jwk is public and has no private member',
    by: 'contract 5, check 3; RFC 9449 section 4.3 check 7',
    ours: /^proof_key$/,
    holds: ({ proofHeader: { jwk } }) => PRIVATE.some(name => name in jwk),
    refused: ({ proofHeader: { jwk } }) => isObject(jwk) && PRIVATE.some(name => name in jwk)
  },
  {
    name: 'alg, use and key_ops of a jwk, where they are, allow verifying',
    by: 'contract 5, check 3; RFC 7517 sections 4.2 to 4.4',
    ours: /^proof_key$/,
    holds: ({ proofHeader: { alg, jwk } }) => forbidsVerifying(jwk ?? {}, alg),
    refused: ({ proofHeader: { alg, jwk } }) => isObject(jwk) && forbidsVerifying(jwk, alg)
  },
  {
    name: 'the parts of a jwk are canonical, of the size that the algorithm needs',
    by: 'contract 5, check 3; RFC 7518 section 6',
    ours: /^proof_key$/,
    holds: ({ proofHeader: { jwk } }) =>
      [jwk.x, jwk.y, jwk.n, jwk.e].some(part => part !== undefined && !(typeof part === 'string' && isCanonical(part))),
    refused: ({ proofHeader: { jwk } }) => isObject(jwk) && partsOf(jwk).some(part => !isCanonical(String(part)))
  },
  {
    name: 'iat may be at most 30 seconds ahead',
    by: 'contract 5, check 7',
    ours: /^iat_in_future$/,
    holds: ({ proofClaims: { iat }, now }) => iat > now + 30,
    refused: ({ made: { wire }, proofClaims: { iat }, now }) => wire.site !== 'nonce' && iat > now + 30
  },
  {
    name: 'user info in htu is refused',
    by: 'contract 6',
    ours: /^htu_invalid$/,
    holds: ({ proofClaims: { htu } }) => /^https?:\/\/[^/]*@/i.test(htu)
  },
  {
    name: 'htu is compared as it was written, after RFC 3986 and nothing more',
    by: 'contract 6',
    ours: /^htu_(?:mismatch|invalid)$/,
    holds: ({ proofClaims: { htu } }) => isMended(htu),
    refused: ({ made, proofClaims: { htu } }) =>
      isMended(htu) && !isWrittenAlike(htu, urlOf(made.wire.site, hostOf(made), made.wire.target))
  },
  {
    name: 'a path that two parties may read differently is refused',
    by: 'contract 6',
    ours: /^target_path$/,
    holds: ({ made: { wire } }) => isUnsafePath(wire.target),
    refused: ({ made }) => made.proof !== undefined && isReadInTwoWays(made.wire.target)
  },
  {
    name: 'a host that is not valid is refused',
    by: 'contract 6',
    ours: /^host_(?:invalid|repeated)$/,
    holds: ({ made: { wire } }) =>
      wire.rawHeaders.filter(name => name === 'Host').length !== 1 ||
      !/^(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?$/i.test(hostOf({ wire } as Made)) ||
      !isPort(/:([0-9]+)$/.exec(hostOf({ wire } as Made))?.[1]),
    refused: ({ made }) => made.proof !== undefined && !isOneHost(made.wire)
  },
  {
    name: 'a target of another authority is refused',
    by: 'contract 6',
    ours: /^target_authority$/,
    holds: ({ made: { wire } }) => !wire.target.startsWith('/'),
    refused: ({ made }) => made.proof !== undefined && isOfAnotherAuthority(made)
  },
  {
    name: 'the scheme of the connection counts, whatever an absolute target says',
    by: 'contract 6',
    ours: /^htu_mismatch$/,
    holds: ({ made: { wire } }) => wire.site === 'https' && /^http:/i.test(wire.target),
    refused: ({ made: { wire }, proofClaims: { htu } }) => wire.site === 'https' && /^http:/i.test(htu)
  },
  {
    name: 'a host in numbers is a name, not an address',
    by: 'contract 6',
    ours: /^htu_mismatch$/,
    holds: ({ made }) => isNumericHost(`http://${hostOf(made)}/`),
    refused: ({ made, proofClaims: { htu } }) =>
      made.wire.site !== 'public' && isNumericHost(`http://${hostOf(made)}/`) && typeof htu === 'string' &&
      !htu.toLowerCase().includes(`://${hostOf(made).toLowerCase()}`)
  },
  {
    name: 'a nonce is needed',
    by: 'contract 5, check 11',
    ours: /^nonce_(?:missing|stale)$/,
    holds: ({ made, proofClaims, nonce }) => made.wire.site === 'nonce' && proofClaims.nonce !== nonce,
    refused: ({ made, proofClaims, nonce }) =>
      made.proof !== undefined && made.wire.site === 'nonce' && proofClaims.nonce !== nonce
  },
  {
    name: 'a proof passes once',
    by: 'contract 5, check 12; RFC 9449 section 11.1',
    ours: /^proof_replayed$/,
    holds: ({ isUsed }) => isUsed,
    refused: () => false
  }
]

/** The row that explains why the two differ, if they do and one does. */
export function findDifference (facts: Facts): Difference | undefined {
  const { ours, theirs } = facts
  if ((ours === undefined) === (theirs === undefined)) return undefined
  return DIFFERENCES.find(row =>
    (ours === undefined ? row.theirs?.test(theirs!) : row.ours?.test(ours)) && row.holds(facts)
  )
}

/** The row by which ours must refuse a request, although it has passed it. */
export function findLost (facts: Facts): Difference | undefined {
  return facts.ours === undefined
    ? DIFFERENCES.find(({ ours, holds, refused = holds }) => ours && refused(facts))
    : undefined
}

/** Under which a proof is recorded. */
export function recordOf (
  { made, proofHeader, proofClaims }: Pick<Facts, 'made' | 'proofHeader' | 'proofClaims'>
): string {
  return `${made.wire.site} ${thumbprintOf((proofHeader.jwk ?? {}) as Jwk).slice(0, 8)} ` +
    `${JSON.stringify(proofClaims.jti)}`
}
