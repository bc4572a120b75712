import { JWS_ALGS } from '../jose/algorithms.ts'
import type { Presence, SettingSpec, ValueOf } from './setting-spec.ts'

/**
 * Every setting, written once: its names, its JSON schema, what it allows in words, and its default.
 * From here come validation (by @fastify/env), the types, and the table of docs/configuration.md.
 */
export const SETTINGS = {
  IDP_DOMAIN: {
    file: 'idp.domain',
    about: 'tenant of the identity provider: where keys come from, and the issuer of tokens',
    schema: { type: 'string', format: 'domain' },
    allowed: 'host, optionally with :port; no scheme, path or user info',
    example: 'tenant.example',
    unset: 'required, unless IDP_ISSUER is set'
  },
  IDP_AUDIENCE: {
    file: 'idp.audience',
    about: 'identifier of this API at the provider; tokens must be made for exactly it',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    example: 'https://api.example',
    unset: 'required'
  },
  IDP_ISSUER: {
    file: 'idp.issuer',
    about: 'for a provider whose issuer is not its bare domain',
    schema: { type: 'string', format: 'issuer-url' },
    allowed: 'https URL (http for a loopback host) without user info, query or fragment',
    example: 'https://tenant.example/',
    unset: 'https://{domain}/'
  },
  IDP_JWKS_URI: {
    file: 'idp.jwksUri',
    about: 'address of the signing keys; skips discovery',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'https URL (http for a loopback host) without user info',
    example: 'https://tenant.example/.well-known/jwks.json',
    unset: 'by discovery'
  },
  IDP_SCOPE_CLAIMS: {
    file: 'idp.scopeClaims',
    about: 'claims that grant scopes',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: ['scope', 'scp', 'permissions'] }, default: ['scope'] },
    allowed: 'list out of scope, scp, permissions'
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
    about: 'leeway for exp and nbf of tokens',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 5 },
    allowed: 'integer, 0 to 300'
  },
  API_PROFILE: {
    file: 'api.profile',
    about: 'shape of the answers, and the default port',
    schema: { type: 'string', enum: ['1', '2'], default: '1' },
    allowed: '1 or 2'
  },
  ERROR_BODY: {
    file: 'api.errorBody',
    about: 'shape of the error bodies',
    schema: { type: 'string', enum: ['default', 'detailed'], default: 'default' },
    allowed: 'default or detailed'
  },
  DPOP_ENABLED: {
    file: 'idp.dpopEnabled',
    about: 'false is mode DISABLED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: true,
    unset: 'true'
  },
  DPOP_REQUIRED: {
    file: 'idp.dpopRequired',
    about: 'true is mode REQUIRED',
    schema: { type: 'boolean' },
    allowed: 'true or false',
    example: false,
    unset: 'false'
  },
  IDP_DPOP_MODE: {
    file: 'idp.dpopMode',
    about: 'whether proofs are off, accepted or a must',
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
    about: 'signature algorithms of proofs',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: JWS_ALGS }, default: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'] },
    allowed: `list out of ${JWS_ALGS.join(', ')}`
  },
  DPOP_REPLAY: {
    file: 'dpop.replay',
    about: 'where used proofs are remembered; several instances share a Redis',
    schema: { type: 'string', format: 'replay-store', default: 'memory' },
    allowed: 'memory, off, or a redis:// or rediss:// URL',
    secret: true
  },
  DPOP_REPLAY_MAX: {
    file: 'dpop.replayMax',
    about: 'entries that the memory store holds; full of live ones it answers 503, and a key that has a quarter of them 429',
    schema: { type: 'integer', minimum: 1, maximum: 100_000_000, default: 2_000_000 },
    allowed: 'integer, 1 to 100000000'
  },
  DPOP_NONCE: {
    file: 'dpop.nonce',
    about: 'whether proofs need a nonce of ours',
    schema: { type: 'string', enum: ['off', 'required'], default: 'off' },
    allowed: 'off or required'
  },
  DPOP_NONCE_SECRET: {
    file: 'dpop.nonceSecret',
    about: 'the first makes nonces, all verify them; the same on every instance',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'nonce-secret' } },
    allowed: 'list of one or more, each 32 bytes or more in base64url',
    unset: 'random at start, with a warning',
    secret: true
  },
  TRUST_PROXY: {
    file: 'server.trustProxy',
    about: 'peers whose forwarded headers count',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'trusted-peer' }, default: ['false'] },
    allowed: 'false, true, or a list of addresses, CIDRs and the names loopback, linklocal, uniquelocal; no hop count'
  },
  PUBLIC_URL: {
    file: 'server.publicUrl',
    about: 'address under which clients reach this service; no header is read for it',
    schema: { type: 'string', format: 'public-url' },
    allowed: 'http or https URL, optionally with a plain path',
    example: 'https://api.example',
    unset: 'none: read from each request'
  },
  CORS_ORIGINS: {
    file: 'server.corsOrigins',
    about: 'browser applications that may call',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'origin' } },
    allowed: 'list of origins (scheme://host[:port], no path), or *',
    example: ['https://app.example'],
    unset: 'none: CORS off'
  },
  RATE_LIMIT: {
    file: 'server.rateLimit',
    about: 'guarded requests a minute that one client may send; each instance counts its own',
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
    about: 'the least level that is logged',
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
  HTTP_PROXY: {
    file: null,
    about: 'proxy for calls to a provider on https when the next is not set; http on loopback is called directly',
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL',
    example: 'http://proxy.example:3128',
    unset: 'none',
    secret: true
  },
  HTTPS_PROXY: {
    file: null,
    about: 'proxy for calls to a provider on https',
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

/** The settings as validated, by their environment names. */
export type SettingValues = {
  readonly [K in SettingName]: ValueOf<(typeof SETTINGS)[K]['schema']> | Presence<(typeof SETTINGS)[K]['schema']>
}

/** Settings by their environment names, as found and not validated yet. */
export type RawSettings = Partial<Record<SettingName, unknown>>

export const settingNames = Object.keys(SETTINGS) as SettingName[]

/** A setting's description without its literal types, for code that walks over all of them. */
export function settingSpec (name: SettingName): SettingSpec {
  return SETTINGS[name]
}
