// Made from specs.ts and section-specs.ts by npm run generate.

import type { JwsAlg } from '../jose/signature.ts'
import type { ClaimValue } from '../requirement/requirement.ts'

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** Each member may be left out, or be undefined. */
type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined }

/** How tokens are introspected at the provider (RFC 7662). */
export interface IntrospectionOptions extends Optional<{
  /**
   * Which tokens are introspected at the provider: opaque ones, JWTs after their own checks (so that a revoked one is
   * refused), or all. Values: off, opaque, jwt or all; of several issuers, only one can have opaque or all. Default:
   * `off`.
   */
  for: 'off' | 'opaque' | 'jwt' | 'all'
  /**
   * The introspection endpoint of the provider. Values: https URL (http for a loopback host) without user info.
   * Default: found by discovery.
   */
  endpoint: string
  /**
   * How long an answer about an active token is used; a revoked token passes for at most this time. Values: integer, 0
   * to 300. Default: `10`.
   */
  cacheSeconds: number
  /** Whether answers are signed JWTs (RFC 9701). Values: true or false. Default: `false`. */
  signed: boolean
  /**
   * Whether an answer about an opaque token may leave out `aud`; then only the provider ensures that a token is for
   * this API. Values: true or false. Default: `false`.
   */
  audienceOptional: boolean
  /**
   * The client as which this service asks about tokens. Values: any non-empty string. Default: required for
   * introspection.
   */
  clientId: string
  /**
   * Secret of that client. Values: any non-empty string; in the file also { file: PATH } or { env: NAME }. Default:
   * required for client_secret_basic and client_secret_post.
   */
  clientSecret: SecretOption
  /**
   * How that client proves itself. Values: client_secret_basic, client_secret_post or private_key_jwt. Default:
   * `client_secret_basic`.
   */
  auth: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'
  /**
   * Private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used. Values: path of a file.
   * Default: required for private_key_jwt.
   */
  keyFile: string
  /**
   * The `aud` of the assertions of private_key_jwt, for a provider that wants another one than its issuer: WSO2 wants
   * its token endpoint. Values: any non-empty string. Default: the issuer, as the provider spells it.
   */
  assertionAudience: string
}> {}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export interface IssuerOptions extends Optional<{
  /**
   * Issuer of the tokens, if it is not https://{domain}/. Values: https URL (http for a loopback host, or beside an
   * https jwksUri or a keysFile) without user info, query or fragment. Default: https://{domain}/.
   */
  issuer: string
  /**
   * Host of the identity provider; it issues the tokens and publishes the keys. Values: host, optionally with :port; no
   * scheme, path or user info. Default: required, unless IDP_ISSUER is set.
   */
  domain: string
  /**
   * Identifier of this API at the provider; the `aud` of a token must match it exactly. Values: any non-empty string.
   * Default: required.
   */
  audience: string
  /**
   * The claim that must hold the audience, for a provider whose access tokens have no `aud`; such a token is meant for
   * a client, not for this API. Values: aud, client_id or azp. Default: `aud`.
   */
  audienceClaim: 'aud' | 'client_id' | 'azp'
  /**
   * Address of the signing keys; if it is set, there is no discovery. Values: https URL (http for a loopback host)
   * without user info. Default: found by discovery.
   */
  jwksUri: string
  /**
   * File with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read
   * again when it changes. Values: path of a file. Default: none: the keys come from the provider.
   */
  keysFile: string
  /**
   * Accepted signature algorithms of access tokens. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256,
   * RS384, RS512, EdDSA, Ed25519, ML-DSA-44. Default: `RS256`.
   */
  algs: JwsAlg | readonly JwsAlg[]
  /** Claims that grant scopes. Values: list of scope, scp, permissions. Default: `scope`. */
  scopeClaims: 'scope' | 'scp' | 'permissions' | ReadonlyArray<'scope' | 'scp' | 'permissions'>
  /** Whether DPoP is switched off, accepted or required. Values: DISABLED, ALLOWED or REQUIRED. Default: ALLOWED. */
  dpopMode: 'DISABLED' | 'ALLOWED' | 'REQUIRED'
  /** How tokens are introspected at the provider (RFC 7662). */
  introspection: IntrospectionOptions
}> {}

/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the `iss` of a token
 * that is not verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do
 * not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

/** One entry of `gate.rules`: the requests that it is for, and what they need. */
export interface GateRuleOptions extends Optional<{
  /** Without it, all methods; `GET` holds for `HEAD` too. */
  methods: readonly string[]
  /** With `anyone`, no token is looked at. Default: `token`. */
  allow: 'anyone' | 'token'
  /** The token needs all of these scopes. */
  scope: string | readonly string[]
  /** The token needs any one of these scopes. */
  anyScope: string | readonly string[]
  /**
   * Claims by name (`realm_access.roles` leads into an object), each with a value or with a list of values of which one
   * is enough.
   */
  claims: Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>
  /** The `acr` claim must be one of these (RFC 9470). */
  acr: string | readonly string[]
  /** The user must have logged in at most this many seconds ago (RFC 9470). */
  maxAgeSeconds: number
  /** Takes the place of the configured audience. */
  audience: string
  /** Takes the place of `gate.timeoutSeconds`. */
  timeoutSeconds: number
  /** Whether a connection may become another protocol, such as WebSocket. Default: `false`. */
  upgrade: boolean
  /**
   * The messages of the Model Context Protocol (Streamable HTTP) that the rule is for; the body of each POST on such a
   * path decides, and several rules may share the path; without both members, all messages that no other rule of the
   * path names.
   */
  mcp: McpTargetOptions
}> {
  /** In the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`. */
  readonly path: string
}

/** `mcp` of a rule. */
export interface McpTargetOptions extends Optional<{
  /** Methods, such as `initialize` or `resources/read`; no `*`. */
  methods: string | readonly string[]
  /**
   * Names of tools, such as `delete_order`, or `read_*` for all that begin so; they imply `tools/call`, and contradict
   * any other method.
   */
  tools: string | readonly string[]
  /**
   * Whether the answers to `tools/list`, which `methods` must name, hold only tools that a rule of the path is for;
   * reverse proxy only. Default: `false`.
   */
  onlyRuled: boolean
}> {}

/** The section `gate`. */
export interface GateOptions extends Optional<{
  /** Http or https URL of a host; without it, the gate is only asked by proxies. */
  upstream: string
  /** A request without a rule does not pass. */
  rules: readonly GateRuleOptions[]
  /**
   * Whether the upstream tells paths apart that differ in case, in escapes, in a suffix or in a slash at the end.
   * Default: `false`.
   */
  exactPaths: boolean
  /**
   * How long the upstream may be silent, before the first byte and between two (an event stream: only before the
   * first), and the client in the body of its request. Default: `30`.
   */
  timeoutSeconds: number
  /**
   * How long connections to the upstream are kept without a request; less than the upstream keeps them. With 0, each
   * request has its own. Default: `4`.
   */
  idleSeconds: number
  /** The `Host` that the upstream gets: that of the client, or its own. Default: `client`. */
  host: 'client' | 'upstream'
  /** Most bytes of the body of a request; any number unless given. */
  bodyLimit: number
  /** Claims that the upstream gets: their names, or a map from the end of a header's name to a claim. */
  claims: readonly string[] | Readonly<Record<string, string>>
  /** Whether `Authorization` and `DPoP` go to the upstream. Default: `false`. */
  passCredentials: boolean
  /**
   * Path of the private key that signs statements (PKCS#8 in PEM form, EC P-256), or a list of them: the first signs,
   * all are published.
   */
  statementKey: string | SecretPlace | ReadonlyArray<string | SecretPlace>
  /** The `aud` of statements if a proxy asks. */
  statementAudience: string
  /** Path before `/health`, `/metrics` and `/docs`, such as `/-`. */
  ownPrefix: string
  /** Port for Envoy's gRPC service. */
  grpcPort: number
}> {}

/** The section `audit`. */
export interface AuditOptions extends Optional<{
  /**
   * Key under which subjects, clients, actors and `jti`s are written as pseudonyms (HMAC-SHA-256): base64url of 32
   * bytes or more.
   */
  pseudonymKey: SecretPlace
  /** Whether requests with credentials get 503 while no line can be written. Default: `false`. */
  required: boolean
}> {
  /** `off`, `log` for the log of the service, or the path of a file. */
  readonly to: string
}

/** A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment. */
export type SecretOption = string | SecretPlace

/** Where a secret is. */
export type SecretPlace = {
  /** Path of the file that holds it. */
  readonly file: string
} | {
  /** Name of the variable that holds it. */
  readonly env: string
}

/** A transmitter of the Shared Signals Framework. */
export interface TransmitterOptions extends Optional<{
  /** The address of its configuration, if it is not under the issuer (SSF 1.0 section 7.2). */
  metadata: string
  /** The `aud` of its events; with `manage` it may be left out: then it is that of the stream. */
  audience: string
  /** Where events are fetched; without it, where the stream says. */
  endpoint: string
  /** The issuers about whose tokens it may speak; without it, only itself. */
  tokenIssuers: readonly string[]
  /** The claim of access tokens that holds the session; `false`: a session means its user. Default: `sid`. */
  sessionClaim: string | false
  /**
   * The claim of access tokens that a subject of a format, or a member of a complex subject, is compared with. Default:
   * `{}`.
   */
  subjectClaims: Readonly<Record<string, string>>
  /** The client as which the stream is managed and polled. */
  clientId: string
  /** The secret of that client. */
  clientSecret: SecretOption
  /** How that client proves itself. Default: `client_secret_basic`. */
  clientAuth: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'
  /** Private key of that client for `private_key_jwt`: PEM, or a JWK whose `alg` and `kid` are used. */
  keyFile: string
  /** Where the client gets its token for the transmitter; without it, by discovery under the issuer. */
  tokenEndpoint: string
  /** Whether the stream is created, or found, at the start. Default: `false`. */
  manage: boolean
  /** The stream, if the client has several. */
  streamId: string
  /** The whole value of the Authorization header that each push must have. */
  pushAuthorization: SecretOption
  /** Whether its events may come without `typ`. Default: `false`. */
  untyped: boolean
}> {
  /** Its issuer, which its configuration must name. */
  readonly issuer: string
  /** How events come: it posts them to `/revocation/events` (RFC 8935), or they are fetched (RFC 8936). */
  readonly delivery: 'push' | 'poll'
}

/** A client of a provider that sends logout tokens. */
export interface LogoutOptions extends Optional<{
  /** May be left out if there is one issuer. */
  issuer: string
  /** The claim of access tokens that holds the session; `false`: they have none. Default: `sid`. */
  sessionClaim: string | false
  /** Accepted signature algorithms of the logout tokens; without it, those of the access tokens of the issuer. */
  algs: readonly JwsAlg[]
}> {
  /** The client whose id is the `aud` of the logout tokens. */
  readonly clientId: string
}

/** The section `revocation`. */
export interface RevocationOptions extends Optional<{
  /** Shared Signals transmitters. */
  transmitters: readonly TransmitterOptions[]
  /** Clients for which a provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0). */
  logout: LogoutOptions | readonly LogoutOptions[]
  /** Operators, who revoke by `POST /revocation/subjects`. */
  operators: {
    /** The scope that their tokens need. */
    readonly scope: string
  } & Optional<{
    /** The issuers that they act for, beside that of their own token; `*`: all, and keys too. Default: ``. */
    issuers: readonly string[]
  }>
  /** Seconds for which cutoffs are kept, and so the longest life of a token. Default: `86400`. */
  retentionSeconds: number
  /** Seconds for which the store may be silent. Default: `10`. */
  staleSeconds: number
  /** What holds while the store is silent. Default: `refuse`. */
  outage: 'refuse' | 'serve'
  /** `memory`, or the URL of a Redis; the one of `dpop.replay` unless given. */
  store: SecretOption
}> {}

/** Options in the shape of the configuration file. */
export interface FileOptions extends Optional<{
  /** The identity provider, and which of its tokens pass. */
  idp: IssuerOptions & Optional<{
    /**
     * Scopes that bring others along: a token with the first one is judged as if it had the others too. Values: map
     * from a scope to a list of scopes, without circles. Default: none.
     */
    scopeImplies: Readonly<Record<string, string | readonly string[]>>
    /**
     * Several issuers, each with settings of its own; what an entry leaves out is taken from the setting of that name
     * beside the list. Values: list of 1 to 50 objects with issuer or domain, and with audience, audienceClaim,
     * jwksUri, keysFile, algs, scopeClaims, dpopMode or introspection where they differ; not beside idp.domain or
     * idp.issuer. Default: none: one issuer, by idp.domain or idp.issuer.
     */
    issuers: readonly IssuerOptions[] | IssuerLookup
    /**
     * The most issuers of a function in `issuers` that are kept; each has keys of its own. Values: integer, 1 to
     * 100000. Default: `5000`.
     */
    maxIssuers: number
    /**
     * Claim that the profile endpoint returns (only the service). Values: name with a namespace, such as
     * https://example.com/team. Default: none: custom_claim is null.
     */
    customClaim: string
    /**
     * Tolerance for exp and nbf of tokens, and for revocations not by their issuer. Values: integer, 0 to 300. Default:
     * `5`.
     */
    clockToleranceSeconds: number
    /** false means mode DISABLED. Values: true or false. Default: true. */
    dpopEnabled: boolean
    /** true means mode REQUIRED. Values: true or false. Default: false. */
    dpopRequired: boolean
    /** How old a proof may be. Values: integer, 0 or more. Default: `300`. */
    dpopIatOffsetSeconds: number
    /** How far in the future a proof may be. Values: integer, 0 or more. Default: `30`. */
    dpopIatLeewaySeconds: number
  }>
  /** The answers of the whole service. */
  api: Optional<{
    /** Which answers are given and which port is the default (only the service). Values: 1 or 2. Default: `1`. */
    profile: '1' | '2' | 1 | 2
    /** Form of the bodies of errors (only the service). Values: default or detailed. Default: `default`. */
    errorBody: 'default' | 'detailed'
  }>
  /** Which proofs pass (RFC 9449). */
  dpop: Optional<{
    /**
     * Accepted signature algorithms of proofs. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256, RS384,
     * RS512, EdDSA, Ed25519, ML-DSA-44. Default: `ES256 ES384 EdDSA Ed25519 PS256 RS256`.
     */
    algs: JwsAlg | readonly JwsAlg[]
    /**
     * Where used proofs are recorded; several instances must share a Redis. Values: memory, off, or a redis:// or
     * rediss:// URL; in the file also { file: PATH } or { env: NAME }. Default: `memory`.
     */
    replay: SecretOption
    /**
     * Maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests
     * get 429. Values: integer, 1 to 100000000. Default: `2000000`.
     */
    replayMax: number
    /** Whether a proof needs a nonce from this service. Values: off or required. Default: `off`. */
    nonce: 'off' | 'required'
    /** Whether the age of a proof (iat) is checked beside its nonce. Values: ignored or checked. Default: `ignored`. */
    nonceIat: 'ignored' | 'checked'
    /**
     * With a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same
     * list; with `memory` it is not used, and a warning says so. Values: list of one or more secrets, each at least 32
     * bytes in base64url; in the file also { file: PATH } or { env: NAME }. Default: random at start; with a Redis
     * store, with a warning.
     */
    nonceSecret: SecretOption | readonly SecretOption[]
  }>
  /** The address under which clients reach the app, and the peers that are believed. */
  server: Optional<{
    /**
     * Identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside
     * the audience. Values: https URL without user info, query or fragment. Default: the audience if it is an https
     * URL, else PUBLIC_URL, else the address that the client used.
     */
    resource: string
    /**
     * Where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an
     * application that ends TLS itself), or in the header of a trusted proxy. Values: off, socket, client-cert (RFC
     * 9440), nginx (X-SSL-Client-Cert), xfcc (X-Forwarded-Client-Cert), alb (X-Amzn-Mtls-Clientcert-Leaf or
     * X-Amzn-Mtls-Clientcert) or traefik (X-Forwarded-Tls-Client-Cert); a header needs TRUST_PROXY. Default: `off`.
     */
    clientCertificate: 'off' | 'socket' | 'client-cert' | 'nginx' | 'xfcc' | 'alb' | 'traefik'
    /**
     * fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256,
     * EdDSA or Ed25519, which are then the defaults. Values: none or fapi2. Default: `none`.
     */
    securityProfile: 'none' | 'fapi2'
    /**
     * Peers whose forwarded headers are believed. Values: false, true, or a list of addresses, CIDRs and the names
     * loopback, linklocal, uniquelocal; not a number of hops. Default: `false`.
     */
    trustProxy: boolean | string | readonly string[]
    /**
     * Address under which clients reach this service; if it is set, no header can change it. Values: http or https URL,
     * optionally with a plain path. Default: none: taken from each request.
     */
    publicUrl: string
    /**
     * Origins of browser applications that may call this API (only the service). Values: list of origins
     * (scheme://host[:port], no path), or *. Default: none: CORS is off.
     */
    corsOrigins: string | readonly string[]
    /**
     * Headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside
     * WWW-Authenticate, DPoP-Nonce and Retry-After (only the service). Values: list of names of headers, without *.
     * Default: none.
     */
    corsHeaders: string | readonly string[]
    /**
     * Most requests per minute of one client to guarded routes; each instance counts for itself. Values: off, or an
     * integer, 1 or more. Default: `off`.
     */
    rateLimit: 'off' | number
    /** The /metrics endpoint (only the service). Values: on or off. Default: `on`. */
    metrics: 'on' | 'off'
    /**
     * Lowest level that is logged (only the service). Values: fatal, error, warn, info, debug, trace or silent.
     * Default: `info`.
     */
    logLevel: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'
  }>
  /**
   * Writes one line of JSON for each decision about a request with credentials, and for each refusal. Values: off, log,
   * the path of a file, or a section with to, pseudonymKey and required. Default: off.
   */
  audit: string | AuditOptions
  /**
   * Makes the service the guard of other services (docs/guide/gate.md); the sample routes under /api are then not
   * served (only the service). Values: a section with members such as upstream and rules. Default: no gate.
   */
  gate: GateOptions
  /**
   * Refuses tokens that their provider, their user or an operator has taken back, from the moment at which any instance
   * learns of it. Values: a section with transmitters, logout or operators: docs/reference/revocation.md. Default: off.
   */
  revocation: RevocationOptions
}> {}

type OptionAt<Path, Options = FileOptions> = Path extends `${infer Word}.${infer Rest}`
  ? OptionAt<Rest, NonNullable<Options[Word & keyof Options]>>
  : Options[Path & keyof Options]

/** Options under other names. What is written as text there may be written as the value too. */
type AsVariables<Paths> = { readonly [K in keyof Paths]?: OptionAt<Paths[K]> | Text | undefined }

/** Options under the names of the environment. */
export interface EnvironmentOptions extends AsVariables<{
  /**
   * Host of the identity provider; it issues the tokens and publishes the keys. Values: host, optionally with :port; no
   * scheme, path or user info. Default: required, unless IDP_ISSUER is set.
   */
  IDP_DOMAIN: 'idp.domain'
  /**
   * Identifier of this API at the provider; the `aud` of a token must match it exactly. Values: any non-empty string.
   * Default: required.
   */
  IDP_AUDIENCE: 'idp.audience'
  /**
   * Issuer of the tokens, if it is not https://{domain}/. Values: https URL (http for a loopback host, or beside an
   * https jwksUri or a keysFile) without user info, query or fragment. Default: https://{domain}/.
   */
  IDP_ISSUER: 'idp.issuer'
  /**
   * The claim that must hold the audience, for a provider whose access tokens have no `aud`; such a token is meant for
   * a client, not for this API. Values: aud, client_id or azp. Default: `aud`.
   */
  IDP_AUDIENCE_CLAIM: 'idp.audienceClaim'
  /**
   * Address of the signing keys; if it is set, there is no discovery. Values: https URL (http for a loopback host)
   * without user info. Default: found by discovery.
   */
  IDP_JWKS_URI: 'idp.jwksUri'
  /**
   * Accepted signature algorithms of access tokens. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256,
   * RS384, RS512, EdDSA, Ed25519, ML-DSA-44. Default: `RS256`.
   */
  IDP_ALGS: 'idp.algs'
  /**
   * File with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read
   * again when it changes. Values: path of a file. Default: none: the keys come from the provider.
   */
  IDP_KEYS_FILE: 'idp.keysFile'
  /** Claims that grant scopes. Values: list of scope, scp, permissions. Default: `scope`. */
  IDP_SCOPE_CLAIMS: 'idp.scopeClaims'
  /**
   * Which tokens are introspected at the provider: opaque ones, JWTs after their own checks (so that a revoked one is
   * refused), or all. Values: off, opaque, jwt or all; of several issuers, only one can have opaque or all. Default:
   * `off`.
   */
  IDP_INTROSPECTION: 'idp.introspection.for'
  /**
   * The introspection endpoint of the provider. Values: https URL (http for a loopback host) without user info.
   * Default: found by discovery.
   */
  IDP_INTROSPECTION_ENDPOINT: 'idp.introspection.endpoint'
  /**
   * How long an answer about an active token is used; a revoked token passes for at most this time. Values: integer, 0
   * to 300. Default: `10`.
   */
  IDP_INTROSPECTION_CACHE_SECONDS: 'idp.introspection.cacheSeconds'
  /**
   * The client as which this service asks about tokens. Values: any non-empty string. Default: required for
   * introspection.
   */
  IDP_CLIENT_ID: 'idp.introspection.clientId'
  /**
   * Secret of that client. Values: any non-empty string; in the file also { file: PATH } or { env: NAME }. Default:
   * required for client_secret_basic and client_secret_post.
   */
  IDP_CLIENT_SECRET: 'idp.introspection.clientSecret'
  /**
   * How that client proves itself. Values: client_secret_basic, client_secret_post or private_key_jwt. Default:
   * `client_secret_basic`.
   */
  IDP_CLIENT_AUTH: 'idp.introspection.auth'
  /**
   * Private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used. Values: path of a file.
   * Default: required for private_key_jwt.
   */
  IDP_CLIENT_KEY_FILE: 'idp.introspection.keyFile'
  /**
   * Claim that the profile endpoint returns (only the service). Values: name with a namespace, such as
   * https://example.com/team. Default: none: custom_claim is null.
   */
  IDP_CUSTOM_CLAIM: 'idp.customClaim'
  /**
   * Tolerance for exp and nbf of tokens, and for revocations not by their issuer. Values: integer, 0 to 300. Default:
   * `5`.
   */
  IDP_CLOCK_TOLERANCE_SECONDS: 'idp.clockToleranceSeconds'
  /** Which answers are given and which port is the default (only the service). Values: 1 or 2. Default: `1`. */
  API_PROFILE: 'api.profile'
  /** Form of the bodies of errors (only the service). Values: default or detailed. Default: `default`. */
  ERROR_BODY: 'api.errorBody'
  /** false means mode DISABLED. Values: true or false. Default: true. */
  DPOP_ENABLED: 'idp.dpopEnabled'
  /** true means mode REQUIRED. Values: true or false. Default: false. */
  DPOP_REQUIRED: 'idp.dpopRequired'
  /** Whether DPoP is switched off, accepted or required. Values: DISABLED, ALLOWED or REQUIRED. Default: ALLOWED. */
  IDP_DPOP_MODE: 'idp.dpopMode'
  /** How old a proof may be. Values: integer, 0 or more. Default: `300`. */
  IDP_DPOP_IAT_OFFSET_SECONDS: 'idp.dpopIatOffsetSeconds'
  /** How far in the future a proof may be. Values: integer, 0 or more. Default: `30`. */
  IDP_DPOP_IAT_LEEWAY_SECONDS: 'idp.dpopIatLeewaySeconds'
  /**
   * Accepted signature algorithms of proofs. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256, RS384,
   * RS512, EdDSA, Ed25519, ML-DSA-44. Default: `ES256 ES384 EdDSA Ed25519 PS256 RS256`.
   */
  DPOP_ALGS: 'dpop.algs'
  /**
   * Where used proofs are recorded; several instances must share a Redis. Values: memory, off, or a redis:// or
   * rediss:// URL; in the file also { file: PATH } or { env: NAME }. Default: `memory`.
   */
  DPOP_REPLAY: 'dpop.replay'
  /**
   * Maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests
   * get 429. Values: integer, 1 to 100000000. Default: `2000000`.
   */
  DPOP_REPLAY_MAX: 'dpop.replayMax'
  /** Whether a proof needs a nonce from this service. Values: off or required. Default: `off`. */
  DPOP_NONCE: 'dpop.nonce'
  /** Whether the age of a proof (iat) is checked beside its nonce. Values: ignored or checked. Default: `ignored`. */
  DPOP_NONCE_IAT: 'dpop.nonceIat'
  /**
   * With a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same
   * list; with `memory` it is not used, and a warning says so. Values: list of one or more secrets, each at least 32
   * bytes in base64url; in the file also { file: PATH } or { env: NAME }. Default: random at start; with a Redis store,
   * with a warning.
   */
  DPOP_NONCE_SECRET: 'dpop.nonceSecret'
  /**
   * Identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside
   * the audience. Values: https URL without user info, query or fragment. Default: the audience if it is an https URL,
   * else PUBLIC_URL, else the address that the client used.
   */
  RESOURCE: 'server.resource'
  /**
   * Where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an
   * application that ends TLS itself), or in the header of a trusted proxy. Values: off, socket, client-cert (RFC
   * 9440), nginx (X-SSL-Client-Cert), xfcc (X-Forwarded-Client-Cert), alb (X-Amzn-Mtls-Clientcert-Leaf or
   * X-Amzn-Mtls-Clientcert) or traefik (X-Forwarded-Tls-Client-Cert); a header needs TRUST_PROXY. Default: `off`.
   */
  CLIENT_CERTIFICATE: 'server.clientCertificate'
  /**
   * Writes one line of JSON for each decision about a request with credentials, and for each refusal. Values: off, log,
   * the path of a file, or a section with to, pseudonymKey and required. Default: off.
   */
  AUDIT: 'audit'
  /**
   * fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256,
   * EdDSA or Ed25519, which are then the defaults. Values: none or fapi2. Default: `none`.
   */
  SECURITY_PROFILE: 'server.securityProfile'
  /**
   * Peers whose forwarded headers are believed. Values: false, true, or a list of addresses, CIDRs and the names
   * loopback, linklocal, uniquelocal; not a number of hops. Default: `false`.
   */
  TRUST_PROXY: 'server.trustProxy'
  /**
   * Address under which clients reach this service; if it is set, no header can change it. Values: http or https URL,
   * optionally with a plain path. Default: none: taken from each request.
   */
  PUBLIC_URL: 'server.publicUrl'
  /**
   * Origins of browser applications that may call this API (only the service). Values: list of origins
   * (scheme://host[:port], no path), or *. Default: none: CORS is off.
   */
  CORS_ORIGINS: 'server.corsOrigins'
  /**
   * Headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside
   * WWW-Authenticate, DPoP-Nonce and Retry-After (only the service). Values: list of names of headers, without *.
   * Default: none.
   */
  CORS_HEADERS: 'server.corsHeaders'
  /**
   * Most requests per minute of one client to guarded routes; each instance counts for itself. Values: off, or an
   * integer, 1 or more. Default: `off`.
   */
  RATE_LIMIT: 'server.rateLimit'
  /** The /metrics endpoint (only the service). Values: on or off. Default: `on`. */
  METRICS: 'server.metrics'
  /**
   * Lowest level that is logged (only the service). Values: fatal, error, warn, info, debug, trace or silent. Default:
   * `info`.
   */
  LOG_LEVEL: 'server.logLevel'
}>, Optional<{
  /**
   * Port to listen on (only the service). Values: integer, 0 (any free port) to 65535. Default: 8000 in profile 1, 8080
   * in profile 2.
   */
  PORT: number | Text
  /**
   * The service that the gate guards, in place of gate.upstream; without gate.rules, any valid token passes for every
   * path (only the service). Values: http or https URL of a host, with a port or without, and nothing more. Default:
   * gate.upstream.
   */
  GATE_UPSTREAM: string
  /**
   * Proxy for calls to an https provider if HTTPS_PROXY is not set; an http provider (on loopback) is called directly.
   * Values: http or https URL. Default: none.
   */
  HTTP_PROXY: string
  /** Proxy for calls to an https provider. Values: http or https URL. Default: none. */
  HTTPS_PROXY: string
  /**
   * Hosts that are called without a proxy. Values: hosts, addresses and CIDRs, separated by commas, or *. Default:
   * none.
   */
  NO_PROXY: string
}> {}

type None<T> = { readonly [K in keyof T]?: never }

/** Options in one of the two forms, never both. */
export type HoldfastOptions = (FileOptions & None<EnvironmentOptions>) | (EnvironmentOptions & None<FileOptions>)
