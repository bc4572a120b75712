import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { listen, stop } from './listen.ts'

export type LocalTransmitter = Awaited<ReturnType<typeof startTransmitter>>

const KEY_ID = 'events'
const SESSION_REVOKED = 'https://schemas.openid.net/secevent/caep/event-type/session-revoked'

/**
 * A transmitter of security events on loopback, beside the local provider (Shared Signals Framework 1.0, RFC 8417, RFC
 * 8935). Its keys are new each time.
 */
export async function startTransmitter ({ port, audience }: { port: number, audience: string }) {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { modulusLength: 2048 })
  const jwk = { ...await exportJWK(publicKey), kid: KEY_ID, alg: 'RS256', use: 'sig' }
  const documents = new Map<string, object>()
  const server = createServer(({ url = '' }, response) => {
    const document = documents.get(url)
    response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(document ?? {}))
  })
  const issuer = `http://localhost:${await listen(server, port)}`
  documents.set('/.well-known/ssf-configuration', {
    issuer,
    jwks_uri: `${issuer}/keys`,
    delivery_methods_supported: ['urn:ietf:rfc:8935'],
    default_subjects: 'ALL'
  })
  documents.set('/keys', { keys: [jwk] })
  return {
    issuer,
    /** Pushes to a receiver that all sessions of a subject have ended. Returns the status of its answer. */
    async pushEnd (receiver: string, subject: object) {
      const body = await new SignJWT({ sub_id: subject, events: { [SESSION_REVOKED]: {} } })
        .setProtectedHeader({ alg: 'RS256', kid: KEY_ID, typ: 'secevent+jwt' }).setIssuer(issuer).setAudience(audience)
        .setJti(randomUUID()).setIssuedAt().sign(privateKey)
      const { status } = await fetch(receiver, {
        method: 'POST',
        headers: { 'content-type': 'application/secevent+jwt' },
        body
      })
      return status
    },
    close: () => stop(server)
  }
}
