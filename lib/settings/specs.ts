import { CERTIFICATE_SOURCES } from '../guard/certificate/client-certificate.ts'
import { CLIENT_AUTH_METHODS } from '../guard/provider/client-authentication.ts'
import { JWS_ALGS, type JwsAlg } from '../guard/jose/signature.ts'
import { AUDIENCE_CLAIMS, TOKEN_PROFILES } from '../guard/token/jwt-checks.ts'
import { AUDIT, GATE, REVOCATION, SECRET, store } from './section-specs.ts'
import {
  FILE,
  FLAG,
  integer,
  ISSUER_NAME,
  list,
  listOf,
  oneOf,
  OR_PLACE,
  PROVIDER_URL,
  PLAIN,
  SAFE_URL,
  TEXT,
  text,
  UPSTREAM,
  type Presence,
  type SettingSpec,
  type ValueOf
} from './setting-spec.ts'

/**
 * The algorithms of the FAPI 2.0 Security Profile (section 5.4.1). `Ed25519` is the newer name of what `EdDSA` means
 * there.
 */
export const FAPI_ALGS: readonly JwsAlg[] = ['PS256', 'ES256', 'EdDSA', 'Ed25519']

const PROXY = text('proxy-url', 'http or https URL')

/**
 * Every setting, written once, by its place in the tree of settings: its purpose, its variable, its JSON schema with
 * the allowed values in words, and its default. The schema, the types and the table of
 * docs/reference/settings.md all follow from here, in this order.
 */
export const SETTINGS = {
  'idp.domain': {
    perIssuer: true,
    about: 'host of the identity provider; it issues the tokens and publishes the keys',
    variable: 'IDP_DOMAIN',
    ...text('domain', 'host, optionally with :port; no scheme, path or user info'),
    example: 'tenant.example',
    unset: 'required, unless IDP_ISSUER is set'
  },
  'idp.audience': {
    perIssuer: true,
    about: 'identifier of this API at the provider; the `aud` of a token must match it, or one of a list, exactly',
    variable: 'IDP_AUDIENCE',
    type: 'array',
    minItems: 1,
    maxItems: 20,
    uniqueItems: true,
    items: { ...PLAIN, digits: true },
    alone: true,
    blanks: true,
    allowed: 'any non-empty string, or a list of 1 to 20, each once; the first is the name of this API',
    example: 'https://api.example',
    unset: 'required'
  },
  'idp.issuer': {
    perIssuer: true,
    about: 'issuer of the tokens, if it is not https://{domain}/',
    variable: 'IDP_ISSUER',
    ...ISSUER_NAME,
    example: 'https://tenant.example/',
    unset: 'https://{domain}/'
  },
  'idp.audienceClaim': {
    perIssuer: true,
    about: 'the claim that must hold the audience, for a provider whose access tokens have no `aud`; such a token is ' +
      'meant for a client, not for this API',
    variable: 'IDP_AUDIENCE_CLAIM',
    ...oneOf(...AUDIENCE_CLAIMS),
    default: 'aud'
  },
  'idp.jwksUri': {
    perIssuer: true,
    about: 'address of the signing keys; if it is set, there is no discovery',
    variable: 'IDP_JWKS_URI',
    ...PROVIDER_URL,
    example: 'https://tenant.example/.well-known/jwks.json',
    unset: 'found by discovery'
  },
  'idp.algs': {
    perIssuer: true,
    about: 'accepted signature algorithms of access tokens',
    variable: 'IDP_ALGS',
    ...listOf(JWS_ALGS),
    default: ['RS256']
  },
  'idp.tokenProfile': {
    perIssuer: true,
    about:
      'rfc9068: a JWT also needs `typ` at+jwt, `iss` exactly as set, `client_id`, `iat` and `jti`: no ID token passes',
    variable: 'IDP_TOKEN_PROFILE',
    ...oneOf(...TOKEN_PROFILES),
    default: 'any'
  },
  'idp.keysFile': {
    perIssuer: true,
    about:
      'file with the public keys (a JWK set) in place of those of the provider, which is then never called; it is ' +
      'read again when it changes',
    variable: 'IDP_KEYS_FILE',
    ...FILE,
    example: '/etc/holdfast/keys.json',
    unset: 'none: the keys come from the provider'
  },
  'idp.scopeClaims': {
    perIssuer: true,
    about: 'claims that grant scopes',
    variable: 'IDP_SCOPE_CLAIMS',
    ...listOf(['scope', 'scp', 'permissions']),
    default: ['scope']
  },
  'idp.introspection.for': {
    perIssuer: true,
    about:
      'which tokens are introspected at the provider: opaque ones, JWTs after their own checks (so that a revoked ' +
      'one is refused), or all',
    variable: 'IDP_INTROSPECTION',
    ...oneOf('off', 'opaque', 'jwt', 'all'),
    default: 'off',
    allowed: 'off, opaque, jwt or all; of several issuers, only one can have opaque or all'
  },
  'idp.introspection.endpoint': {
    perIssuer: true,
    about: 'the introspection endpoint of the provider',
    variable: 'IDP_INTROSPECTION_ENDPOINT',
    ...PROVIDER_URL,
    example: 'https://tenant.example/introspect',
    unset: 'found by discovery'
  },
  'idp.introspection.cacheSeconds': {
    perIssuer: true,
    about: 'how long an answer about an active token is used; a revoked token passes for at most this time',
    variable: 'IDP_INTROSPECTION_CACHE_SECONDS',
    ...integer(0, 300),
    default: 10
  },
  'idp.introspection.signed': {
    perIssuer: true,
    about: 'whether answers are signed JWTs (RFC 9701)',
    variable: 'IDP_INTROSPECTION_SIGNED',
    from: 'file',
    ...FLAG,
    default: false
  },
  'idp.introspection.audienceOptional': {
    perIssuer: true,
    about:
      'whether an answer about an opaque token may leave out `aud`; then only the provider ensures that a token is ' +
      'for this API',
    variable: 'IDP_INTROSPECTION_AUDIENCE_OPTIONAL',
    from: 'file',
    ...FLAG,
    default: false
  },
  'idp.introspection.clientId': {
    perIssuer: true,
    about: 'the client as which this service asks about tokens',
    variable: 'IDP_CLIENT_ID',
    ...TEXT,
    example: 'orders-api',
    unset: 'required for introspection'
  },
  'idp.introspection.clientSecret': {
    perIssuer: true,
    about: 'secret of that client',
    variable: 'IDP_CLIENT_SECRET',
    ...SECRET,
    allowed: `any non-empty string; ${OR_PLACE}`,
    unset: 'required for client_secret_basic and client_secret_post'
  },
  'idp.introspection.auth': {
    perIssuer: true,
    about: 'how that client proves itself',
    variable: 'IDP_CLIENT_AUTH',
    ...oneOf(...CLIENT_AUTH_METHODS),
    default: 'client_secret_basic'
  },
  'idp.introspection.keyFile': {
    perIssuer: true,
    about: 'private key of that client for private_key_jwt: PEM, or a JWK whose alg and kid are used',
    variable: 'IDP_CLIENT_KEY_FILE',
    ...FILE,
    example: '/etc/holdfast/client-key.pem',
    unset: 'required for private_key_jwt'
  },
  'idp.introspection.assertionAudience': {
    perIssuer: true,
    about:
      'the `aud` of the assertions of private_key_jwt, for a provider that wants another one than its issuer: WSO2 ' +
      'wants its token endpoint',
    variable: 'IDP_INTROSPECTION_ASSERTION_AUDIENCE',
    from: 'file',
    ...TEXT,
    example: 'https://tenant.example/oauth2/token',
    unset: 'the issuer, as the provider spells it'
  },
  'idp.scopeImplies': {
    about: 'scopes that bring others along: a token with the first one is judged as if it had the others too',
    variable: 'IDP_SCOPE_IMPLIES',
    from: 'file',
    type: 'object',
    propertyNames: { format: 'scope' },
    additionalProperties: list('scope', 'list of scopes'),
    allowed: 'map from a scope to a list of scopes, without circles',
    example: { admin: ['read:users', 'write:users'] },
    unset: 'none'
  },
  'idp.issuers': {
    about:
      'several issuers, each with settings of its own; what an entry leaves out is taken from the setting of that ' +
      'name beside the list',
    variable: 'IDP_ISSUERS',
    from: 'file',
    type: 'array',
    minItems: 1,
    maxItems: 50,
    items: { type: 'object', allowed: 'an object' },
    allowed: 'list of 1 to 50 objects with issuer or domain, and what differs; not beside idp.domain or idp.issuer',
    example: [{ issuer: 'https://staff.example/' }, {
      domain: 'partners.example',
      audience: 'https://partners.api.example'
    }],
    unset: 'none: one issuer, by idp.domain or idp.issuer'
  },
  'idp.customClaim': {
    serviceOnly: true,
    about: 'claim that the profile endpoint returns',
    variable: 'IDP_CUSTOM_CLAIM',
    ...text('namespaced-claim', 'name with a namespace, such as https://example.com/team'),
    example: 'https://api.example/team',
    unset: 'none: custom_claim is null'
  },
  'idp.clockToleranceSeconds': {
    about: 'tolerance for exp and nbf of tokens, and for revocations not by their issuer',
    variable: 'IDP_CLOCK_TOLERANCE_SECONDS',
    ...integer(0, 300),
    default: 5
  },
  'api.profile': {
    serviceOnly: true,
    about: 'which answers are given and which port is the default',
    variable: 'API_PROFILE',
    ...oneOf('1', '2'),
    default: '1'
  },
  'api.errorBody': {
    serviceOnly: true,
    about: 'form of the bodies of errors',
    variable: 'ERROR_BODY',
    ...oneOf('default', 'detailed'),
    default: 'default'
  },
  'idp.dpopEnabled': {
    about: 'false means mode DISABLED',
    variable: 'DPOP_ENABLED',
    ...FLAG,
    example: true,
    unset: 'true'
  },
  'idp.dpopRequired': {
    about: 'true means mode REQUIRED',
    variable: 'DPOP_REQUIRED',
    ...FLAG,
    example: false,
    unset: 'false'
  },
  'idp.dpopMode': {
    perIssuer: true,
    about: 'whether DPoP is switched off, accepted or required',
    variable: 'IDP_DPOP_MODE',
    ...oneOf('DISABLED', 'ALLOWED', 'REQUIRED'),
    example: 'ALLOWED',
    unset: 'ALLOWED'
  },
  'idp.dpopIatOffsetSeconds': {
    about: 'how old a proof may be',
    variable: 'IDP_DPOP_IAT_OFFSET_SECONDS',
    ...integer(0, Number.MAX_SAFE_INTEGER),
    default: 300
  },
  'idp.dpopIatLeewaySeconds': {
    about: 'how far in the future a proof may be',
    variable: 'IDP_DPOP_IAT_LEEWAY_SECONDS',
    ...integer(0, Number.MAX_SAFE_INTEGER),
    default: 30
  },
  'dpop.algs': {
    about: 'accepted signature algorithms of proofs',
    variable: 'DPOP_ALGS',
    ...listOf(JWS_ALGS),
    default: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256']
  },
  'dpop.replay': {
    about: 'where used proofs are recorded; several instances must share a Redis',
    variable: 'DPOP_REPLAY',
    ...store('replay-store', 'memory, off'),
    default: 'memory'
  },
  'dpop.replayMax': {
    about: 'maximum number of stored proofs; if it is full, requests get 503; if one key has a quarter of them, its ' +
      'requests get 429',
    variable: 'DPOP_REPLAY_MAX',
    ...integer(1, 100_000_000),
    default: 2_000_000
  },
  'dpop.nonce': {
    about: 'whether a proof needs a nonce from this service',
    variable: 'DPOP_NONCE',
    ...oneOf('off', 'required'),
    default: 'off'
  },
  'dpop.nonceIat': {
    about: 'whether the age of a proof (iat) is checked beside its nonce',
    variable: 'DPOP_NONCE_IAT',
    ...oneOf('ignored', 'checked'),
    default: 'ignored'
  },
  'dpop.nonceSecret': {
    about:
      'with a Redis store: the first secret makes nonces, all of them verify nonces, and every instance needs the ' +
      'same list; with `memory` it is not used, and a warning says so',
    variable: 'DPOP_NONCE_SECRET',
    ...list('nonce-secret', `list of one or more secrets, each at least 32 bytes in base64url; ${OR_PLACE}`),
    unset: 'random at start; with a Redis store, with a warning',
    secret: true,
    placed: true
  },
  'server.resource': {
    about:
      'identifier of this API in its metadata; clients may name it in token requests, and it is accepted as `aud` ' +
      'beside the audience',
    variable: 'RESOURCE',
    ...SAFE_URL,
    example: 'https://api.example',
    unset: 'the audience if it is an https URL, else PUBLIC_URL, else the address that the client used'
  },
  'server.resourceName': {
    about: 'name of this API in its metadata, for people',
    variable: 'RESOURCE_NAME',
    ...TEXT,
    allowed: 'any text',
    example: 'Orders API',
    unset: 'the host of the resource'
  },
  'server.clientCertificate': {
    about:
      'where the certificate of a client is found, for tokens that are bound to one: on the TLS socket (only in an ' +
      'application that ends TLS itself), or in the header of a trusted proxy',
    variable: 'CLIENT_CERTIFICATE',
    ...oneOf(...CERTIFICATE_SOURCES),
    default: 'off',
    allowed: 'off, socket, client-cert (RFC 9440), nginx (X-SSL-Client-Cert), xfcc (X-Forwarded-Client-Cert), alb ' +
      '(X-Amzn-Mtls-Clientcert-Leaf or X-Amzn-Mtls-Clientcert) or traefik (X-Forwarded-Tls-Client-Cert); a ' +
      'header needs TRUST_PROXY'
  },
  audit: {
    about: 'writes one line of JSON for each decision about a request with credentials, and for each refusal',
    variable: 'AUDIT',
    ...AUDIT,
    allowed: 'off, log, the path of a file, or a section with to and pseudonymKey',
    example: 'log',
    unset: 'off'
  },
  'server.securityProfile': {
    about: 'fapi2: every token must be bound to a key or a certificate, and tokens and proofs are signed with PS256, ' +
      'ES256, EdDSA or Ed25519, which are then the defaults',
    variable: 'SECURITY_PROFILE',
    ...oneOf('none', 'fapi2'),
    default: 'none'
  },
  'server.trustProxy': {
    about: 'peers whose forwarded headers are believed',
    variable: 'TRUST_PROXY',
    ...list(
      'trusted-peer',
      'false, true, or a list of addresses, CIDRs and the names loopback, linklocal, uniquelocal; not a number of hops'
    ),
    default: ['false']
  },
  'server.publicUrl': {
    about: 'address under which clients reach this service; if it is set, no header can change it',
    variable: 'PUBLIC_URL',
    ...text('public-url', 'http or https URL, optionally with a plain path'),
    example: 'https://api.example',
    unset: 'none: taken from each request'
  },
  'server.corsOrigins': {
    serviceOnly: true,
    about: 'origins of browser applications that may call this API',
    variable: 'CORS_ORIGINS',
    ...list('origin', 'list of origins (scheme://host[:port], no path), or *'),
    example: ['https://app.example'],
    unset: 'none: CORS is off'
  },
  'server.corsHeaders': {
    serviceOnly: true,
    about: 'headers that those applications may send beside Authorization, DPoP and Content-Type, and read beside ' +
      'WWW-Authenticate, DPoP-Nonce and Retry-After',
    variable: 'CORS_HEADERS',
    ...list('header-name', 'list of names of headers, without *'),
    example: ['MCP-Protocol-Version', 'Mcp-Session-Id'],
    unset: 'none'
  },
  'server.rateLimit': {
    about: 'most requests per minute of one client to guarded routes; each instance counts for itself',
    variable: 'RATE_LIMIT',
    ...text('rate-limit', 'off, or an integer, 1 or more'),
    default: 'off'
  },
  'server.observe': {
    about: 'last day (UTC) on which nothing is refused for its credentials or for want of a rule; later all is ' +
      'enforced',
    variable: 'OBSERVE',
    ...text('observe-day', 'off, or the last day, such as 2027-01-15 (UTC), at most 90 days ahead'),
    default: 'off'
  },
  'server.metrics': {
    serviceOnly: true,
    about: 'the /metrics endpoint',
    variable: 'METRICS',
    ...oneOf('on', 'off'),
    default: 'on'
  },
  'server.logLevel': {
    serviceOnly: true,
    about: 'lowest level that is logged',
    variable: 'LOG_LEVEL',
    ...oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    default: 'info'
  },
  'server.port': {
    serviceOnly: true,
    about: 'port to listen on',
    variable: 'PORT',
    from: 'environment',
    ...integer(0, 65535),
    allowed: 'integer, 0 (any free port) to 65535',
    example: 8000,
    unset: '8000 in profile 1, 8080 in profile 2'
  },
  gate: {
    serviceOnly: true,
    about: 'makes the service the guard of other services (docs/guide/gate.md); the sample routes under /api are ' +
      'then not served',
    variable: 'GATE',
    from: 'file',
    ...GATE,
    allowed: 'a section with members such as upstream and rules',
    example: { upstream: 'http://127.0.0.1:3000', rules: [{ path: '/*', allow: 'token' }] },
    unset: 'no gate'
  },
  revocation: {
    about:
      'refuses tokens that their provider, their user or an operator has taken back, from the moment at which any ' +
      'instance learns of it',
    variable: 'REVOCATION',
    from: 'file',
    ...REVOCATION,
    allowed: 'a section with transmitters, logout or operators: docs/reference/revocation.md',
    example: { logout: { clientId: 'orders-app' } },
    unset: 'off'
  },
  gateUpstream: {
    serviceOnly: true,
    about:
      'the service that the gate guards, in place of gate.upstream; without gate.rules, any valid token passes for ' +
      'every path',
    variable: 'GATE_UPSTREAM',
    from: 'environment',
    ...UPSTREAM,
    example: 'http://127.0.0.1:3000',
    unset: 'gate.upstream'
  },
  'proxies.httpProxy': {
    about: 'proxy for calls to an https provider if HTTPS_PROXY is not set; an http provider (on loopback) is called ' +
      'directly',
    variable: 'HTTP_PROXY',
    from: 'environment',
    ...PROXY,
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  'proxies.httpsProxy': {
    about: 'proxy for calls to an https provider',
    variable: 'HTTPS_PROXY',
    from: 'environment',
    ...PROXY,
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  'proxies.noProxy': {
    about: 'hosts that are called without a proxy',
    variable: 'NO_PROXY',
    from: 'environment',
    type: 'string',
    allowed: 'hosts, addresses and CIDRs, separated by commas, or *',
    example: 'localhost,internal.example',
    unset: 'none'
  }
} as const satisfies Record<string, SettingSpec>

export type SettingName = keyof typeof SETTINGS

/** The first word of a path. */
export type FirstWord<Name> = Name extends `${infer Word}.${string}` ? Word : Name
/** The rest of a path that begins with that word. */
export type AfterWord<Name, Word extends string> = Name extends `${Word}.${infer Rest}` ? Rest : never
type ValueAt<Name> = Name extends SettingName ? ValueOf<(typeof SETTINGS)[Name]> | Presence<(typeof SETTINGS)[Name]>
  : never

/** The settings as they are nested: `idp.domain` is the member `domain` of `idp`. */
type Nested<Name extends string, Known extends boolean, Path extends string = ''> = {
  readonly [Word in FirstWord<Name> & string]: Word extends Name
    ? Known extends true ? ValueAt<`${Path}${Word}`> : unknown
    : Nested<AfterWord<Name, Word>, Known, `${Path}${Word}.`>
}

/** The validated settings. */
export type SettingValues = Nested<SettingName, true>

/**
 * Settings as found and not validated yet. Each section is there, and a setting that is not set is absent or undefined.
 */
export type RawSettings = Nested<SettingName, false>

export const settingNames = Object.keys(SETTINGS) as SettingName[]

/** What an entry of `idp.issuers` may hold. Each member takes what the setting beside the list takes. */
export const issuerMembers: readonly SettingName[] = settingNames.filter(name => settingSpec(name).perIssuer)

/** The settings that a variable of the environment can hold, by their variables. */
export const variables: ReadonlyMap<string, SettingName> = new Map(
  settingNames.filter(name => settingSpec(name).from !== 'file').map(name => [settingSpec(name).variable, name])
)

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
