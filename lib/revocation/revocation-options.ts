/** A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment. */
export type SecretOption = string | {
  /** Path of the file that holds it. */
  readonly file: string
} | {
  /** Name of the variable that holds it. */
  readonly env: string
}

/** A transmitter of the Shared Signals Framework, as it is written in `revocation.transmitters`. */
export interface TransmitterOptions {
  /** Its issuer, under which its configuration is found (SSF 1.0 section 7.2). */
  readonly issuer?: string
  /** The address of its configuration, if it is elsewhere. */
  readonly metadata?: string
  /** The `aud` of its events. With `manage` it may be left out: then it is that of the stream. */
  readonly audience?: string
  /** How events come: it posts them to `/revocation/events` (RFC 8935), or they are fetched (RFC 8936). */
  readonly delivery: 'push' | 'poll'
  /** Where events are fetched. Without it, where the stream says. */
  readonly endpoint?: string
  /** The issuers about whose tokens it may speak. Without it, only itself. */
  readonly tokenIssuers?: readonly string[]
  /** The claim of access tokens that holds the session: `sid` unless given. `false`: a session means its user. */
  readonly sessionClaim?: string | false
  /** The claim of access tokens that a subject of a format, or a member of a complex subject, is compared with. */
  readonly subjectClaims?: Readonly<Record<string, string>>
  /** The client as which the stream is managed and polled. */
  readonly clientId?: string
  /** The secret of that client. */
  readonly clientSecret?: SecretOption
  /** Where the client gets its token for the transmitter. Without it, by discovery under the issuer. */
  readonly tokenEndpoint?: string
  /** Whether the stream is created, or found, at the start. */
  readonly manage?: boolean
  /** The whole value of the Authorization header that each push must have. */
  readonly pushAuthorization?: SecretOption
  /** Whether its events may come without `typ`. */
  readonly untyped?: boolean
}

/** A client of a provider that sends logout tokens, as it is written in `revocation.logout`. */
export interface LogoutOptions {
  /** May be left out if there is one issuer. */
  readonly issuer?: string
  /** The client whose id is the `aud` of the logout tokens. */
  readonly clientId: string
  /** The claim of access tokens that holds the session: `sid` unless given. `false`: they have none. */
  readonly sessionClaim?: string | false
}

/** The section `revocation` of the configuration. */
export interface RevocationOptions {
  /** Shared Signals transmitters. */
  readonly transmitters?: readonly TransmitterOptions[]
  /** Clients for which a provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0). */
  readonly logout?: LogoutOptions | readonly LogoutOptions[]
  /** Who may revoke by `POST /revocation/subjects`. */
  readonly operators?: {
    /** The scope that their tokens need. */
    readonly scope: string
  }
  /** Seconds for which cutoffs are kept, and so the longest life of a token. 86400 unless given. */
  readonly retentionSeconds?: number
  /** Seconds for which the store may be silent. 10 unless given. */
  readonly staleSeconds?: number
  /** What holds while the store is silent. `refuse` unless given. */
  readonly outage?: 'refuse' | 'serve'
  /** `memory`, or the URL of a Redis. The one of `dpop.replay` unless given. */
  readonly store?: string
}
