import { parseDocument, readAnswer } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import { printable } from '../printable.ts'
import type { ProviderSession } from '../provider/transport.ts'

/** The configuration of a transmitter (SSF 1.0 section 7.1), as far as a receiver needs it. */
export interface TransmitterConfiguration {
  readonly issuer: string
  readonly jwksUri: string
  readonly configurationEndpoint: string | undefined
  readonly statusEndpoint: string | undefined
  readonly verificationEndpoint: string | undefined
  /** Undefined if it does not say. */
  readonly deliveryMethods: readonly string[] | undefined
  /** `NONE`: nothing is sent until subjects are added. */
  readonly defaultSubjects: string | undefined
  readonly criticalMembers: readonly string[]
}

export interface TransmitterAddress {
  /** As the settings name it. */
  readonly issuer?: string | undefined
  /** The address of the document, if it is not the one that follows from the issuer. */
  readonly metadata?: string | undefined
}

/** The address of the configuration: the well-known path stands before the path of the issuer (RFC 8615, SSF 1.0 section 7.2). */
export function configurationUrlOf ({ issuer, metadata }: TransmitterAddress): string {
  if (metadata !== undefined) return metadata
  const { origin, pathname } = new URL(issuer!)
  return `${origin}/.well-known/ssf-configuration${withoutTrailingSlash(pathname)}`
}

/**
 * Fetches the configuration. Its keys must be at its own host: whoever can change one document must not make others sign.
 * @throws ProviderFailure
 */
export async function fetchTransmitterConfiguration (address: TransmitterAddress, exchange: Pick<ProviderSession, 'get'>): Promise<TransmitterConfiguration> {
  const url = configurationUrlOf(address)
  return readAnswer(await exchange.get(url), body => {
    const document = parseDocument(body, 'discovery_malformed')
    const { issuer, jwks_uri: jwksUri, default_subjects: defaultSubjects, critical_subject_members: critical, delivery_methods_supported: methods } = document
    if (typeof issuer !== 'string' || typeof jwksUri !== 'string') throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
    if (address.issuer !== undefined && withoutTrailingSlash(issuer) !== withoutTrailingSlash(address.issuer)) {
      throw new ProviderFailure('discovery_issuer', undefined, { expected: address.issuer, found: printable(issuer) })
    }
    const keysUrl = parseDiscoveredUri(jwksUri, url, 'jwks_uri_refused')
    if (new URL(keysUrl).host !== new URL(url).host) throw new ProviderFailure('jwks_uri_refused', undefined, { expected: `an address at ${new URL(url).host}`, found: printable(jwksUri) })
    return Object.freeze({
      issuer,
      jwksUri: keysUrl,
      configurationEndpoint: endpoint('configuration_endpoint'),
      statusEndpoint: endpoint('status_endpoint'),
      verificationEndpoint: endpoint('verification_endpoint'),
      defaultSubjects: typeof defaultSubjects === 'string' ? defaultSubjects : undefined,
      deliveryMethods: Array.isArray(methods) ? textsIn(methods) : undefined,
      criticalMembers: Array.isArray(critical) ? textsIn(critical) : []
    })

    function endpoint (name: string): string | undefined {
      const value = document[name]
      return typeof value === 'string' ? parseDiscoveredUri(value, url, 'discovery_malformed') : undefined
    }
  })
}

function textsIn (values: readonly unknown[]): string[] {
  return values.filter(value => typeof value === 'string')
}
