import type { FormatName } from './formats.ts'

/**
 * Every setting, written once: its names, its JSON schema, what it allows in words, and its default.
 * From here come validation (by @fastify/env), the types, and the table of docs/configuration.md.
 */
interface ValueSchema {
  readonly type: 'string' | 'integer' | 'boolean'
  readonly enum?: readonly string[]
  readonly format?: FormatName
  readonly minLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: string | number | boolean
}

interface ListSchema {
  readonly type: 'array'
  readonly items: ValueSchema
  readonly minItems?: number
  readonly default?: readonly string[]
}

export interface SettingSpec {
  /** Path in the configuration file, or null where a setting is read from the environment alone. */
  readonly file: string | null
  readonly schema: ValueSchema | ListSchema
  /** The values it takes, in words: for the documentation and for the message about a bad one. */
  readonly allowed: string
  /** What holds when it is not set and the schema has no default. */
  readonly unset?: string
  /** Its value is never shown. */
  readonly secret?: true
}

export const DPOP_ALGS = ['ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512', 'EdDSA', 'Ed25519'] as const

export const SETTINGS = {
  IDP_DOMAIN: {
    file: 'idp.domain',
    schema: { type: 'string', format: 'domain' },
    allowed: 'host, optionally with :port; no scheme, path or user info',
    unset: 'required, unless IDP_ISSUER is set'
  },
  IDP_AUDIENCE: {
    file: 'idp.audience',
    schema: { type: 'string', minLength: 1 },
    allowed: 'any non-empty string',
    unset: 'required'
  },
  IDP_ISSUER: {
    file: 'idp.issuer',
    schema: { type: 'string', format: 'issuer-url' },
    allowed: 'full issuer URL, https (http for a loopback host), for providers whose issuer is not https://{domain}/',
    unset: 'https://{domain}/'
  },
  IDP_JWKS_URI: {
    file: 'idp.jwksUri',
    schema: { type: 'string', format: 'provider-url' },
    allowed: 'full URL of the key set, https (http for a loopback host); skips discovery',
    unset: 'by discovery'
  },
  IDP_SCOPE_CLAIMS: {
    file: 'idp.scopeClaims',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: ['scope', 'scp', 'permissions'] }, default: ['scope'] },
    allowed: 'list out of scope, scp, permissions'
  },
  IDP_CUSTOM_CLAIM: {
    file: 'idp.customClaim',
    schema: { type: 'string', format: 'namespaced-claim' },
    allowed: 'namespaced (URL-prefixed) claim name that the profile endpoint returns',
    unset: 'none: custom_claim is null'
  },
  IDP_CLOCK_TOLERANCE_SECONDS: {
    file: 'idp.clockToleranceSeconds',
    schema: { type: 'integer', minimum: 0, maximum: 300, default: 5 },
    allowed: 'seconds, 0 to 300'
  },
  API_PROFILE: {
    file: 'api.profile',
    schema: { type: 'string', enum: ['1', '2'], default: '1' },
    allowed: '1 or 2'
  },
  ERROR_BODY: {
    file: 'api.errorBody',
    schema: { type: 'string', enum: ['default', 'detailed'], default: 'default' },
    allowed: 'default or detailed'
  },
  DPOP_ENABLED: {
    file: 'idp.dpopEnabled',
    schema: { type: 'boolean' },
    allowed: 'true or false; false is mode DISABLED',
    unset: 'true'
  },
  DPOP_REQUIRED: {
    file: 'idp.dpopRequired',
    schema: { type: 'boolean' },
    allowed: 'true or false; true is mode REQUIRED',
    unset: 'false'
  },
  IDP_DPOP_MODE: {
    file: 'idp.dpopMode',
    schema: { type: 'string', enum: ['DISABLED', 'ALLOWED', 'REQUIRED'] },
    allowed: 'DISABLED, ALLOWED or REQUIRED',
    unset: 'ALLOWED'
  },
  IDP_DPOP_IAT_OFFSET_SECONDS: {
    file: 'idp.dpopIatOffsetSeconds',
    schema: { type: 'integer', minimum: 0, default: 300 },
    allowed: 'seconds, 0 or more: how old a proof may be'
  },
  IDP_DPOP_IAT_LEEWAY_SECONDS: {
    file: 'idp.dpopIatLeewaySeconds',
    schema: { type: 'integer', minimum: 0, default: 30 },
    allowed: 'seconds, 0 or more: how far in the future a proof may be'
  },
  DPOP_ALGS: {
    file: 'dpop.algs',
    schema: { type: 'array', minItems: 1, items: { type: 'string', enum: DPOP_ALGS }, default: ['ES256', 'ES384', 'EdDSA', 'Ed25519', 'PS256', 'RS256'] },
    allowed: `list out of ${DPOP_ALGS.join(' ')}`
  },
  DPOP_REPLAY: {
    file: 'dpop.replay',
    schema: { type: 'string', format: 'replay-store', default: 'memory' },
    allowed: 'memory, off, or a redis:// or rediss:// URL',
    secret: true
  },
  DPOP_REPLAY_MAX: {
    file: 'dpop.replayMax',
    schema: { type: 'integer', minimum: 1, maximum: 100_000_000, default: 2_000_000 },
    allowed: 'entries that the memory store holds, 1 to 100000000; when full of live ones it refuses (503)'
  },
  DPOP_NONCE: {
    file: 'dpop.nonce',
    schema: { type: 'string', enum: ['off', 'required'], default: 'off' },
    allowed: 'off or required'
  },
  DPOP_NONCE_SECRET: {
    file: 'dpop.nonceSecret',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'nonce-secret' } },
    allowed: 'one or more (list) of 32 bytes or more in base64url; the first makes nonces, all verify; the same on every instance',
    unset: 'random at start, with a warning',
    secret: true
  },
  TRUST_PROXY: {
    file: 'server.trustProxy',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'trusted-peer' }, default: ['false'] },
    allowed: 'false, true, or a list of addresses, CIDRs and the names loopback, linklocal, uniquelocal; no hop count'
  },
  PUBLIC_URL: {
    file: 'server.publicUrl',
    schema: { type: 'string', format: 'public-url' },
    allowed: 'absolute http or https URL under which clients reach this service; may hold a path prefix',
    unset: 'none: read from each request'
  },
  CORS_ORIGINS: {
    file: 'server.corsOrigins',
    schema: { type: 'array', minItems: 1, items: { type: 'string', format: 'origin' } },
    allowed: 'list of origins (scheme://host[:port]), or *',
    unset: 'none: CORS off'
  },
  METRICS: {
    file: 'server.metrics',
    schema: { type: 'string', enum: ['on', 'off'], default: 'on' },
    allowed: 'on or off'
  },
  LOG_LEVEL: {
    file: 'server.logLevel',
    schema: { type: 'string', enum: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], default: 'info' },
    allowed: 'fatal, error, warn, info, debug, trace or silent'
  },
  PORT: {
    file: null,
    schema: { type: 'integer', minimum: 0, maximum: 65535 },
    allowed: 'port to listen on, 0 to 65535 (0: any free one)',
    unset: '8000 in profile 1, 8080 in profile 2'
  },
  HTTP_PROXY: {
    file: null,
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL of a proxy for calls to an identity provider on http',
    unset: 'none',
    secret: true
  },
  HTTPS_PROXY: {
    file: null,
    schema: { type: 'string', format: 'proxy-url' },
    allowed: 'http or https URL of a proxy for calls to an identity provider on https',
    unset: 'none',
    secret: true
  },
  NO_PROXY: {
    file: null,
    schema: { type: 'string' },
    allowed: 'hosts that are called without a proxy, separated by commas',
    unset: 'none'
  }
} as const satisfies Record<string, SettingSpec>

export type SettingName = keyof typeof SETTINGS

type ValueOf<S> =
  S extends { enum: readonly (infer E)[] } ? E
    : S extends { type: 'boolean' } ? boolean
      : S extends { type: 'integer' } ? number
        : S extends { type: 'array', items: infer I } ? ReadonlyArray<ValueOf<I>>
          : string

type Presence<S> = S extends { default: unknown } ? never : undefined

/** The settings as validated, by their environment names. */
export type SettingValues = {
  readonly [K in SettingName]: ValueOf<(typeof SETTINGS)[K]['schema']> | Presence<(typeof SETTINGS)[K]['schema']>
}

export const settingNames = Object.keys(SETTINGS) as SettingName[]

/** A setting's description without its literal types, for code that walks over all of them. */
export function settingSpec (name: SettingName): SettingSpec {
  return SETTINGS[name]
}
