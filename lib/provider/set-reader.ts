import { createRequire } from 'node:module'
import type { Dispatcher } from 'undici'
import type { UsableKey } from './usable-key.ts'

const require = createRequire(import.meta.url)
/** Loaded at the first fetch, as in transport.ts. */
const getJwks = (): typeof import('get-jwks') => require('get-jwks')
const undici = (): typeof import('undici') => require('undici')

/**
 * The address that get-jwks is told, in the place of the provider's: nothing is ever sent to it. Before fetch asks its dispatcher
 * it refuses ports that browsers block, such as 10080 and 6000, and a provider may well be on one of those.
 */
const NOWHERE = 'https://provider.invalid/'

const nothing = (): void => {}

/** What undici's handlers ask of a request in flight. The answer is complete before it is asked for: nothing can be stopped. */
const COMPLETE = Object.freeze({
  aborted: false,
  paused: false,
  reason: null,
  rawHeaders: [],
  rawTrailers: [],
  abort: nothing,
  pause: nothing,
  resume: nothing
})

/** A dispatcher that has no network: it answers every request with the document at hand. */
function answering (document: () => string): Dispatcher {
  // `compose` turns the handlers of every undici, those of Node's own fetch included, into the ones used here.
  return new (undici().Dispatcher)().compose(() => (_request, handler) => {
    queueMicrotask(() => {
      handler.onRequestStart?.(COMPLETE, {})
      handler.onResponseStart?.(COMPLETE, 200, { 'content-type': 'application/json' }, 'OK')
      handler.onResponseData?.(COMPLETE, Buffer.from(document()))
      handler.onResponseEnd?.(COMPLETE, {})
    })
    return true
  })
}

/** The reader of one refresh. */
export interface SetReader {
  /** `jwks_uri` of a discovery document that is well-formed and of the right issuer. */
  jwksUri (discovery: Readonly<Record<string, unknown>>): Promise<string>
  /** The keys as PEM (SPKI), in the order given. */
  pems (keys: readonly UsableKey[]): Promise<string[]>
}

/**
 * get-jwks, over documents that have been fetched already. It reads them, finds each key by `kid` and `alg` and turns it into
 * PEM; but it is let neither at the network nor at the provider's own set. Its fetch has no deadline and no limit and
 * asks upstream again for each `kid`; its look-up takes the first entry of a `kid` whatever its use, and falls over
 * an entry that is null. So the fetch is the transport's, and the set that it reads holds the usable keys alone, each
 * under its position, which also tells apart keys that have no `kid`.
 *
 * Made anew for each refresh: what an older one remembers it keeps serving after the provider has withdrawn it.
 */
export function createSetReader (): SetReader {
  let document = ''
  const fetchOptions = { dispatcher: answering(() => document), redirect: 'error' } as object
  const reader = getJwks()({ max: 100, fetchOptions })

  return {
    jwksUri ({ jwks_uri: jwksUri }) {
      // Nothing else of the document, for JSON.stringify throws on one that is nested deeply.
      document = JSON.stringify({ jwks_uri: jwksUri })
      return reader.getJwksUri(NOWHERE)
    },
    pems (keys) {
      const jwks = keys.map(({ n, e }, position) => ({ kty: 'RSA', alg: 'RS256', kid: String(position), n, e }))
      document = JSON.stringify({ keys: jwks })
      return Promise.all(jwks.map(({ alg, kid }) => reader.getPublicKey({ domain: NOWHERE, alg, kid })))
    }
  }
}
