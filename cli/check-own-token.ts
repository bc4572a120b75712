import { decodeJsonObject, isJwt } from '../lib/guard/jose/signed-jwt.ts'
import { printable } from '../lib/base/printable.ts'
import type { Refusal } from '../lib/refusal.ts'
import { unavailable, type Asking } from './ask-about-token.ts'
import { fault, fine, warning, type Finding } from './findings.ts'
import { NoToken, obtainToken } from './obtain-token.ts'

/**
 * Asks about a token that the issuer has issued. Some providers answer an asking client only about the tokens that are
 * meant for it, and a made-up token does not show that.
 */
export async function askAboutOwn ({ issuer, settings, ask }: Asking, env: NodeJS.ProcessEnv): Promise<Finding> {
  const { covers, clientId } = issuer.introspection
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
    const refusal = await ask(text)
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
