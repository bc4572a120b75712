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
import { importPublicJwk } from '../jose/public-key.ts'
import type { JsonObject } from '../jose/jws.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseKeySet } from './key-set.ts'
import type { KeySet, SigningKey, SigningKeys, UsableKey } from './key-set.ts'
import { createDiscovery, readAnswer } from './provider-document.ts'
import type { Discovery } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseConfiguredJwksUri, parseDiscoveredUri, parseIssuer } from './provider-url.ts'
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

/** Finds the address of a key set. Undefined if the provider has none, and needs none. Rejects with ProviderFailure. */
export type KeySetFinder = (exchange: ProviderSession) => Promise<string | undefined>

export interface KeySetFinderOptions {
  /** That of the issuer, if others read it too. */
  readonly discovery?: Discovery
  /** Whether the issuer may be without keys, because all of its tokens are opaque. */
  readonly mayHaveNone?: boolean
}

/**
 * Finds the address of an issuer's key set: the configured one, else the one that discovery names, else the usual one. It is looked up
 * each time: a remembered address would be wrong after the provider has moved.
 * @throws TypeError for an issuer or an address from which keys may not be fetched
 */
export function createKeySetFinder (issuer: string, configured: string | undefined, { discovery = createDiscovery(issuer), mayHaveNone = false }: KeySetFinderOptions = {}): KeySetFinder {
  if (configured !== undefined) {
    const address = parseConfiguredJwksUri(configured)
    return async () => address
  }
  const usual = `${parseIssuer(issuer)}.well-known/jwks.json`
  return async exchange => {
    const named = await discovery.read(exchange, document => readJwksUri(document, issuer, mayHaveNone))
    if (named) return named.uri
    return mayHaveNone && (await exchange.send(usual)).status === 404 ? undefined : usual
  }
}

/** The address in a document. RFC 8414 section 2 lets it be left out. @throws ProviderFailure */
async function readJwksUri ({ jwks_uri: named }: JsonObject, issuer: string, mayHaveNone: boolean): Promise<{ readonly uri: string | undefined }> {
  if (named === undefined && mayHaveNone) return { uri: undefined }
  if (typeof named !== 'string' || named === '') throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
  // The rest of the document is left out, because JSON.stringify throws on a deeply nested document.
  return { uri: parseDiscoveredUri(await createReader().getJwksUri(domainOf({ jwks_uri: named })), issuer, 'jwks_uri_refused') }
}

/**
 * Fetches a key set.
 * @param address undefined for a set without keys
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @param algs the accepted algorithms of tokens: only keys for one of them are used
 * @throws ProviderFailure
 */
export async function fetchKeySet (address: string | undefined, exchange: ProviderSession, known: SigningKeys, algs: readonly JwsAlg[]): Promise<KeySet> {
  if (address === undefined) return { keys: new Map(), passedOver: {} }
  return readAnswer(await exchange.send(address), body => readKeySet(body, known, algs))
}

/**
 * Reads the usable keys from the document of a JWK Set. `known` and `algs` as for `fetchKeySet`.
 * @throws ProviderFailure
 */
export async function readKeySet (document: Uint8Array, known: SigningKeys, algs: readonly JwsAlg[]): Promise<KeySet> {
  const { usable, passedOver } = parseKeySet(document, algs)
  const keys = await Promise.all(Array.from(usable, async ([identity, key]): Promise<[string, SigningKey]> =>
    [identity, known.get(identity) ?? Object.freeze({ kid: key.kid, pem: await pemOf(key), algs: key.algs })]))
  return { keys: new Map(keys), passedOver }
}
