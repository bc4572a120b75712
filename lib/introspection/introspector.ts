import type { JsonObject } from '../jose/jws.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import type { Exchange, PostingExchange, PostingTransport } from '../provider/transport.ts'
import { Refusal } from '../refusal.ts'
import type { ClientAuthentication } from './client-authentication.ts'

/** What the provider says about a token (RFC 7662 section 2.2): its claims, or undefined for a token that is not active. */
export type IntrospectionAnswer = JsonObject | undefined

/** Asks the provider about tokens. */
export interface Introspector {
  /**
   * One call for a token, however many callers wait for it.
   * @throws Refusal introspection_unavailable
   */
  ask (token: string): Promise<IntrospectionAnswer>
  state (): { readonly calls: number, readonly failures: number, readonly inFlight: number }
  close (): void
}

export interface IntrospectorOptions {
  readonly transport: PostingTransport
  /** The address to ask, over a connection of the exchange. Rejects with ProviderFailure. */
  readonly endpoint: (exchange: Exchange) => Promise<string>
  readonly authenticate: ClientAuthentication
  /**
   * Reads an answer that is a JWT (RFC 9701 section 5) and returns its `token_introspection`. Undefined if answers are plain JSON.
   * Rejects with ProviderFailure.
   */
  readonly readSigned: ((jwt: string) => Promise<JsonObject>) | undefined
}

/** More tokens than these are not asked about at once, whatever is sent. */
const MAX_IN_FLIGHT = 64

const RETRY_AFTER_SECONDS = 1

export function createIntrospector ({ transport, endpoint, authenticate, readSigned }: IntrospectorOptions): Introspector {
  const running = new Map<string, Promise<IntrospectionAnswer>>()
  const exchanges = new Set<PostingExchange>()
  let calls = 0
  let failures = 0

  function call (token: string): Promise<IntrospectionAnswer> {
    calls++
    const exchange = transport.open()
    exchanges.add(exchange)
    return post(token, exchange).catch(fail).finally(() => {
      exchanges.delete(exchange)
      exchange.close()
    })
  }

  async function post (token: string, exchange: PostingExchange): Promise<IntrospectionAnswer> {
    const url = await endpoint(exchange)
    const { headers, form } = await authenticate()
    const { status, body } = await exchange.post(url, {
      headers: { ...headers, accept: readSigned ? 'application/token-introspection+jwt' : 'application/json' },
      body: new URLSearchParams({ token, token_type_hint: 'access_token', ...form }).toString()
    })
    if (status !== 200) throw new ProviderFailure('status', status)
    return parseAnswer(readSigned ? await readSigned(body.toString('latin1')) : parseDocument(body, 'introspection_malformed'))
  }

  function fail (error: Error): never {
    failures++
    const { word, detail } = error instanceof ProviderFailure ? error : new ProviderFailure('unexpected', error.name)
    throw unavailable(word, detail)
  }

  return {
    ask (token) {
      const shared = running.get(token)
      if (shared) return shared
      if (running.size >= MAX_IN_FLIGHT) return Promise.reject(unavailable('busy'))
      const asked = call(token).finally(() => running.delete(token))
      running.set(token, asked)
      return asked
    },
    state: () => ({ calls, failures, inFlight: running.size }),
    close () {
      for (const exchange of exchanges) exchange.close()
      transport.close()
    }
  }
}

function unavailable (failure: string, detail?: string | number): Refusal {
  return new Refusal('introspection_unavailable', { failure, ...(detail === undefined ? {} : { detail }) }, RETRY_AFTER_SECONDS)
}

/** @throws ProviderFailure introspection_malformed: `active` says nothing unless it is one of the two booleans */
function parseAnswer ({ active, ...claims }: JsonObject): IntrospectionAnswer {
  if (typeof active !== 'boolean') throw new ProviderFailure('introspection_malformed')
  return active ? claims : undefined
}
