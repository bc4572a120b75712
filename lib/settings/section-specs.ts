import { CLIENT_AUTH_METHODS } from '../guard/provider/client-authentication.ts'
import { JWS_ALGS } from '../guard/jose/signature.ts'
import type { FormatName } from './formats.ts'
import {
  FLAG,
  integer,
  ISSUER_NAME,
  listOf,
  oneOf,
  PLAIN,
  PROVIDER_URL,
  SAFE_URL,
  TEXT,
  UPSTREAM
} from './setting-spec.ts'

const WORDS = { written: 'string | readonly string[]' } as const
const TIMEOUT = digits(1, 86_400)
const flag = { ...FLAG, allowed: 'true, false' } as const

/** An integer that may be written as a text, too. */
function digits (minimum: number, maximum: number) {
  return { ...integer(minimum, maximum), digits: true, allowed: `${minimum} to ${maximum}` } as const
}

/** Where a secret may be in place of its text. */
export const SECRET_PLACE = {
  anyOf: [
    {
      type: 'object',
      required: ['file'],
      properties: { file: { about: 'path of the file that holds it', ...PLAIN } },
      additionalProperties: false
    },
    {
      type: 'object',
      required: ['env'],
      properties: { env: { about: 'name of the variable that holds it', ...PLAIN } },
      additionalProperties: false
    }
  ]
} as const

const pem = (about: string) => ({ about: `${about}, in PEM form`, ...SECRET_PLACE.anyOf[0] } as const)

/** A store as one text, or as a Redis with files of its own for TLS. */
export function store (format: FormatName, words: string) {
  return {
    anyOf: [
      { type: 'string', format },
      {
        type: 'object',
        required: ['url'],
        additionalProperties: false,
        properties: {
          url: { about: 'a `rediss:` URL', type: 'string', format: 'tls-redis', placed: true },
          cert: pem('the certificate that the Redis wants'),
          key: pem('its private key'),
          ca: pem("what the Redis's certificate must be signed by, in place of the authorities of Node")
        }
      }
    ],
    secret: true,
    placed: true,
    allowed: `${words}, or a redis:// or rediss:// URL; in the file also { file: PATH }, { env: NAME } or ` +
      '{ url, cert, key, ca }'
  } as const
}

const MCP = {
  type: 'object',
  allowed: 'a section with methods or tools, or an empty one, {}',
  additionalProperties: false,
  properties: {
    methods: {
      about: 'methods, such as `initialize` or `resources/read`; no `*`',
      ...WORDS,
      type: 'array',
      alone: true,
      minItems: 1,
      uniqueItems: true,
      items: { type: 'string', pattern: '^[^\\s*]+$' },
      allowed: 'a list of methods such as tools/list, each once and without *'
    },
    tools: {
      about:
        'names of tools, such as `delete_order`, or `read_*` for all that begin so; they imply `tools/call`, and ' +
        'contradict any other method',
      ...WORDS,
      type: 'array',
      alone: true,
      minItems: 1,
      uniqueItems: true,
      items: { type: 'string', pattern: '^[^*]*.$' },
      allowed: 'a list of names of tools, each once, with * at the end for all that begin so'
    },
    arguments: {
      about:
        'what calls of `tools` must say: arguments by name, each with a value, a list of values, ' +
        '`{ startsWith: TEXT }` or `{ claim: NAME }`',
      written: 'Readonly<Record<string, ArgumentOption>>'
    },
    onlyCallable: {
      about: 'in place of `onlyRuled`: whether they hold only tools that the token of the caller may call now',
      ...flag,
      default: false
    },
    onlyRuled: {
      about:
        'whether the answers to `tools/list`, which `methods` must name, hold only tools that a rule of the path ' +
        'is for; reverse proxy only',
      ...flag,
      default: false
    }
  }
} as const

export const RULE = {
  type: 'object',
  allowed: 'an object with members such as path and scope',
  additionalProperties: false,
  properties: {
    path: { about: 'in the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`', written: 'string' },
    methods: {
      about: 'without it, all methods; `GET` holds for `HEAD` too',
      type: 'array',
      alone: true,
      minItems: 1,
      items: { type: 'string', format: 'http-method' },
      allowed: 'a list of HTTP methods in upper case'
    },
    allow: {
      about: 'with `anyone`, no token is looked at',
      ...oneOf('anyone', 'token'),
      default: 'token',
      allowed: 'anyone, token'
    },
    scope: { about: 'the token needs all of these scopes', ...WORDS },
    anyScope: { about: 'the token needs any one of these scopes', ...WORDS },
    claims: {
      about:
        'claims by name (`realm_access.roles` leads into an object), each with a value or with a list of values of ' +
        'which one is enough',
      written: 'Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>'
    },
    acr: { about: 'the `acr` claim must be one of these (RFC 9470)', ...WORDS },
    maxAgeSeconds: {
      about: 'the user must have logged in at most this many seconds ago (RFC 9470)',
      written: 'number'
    },
    audience: {
      about: 'takes the place of the configured audience: a token for it, or for one of a list, passes',
      type: 'array',
      alone: true,
      minItems: 1,
      maxItems: 20,
      uniqueItems: true,
      items: { ...PLAIN, digits: true },
      allowed: 'any non-empty string, or a list of 1 to 20, each once'
    },
    optional: {
      about: 'whether a request without credentials passes too, as nobody; all others are judged',
      ...flag,
      default: false
    },
    timeoutSeconds: { about: 'takes the place of `gate.timeoutSeconds`', ...TIMEOUT },
    observe: { about: 'false enforces this rule at once, whatever `OBSERVE` says', ...flag, default: true },
    upgrade: { about: 'whether a connection may become another protocol, such as WebSocket', ...flag, default: false },
    mcp: {
      about:
        'the messages of the Model Context Protocol (Streamable HTTP) that the rule is for; the body of each POST ' +
        'on such a path decides, and several rules may share the path; without both members, all messages that no ' +
        'other rule of the path names',
      ...MCP
    }
  }
} as const

const KEY_FILE = 'path of a file with a private key (PKCS#8 in PEM form, EC P-256), or a list of them; also ' +
  '{ file: PATH } or { env: NAME }'

/** The section `gate`. What JSON schema cannot say of it is in lib/gate. */
export const GATE = {
  type: 'object',
  additionalProperties: false,
  properties: {
    upstream: { about: 'http or https URL of a host; without it, the gate is only asked by proxies', ...UPSTREAM },
    rules: {
      about: 'a request without a rule does not pass',
      type: 'array',
      items: RULE,
      allowed: 'a list of entries such as { path: /orders/*, scope: read:orders }'
    },
    exactPaths: {
      about:
        'whether the upstream tells paths apart that differ in case, in escapes, in a suffix or in a slash at the end',
      ...flag,
      default: false
    },
    timeoutSeconds: {
      about:
        'how long the upstream may be silent, before the first byte and between two (an event stream: only before ' +
        'the first), and the client in the body of its request',
      ...TIMEOUT,
      default: 30
    },
    idleSeconds: {
      about:
        'how long connections to the upstream are kept without a request; less than the upstream keeps them. With ' +
        '0, each request has its own',
      ...digits(0, 600),
      default: 4
    },
    keepAliveSeconds: {
      about: 'after how much silence an event stream gets a comment, so that no proxy or client ends it; with 0, none',
      ...digits(0, 600),
      default: 15
    },
    host: {
      about: 'the `Host` that the upstream gets: that of the client, or its own',
      ...oneOf('client', 'upstream'),
      default: 'client'
    },
    bodyLimit: {
      about: 'most bytes of the body of a request; any number unless given',
      ...digits(0, Number.MAX_SAFE_INTEGER),
      allowed: 'a whole number of bytes'
    },
    claims: {
      about: "claims that the upstream gets: their names, or a map from the end of a header's name to a claim",
      written: 'readonly string[] | Readonly<Record<string, string>>',
      anyOf: [
        { type: 'array', items: PLAIN },
        {
          type: 'object',
          propertyNames: { type: 'string', pattern: '^[A-Za-z0-9-]+$' },
          additionalProperties: { type: 'string' }
        }
      ],
      allowed: 'a list of claims, or a map from the end of a header name (letters, digits and -) to a claim; no two ' +
        'of them may share a header'
    },
    withheldHeaders: {
      about: 'headers of clients that never reach the upstream, besides those that could stand for the word of a ' +
        'proxy or a caller: names, `*` at the end for all that begin so. Over HTTP, a proxy that asks removes them ' +
        'itself',
      type: 'array',
      maxItems: 100,
      items: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}\\*?$' },
      default: [],
      allowed: 'a list of at most 100 names of headers (letters, digits, - and _), with or without * at the end'
    },
    passCredentials: { about: 'whether `Authorization` and `DPoP` go to the upstream', ...flag, default: false },
    statementKey: {
      about: 'path of the private key that signs statements (PKCS#8 in PEM form, EC P-256), or a list of them: the ' +
        'first signs, all are published',
      type: 'array',
      alone: true,
      minItems: 1,
      items: { anyOf: [PLAIN, SECRET_PLACE], digits: true, allowed: KEY_FILE },
      allowed: KEY_FILE
    },
    statementAudience: { about: 'the `aud` of statements if a proxy asks', ...TEXT, digits: true },
    ownPrefix: {
      about: 'path before `/health`, `/metrics` and `/docs`, such as `/-`',
      type: 'string',
      pattern: '^(?:/[A-Za-z0-9_~-]+)+$',
      allowed: 'a path of plain segments, such as /-'
    },
    grpcPort: { about: "port for Envoy's gRPC service", ...digits(0, 65_535) }
  }
} as const

const text = { ...TEXT, allowed: 'any non-empty text' } as const
const sessionClaim = {
  anyOf: [{ ...PLAIN, format: 'claim-name' }, { const: false }],
  default: 'sid',
  allowed: 'name of a claim, or false'
} as const

/** A secret as text, or where it is: a file (its last line break does not count), or a variable of the environment. */
export const SECRET = {
  allowed: 'a text, { file: PATH } or { env: NAME }',
  secret: true,
  anyOf: [PLAIN, SECRET_PLACE]
} as const

/** The section `audit`. */
export const AUDIT = {
  type: 'object',
  short: 'to',
  required: ['to'],
  additionalProperties: false,
  properties: {
    to: {
      about: '`off`, `log` for the log of the service, or the path of a file',
      ...TEXT,
      format: 'audit-target',
      digits: true,
      allowed: 'off, log, or the path of a file'
    },
    pseudonymKey: {
      about:
        'key under which subjects, clients, actors and `jti`s are written as pseudonyms (HMAC-SHA-256): base64url ' +
        'of 32 bytes or more',
      ...SECRET_PLACE,
      secret: true,
      allowed: '{ file: PATH } or { env: NAME }'
    }
  }
} as const

/** Formats and members of subjects whose values are compared with a claim that the settings name. */
const MAPPED =
  'account, did, email, iss_sub, opaque, phone_number, uri, device, application, tenant, org_unit, group'

export const TRANSMITTER = {
  type: 'object',
  allowed: 'an object with issuer, delivery, and audience or clientId',
  required: ['issuer', 'delivery'],
  additionalProperties: false,
  properties: {
    issuer: { about: 'its issuer, which its configuration must name', ...SAFE_URL },
    metadata: {
      about: 'the address of its configuration, if it is not under the issuer (SSF 1.0 section 7.2)',
      ...PROVIDER_URL
    },
    audience: {
      about: 'the `aud` of its events; with `clientId` it may be left out: then it is that of the stream',
      ...text
    },
    delivery: {
      about: 'how events come: it posts them to `/revocation/events` (RFC 8935), or they are fetched (RFC 8936)',
      ...oneOf('push', 'poll')
    },
    endpoint: { about: 'where events are fetched; without it, where the stream says', ...PROVIDER_URL },
    tokenIssuers: {
      about: 'the issuers about whose tokens it may speak; without it, only itself',
      type: 'array',
      minItems: 1,
      items: ISSUER_NAME,
      allowed: 'list of issuers'
    },
    sessionClaim: {
      about: 'the claim of access tokens that holds the session; `false`: a session means its user',
      ...sessionClaim
    },
    subjectClaims: {
      about:
        'the claim of access tokens that a subject of a format, or a member of a complex subject, is compared with',
      type: 'object',
      propertyNames: { enum: MAPPED.split(', ') },
      additionalProperties: PLAIN,
      default: {},
      allowed: `map from formats and members of subjects (${MAPPED}) to claims`
    },
    clientId: { about: 'the client as which the stream is read, polled and verified', ...text },
    clientSecret: { about: 'the secret of that client', ...SECRET },
    clientAuth: {
      about: 'how that client proves itself',
      ...oneOf(...CLIENT_AUTH_METHODS),
      default: 'client_secret_basic'
    },
    keyFile: {
      about: 'private key of that client for `private_key_jwt`: PEM, or a JWK whose `alg` and `kid` are used',
      ...text
    },
    tokenEndpoint: {
      about: 'where the client gets its token for the transmitter; without it, by discovery under the issuer',
      ...PROVIDER_URL
    },
    verify: {
      about: 'whether the stream is verified every 10 minutes, where the transmitter can do that',
      ...FLAG,
      default: true
    },
    streamId: { about: 'the stream, if the client has several', ...text },
    pushAuthorization: { about: 'the whole value of the Authorization header that each push must have', ...SECRET },
    untyped: { about: 'whether its events may come without `typ`', ...FLAG, default: false }
  }
} as const

export const LOGOUT = {
  type: 'object',
  allowed: 'an object with clientId, and issuer if there are several',
  required: ['clientId'],
  additionalProperties: false,
  properties: {
    issuer: { about: 'may be left out if there is one issuer', ...ISSUER_NAME },
    clientId: { about: 'the client whose id is the `aud` of the logout tokens', ...text },
    sessionClaim: {
      about: 'the claim of access tokens that holds the session; `false`: they have none',
      ...sessionClaim
    },
    algs: {
      about: 'accepted signature algorithms of the logout tokens; without it, those of the access tokens of the issuer',
      ...listOf(JWS_ALGS),
      alone: true
    }
  }
} as const

export const OPERATORS = {
  type: 'object',
  allowed: 'an object with scope',
  required: ['scope'],
  additionalProperties: false,
  properties: {
    scope: { about: 'the scope that their tokens need', type: 'string', format: 'scope', allowed: 'a scope' },
    issuers: {
      about: 'the issuers that they act for, beside that of their own token; `*`: all, and keys too',
      type: 'array',
      alone: true,
      maxItems: 50,
      items: { type: 'string', format: 'issuer-name-or-any', allowed: `*, or ${ISSUER_NAME.allowed}` },
      default: [],
      allowed: '*, or a list of up to 50 issuers'
    }
  }
} as const

/** The section `revocation`. */
export const REVOCATION = {
  type: 'object',
  additionalProperties: false,
  properties: {
    transmitters: {
      about: 'Shared Signals transmitters',
      type: 'array',
      minItems: 1,
      maxItems: 50,
      items: TRANSMITTER,
      allowed: 'list of 1 to 50 transmitters'
    },
    logout: {
      about: 'clients for which a provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0)',
      type: 'array',
      alone: true,
      minItems: 1,
      maxItems: 50,
      items: LOGOUT,
      allowed: 'a client, or a list of 1 to 50'
    },
    operators: { about: 'operators, who revoke by `POST /revocation/subjects`', ...OPERATORS },
    retentionSeconds: {
      about: 'seconds for which cutoffs are kept, and so the longest life of a token',
      ...integer(1, 31_536_000),
      default: 86_400
    },
    staleSeconds: { about: 'seconds for which the store may be silent', ...integer(1, 300), default: 10 },
    outage: { about: 'what holds while the store is silent', ...oneOf('refuse', 'serve'), default: 'refuse' },
    store: {
      about: '`memory`, or the URL of a Redis; the one of `dpop.replay` unless given',
      ...store('revocation-store', 'memory')
    }
  }
} as const
