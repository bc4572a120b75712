import { createAuthentication } from '../lib/assembly/client-credentials.ts'
import { rulesOfIssuer } from '../lib/assembly/create-issuers.ts'
import { basicCredentials } from '../lib/guard/provider/client-authentication.ts'
import { createEndpoint } from '../lib/guard/introspection/endpoint.ts'
import { createIntrospector } from '../lib/guard/introspection/introspector.ts'
import { createDiscovery } from '../lib/guard/provider/provider-document.ts'
import { ProviderFailure, type ProviderFailureWord } from '../lib/guard/provider/provider-failure.ts'
import { createTransport } from '../lib/guard/provider/transport.ts'
import type { Refusal } from '../lib/refusal.ts'
import { readSecret } from '../lib/settings/secret.ts'
import type { IntrospectionSettings, IssuerSettings, Settings } from '../lib/settings/settings.ts'
import type { TokenIntrospection } from '../lib/guard/token/issuer-table.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { openIntrospection } from './open-introspection.ts'
import { faultsOf } from './check-files.ts'
import { judgeClock, timedSession } from './compare-clocks.ts'
import { failedCall, failureText, fault, fine, type Finding } from './findings.ts'

const COVERS = { opaque: 'tokens that are no JWTs', jwt: 'JWTs, after their own checks', all: 'all tokens' } as const

/** An issuer that has introspection. */
type AskedIssuer = IssuerSettings & { readonly introspection: IntrospectionSettings }

/** Asks the issuer about a made-up token, as the service would. Empty if the issuer is never asked. */
export async function checkIntrospection (issuer: IssuerSettings, settings: Settings): Promise<Finding[]> {
  if (!isAsked(issuer)) return []
  const faults = await faultsOf(() =>
    createAuthentication(() => issuer.issuer, issuer.introspection, processSurroundings)
  )
  try {
    const { endpoint, offsets } = await findEndpoint(issuer, issuer.introspection, settings)
    const { covers, clientId } = issuer.introspection
    return [
      fine(`Introspects ${COVERS[covers]}, at ${endpoint}, as the client ${clientId}.`),
      ...offsets.length > 0 ? judgeClock(offsets, settings.idp.clockToleranceSeconds) : [],
      ...faults.length > 0 ? faults : [await askAboutNothing(issuer, settings)]
    ]
  } catch (error) {
    if (error instanceof ProviderFailure) return [...faults, introspectionFault(error.word, failureText(error))]
    throw error
  }
}

const isAsked = (issuer: IssuerSettings): issuer is AskedIssuer => issuer.introspection !== undefined

/** Finds the endpoint. With a key file, nothing else of the provider is asked, so the clocks are compared here. */
async function findEndpoint (
  { issuer, keysFile }: IssuerSettings,
  { endpoint }: IntrospectionSettings,
  { proxies }: Settings
): Promise<{ readonly endpoint: string, readonly offsets: readonly number[] }> {
  const session = createTransport(proxies).open()
  const offsets: number[] = []
  try {
    return {
      endpoint: await createEndpoint({
        issuer,
        discovery: createDiscovery(issuer),
        configured: endpoint,
        transport: { open: () => keysFile === undefined ? session : timedSession(session, offsets, Date.now) },
        surroundings: processSurroundings
      }).find(),
      offsets
    }
  } finally {
    session.close()
  }
}

async function askAboutNothing (issuer: AskedIssuer, settings: Settings): Promise<Finding> {
  const { clientId } = issuer.introspection
  const token = processSurroundings.randomBytes(32).toString('base64url')
  const { introspection: { inquiry, endpoint }, close } = await openIntrospection(issuer, settings)
  try {
    await inquiry.claimsOf(token, true, rulesOfIssuer(issuer, settings), Date.now() / 1000)
  } catch (error) {
    const { reason, detail } = error as Refusal
    if (reason === 'token_inactive') {
      return fine(`It accepts the credentials of ${clientId}, and reports a random token as not active.`)
    }
    if (reason === 'introspection_unavailable') {
      const { failure, detail: more } = detail!
      const says = more === undefined ? String(failure) : `${failure}: ${more}`
      const ofBasic = REFUSED.test(says) && await faultOfBasic(issuer.introspection, endpoint, token, settings)
      return ofBasic || introspectionFault(failure as ProviderFailureWord, says)
    }
  } finally {
    await close()
  }
  return fault(
    'It reports a random token as active, so any text would pass as a token.',
    'Check the endpoint: it must validate the token that it gets.'
  )
}

/** What the answers to a client mean where the word does not distinguish them from other faults. */
const REFUSED = /^status: (?:400|401|403)$/

/** @param says how it failed */
function introspectionFault (word: ProviderFailureWord, says: string): Finding {
  const finding = failedCall(word, `Introspection failed: ${says}`, ' Tokens that need it would get 503.')
  if (!REFUSED.test(says)) return finding
  return fault(
    finding.says,
    'Check the client: `IDP_CLIENT_ID`, its secret or key, `IDP_CLIENT_AUTH`, and whether the provider allows ' +
      'it to introspect tokens.'
  )
}

/**
 * What a provider that refuses the credentials by `client_secret_basic` makes of them: it may accept the same without
 * the encoding that RFC 6749 section 2.3.1 asks for, or in the body, or undefined if neither helps.
 */
async function faultOfBasic (
  { auth, clientId, clientSecret: secret }: IntrospectionSettings,
  endpoint: TokenIntrospection['endpoint'],
  token: string,
  settings: Settings
): Promise<Finding | undefined> {
  if (auth !== 'client_secret_basic') return undefined
  const clientSecret = await readSecret(secret!, 'the secret', processSurroundings)
  const accepts = (headers: Record<string, string>, more: Record<string, string>) => {
    const introspector = createIntrospector({
      transport: createTransport(settings.proxies),
      endpoint: endpoint.find,
      authenticate: async form => ({ headers, body: new URLSearchParams({ ...form, ...more }).toString() }),
      readSigned: undefined
    })
    // Any answer of status 200 will do: it may be a signed one.
    return introspector.ask(token, true).then(
      () => true,
      ({ detail }: Refusal) => ['not_json', 'introspection_malformed'].includes(String(detail!.failure))
    )
  }
  const authorization = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
  const isCoded = basicCredentials(clientId, clientSecret) !== authorization
  // Without encoding, the id would end at its first colon.
  const isRaw = isCoded && !clientId.includes(':') && await accepts({ authorization }, {})
  if (!isRaw && !await accepts({}, { client_id: clientId, client_secret: clientSecret })) return undefined
  const says = isRaw
    ? "It reads the client's credentials without decoding them (RFC 6749 section 2.3.1): as they are written " +
      'there, it refuses them, and without encoding it accepts them.'
    : `It refuses the client's credentials by client_secret_basic, and accepts them by client_secret_post.${
      isCoded
        ? ' The id or the secret holds characters that are encoded there (RFC 6749 section 2.3.1), such as a ' +
          'colon, and it may not decode them.'
        : ''
    }`
  return fault(
    says,
    'Set IDP_CLIENT_AUTH=client_secret_post, which sends them in another way, or give the client an id and a ' +
      'secret of letters and digits.'
  )
}
