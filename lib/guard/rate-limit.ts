import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Binding } from '../token/token-verifier.ts'

/** Clients whose requests are counted at a time. Of more, the one that has been silent for longest starts anew. */
export const MAX_CLIENTS = 50_000
export const WINDOW_MS = 60_000

/** The longest name that is kept as it is. A subject may fill a token, and so would the memory of whoever counts by it. */
const MAX_NAME_CHARS = 128

/** How many requests each client has sent in its current minute. A minute begins with the first request after the last one has ended. */
export interface RateLimit {
  /** Counts a request, unless the client has sent as many as it may. @returns then the seconds after which it may go on, else undefined */
  take (client: string): number | undefined
  /** Takes back one `take`: the request was not the client's own, such as a replay of its proof. */
  giveBack (client: string): void
}

export interface RateLimitOptions {
  /** Requests a minute. */
  readonly max: number
  /** Milliseconds from any start, never set back. */
  readonly nowMs: () => number
  readonly maxClients?: number
}

export function createRateLimit ({ max, nowMs, maxClients = MAX_CLIENTS }: RateLimitOptions): RateLimit {
  const clients = new LRUCache<string, { count: number, readonly endsAtMs: number }>({ max: maxClients })

  return {
    take (client) {
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
    giveBack (client) {
      const counted = clients.get(client)
      if (counted && counted.count > 0) counted.count--
    }
  }
}

/**
 * The name under which requests of one client are counted: the key that its token is bound to (RFC 7638 thumbprint), else the subject,
 * which every token has. Not the client id (RFC 9068 section 2.2): many providers write none, and if one application serves many
 * users, one of them could use up what the others may send. Names of the two kinds never meet, and none is longer than 128 characters.
 */
export function clientKey ({ jkt }: Binding, sub: string): string {
  const name = jkt === undefined ? `sub:${sub}` : `jkt:${jkt}`
  return name.length <= MAX_NAME_CHARS ? name : createHash('sha256').update(name).digest('base64url')
}
