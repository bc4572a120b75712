import type { RegisteredClaims } from './registered-claims.ts'

/**
 * The verified claims of an access token (RFC 9068 section 2.2). It has no index signature, so that a misspelt claim does not compile.
 * An application adds its own claims by declaration merging. They are optional there: only the provider promises them.
 *
 * This file holds nothing else. The package exports it as a whole, because only then can its users merge into the interface.
 */
export interface AccessTokenClaims extends RegisteredClaims {
  /** The issuer of the token, one of those of the settings. */
  readonly iss: string
  /** Who the token speaks for: a user, or a client. It is unique only together with `iss`. */
  readonly sub: string
  /** The APIs that the token is meant for; this one is among them. */
  readonly aud: string | readonly string[]
  /** When the token expires, in Unix seconds. */
  readonly exp: number
  /** Before this time the token is not valid, in Unix seconds. */
  readonly nbf?: number
  /** When the token was issued, in Unix seconds. */
  readonly iat?: number
  /** The key or the certificate that the token is bound to (RFC 7800, RFC 9449 section 6.1, RFC 8705 section 3.1). */
  readonly cnf?: {
    /** RFC 7638 thumbprint of the key. */
    readonly jkt?: string
    /** SHA-256 thumbprint of the certificate. */
    readonly 'x5t#S256'?: string
  }
}
