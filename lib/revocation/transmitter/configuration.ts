import { parseDocument, readAnswer, verifyNamedIssuer } from '../../guard/provider/provider-document.ts'
import { ProviderFailure } from '../../guard/provider/provider-failure.ts'
import { parseOwnUri, withoutTrailingSlash } from '../../guard/provider/provider-url.ts'
import type { ProviderSession } from '../../guard/provider/transport.ts'

/** Who a transmitter is, and where its configuration is, if that is not under its issuer. */
export interface TransmitterAddress {
  readonly issuer: string
  readonly metadata?: string
}

/**
 * The address of the configuration: the well-known path is put before the path of the issuer (RFC 8615, SSF 1.0 section
 * 7.2).
 */
export function configurationUrlOf ({ issuer, metadata }: TransmitterAddress): string {
  const { origin, pathname } = new URL(issuer)
  return metadata ?? `${origin}/.well-known/ssf-configuration${withoutTrailingSlash(pathname)}`
}

/**
 * The origins at which the addresses in documents of a transmitter may be: whoever can change one of its documents must
 * not get the client's secret, nor make others sign.
 */
export function originsOf ({ issuer, metadata }: TransmitterAddress): readonly string[] {
  return [...new Set([issuer, metadata ?? issuer].map(url => new URL(url).origin))]
}

/** The configuration of a transmitter (SSF 1.0 section 7.1), as far as a receiver needs it. */
export type TransmitterConfiguration = Awaited<ReturnType<typeof fetchTransmitterConfiguration>>

/**
 * Fetches the configuration. It must name the issuer of the settings: a document does not choose who it speaks for.
 * @throws ProviderFailure
 */
export async function fetchTransmitterConfiguration (address: TransmitterAddress, session: ProviderSession) {
  const origins = originsOf(address)
  return readAnswer(await session.send(configurationUrlOf(address)), body => {
    const document = parseDocument(body, 'discovery_malformed')
    const {
      issuer,
      jwks_uri: jwksUri,
      default_subjects: defaultSubjects,
      critical_subject_members: critical
    } = document
    if (typeof issuer !== 'string' || typeof jwksUri !== 'string') {
      throw new ProviderFailure('discovery_malformed', undefined, { expected: 'issuer and jwks_uri as texts' })
    }
    verifyNamedIssuer(issuer, address.issuer)
    return Object.freeze({
      issuer,
      jwksUri: parseOwnUri(jwksUri, origins),
      configurationEndpoint: endpoint('configuration_endpoint'),
      statusEndpoint: endpoint('status_endpoint'),
      verificationEndpoint: endpoint('verification_endpoint'),
      /** `NONE`: nothing is sent until subjects are added. */
      defaultSubjects: typeof defaultSubjects === 'string' ? defaultSubjects : undefined,
      criticalMembers: Array.isArray(critical) ? critical.filter(member => typeof member === 'string') : []
    })

    function endpoint (name: string) {
      const value = document[name]
      return typeof value === 'string' ? parseOwnUri(value, origins) : undefined
    }
  })
}
