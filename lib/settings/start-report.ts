import { parseReplayUrl } from '../replay/redis/replay-url.ts'
import { hasScheme } from './formats.ts'
import type { Settings } from './settings.ts'

/** What holds, for one line of the log at start. What is not there does not hold. */
export interface StartReport {
  /** Empty if the domain carries a scheme: then every token is refused. */
  readonly issuers: readonly string[]
  readonly audience: string
  readonly dpopMode: Settings['dpopMode']
  readonly tokenAlgs: readonly string[]
  readonly proofAlgs?: Settings['DPOP_ALGS']
  readonly replay?: { readonly kind: 'memory' | 'off' } | { readonly kind: 'redis', readonly hosts: readonly string[] }
  readonly publicUrl?: string
  /** True for every peer. */
  readonly trustedProxies?: true | readonly string[]
}

/** Tells in few words by which settings tokens and proofs are judged. No secret is among them: of a replay store, its hosts. */
export function reportStart (settings: Settings): StartReport {
  const { issuer, dpopMode, trustProxy, PUBLIC_URL } = settings
  return {
    issuers: issuer === undefined ? [] : [issuer],
    audience: settings.IDP_AUDIENCE!,
    dpopMode,
    tokenAlgs: ['RS256'],
    ...dpopMode !== 'DISABLED' && { proofAlgs: settings.DPOP_ALGS, replay: replayOf(settings.DPOP_REPLAY) },
    ...PUBLIC_URL !== undefined && { publicUrl: PUBLIC_URL },
    ...trustProxy !== false && { trustedProxies: trustProxy }
  }
}

function replayOf (text: string): NonNullable<StartReport['replay']> {
  if (text === 'memory' || text === 'off') return { kind: text }
  const hosts = parseReplayUrl(text).hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
  return { kind: 'redis', hosts }
}

/** What an operator should know of the settings although they can be used: a sentence for each. They hold no value. */
export function startWarnings (settings: Settings): string[] {
  const { IDP_DOMAIN, dpopMode, trustProxy, PUBLIC_URL, unknownVariables } = settings
  const warnings: string[] = []
  if (IDP_DOMAIN !== undefined && hasScheme(IDP_DOMAIN)) {
    warnings.push('IDP_DOMAIN starts with a scheme, so there is no issuer and every token will be refused. Write only the host, without https://')
  }
  if (unknownVariables.length > 0) {
    warnings.push(`These variables look like settings but are not, and have no effect: ${unknownVariables.join(', ')}`)
  }
  if (dpopMode !== 'DISABLED' && trustProxy === false && PUBLIC_URL === undefined) {
    warnings.push('Neither PUBLIC_URL nor TRUST_PROXY is set, so Host is believed: a DPoP proof that was made for another name is accepted if the request has that name as its Host. ' +
      'An attacker who gets a client to call http://evil.example can use its token and its unused proofs here. Set PUBLIC_URL to the address that clients use')
  }
  return warnings
}
