/**
 * Here get-jwks reads documents that the service has fetched already. The package reads `jwks_uri` from the discovery document, finds
 * each key by `kid` and `alg`, and turns the key into PEM.
 *
 * The package is kept from the network and from the provider's own set. Its fetch has no deadline and no limit, and it asks the
 * provider again for each `kid`. Its look-up takes the first entry with a `kid`, whatever the `use` of that entry, and it crashes
 * on an entry that is null. So transport.ts fetches, and the package reads a set that holds only the usable keys. In that set the
 * `kid` of each key is its position, so keys without a `kid` do not clash.
 */

import { createRequire } from 'node:module'
import type { Dispatcher } from 'undici'
import { keyIdentity, parseDocument, parseKeySet } from './key-set.ts'
import type { PassedOver, SigningKey, SigningKeys, UsableKey } from './key-set.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseDiscoveredJwksUri, withoutTrailingSlash } from './provider-url.ts'
import type { Answer, Exchange } from './transport.ts'

const require = createRequire(import.meta.url)
/** The package is loaded at the first fetch, as in transport.ts. */
const getJwks = (): typeof import('get-jwks') => require('get-jwks')
const undici = (): typeof import('undici') => require('undici')

/**
 * The address that get-jwks is given instead of the provider's address. Nothing is ever sent to it. fetch refuses ports that
 * browsers block, such as 10080 and 6000, before it asks its dispatcher, and a provider may use one of those ports.
 */
const NOWHERE = 'https://provider.invalid/'

const nothing = (): void => {}

/**
 * The controller of a request, as undici's handlers expect it. The answer is complete before the request is made, so nothing can be
 * stopped.
 */
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

/** A dispatcher without a network: it answers every request with the document at hand. */
function answering (document: () => string): Dispatcher {
  // `compose` adapts the handlers of every undici, including those of Node's own fetch, to the handlers used here.
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

/** Reads the documents of one refresh. */
export interface SetReader {
  /** The `jwks_uri` of a discovery document that is well-formed and belongs to the right issuer. */
  jwksUri (discovery: Readonly<Record<string, unknown>>): Promise<string>
  /** The keys as PEM (SPKI), in the order given. */
  pems (keys: readonly UsableKey[]): Promise<string[]>
}

/** Makes a reader. Each refresh makes a new one: an old reader would keep serving keys that the provider has withdrawn. */
export function createSetReader (): SetReader {
  let document = ''
  const fetchOptions = { dispatcher: answering(() => document), redirect: 'error' } as object
  const reader = getJwks()({ max: 100, fetchOptions })

  return {
    jwksUri ({ jwks_uri: jwksUri }) {
      // The rest of the document is left out, because JSON.stringify throws on a deeply nested document.
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

export interface FetchedKeys {
  readonly keys: SigningKeys
  readonly passedOver: PassedOver
}

/**
 * The location of the keys: the configured issuer as text, the address of its documents, and the address of the set if one is
 * configured.
 */
export interface ProviderAddress {
  readonly issuer: string
  readonly base: string
  readonly jwksUri: string | undefined
}

function expectOk ({ status }: Answer): void {
  if (status !== 200) throw new ProviderFailure('status', status)
}

/** OpenID Connect Discovery 1.0 section 4.3: a document that speaks for another issuer is not used. */
async function discover ({ issuer, base }: ProviderAddress, exchange: Exchange, reader: SetReader): Promise<string> {
  const answer = await exchange.get(`${base}.well-known/openid-configuration`)
  if (answer.status === 404) return `${base}.well-known/jwks.json`
  expectOk(answer)
  const document = parseDocument(answer.body, 'discovery_malformed')
  if (typeof document.issuer !== 'string' || typeof document.jwks_uri !== 'string' || document.jwks_uri === '') {
    throw new ProviderFailure('discovery_malformed')
  }
  if (withoutTrailingSlash(document.issuer) !== withoutTrailingSlash(issuer)) throw new ProviderFailure('discovery_issuer')
  return parseDiscoveredJwksUri(await reader.jwksUri(document), base)
}

/**
 * Makes one refresh: first discovery, unless the address of the set is configured, then the set. Each is one upstream request. The
 * location of the set is looked up every time: a remembered address would be wrong after the provider has moved.
 *
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @throws ProviderFailure
 */
export async function fetchKeySet (address: ProviderAddress, exchange: Exchange, known: SigningKeys): Promise<FetchedKeys> {
  const reader = createSetReader()
  const jwksUri = address.jwksUri ?? await discover(address, exchange, reader)
  const answer = await exchange.get(jwksUri)
  expectOk(answer)
  const { usable, passedOver } = parseKeySet(answer.body)

  const added = usable.filter((key) => !known.has(keyIdentity(key)))
  const pems = await reader.pems(added)
  const made = new Map(added.map((key, position) => [keyIdentity(key), Object.freeze({ kid: key.kid, pem: pems[position]! })]))
  const keys = new Map<string, SigningKey>()
  for (const key of usable) {
    const identity = keyIdentity(key)
    keys.set(identity, (known.get(identity) ?? made.get(identity))!)
  }
  return { keys, passedOver }
}
