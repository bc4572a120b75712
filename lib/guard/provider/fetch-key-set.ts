import type { KeyObject } from 'node:crypto'
import type { SigningKey } from '../jose/signed-jwt.ts'
import type { JwsAlg } from '../jose/signature.ts'
import { isSameKey, parseKeySet, type KeySet } from './key-set.ts'
import { createDiscovery, readAnswer, type Discovery } from './provider-document.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseConfiguredJwksUri, parseDiscoveredUri, parseIssuer } from './provider-url.ts'
import { withSession, type ProviderSession, type Transport } from './transport.ts'

/** A fetched key as PEM (SPKI), by a reader that never asks the network. `alg` is one that the key is for. */
export type PemReader = (key: KeyObject, alg: JwsAlg) => string | Promise<string>

/** Reads keys by node:crypto. */
export const readPemByCrypto: PemReader = key => key.export({ format: 'pem', type: 'spki' }) as string

/**
 * Finds the address of a key set. Returns undefined if the provider has none, and needs none. Rejects with
 * ProviderFailure.
 */
type KeySetFinder = (session: ProviderSession) => Promise<string | undefined>

interface KeySetFinderOptions {
  /** That of the issuer, if others read it too. */
  readonly discovery?: Discovery
  /** Whether the issuer may be without keys, because all of its tokens are opaque. */
  readonly mayHaveNone?: boolean
}

/**
 * Finds the address of an issuer's key set: the configured one, else the one that discovery names, else the usual one.
 * It is looked up each time: a remembered address would be wrong after the provider has moved.
 * @throws TypeError for an issuer or an address from which keys may not be fetched
 */
export function createKeySetFinder (
  issuer: string,
  configured: string | undefined,
  { discovery = createDiscovery(issuer), mayHaveNone = false }: KeySetFinderOptions = {}
): KeySetFinder {
  if (configured !== undefined) {
    const address = parseConfiguredJwksUri(configured)
    return async () => address
  }
  const usual = `${parseIssuer(issuer)}.well-known/jwks.json`
  return async session => {
    const found = await discovery.read(session, ({ jwks_uri: named }) => {
      // RFC 8414 section 2 lets it be left out.
      if (named === undefined && mayHaveNone) return { address: undefined }
      if (typeof named !== 'string' || named === '') {
        throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
      }
      return { address: parseDiscoveredUri(named, issuer, 'jwks_uri_refused') }
    })
    if (found) return found.address
    return mayHaveNone && (await session.send(usual)).status === 404 ? undefined : usual
  }
}

/**
 * Brings a key set, from wherever it is. Rejects with ProviderFailure.
 * @param known the keys at hand, so that a key that stays is the same object as before
 * @param signal aborts if the set is not needed any more
 */
export type KeySetFetch = (known: readonly SigningKey[], signal: AbortSignal) => Promise<KeySet>

export interface ProviderKeysOptions {
  readonly transport: Pick<Transport, 'open'>
  /** Finds the address of the set. */
  readonly locate: KeySetFinder
  /** The accepted algorithms of tokens. */
  readonly algs: readonly JwsAlg[]
  /** Node's own unless given. */
  readonly readPem?: PemReader
}

/** Brings the keys of a provider. */
export function createKeySetFetch ({ transport, locate, algs, readPem }: ProviderKeysOptions): KeySetFetch {
  return (known, signal) =>
    withSession(
      transport,
      async session => fetchKeySet(await locate(session), session, known, algs, readPem),
      signal
    )
}

/**
 * Fetches a key set.
 * @param address undefined for a set without keys
 * @param known as for `KeySetFetch`
 * @param algs the accepted algorithms of tokens: only keys for one of them are used
 * @throws ProviderFailure
 */
export async function fetchKeySet (
  address: string | undefined,
  session: ProviderSession,
  known: readonly SigningKey[],
  algs: readonly JwsAlg[],
  readPem?: PemReader
): Promise<KeySet> {
  if (address === undefined) return { keys: [], passedOver: {} }
  return readAnswer(await session.send(address), body => readKeySet(body, known, algs, readPem))
}

/**
 * Reads the usable keys from the document of a JWK Set. `known` and `algs` as for `fetchKeySet`.
 * @throws ProviderFailure
 */
export async function readKeySet (
  document: Uint8Array,
  known: readonly SigningKey[],
  algs: readonly JwsAlg[],
  readPem: PemReader = readPemByCrypto
): Promise<KeySet> {
  const { usable, passedOver } = parseKeySet(document, algs)
  const keys = usable.map(async key =>
    known.find(one => isSameKey(one, key)) ?? { ...key, pem: await readPem(key.key, key.algs[0]!) }
  )
  return { keys: await Promise.all(keys), passedOver }
}
