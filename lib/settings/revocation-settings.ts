import type { LOGOUT, OPERATORS, TRANSMITTER } from './section-specs.ts'
import type { RedisPlace } from '../guard/redis/redis-url.ts'
import type { ValueOf } from './setting-spec.ts'
import { withoutTrailingSlash } from '../guard/provider/provider-url.ts'
import type { SettingValues } from './specs.ts'
import type { JwsAlg } from '../guard/jose/signature.ts'

type RevocationSection = NonNullable<SettingValues['revocation']>

export type TransmitterSettings = ValueOf<typeof TRANSMITTER>
export type LogoutSettings = Omit<ValueOf<typeof LOGOUT>, 'algs'> & {
  /** As the settings of the issuer spell it, if it is in the list of issuers. */
  readonly issuer: string,
  readonly algs: readonly JwsAlg[]
}

/** What the section `revocation` of the configuration says, with all defaults. */
export interface RevocationSettings extends Pick<RevocationSection, 'retentionSeconds' | 'staleSeconds' | 'outage'> {
  readonly transmitters: readonly TransmitterSettings[]
  readonly logout: readonly LogoutSettings[]
  /** Absent if there are none. */
  readonly operators: ValueOf<typeof OPERATORS> | undefined
  /** `memory`, or a Redis. */
  readonly store: RedisPlace
}

/** Completes a section that its schema lets pass. Returns undefined if there is none. */
export function resolveRevocation (
  { idp: { algs: ofAll }, dpop: { replay }, revocation }: SettingValues,
  issuers: ReadonlyArray<Pick<LogoutSettings, 'issuer' | 'algs'>>
): RevocationSettings | undefined {
  if (!revocation) return undefined
  const { transmitters = [], logout = [], operators, store, ...rest } = revocation
  return {
    ...rest,
    transmitters,
    logout: logout.flatMap(client => {
      const { issuer = client.issuer, algs = ofAll } = issuerOf(client, issuers) ?? {}
      return issuer === undefined ? [] : [{ ...client, issuer, algs: client.algs ?? algs }]
    }),
    operators,
    store: store ?? (replay === 'off' ? 'memory' : replay)
  }
}

/**
 * The settings of the issuer of a client. It may be left out if there is one. It is undefined if it is not in the list.
 */
export function issuerOf<Issuer extends Pick<LogoutSettings, 'issuer'>> (
  { issuer }: { issuer?: string },
  issuers: readonly Issuer[]
): Issuer | undefined {
  if (issuer === undefined) return issuers[0]
  return issuers.find(known => withoutTrailingSlash(known.issuer) === withoutTrailingSlash(issuer))
}
