import type { JwsAlg } from '../jose/signature.ts'
import { isEntry } from './setting-spec.ts'
import { memberKey, settingSpec } from './specs.ts'
import type { RawSettings, SettingName } from './specs.ts'

/** The algorithms of the FAPI 2.0 Security Profile (section 5.4.1). `Ed25519` is the newer name of what `EdDSA` means there. */
export const FAPI_ALGS: readonly JwsAlg[] = ['PS256', 'ES256', 'EdDSA', 'Ed25519']

/** Fills in what the security profile makes the default. */
export function withProfileDefaults (values: RawSettings): RawSettings {
  return values.SECURITY_PROFILE === 'fapi2' ? { ...values, IDP_ALGS: values.IDP_ALGS ?? FAPI_ALGS, DPOP_ALGS: values.DPOP_ALGS ?? FAPI_ALGS } : values
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
export function profileBreaches (values: RawSettings): ProfileBreach[] {
  if (values.SECURITY_PROFILE !== 'fapi2') return []
  const isKeyNeeded = (values.CLIENT_CERTIFICATE ?? 'off') === 'off'
  const { IDP_ISSUERS: list } = values
  const entries = Array.isArray(list) ? list.map((entry, index) => ({ held: isEntry(entry) ? entry as RawSettings : {}, index })) : []
  return [{ held: values, index: undefined }, ...entries].flatMap(({ held, index }) => [
    ...(['IDP_ALGS', 'DPOP_ALGS'] as const).filter(name => hasOther(held[name])).map(name => ({ name, index, allowed: `list of ${FAPI_ALGS.join(', ')}` })),
    ...(isKeyNeeded && held.IDP_DPOP_MODE === 'DISABLED' ? [{ name: 'IDP_DPOP_MODE' as const, index, allowed: 'ALLOWED or REQUIRED, unless CLIENT_CERTIFICATE is set' }] : []),
    ...(isKeyNeeded && held.DPOP_ENABLED === false ? [{ name: 'DPOP_ENABLED' as const, index, allowed: 'true, unless CLIENT_CERTIFICATE is set' }] : [])
  ])
}

function hasOther (algs: unknown): boolean {
  return Array.isArray(algs) && algs.some(alg => !FAPI_ALGS.includes(alg))
}

/** How the file names a setting of an issuer in the list. */
export function entryPath (name: SettingName, index: number): string {
  return `${settingSpec('IDP_ISSUERS').file}[${index}].${memberKey(name)}`
}
