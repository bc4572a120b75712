/** The words for each value are written beside its schema: `allowed` is for messages and documentation. */
const text = { type: 'string', minLength: 1, allowed: 'any non-empty text' } as const
const providerUrl = { type: 'string', format: 'provider-url', allowed: 'https URL (http for a loopback host) without user info' } as const
const issuerUrl = { type: 'string', format: 'issuer-url', allowed: 'https URL (http for a loopback host) without user info, query or fragment' } as const
const secret = {
  allowed: 'a text, { file: PATH } or { env: NAME }',
  secret: true,
  anyOf: [
    { type: 'string', minLength: 1 },
    { type: 'object', required: ['file'], properties: { file: { type: 'string', minLength: 1 } }, additionalProperties: false },
    { type: 'object', required: ['env'], properties: { env: { type: 'string', minLength: 1 } }, additionalProperties: false }
  ]
} as const
const sessionClaim = { anyOf: [{ type: 'string', minLength: 1 }, { const: false }], default: 'sid', allowed: 'name of a claim, or false' } as const
const flag = { type: 'boolean', default: false, allowed: 'true or false' } as const

const transmitter = {
  type: 'object',
  allowed: 'an object with issuer or metadata, delivery, and audience unless manage is true',
  required: ['delivery'],
  additionalProperties: false,
  properties: {
    issuer: issuerUrl,
    metadata: providerUrl,
    audience: text,
    delivery: { enum: ['push', 'poll'], allowed: 'push or poll' },
    endpoint: providerUrl,
    tokenIssuers: { type: 'array', minItems: 1, items: issuerUrl, allowed: 'list of issuers' },
    sessionClaim,
    subjectClaims: { type: 'object', additionalProperties: { type: 'string', minLength: 1 }, default: {}, allowed: 'map from a format or member of subjects to a claim' },
    clientId: text,
    clientSecret: secret,
    tokenEndpoint: providerUrl,
    manage: flag,
    pushAuthorization: secret,
    untyped: flag
  }
} as const

const logout = {
  type: 'object',
  allowed: 'an object with clientId, and issuer if there are several',
  required: ['clientId'],
  additionalProperties: false,
  properties: { issuer: issuerUrl, clientId: text, sessionClaim }
} as const

/** The JSON schema of the section `revocation`. Messages and the editor's schema are made from it. */
export const REVOCATION_SCHEMA = {
  type: 'object',
  allowed: 'a section with transmitters, logout or operators: docs/revocation.md',
  additionalProperties: false,
  properties: {
    transmitters: { type: 'array', minItems: 1, maxItems: 50, items: transmitter, allowed: 'list of 1 to 50 transmitters' },
    logout: { type: 'array', minItems: 1, maxItems: 50, items: logout, allowed: 'a client, or a list of 1 to 50' },
    operators: { type: 'object', required: ['scope'], additionalProperties: false, properties: { scope: { type: 'string', format: 'scope', allowed: 'a scope' } }, allowed: 'an object with scope' },
    retentionSeconds: { type: 'integer', minimum: 1, maximum: 31_536_000, default: 86_400, allowed: 'integer, 1 to 31536000' },
    staleSeconds: { type: 'integer', minimum: 1, maximum: 300, default: 10, allowed: 'integer, 1 to 300' },
    outage: { enum: ['refuse', 'serve'], default: 'refuse', allowed: 'refuse or serve' },
    store: { type: 'string', format: 'revocation-store', secret: true, allowed: 'memory, or a redis:// or rediss:// URL' }
  }
} as const
