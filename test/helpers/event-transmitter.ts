import { sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { Test } from 'tap'
import { makeIssuerKey } from './issuer.ts'
import { encodeJws } from './jws.ts'
import { listen } from './listen.ts'

/** A request to a transmitter. The body is what JSON says, or the text. */
interface TransmitterRequest {
  /** Such as `POST /stream`. */
  what: string
  path: string
  authorization: string | undefined
  body: unknown
}

type Reply = readonly [status: number, body: unknown]

export interface EventTransmitter {
  url: string
  requests: TransmitterRequest[]
  /** By `METHOD /path`: what is answered. Texts go as they are, all else as JSON. */
  answers: Record<string, Reply | ((request: TransmitterRequest) => Reply | Promise<Reply>)>
  /** The bodies of all requests for this, in order. */
  bodies (what: string): unknown[]
  /** A signed security event token. */
  set (type: string, event?: object, claims?: object): string
}

const key = makeIssuerKey('t1')

/** A transmitter of the Shared Signals Framework on loopback, with all endpoints of a stream. It ends with the test. */
export async function startEventTransmitter (t: Test): Promise<EventTransmitter> {
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { pathname, search } = new URL(request.url!, transmitter.url)
    const what = `${request.method} ${pathname}`
    const seen = {
      what,
      path: request.url!,
      authorization: request.headers.authorization,
      body: request.method === 'GET' ? search : text.startsWith('{') ? JSON.parse(text) : text
    }
    transmitter.requests.push(seen)
    const given = transmitter.answers[what] ?? [404, {}]
    const [status, body] = typeof given === 'function' ? await given(seen) : given
    response.writeHead(status, { 'content-type': 'application/json' }).end(
      typeof body === 'string' ? body : JSON.stringify(body)
    )
  })
  const port = await listen(t, server)
  const url = `http://127.0.0.1:${port}`
  const transmitter: EventTransmitter = {
    url,
    requests: [],
    answers: {
      'GET /.well-known/ssf-configuration': [200, {
        issuer: url,
        jwks_uri: `${url}/keys`,
        configuration_endpoint: `${url}/stream`,
        status_endpoint: `${url}/status`,
        verification_endpoint: `${url}/verify`
      }],
      'GET /.well-known/openid-configuration': [200, {
        issuer: url,
        jwks_uri: `${url}/keys`,
        token_endpoint: `${url}/token`
      }],
      'GET /keys': [200, { keys: [key.jwk] }],
      'POST /token': [200, { access_token: 'token-1', token_type: 'Bearer' }],
      'POST /stream': [201, {
        stream_id: 's1',
        iss: url,
        aud: 'receiver',
        delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${url}/poll` }
      }],
      'GET /stream': [200, {
        stream_id: 's1',
        iss: url,
        aud: ['receiver'],
        delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${url}/poll` }
      }],
      'PATCH /stream': [200, {
        stream_id: 's1',
        iss: url,
        aud: 'receiver',
        delivery: { method: 'urn:ietf:rfc:8936', endpoint_url: `${url}/poll` }
      }],
      'GET /status': [200, { stream_id: 's1', status: 'enabled' }],
      'POST /verify': [204, ''],
      'POST /poll': [200, { sets: {} }]
    },
    bodies: what => transmitter.requests.filter(request => request.what === what).map(({ body }) => body),
    set: (type, event = {}, claims = {}) =>
      encodeJws({ alg: 'RS256', typ: 'secevent+jwt', kid: key.kid }, {
        iss: url,
        aud: 'receiver',
        jti: 'j1',
        iat: Math.floor(Date.now() / 1000),
        events: { [type]: event },
        ...claims
      }, input => sign('sha256', input, key.privateKey))
  }
  return transmitter
}
