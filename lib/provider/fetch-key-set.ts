import { importPublicJwk } from '../jose/public-key.ts'
import type { JsonObject } from '../json.ts'
import type { SigningKey } from '../jose/signed-jwt.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { parseKeySet } from './key-set.ts'
import type { KeySet, SigningKeys, UsableKey } from './key-set.ts'
import { createDiscovery, readAnswer } from './provider-document.ts'
import type { Discovery } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'
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

/** Finds the address of a key set. Undefined if the provider has none, and needs none. Rejects with ProviderFailure. */
export type KeySetFinder = (session: ProviderSession) => Promise<string | undefined>

export interface KeySetFinderOptions {
  /** That of the issuer, if others read it too. */
  readonly discovery?: Discovery | undefined
  /** Whether the issuer may be without keys, because all of its tokens are opaque. */
  readonly mayHaveNone?: boolean
  readonly reader?: KeyReader
}

/**
 * Finds the address of an issuer's key set: the configured one, else the one that discovery names, else the usual one.
 * It is looked up each time: a remembered address would be wrong after the provider has moved.
 * @throws TypeError for an issuer or an address from which keys may not be fetched
 */
export function createKeySetFinder (
  issuer: string,
  configured: string | undefined,
  { discovery = createDiscovery(issuer), mayHaveNone = false, reader = NODE_KEY_READER }: KeySetFinderOptions = {}
): KeySetFinder {
  if (configured !== undefined) {
    const address = parseConfiguredJwksUri(configured)
    return async () => address
  }
  const usual = `${parseIssuer(issuer)}.well-known/jwks.json`
  return async session => {
    const named = await discovery.read(session, document => readJwksUri(document, issuer, { mayHaveNone, reader }))
    if (named) return named.uri
    return mayHaveNone && (await session.send(usual)).status === 404 ? undefined : usual
  }
}

/** The address in a document. RFC 8414 section 2 lets it be left out. @throws ProviderFailure */
async function readJwksUri (
  { jwks_uri: named }: JsonObject,
  issuer: string,
  { mayHaveNone, reader }: Required<Pick<KeySetFinderOptions, 'mayHaveNone' | 'reader'>>
): Promise<{ readonly uri: string | undefined }> {
  if (named === undefined && mayHaveNone) return { uri: undefined }
  if (typeof named !== 'string' || named === '') {
    throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
  }
  return { uri: parseDiscoveredUri(await reader.readJwksUri(named), issuer, 'jwks_uri_refused') }
}

/**
 * Fetches a key set.
 * @param address undefined for a set without keys
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @param algs the accepted algorithms of tokens: only keys for one of them are used
 * @throws ProviderFailure
 */
export async function fetchKeySet (
  address: string | undefined,
  session: ProviderSession,
  known: SigningKeys,
  algs: readonly JwsAlg[],
  reader?: KeyReader
): Promise<KeySet> {
  if (address === undefined) return { keys: new Map(), passedOver: {} }
  return readAnswer(await session.send(address), body => readKeySet(body, known, algs, reader))
}

/**
 * Reads the usable keys from the document of a JWK Set. `known` and `algs` as for `fetchKeySet`.
 * @throws ProviderFailure
 */
export async function readKeySet (
  document: Uint8Array,
  known: SigningKeys,
  algs: readonly JwsAlg[],
  { readPem }: KeyReader = NODE_KEY_READER
): Promise<KeySet> {
  const { usable, passedOver } = parseKeySet(document, algs)
  const keys = await Promise.all(
    Array.from(
      usable,
      async (
        [identity, key]
      ): Promise<[string, SigningKey]> => [
        identity,
        known.get(identity) ?? Object.freeze({ kid: key.kid, pem: await readPem(key), algs: key.algs })
      ]
    )
  )
  return { keys: new Map(keys), passedOver }
}
