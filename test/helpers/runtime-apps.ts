/** Apps that other runtimes and package managers run. */

/** A provider over the network: an app without the test issuer fetches its keys. */
export const NETWORK = `
import { generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'
import Fastify from 'fastify'
import holdfast from 'holdfast'
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const server = createServer((request, answer) => {
  answer.setHeader('content-type', 'application/json')
  answer.end(JSON.stringify(request.url.includes('openid') ? { issuer, jwks_uri: issuer + '/keys' } : { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'RS256', use: 'sig' }] }))
})
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const issuer = 'http://127.0.0.1:' + server.address().port
const part = value => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = Math.floor(Date.now() / 1000)
const input = part({ typ: 'at+jwt', alg: 'RS256', kid: 'k' }) + '.' + part({ iss: issuer, aud: 'api', sub: 'ann', iat: now, exp: now + 60, scope: 'a' })
const token = input + '.' + sign('sha256', Buffer.from(input), privateKey).toString('base64url')
const app = Fastify()
await app.register(holdfast, { idp: { issuer, audience: 'api' } })
app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub)
const url = await app.listen({ port: 0, host: '127.0.0.1' })
for (const authorization of ['Bearer ' + token, 'Bearer ' + token.slice(0, -4) + 'AAAA']) {
  const answer = await fetch(url, { headers: { authorization } })
  console.log(answer.status, await answer.text())
}
await app.close()
server.close()
`

/**
 * What a client can send that the headers of `fetch` cannot hold. Requests in absolute form are left out: Deno answers
 * them with 400 itself.
 */
export const RAW = `
import { connect } from 'node:net'
import Fastify from 'fastify'
import holdfast from 'holdfast'
import { createTestIssuer } from 'holdfast/testing'
const idp = await createTestIssuer()
const app = Fastify()
await app.register(holdfast, { ...idp.options })
app.get('/', { onRequest: app.requireScope('a') }, request => request.user.sub)
const url = await app.listen({ port: 0, host: '127.0.0.1' })
const { port, host } = new URL(url)
const client = await idp.dpopClient({ scope: 'a' })
const bearer = await idp.token({ scope: 'a' })
const raw = lines => new Promise(resolve => {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', chunk => { text += chunk })
  socket.on('close', () => resolve(text))
  socket.on('error', () => {})
  socket.write(lines.join('\\r\\n') + '\\r\\nConnection: close\\r\\n\\r\\n')
})
const h = () => { const { authorization, dpop } = client.headers('GET', url + '/'); return ['Authorization: ' + authorization, 'DPoP: ' + dpop] }
const h2 = h(), h3 = h()
const cases = {
  good: ['GET / HTTP/1.1', 'Host: ' + host, ...h()],
  twoProofs: ['GET / HTTP/1.1', 'Host: ' + host, ...h2, h3[1]],
  twoAuth: ['GET / HTTP/1.1', 'Host: ' + host, 'Authorization: Bearer ' + bearer, 'Authorization: Bearer ' + bearer],
  twoHosts: ['GET / HTTP/1.1', 'Host: ' + host, 'Host: evil.example', ...h()],
  dots: ['GET /x/../ HTTP/1.1', 'Host: ' + host, ...h()],
  noHost: ['GET / HTTP/1.0', ...h()],
  badHost: ['GET / HTTP/1.1', 'Host: a?b', ...h()],
  both: ['GET / HTTP/1.1', 'Host: ' + host, 'Authorization: Bearer ' + bearer, h()[1]],
  beside: ['GET / HTTP/1.1', 'Host: ' + host, ...h(), 'Authorization: Bearer ' + bearer],
}
for (const [name, lines] of Object.entries(cases)) { const a = await raw(lines); console.log(name, a.slice(9, 12), /error="\\w+"|"message":"[^"]*/.exec(a)?.[0], /"message":"[^"]*/.exec(a)?.[0]) }
await app.close()
process.exit()
`

/** A workspace in which another Fastify gives a package a copy of its own. */
export const WORKSPACE = (tarball: string): Record<string, string> => ({
  'package.json': '{"name":"root","private":true}',
  'pnpm-workspace.yaml': 'packages:\n  - app\n  - kit\n',
  'kit/package.json': JSON.stringify({
    name: 'kit',
    version: '1.0.0',
    private: true,
    type: 'module',
    exports: './kit.js',
    dependencies: { holdfast: `file:${tarball}`, fastify: '5.8.0' }
  }),
  'kit/kit.js':
    "export { createTestIssuer } from 'holdfast/testing'\nexport { Refusal, default as plugin } from 'holdfast'\n",
  'app/package.json': JSON.stringify({
    name: 'app',
    private: true,
    type: 'module',
    dependencies: { kit: 'workspace:*', holdfast: `file:${tarball}`, fastify: '5' }
  }),
  'app/app.js': `
import Fastify from 'fastify'
import holdfast from 'holdfast'
import * as own from 'holdfast/testing'
import { createTestIssuer, plugin, Refusal } from 'kit'
const idp = await createTestIssuer()
const second = await own.createTestIssuer({ issuer: 'https://second.test/', beside: idp })
const app = Fastify()
await app.register(holdfast, second.options)
app.get('/', { onRequest: app.authenticate(), errorHandler: (error, _request, reply) => reply.code(error.statusCode).send(String(error instanceof Refusal)) }, request => request.auth.issuer)
console.log(holdfast !== plugin, (await (await idp.dpopClient()).inject(app, '/')).body, (await (await second.dpopClient()).inject(app, '/')).body, (await app.inject('/')).body)
await app.close()
`
})

export const LAMBDA = `
import lambda from '@fastify/aws-lambda'
import Fastify from 'fastify'
import holdfast from 'holdfast'
import { createTestIssuer } from 'holdfast/testing'

const idp = await createTestIssuer({ publicUrl: 'https://api.example' })
const app = Fastify()
await app.register(holdfast, { ...idp.options, dpop: { nonce: 'required' } })
app.post('/orders', { onRequest: app.requireScope('a') }, request => ({ of: request.user.sub, by: request.auth.scheme }))
export const handler = lambda(app)
export { idp }
`

/** Events of API Gateway, format 2.0. */
export const LAMBDA_CALL = `
import { handler, idp } from './handler.mjs'
const event = headers => ({
  version: '2.0', routeKey: '$default', rawPath: '/orders', rawQueryString: 'page=1', queryStringParameters: { page: '1' },
  headers: { accept: '*/*', 'content-type': 'application/json', host: 'abc123.execute-api.eu-central-1.amazonaws.com', 'x-forwarded-for': '192.0.2.1', 'x-forwarded-port': '443', 'x-forwarded-proto': 'https', ...headers },
  requestContext: { accountId: '123456789012', apiId: 'abc123', domainName: 'abc123.execute-api.eu-central-1.amazonaws.com', http: { method: 'POST', path: '/orders', protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'curl' }, requestId: 'id=', routeKey: '$default', stage: '$default', time: '26/Nov/2026:08:00:00 +0000', timeEpoch: 1795680000000 },
  body: '{"a":1}', isBase64Encoded: false
})
const ask = async headers => {
  const answer = await handler(event(headers), { awsRequestId: '1' })
  console.log(answer.statusCode, answer.statusCode === 200 ? answer.body : ['www-authenticate' in answer.headers && 'challenge', 'dpop-nonce' in answer.headers && 'nonce'].filter(Boolean).join(' '))
  return answer
}
const client = await idp.dpopClient({ scope: 'a', sub: 'ann' })
const url = 'https://api.example/orders'
const first = await ask(client.headers('POST', url))
const proof = client.headers('POST', url, first.headers['dpop-nonce'])
await ask(proof)
await ask(proof)
await ask({ authorization: 'Bearer ' + await idp.token({ scope: 'a' }) })
await ask({ authorization: 'Bearer ' + await idp.token() })
await ask({})
`
