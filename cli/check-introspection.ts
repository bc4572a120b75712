import { PROVIDER_FAULTS } from '../explain/faults.ts'
import { createIntrospection, createKeys, rulesOfIssuer } from '../lib/assembly/create-issuers.ts'
import { createEndpoint } from '../lib/introspection/endpoint.ts'
import { decodeJsonObject } from '../lib/jose/jws.ts'
import { createDiscovery } from '../lib/provider/provider-document.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import type { ProviderFailureWord } from '../lib/provider/provider-failure.ts'
import { createTransport } from '../lib/provider/transport.ts'
import type { Refusal } from '../lib/refusal.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { printable } from '../lib/printable.ts'
import { isJwt } from '../lib/token/inquiry.ts'
import { closeIssuer } from '../lib/token/issuer-table.ts'
import type { TokenIntrospection } from '../lib/token/issuer-table.ts'
import type { TokenClaims } from '../lib/token/jwt-checks.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { failureText, fault, fine, warning } from './findings.ts'
import type { Finding } from './findings.ts'
import { NoToken, obtainToken } from './obtain-token.ts'

const COVERS = { opaque: 'tokens that are no JWTs', jwt: 'JWTs, after their own checks', all: 'all tokens' } as const

/** Asks the issuer about a made-up token, and about one of its own, as the service would. Empty if the issuer is never asked. */
export async function checkIntrospection (issuer: IssuerSettings, settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  if (!isAsked(issuer)) return []
  try {
    const endpoint = await findEndpoint(issuer, issuer.introspection, settings)
    const { covers, clientId } = issuer.introspection
    const made = await askAboutNothing(issuer, issuer.introspection, settings)
    const first = [fine(`Introspects ${COVERS[covers]}, at ${endpoint}, as the client ${clientId}.`), made]
    return made.kind === 'fine' ? [...first, await askAboutOwn(issuer, settings, env)] : first
  } catch (error) {
    if (error instanceof SettingsError) return error.problems.map(problem => fault(problem, 'Correct it at its source: docs/reference/settings.md lists every setting.'))
    if (error instanceof ProviderFailure) return [failed(error.word, failureText(error))]
    throw error
  }
}

type AskedIssuer = IssuerSettings & { readonly introspection: IntrospectionSettings }

const isAsked = (issuer: IssuerSettings): issuer is AskedIssuer => issuer.introspection !== undefined

async function findEndpoint ({ issuer }: IssuerSettings, { endpoint }: IntrospectionSettings, { proxies }: Settings): Promise<string> {
  const transport = createTransport(proxies)
  const exchange = transport.open()
  try {
    return await createEndpoint({ issuer, discovery: createDiscovery(issuer), configured: endpoint, transport, surroundings: processSurroundings }).find(exchange)
  } finally {
    exchange.close()
  }
}

async function askAboutNothing (issuer: IssuerSettings, { clientId }: IntrospectionSettings, settings: Settings): Promise<Finding> {
  const parts = await openIntrospection(issuer, settings)
  const token = processSurroundings.randomBytes(32).toString('base64url')
  try {
    const refusal = await ask(parts.introspection, token, issuer, settings)
    if (refusal?.reason === 'token_inactive') return fine(`It accepts the credentials of ${clientId}, and reports a random token as not active.`)
    if (refusal?.reason !== 'introspection_unavailable') return fault('It reports a random token as active, so any text would pass as a token.', 'Check the endpoint: it must validate the token that it gets.')
    return unavailable(refusal)
  } finally {
    await parts.close()
  }
}

/** Some providers answer an asking client only about the tokens that are meant for it, and a made-up token does not show that. */
async function askAboutOwn (issuer: AskedIssuer, settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding> {
  const { covers, clientId } = issuer.introspection
  const parts = await openIntrospection(issuer, settings)
  try {
    const { text, whose } = await obtainToken(issuer, settings, env)
    if (covers !== 'all' && isJwt(text) !== (covers === 'jwt')) return warning(`The token ${whose} is ${covers === 'jwt' ? 'no JWT, and only JWTs are introspected' : 'a JWT, and JWTs are not introspected'}.`)
    const refusal = await ask(parts.introspection, text, issuer, settings)
    if (refusal === null) return fine(`It reports a token ${whose} as active.`)
    if (refusal.reason === 'introspection_unavailable') return unavailable(refusal)
    if (refusal.reason !== 'token_inactive') return warning(`It reports a token ${whose} as active, but the claims in its answer would be refused: ${refusal.reason}.`, `docs/reference/errors.md says what ${refusal.reason} means.`)
    return fault(`It reports a token ${whose} as not active${audienceOf(text, clientId)}. Such tokens would get 401.`, `Some providers report on a token only if its \`aud\` names the client. Have this one write ${clientId} into \`aud\` beside the API: docs/reference/providers.md says how. If the token has expired or was revoked, try another one.`)
  } catch (error) {
    if (error instanceof NoToken) return warning(`Introspection of a valid token was not tried: ${error.message}.`, 'To try that, set CALL_CLIENT_ID and CALL_CLIENT_SECRET to a client that may get tokens by client credentials, or CALL_TOKEN to a token.')
    throw error
  } finally {
    await parts.close()
  }
}

/** What `aud` of a JWT lacks. */
function audienceOf (text: string, clientId: string): string {
  const aud = isJwt(text) ? decodeJsonObject(text.split('.')[1]!)?.aud : clientId
  const names: unknown[] = Array.isArray(aud) ? aud : [aud]
  return names.includes(clientId) ? '' : `; its aud, ${printable(names.map(String))}, does not name the client ${clientId}`
}

/** Asks as for a request with that token. Its own checks do not matter here. */
async function ask ({ inquiry }: TokenIntrospection, token: string, issuer: IssuerSettings, settings: Settings): Promise<Refusal | null> {
  const rules = rulesOfIssuer(issuer, settings)
  const claims = isJwt(token) ? decodeJsonObject(token.split('.')[1]!) : undefined
  const answer = claims ? inquiry.confirm(token, rules, claims as unknown as TokenClaims) : inquiry.claimsOf(token, true, rules, Date.now() / 1000)
  return answer.then(() => null, error => error as Refusal)
}

/** What the service asks an issuer with. Only for an issuer that has introspection. @throws SettingsError, ProviderFailure */
export async function openIntrospection (issuer: IssuerSettings, settings: Settings): Promise<{ readonly introspection: TokenIntrospection, close (): Promise<void> }> {
  const keys = await createKeys(issuer, settings, { surroundings: processSurroundings, onEvent: () => {} })
  const introspection = (await createIntrospection(issuer, keys, settings, { surroundings: processSurroundings }))!
  return { introspection, close: () => closeIssuer({ introspection, keys }) }
}

/** What the answers to a client mean where the word does not distinguish them from other faults. */
const REFUSED = /^status: (?:400|401|403)$/

function unavailable ({ detail }: Refusal): Finding {
  const { failure, detail: more } = detail!
  return failed(failure as ProviderFailureWord, more === undefined ? String(failure) : `${failure}: ${more}`)
}

function failed (word: ProviderFailureWord, says: string): Finding {
  const { meaning, cure } = PROVIDER_FAULTS[word]
  const whole = `Introspection failed: ${says} (${meaning}). Tokens that need it would get 503.`
  if (REFUSED.test(says)) return fault(whole, 'Check the client: `IDP_CLIENT_ID`, its secret or key, `IDP_CLIENT_AUTH`, and whether the provider allows it to introspect tokens.')
  return fault(whole, `Look at this: ${cure}.`)
}
