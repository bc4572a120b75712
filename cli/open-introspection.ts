import { createIntrospection, createKeys } from '../lib/assembly/create-issuers.ts'
import { NODE_CRYPTO } from '../lib/assembly/jwt-tools.ts'
import type { IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { closeIssuer, type TokenIntrospection } from '../lib/guard/token/issuer-table.ts'
import { processSurroundings } from '../server/surroundings.ts'

/**
 * What the service asks an issuer about tokens with. Only for an issuer that has introspection.
 * @throws SettingsError, ProviderFailure
 */
export async function openIntrospection (
  issuer: IssuerSettings,
  settings: Settings
): Promise<{ readonly introspection: TokenIntrospection, close (): Promise<void> }> {
  const parts = { surroundings: processSurroundings, settings, jwtTools: NODE_CRYPTO }
  const keys = await createKeys(issuer, { ...parts, onEvent: () => {} })
  const introspection = (await createIntrospection(issuer, keys, parts))!
  return { introspection, close: () => closeIssuer({ introspection, keys }) }
}
