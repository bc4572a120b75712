import type { CertificateReader } from './certificate/client-certificate.ts'
import type { PostingTransport } from './provider/transport.ts'
import type { Revocations } from './revocation/revocations.ts'
import type { Surroundings } from './surroundings.ts'

/**
 * What a test puts in the place of the process and of the network: its own clock, and an identity provider in memory. Only
 * `createTestIssuer` of `holdfast/testing` makes them.
 */
export interface StandIns {
  readonly surroundings: Surroundings
  readonly transport: PostingTransport
  /** Finds the certificate of a request if the app does not say where: a test has no connection with TLS. */
  readonly readCertificate: CertificateReader
  /** Of the apps that are open and know revocations. Each app adds its own. */
  readonly revocations: Set<Pick<Revocations, 'append'>>
}

/**
 * The key under which options carry stand-ins. It is a symbol that the package does not export, so neither a configuration file nor an
 * environment can set it, and a copy of the options keeps it.
 */
export const kStandIns = Symbol('holdfast.standIns')

/** Something that may carry stand-ins: options, or an app. */
export interface MayHaveStandIns {
  readonly [kStandIns]?: StandIns
}
