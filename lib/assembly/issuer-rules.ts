import type { IssuerSettings } from '../settings/issuer-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { createTokenRules, TOKEN_BINDINGS } from '../token/jwt-checks.ts'
import type { TokenRules } from '../token/jwt-checks.ts'

type RuleSettings = Pick<Settings, 'idp' | 'server'>

/** Returns what holds for the tokens of an issuer. */
export function rulesOfIssuer ({ issuer, audience, algs, dpopMode }: IssuerSettings, settings: RuleSettings): TokenRules {
  const { idp: { clockToleranceSeconds }, server: { resource } } = settings
  const areCertificatesOn = settings.server.clientCertificate !== 'off'
  const bindings = TOKEN_BINDINGS.filter(member => member === 'jkt' || areCertificatesOn)
  return createTokenRules({
    issuer,
    audience,
    resource,
    algs,
    clockToleranceSeconds,
    bindings,
    // Under DISABLED a key is not asked for, so only a certificate ties the token to its client.
    neededBindings: settings.server.securityProfile === 'fapi2' ? bindings.filter(member => member !== 'jkt' || dpopMode !== 'DISABLED') : undefined
  })
}
