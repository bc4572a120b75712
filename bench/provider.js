import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

export const AUDIENCE = 'https://api.example.test/'
export const HOST = 'api.example.test'

/**
 * The identity provider of a run: one RSA key, published by discovery and by the well-known JWKS path, over
 * plain HTTP on loopback, which every contender accepts. Nobody fetches more than once or twice.
 */
export const startProvider = async () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const kid = randomUUID()
  const jwks = JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }] })
  let issuer = ''
  const server = createServer((request, response) => {
    response.setHeader('Content-Type', 'application/json')
    if (request.url === '/.well-known/jwks.json') return response.end(jwks)
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
  return { issuer, kid, privateJwk: privateKey.export({ format: 'jwk' }), close: () => server.close() }
}
