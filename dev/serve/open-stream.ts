import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyPluginAsync } from 'fastify'
import { decodeJwt } from 'jose'
import type { Revocation } from '../../lib/revocation/cutoffs.ts'
import type { RevocableToken } from '../../lib/revocation/target.ts'

const PAUSE_MS = 1000

/** What has revoked a token, and from which second on a new login counts, in Unix seconds. */
export interface ShownRevocation extends Revocation {
  /** Undefined if one counts at once, or not at all. */
  readonly newLoginAt?: number | undefined
}

/**
 * `GET /dev/stream`: server-sent events without end, for the playground. `GET /dev/revocation`: what has revoked the
 * token of the request, or null. It checks nothing of the token. The service itself has no such routes: `npm run dev`
 * adds them.
 */
const routes: FastifyPluginAsync = async app => {
  const { guardRevocation: revocation } = app
  // Every path of a gate is for its rules.
  if (app.gate || !revocation) return
  app.get(
    '/dev/stream',
    {
      onRequest: app.authenticate(),
      schema: { hide: true }
    },
    (_request, reply) =>
      reply.type('text/event-stream').header('cache-control', 'no-store').send(Readable.from(events()))
  )

  app.get('/dev/revocation', { schema: { hide: true } }, ({ headers }, reply) => {
    const claims = decodeJwt<{ cnf?: { jkt?: string } }>(String(headers.authorization).split(' ')[1] ?? '')
    const revokedBy = (changed: object = {}): Revocation | undefined =>
      revocation.revocations.revocationOf({
        claims: { ...claims, ...changed },
        issuer: claims.iss,
        binding: { jkt: claims.cnf?.jkt, x5tS256: undefined }
      } as unknown as RevocableToken)
    const found = revokedBy()
    const isRefusedAt = (time: number): boolean =>
      revokedBy({ jti: 'new', sid: 'new', iat: time, auth_time: time }) !== undefined
    const shown: ShownRevocation | null = found
      ? { ...found, newLoginAt: newLoginAt(found, isRefusedAt, app.settings.idp.clockToleranceSeconds) }
      : null
    reply.header('cache-control', 'no-store').type('application/json').send(JSON.stringify(shown))
  })
}
export default routes

/**
 * The first second of a login that counts: the one after the event, or, if the sender is not the issuer of the token,
 * the one after the tolerance that is added to it.
 */
function newLoginAt (
  { at }: Revocation,
  isRefusedAt: (time: number) => boolean,
  toleranceSeconds: number
): number | undefined {
  const second = Math.floor(at)
  if (!isRefusedAt(second)) return undefined
  if (!isRefusedAt(second + 1)) return second + 1
  const last = second + toleranceSeconds
  // A time that is still ahead of the clock by more than the tolerance is refused in any case. A block is, too, later.
  const isBlock = Math.floor(Date.now() / 1000) > second && isRefusedAt(last + 1)
  return isBlock ? undefined : last + 1
}

async function * events (): AsyncGenerator<string> {
  for (let number = 1; ; number++) {
    yield `id: ${number}\ndata: event ${number}\n\n`
    await delay(PAUSE_MS)
  }
}
