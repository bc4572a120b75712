import { readDiscovery } from '../provider/fetch-key-set.ts'
import type { ProviderAddress } from '../provider/fetch-key-set.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri } from '../provider/provider-url.ts'
import type { ProviderSession } from '../provider/transport.ts'

/** A discovered address is looked up again after this time, as the location of the keys is. */
const KNOWN_MS = 10 * 60_000

/**
 * Finds the introspection endpoint: the configured one, or the one that the discovery document of the issuer names (RFC 8414 section
 * 2). Rejects with ProviderFailure.
 * @param nowMs milliseconds of a clock that is never set back
 */
export function createEndpointFinder (address: Pick<ProviderAddress, 'issuer' | 'base'>, configured: string | undefined, nowMs: () => number): (exchange: Pick<ProviderSession, 'get'>) => Promise<string> {
  if (configured !== undefined) return async () => configured
  let known: string | undefined
  let untilMs = 0
  return async exchange => {
    if (known !== undefined && nowMs() < untilMs) return known
    const endpoint = await readDiscovery(address, exchange, ({ introspection_endpoint: named }) => {
      if (typeof named !== 'string') throw new ProviderFailure('introspection_endpoint')
      return parseDiscoveredUri(named, address.base, 'introspection_endpoint')
    })
    if (endpoint === undefined) throw new ProviderFailure('introspection_endpoint')
    known = endpoint
    untilMs = nowMs() + KNOWN_MS
    return endpoint
  }
}
