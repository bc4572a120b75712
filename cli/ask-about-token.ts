import { createIntrospection, createKeys, rulesOfIssuer } from '../lib/assembly/create-issuers.ts'
import { NODE_CRYPTO } from '../lib/assembly/jwt-tools.ts'
import { decodeJsonObject, isJwt } from '../lib/guard/jose/signed-jwt.ts'
import type { ProviderFailureWord } from '../lib/guard/provider/provider-failure.ts'
import type { Refusal } from '../lib/refusal.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { closeIssuer, type TokenIntrospection } from '../lib/guard/token/issuer-table.ts'
import type { TokenClaims } from '../lib/guard/token/jwt-checks.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { failedCall, fault, type Finding } from './findings.ts'

/** An issuer that has introspection. */
export type AskedIssuer = IssuerSettings & { readonly introspection: IntrospectionSettings }

/** What each question needs. */
export interface Asking {
  readonly issuer: AskedIssuer
  readonly settings: Settings
  readonly introspection: TokenIntrospection
  ask (token: string): Promise<Refusal | null>
}

/** What the service asks an issuer with. */
interface OpenIntrospection {
  readonly introspection: TokenIntrospection
  close (): Promise<void>
}

/**
 * Opens it as the service does. Only for an issuer that has introspection.
 * @throws SettingsError, ProviderFailure
 */
export async function openIntrospection (
  issuer: IssuerSettings,
  settings: Settings
): Promise<OpenIntrospection> {
  const parts = { surroundings: processSurroundings, settings, jwtTools: NODE_CRYPTO }
  const keys = await createKeys(issuer, { ...parts, onEvent: () => {} })
  const introspection = (await createIntrospection(issuer, keys, parts))!
  return { introspection, close: () => closeIssuer({ introspection, keys }) }
}

/** Why the answer refuses a request with that token; null if it does not. The token's own checks do not matter here. */
export async function askAboutToken (
  { inquiry }: TokenIntrospection,
  token: string,
  issuer: IssuerSettings,
  settings: Settings
): Promise<Refusal | null> {
  const rules = rulesOfIssuer(issuer, settings)
  const claims = isJwt(token) ? decodeJsonObject(token.split('.')[1]!) : undefined
  const answer = claims
    ? inquiry.confirm(token, rules, claims as unknown as TokenClaims)
    : inquiry.claimsOf(token, true, rules, Date.now() / 1000)
  return answer.then(() => null, error => error as Refusal)
}

/** What the answers to a client mean where the word does not distinguish them from other faults. */
const REFUSED = /^status: (?:400|401|403)$/

/** Whether the issuer may have refused the credentials of the client. */
export const isCredentialFault = ({ detail }: Refusal): boolean =>
  REFUSED.test(`${detail!['failure']}: ${detail!['detail']}`)

/** No answer could be had, or none of use. */
export function unavailable ({ detail }: Refusal): Finding {
  const { failure, detail: more } = detail!
  const story = more === undefined ? String(failure) : `${failure}: ${more}`
  return introspectionFault(failure as ProviderFailureWord, story)
}

/** @param says how it failed */
export function introspectionFault (word: ProviderFailureWord, says: string): Finding {
  const finding = failedCall(word, `Introspection failed: ${says}`, ' Tokens that need it would get 503.')
  if (!REFUSED.test(says)) return finding
  return fault(
    finding.says,
    'Check the client: `IDP_CLIENT_ID`, its secret or key, `IDP_CLIENT_AUTH`, and whether the provider allows ' +
      'it to introspect tokens.'
  )
}
