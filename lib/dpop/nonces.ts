import { createHmac } from 'node:crypto'

/** Seconds for which one nonce is handed out, and seconds for which it is accepted after it was made. */
export const NONCE_ROTATION_SECONDS = 60
export const NONCE_LIFETIME_SECONDS = 300

export type Nonces = ReturnType<typeof createNonces>

/**
 * Server-provided nonces (RFC 9449 sections 8 and 9) without state. Each nonce is a keyed hash of the minute in which it is handed
 * out, so all instances with the same secret make and accept the same nonces.
 * @param secrets the first secret makes nonces, and all of them verify nonces, so that a secret can be replaced without refusing a
 * client
 */
export function createNonces (secrets: readonly Buffer[]) {
  let newestSlot = NaN
  let newest = ''
  let expiries = new Map<string, number>()

  function turn (now: number): void {
    const slot = Math.floor(now / NONCE_ROTATION_SECONDS)
    if (slot === newestSlot) return
    newestSlot = slot
    newest = makeNonce(secrets[0]!, slot)
    expiries = new Map()
    // One slot ahead: the clock of another instance may already be in the next slot.
    for (let s = slot + 1; s > slot - NONCE_LIFETIME_SECONDS / NONCE_ROTATION_SECONDS; s--) {
      for (const secret of secrets) expiries.set(makeNonce(secret, s), s * NONCE_ROTATION_SECONDS + NONCE_LIFETIME_SECONDS)
    }
  }

  return {
    /** The newest nonce: 22 characters of base64url. @param now Unix seconds. */
    current (now: number): string {
      turn(now)
      return newest
    },
    /** The time at which a nonce will be refused, in Unix seconds. Undefined for a nonce that is not ours or not recent. */
    expiryOf (nonce: string, now: number): number | undefined {
      turn(now)
      return expiries.get(nonce)
    }
  }
}

function makeNonce (secret: Buffer, slot: number): string {
  return createHmac('sha256', secret).update(`dpop-nonce ${slot}`).digest('base64url').slice(0, 22)
}
