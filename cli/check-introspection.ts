import { PROVIDER_FAULTS } from '../explain/faults.ts'
import { createIntrospection } from '../lib/guard/create-introspection.ts'
import { createKeys } from '../lib/guard/create-issuers.ts'
import { rulesOfIssuer } from '../lib/guard/issuer-rules.ts'
import { createEndpointFinder } from '../lib/introspection/endpoint.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import type { ProviderFailureWord } from '../lib/provider/provider-failure.ts'
import { parseIssuer } from '../lib/provider/provider-url.ts'
import { createTransport } from '../lib/provider/transport.ts'
import type { Refusal } from '../lib/refusal.ts'
import type { IntrospectionSettings, IssuerSettings } from '../lib/settings/issuer-settings.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { closeIssuer } from '../lib/token/issuer-table.ts'
import type { TokenIntrospection } from '../lib/token/issuer-table.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { fault, fine } from './findings.ts'
import type { Finding } from './findings.ts'

const COVERS = { opaque: 'tokens that are no JWTs', jwt: 'JWTs, after their own checks', all: 'all tokens' } as const

/** Asks the issuer about a token that nobody has issued, as the service would. Empty if the issuer is never asked. */
export async function checkIntrospection (issuer: IssuerSettings, settings: Settings): Promise<Finding[]> {
  if (!issuer.introspection) return []
  try {
    const endpoint = await findEndpoint(issuer, issuer.introspection, settings)
    const { covers, clientId } = issuer.introspection
    return [fine(`It is asked about ${COVERS[covers]}, at ${endpoint}, as the client ${clientId}.`), await askAboutNothing(issuer, issuer.introspection, settings)]
  } catch (error) {
    if (error instanceof SettingsError) return error.problems.map(problem => fault(problem, 'Correct it where it stands: docs/configuration.md lists every setting.'))
    if (error instanceof ProviderFailure) return [failed(error.word, error.message)]
    throw error
  }
}

async function findEndpoint ({ issuer }: IssuerSettings, { endpoint }: IntrospectionSettings, { HTTP_PROXY: httpProxy, HTTPS_PROXY: httpsProxy, NO_PROXY: noProxy }: Settings): Promise<string> {
  const exchange = createTransport({ httpProxy, httpsProxy, noProxy }).open()
  try {
    return await createEndpointFinder({ issuer, base: parseIssuer(issuer) }, endpoint, () => 0)(exchange)
  } finally {
    exchange.close()
  }
}

async function askAboutNothing (issuer: IssuerSettings, { clientId }: IntrospectionSettings, settings: Settings): Promise<Finding> {
  const parts = await openIntrospection(issuer, settings)
  const token = processSurroundings.randomBytes(32).toString('base64url')
  try {
    const refusal = await new Promise<Refusal | null>(resolve => {
      parts.introspection.inquiry.claimsOf(token, true, rulesOfIssuer(issuer, settings), Date.now() / 1000, error => resolve(error as Refusal | null))
    })
    if (refusal?.reason === 'token_inactive') return fine(`It takes the credentials of ${clientId}, and says of a made-up token that it is not active.`)
    if (refusal?.reason !== 'introspection_unavailable') return fault('It says of a made-up token that it is active: every text would be a token.', 'Look at the endpoint: it must check the token that it is asked about.')
    const { failure, detail } = refusal.detail!
    return failed(failure as ProviderFailureWord, detail === undefined ? String(failure) : `${failure}: ${detail}`)
  } finally {
    await parts.close()
  }
}

/** What the service asks an issuer with. Only for an issuer that has introspection. @throws SettingsError, ProviderFailure */
export async function openIntrospection (issuer: IssuerSettings, settings: Settings): Promise<{ readonly introspection: TokenIntrospection, close (): Promise<void> }> {
  const keys = await createKeys(issuer, settings, { surroundings: processSurroundings, onEvent: () => {} })
  const rules = rulesOfIssuer(issuer, settings)
  const introspection = (await createIntrospection(issuer, { keys, rules, surroundings: processSurroundings }, settings))!
  return { introspection, close: () => closeIssuer({ introspection, keys }) }
}

/** What the answers to a client mean that cannot be told apart from other faults by the word alone. */
const REFUSED = /^status: (?:400|401|403)$/

function failed (word: ProviderFailureWord, says: string): Finding {
  const { meaning, cure } = PROVIDER_FAULTS[word]
  const whole = `It could not be asked about a token: ${says} (${meaning}). Tokens that need it would get 503.`
  if (REFUSED.test(says)) return fault(whole, 'Look at the client: `IDP_CLIENT_ID`, its secret or key, `IDP_CLIENT_AUTH`, and whether the provider lets it ask about tokens.')
  return fault(whole, `Look at this: ${cure}.`)
}
