import { constants, createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { AUDIENCE } from './provider.js'

export const part = value => Buffer.from(JSON.stringify(value)).toString('base64url')
export const seconds = () => Math.floor(Date.now() / 1000)
/** A part of a JWT that is JSON as deep as it is long. */
export const nested = bytes => Buffer.from('['.repeat(bytes / 2) + ']'.repeat(bytes / 2)).toString('base64url')
let serial = 0

/** A text that this run has not used before, always of the same length. */
export const unique = () => (++serial).toString(36).padStart(22, '0')

const claimsOf = (issuer, claims) => {
  const iat = seconds()
  return {
    iss: issuer,
    sub: 'bench|00000000',
    aud: AUDIENCE,
    iat,
    exp: iat + 86_400,
    jti: unique(),
    client_id: 'bench',
    scope: 'openid read:messages',
    ...claims
  }
}

/** Signs access tokens as the provider would; `claims` and `header` override single members. */
export const createMint = ({ issuer, kid, privateJwk }) => {
  const key = createPrivateKey({ key: privateJwk, format: 'jwk' })
  const usual = part({ alg: 'RS256', typ: 'at+jwt', kid })
  return (claims = {}, header = undefined) => {
    const first = header === undefined ? usual : part({ alg: 'RS256', typ: 'at+jwt', kid, ...header })
    const signed = `${first}.${part(claimsOf(issuer, claims))}`
    return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`
  }
}

/** The rest of what a JWS signature by `alg` needs (RFC 7518 section 3.1, RFC 8037). */
const signerOf = (alg, key) => {
  if (alg.startsWith('Ed')) return [null, key]
  const hash = `sha${alg.slice(2)}`
  if (alg.startsWith('PS')) {
    return [hash, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }]
  }
  return [hash, alg.startsWith('ES') ? { key, dsaEncoding: 'ieee-p1363' } : key]
}

/** Signs any JWT by each of the algorithms, as the provider would; `header` overrides single members. */
export const createSigner = ({ kid, privateJwk, others }) => {
  const keys = new Map(
    [...others, { algs: ['RS256'], kid, privateJwk }].flatMap(({ algs, kid, privateJwk }) =>
      algs.map(alg => [alg, { kid, key: createPrivateKey({ key: privateJwk, format: 'jwk' }) }])
    )
  )
  return (alg, header, claims) => {
    const { kid, key } = keys.get(alg)
    const signed = `${part({ alg, kid, ...header })}.${part(claims)}`
    const [hash, signer] = signerOf(alg, key)
    return `${signed}.${sign(hash, Buffer.from(signed), signer).toString('base64url')}`
  }
}

/** The same access token by each of the algorithms: a function of its name. `header` overrides single members. */
export const createOtherMint = provider => {
  const signAs = createSigner(provider)
  return (alg, header = {}) => signAs(alg, { typ: 'at+jwt', ...header }, claimsOf(provider.issuer))
}

/**
 * A client with its own key: `jkt` for its tokens (RFC 7638), and `prove` for a proof of its own for each request (RFC
 * 9449).
 */
export const createClient = () => {
  // By way of their encodings: on Node 20 the export of a key that was just generated deadlocks when a collection falls
  // into it, once in some ten thousand.
  const pair = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'der' }
  })
  const { crv, kty, x, y } = createPublicKey({ key: pair.publicKey, type: 'spki', format: 'der' }).export({
    format: 'jwk'
  })
  const jwk = { crv, kty, x, y }
  const header = part({ alg: 'ES256', typ: 'dpop+jwt', jwk })
  const signer = {
    key: createPrivateKey({ key: pair.privateKey, type: 'pkcs8', format: 'der' }),
    dsaEncoding: 'ieee-p1363'
  }
  return {
    jkt: createHash('sha256').update(JSON.stringify(jwk)).digest('base64url'),
    prove: claims => {
      const signed = `${header}.${part({ jti: unique(), iat: seconds(), ...claims })}`
      return `${signed}.${sign('sha256', Buffer.from(signed), signer).toString('base64url')}`
    }
  }
}

export const hashOf = token => createHash('sha256').update(token).digest('base64url')

/** The same JWT with another signature of the same length: well-formed, and wrong. */
export const tamper = jwt => {
  const at = jwt.lastIndexOf('.') + 12
  return jwt.slice(0, at) + (jwt[at] === 'A' ? 'B' : 'A') + jwt.slice(at + 1)
}
