/**
 * The verified claims of an access token (RFC 9068 section 2.2). It has no index signature, so that a misspelt claim
 * does not compile. An application adds its own claims by declaration merging. They are optional there: only the
 * provider promises them.
 *
 * The package exports this file as a whole, because only then can its users merge into the interface: it holds no other
 * types.
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
    readonly jkt?: string,
    /** SHA-256 thumbprint of the certificate. */
    readonly 'x5t#S256'?: string
  }
}

/**
 * Claims that a provider may put into an access token, by RFC 9068 section 2.2 and RFC 9470 section 6. The guard checks
 * what a route asks for, and passes the others on. An application may declare any of them again, with a narrower type.
 */
export interface RegisteredClaims {
  /** The client that the token was issued to (RFC 8693 section 4.3). */
  readonly client_id?: string
  /** Identifies the token (RFC 7519 section 4.1.7). */
  readonly jti?: string
  /** When the user logged in, in Unix seconds. `require({ maxAgeSeconds })` asks for it (RFC 9470). */
  readonly auth_time?: number
  /** The kind of the login. `require({ acr })` asks for it (RFC 9470). */
  readonly acr?: string
  /** How the user logged in (RFC 8176). */
  readonly amr?: readonly string[]
  /** The granted scopes, as the provider writes them. `request.auth.scopes` is the list that the guard has read. */
  readonly scope?: unknown
  /** Granted permissions, of providers that use this claim. */
  readonly permissions?: unknown
  /** Groups of the user (RFC 9068 section 2.2.3.1, RFC 7643 section 4.1.2). */
  readonly groups?: unknown
  /** Roles of the user (RFC 9068 section 2.2.3.1, RFC 7643 section 4.1.2). */
  readonly roles?: unknown
  /** What the user is entitled to (RFC 9068 section 2.2.3.1, RFC 7643 section 4.1.2). */
  readonly entitlements?: unknown
  /** What was granted in detail (RFC 9396 section 9.1). `require({ authorizationDetails })` asks for it. */
  readonly authorization_details?: unknown
  /** The address of the user, as the provider knows it. */
  readonly email?: unknown
}
