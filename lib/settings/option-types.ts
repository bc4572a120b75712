// Made from specs.ts and section-specs.ts by npm run generate.

import type { JwsAlg } from '../jose/signature.ts'
import type { ClaimValue } from '../requirement/requirement.ts'

/** Any text, as a variable holds it. An editor still proposes the words beside it. */
type Text = string & {}

/** How tokens are introspected at the provider (RFC 7662). */
export interface IntrospectionOptions {
  /**
   * Which tokens are introspected at the provider: opaque ones, JWTs after their own checks (so that a revoked one is
   * refused), or all. Values: off, opaque, jwt or all; of several issuers, only one can have opaque or all. Default:
   * `off`.
   */
  readonly for?: 'off' | 'opaque' | 'jwt' | 'all' | undefined
  /**
   * The introspection endpoint of the provider. Values: https URL (http for a loopback host) without user info.
   * Default: found by discovery.
   */
  readonly endpoint?: string | undefined
  /**
   * How long an answer about an active token is used; a revoked token passes for at most this time. Values: integer, 0
   * to 300. Default: `10`.
   */
  readonly cacheSeconds?: number | undefined
  /** Whether answers are signed JWTs (RFC 9701). Values: true or false. Default: `false`. */
  readonly signed?: boolean | undefined
  /**
   * Whether an answer about an opaque token may leave out `aud`; then only the provider ensures that a token is for
   * this API. Values: true or false. Default: `false`.
   */
  readonly audienceOptional?: boolean | undefined
  /**
   * The client as which this service asks about tokens. Values: any non-empty string. Default: required for
   * introspection.
   */
  readonly clientId?: string | undefined
  /**
   * Secret of that client. Values: any non-empty string; in the file also { file: PATH } or { env: NAME }. Default:
   * required for client_secret_basic and client_secret_post.
   */
  readonly clientSecret?: SecretOption | undefined
  /**
   * How that client proves itself. Values: client_secret_basic, client_secret_post or private_key_jwt. Default:
   * `client_secret_basic`.
   */
  readonly auth?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt' | undefined
  /**
   * Private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used. Values: path of a file.
   * Default: required for private_key_jwt.
   */
  readonly keyFile?: string | undefined
  /**
   * The `aud` of the assertions of private_key_jwt, for a provider that wants another one than its issuer: WSO2 wants
   * its token endpoint. Values: any non-empty string. Default: the issuer, as the provider spells it.
   */
  readonly assertionAudience?: string | undefined
}

/** One issuer of several. What it leaves out is taken from the option of that name beside the list. */
export interface IssuerOptions {
  /**
   * Issuer of the tokens, if it is not https://{domain}/. Values: https URL (http for a loopback host, or beside an
   * https jwksUri or a keysFile) without user info, query or fragment. Default: https://{domain}/.
   */
  readonly issuer?: string | undefined
  /**
   * Host of the identity provider; it issues the tokens and publishes the keys. Values: host, optionally with :port; no
   * scheme, path or user info. Default: required, unless IDP_ISSUER is set.
   */
  readonly domain?: string | undefined
  /**
   * Identifier of this API at the provider; the `aud` of a token must match it exactly. Values: any non-empty string.
   * Default: required.
   */
  readonly audience?: string | undefined
  /**
   * The claim that must hold the audience, for a provider whose access tokens have no `aud`; such a token is meant for
   * a client, not for this API. Values: aud, client_id or azp. Default: `aud`.
   */
  readonly audienceClaim?: 'aud' | 'client_id' | 'azp' | undefined
  /**
   * Address of the signing keys; if it is set, there is no discovery. Values: https URL (http for a loopback host)
   * without user info. Default: found by discovery.
   */
  readonly jwksUri?: string | undefined
  /**
   * File with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read
   * again when it changes. Values: path of a file. Default: none: the keys come from the provider.
   */
  readonly keysFile?: string | undefined
  /**
   * Accepted signature algorithms of access tokens. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256,
   * RS384, RS512, EdDSA, Ed25519, ML-DSA-44. Default: `RS256`.
   */
  readonly algs?: JwsAlg | readonly JwsAlg[] | undefined
  /** Claims that grant scopes. Values: list of scope, scp, permissions. Default: `scope`. */
  readonly scopeClaims?: 'scope' | 'scp' | 'permissions' | ReadonlyArray<'scope' | 'scp' | 'permissions'> | undefined
  /** Whether DPoP is switched off, accepted or required. Values: DISABLED, ALLOWED or REQUIRED. Default: ALLOWED. */
  readonly dpopMode?: 'DISABLED' | 'ALLOWED' | 'REQUIRED' | undefined
  /** How tokens are introspected at the provider (RFC 7662). */
  readonly introspection?: IntrospectionOptions | undefined
}

/**
 * A function of the application that names the issuers, for example one for each tenant. It gets the `iss` of a token
 * that is not verified yet, and answers with the options of that issuer, or with undefined if tokens of that issuer do
 * not pass.
 */
export type IssuerLookup = (iss: string) => Promise<IssuerOptions | undefined> | IssuerOptions | undefined

/** One entry of `gate.rules`: the requests that it is for, and what they need. */
export interface GateRuleOptions {
  /** In the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`. */
  readonly path: string
  /** Without it, all methods; `GET` holds for `HEAD` too. */
  readonly methods?: readonly string[] | undefined
  /** With `anyone`, no token is looked at. Default: `token`. */
  readonly allow?: 'anyone' | 'token' | undefined
  /** The token needs all of these scopes. */
  readonly scope?: string | readonly string[] | undefined
  /** The token needs any one of these scopes. */
  readonly anyScope?: string | readonly string[] | undefined
  /**
   * Claims by name (`realm_access.roles` leads into an object), each with a value or with a list of values of which one
   * is enough.
   */
  readonly claims?: Readonly<Record<string, ClaimValue | readonly ClaimValue[]>> | undefined
  /** The `acr` claim must be one of these (RFC 9470). */
  readonly acr?: string | readonly string[] | undefined
  /** The user must have logged in at most this many seconds ago (RFC 9470). */
  readonly maxAgeSeconds?: number | undefined
  /** Takes the place of the configured audience. */
  readonly audience?: string | undefined
  /** Takes the place of `gate.timeoutSeconds`. */
  readonly timeoutSeconds?: number | undefined
  /** Whether a connection may become another protocol, such as WebSocket. Default: `false`. */
  readonly upgrade?: boolean | undefined
  /**
   * The messages of the Model Context Protocol (Streamable HTTP) that the rule is for; the body of each POST on such a
   * path decides, and several rules may share the path; without both members, all messages that no other rule of the
   * path names.
   */
  readonly mcp?: McpTargetOptions | undefined
}

/** `mcp` of a rule. */
export interface McpTargetOptions {
  /** Methods, such as `initialize` or `resources/read`; no `*`. */
  readonly methods?: string | readonly string[] | undefined
  /**
   * Names of tools, such as `delete_order`, or `read_*` for all that begin so; they imply `tools/call`, and contradict
   * any other method.
   */
  readonly tools?: string | readonly string[] | undefined
  /**
   * Whether the answers to `tools/list`, which `methods` must name, hold only tools that a rule of the path is for;
   * reverse proxy only. Default: `false`.
   */
  readonly onlyRuled?: boolean | undefined
}

/** The section `gate`. */
export interface GateOptions {
  /** Http or https URL of a host; without it, the gate is only asked by proxies. */
  readonly upstream?: string | undefined
  /** A request without a rule does not pass. */
  readonly rules?: readonly GateRuleOptions[] | undefined
  /**
   * Whether the upstream tells paths apart that differ in case, in escapes, in a suffix or in a slash at the end.
   * Default: `false`.
   */
  readonly exactPaths?: boolean | undefined
  /**
   * How long the upstream may be silent, before the first byte and between two (an event stream: only before the
   * first), and the client in the body of its request. Default: `30`.
   */
  readonly timeoutSeconds?: number | undefined
  /**
   * How long connections to the upstream are kept without a request; less than the upstream keeps them. With 0, each
   * request has its own. Default: `4`.
   */
  readonly idleSeconds?: number | undefined
  /** The `Host` that the upstream gets: that of the client, or its own. Default: `client`. */
  readonly host?: 'client' | 'upstream' | undefined
  /** Most bytes of the body of a request; any number unless given. */
  readonly bodyLimit?: number | undefined
  /** Claims that the upstream gets: their names, or a map from the end of a header's name to a claim. */
  readonly claims?: readonly string[] | Readonly<Record<string, string>> | undefined
  /** Whether `Authorization` and `DPoP` go to the upstream. Default: `false`. */
  readonly passCredentials?: boolean | undefined
  /**
   * Path of the private key that signs statements (PKCS#8 in PEM form, EC P-256), or a list of them: the first signs,
   * all are published.
   */
  readonly statementKey?: string | SecretPlace | ReadonlyArray<string | SecretPlace> | undefined
  /** The `aud` of statements if a proxy asks. */
  readonly statementAudience?: string | undefined
  /** Path before `/health`, `/metrics` and `/docs`, such as `/-`. */
  readonly ownPrefix?: string | undefined
  /** Port for Envoy's gRPC service. */
  readonly grpcPort?: number | undefined
}

/** The section `audit`. */
export interface AuditOptions {
  /** `off`, `log` for the log of the service, or the path of a file. */
  readonly to: string
  /**
   * Key under which subjects, clients, actors and `jti`s are written as pseudonyms (HMAC-SHA-256): base64url of 32
   * bytes or more.
   */
  readonly pseudonymKey?: SecretPlace
  /** Whether requests with credentials get 503 while no line can be written. Default: `false`. */
  readonly required?: boolean
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
export interface TransmitterOptions {
  /** Its issuer, which its configuration must name. */
  readonly issuer: string
  /** The address of its configuration, if it is not under the issuer (SSF 1.0 section 7.2). */
  readonly metadata?: string
  /** The `aud` of its events; with `manage` it may be left out: then it is that of the stream. */
  readonly audience?: string
  /** How events come: it posts them to `/revocation/events` (RFC 8935), or they are fetched (RFC 8936). */
  readonly delivery: 'push' | 'poll'
  /** Where events are fetched; without it, where the stream says. */
  readonly endpoint?: string
  /** The issuers about whose tokens it may speak; without it, only itself. */
  readonly tokenIssuers?: readonly string[]
  /** The claim of access tokens that holds the session; `false`: a session means its user. Default: `sid`. */
  readonly sessionClaim?: string | false
  /**
   * The claim of access tokens that a subject of a format, or a member of a complex subject, is compared with. Default:
   * `{}`.
   */
  readonly subjectClaims?: Readonly<Record<string, string>>
  /** The client as which the stream is managed and polled. */
  readonly clientId?: string
  /** The secret of that client. */
  readonly clientSecret?: SecretOption
  /** How that client proves itself. Default: `client_secret_basic`. */
  readonly clientAuth?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'
  /** Private key of that client for `private_key_jwt`: PEM, or a JWK whose `alg` and `kid` are used. */
  readonly keyFile?: string
  /** Where the client gets its token for the transmitter; without it, by discovery under the issuer. */
  readonly tokenEndpoint?: string
  /** Whether the stream is created, or found, at the start. Default: `false`. */
  readonly manage?: boolean
  /** The stream, if the client has several. */
  readonly streamId?: string
  /** The whole value of the Authorization header that each push must have. */
  readonly pushAuthorization?: SecretOption
  /** Whether its events may come without `typ`. Default: `false`. */
  readonly untyped?: boolean
}

/** A client of a provider that sends logout tokens. */
export interface LogoutOptions {
  /** May be left out if there is one issuer. */
  readonly issuer?: string
  /** The client whose id is the `aud` of the logout tokens. */
  readonly clientId: string
  /** The claim of access tokens that holds the session; `false`: they have none. Default: `sid`. */
  readonly sessionClaim?: string | false
  /** Accepted signature algorithms of the logout tokens; without it, those of the access tokens of the issuer. */
  readonly algs?: readonly JwsAlg[]
}

/** The section `revocation`. */
export interface RevocationOptions {
  /** Shared Signals transmitters. */
  readonly transmitters?: readonly TransmitterOptions[]
  /** Clients for which a provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0). */
  readonly logout?: LogoutOptions | readonly LogoutOptions[]
  /** Operators, who revoke by `POST /revocation/subjects`. */
  readonly operators?: {
    /** The scope that their tokens need. */
    readonly scope: string
    /** The issuers that they act for, beside that of their own token; `*`: all, and keys too. Default: ``. */
    readonly issuers?: readonly string[]
  }
  /** Seconds for which cutoffs are kept, and so the longest life of a token. Default: `86400`. */
  readonly retentionSeconds?: number
  /** Seconds for which the store may be silent. Default: `10`. */
  readonly staleSeconds?: number
  /** What holds while the store is silent. Default: `refuse`. */
  readonly outage?: 'refuse' | 'serve'
  /** `memory`, or the URL of a Redis; the one of `dpop.replay` unless given. */
  readonly store?: SecretOption
}

/** Options in the shape of the configuration file. */
export interface FileOptions {
  /** The identity provider, and which of its tokens pass. */
  readonly idp?: IssuerOptions & {
    /**
     * Scopes that bring others along: a token with the first one is judged as if it had the others too. Values: map
     * from a scope to a list of scopes, without circles. Default: none.
     */
    readonly scopeImplies?: Readonly<Record<string, string | readonly string[]>> | undefined
    /**
     * Several issuers, each with settings of its own; what an entry leaves out is taken from the setting of that name
     * beside the list. Values: list of 1 to 50 objects with issuer or domain, and with audience, audienceClaim,
     * jwksUri, keysFile, algs, scopeClaims, dpopMode or introspection where they differ; not beside idp.domain or
     * idp.issuer. Default: none: one issuer, by idp.domain or idp.issuer.
     */
    readonly issuers?: readonly IssuerOptions[] | IssuerLookup | undefined
    /**
     * The most issuers of a function in `issuers` that are kept; each has keys of its own. Values: integer, 1 to
     * 100000. Default: `5000`.
     */
    readonly maxIssuers?: number | undefined
    /**
     * Claim that the profile endpoint returns (only the service). Values: name with a namespace, such as
     * https://example.com/team. Default: none: custom_claim is null.
     */
    readonly customClaim?: string | undefined
    /**
     * Tolerance for exp and nbf of tokens, and for revocations not by their issuer. Values: integer, 0 to 300. Default:
     * `5`.
     */
    readonly clockToleranceSeconds?: number | undefined
    /** false means mode DISABLED. Values: true or false. Default: true. */
    readonly dpopEnabled?: boolean | undefined
    /** true means mode REQUIRED. Values: true or false. Default: false. */
    readonly dpopRequired?: boolean | undefined
    /** How old a proof may be. Values: integer, 0 or more. Default: `300`. */
    readonly dpopIatOffsetSeconds?: number | undefined
    /** How far in the future a proof may be. Values: integer, 0 or more. Default: `30`. */
    readonly dpopIatLeewaySeconds?: number | undefined
  } | undefined
  /** The answers of the whole service. */
  readonly api?: {
    /** Which answers are given and which port is the default (only the service). Values: 1 or 2. Default: `1`. */
    readonly profile?: '1' | '2' | 1 | 2 | undefined
    /** Form of the bodies of errors (only the service). Values: default or detailed. Default: `default`. */
    readonly errorBody?: 'default' | 'detailed' | undefined
  } | undefined
  /** Which proofs pass (RFC 9449). */
  readonly dpop?: {
    /**
     * Accepted signature algorithms of proofs. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256, RS384,
     * RS512, EdDSA, Ed25519, ML-DSA-44. Default: `ES256 ES384 EdDSA Ed25519 PS256 RS256`.
     */
    readonly algs?: JwsAlg | readonly JwsAlg[] | undefined
    /**
     * Where used proofs are recorded; several instances must share a Redis. Values: memory, off, or a redis:// or
     * rediss:// URL; in the file also { file: PATH } or { env: NAME }. Default: `memory`.
     */
    readonly replay?: SecretOption | undefined
    /**
     * Maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests
     * get 429. Values: integer, 1 to 100000000. Default: `2000000`.
     */
    readonly replayMax?: number | undefined
    /** Whether a proof needs a nonce from this service. Values: off or required. Default: `off`. */
    readonly nonce?: 'off' | 'required' | undefined
    /** Whether the age of a proof (iat) is checked beside its nonce. Values: ignored or checked. Default: `ignored`. */
    readonly nonceIat?: 'ignored' | 'checked' | undefined
    /**
     * With a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same
     * list; with `memory` it is not used, and a warning says so. Values: list of one or more secrets, each at least 32
     * bytes in base64url; in the file also { file: PATH } or { env: NAME }. Default: random at start; with a Redis
     * store, with a warning.
     */
    readonly nonceSecret?: SecretOption | readonly SecretOption[] | undefined
  } | undefined
  /** The address under which clients reach the app, and the peers that are believed. */
  readonly server?: {
    /**
     * Identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside
     * the audience. Values: https URL without user info, query or fragment. Default: the audience if it is an https
     * URL, else PUBLIC_URL, else the address that the client used.
     */
    readonly resource?: string | undefined
    /**
     * Where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an
     * application that ends TLS itself), or in the header of a trusted proxy. Values: off, socket, client-cert (RFC
     * 9440), nginx (X-SSL-Client-Cert), xfcc (X-Forwarded-Client-Cert), alb (X-Amzn-Mtls-Clientcert-Leaf or
     * X-Amzn-Mtls-Clientcert) or traefik (X-Forwarded-Tls-Client-Cert); a header needs TRUST_PROXY. Default: `off`.
     */
    readonly clientCertificate?: 'off' | 'socket' | 'client-cert' | 'nginx' | 'xfcc' | 'alb' | 'traefik' | undefined
    /**
     * fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256,
     * EdDSA or Ed25519, which are then the defaults. Values: none or fapi2. Default: `none`.
     */
    readonly securityProfile?: 'none' | 'fapi2' | undefined
    /**
     * Peers whose forwarded headers are believed. Values: false, true, or a list of addresses, CIDRs and the names
     * loopback, linklocal, uniquelocal; not a number of hops. Default: `false`.
     */
    readonly trustProxy?: boolean | string | readonly string[] | undefined
    /**
     * Address under which clients reach this service; if it is set, no header can change it. Values: http or https URL,
     * optionally with a plain path. Default: none: taken from each request.
     */
    readonly publicUrl?: string | undefined
    /**
     * Origins of browser applications that may call this API (only the service). Values: list of origins
     * (scheme://host[:port], no path), or *. Default: none: CORS is off.
     */
    readonly corsOrigins?: string | readonly string[] | undefined
    /**
     * Headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside
     * WWW-Authenticate, DPoP-Nonce and Retry-After (only the service). Values: list of names of headers, without *.
     * Default: none.
     */
    readonly corsHeaders?: string | readonly string[] | undefined
    /**
     * Most requests per minute of one client to guarded routes; each instance counts for itself. Values: off, or an
     * integer, 1 or more. Default: `off`.
     */
    readonly rateLimit?: 'off' | number | undefined
    /** The /metrics endpoint (only the service). Values: on or off. Default: `on`. */
    readonly metrics?: 'on' | 'off' | undefined
    /**
     * Lowest level that is logged (only the service). Values: fatal, error, warn, info, debug, trace or silent.
     * Default: `info`.
     */
    readonly logLevel?: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent' | undefined
  } | undefined
  /**
   * Writes one line of JSON for each decision about a request with credentials, and for each refusal. Values: off, log,
   * the path of a file, or a section with to, pseudonymKey and required. Default: off.
   */
  readonly audit?: string | AuditOptions | undefined
  /**
   * Makes the service the guard of other services (docs/guide/gate.md); the sample routes under /api are then not
   * served (only the service). Values: a section with members such as upstream and rules. Default: no gate.
   */
  readonly gate?: GateOptions | undefined
  /**
   * Refuses tokens that their provider, their user or an operator has taken back, from the moment at which any instance
   * learns of it. Values: a section with transmitters, logout or operators: docs/reference/revocation.md. Default: off.
   */
  readonly revocation?: RevocationOptions | undefined
}

/** Options under the names of the environment. */
export interface EnvironmentOptions {
  /**
   * Host of the identity provider; it issues the tokens and publishes the keys. Values: host, optionally with :port; no
   * scheme, path or user info. Default: required, unless IDP_ISSUER is set.
   */
  readonly IDP_DOMAIN?: string | undefined
  /**
   * Identifier of this API at the provider; the `aud` of a token must match it exactly. Values: any non-empty string.
   * Default: required.
   */
  readonly IDP_AUDIENCE?: string | undefined
  /**
   * Issuer of the tokens, if it is not https://{domain}/. Values: https URL (http for a loopback host, or beside an
   * https jwksUri or a keysFile) without user info, query or fragment. Default: https://{domain}/.
   */
  readonly IDP_ISSUER?: string | undefined
  /**
   * The claim that must hold the audience, for a provider whose access tokens have no `aud`; such a token is meant for
   * a client, not for this API. Values: aud, client_id or azp. Default: `aud`.
   */
  readonly IDP_AUDIENCE_CLAIM?: 'aud' | 'client_id' | 'azp' | Text | undefined
  /**
   * Address of the signing keys; if it is set, there is no discovery. Values: https URL (http for a loopback host)
   * without user info. Default: found by discovery.
   */
  readonly IDP_JWKS_URI?: string | undefined
  /**
   * Accepted signature algorithms of access tokens. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256,
   * RS384, RS512, EdDSA, Ed25519, ML-DSA-44. Default: `RS256`.
   */
  readonly IDP_ALGS?: JwsAlg | readonly JwsAlg[] | Text | undefined
  /**
   * File with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read
   * again when it changes. Values: path of a file. Default: none: the keys come from the provider.
   */
  readonly IDP_KEYS_FILE?: string | undefined
  /** Claims that grant scopes. Values: list of scope, scp, permissions. Default: `scope`. */
  readonly IDP_SCOPE_CLAIMS?: 'scope' | 'scp' | 'permissions' | ReadonlyArray<'scope' | 'scp' | 'permissions'> | Text | undefined
  /**
   * Which tokens are introspected at the provider: opaque ones, JWTs after their own checks (so that a revoked one is
   * refused), or all. Values: off, opaque, jwt or all; of several issuers, only one can have opaque or all. Default:
   * `off`.
   */
  readonly IDP_INTROSPECTION?: 'off' | 'opaque' | 'jwt' | 'all' | Text | undefined
  /**
   * The introspection endpoint of the provider. Values: https URL (http for a loopback host) without user info.
   * Default: found by discovery.
   */
  readonly IDP_INTROSPECTION_ENDPOINT?: string | undefined
  /**
   * How long an answer about an active token is used; a revoked token passes for at most this time. Values: integer, 0
   * to 300. Default: `10`.
   */
  readonly IDP_INTROSPECTION_CACHE_SECONDS?: number | Text | undefined
  /**
   * The client as which this service asks about tokens. Values: any non-empty string. Default: required for
   * introspection.
   */
  readonly IDP_CLIENT_ID?: string | undefined
  /**
   * Secret of that client. Values: any non-empty string; in the file also { file: PATH } or { env: NAME }. Default:
   * required for client_secret_basic and client_secret_post.
   */
  readonly IDP_CLIENT_SECRET?: SecretOption | Text | undefined
  /**
   * How that client proves itself. Values: client_secret_basic, client_secret_post or private_key_jwt. Default:
   * `client_secret_basic`.
   */
  readonly IDP_CLIENT_AUTH?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt' | Text | undefined
  /**
   * Private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used. Values: path of a file.
   * Default: required for private_key_jwt.
   */
  readonly IDP_CLIENT_KEY_FILE?: string | undefined
  /**
   * Claim that the profile endpoint returns (only the service). Values: name with a namespace, such as
   * https://example.com/team. Default: none: custom_claim is null.
   */
  readonly IDP_CUSTOM_CLAIM?: string | undefined
  /**
   * Tolerance for exp and nbf of tokens, and for revocations not by their issuer. Values: integer, 0 to 300. Default:
   * `5`.
   */
  readonly IDP_CLOCK_TOLERANCE_SECONDS?: number | Text | undefined
  /** Which answers are given and which port is the default (only the service). Values: 1 or 2. Default: `1`. */
  readonly API_PROFILE?: '1' | '2' | 1 | 2 | Text | undefined
  /** Form of the bodies of errors (only the service). Values: default or detailed. Default: `default`. */
  readonly ERROR_BODY?: 'default' | 'detailed' | Text | undefined
  /** false means mode DISABLED. Values: true or false. Default: true. */
  readonly DPOP_ENABLED?: boolean | Text | undefined
  /** true means mode REQUIRED. Values: true or false. Default: false. */
  readonly DPOP_REQUIRED?: boolean | Text | undefined
  /** Whether DPoP is switched off, accepted or required. Values: DISABLED, ALLOWED or REQUIRED. Default: ALLOWED. */
  readonly IDP_DPOP_MODE?: 'DISABLED' | 'ALLOWED' | 'REQUIRED' | Text | undefined
  /** How old a proof may be. Values: integer, 0 or more. Default: `300`. */
  readonly IDP_DPOP_IAT_OFFSET_SECONDS?: number | Text | undefined
  /** How far in the future a proof may be. Values: integer, 0 or more. Default: `30`. */
  readonly IDP_DPOP_IAT_LEEWAY_SECONDS?: number | Text | undefined
  /**
   * Accepted signature algorithms of proofs. Values: list of ES256, ES384, ES512, PS256, PS384, PS512, RS256, RS384,
   * RS512, EdDSA, Ed25519, ML-DSA-44. Default: `ES256 ES384 EdDSA Ed25519 PS256 RS256`.
   */
  readonly DPOP_ALGS?: JwsAlg | readonly JwsAlg[] | Text | undefined
  /**
   * Where used proofs are recorded; several instances must share a Redis. Values: memory, off, or a redis:// or
   * rediss:// URL; in the file also { file: PATH } or { env: NAME }. Default: `memory`.
   */
  readonly DPOP_REPLAY?: SecretOption | undefined
  /**
   * Maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests
   * get 429. Values: integer, 1 to 100000000. Default: `2000000`.
   */
  readonly DPOP_REPLAY_MAX?: number | Text | undefined
  /** Whether a proof needs a nonce from this service. Values: off or required. Default: `off`. */
  readonly DPOP_NONCE?: 'off' | 'required' | Text | undefined
  /** Whether the age of a proof (iat) is checked beside its nonce. Values: ignored or checked. Default: `ignored`. */
  readonly DPOP_NONCE_IAT?: 'ignored' | 'checked' | Text | undefined
  /**
   * With a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same
   * list; with `memory` it is not used, and a warning says so. Values: list of one or more secrets, each at least 32
   * bytes in base64url; in the file also { file: PATH } or { env: NAME }. Default: random at start; with a Redis store,
   * with a warning.
   */
  readonly DPOP_NONCE_SECRET?: SecretOption | readonly SecretOption[] | Text | undefined
  /**
   * Identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside
   * the audience. Values: https URL without user info, query or fragment. Default: the audience if it is an https URL,
   * else PUBLIC_URL, else the address that the client used.
   */
  readonly RESOURCE?: string | undefined
  /**
   * Where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an
   * application that ends TLS itself), or in the header of a trusted proxy. Values: off, socket, client-cert (RFC
   * 9440), nginx (X-SSL-Client-Cert), xfcc (X-Forwarded-Client-Cert), alb (X-Amzn-Mtls-Clientcert-Leaf or
   * X-Amzn-Mtls-Clientcert) or traefik (X-Forwarded-Tls-Client-Cert); a header needs TRUST_PROXY. Default: `off`.
   */
  readonly CLIENT_CERTIFICATE?: 'off' | 'socket' | 'client-cert' | 'nginx' | 'xfcc' | 'alb' | 'traefik' | Text | undefined
  /**
   * Writes one line of JSON for each decision about a request with credentials, and for each refusal. Values: off, log,
   * the path of a file, or a section with to, pseudonymKey and required. Default: off.
   */
  readonly AUDIT?: string | AuditOptions | Text | undefined
  /**
   * fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256,
   * EdDSA or Ed25519, which are then the defaults. Values: none or fapi2. Default: `none`.
   */
  readonly SECURITY_PROFILE?: 'none' | 'fapi2' | Text | undefined
  /**
   * Peers whose forwarded headers are believed. Values: false, true, or a list of addresses, CIDRs and the names
   * loopback, linklocal, uniquelocal; not a number of hops. Default: `false`.
   */
  readonly TRUST_PROXY?: boolean | string | readonly string[] | Text | undefined
  /**
   * Address under which clients reach this service; if it is set, no header can change it. Values: http or https URL,
   * optionally with a plain path. Default: none: taken from each request.
   */
  readonly PUBLIC_URL?: string | undefined
  /**
   * Origins of browser applications that may call this API (only the service). Values: list of origins
   * (scheme://host[:port], no path), or *. Default: none: CORS is off.
   */
  readonly CORS_ORIGINS?: string | readonly string[] | Text | undefined
  /**
   * Headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside
   * WWW-Authenticate, DPoP-Nonce and Retry-After (only the service). Values: list of names of headers, without *.
   * Default: none.
   */
  readonly CORS_HEADERS?: string | readonly string[] | Text | undefined
  /**
   * Most requests per minute of one client to guarded routes; each instance counts for itself. Values: off, or an
   * integer, 1 or more. Default: `off`.
   */
  readonly RATE_LIMIT?: 'off' | number | undefined
  /** The /metrics endpoint (only the service). Values: on or off. Default: `on`. */
  readonly METRICS?: 'on' | 'off' | Text | undefined
  /**
   * Lowest level that is logged (only the service). Values: fatal, error, warn, info, debug, trace or silent. Default:
   * `info`.
   */
  readonly LOG_LEVEL?: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent' | Text | undefined
  /**
   * Port to listen on (only the service). Values: integer, 0 (any free port) to 65535. Default: 8000 in profile 1, 8080
   * in profile 2.
   */
  readonly PORT?: number | Text | undefined
  /**
   * The service that the gate guards, in place of gate.upstream; without gate.rules, any valid token passes for every
   * path (only the service). Values: http or https URL of a host, with a port or without, and nothing more. Default:
   * gate.upstream.
   */
  readonly GATE_UPSTREAM?: string | undefined
  /**
   * Proxy for calls to an https provider if HTTPS_PROXY is not set; an http provider (on loopback) is called directly.
   * Values: http or https URL. Default: none.
   */
  readonly HTTP_PROXY?: string | undefined
  /** Proxy for calls to an https provider. Values: http or https URL. Default: none. */
  readonly HTTPS_PROXY?: string | undefined
  /**
   * Hosts that are called without a proxy. Values: hosts, addresses and CIDRs, separated by commas, or *. Default:
   * none.
   */
  readonly NO_PROXY?: string | undefined
}

type None<T> = { readonly [K in keyof T]?: never }

/** Options in one of the two forms, never both. */
export type HoldfastOptions = (FileOptions & None<EnvironmentOptions>) | (EnvironmentOptions & None<FileOptions>)
