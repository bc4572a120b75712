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

/** A call as a good client makes it. All that went wrong is in the log. */
export const call = (log, ...bound) => sendBound(recorder(log), ...bound).catch(() => {})

/** The same without the second try. */
export const callOnce = (log, ...bound) => sendOnce(recorder(log), ...bound).catch(() => {})

/** A request with the token and a fresh proof by `fetchAs`, and a second try if the service asks for its nonce. */
export function sendBound (...bound) {
  return sendOnce(...bound).catch(error => {
    if (oauth.isDPoPNonceError(error)) return sendOnce(...bound)
    throw error
  })
}

function sendOnce (fetchAs, url, token, dpop) {
  return oauth.protectedResourceRequest(token, 'GET', new URL(url), new Headers(), undefined, {
    DPoP: dpop,
    [oauth.customFetch]: fetchAs,
    [oauth.allowInsecureRequests]: true
  })
}

export const last = log => log[log.length - 1]
