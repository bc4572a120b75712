import type { DpopMode, AuthScheme } from '../scheme.ts'
import type { TokenClaims } from './jwt-checks.ts'

/** What a token is bound to (RFC 7800): nothing, a key of the client, its certificate, or both. */
export interface Binding {
  /** RFC 7638 thumbprint of the key (RFC 9449 section 6.1). */
  readonly jkt: string | undefined
  /** Thumbprint of the certificate: base64url SHA-256 of its DER form (RFC 8705 section 3.1). */
  readonly x5tS256: string | undefined
}

/** A verified access token, with all that its requests need to know. */
export interface VerifiedToken {
  /** The whole token. */
  readonly text: string
  /** Frozen at every level, because requests share it. */
  readonly claims: TokenClaims
  readonly scopes: readonly string[]
  readonly binding: Binding
  /** base64url SHA-256 of the token, the value that `ath` holds. */
  readonly tokenHash: string
  /** The issuer as the settings name it. */
  readonly issuer: string
  /** Which schemes its issuer lets it be sent with. */
  readonly dpopMode: DpopMode
  /** Unix seconds. */
  readonly expiresAt: number
  /**
   * Whether the trust in the token still holds: for example, its signing key is still published. The token's times are checked
   * elsewhere.
   */
  readonly isTrusted: () => boolean
}

/** Called exactly once, and never inside a `try`. Errors are of the type Refusal. */
export type TokenDone = (error: Error | null, token?: VerifiedToken) => void

/** The boundary between the guard and the kinds of tokens: it turns the text of a token into a verified token. */
export interface TokenVerifier {
  /** A token of exactly this text that was verified before. `verify` decides whether it still passes. */
  known (text: string): VerifiedToken | undefined
  /**
   * A scheme that the issuer of the token does not offer is refused before anything else of the token.
   * @param scheme how the token was sent
   * @param known the result of `known` for this text
   * @param now Unix seconds
   */
  verify (text: string, scheme: AuthScheme, known: VerifiedToken | undefined, now: number, done: TokenDone): void
}
