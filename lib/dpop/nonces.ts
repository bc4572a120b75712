import { createHmac } from 'node:crypto'

/** How long one nonce is handed out, and how long after its making it is accepted. Seconds. */
export const NONCE_ROTATION_SECONDS = 60
export const NONCE_LIFETIME_SECONDS = 300

/**
 * Server-provided nonces (RFC 9449 sections 8 and 9), without state: each is a keyed hash of the minute in which
 * it is handed out, so every instance with the same secret makes and accepts the same ones.
 */
export interface Nonces {
  /** The newest nonce: 22 characters of base64url. @param now Unix seconds. */
  current (now: number): string
  /** When a nonce will be refused, in Unix seconds; undefined for one that is not ours or not recent. */
  expiryOf (nonce: string, now: number): number | undefined
}

/** @param secrets the first makes nonces, all verify them, so that a secret can be replaced without refusing a client. */
export function createNonces (secrets: readonly Buffer[]): Nonces {
  let newestSlot = NaN
  let newest = ''
  let expiries = new Map<string, number>()

  function turnTo (slot: number): void {
    newestSlot = slot
    newest = makeNonce(secrets[0]!, slot)
    expiries = new Map()
    // One slot ahead: another instance's clock may have turned already.
    for (let s = slot + 1; s > slot - NONCE_LIFETIME_SECONDS / NONCE_ROTATION_SECONDS; s--) {
      for (const secret of secrets) expiries.set(makeNonce(secret, s), s * NONCE_ROTATION_SECONDS + NONCE_LIFETIME_SECONDS)
    }
  }

  function turn (now: number): void {
    const slot = Math.floor(now / NONCE_ROTATION_SECONDS)
    if (slot !== newestSlot) turnTo(slot)
  }

  return {
    current (now) {
      turn(now)
      return newest
    },
    expiryOf (nonce, now) {
      turn(now)
      return expiries.get(nonce)
    }
  }
}

function makeNonce (secret: Buffer, slot: number): string {
  return createHmac('sha256', secret).update(`dpop-nonce ${slot}`).digest('base64url').slice(0, 22)
}
