import { createFetchLoop } from '../provider/fetch-loop.ts'
import type { AddressFinder, Discovery } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri } from '../provider/provider-url.ts'
import { withSession } from '../provider/transport.ts'
import type { Transport } from '../provider/transport.ts'
import type { Surroundings } from '../surroundings.ts'

/** A discovered address is looked up again after this time, as the location of the keys is. */
const KNOWN_MS = 10 * 60_000
/**
 * For how long a failed look-up stands: any client can ask about a made-up token, and no flood of them may reach the
 * provider.
 */
const FAILED_MS = 1000

export interface EndpointOptions {
  readonly issuer: string
  readonly discovery: Discovery
  readonly configured: string | undefined
  /** For the look-ups in the background. */
  readonly transport: Pick<Transport, 'open'>
  readonly surroundings: Pick<Surroundings, 'now' | 'steadyMs' | 'after' | 'random'>
}

export type IntrospectionEndpoint = ReturnType<typeof createEndpoint>

/**
 * The introspection endpoint of an issuer: the configured one, or the one that its discovery document names (RFC 8414
 * section 2). Such a document is whole without `jwks_uri`: an issuer of opaque tokens needs no keys.
 */
export function createEndpoint ({ issuer, discovery, configured, transport, surroundings }: EndpointOptions) {
  const { steadyMs } = surroundings
  let known = configured
  let untilMs = configured === undefined ? -Infinity : Infinity

  let failure: unknown
  let failedUntilMs = -Infinity
  /** All who need the address meanwhile wait for the same look-up. */
  let running: Promise<string> | undefined

  const lookUp: AddressFinder = async session => {
    try {
      const found = await discovery.read(session, ({ introspection_endpoint: named }) => {
        if (typeof named !== 'string') throw new ProviderFailure('introspection_endpoint')
        return parseDiscoveredUri(named, issuer, 'introspection_endpoint')
      })
      if (found === undefined) throw new ProviderFailure('introspection_endpoint')
      known = found
      untilMs = steadyMs() + KNOWN_MS
      return found
    } catch (error) {
      failure = error
      failedUntilMs = steadyMs() + FAILED_MS
      throw error
    }
  }

  const find: AddressFinder = async session => {
    if (known !== undefined && steadyMs() < untilMs) return known
    if (!running && steadyMs() < failedUntilMs) throw failure
    running ??= lookUp(session).finally(() => {
      running = undefined
    })
    return running
  }

  // A request that needs the address says why it cannot be had.
  const loop = createFetchLoop({ attempt: signal => withSession(transport, find, signal), ...surroundings })

  return {
    find,
    /** Whether an address has been found since the start. */
    isKnown: () => known !== undefined,
    /** Looks the address up in the background, unless it is configured: readiness needs it where there are no keys. */
    start (): void {
      if (configured === undefined) loop.run()
    },
    close: loop.close
  }
}
