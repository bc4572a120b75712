import { createFetchLoop } from '../provider/fetch-loop.ts'
import type { Discovery } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri } from '../provider/provider-url.ts'
import { withSession, type ProviderSession, type Transport } from '../provider/transport.ts'
import type { Surroundings } from '../../base/surroundings.ts'

/**
 * For how long a failed look-up stands: any client can ask about a made-up token, and no flood of them may reach the
 * provider.
 */
const FAILED_MS = 1000

interface EndpointOptions {
  readonly issuer: string
  readonly discovery: Discovery
  readonly configured: string | undefined
  readonly transport: Pick<Transport, 'open'>
  readonly surroundings: Pick<Surroundings, 'steadyMs' | 'after' | 'random'>
}

export type IntrospectionEndpoint = ReturnType<typeof createEndpoint>

/**
 * The introspection endpoint of an issuer: the configured one, or the one that its discovery document names (RFC 8414
 * section 2). From the first need of it on, that document is read again and again, as the keys are. Such a document is
 * whole without `jwks_uri`: an issuer of opaque tokens needs no keys.
 */
export function createEndpoint ({ issuer, discovery, configured, transport, surroundings }: EndpointOptions) {
  const { steadyMs } = surroundings
  let known = configured
  // The failure of a look-up that is cut.
  let failure = new ProviderFailure('deadline')
  let failedUntilMs = -Infinity

  const loop = createFetchLoop({
    attempt: signal => withSession(transport, lookUp, signal),
    onSuccess (found) {
      known = found
    },
    onFailure (error) {
      failure = error
      failedUntilMs = steadyMs() + FAILED_MS
    },
    ...surroundings
  })

  async function lookUp (session: ProviderSession) {
    const found = await discovery.read(session, ({ introspection_endpoint: named }) => {
      if (typeof named !== 'string') throw new ProviderFailure('introspection_endpoint')
      return parseDiscoveredUri(named, issuer, 'introspection_endpoint')
    })
    if (found === undefined) throw new ProviderFailure('introspection_endpoint')
    return found
  }

  return {
    /** All who need it meanwhile wait for the same look-up. Rejects with ProviderFailure. */
    async find (): Promise<string> {
      if (known !== undefined) return known
      if (steadyMs() >= failedUntilMs) loop.run()
      await loop.running
      if (known === undefined) throw failure
      return known
    },
    /** Whether an address has been found since the start. */
    isKnown: () => known !== undefined,
    /** Looks the address up in the background, unless it is configured: readiness needs it where there are no keys. */
    start () {
      // A request may have looked it up.
      if (known === undefined) loop.run()
    },
    close: loop.close
  }
}
