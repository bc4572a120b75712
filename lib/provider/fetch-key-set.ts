/**
 * Here get-jwks reads documents that the service has fetched already. The package reads `jwks_uri` from the discovery document, finds
 * each RSA key by `kid` and `alg`, and turns the key into PEM. Keys on curves become PEM by node:crypto: the package does not know
 * Ed25519, and it checks a point in JavaScript, which takes about 100 ms. A set of 100 such keys would stop the process for 10 s.
 *
 * The package is kept from the network and from the provider's own set. Its fetch has no deadline and no limit, and it asks the
 * provider again for each `kid`. Its look-up takes the first entry with a `kid`, whatever the `use` of that entry, and it crashes
 * on an entry that is null. So transport.ts fetches, and the package reads `data:` URLs: of the `jwks_uri`, and of sets that hold one
 * usable key each.
 */

import { createRequire } from 'node:module'
import type { JsonObject } from '../jose/jws.ts'
import { importPublicJwk } from '../jose/public-key.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { keyIdentity, parseKeySet } from './key-set.ts'
import type { PassedOver, SigningKey, SigningKeys, UsableKey } from './key-set.ts'
import { parseDocument, readAnswer } from './provider-document.ts'
import { printable } from '../printable.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from './provider-url.ts'
import type { ProviderSession } from './transport.ts'

const require = createRequire(import.meta.url)
/** The package is loaded at the first fetch, as in transport.ts. Each use has a reader of its own, so that nothing is read from a cache. */
const createReader = (): ReturnType<typeof import('get-jwks')> => require('get-jwks')()

/** A domain for get-jwks under which every path is the document: the path becomes a fragment, which is not fetched. */
function domainOf (document: object): string {
  return `data:application/json;base64,${Buffer.from(JSON.stringify(document)).toString('base64')}#/`
}

/** The key as PEM (SPKI). */
async function pemOf ({ material, algs: [alg] }: UsableKey): Promise<string> {
  if (material.kty !== 'RSA') return importPublicJwk(material)!.export({ format: 'pem', type: 'spki' }) as string
  const kid = '0'
  return createReader().getPublicKey({ domain: domainOf({ keys: [{ ...material, alg, kid }] }), alg: alg!, kid })
}

export interface FetchedKeys {
  readonly keys: SigningKeys
  readonly passedOver: PassedOver
}

/** Where the keys of an issuer are, and which of them count. */
export interface ProviderAddress {
  /** The configured issuer. Discovery must repeat it, except for a trailing slash. */
  readonly issuer: string
  /** The address of its documents. */
  readonly base: string
  /** The address of the set. If it is not given, discovery names it. */
  readonly jwksUri?: string | undefined
  /** Finds the address of the set in a document of another kind than OpenID discovery. Rejects with ProviderFailure. */
  readonly discover?: ((exchange: Pick<ProviderSession, 'get'>) => Promise<string>) | undefined
  /** The accepted algorithms of tokens. Only keys for one of them are used. RS256 unless given. */
  readonly algs?: readonly JwsAlg[] | undefined
}

/**
 * Fetches the discovery document of an issuer and reads what is wanted from it. Undefined if there is none. A document that names
 * another issuer is not used (OpenID Connect Discovery 1.0 section 4.3).
 * @throws ProviderFailure
 */
export async function readDiscovery<T> (
  { issuer, base }: Pick<ProviderAddress, 'issuer' | 'base'>, exchange: Pick<ProviderSession, 'get'>, read: (document: JsonObject) => T | Promise<T>
): Promise<T | undefined> {
  const answer = await exchange.get(`${base}.well-known/openid-configuration`)
  if (answer.status === 404) return undefined
  return readAnswer(answer, body => {
    const document = parseDocument(body, 'discovery_malformed')
    if (typeof document.issuer !== 'string' || typeof document.jwks_uri !== 'string' || document.jwks_uri === '') {
      throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
    }
    if (withoutTrailingSlash(document.issuer) !== withoutTrailingSlash(issuer)) {
      throw new ProviderFailure('discovery_issuer', undefined, { expected: issuer, found: printable(document.issuer) })
    }
    return read(document)
  })
}

async function discoverJwksUri (address: ProviderAddress, exchange: Pick<ProviderSession, 'get'>): Promise<string> {
  const found = await readDiscovery(address, exchange, async ({ jwks_uri: named }) => {
    // The rest of the document is left out, because JSON.stringify throws on a deeply nested document.
    return parseDiscoveredUri(await createReader().getJwksUri(domainOf({ jwks_uri: named })), address.base, 'jwks_uri_refused')
  })
  return found ?? `${address.base}.well-known/jwks.json`
}

/**
 * Makes one refresh: first discovery, unless the address of the set is configured, then the set. Each is one upstream request. The
 * location of the set is looked up every time: a remembered address would be wrong after the provider has moved.
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @throws ProviderFailure
 */
export async function fetchKeySet (address: ProviderAddress, exchange: Pick<ProviderSession, 'get'>, known: SigningKeys): Promise<FetchedKeys> {
  const jwksUri = address.jwksUri ?? await (address.discover?.(exchange) ?? discoverJwksUri(address, exchange))
  return readAnswer(await exchange.get(jwksUri), body => readKeySet(body, known, address.algs))
}

/**
 * Reads the usable keys from the document of a JWK Set. `known` as for `fetchKeySet`.
 * @throws ProviderFailure
 */
export async function readKeySet (document: Uint8Array, known: SigningKeys, algs?: readonly JwsAlg[]): Promise<FetchedKeys> {
  const { usable, passedOver } = parseKeySet(document, algs)
  const keys = await Promise.all(usable.map(async (key): Promise<[string, SigningKey]> => {
    const identity = keyIdentity(key)
    return [identity, known.get(identity) ?? Object.freeze({ kid: key.kid, pem: await pemOf(key), algs: key.algs })]
  }))
  return { keys: new Map(keys), passedOver }
}
