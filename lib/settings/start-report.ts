import { endOfDay } from '../guard/observing.ts'
import { hostsOf, parseRedisUrl, type RedisPlace } from '../guard/redis/redis-url.ts'
import { issuerSpellings } from '../guard/provider/provider-url.ts'
import { hasScheme } from './formats.ts'
import type { Settings } from './settings.ts'

/**
 * The settings in force that decide about tokens and proofs, for one log line at the start. A member that is absent is
 * not in force. It holds no secret: of a replay store it names only the hosts.
 * @param areIssuersAsked whether a function of the application takes the place of the list of issuers
 */
export function reportStart ({ idp, dpop, server }: Settings, areIssuersAsked = false) {
  const { issuers, dpopMode } = idp
  const { trustProxy, publicUrl, clientCertificate, securityProfile } = server
  const audiences = [...new Set(issuers.length === 0 ? idp.audience : issuers.flatMap(({ audiences }) => audiences))]
  return {
    // Empty if the domain has a scheme: then every token is refused.
    issuers: areIssuersAsked ? 'function' : issuers.map(({ issuer }) => issuer),
    // A list if there are several, or undefined if only the function names it.
    audience: audiences.length > 1 ? audiences : audiences[0],
    dpopMode,
    tokenAlgs: [...new Set(issuers.length === 0 ? idp.algs : issuers.flatMap(({ algs }) => algs))],
    ...dpopMode !== 'DISABLED' && { proofAlgs: dpop.algs, replay: replayOf(dpop.replay) },
    ...publicUrl !== undefined && { publicUrl },
    ...trustProxy !== false && { trustedProxies: trustProxy },
    ...clientCertificate !== 'off' && { clientCertificate },
    ...securityProfile !== 'none' && { securityProfile }
  }
}

function replayOf (place: RedisPlace): { readonly kind: string, readonly hosts?: readonly string[] } {
  return place === 'memory' || place === 'off'
    ? { kind: place }
    : { kind: 'redis', hosts: hostsOf(parseRedisUrl(place)) }
}

/** With its address: the npm package has no docs. */
const INSTANCES_PAGE = 'https://github.com/holdfast/holdfast/blob/main/docs/guide/instances.md'

/** Where a proof is accepted at most once, in one sentence, or undefined if there are no proofs. */
export function replayPromise ({ idp, dpop: { replay, nonce } }: Settings): string | undefined {
  if (idp.dpopMode === 'DISABLED') return undefined
  if (replay === 'off') return 'A proof may be used again: DPOP_REPLAY is off'
  if (replay !== 'memory') return 'A proof is accepted at most once by all instances that share the replay store'
  if (nonce === 'required') {
    return 'A proof is accepted at most once by all instances together, because a nonce is good only at the process ' +
      `that made it. The balancer must keep clients at their instance (${INSTANCES_PAGE})`
  }
  return 'A proof is accepted at most once by one instance: each further instance would accept it once more. For ' +
    'several, set DPOP_NONCE (dpop.nonce) to required everywhere, or DPOP_REPLAY (dpop.replay) to a Redis that all ' +
    `of them share (${INSTANCES_PAGE})`
}

export const HOST_BELIEVED =
  'Neither PUBLIC_URL (server.publicUrl) nor TRUST_PROXY (server.trustProxy) is set, so Host is believed: a DPoP ' +
  'proof that was made for another name is accepted if the request has that name as its Host. ' +
  'An attacker who gets a client to call http://evil.example can use its token and its unused proofs here. Set ' +
  'PUBLIC_URL (server.publicUrl) to the address that clients use'

/** That nothing is guarded, and until when. */
export function observingWarning ({ server: { observe }, gate }: Pick<Settings, 'server' | 'gate'>): string {
  return `Nothing is guarded until the end of ${observe} (UTC): OBSERVE (server.observe) lets pass what would be ` +
    'refused' +
    (gate?.upstream !== undefined && !gate.passCredentials
      ? '. Until then Authorization and DPoP reach the upstream, and afterwards not: gate.passCredentials is false'
      : '')
}

function isIssuerOf (domain: string, issuer: string): boolean {
  return issuerSpellings(new URL(`https://${domain}/`).href).includes(issuer)
}

/**
 * Returns one warning for each setting that can be used but that an operator should reconsider. Of values they hold
 * only hosts and issuers.
 */
export function startWarnings (settings: Settings, now: () => number): string[] {
  const { idp, server, unknownVariables, isNonceSecretUnused } = settings
  const warnings: string[] = []
  if (idp.domain !== undefined && hasScheme(idp.domain)) {
    warnings.push(
      'IDP_DOMAIN starts with a scheme, so there is no issuer and every token will be refused. Write only the ' +
        'host, without https://'
    )
  } else if (idp.domain !== undefined && idp.issuer !== undefined && !isIssuerOf(idp.domain, idp.issuer)) {
    warnings.push(
      'IDP_DOMAIN (idp.domain) is not used, because IDP_ISSUER (idp.issuer) is set too, from whichever source. ' +
        'Remove the one that is wrong'
    )
  }
  if (unknownVariables.length > 0) {
    warnings.push(`These variables look like settings but are not, and have no effect: ${unknownVariables.join(', ')}`)
  }
  if (idp.dpopMode !== 'DISABLED' && server.trustProxy === false && server.publicUrl === undefined) {
    warnings.push(HOST_BELIEVED)
  }
  for (const { issuer, audienceClaim } of idp.issuers.filter(({ audienceClaim }) => audienceClaim !== 'aud')) {
    warnings.push(
      `Tokens of ${issuer} are accepted by ${audienceClaim} instead of aud: they are for a client, not for this ` +
        'API, and each API that accepts that client takes them. Have the provider write aud, if it can'
    )
  }
  if (server.corsHeaders && !server.corsOrigins) {
    warnings.push('CORS_HEADERS (server.corsHeaders) has no effect: CORS is off, because CORS_ORIGINS is not set')
  }
  if (isNonceSecretUnused) {
    warnings.push(
      'DPOP_NONCE_SECRET (dpop.nonceSecret) is set beside DPOP_REPLAY=memory and is not used: every instance ' +
        'that has it would accept the same proof once more. ' +
        'Remove it, or set DPOP_REPLAY to a Redis that all instances share'
    )
  }
  const endsAt = endOfDay(server.observe)
  if (now() < endsAt) warnings.push(observingWarning(settings))
  if (now() >= endsAt) {
    warnings.push(`OBSERVE (server.observe) is ${server.observe}, which is past: everything is enforced. Remove it`)
  }
  return warnings
}

/** The same for a gate. */
export function gateWarnings ({ gate, server: { trustProxy } }: Pick<Settings, 'gate' | 'server'>): string[] {
  const warnings: string[] = []
  if (gate?.rules.length === 0) warnings.push('The gate has no rules, so nothing passes it')
  if (gate && gate.upstream === undefined && trustProxy === false) {
    warnings.push(
      'The gate is asked by proxies, but TRUST_PROXY trusts no peer, so each authorization request gets 403. Set ' +
        'TRUST_PROXY to the addresses of the proxies'
    )
  }
  return warnings
}
