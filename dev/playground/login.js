/* global location, history */
// Authorization code with PKCE (RFC 7636), for a token bound to the key of this browser (RFC 9449 section 5).
import * as oauth from '/vendor/oauth4webapi.js'
import { clear, read, write } from './store.js'

const insecure = { [oauth.allowInsecureRequests]: true, [oauth.customFetch]: nameWhoIsSilent }

/** A browser says only "Failed to fetch": not who did not answer, nor whether an answer was withheld from the page. */
function nameWhoIsSilent (url, options) {
  return fetch(url, options).catch(() => {
    throw new Error(`${url} did not answer, or did not let this page read its answer`)
  })
}

async function discover (issuer) {
  const url = new URL(issuer)
  return oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, insecure))
}

/** The key of this browser: made once, its private half not extractable. */
export async function keyPair () {
  const kept = await read('keys')
  if (kept !== undefined) return kept
  const made = await oauth.generateKeyPair('ES256', { extractable: false })
  await write('keys', made)
  return made
}

/**
 * Leaves the page for the provider, which logs `user` in; finishLogin goes on when the browser comes back. `asked` is
 * what a route wants of the login: `acr_values` and `max_age` (RFC 9470 section 4).
 */
export async function startLogin ({ issuer, clientId, audience, redirectUri }, user, permissions, asked = {}) {
  const server = await discover(issuer)
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  await write('pending', { verifier, state, asked: permissions })
  await write('choice', { user, permissions })
  const url = new URL(server.authorization_endpoint)
  url.search = new URLSearchParams({
    client_id: clientId,
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: ['openid', ...permissions].join(' '),
    audience,
    login_hint: user,
    // A login from before a revocation would be refused for as long as the provider remembers it.
    prompt: 'login',
    ...asked,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256'
  }).toString()
  location.assign(url)
}

/** The user and the permissions of the last login, also of one that failed; undefined if there was none. */
export const lastChoice = () => read('choice')

/** The session, or undefined without a login. Throws if a login in progress failed. */
export async function finishLogin (config) {
  const here = new URL(location.href)
  if (!here.searchParams.has('state')) return read('session')
  const pending = await read('pending')
  await write('pending', undefined)
  history.replaceState(null, '', here.pathname)
  // The visitor reloaded the page that the provider sent the browser to. The code is spent, and the session exists.
  if (pending === undefined) return read('session')
  const client = { client_id: config.clientId }
  const server = await discover(config.issuer)
  const code = oauth.validateAuthResponse(server, client, here, pending.state)
  const dpop = oauth.DPoP(client, await keyPair())
  const exchange = () =>
    oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.None(),
      code,
      config.redirectUri,
      pending.verifier,
      { DPoP: dpop, ...insecure }
    )
  const answer = await oauth.processAuthorizationCodeResponse(server, client, await exchange())
  const session = { token: answer.access_token, thumbprint: await dpop.calculateThumbprint(), asked: pending.asked }
  await write('session', session)
  return session
}

/** The session is over. Its token is kept, to see what becomes of it. */
export async function endSession (session) {
  const ended = { ...session, ended: true }
  await write('session', ended)
  return ended
}

export const forget = clear

/** The provider ends the session of this browser, and notifies its clients. The page stays. */
export async function logOut ({ issuer }) {
  const answer = await fetch(`${issuer}/logout`, { method: 'POST', credentials: 'include' }).catch(() => undefined)
  if (!answer?.ok) throw new Error(`${issuer} could not end the session, or could not notify the API`)
}

/** The transmitter beside the provider sends the API the event that all sessions of the user have ended. */
export async function logOutEverywhere (sub) {
  const answer = await fetch('/log-out-everywhere', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ sub })
  })
  const { status } = await answer.json()
  if (status !== 202) throw new Error(`The API answered the event with ${status}`)
}
