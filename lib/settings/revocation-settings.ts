import { quoteSetting } from '../printable.ts'
import { withoutTrailingSlash } from '../provider/provider-url.ts'
import type { LOGOUT, OPERATORS, TRANSMITTER } from './section-specs.ts'
import type { ValueOf } from './setting-spec.ts'
import type { SettingValues } from './specs.ts'
import type { JwsAlg } from '../jose/signature.ts'

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
  /** `memory`, or the URL of a Redis. */
  readonly store: string
}

/**
 * Completes a section that its schema lets pass, and reports what the schema cannot say, with the path of the part,
 * such as `revocation.logout[0]`.
 * @param issuers undefined if they are not usable
 */
export function resolveRevocation (
  { transmitters = [], logout = [], operators, store, ...rest }: RevocationSection,
  { idp: { algs }, dpop: { replay }, server: { publicUrl } }: SettingValues,
  issuers: ReadonlyArray<{ readonly issuer: string, readonly algs: readonly JwsAlg[] }> | undefined,
  tell: (path: string, problem: string) => void
): RevocationSettings {
  const clients = logout.map((client, index) => {
    if (client.issuer === undefined && issuers !== undefined && issuers.length !== 1) {
      tell(`revocation.logout[${index}]`, ' names no issuer, and there is not exactly one; set its issuer')
    }
    const issuer = client.issuer ?? issuers?.[0]?.issuer
    return { ...client, issuer, algs: client.algs ?? issuers?.find(known => known.issuer === issuer)?.algs ?? algs }
  })
  transmitters.forEach((sender, index) =>
    tellLacks(sender, publicUrl, problem => tell(`revocation.transmitters[${index}]`, problem))
  )
  const names = transmitters.map(({ issuer }) => withoutTrailingSlash(issuer))
  names.forEach((name, index) => {
    const first = names.indexOf(name)
    if (first !== index) {
      tell(
        `revocation.transmitters[${index}]`,
        ` is ${quoteSetting(name)}, as revocation.transmitters[${first}] is; allowed: each transmitter once`
      )
    }
  })
  return {
    ...rest,
    transmitters,
    logout: clients as LogoutSettings[],
    operators,
    store: store ?? (replay === 'off' ? 'memory' : replay)
  }
}

function tellLacks (
  { audience, manage, delivery, clientId, clientSecret, clientAuth, keyFile }: TransmitterSettings,
  publicUrl: string | undefined,
  tell: (problem: string) => void
): void {
  if (audience === undefined && !manage) {
    tell(' has no audience; allowed: the aud of its events, which may be left out only with manage')
  }
  if (manage && clientId === undefined) tell(' has manage, which needs clientId')
  if (clientId !== undefined && clientAuth === 'private_key_jwt' && keyFile === undefined) {
    tell(' has clientAuth private_key_jwt, which needs keyFile')
  }
  if (clientId !== undefined && clientAuth !== 'private_key_jwt' && clientSecret === undefined) {
    tell(' has clientId, which needs clientSecret, or clientAuth private_key_jwt and keyFile')
  }
  if (manage && delivery === 'push' && publicUrl === undefined) {
    tell(' has manage and push, which need PUBLIC_URL (server.publicUrl): it makes the address for pushes')
  }
}
