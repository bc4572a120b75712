import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Duplex } from 'node:stream'
import { UpstreamError } from './upstream.ts'

/** What the upstream made of the question for another protocol (RFC 9110 section 7.8). */
export type UpgradeAnswer =
  { readonly kind: 'upgraded', readonly response: IncomingMessage, readonly socket: Duplex, readonly head: Buffer } |
  /** The upstream's own answer, which the client gets. */
  { readonly kind: 'refused', readonly response: IncomingMessage }

export interface UpgradeRequest {
  /** Scheme, host and port of the upstream. */
  readonly origin: string
  readonly method: string
  readonly target: string
  /** Names and values in turn, without those of the connection. */
  readonly headers: readonly string[]
  /** The protocols that the client asks for. */
  readonly protocols: string
  readonly timeoutSeconds: number
}

/**
 * Asks the upstream for another protocol, on a connection of its own. undici is not used: it does not give the answer of a refusal.
 * @throws UpstreamError
 */
export function askForUpgrade ({ origin, method, target, headers, protocols, timeoutSeconds }: UpgradeRequest): Promise<UpgradeAnswer> {
  const send = origin.startsWith('https:') ? httpsRequest : httpRequest
  const request = send(origin, {
    method,
    path: target,
    headers: [...headers, 'connection', 'upgrade', 'upgrade', protocols],
    setHost: false,
    agent: false,
    timeout: timeoutSeconds * 1000
  })
  return new Promise<UpgradeAnswer>((resolve, reject) => {
    request.once('upgrade', (response, socket, head) => {
      socket.setTimeout(0)
      resolve({ kind: 'upgraded', response, socket, head })
    })
    request.once('response', response => resolve({ kind: 'refused', response }))
    request.once('timeout', () => request.destroy(new UpstreamError(504, 'The upstream is too slow')))
    request.once('error', error => reject(error instanceof UpstreamError ? error : new UpstreamError(502, 'The upstream failed', error)))
    request.end()
  })
}

/** Joins two connections: what one sends, the other gets. If one ends, so does the other. */
export function joinConnections (a: Duplex, b: Duplex): void {
  for (const [from, to] of [[a, b], [b, a]] as const) {
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
    from.pipe(to)
  }
}
