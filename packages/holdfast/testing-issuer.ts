import type { CertificateClient } from './testing-certificate.ts'
import type { TestClient } from './testing-client.ts'
import type { TestRevocation } from './testing-revocation.ts'

/** Extra or other claims of a token. A claim that is undefined is left out. */
export type TestClaims = Readonly<Record<string, unknown>>

/** The options of `createTestIssuer`. */
export interface TestIssuerOptions {
  /**
   * The issuer's URL. Nothing is ever sent to it. Default: `https://issuer.test/`; of the second issuer of an app
   * `https://issuer-2.test/`, and so on.
   */
  readonly issuer?: string | undefined
  /** Of a list, its tokens are for the first. Default: that of the issuer beside it, or `https://api.test`. */
  readonly audience?: string | readonly string[] | undefined
  /**
   * The address under which clients reach the app, if it is not the host of the request. Default: that of the issuer
   * beside it.
   */
  readonly publicUrl?: string | undefined
  /**
   * Another issuer of the same app. The new one goes by the clock of that one. Register the app with the options of the
   * new one: they are for both.
   */
  readonly beside?: TestIssuer<TestPluginOptions | JoinedPluginOptions> | undefined
}

/** How the app asks an issuer in memory about opaque tokens (RFC 7662). */
export interface TestIntrospection {
  /** Only opaque tokens are introspected. */
  readonly for: 'opaque'
  /** The client of the app at the issuer. */
  readonly clientId: string
  /** The secret of that client. */
  readonly clientSecret: string
}

/** One issuer of several, as the options of the plugin name it. */
export interface TestIssuerEntry {
  /** The issuer's URL. */
  readonly issuer: string
  /** Identifier of the API, or several. */
  readonly audience: string | readonly string[]
  /** Only the issuer that was made first has opaque tokens. */
  readonly introspection?: TestIntrospection
}

/** How the app is reached. */
export interface TestServerOptions {
  /** The address under which clients reach the app. */
  readonly publicUrl?: string
}

/**
 * What the plugin is registered with. It also carries the keys and the clock of the issuer, and so does a copy of it.
 */
export interface TestPluginOptions {
  /** The identity provider. */
  readonly idp: TestIssuerEntry
  /** How the app is reached. */
  readonly server: TestServerOptions
}

/** The same for an app with several issuers. */
export interface JoinedPluginOptions {
  /** The identity providers. */
  readonly idp: {
    /** In the order in which they were made. */
    readonly issuers: readonly TestIssuerEntry[]
  }
  /** How the app is reached. */
  readonly server: TestServerOptions
}

/** An identity provider in memory: it opens no port and asks no network. */
export interface TestIssuer<Options = TestPluginOptions> {
  /**
   * Options for `holdfast` and `holdfast/service`. For more: `{ ...idp.options, dpop: { nonce: 'required' } }`. Options
   * of your own under `idp` or `server` are joined section by section: `idp: { ...mine.idp, ...idp.options.idp }`.
   */
  readonly options: Options
  /**
   * A Bearer token that passes for 10 minutes, with these claims beside `iss`, `aud`, `sub`, `iat` and `exp`.
   * @example
   * const token = await idp.token({ sub: 'ann', scope: 'read:orders' })
   * await app.inject({ url: '/orders', headers: { authorization: `Bearer ${token}` } }) // 200
   */
  token (claims?: TestClaims): Promise<string>
  /**
   * The same as an opaque token: its claims are what the issuer answers about it. Rejects for an issuer that was made
   * beside another.
   * @example const token = await idp.opaqueToken({ sub: 'ann', scope: 'read:orders' })
   */
  opaqueToken (claims?: TestClaims): Promise<string>
  /**
   * A token that was valid until an hour ago.
   * @example const token = await idp.expiredToken({ scope: 'read:orders' }) // 401 token_expired
   */
  expiredToken (claims?: TestClaims): Promise<string>
  /**
   * A token for another API.
   * @example const token = await idp.wrongAudienceToken({ scope: 'read:orders' }) // 401 token_audience
   */
  wrongAudienceToken (claims?: TestClaims): Promise<string>
  /**
   * A token that names the issuer's key and is signed with another one.
   * @example const token = await idp.wrongKeyToken({ scope: 'read:orders' }) // 401 token_signature
   */
  wrongKeyToken (claims?: TestClaims): Promise<string>
  /**
   * A client with a key of its own, and with a token that is bound to the key (RFC 9449).
   * @example
   * const client = await idp.dpopClient({ sub: 'ann', scope: 'read:orders' })
   * const answer = await client.inject(app, '/orders')
   */
  dpopClient (claims?: TestClaims): Promise<TestClient>
  /**
   * A client with a certificate of its own, and with a token that is bound to it (RFC 8705). A test has no connection
   * with TLS, so its requests carry the certificate in headers. The app reads the one that `server.clientCertificate`
   * names, as behind a proxy, or without that option `Client-Cert`.
   * @example
   * const client = await idp.certificateClient({ scope: 'read:orders' })
   * const answer = await client.inject(app, '/orders')
   */
  certificateClient (claims?: TestClaims): Promise<CertificateClient>
  /**
   * Takes back every token of the issuer with this `sub` that was issued up to now, or with this `sid` or `jti` at any
   * time, in every app that is registered with the options and a section `revocation`. Resolves when it is in force.
   * Rejects if there is no such app. Times of tokens are whole seconds: a new token of the same `sub` passes after
   * `clock.advance(1)`.
   * @example await idp.revoke({ sub: 'ann' })
   */
  revoke (what: TestRevocation): Promise<void>
  /** The clock of the issuer, of its clients, and of every app that is registered with its options. */
  readonly clock: TestClock
}

/** A clock that a test moves. */
export interface TestClock {
  /**
   * Lets time pass.
   * @example idp.clock.advance(3600) // tokens of before have expired
   */
  advance (seconds: number): void
  /**
   * Unix seconds.
   * @example const token = await idp.token({ exp: idp.clock.now() + 5 })
   */
  now (): number
}
