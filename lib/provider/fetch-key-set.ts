import { parseDocument, parseKeySet, keyIdentity, type PassedOver } from './key-set.ts'
import { ProviderFailure } from './provider-failure.ts'
import { parseDiscoveredJwksUri, withoutTrailingSlash } from './provider-url.ts'
import { createSetReader, type SetReader } from './set-reader.ts'
import type { Answer, Exchange } from './transport.ts'

/** A key of the provider. The same object for as long as the key stays in the set unchanged, so that caches may hold on to it. */
export interface SigningKey {
  readonly kid: string | undefined
  /** SPKI in PEM. */
  readonly pem: string
}

/** The usable keys of one fetched set, by identity. */
export type SigningKeys = ReadonlyMap<string, SigningKey>

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
