import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { VerifiedToken } from './token/verified-tokens.ts'

/**
 * Maximum number of clients that are counted at a time. Beyond it, the client that was silent for longest is evicted.
 */
const MAX_CLIENTS = 50_000
const WINDOW_MS = 60_000

/**
 * The longest name that is kept as it is. A subject may fill a whole token, and names of that length would fill the
 * memory.
 */
const MAX_NAME_CHARS = 128

interface RateLimitOptions {
  /** Requests per minute. */
  readonly max: number
  /** Milliseconds from any start. The clock is never set back. */
  readonly nowMs: () => number
  readonly maxClients?: number
}

export type RateLimit = ReturnType<typeof createRateLimit>

/**
 * Counts how many requests each client has sent in its current minute. A minute begins with the first request after the
 * last minute has ended.
 */
export function createRateLimit ({ max, nowMs, maxClients = MAX_CLIENTS }: RateLimitOptions) {
  const clients = new LRUCache<string, { count: number, readonly endsAtMs: number }>({ max: maxClients })

  return {
    /**
     * Counts a request, unless the client has reached its limit.
     * @returns the seconds after which the client may go on, or undefined if the request was counted
     */
    take (client: string): number | undefined {
      const now = nowMs()
      const counted = clients.get(client)
      if (!counted || now >= counted.endsAtMs) {
        clients.set(client, { count: 1, endsAtMs: now + WINDOW_MS })
        return undefined
      }
      if (counted.count >= max) return (counted.endsAtMs - now) / 1000
      counted.count++
      return undefined
    },
    /** Takes back one `take`: the client did not send the request itself, because its proof was a replay. */
    giveBack (client: string) {
      const counted = clients.get(client)
      if (counted && counted.count > 0) counted.count--
    }
  }
}

/**
 * The name under which the requests of one client are counted. It is the key that the token is bound to (RFC 7638
 * thumbprint). For an unbound token it is the subject, which every token has. The client id (RFC 9068 section 2.2) is
 * not used: many providers write none, and if one application serves many users, one of them could use up the limit of
 * the others. Names of the two kinds never meet, and neither do names of two issuers: each chooses its subjects as it
 * likes. No name is longer than 128 characters.
 */
export function clientKey ({ binding: { jkt }, issuer, claims: { sub } }: VerifiedToken): string {
  // An issuer is a URL, which has no space.
  const name = `${jkt === undefined ? 'sub' : 'jkt'}:${issuer} ${jkt ?? sub}`
  return name.length <= MAX_NAME_CHARS ? name : hash('sha256', name, 'base64url')
}
