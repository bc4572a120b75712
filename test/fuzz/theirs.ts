import * as oauth from 'oauth4webapi'
import { ALGS, KEY_SET } from './keys.ts'
import { AUDIENCE, ISSUER, urlOf, type WireRequest } from './parts.ts'

/** The message of a refusal, or undefined for a request that passes. */
export type Theirs = string | undefined

const SERVER: oauth.AuthorizationServer = { issuer: ISSUER, jwks_uri: `${ISSUER}keys` }

/** oauth4webapi has no clock that can be passed in, only the one of the process. */
const clock = { now: 0 }
export function freezeClock (): () => void {
  const { now } = Date
  Date.now = () => clock.now * 1000
  return () => {
    Date.now = now
  }
}

/** What an independent implementation says of the request. */
export async function askTheirs (request: WireRequest): Promise<Theirs> {
  clock.now = request.now
  try {
    await oauth.validateJwtAccessToken(SERVER, requestOf(request), AUDIENCE, {
      requireDPoP: request.site === 'required',
      signingAlgorithms: ALGS,
      [oauth.clockTolerance]: 5,
      [oauth.jwksCache]: { jwks: KEY_SET as oauth.JWKS, uat: request.now },
      [oauth.customFetch]: async () => Response.json(KEY_SET)
    })
    return undefined
  } catch (error) {
    return (error as Error).message || (error as Error).name
  }
}

/** @throws TypeError for a request that the Fetch standard has no words for */
function requestOf ({ site, method, target, rawHeaders }: WireRequest) {
  const headers = new Headers()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at] !== 'Host') headers.append(rawHeaders[at]!, rawHeaders[at + 1]!)
  }
  const host = rawHeaders[rawHeaders.indexOf('Host') + 1]!
  return new Request(urlOf(site, host, target), { method, headers })
}
