import { printable } from '../printable.ts'
import { expectOk, useAnswer } from '../provider/fetch-key-set.ts'
import type { KeySourceEvent } from '../provider/key-source.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import type { PostingTransport, ProviderSession, Transport } from '../provider/transport.ts'
import type { Surroundings } from '../surroundings.ts'

/** What the settings say of a transmitter (docs/revocation.md), with its secrets read, and how it is reached. */
export interface TransmitterParameters {
  readonly issuer?: string | undefined
  readonly metadata?: string | undefined
  readonly audience?: string | undefined
  readonly delivery: 'push' | 'poll'
  readonly endpoint?: string | undefined
  readonly tokenIssuers?: readonly string[] | undefined
  readonly sessionClaim: string | false
  readonly subjectClaims: Readonly<Record<string, string>>
  readonly clientId?: string | undefined
  readonly clientSecret: string | undefined
  readonly tokenEndpoint?: string | undefined
  readonly manage: boolean
  readonly pushAuthorization: string | undefined
  readonly untyped: boolean
  /** The address that it pushes to. */
  readonly pushUrl: string | undefined
  readonly transport: Transport
  /** For calls that do more than fetch keys. */
  readonly calls: PostingTransport
  readonly surroundings: Surroundings
  readonly onKeyEvent: (event: KeySourceEvent) => void
  /** Called once for each change. */
  readonly onStatus: (status: string) => void
}

type TransmitterAddress = Pick<TransmitterParameters, 'issuer' | 'metadata'>

/** The address of the configuration: the well-known path is put before the path of the issuer (RFC 8615, SSF 1.0 section 7.2). */
export function configurationUrlOf ({ issuer, metadata }: TransmitterAddress): string {
  if (metadata !== undefined) return metadata
  const { origin, pathname } = new URL(issuer!)
  return `${origin}/.well-known/ssf-configuration${withoutTrailingSlash(pathname)}`
}

/** The configuration of a transmitter (SSF 1.0 section 7.1), as far as a receiver needs it. */
export type TransmitterConfiguration = Awaited<ReturnType<typeof fetchTransmitterConfiguration>>

/**
 * Fetches the configuration. Its keys must be at its own host: whoever can change one document must not make others sign.
 * @throws ProviderFailure
 */
export async function fetchTransmitterConfiguration (address: TransmitterAddress, exchange: Pick<ProviderSession, 'get'>) {
  const url = configurationUrlOf(address)
  const answer = await exchange.get(url)
  return useAnswer(answer, () => {
    expectOk(answer)
    const document = parseDocument(answer.body, 'discovery_malformed')
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
      /** `NONE`: nothing is sent until subjects are added. */
      defaultSubjects: typeof defaultSubjects === 'string' ? defaultSubjects : undefined,
      /** Undefined if it does not say. */
      deliveryMethods: Array.isArray(methods) ? textsIn(methods) : undefined,
      criticalMembers: Array.isArray(critical) ? textsIn(critical) : []
    })

    function endpoint (name: string): string | undefined {
      const value = document[name]
      return typeof value === 'string' ? parseDiscoveredUri(value, url, 'discovery_malformed') : undefined
    }
  })
}

function textsIn (values: readonly unknown[]): readonly string[] {
  return values.filter(value => typeof value === 'string')
}
