import type { FastifyRequest } from 'fastify'
import { namesForClient } from '../../lib/gate/headers.ts'
import { valuesOf } from '../../lib/upstream/answer.ts'
import type { UpgradeAnswer, UpgradedConnection } from '../../lib/upstream/upgrade.ts'

/**
 * A connection that has changed its protocol lives no longer than the token that opened it. Each end of it takes the
 * other with it.
 * @returns says who closed it, once it is known
 */
export function closeWithToken (
  request: FastifyRequest,
  socket: UpgradedConnection['socket']
): { by: string | undefined } {
  const { auth } = request
  const closing = { by: undefined as string | undefined }
  if (!auth) return closing
  const end = (): void => {
    closing.by = auth.signal.reason.code
    request.log.info({ reason: closing.by, issuer: auth.issuer }, 'open connection ended')
    socket.destroy()
  }
  auth.signal.addEventListener('abort', end, { once: true })
  // It also keeps `auth`, and with it the signal, for as long as the connection is open.
  socket.once('close', () => auth.signal.removeEventListener('abort', end))
  return closing
}

/** The answer with which the connection of the client changes its protocol. */
export function switchingProtocols (
  { headers }: Extract<UpgradeAnswer, { kind: 'upgraded' }>,
  nonce: string | undefined
): string {
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'connection: Upgrade',
    `upgrade: ${valuesOf(headers, 'upgrade').join(', ')}`
  ]
  for (const name of namesForClient(headers)) {
    lines.push(...valuesOf(headers, name).map(value => `${name}: ${value}`))
  }
  if (nonce !== undefined) lines.push(`dpop-nonce: ${nonce}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}
