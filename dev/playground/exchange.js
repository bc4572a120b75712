// Every request of the page goes through here, so that what is shown is what was sent.
import * as oauth from '/vendor/oauth4webapi.js'

/** A fetch that notes each request with its answer in `log`. */
export function recorder (log) {
  return async (url, { method, headers, body, signal } = {}) => {
    const sent = Object.fromEntries(new Headers(headers))
    let response
    try {
      response = await fetch(url, { method, headers, body, signal, cache: 'no-store' })
    } catch {
      log.push({ method, url: String(url), sent, status: 0, statusText: 'This page got no answer that it may read', received: {}, body: '' })
      throw new Error('the API did not answer, or did not allow this page to read its answer')
    }
    log.push({
      method,
      url: String(url),
      sent,
      status: response.status,
      statusText: response.statusText,
      received: Object.fromEntries(response.headers),
      body: await response.clone().text()
    })
    return response
  }
}

/** Sends exactly these headers. */
export async function send (log, url, headers, method = 'GET') {
  await recorder(log)(new URL(url), { method, headers }).catch(() => {})
}

/** A call as a good client makes it: a fresh proof, and a second try when the service asks for its nonce. */
export async function call (log, url, token, dpop) {
  const request = () => oauth.protectedResourceRequest(token, 'GET', new URL(url), undefined, undefined, {
    DPoP: dpop, [oauth.customFetch]: recorder(log), [oauth.allowInsecureRequests]: true
  })
  try {
    await request()
  } catch (error) {
    // Whatever else went wrong is in the log.
    if (oauth.isDPoPNonceError(error)) await request().catch(() => {})
  }
}

/** The same without the second try: what an attacker has who gets no nonce for a proof made in advance. */
export async function callOnce (log, url, token, dpop) {
  await oauth.protectedResourceRequest(token, 'GET', new URL(url), undefined, undefined, {
    DPoP: dpop, [oauth.customFetch]: recorder(log), [oauth.allowInsecureRequests]: true
  }).catch(() => {})
}

export const last = (log) => log[log.length - 1]
