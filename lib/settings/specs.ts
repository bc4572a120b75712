import { CERTIFICATE_SOURCES } from '../certificate/client-certificate.ts'
import { CLIENT_AUTH_METHODS } from '../introspection/client-authentication.ts'
import { JWS_ALGS } from '../jose/signature.ts'
import type { Presence, SettingSpec, ValueOf } from './setting-spec.ts'

/** What an entry of `idp.issuers` may hold. Each member takes what the setting beside the list takes. */
export const ISSUER_MEMBERS = [
  'idp.issuer', 'idp.domain', 'idp.audience', 'idp.jwksUri', 'idp.keysFile', 'idp.algs', 'idp.scopeClaims', 'idp.dpopMode',
  'idp.introspection.for', 'idp.introspection.endpoint', 'idp.introspection.cacheSeconds', 'idp.introspection.signed', 'idp.introspection.audienceOptional',
  'idp.introspection.clientId', 'idp.introspection.clientSecret', 'idp.introspection.auth', 'idp.introspection.keyFile'
] as const

/**
 * Every setting, written once, by its place in the tree of settings: its variable, its JSON schema, its allowed values in words, and
 * its default. The schema for `@fastify/env`, the types and the table of docs/configuration.md all follow from here, in this order.
 */
export const SETTINGS = {
  'idp.domain': {
    variable: 'IDP_DOMAIN',
    about: 'host of the identity provider; it issues the tokens and publishes the keys',
    schema: { type: 'string', format: 'domain' },
    allowed: 'host, optionally with :port; no scheme, path or user info',
    example: 'tenant.example',
    unset: 'required, unless IDP_ISSUER is set'
  },
  'idp.audience': {
    variable: 'IDP_AUDIENCE',
    about: 'identifier of this API at the provider; the `aud` of a token must match it exactly',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    example: 'https://api.example',
    unset: 'required'
  },
  'idp.issuer': {
    variable: 'IDP_ISSUER',
    about: 'issuer of the tokens, if it is not https://{domain}/',
    schema: { type: 'string', format: 'issuer-url' },
    allowed: 'https URL (http for a loopback host) without user info, query or fragment',
    example: 'https://tenant.example/',
    unset: 'https://{domain}/'
  },
  'idp.jwksUri': {
    variable: 'IDP_JWKS_URI',
    about: 'address of the signing keys; if it is set, there is no discovery',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'https URL (http for a loopback host) without user info',
    example: 'https://tenant.example/.well-known/jwks.json',
    unset: 'found by discovery'
  },
  'idp.algs': {
    variable: 'IDP_ALGS',
    about: 'accepted signature algorithms of access tokens',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: JWS_ALGS }, default: ['RS256'] },
    allowed: `list of ${JWS_ALGS.join(', ')}`
  },
  'idp.keysFile': {
    variable: 'IDP_KEYS_FILE',
    about: 'file with the public keys (a JWK set) in place of those of the provider, which is then never called; it is read again when it changes',
    schema: { type: 'string', minLength: 1 },
    allowed: 'path of a file',
    example: '/etc/holdfast/keys.json',
    unset: 'none: the keys come from the provider'
  },
  'idp.scopeClaims': {
    variable: 'IDP_SCOPE_CLAIMS',
    about: 'claims that grant scopes',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: ['scope', 'scp', 'permissions'] }, default: ['scope'] },
    allowed: 'list of scope, scp, permissions'
  },
  'idp.introspection.for': {
    variable: 'IDP_INTROSPECTION',
    about: 'which tokens the provider is asked about: opaque ones, JWTs after their own checks (so that a revoked one is refused), or all',
    schema: { type: 'string', enum: ['off', 'opaque', 'jwt', 'all'], default: 'off' },
    allowed: 'off, opaque, jwt or all; of several issuers, only one can have opaque or all'
  },
  'idp.introspection.endpoint': {
    variable: 'IDP_INTROSPECTION_ENDPOINT',
    about: 'where the provider is asked about tokens',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'https URL (http for a loopback host) without user info',
    example: 'https://tenant.example/introspect',
    unset: 'found by discovery'
  },
  'idp.introspection.cacheSeconds': {
    variable: 'IDP_INTROSPECTION_CACHE_SECONDS',
    about: 'how long an answer about an active token is used; a revoked token passes for at most this time',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 10 },
    allowed: 'integer, 0 to 300'
  },
  'idp.introspection.signed': {
    variable: 'IDP_INTROSPECTION_SIGNED',
    from: 'file',
    about: 'whether answers are signed JWTs (RFC 9701)',
    schema: { type: 'boolean', default: false },
    allowed: 'true or false'
  },
  'idp.introspection.audienceOptional': {
    variable: 'IDP_INTROSPECTION_AUDIENCE_OPTIONAL',
    from: 'file',
    about: 'whether an answer about an opaque token may leave out `aud`; then only the provider ensures that a token is for this API',
    schema: { type: 'boolean', default: false },
    allowed: 'true or false'
  },
  'idp.introspection.clientId': {
    variable: 'IDP_CLIENT_ID',
    about: 'the client as which this service asks about tokens',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    example: 'orders-api',
    unset: 'required for introspection'
  },
  'idp.introspection.clientSecret': {
    variable: 'IDP_CLIENT_SECRET',
    about: 'secret of that client',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    unset: 'required for client_secret_basic and client_secret_post',
    secret: true
  },
  'idp.introspection.auth': {
    variable: 'IDP_CLIENT_AUTH',
    about: 'how that client proves itself',
    schema: { type: 'string', enum: CLIENT_AUTH_METHODS, default: 'client_secret_basic' },
    allowed: 'client_secret_basic, client_secret_post or private_key_jwt'
  },
  'idp.introspection.keyFile': {
    variable: 'IDP_CLIENT_KEY_FILE',
    about: 'private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used',
    schema: { type: 'string', minLength: 1 },
    allowed: 'path of a file',
    example: '/etc/holdfast/client-key.pem',
    unset: 'required for private_key_jwt'
  },
  'idp.scopeImplies': {
    variable: 'IDP_SCOPE_IMPLIES',
    from: 'file',
    about: 'scopes that bring others along: a token with the first one is judged as if it had the others too',
    schema: { type: 'object', propertyNames: { format: 'scope' }, additionalProperties: { type: 'array', minItems: 1, items: { type: 'string', format: 'scope' } } },
    allowed: 'map from a scope to a list of scopes, without circles',
    example: { admin: ['read:users', 'write:users'] },
    unset: 'none'
  },
  'idp.issuers': {
    variable: 'IDP_ISSUERS',
    from: 'file',
    about: 'several issuers, each with settings of its own; what an entry leaves out is taken from the setting of that name beside the list',
    schema: { type: 'entries', minItems: 1, maxItems: 50, members: ISSUER_MEMBERS },
    allowed: 'list of 1 to 50 objects with issuer or domain, and with audience, jwksUri, keysFile, algs, scopeClaims, dpopMode or introspection where they differ; not beside idp.domain or idp.issuer',
    example: [{ issuer: 'https://staff.example/' }, { domain: 'partners.example', audience: 'https://partners.api.example' }],
    unset: 'none: one issuer, by idp.domain or idp.issuer'
  },
  'idp.customClaim': {
    variable: 'IDP_CUSTOM_CLAIM',
    about: 'claim that the profile endpoint returns',
    schema: { type: 'string', format: 'namespaced-claim' },
    allowed: 'name with a namespace, such as https://example.com/team',
    example: 'https://api.example/team',
    unset: 'none: custom_claim is null'
  },
  'idp.clockToleranceSeconds': {
    variable: 'IDP_CLOCK_TOLERANCE_SECONDS',
    about: 'tolerance for exp and nbf of tokens',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 5 },
    allowed: 'integer, 0 to 300'
  },
  'api.profile': {
    variable: 'API_PROFILE',
    about: 'which answers are given and which port is the default',
    schema: { type: 'string', enum: ['1', '2'], default: '1' },
    allowed: '1 or 2'
  },
  'api.errorBody': {
    variable: 'ERROR_BODY',
    about: 'form of the bodies of errors',
    schema: { type: 'string', enum: ['default', 'detailed'], default: 'default' },
    allowed: 'default or detailed'
  },
  'idp.dpopEnabled': {
    variable: 'DPOP_ENABLED',
    about: 'false means mode DISABLED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: true,
    unset: 'true'
  },
  'idp.dpopRequired': {
    variable: 'DPOP_REQUIRED',
    about: 'true means mode REQUIRED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: false,
    unset: 'false'
  },
  'idp.dpopMode': {
    variable: 'IDP_DPOP_MODE',
    about: 'whether DPoP is switched off, accepted or required',
    schema: { type: 'string', enum: ['DISABLED', 'ALLOWED', 'REQUIRED'] },
    allowed: 'DISABLED, ALLOWED or REQUIRED',
    example: 'ALLOWED',
    unset: 'ALLOWED'
  },
  'idp.dpopIatOffsetSeconds': {
    variable: 'IDP_DPOP_IAT_OFFSET_SECONDS',
    about: 'how old a proof may be',
    schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 300 },
    allowed: 'integer, 0 or more'
  },
  'idp.dpopIatLeewaySeconds': {
    variable: 'IDP_DPOP_IAT_LEEWAY_SECONDS',
    about: 'how far in the future a proof may be',
    schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 30 },
    allowed: 'integer, 0 or more'
  },
  'dpop.algs': {
    variable: 'DPOP_ALGS',
    about: 'accepted signature algorithms of proofs',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: JWS_ALGS }, default: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'] },
    allowed: `list of ${JWS_ALGS.join(', ')}`
  },
  'dpop.replay': {
    variable: 'DPOP_REPLAY',
    about: 'where used proofs are recorded; several instances must share a Redis',
    schema: { type: 'string', format: 'replay-store', default: 'memory' },
    allowed: 'memory, off, or a redis:// or rediss:// URL',
    secret: true
  },
  'dpop.replayMax': {
    variable: 'DPOP_REPLAY_MAX',
    about: 'maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its requests get 429',
    schema: { type: 'integer', minimum: 1, maximum: 100_000_000, default: 2_000_000 },
    allowed: 'integer, 1 to 100000000'
  },
  'dpop.nonce': {
    variable: 'DPOP_NONCE',
    about: 'whether a proof needs a nonce from this service',
    schema: { type: 'string', enum: ['off', 'required'], default: 'off' },
    allowed: 'off or required'
  },
  'dpop.nonceIat': {
    variable: 'DPOP_NONCE_IAT',
    about: 'whether the age of a proof (iat) is checked beside its nonce',
    schema: { type: 'string', enum: ['ignored', 'checked'], default: 'ignored' },
    allowed: 'ignored or checked'
  },
  'dpop.nonceSecret': {
    variable: 'DPOP_NONCE_SECRET',
    about: 'with a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the same list; with `memory` it is not used, and a warning says so',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'nonce-secret' } },
    allowed: 'list of one or more secrets, each at least 32 bytes in base64url',
    unset: 'random at start; with a Redis store, with a warning',
    secret: true
  },
  'server.resource': {
    variable: 'RESOURCE',
    about: 'identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` beside the audience',
    schema: { type: 'string', format: 'resource-url' },
    allowed: 'https URL without user info, query or fragment',
    example: 'https://api.example',
    unset: 'the audience if it is an https URL, else PUBLIC_URL, else the address that the client used'
  },
  'server.clientCertificate': {
    variable: 'CLIENT_CERTIFICATE',
    about: 'where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an application that ends TLS itself), or in the header of a trusted proxy',
    schema: { type: 'string', enum: CERTIFICATE_SOURCES, default: 'off' },
    allowed: 'off, socket, client-cert (RFC 9440), nginx (X-SSL-Client-Cert) or xfcc (X-Forwarded-Client-Cert); a header needs TRUST_PROXY'
  },
  'server.securityProfile': {
    variable: 'SECURITY_PROFILE',
    about: 'fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ES256, EdDSA or Ed25519, which are then the defaults',
    schema: { type: 'string', enum: ['none', 'fapi2'], default: 'none' },
    allowed: 'none or fapi2'
  },
  'server.trustProxy': {
    variable: 'TRUST_PROXY',
    about: 'peers whose forwarded headers are believed',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'trusted-peer' }, default: ['false'] },
    allowed: 'false, true, or a list of addresses, CIDRs and the names loopback, linklocal, uniquelocal; not a number of hops'
  },
  'server.publicUrl': {
    variable: 'PUBLIC_URL',
    about: 'address under which clients reach this service; if it is set, no header can change it',
    schema: { type: 'string', format: 'public-url' },
    allowed: 'http or https URL, optionally with a plain path',
    example: 'https://api.example',
    unset: 'none: taken from each request'
  },
  'server.corsOrigins': {
    variable: 'CORS_ORIGINS',
    about: 'origins of browser applications that may call this API',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'origin' } },
    allowed: 'list of origins (scheme://host[:port], no path), or *',
    example: ['https://app.example'],
    unset: 'none: CORS is off'
  },
  'server.corsHeaders': {
    variable: 'CORS_HEADERS',
    about: 'headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside WWW-Authenticate, DPoP-Nonce and Retry-After',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'header-name' } },
    allowed: 'list of names of headers, without *',
    example: ['MCP-Protocol-Version', 'Mcp-Session-Id'],
    unset: 'none'
  },
  'server.rateLimit': {
    variable: 'RATE_LIMIT',
    about: 'most requests per minute of one client to guarded routes; each instance counts for itself',
    schema: { type: 'string', format: 'rate-limit', default: 'off' },
    allowed: 'off, or an integer, 1 or more'
  },
  'server.metrics': {
    variable: 'METRICS',
    about: 'the /metrics endpoint',
    schema: { type: 'string', enum: ['on', 'off'], default: 'on' },
    allowed: 'on or off'
  },
  'server.logLevel': {
    variable: 'LOG_LEVEL',
    about: 'lowest level that is logged',
    schema: { type: 'string', enum: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], default: 'info' },
    allowed: 'fatal, error, warn, info, debug, trace or silent'
  },
  'server.port': {
    variable: 'PORT',
    from: 'environment',
    about: 'port to listen on',
    schema: { type: 'integer', minimum: 0, maximum: 65535 },
    allowed: 'integer, 0 (any free port) to 65535',
    example: 8000,
    unset: '8000 in profile 1, 8080 in profile 2'
  },
  gate: {
    variable: 'GATE',
    from: 'file',
    about: 'makes the service the guard of other services; the sample routes under /api are then not served',
    schema: { type: 'tree' },
    allowed: 'section with upstream, rules and more: docs/gate.md',
    example: { upstream: 'http://127.0.0.1:3000', rules: [{ path: '/*', allow: 'token' }] },
    unset: 'no gate'
  },
  revocation: {
    variable: 'REVOCATION',
    from: 'file',
    about: 'refuses tokens that their provider, their user or an operator has taken back, from the moment at which any instance learns of it',
    schema: { type: 'tree' },
    allowed: 'section with transmitters, logout or operators: docs/revocation.md',
    example: { logout: { clientId: 'orders-app' } },
    unset: 'off'
  },
  gateUpstream: {
    variable: 'GATE_UPSTREAM',
    from: 'environment',
    about: 'the service that the gate guards, in place of gate.upstream; without gate.rules, any valid token passes for every path',
    schema: { type: 'string', format: 'gate-upstream' },
    allowed: 'http or https URL of a host, with a port or without, and nothing more',
    example: 'http://127.0.0.1:3000',
    unset: 'gate.upstream'
  },
  'proxies.httpProxy': {
    variable: 'HTTP_PROXY',
    from: 'environment',
    about: 'proxy for calls to an https provider if HTTPS_PROXY is not set; an http provider (on loopback) is called directly',
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL',
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  'proxies.httpsProxy': {
    variable: 'HTTPS_PROXY',
    from: 'environment',
    about: 'proxy for calls to an https provider',
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL',
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  'proxies.noProxy': {
    variable: 'NO_PROXY',
    from: 'environment',
    about: 'hosts that are called without a proxy',
    schema: { type: 'string' },
    allowed: 'hosts, separated by commas, or *',
    example: 'localhost,internal.example',
    unset: 'none'
  }
} as const satisfies Record<string, SettingSpec>

export type SettingName = keyof typeof SETTINGS

type FirstWord<Name> = Name extends `${infer Word}.${string}` ? Word : Name
type AfterWord<Name, Word extends string> = Name extends `${Word}.${infer Rest}` ? Rest : never
type ValueAt<Name> = Name extends SettingName ? ValueOf<(typeof SETTINGS)[Name]['schema']> | Presence<(typeof SETTINGS)[Name]['schema']> : never

/** The settings as they are nested: `idp.domain` is the member `domain` of `idp`. */
type Nested<Name extends string, Known extends boolean, Path extends string = ''> = {
  readonly [Word in FirstWord<Name> & string]: Word extends Name
    ? Known extends true ? ValueAt<`${Path}${Word}`> : unknown
    : Nested<AfterWord<Name, Word>, Known, `${Path}${Word}.`>
}

/** The validated settings. */
export type SettingValues = Nested<SettingName, true>

/** Settings as found and not validated yet. Each section is there, and a setting that is not set is absent or undefined. */
export type RawSettings = Nested<SettingName, false>

export const settingNames = Object.keys(SETTINGS) as SettingName[]

/** The settings that a variable of the environment can hold, by their variables. */
export const variables: ReadonlyMap<string, SettingName> = new Map(settingNames.filter(name => settingSpec(name).from !== 'file').map(name => [settingSpec(name).variable, name]))

export function isSetting (path: string): path is SettingName {
  return Object.hasOwn(SETTINGS, path)
}

/** A setting's description without its literal types, for code that visits all of them. */
export function settingSpec (name: SettingName): SettingSpec {
  return SETTINGS[name]
}

/** The path that a setting has in an entry of `idp.issuers`: `introspection.for` for `idp.introspection.for`. */
export function memberKey (name: SettingName): string {
  return name.slice('idp.'.length)
}
