import type { AccessTokenClaims } from './jwt-checks.ts'

/** What a token is bound to (RFC 7800): nothing, or a key of the client. */
export interface Binding {
  /** RFC 7638 thumbprint of the key (RFC 9449 section 6.1). */
  readonly jkt: string | undefined
}

/** An access token that was verified, and all that requests with it need to know. */
export interface VerifiedToken {
  /** The whole token. */
  readonly text: string
  /** Frozen through and through: requests share it. */
  readonly claims: AccessTokenClaims
  readonly scopes: readonly string[]
  readonly binding: Binding
  /** base64url SHA-256 of the token, as `ath` holds it. */
  readonly tokenHash: string
  /** The issuer as the settings have it. */
  readonly issuer: string
  /** Unix seconds. */
  readonly expiresAt: number
  /** Whether what it was verified with still counts, such as the key that signed it. Its time is judged apart. */
  readonly isTrusted: () => boolean
}

/** Called exactly once, never inside a `try`. Errors are of the type Refusal. */
export type TokenDone = (error: Error | null, token?: VerifiedToken) => void

/** The seam between the guard and the kinds of tokens: it turns the text of a token into one that is verified. */
export interface TokenVerifier {
  /** A token of exactly this text that was verified before. Whether it still passes is for `verify` to say. */
  known (text: string): VerifiedToken | undefined
  /** @param known what `known` gave for this text. @param now Unix seconds. */
  verify (text: string, known: VerifiedToken | undefined, now: number, done: TokenDone): void
}
