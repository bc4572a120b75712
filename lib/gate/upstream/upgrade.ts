import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { linesByName } from '../../guard/message.ts'
import { faultOf, isEventStream, UpstreamError, type AnswerHeaders, type UpstreamAnswer } from './answer.ts'
import { tlsNameOf } from './origin.ts'
import type { UpstreamOptions, UpstreamRequest } from './upstream.ts'

/** A connection whose client asks for another protocol. The server reads it no further. */
export interface UpgradedConnection {
  readonly socket: Socket
  /** What the client has sent behind the head of its request. */
  readonly head: Buffer
}

/**
 * How the upstream answers a request for another protocol (RFC 9110 section 7.8). The client gets the upstream's own
 * refusal.
 */
type UpgradeAnswer =
  | { readonly kind: 'upgraded', readonly headers: AnswerHeaders } & UpgradedConnection
  | { readonly kind: 'refused' } & UpstreamAnswer

export interface UpgradeRequest
  extends Pick<UpstreamRequest, 'method' | 'target' | 'headers'>, Pick<UpstreamOptions, 'origin' | 'timeoutSeconds'> {
  /** The protocols that the client asks for. */
  readonly protocols: string
}

/** RFC 9110 section 7.8. */
const PROTOCOL = /^[\w!#$%&'*+.^`|~-]+(?:\/[\w!#$%&'*+.^`|~-]+)?$/
/** Protocols that carry further requests. No rule would see them. */
const CARRIES_REQUESTS = /^(?:h2c?|https?|tls)(?:\/|$)/i
/** Bytes that a client may send before its connection has changed. More are read later. */
const MAX_EARLY_BYTES = 64 * 1024
/** Milliseconds of silence after which the system probes whether the other side is alive. */
export const KEEP_ALIVE_MS = 60_000

/**
 * The protocols of an `Upgrade` header that the upstream may be asked for, or undefined if there are none, or if it is
 * no list of protocols: another reader could find `h2c` in it.
 */
export function protocolsOf (upgrade: string | undefined): string | undefined {
  const asked = (upgrade ?? '').split(',').map(protocol => protocol.trim()).filter(protocol => protocol !== '')
  if (!asked.every(protocol => PROTOCOL.test(protocol))) return undefined
  const protocols = asked.filter(protocol => !CARRIES_REQUESTS.test(protocol))
  return protocols.length === 0 ? undefined : protocols.join(', ')
}

const namesOf = (protocols: string) => protocols.split(',').map(protocol => protocol.split('/')[0]!.trim())

/** Whether each protocol of an answer was asked for: a server must not change to another one, such as `h2c`. */
function isAsked (answered: string, protocols: string): boolean {
  const asked = new Set(namesOf(protocols.toLowerCase()))
  return namesOf(answered.toLowerCase()).every(name => asked.has(name))
}

/**
 * Asks the upstream for another protocol, on a connection of its own. undici is not used: it does not give the answer
 * of a refusal. `answer` rejects with an UpstreamError; `end` makes it do so.
 */
export function requestUpgrade (
  { origin, method, target, headers, protocols, timeoutSeconds }: UpgradeRequest
): { readonly answer: Promise<UpgradeAnswer>, end (error: UpstreamError): void } {
  const send = origin.startsWith('https:') ? httpsRequest : httpRequest
  const request = send(origin, {
    method,
    path: target,
    headers: [...headers, 'connection', 'upgrade', 'upgrade', protocols],
    setHost: false,
    agent: false,
    servername: tlsNameOf(origin),
    timeout: timeoutSeconds * 1000
  } as object)
  let awaited: ClientRequest | IncomingMessage = request
  const answer = new Promise<UpgradeAnswer>((resolve, reject) => {
    request.once('upgrade', (response, socket, head) => {
      // Node keeps a part of many lines.
      if (isAsked(response.headers.upgrade ?? '', protocols)) {
        return resolve({ kind: 'upgraded', headers: headersOf(response), socket, head })
      }
      socket.destroy()
      reject(new UpstreamError(502, 'The upstream changed to a protocol that was not asked for'))
    })
    request.once('response', response => {
      const [status, headers] = [response.statusCode!, headersOf(response)]
      // 101 comes here if it names no protocol.
      const fault = faultOf(status, headers)
      if (fault) return request.destroy(fault)
      // If its request were destroyed, an answer without a length would end as if it were whole.
      awaited = isEventStream({ status, headers }) ? response.setTimeout(0) : response
      resolve({ kind: 'refused', status, headers, body: response })
    })
    request.once('timeout', () => awaited.destroy(new UpstreamError(504, 'The upstream is too slow')))
    request.once(
      'error',
      error => reject(error instanceof UpstreamError ? error : new UpstreamError(502, 'The upstream failed', error))
    )
    request.end()
  })
  return {
    answer,
    end: error => {
      request.destroy(error)
    }
  }
}

function headersOf ({ rawHeaders }: IncomingMessage): AnswerHeaders {
  return Object.fromEntries(linesByName(rawHeaders))
}

/**
 * Reads what a client sends while it waits for the answer, because the end of an unread connection is not noticed.
 * @returns the function that ends this and gives what was read
 */
export function watchClient (socket: Socket, onGone: () => void): () => Buffer {
  const early: Buffer[] = []
  let size = 0
  function take (chunk: Buffer) {
    early.push(chunk)
    size += chunk.length
    if (size > MAX_EARLY_BYTES) socket.pause()
  }
  socket.on('data', take).once('end', onGone).once('close', onGone)
  return () => {
    socket.off('data', take).off('end', onGone).off('close', onGone).pause()
    return Buffer.concat(early)
  }
}

/**
 * Joins two connections: what one sends, the other gets. If one ends, so does the other. They may be silent for any
 * time. The system ends a connection whose other side is gone.
 */
export function joinConnections (a: Socket, b: Socket): void {
  for (const [from, to] of [[a, b], [b, a]] as const) {
    from.setTimeout(0)
    from.setKeepAlive(true, KEEP_ALIVE_MS)
    // Without a listener an error would throw; 'close' follows.
    from.on('error', () => {})
    from.on('close', () => to.destroy())
    from.pipe(to)
  }
}
