/**
 * The verified claims of an access token (RFC 9068 section 2.2). It has no index signature, so that a misspelt claim does not compile.
 * An application adds its own claims by declaration merging. They are optional there: nobody but the provider promises them.
 *
 * This file holds nothing else. The package exports it as a whole, because only then can its users merge into the interface.
 */
export interface AccessTokenClaims {
  readonly iss: string
  readonly sub: string
  readonly aud: string | readonly string[]
  /** Unix seconds. */
  readonly exp: number
  readonly nbf?: number
  readonly iat?: number
  readonly scope?: unknown
  readonly permissions?: unknown
  readonly email?: unknown
  /** RFC 7800: the key that the token is bound to. */
  readonly cnf?: { readonly jkt?: string, readonly 'x5t#S256'?: string }
}
