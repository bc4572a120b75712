import { about, FLAG, TEXT, UPSTREAM } from './setting-spec.ts'

const MAX_TIMEOUT_SECONDS = 86_400
const WORDS = { written: 'string | readonly string[]' } as const
const flag = { ...FLAG, allowed: 'true, false' } as const

/** Without a schema: lib/gate reads it, in words of its own. */
const MCP = {
  properties: {
    methods: about('methods, such as `initialize` or `resources/read`; no `*`', WORDS),
    tools: about('names of tools, such as `delete_order`, or `read_*` for all that begin so; they imply `tools/call`, and contradict any other method', WORDS)
  }
} as const

export const RULE = {
  type: 'object',
  allowed: 'an object with members such as path and scope',
  additionalProperties: false,
  properties: {
    path: about('in the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`', { written: 'string' }),
    methods: about('without it, all methods; `GET` holds for `HEAD` too', { type: 'array', alone: true, minItems: 1, items: { type: 'string', format: 'http-method' }, allowed: 'a list of HTTP methods in upper case' }),
    allow: about('with `anyone`, no token is looked at', { type: 'string', enum: ['anyone', 'token'], default: 'token', allowed: 'anyone, token' }),
    scope: about('the token needs all of these scopes', WORDS),
    anyScope: about('the token needs any one of these scopes', WORDS),
    claims: about('claims by name (`realm_access.roles` leads into an object), each with a value or with a list of values of which one is enough', { written: 'Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>' }),
    acr: about('the `acr` claim must be one of these (RFC 9470)', WORDS),
    maxAgeSeconds: about('the user must have logged in at most this many seconds ago (RFC 9470)', { written: 'number' }),
    audience: about('takes the place of the configured audience', { ...TEXT, digits: true }),
    upgrade: about('whether a connection may become another protocol, such as WebSocket', { ...flag, default: false }),
    mcp: about('the messages of the Model Context Protocol (Streamable HTTP) that the rule is for; the body of each POST on such a path decides, and several rules may share the path; without both members, all messages that no other rule of the path names', MCP)
  }
} as const

/** The section `gate`. What JSON schema cannot say of it is in lib/gate. */
export const GATE = {
  type: 'object',
  whole: 'a section with members such as upstream and rules',
  additionalProperties: false,
  properties: {
    upstream: about('http or https URL of a host; without it, the gate is only asked by proxies', UPSTREAM),
    rules: about('a request without a rule does not pass', { type: 'array', nullable: true, items: RULE, allowed: 'a list of entries such as { path: /orders/*, scope: read:orders }' }),
    timeoutSeconds: about('how long the upstream may be silent, before the first byte and between two', { type: 'integer', minimum: 1, maximum: MAX_TIMEOUT_SECONDS, digits: true, default: 30, allowed: `1 to ${MAX_TIMEOUT_SECONDS}` }),
    bodyLimit: about('most bytes of the body of a request; any number unless given', { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, digits: true, allowed: 'a whole number of bytes' }),
    claims: about('claims that the upstream gets: their names, or a map from the end of a header\'s name to a claim', { written: 'readonly string[] | Readonly<Record<string, string>>' }),
    passCredentials: about('whether `Authorization` and `DPoP` go to the upstream', { ...flag, default: false }),
    statementKey: about('path of the private key that signs statements (PKCS#8 in PEM form, EC P-256)', { ...TEXT, digits: true, allowed: 'path of a file with a private key (PKCS#8 in PEM form, EC P-256)' }),
    statementAudience: about('the `aud` of statements if a proxy asks', { ...TEXT, digits: true }),
    ownPrefix: about('path before `/health`, `/metrics` and `/docs`, such as `/-`', { type: 'string', pattern: '^(?:/[A-Za-z0-9_~-]+)+$', allowed: 'a path of plain segments, such as /-' }),
    grpcPort: about('port for Envoy\'s gRPC service', { type: 'integer', minimum: 0, maximum: 65_535, digits: true, allowed: '0 to 65535' })
  }
} as const
