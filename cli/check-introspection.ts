import { PROVIDER_FAULTS } from '../explain/faults.ts'
import { commonRulesOf, createIntrospection, createKeys, rulesOfIssuer } from '../lib/assembly/create-issuers.ts'
import { basicCredentials } from '../lib/provider/client-authentication.ts'
import { createEndpoint } from '../lib/introspection/endpoint.ts'
import { createIntrospector } from '../lib/introspection/introspector.ts'
import { decodeJsonObject } from '../lib/jose/signed-jwt.ts'
import { createDiscovery } from '../lib/provider/provider-document.ts'
import { ProviderFailure } from '../lib/provider/provider-failure.ts'
import type { ProviderFailureWord } from '../lib/provider/provider-failure.ts'
import { createTransport } from '../lib/provider/transport.ts'
import type { ProviderSession } from '../lib/provider/transport.ts'
import type { Refusal } from '../lib/refusal.ts'
import { SettingsError } from '../lib/settings/problems.ts'
import { readSecret } from '../lib/settings/secret.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../lib/settings/settings.ts'
import { printable } from '../lib/printable.ts'
import { isJwt } from '../lib/token/inquiry.ts'
import { closeIssuer } from '../lib/token/issuer-table.ts'
import type { TokenIntrospection } from '../lib/token/issuer-table.ts'
import type { TokenClaims } from '../lib/token/jwt-checks.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { clockOffset, judgeClock } from './check-provider.ts'
import { failureText, fault, fine, warning } from './findings.ts'
import type { Finding } from './findings.ts'
import { NoToken, obtainToken } from './obtain-token.ts'

const COVERS = { opaque: 'tokens that are no JWTs', jwt: 'JWTs, after their own checks', all: 'all tokens' } as const

/**
 * Asks the issuer about a made-up token, and about one of its own, as the service would. Empty if the issuer is never
 * asked.
 */
export async function checkIntrospection (
  issuer: IssuerSettings,
  settings: Settings,
  env: NodeJS.ProcessEnv
): Promise<Finding[]> {
  if (!isAsked(issuer)) return []
  try {
    const { endpoint, offsets } = await findEndpoint(issuer, issuer.introspection, settings)
    const { covers, clientId } = issuer.introspection
    const made = await askAboutNothing(issuer, issuer.introspection, settings)
    const first = [
      fine(`Introspects ${COVERS[covers]}, at ${endpoint}, as the client ${clientId}.`),
      ...offsets.length > 0 ? judgeClock(offsets, settings.idp.clockToleranceSeconds) : [],
      made
    ]
    return made.kind === 'fine' ? [...first, await askAboutOwn(issuer, settings, env)] : first
  } catch (error) {
    if (error instanceof SettingsError) {
      return error.problems.map(problem =>
        fault(problem, 'docs/reference/settings.md lists every setting with its allowed values.')
      )
    }
    if (error instanceof ProviderFailure) return [failed(error.word, failureText(error))]
    throw error
  }
}

type AskedIssuer = IssuerSettings & { readonly introspection: IntrospectionSettings }

const isAsked = (issuer: IssuerSettings): issuer is AskedIssuer => issuer.introspection !== undefined

/** Finds the endpoint. With a key file, nothing else of the provider is asked, so the clocks are compared here. */
async function findEndpoint (
  { issuer, keysFile }: IssuerSettings,
  { endpoint }: IntrospectionSettings,
  { proxies }: Settings
): Promise<{ readonly endpoint: string, readonly offsets: readonly number[] }> {
  const transport = createTransport(proxies)
  const session = transport.open()
  const offsets: number[] = []
  const watched: ProviderSession = {
    close: session.close,
    async send (url) {
      const sentMs = Date.now()
      const answer = await session.send(url)
      if (keysFile !== undefined) offsets.push(...clockOffset(answer, sentMs, Date.now()))
      return answer
    }
  }
  try {
    return {
      endpoint: await createEndpoint({
        issuer,
        discovery: createDiscovery(issuer),
        configured: endpoint,
        transport,
        surroundings: processSurroundings
      }).find(watched),
      offsets
    }
  } finally {
    session.close()
  }
}

async function askAboutNothing (
  issuer: IssuerSettings,
  { clientId }: IntrospectionSettings,
  settings: Settings
): Promise<Finding> {
  const parts = await openIntrospection(issuer, settings)
  const token = processSurroundings.randomBytes(32).toString('base64url')
  try {
    const refusal = await ask(parts.introspection, token, issuer, settings)
    if (refusal?.reason === 'token_inactive') {
      return fine(`It accepts the credentials of ${clientId}, and reports a random token as not active.`)
    }
    if (refusal?.reason !== 'introspection_unavailable') {
      return fault(
        'It reports a random token as active, so any text would pass as a token.',
        'Check the endpoint: it must validate the token that it gets.'
      )
    }
    return await readsUndecoded(issuer.introspection!, parts.introspection, token, settings)
      ? fault(
        "It reads the client's credentials without decoding them (RFC 6749 section 2.3.1): as they are written " +
          'there, it refuses them, and without encoding it accepts them.',
        'Set IDP_CLIENT_AUTH=client_secret_post, which sends them in another way, or give the client an id and a ' +
          'secret of letters and digits.'
      )
      : unavailable(refusal)
  } finally {
    await parts.close()
  }
}

/**
 * Whether a provider that refuses the credentials accepts the same without the encoding that RFC 6749 section 2.3.1
 * asks for.
 */
async function readsUndecoded (
  { auth, clientId, clientSecret: secret }: IntrospectionSettings,
  { endpoint }: TokenIntrospection,
  token: string,
  settings: Settings
): Promise<boolean> {
  if (auth !== 'client_secret_basic') return false
  const clientSecret = await readSecret(secret!, 'the secret', processSurroundings)
  const authorization = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
  if (basicCredentials(clientId, clientSecret) === authorization) return false
  const introspector = createIntrospector({
    transport: createTransport(settings.proxies),
    endpoint: endpoint.find,
    authenticate: async form => ({ headers: { authorization }, body: new URLSearchParams(form).toString() }),
    readSigned: undefined
  })
  // Any answer of status 200 will do: it may be a signed one.
  return introspector.ask(token, true).then(
    () => true,
    ({ detail }: Refusal) => ['not_json', 'introspection_malformed'].includes(String(detail!.failure))
  )
}

/**
 * Some providers answer an asking client only about the tokens that are meant for it, and a made-up token does not show
 * that.
 */
async function askAboutOwn (issuer: AskedIssuer, settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding> {
  const { covers, clientId } = issuer.introspection
  const parts = await openIntrospection(issuer, settings)
  try {
    const { text, whose, isNamed } = await obtainToken(issuer, settings, env)
    // A token of the client that asks may be for another API. The one that the operator names is meant for this one.
    const tell = (says: string, cure: string): Finding =>
      isNamed ? fault(`${says} It would get 401.`, cure) : warning(says, cure)
    if (covers === 'opaque' && isJwt(text)) {
      return warning(`The token ${whose} is a JWT, and JWTs are not introspected.`)
    }
    if (covers === 'jwt' && !isJwt(text)) {
      return tell(
        `The token ${whose} is no JWT, and only JWTs are introspected.`,
        'Set IDP_INTROSPECTION=all if opaque tokens are meant to pass.'
      )
    }
    const refusal = await ask(parts.introspection, text, issuer, settings)
    if (refusal === null) return fine(`It reports a token ${whose} as active.`)
    if (refusal.reason === 'introspection_unavailable') return unavailable(refusal)
    if (refusal.reason !== 'token_inactive') {
      return tell(
        `It reports a token ${whose} as active, but the claims in its answer would be refused: ` +
          `${refusal.reason}${shownDetail(refusal)}.`,
        `docs/reference/errors.md says what ${refusal.reason} means.`
      )
    }
    return fault(
      `It reports a token ${whose} as not active${audienceOf(text, clientId)}. Such tokens would get 401.`,
      `Some providers report on a token only if its \`aud\` names the client. Have this one write ${clientId} ` +
        'into `aud` beside the API: docs/reference/providers.md says how. If the token has expired or was ' +
        'revoked, try another one.'
    )
  } catch (error) {
    if (error instanceof NoToken) {
      return warning(
        `Introspection of a valid token was not tried: ${error.message}.`,
        'To try that, set CALL_CLIENT_ID and CALL_CLIENT_SECRET to a client that may get tokens by client ' +
          'credentials, or CALL_TOKEN to a token.'
      )
    }
    throw error
  } finally {
    await parts.close()
  }
}

/** The claim that is at fault, if it is known. */
function shownDetail ({ detail = {} }: Refusal): string {
  const { claim, expected, found } = detail
  return claim === undefined
    ? ''
    : ` (${claim}${expected === undefined ? '' : `: expected ${expected}, found ${found}`})`
}

/** What `aud` of a JWT lacks. */
function audienceOf (text: string, clientId: string): string {
  const aud = isJwt(text) ? decodeJsonObject(text.split('.')[1]!)?.aud : clientId
  const names: unknown[] = Array.isArray(aud) ? aud : [aud]
  return names.includes(clientId)
    ? ''
    : `; its aud, ${printable(names.map(String))}, does not name the client ${clientId}`
}

/** Asks as for a request with that token. Its own checks do not matter here. */
async function ask (
  { inquiry }: TokenIntrospection,
  token: string,
  issuer: IssuerSettings,
  settings: Settings
): Promise<Refusal | null> {
  const rules = rulesOfIssuer(issuer, commonRulesOf(settings))
  const claims = isJwt(token) ? decodeJsonObject(token.split('.')[1]!) : undefined
  const answer = claims
    ? inquiry.confirm(token, rules, claims as unknown as TokenClaims)
    : inquiry.claimsOf(token, true, rules, Date.now() / 1000)
  return answer.then(() => null, error => error as Refusal)
}

/**
 * What the service asks an issuer with. Only for an issuer that has introspection. @throws SettingsError,
 * ProviderFailure
 */
export async function openIntrospection (
  issuer: IssuerSettings,
  settings: Settings
): Promise<{ readonly introspection: TokenIntrospection, close (): Promise<void> }> {
  const { proxies, idp: { clockToleranceSeconds } } = settings
  const parts = { surroundings: processSurroundings, proxies, clockToleranceSeconds }
  const keys = await createKeys(issuer, { ...parts, onEvent: () => {} })
  const introspection = (await createIntrospection(issuer, keys, parts))!
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
  if (REFUSED.test(says)) {
    return fault(
      whole,
      'Check the client: `IDP_CLIENT_ID`, its secret or key, `IDP_CLIENT_AUTH`, and whether the provider allows ' +
        'it to introspect tokens.'
    )
  }
  return fault(whole, `Look at this: ${cure}.`)
}
