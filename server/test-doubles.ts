import type { CertificateReader } from '../lib/certificate/client-certificate.ts'
import type { PostingTransport } from '../lib/provider/transport.ts'
import type { Revocations } from '../lib/revocation/revocations.ts'
import type { Surroundings } from '../lib/surroundings.ts'

/**
 * What replaces the process and the network in a test: a clock of its own, and an identity provider in memory. Only `createTestIssuer` of
 * `holdfast/testing` makes them.
 */
export interface TestDoubles {
  readonly surroundings: Surroundings
  readonly transport: PostingTransport
  /** Finds the certificate of a request if the app does not say where: a test has no connection with TLS. */
  readonly readCertificate: CertificateReader
  /** The revocations of the open apps. Each app adds its own. */
  readonly revocations: Set<Pick<Revocations, 'append'>>
}

/**
 * The key under which options carry test doubles. It is a symbol that the package does not export, so neither a configuration file nor an
 * environment can set it, and a copy of the options keeps it.
 */
export const kTestDoubles = Symbol('holdfast.testDoubles')

/** Options or an app, which may carry test doubles. */
export interface MayHaveTestDoubles {
  readonly [kTestDoubles]?: TestDoubles
}
