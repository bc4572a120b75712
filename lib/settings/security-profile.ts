import type { JwsAlg } from '../jose/signature.ts'
import { isEntry } from './setting-spec.ts'
import { memberKey } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'

/** The algorithms of the FAPI 2.0 Security Profile (section 5.4.1). `Ed25519` is the newer name of what `EdDSA` means there. */
export const FAPI_ALGS: readonly JwsAlg[] = ['PS256', 'ES256', 'EdDSA', 'Ed25519']

/** Fills in what the security profile makes the default. */
export function withProfileDefaults (values: RawSettings): RawSettings {
  const { idp, dpop, server } = values
  return server.securityProfile === 'fapi2' ? { ...values, idp: { ...idp, algs: idp.algs ?? FAPI_ALGS }, dpop: { ...dpop, algs: dpop.algs ?? FAPI_ALGS } } : values
}

/** A setting that says what the security profile rules out. */
export interface ProfileBreach {
  readonly name: SettingName
  /** The position in `idp.issuers`. Undefined for a single setting. */
  readonly index: number | undefined
  /** What is allowed in its place. */
  readonly allowed: string
}

/** Returns every setting that contradicts the security profile. */
export function profileBreaches ({ idp, dpop, server: { securityProfile, clientCertificate = 'off' } }: RawSettings): ProfileBreach[] {
  if (securityProfile !== 'fapi2') return []
  const isKeyNeeded = clientCertificate === 'off'
  const entries = Array.isArray(idp.issuers) ? idp.issuers.map((entry, index) => ({ ...isEntry(entry) && entry as Partial<typeof idp>, index })) : []
  const algs = `list of ${FAPI_ALGS.join(', ')}`
  return [{ ...idp, index: undefined }, ...entries].flatMap(held => [
    { name: 'idp.algs' as const, isBreach: hasOther(held.algs), allowed: algs },
    { name: 'dpop.algs' as const, isBreach: held.index === undefined && hasOther(dpop.algs), allowed: algs },
    { name: 'idp.dpopMode' as const, isBreach: isKeyNeeded && held.dpopMode === 'DISABLED', allowed: 'ALLOWED or REQUIRED, unless CLIENT_CERTIFICATE is set' },
    { name: 'idp.dpopEnabled' as const, isBreach: isKeyNeeded && held.dpopEnabled === false, allowed: 'true, unless CLIENT_CERTIFICATE is set' }
  ].filter(({ isBreach }) => isBreach).map(({ name, allowed }) => ({ name, allowed, index: held.index })))
}

function hasOther (algs: unknown): boolean {
  return Array.isArray(algs) && algs.some(alg => !FAPI_ALGS.includes(alg))
}

/** How the file names a setting of an issuer in the list. */
export function entryPath (name: SettingName, index: number): string {
  return `idp.issuers[${index}].${memberKey(name)}`
}
