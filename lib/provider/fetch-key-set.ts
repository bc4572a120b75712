import { createRequire } from 'node:module'
import type { Dispatcher } from 'undici'
import { keyIdentity, parseDocument, parseKeySet } from './key-set.ts'
import type { PassedOver, SigningKey, SigningKeys, UsableKey } from './key-set.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseDiscoveredJwksUri, withoutTrailingSlash } from './provider-url.ts'
import type { Answer, Exchange } from './transport.ts'

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

export interface FetchedKeys {
  readonly keys: SigningKeys
  readonly passedOver: PassedOver
}

/** Where the keys are: the configured issuer as text, the address of its documents, and the address of the set, when configured. */
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
 * One refresh: discovery, unless the address of the set is configured, then the set; one upstream request for each. Where the
 * set is is asked for each time: a remembered address would outlive the provider's move.
 *
 * @param known the keys at hand, so that a key which stays is the same object as before
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
