import { createHmac } from 'node:crypto'

/** Seconds for which one nonce is issued, and seconds for which it is accepted after it was made. */
const NONCE_ROTATION_SECONDS = 60
export const NONCE_LIFETIME_SECONDS = 300

const MAC_CHARACTERS = 22
const OF_ONE_PROCESS = /^([A-Za-z0-9_-]{4})[A-Za-z0-9_-]{22}$/

export type Nonces = ReturnType<typeof createNonces>

/**
 * Server-provided nonces (RFC 9449 sections 8 and 9) without state. Each nonce is a keyed hash of the minute in which
 * it is issued.
 * - `shared`: all instances with the same secret make and accept the same nonces, 22 characters of base64url.
 * - `process`: only this process accepts its nonces, 26 characters. The first 4 name it, to distinguish a nonce of
 * another process from an
 *   old one.
 * @param secrets the first one makes nonces, and all of them verify, so that a secret can be replaced without refusing
 * a client
 */
export function createNonces (secrets: readonly Buffer[], scope: 'shared' | 'process') {
  const own = scope === 'shared' ? '' : macOf(secrets[0]!, 'dpop-nonce process').slice(0, 4)
  let newestSlot = NaN
  let newest!: string
  let expiries = new Map<string, number>()

  function turn (now: number) {
    const slot = Math.floor(now / NONCE_ROTATION_SECONDS)
    if (slot === newestSlot) return
    newestSlot = slot
    newest = makeNonce(secrets[0]!, own, slot)
    expiries = new Map()
    // One slot ahead: the clock of another instance may already be in the next slot.
    for (let s = slot + 1; s > slot - NONCE_LIFETIME_SECONDS / NONCE_ROTATION_SECONDS; s--) {
      for (const secret of secrets) {
        expiries.set(makeNonce(secret, own, s), s * NONCE_ROTATION_SECONDS + NONCE_LIFETIME_SECONDS)
      }
    }
  }

  return {
    /** The newest nonce. @param now Unix seconds. */
    current (now: number): string {
      turn(now)
      return newest
    },
    /**
     * The time at which a nonce will be refused, in Unix seconds. Undefined for a nonce that is not ours or not recent.
     */
    expiryOf (nonce: string, now: number): number | undefined {
      turn(now)
      return expiries.get(nonce)
    },
    /**
     * Whether a nonce that is not accepted looks like one of another process. Only for advice: any client can write
     * such a text.
     */
    isOfAnotherProcess (nonce: string): boolean {
      const process = processOfNonce(nonce)
      return own !== '' && process !== undefined && process !== own
    }
  }
}

/**
 * The 4 characters that name the process of a nonce, or undefined if instances share the nonce, or if it is none of
 * ours.
 */
export function processOfNonce (nonce: string): string | undefined {
  return OF_ONE_PROCESS.exec(nonce)?.[1]
}

function makeNonce (secret: Buffer, process: string, slot: number): string {
  return process + macOf(secret, `dpop-nonce ${process}${slot}`).slice(0, MAC_CHARACTERS)
}

function macOf (secret: Buffer, text: string): string {
  return createHmac('sha256', secret).update(text).digest('base64url')
}
