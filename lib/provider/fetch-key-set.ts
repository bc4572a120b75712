import { importPublicJwk } from '../jose/public-key.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseKeySet } from './key-set.ts'
import type { KeySet, SigningKey, SigningKeys, UsableKey } from './key-set.ts'
import { readAnswer, readDiscovery } from './provider-document.ts'
import type { AddressFinder } from './provider-document.ts'
import { parseConfiguredJwksUri, parseDiscoveredUri, parseIssuer } from './provider-url.ts'
import type { ProviderSession } from './transport.ts'

/** Reads what was fetched already. It never asks the network. */
export interface KeyReader {
  /** The key as PEM (SPKI). */
  readonly readPem: (key: UsableKey) => string | Promise<string>
  /** The address of the keys, as a discovery document names it. */
  readonly readJwksUri: (named: string) => string | Promise<string>
}

/** Reads keys by node:crypto. */
export const NODE_KEY_READER: KeyReader = {
  readPem: ({ material }) => importPublicJwk(material)!.export({ format: 'pem', type: 'spki' }) as string,
  readJwksUri: named => named
}

/**
 * Finds the address of an issuer's key set: the configured one, else the one that discovery names, else the usual one. It is looked up
 * each time: a remembered address would be wrong after the provider has moved.
 * @throws TypeError for an issuer or an address from which keys may not be fetched
 */
export function createKeySetFinder (issuer: string, configured: string | undefined, reader: KeyReader = NODE_KEY_READER): AddressFinder {
  const base = parseIssuer(issuer)
  if (configured === undefined) return async exchange => await discoverJwksUri(issuer, exchange, reader) ?? `${base}.well-known/jwks.json`
  const address = parseConfiguredJwksUri(configured)
  return async () => address
}

function discoverJwksUri (issuer: string, exchange: ProviderSession, { readJwksUri }: KeyReader): Promise<string | undefined> {
  return readDiscovery(issuer, exchange, async ({ jwks_uri: named }) => parseDiscoveredUri(await readJwksUri(named as string), issuer, 'jwks_uri_refused'))
}

/**
 * Fetches a key set.
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @param algs the accepted algorithms of tokens: only keys for one of them are used
 * @throws ProviderFailure
 */
export async function fetchKeySet (address: string, exchange: ProviderSession, known: SigningKeys, algs: readonly JwsAlg[], reader?: KeyReader): Promise<KeySet> {
  return readAnswer(await exchange.send(address), body => readKeySet(body, known, algs, reader))
}

/**
 * Reads the usable keys from the document of a JWK Set. `known` and `algs` as for `fetchKeySet`.
 * @throws ProviderFailure
 */
export async function readKeySet (document: Uint8Array, known: SigningKeys, algs: readonly JwsAlg[], { readPem }: KeyReader = NODE_KEY_READER): Promise<KeySet> {
  const { usable, passedOver } = parseKeySet(document, algs)
  const keys = await Promise.all(Array.from(usable, async ([identity, key]): Promise<[string, SigningKey]> =>
    [identity, known.get(identity) ?? Object.freeze({ kid: key.kid, pem: await readPem(key), algs: key.algs })]))
  return { keys: new Map(keys), passedOver }
}
