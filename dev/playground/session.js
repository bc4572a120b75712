// Who is logged in, and how someone logs in with more.
import * as oauth from '/vendor/oauth4webapi.js'
import { byId } from './dom.js'
import { decodeJwt } from './jwt.js'
import { endSession, forget, keyPair, startLogin } from './login.js'
import { fail } from './result.js'
import { config, parties } from './running.js'
import { scopesAskedFor } from './verdict.js'

export let session
export let keys
/** What the good client makes its proofs with: one handle, so that the nonce of one call serves the next. */
export let dpop
/** What became of the last session, if the page ended it. */
export let farewell = ''

export async function use (next) {
  session = next
  keys = session && await keyPair()
  byId('choose').open = session === undefined
  dpop = session && oauth.DPoP({ client_id: config.clientId }, keys)
  farewell = ''
}

/** Deletes token and key. */
export async function end (why) {
  await forget()
  await use(undefined)
  farewell = why
}

/** The provider has ended the session. The token stays. */
export async function markEnded () {
  session = await endSession(session)
}

/** The claims of the token. */
export const claimsOfToken = () => decodeJwt(session.token).claims

/** Seconds until the token expires. */
export const expiresIn = () => session === undefined ? Infinity : claimsOfToken().exp - Date.now() / 1000

export function isOfThisProvider () {
  const { header, claims } = decodeJwt(session.token) ?? {}
  return claims?.iss === config.issuer && parties.keyIds.includes(header.kid)
}

export const logIn = (...choice) => startLogin(config, ...choice).catch(error => fail('The login did not start', error))

/** The same user again, in the way that a route asks for. */
export const logInAsAsked = asked => logIn(claimsOfToken().sub, session.asked ?? [], asked)

/**
 * After a 403 for want of scopes: a login with them, as the same user if that one may have them, or undefined if none
 * can.
 */
export function widerLogin ({ received }) {
  const scopes = scopesAskedFor(received)
  if (scopes === undefined || session === undefined) return undefined
  const { sub } = claimsOfToken()
  const able = config.users.filter(({ permissions }) => scopes.every(scope => permissions.includes(scope)))
  const user = able.find(({ id }) => id === sub) ?? able[0]
  return user &&
    {
      label: `Log in as ${user.name} with ${scopes.join(', ')}`,
      run: () => logIn(user.id, [...new Set([...session.asked ?? [], ...scopes])])
    }
}
