import { settingsFromOptions } from '../lib/settings/options.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { collectSettings, type SettingsSources } from '../lib/settings/sources.ts'
import { settingNames } from '../lib/settings/specs.ts'
import { put, valueAt } from '../lib/settings/tree.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import type { Tenant } from './tenants.ts'
import { processSurroundings } from '../server/surroundings.ts'

const NOT_KNOWN = '(not known here)'
const UNKNOWN_PROVIDER = { idp: { domain: 'provider.invalid', audience: NOT_KNOWN } }

/**
 * The settings of the service as the tools find them: as the service reads them itself and, if nothing there names a
 * provider, those of the local tenant's API. `isKnown` says whether they name one: without one, issuer, audience and
 * signature of a token cannot be checked. @throws SettingsError
 */
export async function readKnownSettings (
  { env, readFile }: { env: NodeJS.ProcessEnv, readFile: SettingsSources['readFile'] },
  tenant?: Tenant
) {
  const found = collectSettings({ environment: env, readFile })
  const { domain, issuer, issuers } = found.values.idp
  const isNamed = domain !== undefined || issuer !== undefined || issuers !== undefined
  const isKnown = isNamed || tenant !== undefined
  const { values } = settingsFromOptions(isNamed ? {} : tenant?.settings ?? UNKNOWN_PROVIDER)
  for (const name of settingNames) {
    const given = valueAt(found.values, name)
    if (given !== undefined) put(values, name, given)
  }
  const read = await validateSettings({ ...found, values }, processSurroundings)
  return {
    settings: isKnown
      ? read
      : { ...read, idp: { ...read.idp, issuers: read.idp.issuers.map(issuer => ({ ...issuer, issuer: NOT_KNOWN })) } },
    isKnown
  }
}

/**
 * The target without the prefix of PUBLIC_URL, which a proxy takes away before the service sees it, or undefined if
 * there is none to take away.
 */
export function withoutPublicPrefix (
  target: string,
  clientHost: string | undefined,
  { server: { publicUrl } }: Settings
): string | undefined {
  if (publicUrl === undefined) return undefined
  const { host, pathname } = new URL(publicUrl)
  const prefix = pathname.replace(/\/$/, '')
  const isBehind = prefix !== '' && clientHost?.toLowerCase() === host && target.startsWith(`${prefix}/`)
  return isBehind ? target.slice(prefix.length) : undefined
}
