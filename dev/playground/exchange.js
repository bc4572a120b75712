// Every request to the API goes through here, so that the page shows what was sent.
import * as oauth from '/vendor/oauth4webapi.js'

/** A fetch that notes each request with its answer in `log`. `bodyOf` reads the body that is noted. */
export function recorder (log, bodyOf = response => response.clone().text()) {
  return async (url, { method, headers, signal } = {}) => {
    const sent = Object.fromEntries(new Headers(headers))
    let response
    try {
      response = await fetch(url, { method, headers, signal, cache: 'no-store' })
    } catch {
      const none = { status: 0, statusText: 'No answer', received: {}, body: '' }
      log.push({ method, url: String(url), sent, ...none })
      throw new Error(`${url} did not answer, or did not let this page read its answer`)
    }
    log.push({
      method,
      url: String(url),
      sent,
      status: response.status,
      statusText: response.statusText,
      received: Object.fromEntries(response.headers),
      body: await bodyOf(response)
    })
    return response
  }
}

/** Sends exactly these headers. */
export async function send (log, url, headers, method = 'GET') {
  await recorder(log)(new URL(url), { method, headers }).catch(() => {})
}

/** A call as a good client makes it: a fresh proof, and a second try if the service asks for its nonce. */
export async function call (log, url, token, dpop) {
  const error = await callOnce(log, url, token, dpop)
  if (oauth.isDPoPNonceError(error)) await callOnce(log, url, token, dpop)
}

/** The same without the second try. Returns what went wrong, if anything; all of it is in the log. */
export function callOnce (log, url, token, dpop) {
  return sendBound(recorder(log), url, token, dpop).then(() => undefined, error => error)
}

/** A request with the token and a fresh proof, sent by `fetchAs`. Rejects if the service asks for its nonce. */
export function sendBound (fetchAs, url, token, dpop) {
  return oauth.protectedResourceRequest(token, 'GET', new URL(url), new Headers(), undefined, {
    DPoP: dpop,
    [oauth.customFetch]: fetchAs,
    [oauth.allowInsecureRequests]: true
  })
}

export const last = log => log[log.length - 1]
