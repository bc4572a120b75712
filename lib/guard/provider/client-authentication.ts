import { createPrivateKey, sign, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { encodeJson } from '../jose/signed-jwt.ts'
import { ALGORITHMS, type JwsAlg } from '../jose/signature.ts'
import type { ProviderRequest } from './transport.ts'

/** How this service authenticates to the provider (OpenID Connect Core 1.0 section 9). */
export const CLIENT_AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const

type ClientAuthMethod = (typeof CLIENT_AUTH_METHODS)[number]

/** Makes the request that posts a form as the client that this service is (RFC 6749 section 2.3). */
export type ClientAuthentication = (form: Readonly<Record<string, string>>) => Promise<ProviderRequest>

export interface ClientCredentials {
  readonly method: ClientAuthMethod
  readonly clientId: string
  /** For the two methods with a secret. */
  readonly clientSecret: string | undefined
  /** For `private_key_jwt`. */
  readonly key: ClientKey | undefined
  /**
   * The audience of an assertion: the issuer, as the provider spells it (RFC 7523 section 3), or what the provider
   * wants in its place.
   */
  readonly audience: () => string
  /** Unix seconds. */
  readonly now: () => number
  readonly randomBytes: (size: number) => Buffer
}

export function createClientAuthentication (credentials: ClientCredentials): ClientAuthentication {
  const { method, clientId, clientSecret } = credentials
  if (method === 'client_secret_basic') {
    const headers = { authorization: basicCredentials(clientId, clientSecret!) }
    return async form => ({ headers, body: encodeForm(form) })
  }
  return async form => ({ headers: {}, body: encodeForm({ ...form, ...await formOf(credentials) }) })
}

/** The members of the form by which the client proves itself. */
async function formOf (credentials: ClientCredentials): Promise<Record<string, string>> {
  const { method, clientId, clientSecret, key } = credentials
  if (method === 'client_secret_post') return { client_id: clientId, client_secret: clientSecret! }
  return {
    client_id: clientId,
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: await makeAssertion(key!, credentials)
  }
}

/** The Authorization header of a client. RFC 6749 section 2.3.1: both parts are encoded as in a form. */
export function basicCredentials (clientId: string, clientSecret: string): string {
  return `Basic ${Buffer.from(encodeForm({ [clientId]: clientSecret }).replace('=', ':')).toString('base64')}`
}

function encodeForm (form: Readonly<Record<string, string>>): string {
  return new URLSearchParams(form).toString()
}

/** A private key of this service, with the algorithm that fits it. */
export interface ClientKey {
  readonly key: KeyObject
  readonly alg: JwsAlg
  /** Only a JWK has one. */
  readonly kid: string | undefined
}

/** The algorithm for each kind of key: RS256 for RSA, because every provider knows it. */
const ALG_BY_CURVE: Readonly<Record<string, JwsAlg>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' }

/**
 * Reads the private key of a file: PEM (PKCS#8, PKCS#1 or SEC 1), or a JWK (RFC 7517) with its `alg` and `kid`.
 * @throws TypeError for a text that holds no private key that can sign
 */
export function parseClientKey (text: string): ClientKey {
  const jwk = text.trimStart().startsWith('{') ? JSON.parse(text) as Record<string, unknown> : undefined
  const key = jwk ? createPrivateKey({ key: jwk, format: 'jwk' }) : createPrivateKey(text)
  const alg = jwk?.alg ?? algOf(key)
  if (typeof alg !== 'string' || !isAlgOf(alg, key)) throw new TypeError('The key cannot sign an assertion.')
  return { key, alg, kid: typeof jwk?.kid === 'string' ? jwk.kid : undefined }
}

function algOf ({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): JwsAlg | undefined {
  if (asymmetricKeyType === 'rsa') return 'RS256'
  if (asymmetricKeyType === 'ed25519') return 'EdDSA'
  return ALG_BY_CURVE[asymmetricKeyDetails?.namedCurve ?? '']
}

function isAlgOf (alg: string, key: KeyObject): alg is JwsAlg {
  const natural = algOf(key)
  return alg === natural || (natural === 'EdDSA' && alg === 'Ed25519') ||
    (natural === 'RS256' && Object.hasOwn(ALGORITHMS, alg) && ALGORITHMS[alg as JwsAlg].kty === 'RSA')
}

const ASSERTION_SECONDS = 60
const signOnThreadPool = promisify(sign)

/** RFC 7523 section 3. */
async function makeAssertion (
  { key, alg, kid }: ClientKey,
  { clientId, audience, now, randomBytes }: ClientCredentials
): Promise<string> {
  const iat = Math.floor(now())
  const header = { alg, typ: 'JWT', ...kid === undefined ? {} : { kid } }
  const claims = {
    iss: clientId,
    sub: clientId,
    aud: audience(),
    jti: randomBytes(16).toString('base64url'),
    iat,
    exp: iat + ASSERTION_SECONDS
  }
  const input = `${encodeJson(header)}.${encodeJson(claims)}`
  const { digest, signing } = ALGORITHMS[alg]
  const signature = await signOnThreadPool(digest, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363', ...signing })
  return `${input}.${signature.toString('base64url')}`
}
