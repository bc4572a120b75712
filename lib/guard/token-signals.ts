import type { Refusal } from '../refusal.ts'
import type { VerifiedToken } from '../token/verified-tokens.ts'

/** What a signal watches: a token, for as long as a request lives by it. */
export interface WatchedToken {
  readonly token: VerifiedToken
  /** Called once, when the token may no longer be used. */
  end (reason: TokenEnd): void
}

/** Why what a token has opened is closed. It is the `reason` of the signal. */
export type TokenEnd = 'token_revoked' | 'token_expired'

export interface TokenSignalsOptions {
  /** Why a token that is valid by itself is refused. Undefined if nothing can be revoked. */
  readonly revocationOf: ((token: VerifiedToken) => Refusal | undefined) | undefined
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: () => number
  /** Runs something again and again. Returns what ends it. */
  readonly every: (ms: number, run: () => void) => () => void
}

/** Whatever is open ends within a second. */
const LOOK_MS = 250

/** Tells what is open that its token has been revoked, or has become too old. */
export interface TokenSignals {
  /** Watches for as long as the caller holds on to `watched`: nothing else does, so what is forgotten costs nothing. */
  watch (watched: WatchedToken): void
  close (): void
}

export function createTokenSignals ({ revocationOf, clockToleranceSeconds, now, every }: TokenSignalsOptions): TokenSignals {
  const watched = new Set<WeakRef<WatchedToken>>()
  let stop: (() => void) | undefined

  function look (): void {
    for (const reference of watched) {
      const one = reference.deref()
      const reason = one && endOf(one.token)
      if (one && reason === undefined) continue
      watched.delete(reference)
      one?.end(reason!)
    }
    if (watched.size > 0) return
    stop!()
    stop = undefined
  }

  function endOf (token: VerifiedToken): TokenEnd | undefined {
    if (now() >= token.expiresAt + clockToleranceSeconds) return 'token_expired'
    // That nothing is known just now ends nothing: the next request is refused.
    return revocationOf?.(token)?.reason === 'token_revoked' ? 'token_revoked' : undefined
  }

  return {
    watch (one) {
      watched.add(new WeakRef(one))
      stop ??= every(LOOK_MS, look)
    },
    close () {
      stop?.()
      watched.clear()
    }
  }
}
