import { createCertificateReader } from '../../lib/guard/certificate/client-certificate.ts'
import { processSurroundings, type TestDoubles } from '../../server/surroundings.ts'
import type { TestClock, TestIssuerEntry } from './testing-issuer.ts'
import { createProviders, type ProvidersInMemory } from './testing-provider.ts'

/** What the issuers of one app share. */
interface Joint {
  readonly clock: TestClock
  readonly providers: ProvidersInMemory
  readonly doubles: TestDoubles
  readonly entries: readonly TestIssuerEntry[]
  readonly audience: string | readonly string[]
  readonly publicUrl: string | undefined
}

/** Where an issuer carries it. Registered, because the app may have the issuer from another copy of this package. */
const kJoint = Symbol.for('holdfast.joint')

export const jointOf = (issuer: object): Joint => (issuer as { readonly [kJoint]: Joint })[kJoint]

/** The same issuer, carrying what it shares. */
export const withJoint = <Issuer extends object>(issuer: Issuer, joint: Joint): Issuer =>
  Object.defineProperty(issuer, kJoint, { value: joint })

/** What the first issuer of an app begins with: a clock of its own, and no network. */
export function startJoint (): Joint {
  let aheadMs = 0
  const now = (): number => (Date.now() + aheadMs) / 1000
  const clock: TestClock = {
    advance (seconds) {
      aheadMs += seconds * 1000
    },
    now: () => Math.floor(now())
  }
  const providers = createProviders(clock.now)
  const doubles: TestDoubles = {
    surroundings: { ...processSurroundings, now, steadyMs: () => performance.now() + aheadMs },
    transport: providers.transport,
    readCertificate: createCertificateReader({ source: 'client-cert', isTrustedPeer: () => true }),
    revocations: new Set()
  }
  return { clock, providers, doubles, entries: [], audience: 'https://api.test', publicUrl: undefined }
}
