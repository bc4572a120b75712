import type { Revocation } from '../../lib/revocation/view.ts'

/** The members of a token's claims that a new login changes. */
export interface LoginClaims {
  readonly jti?: unknown
  readonly sid?: unknown
  readonly iat?: unknown
  readonly auth_time?: unknown
}

interface NewLoginOptions<Claims extends LoginClaims> {
  /** Of the token that was refused. */
  readonly claims: Claims
  /** Whether a token with these claims is refused now. */
  readonly isRefused: (claims: Claims) => boolean
  readonly clockToleranceSeconds: number
  /** Unix seconds. */
  readonly now: number
}

/**
 * The first second of a login that counts after a revocation: the one after the event, or, if its sender is not the
 * issuer of the token, the one after the tolerance that is added to it. Undefined if one counts at once (a session has
 * ended), or not at all (a user is blocked).
 */
export function newLoginAt<Claims extends LoginClaims> (
  { at }: Revocation,
  { claims, isRefused, clockToleranceSeconds, now }: NewLoginOptions<Claims>
): number | undefined {
  const second = Math.floor(at)
  const last = second + clockToleranceSeconds
  const isRefusedAt = (time: number): boolean =>
    isRefused({
      ...claims,
      jti: 'new',
      sid: 'new',
      iat: time,
      ...claims.auth_time !== undefined && { auth_time: time }
    })
  if (!isRefusedAt(second)) return undefined
  if (!isRefusedAt(second + 1)) return second + 1
  // A time that is ahead of the clock by more than the tolerance is refused in any case. A block is, too, later.
  const isBlock = now >= second + 1 && isRefusedAt(last + 1)
  return isBlock ? undefined : last + 1
}
