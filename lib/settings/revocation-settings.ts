import type { LOGOUT, OPERATORS, TRANSMITTER } from './section-specs.ts'
import type { RedisPlace } from '../guard/redis/redis-url.ts'
import type { ValueOf } from './setting-spec.ts'
import type { SettingValues } from './specs.ts'
import type { JwsAlg } from '../guard/jose/signature.ts'

type RevocationSection = NonNullable<SettingValues['revocation']>

export type TransmitterSettings = ValueOf<typeof TRANSMITTER>
export type LogoutSettings = Omit<ValueOf<typeof LOGOUT>, 'algs'> & {
  readonly issuer: string,
  readonly algs: readonly JwsAlg[]
}

/** What the section `revocation` of the configuration says, with all defaults. */
export interface RevocationSettings extends Pick<RevocationSection, 'retentionSeconds' | 'staleSeconds' | 'outage'> {
  readonly transmitters: readonly TransmitterSettings[]
  readonly logout: readonly LogoutSettings[]
  /** Undefined if there are none. */
  readonly operators: ValueOf<typeof OPERATORS> | undefined
  /** `memory`, or a Redis. */
  readonly store: RedisPlace
}

/** Completes a section that its schema lets pass. Undefined if there is none. */
export function resolveRevocation (
  { idp: { algs }, dpop: { replay }, revocation }: SettingValues,
  issuers: ReadonlyArray<{ readonly issuer: string, readonly algs: readonly JwsAlg[] }>
): RevocationSettings | undefined {
  if (!revocation) return undefined
  const { transmitters = [], logout = [], operators, store, ...rest } = revocation
  return {
    ...rest,
    transmitters,
    logout: logout.map(client => {
      const issuer = client.issuer ?? issuers[0]!.issuer
      return { ...client, issuer, algs: client.algs ?? issuers.find(known => known.issuer === issuer)?.algs ?? algs }
    }),
    operators,
    store: store ?? (replay === 'off' ? 'memory' : replay)
  }
}
