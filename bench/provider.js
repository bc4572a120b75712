import { createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

export const AUDIENCE = 'https://api.example.test/'
export const HOST = 'api.example.test'

/** Keys beside the one for RS256: the form of each, and the algorithms that share it. */
const OTHER_KEYS = [
  { form: ['rsa', { modulusLength: 2048 }], algs: ['PS256'] },
  { form: ['ec', { namedCurve: 'P-256' }], algs: ['ES256'] },
  { form: ['ec', { namedCurve: 'P-384' }], algs: ['ES384'] },
  { form: ['ec', { namedCurve: 'P-521' }], algs: ['ES512'] },
  { form: ['ed25519', {}], algs: ['EdDSA', 'Ed25519'] }
]

const STRANGERS = 7

/**
 * Keys that sign nothing: with each of the run's own, as many as a token without `kid` is tried against. RSA keys take
 * long to make, so they come from a file.
 */
const strangers = () => {
  const rsa = readFileSync(new URL('../test/fixtures/rsa.keys.pem', import.meta.url), 'utf8').split(
    /(?<=-----END PRIVATE KEY-----\n)/
  ).slice(0, STRANGERS)
  const made = OTHER_KEYS.filter(({ form: [type] }) => type !== 'rsa').flatMap(({ form: [type, options] }) =>
    Array.from({ length: STRANGERS }, () => generateKeyPairSync(type, options).publicKey)
  )
  return [...rsa.map(pem => createPublicKey(pem)), ...made].map(key => ({
    ...key.export({ format: 'jwk' }),
    kid: randomUUID(),
    use: 'sig'
  }))
}

/**
 * The identity provider of a run: one RSA key, published by discovery and by the well-known JWKS path, over plain HTTP
 * on loopback, which every contender accepts. None fetches more than once or twice. The keys of the other algorithms
 * are only in `crowd`, among many more.
 */
export const startProvider = async () => {
  const others = OTHER_KEYS.flatMap(({ form: [type, options], algs }) => {
    const pair = generateKeyPairSync(type, options)
    const kid = randomUUID()
    return {
      algs,
      kid,
      privateJwk: pair.privateKey.export({ format: 'jwk' }),
      publicJwk: { ...pair.publicKey.export({ format: 'jwk' }), kid, use: 'sig' }
    }
  })
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const kid = randomUUID()
  const jwks = JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }] })
  let issuer = ''
  const server = createServer((request, response) => {
    response.setHeader('Content-Type', 'application/json')
    if (request.url === '/.well-known/jwks.json') return response.end(jwks)
    if (request.url === '/.well-known/ssf-configuration') {
      return response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}.well-known/events.json` }))
    }
    if (request.url === '/.well-known/events.json') return response.end(JSON.stringify(crowd))
    if (request.url === '/.well-known/openid-configuration') {
      return response.end(JSON.stringify({
        issuer,
        jwks_uri: `${issuer}.well-known/jwks.json`,
        token_endpoint: `${issuer}oauth/token`,
        authorization_endpoint: `${issuer}authorize`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256']
      }))
    }
    response.statusCode = 404
    response.end('{}')
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${server.address().port}/`
  const crowd = { keys: [...JSON.parse(jwks).keys, ...others.map(({ publicJwk }) => publicJwk), ...strangers()] }
  return { issuer, kid, crowd, others, privateJwk: privateKey.export({ format: 'jwk' }), close: () => server.close() }
}
