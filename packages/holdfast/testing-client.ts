import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import type { InjectOptions, LightMyRequestResponse } from 'fastify'

/** The two headers of a request by DPoP. */
export type ProofHeaders = {
  /** The token, with the scheme DPoP. */
  readonly authorization: string,
  /** The proof. */
  readonly dpop: string
}

/** The app under test. */
export interface InjectableApp {
  /**
   * Sends a request without a network, as Fastify's `inject` does.
   * @example const answer = await app.inject({ url: '/orders' })
   */
  inject (options: InjectOptions): Promise<LightMyRequestResponse>
}

/** A request for `app.inject`, or only its URL. */
export type InjectedRequest = string | (InjectOptions & InjectedUrl)

/** The URL of a request. */
export interface InjectedUrl {
  /** A path with its query, or an absolute URL. */
  readonly url: string
}

/** A client that holds a bound token and its key. */
export interface TestClient {
  /** The access token, bound to the key. */
  readonly token: string
  /** RFC 7638 thumbprint of the key. */
  readonly jkt: string
  /**
   * Headers for one request: a proof is accepted only once.
   * @param url absolute, as the client would call it
   * @example const headers = client.headers('GET', 'http://localhost/orders')
   */
  headers (method: string, url: string, nonce?: string): ProofHeaders
  /**
   * Sends a request with a fresh proof, and once more with the service's nonce if it asks for one.
   * @example
   * const { statusCode } = await client.inject(app, { method: 'POST', url: '/orders', payload: { item: 7 } }) // 200
   */
  inject (app: InjectableApp, request: InjectedRequest): Promise<LightMyRequestResponse>
  /**
   * Sends a request, and then the same one with the same proof. Returns the second answer.
   * @throws Error if the first one is refused already
   * @example const { statusCode } = await client.replay(app, '/orders') // 401
   */
  replay (app: InjectableApp, request: InjectedRequest): Promise<LightMyRequestResponse>
  /**
   * Sends a request with this client's token and a proof by another key, as a thief of the token would.
   * @example const { statusCode } = await client.stolen(app, '/orders') // 401
   */
  stolen (app: InjectableApp, request: InjectedRequest): Promise<LightMyRequestResponse>
}

export interface TestClientOptions {
  readonly publicUrl: string | undefined
  /** Unix seconds. */
  readonly now: () => number
  readonly tokenFor: (jkt: string) => string
}

export function createTestClient ({ publicUrl, now, tokenFor }: TestClientOptions): TestClient {
  const key = makeProofKey()
  const token = tokenFor(key.jkt)
  const ath = createHash('sha256').update(token).digest('base64url')

  function headersBy (by: ProofKey, method: string, url: string, nonce?: string): ProofHeaders {
    const dpop = by.sign({
      jti: randomUUID(),
      htm: method.toUpperCase(),
      htu: url.replace(/[?#].*$/, ''),
      iat: now(),
      ath,
      nonce
    })
    return { authorization: `DPoP ${token}`, dpop }
  }

  async function send (
    app: InjectableApp,
    request: InjectedRequest,
    by: ProofKey
  ): Promise<{ answer: LightMyRequestResponse, repeat: () => Promise<LightMyRequestResponse> }> {
    const options = typeof request === 'string' ? { url: request } : request
    const attempt = async (nonce?: string) => {
      const proof = headersBy(by, options.method ?? 'GET', absolute(options), nonce)
      const repeat = () => app.inject({ ...options, headers: { ...options.headers, ...proof } })
      return { answer: await repeat(), repeat }
    }
    const first = await attempt()
    const { 'dpop-nonce': nonce, 'www-authenticate': challenge } = first.answer.headers
    return typeof nonce === 'string' && String(challenge).includes('use_dpop_nonce') ? attempt(nonce) : first
  }

  /** As `inject` reads the URL, and chooses the host. */
  function absolute ({ url, headers = {}, authority }: Exclude<InjectedRequest, string>): string {
    const target = new URL(url.startsWith('//') ? `http://localhost${url}` : url, 'http://localhost')
    const path = target.pathname + target.search
    if (publicUrl !== undefined) return publicUrl.replace(/\/$/, '') + path
    const [, host = authority ?? target.host] = Object.entries(headers).find(([name]) => /^host$/i.test(name)) ?? []
    return `http://${String(host)}${path}`
  }

  return {
    token,
    jkt: key.jkt,
    headers: (method, url, nonce) => headersBy(key, method, url, nonce),
    inject: async (app, request) => (await send(app, request, key)).answer,
    async replay (app, request) {
      const { answer, repeat } = await send(app, request, key)
      if (answer.statusCode === 401) {
        throw new Error(`The first request is refused already, so there is nothing to replay: ${answer.body}`)
      }
      return repeat()
    },
    stolen: async (app, request) => (await send(app, request, makeProofKey())).answer
  }
}

interface ProofKey {
  readonly jkt: string
  /** A proof of these claims. */
  sign (claims: object): string
}

function makeProofKey (): ProofKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { crv, kty, x, y } = publicKey.export({ format: 'jwk' })
  const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: { crv, kty, x, y } }
  return {
    // RFC 7638 section 3: the required members in the order of the alphabet.
    jkt: createHash('sha256').update(JSON.stringify(header.jwk)).digest('base64url'),
    sign (claims) {
      const input = [header, claims].map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
      const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      return `${input}.${signature.toString('base64url')}`
    }
  }
}
