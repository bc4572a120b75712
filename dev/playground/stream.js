// An answer that stays open.
import * as oauth from '/vendor/oauth4webapi.js'
import { sendBound, recorder } from './exchange.js'

/** The body of a stream has no end, so only that of a refusal is noted. */
const bodyOfRefusal = response => response.ok ? '' : response.clone().text()

/**
 * Opens a stream of server-sent events with the token. Resolves when it has begun, with `counts`, the numbers of events
 * so far until the stream is over, and `close`. It is undefined if it did not begin; the log says why.
 */
export async function openStream (log, url, token, dpop) {
  const response = await request(recorder(log, bodyOfRefusal), url, token, dpop).catch(() => undefined)
  if (!response?.ok) return undefined
  const reader = response.body.getReader()
  return { counts: countsOf(reader), close: () => reader.cancel() }
}

async function request (fetchAs, url, token, dpop) {
  if (dpop === undefined) return fetchAs(url, { method: 'GET', headers: { authorization: `Bearer ${token}` } })
  const once = () => sendBound(fetchAs, url, token, dpop)
  return once().catch(error => {
    if (oauth.isDPoPNonceError(error)) return once()
    throw error
  })
}

async function * countsOf (reader) {
  const decoder = new TextDecoder()
  let events = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      events += decoder.decode(value, { stream: true }).split('\n\n').length - 1
      yield events
    }
  } catch {
    // The service cuts it off, so that a part is not mistaken for the whole.
  }
}
