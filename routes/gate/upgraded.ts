import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { namesForClient } from '../../lib/gate/headers.ts'
import { valuesOf, type AnswerHeaders } from '../../lib/gate/upstream/answer.ts'

/**
 * Follows a connection that has changed its protocol. It lives no longer than the token that opened it. Each end of it
 * takes the other with it.
 * @param onClosed gets who closed it
 */
export function followUpgraded (
  request: FastifyRequest,
  client: Socket,
  upstream: Socket,
  onClosed: (closedBy: string) => void
): void {
  const { auth, log, server } = request
  let closedBy: string | undefined
  if (auth) {
    const end = () => {
      closedBy = auth.signal.reason.code
      const { route } = server.holdfastGuard.decisions.routeOf(request)
      log.info({ reason: closedBy, route, issuer: auth.issuer }, 'open connection ended')
      client.destroy()
    }
    // The token may have ended before the upstream answered.
    if (auth.signal.aborted) end()
    else auth.signal.addEventListener('abort', end, { once: true })
    // It also keeps `auth`, and with it the signal, for as long as the connection is open.
    client.once('close', () => auth.signal.removeEventListener('abort', end))
  }
  for (const [side, name] of [[client, 'client'], [upstream, 'upstream']] as const) {
    const note = () => {
      closedBy ??= server.closing.hasBegun ? 'shutdown' : name
    }
    side.once('end', note).once('close', note)
  }
  client.once('close', () => onClosed(closedBy!))
}

/** The answer with which the connection of the client changes its protocol. */
export function switchingProtocols (headers: AnswerHeaders, nonce: string | undefined): string {
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'connection: Upgrade',
    `upgrade: ${valuesOf(headers, 'upgrade').join(', ')}`
  ]
  for (const name of namesForClient(headers)) {
    // RFC 9110 section 8.6: such an answer has no length.
    if (name === 'content-length') continue
    lines.push(...valuesOf(headers, name).map(value => `${name}: ${value}`))
  }
  if (nonce !== undefined) lines.push(`dpop-nonce: ${nonce}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}
