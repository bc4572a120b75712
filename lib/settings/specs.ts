import { CERTIFICATE_SOURCES } from '../certificate/client-certificate.ts'
import { CLIENT_AUTH_METHODS } from '../introspection/client-authentication.ts'
import { JWS_ALGS } from '../jose/signature.ts'
import type { Presence, SettingSpec, ValueOf } from './setting-spec.ts'

/** What an entry of `idp.issuers` may hold. Each member takes what the single setting takes. */
export const ISSUER_MEMBERS = [
  'IDP_ISSUER', 'IDP_DOMAIN', 'IDP_AUDIENCE', 'IDP_JWKS_URI', 'IDP_KEYS_FILE', 'IDP_ALGS', 'IDP_SCOPE_CLAIMS', 'IDP_DPOP_MODE',
  'IDP_INTROSPECTION', 'IDP_INTROSPECTION_ENDPOINT', 'IDP_INTROSPECTION_CACHE_SECONDS', 'IDP_INTROSPECTION_SIGNED', 'IDP_INTROSPECTION_AUDIENCE_OPTIONAL',
  'IDP_CLIENT_ID', 'IDP_CLIENT_SECRET', 'IDP_CLIENT_AUTH', 'IDP_CLIENT_KEY_FILE'
] as const

/**
 * Every setting, written once: its names, its JSON schema, its allowed values in words, and its default. The validation by
 * `@fastify/env`, the types and the table of docs/configuration.md all follow from here.
 */
export const SETTINGS = {
  IDP_DOMAIN: {
    file: 'idp.domain',
    about: 'host of the identity provider; it issues the tokens and publishes the keys',
    schema: { type: 'string', format: 'domain' },
    allowed: 'host, optionally with :port; no scheme, path or user info',
    example: 'tenant.example',
    unset: 'required, unless IDP_ISSUER is set'
  },
  IDP_AUDIENCE: {
    file: 'idp.audience',
    about: 'identifier of this API at the provider; the `aud` of a token must match it exactly',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    example: 'https://api.example',
    unset: 'required'
  },
  IDP_ISSUER: {
    file: 'idp.issuer',
    about: 'issuer of the tokens, if it is not https://{domain}/',
    schema: { type: 'string', format: 'issuer-url' },
    allowed: 'https URL (http for a loopback host) without user info, query or fragment',
    example: 'https://tenant.example/',
    unset: 'https://{domain}/'
  },
  IDP_JWKS_URI: {
    file: 'idp.jwksUri',
    about: 'address of the signing keys; if it is set, there is no discovery',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'https URL (http for a loopback host) without user info',
    example: 'https://tenant.example/.well-known/jwks.json',
    unset: 'found by discovery'
  },
  IDP_ALGS: {
    file: 'idp.algs',
    about: 'accepted signature algorithms of access tokens',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: JWS_ALGS }, default: ['RS256'] },
    allowed: `list of ${JWS_ALGS.join(', ')}`
  },
  IDP_KEYS_FILE: {
    file: 'idp.keysFile',
    about: 'file with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read again when it changes',
    schema: { type: 'string', minLength: 1 },
    allowed: 'path of a file',
    example: '/etc/holdfast/keys.json',
    unset: 'none: the keys come from the provider'
  },
  IDP_SCOPE_CLAIMS: {
    file: 'idp.scopeClaims',
    about: 'claims that grant scopes',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: ['scope', 'scp', 'permissions'] }, default: ['scope'] },
    allowed: 'list of scope, scp, permissions'
  },
  IDP_INTROSPECTION: {
    file: 'idp.introspection.for',
    about: 'which tokens the provider is asked about: opaque ones, JWTs after their own checks (so that a revoked one is refused), or all',
    schema: { type: 'string', enum: ['off', 'opaque', 'jwt', 'all'], default: 'off' },
    allowed: 'off, opaque, jwt or all; of several issuers, only one can have opaque or all'
  },
  IDP_INTROSPECTION_ENDPOINT: {
    file: 'idp.introspection.endpoint',
    about: 'where the provider is asked about tokens',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'https URL (http for a loopback host) without user info',
    example: 'https://tenant.example/introspect',
    unset: 'found by discovery'
  },
  IDP_INTROSPECTION_CACHE_SECONDS: {
    file: 'idp.introspection.cacheSeconds',
    about: 'how long an answer about an active token is used; a revoked token passes for at most this time',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 10 },
    allowed: 'integer, 0 to 300'
  },
  IDP_INTROSPECTION_SIGNED: {
    file: 'idp.introspection.signed',
    environment: false,
    about: 'whether answers are signed JWTs (RFC 9701)',
    schema: { type: 'boolean', default: false },
    allowed: 'true or false'
  },
  IDP_INTROSPECTION_AUDIENCE_OPTIONAL: {
    file: 'idp.introspection.audienceOptional',
    environment: false,
    about: 'whether an answer about an opaque token may leave out `aud`; then only the provider ensures that a token is for this API',
    schema: { type: 'boolean', default: false },
    allowed: 'true or false'
  },
  IDP_CLIENT_ID: {
    file: 'idp.introspection.clientId',
    about: 'the client as which this service asks about tokens',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    example: 'orders-api',
    unset: 'required for introspection'
  },
  IDP_CLIENT_SECRET: {
    file: 'idp.introspection.clientSecret',
    about: 'secret of that client',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    unset: 'required for client_secret_basic and client_secret_post',
    secret: true
  },
  IDP_CLIENT_AUTH: {
    file: 'idp.introspection.auth',
    about: 'how that client proves itself',
    schema: { type: 'string', enum: CLIENT_AUTH_METHODS, default: 'client_secret_basic' },
    allowed: 'client_secret_basic, client_secret_post or private_key_jwt'
  },
  IDP_CLIENT_KEY_FILE: {
    file: 'idp.introspection.keyFile',
    about: 'private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used',
    schema: { type: 'string', minLength: 1 },
    allowed: 'path of a file',
    example: '/etc/holdfast/client-key.pem',
    unset: 'required for private_key_jwt'
  },
  IDP_SCOPE_IMPLIES: {
    environment: false,
    file: 'idp.scopeImplies',
    about: 'scopes that bring others along: a token with the first one is judged as if it had the others too',
    schema: { type: 'object', propertyNames: { format: 'scope' }, additionalProperties: { type: 'array', minItems: 1, items: { type: 'string', format: 'scope' } } },
    allowed: 'map from a scope to a list of scopes, without circles',
    example: { admin: ['read:users', 'write:users'] },
    unset: 'none'
  },
  IDP_ISSUERS: {
    file: 'idp.issuers',
    environment: false,
    about: 'several issuers, each with settings of its own; what an entry leaves out is taken from the setting of that name beside the list',
    schema: { type: 'entries', minItems: 1, maxItems: 50, members: ISSUER_MEMBERS },
    allowed: 'list of 1 to 50 objects with issuer or domain, and with audience, jwksUri, keysFile, algs, scopeClaims, dpopMode or introspection where they differ; not beside idp.domain or idp.issuer',
    example: [{ issuer: 'https://staff.example/' }, { domain: 'partners.example', audience: 'https://partners.api.example' }],
    unset: 'none: one issuer, by idp.domain or idp.issuer'
  },
  IDP_CUSTOM_CLAIM: {
    file: 'idp.customClaim',
    about: 'claim that the profile endpoint returns',
    schema: { type: 'string', format: 'namespaced-claim' },
    allowed: 'name with a namespace, such as https://example.com/team',
    example: 'https://api.example/team',
    unset: 'none: custom_claim is null'
  },
  IDP_CLOCK_TOLERANCE_SECONDS: {
    file: 'idp.clockToleranceSeconds',
    about: 'tolerance for exp and nbf of tokens',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 5 },
    allowed: 'integer, 0 to 300'
  },
  API_PROFILE: {
    file: 'api.profile',
    about: 'which answers are given and which port is the default',
    schema: { type: 'string', enum: ['1', '2'], default: '1' },
    allowed: '1 or 2'
  },
  ERROR_BODY: {
    file: 'api.errorBody',
    about: 'form of the bodies of errors',
    schema: { type: 'string', enum: ['default', 'detailed'], default: 'default' },
    allowed: 'default or detailed'
  },
  DPOP_ENABLED: {
    file: 'idp.dpopEnabled',
    about: 'false means mode DISABLED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: true,
    unset: 'true'
  },
  DPOP_REQUIRED: {
    file: 'idp.dpopRequired',
    about: 'true means mode REQUIRED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: false,
    unset: 'false'
  },
  IDP_DPOP_MODE: {
    file: 'idp.dpopMode',
    about: 'whether DPoP is switched off, accepted or required',
    schema: { type: 'string', enum: ['DISABLED', 'ALLOWED', 'REQUIRED'] },
    allowed: 'DISABLED, ALLOWED or REQUIRED',
    example: 'ALLOWED',
    unset: 'ALLOWED'
  },
  IDP_DPOP_IAT_OFFSET_SECONDS: {
    file: 'idp.dpopIatOffsetSeconds',
    about: 'how old a proof may be',
    schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 300 },
    allowed: 'integer, 0 or more'
  },
  IDP_DPOP_IAT_LEEWAY_SECONDS: {
    file: 'idp.dpopIatLeewaySeconds',
    about: 'how far in the future a proof may be',
    schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 30 },
    allowed: 'integer, 0 or more'
  },
  DPOP_ALGS: {
    file: 'dpop.algs',
    about: 'accepted signature algorithms of proofs',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: JWS_ALGS }, default: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'] },
    allowed: `list of ${JWS_ALGS.join(', ')}`
  },
  DPOP_REPLAY: {
    file: 'dpop.replay',
    about: 'where used proofs are recorded; several instances must share a Redis',
    schema: { type: 'string', format: 'replay-store', default: 'memory' },
    allowed: 'memory, off, or a redis:// or rediss:// URL',
    secret: true
  },
  DPOP_REPLAY_MAX: {
    file: 'dpop.replayMax',
    about: 'maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests get 429',
    schema: { type: 'integer', minimum: 1, maximum: 100_000_000, default: 2_000_000 },
    allowed: 'integer, 1 to 100000000'
  },
  DPOP_NONCE: {
    file: 'dpop.nonce',
    about: 'whether a proof needs a nonce from this service',
    schema: { type: 'string', enum: ['off', 'required'], default: 'off' },
    allowed: 'off or required'
  },
  DPOP_NONCE_IAT: {
    file: 'dpop.nonceIat',
    about: 'whether the age of a proof (iat) is checked beside its nonce',
    schema: { type: 'string', enum: ['ignored', 'checked'], default: 'ignored' },
    allowed: 'ignored or checked'
  },
  DPOP_NONCE_SECRET: {
    file: 'dpop.nonceSecret',
    about: 'with a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same list; with `memory` it is not used, and a warning says so',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'nonce-secret' } },
    allowed: 'list of one or more secrets, each at least 32 bytes in base64url',
    unset: 'random at start; with a Redis store, with a warning',
    secret: true
  },
  RESOURCE: {
    file: 'server.resource',
    about: 'identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside the audience',
    schema: { type: 'string', format: 'resource-url' },
    allowed: 'https URL without user info, query or fragment',
    example: 'https://api.example',
    unset: 'the audience if it is an https URL, else PUBLIC_URL, else the address that the client used'
  },
  CLIENT_CERTIFICATE: {
    file: 'server.clientCertificate',
    about: 'where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an application that ends TLS itself), or in the header of a trusted proxy',
    schema: { type: 'string', enum: CERTIFICATE_SOURCES, default: 'off' },
    allowed: 'off, socket, client-cert (RFC 9440), nginx (X-SSL-Client-Cert) or xfcc (X-Forwarded-Client-Cert); a header needs TRUST_PROXY'
  },
  SECURITY_PROFILE: {
    file: 'server.securityProfile',
    about: 'fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256, EdDSA or Ed25519, which are then the defaults',
    schema: { type: 'string', enum: ['none', 'fapi2'], default: 'none' },
    allowed: 'none or fapi2'
  },
  TRUST_PROXY: {
    file: 'server.trustProxy',
    about: 'peers whose forwarded headers are believed',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'trusted-peer' }, default: ['false'] },
    allowed: 'false, true, or a list of addresses, CIDRs and the names loopback, linklocal, uniquelocal; not a number of hops'
  },
  PUBLIC_URL: {
    file: 'server.publicUrl',
    about: 'address under which clients reach this service; if it is set, no header can change it',
    schema: { type: 'string', format: 'public-url' },
    allowed: 'http or https URL, optionally with a plain path',
    example: 'https://api.example',
    unset: 'none: taken from each request'
  },
  CORS_ORIGINS: {
    file: 'server.corsOrigins',
    about: 'origins of browser applications that may call this API',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'origin' } },
    allowed: 'list of origins (scheme://host[:port], no path), or *',
    example: ['https://app.example'],
    unset: 'none: CORS is off'
  },
  CORS_HEADERS: {
    file: 'server.corsHeaders',
    about: 'headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside WWW-Authenticate, DPoP-Nonce and Retry-After',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'header-name' } },
    allowed: 'list of names of headers, without *',
    example: ['MCP-Protocol-Version', 'Mcp-Session-Id'],
    unset: 'none'
  },
  RATE_LIMIT: {
    file: 'server.rateLimit',
    about: 'most requests per minute of one client to guarded routes; each instance counts for itself',
    schema: { type: 'string', format: 'rate-limit', default: 'off' },
    allowed: 'off, or an integer, 1 or more'
  },
  METRICS: {
    file: 'server.metrics',
    about: 'the /metrics endpoint',
    schema: { type: 'string', enum: ['on', 'off'], default: 'on' },
    allowed: 'on or off'
  },
  LOG_LEVEL: {
    file: 'server.logLevel',
    about: 'lowest level that is logged',
    schema: { type: 'string', enum: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], default: 'info' },
    allowed: 'fatal, error, warn, info, debug, trace or silent'
  },
  PORT: {
    file: null,
    about: 'port to listen on',
    schema: { type: 'integer', minimum: 0, maximum: 65535 },
    allowed: 'integer, 0 (any free port) to 65535',
    example: 8000,
    unset: '8000 in profile 1, 8080 in profile 2'
  },
  GATE: {
    environment: false,
    file: 'gate',
    about: 'makes the service the guard of other services; the sample routes under /api are then not served',
    schema: { type: 'tree' },
    allowed: 'section with upstream, rules and more: docs/gate.md',
    example: { upstream: 'http://127.0.0.1:3000', rules: [{ path: '/*', allow: 'token' }] },
    unset: 'no gate'
  },
  REVOCATION: {
    environment: false,
    file: 'revocation',
    about: 'refuses tokens that their provider, their user or an operator has taken back, from the moment at which any instance learns of it',
    schema: { type: 'tree' },
    allowed: 'section with transmitters, logout or operators: docs/revocation.md',
    example: { logout: { clientId: 'orders-app' } },
    unset: 'off'
  },
  GATE_UPSTREAM: {
    file: null,
    about: 'the service that the gate guards, in place of gate.upstream; without gate.rules, any valid token passes for every path',
    schema: { type: 'string', format: 'gate-upstream' },
    allowed: 'http or https URL of a host, with a port or without, and nothing more',
    example: 'http://127.0.0.1:3000',
    unset: 'gate.upstream'
  },
  HTTP_PROXY: {
    file: null,
    about: 'proxy for calls to an https provider if HTTPS_PROXY is not set; an http provider (on loopback) is called directly',
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL',
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  HTTPS_PROXY: {
    file: null,
    about: 'proxy for calls to an https provider',
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL',
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  NO_PROXY: {
    file: null,
    about: 'hosts that are called without a proxy',
    schema: { type: 'string' },
    allowed: 'hosts, separated by commas, or *',
    example: 'localhost,internal.example',
    unset: 'none'
  }
} as const satisfies Record<string, SettingSpec>

export type SettingName = keyof typeof SETTINGS

/** The validated settings, by their environment names. */
export type SettingValues = {
  readonly [K in SettingName]: ValueOf<(typeof SETTINGS)[K]['schema']> | Presence<(typeof SETTINGS)[K]['schema']>
}

/** Settings as found and not validated yet, by their environment names. */
export type RawSettings = Partial<Record<SettingName, unknown>>

export const settingNames = Object.keys(SETTINGS) as SettingName[]

/** The settings that a variable of the environment can hold. */
export const variableNames = settingNames.filter(name => settingSpec(name).environment !== false)

/** A setting's description without its literal types, for code that visits all of them. */
export function settingSpec (name: SettingName): SettingSpec {
  return SETTINGS[name]
}

/** The path that a setting has in an object of `idp.issuers`: that in the file, without its first word. */
export function memberKey (name: SettingName): string {
  return settingSpec(name).file!.slice('idp.'.length)
}
