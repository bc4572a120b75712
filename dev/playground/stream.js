// An answer that stays open. It is not noted like other requests, because its body has no end.
import * as oauth from '/vendor/oauth4webapi.js'
import { getBound } from './exchange.js'

/**
 * Opens a stream of server-sent events with the token. `onEvents` is called with the number of events so far. Resolves
 * when it has begun, with `ended`: a promise that settles when the stream is over.
 */
export async function openStream (url, token, dpop, onEvents) {
  const response = await request(url, token, dpop)
  if (!response.ok) throw new Error(`The API answered ${response.status}`)
  return { ended: read(response.body.getReader(), onEvents) }
}

async function request (url, token, dpop) {
  const plain = (address, { method, headers }) => fetch(address, { method, headers, cache: 'no-store' })
  if (dpop === undefined) return plain(url, { method: 'GET', headers: { authorization: `Bearer ${token}` } })
  const once = () => getBound(plain, url, token, dpop)
  return once().catch(error => {
    if (oauth.isDPoPNonceError(error)) return once()
    throw error
  })
}

async function read (reader, onEvents) {
  const decoder = new TextDecoder()
  let events = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return events
      events += decoder.decode(value, { stream: true }).split('\n\n').length - 1
      onEvents(events)
    }
  } catch {
    // The service cuts it off, so that a part is not mistaken for the whole.
    return events
  }
}
