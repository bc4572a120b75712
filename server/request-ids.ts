import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createPeerTrust, type TrustProxy } from '../lib/guard/url/base-url.ts'

const ACCEPTED = /^[A-Za-z0-9._-]{1,128}$/

/** The parts of a request that its id is made from. */
type IdentifiedMessage = Pick<IncomingMessage, 'headers'> & {
  readonly socket: { readonly remoteAddress?: string }
}

/**
 * Makes the id of a request for the log. If the peer is a trusted proxy and `X-Request-Id` is a plain word of at most
 * 128 characters, the id is that word. Otherwise it is our own id, unique among instances and restarts.
 */
export function createRequestIds (trustProxy: TrustProxy): (message: IdentifiedMessage) => string {
  const isTrusted = createPeerTrust(trustProxy)
  const instance = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers, socket }) => {
    const given = headers['x-request-id']
    if (typeof given === 'string' && ACCEPTED.test(given) && isTrusted(socket.remoteAddress)) return given
    return `${instance}-${(count++).toString(36)}`
  }
}
