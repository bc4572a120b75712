import type { ClaimValue } from '../requirement/requirement.ts'

/** One entry of `gate.rules`, as its author writes it: the requests that it is for, and what they need. */
export interface GateRuleOptions {
  /** In the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`. */
  readonly path: string
  /** Without it, all methods. `GET` holds for `HEAD` too. */
  readonly methods?: readonly string[] | undefined
  /** With `anyone`, no token is looked at. Default: `token`. */
  readonly allow?: 'anyone' | 'token' | undefined
  /** The token needs all of these scopes. */
  readonly scope?: string | readonly string[] | undefined
  /** The token needs any one of these scopes. */
  readonly anyScope?: string | readonly string[] | undefined
  /** Claims by name (`realm_access.roles` leads into an object), each with a value or with a list of values of which one is enough. */
  readonly claims?: Readonly<Record<string, ClaimValue | readonly ClaimValue[]>> | undefined
  /** The `acr` claim must be one of these (RFC 9470). */
  readonly acr?: string | readonly string[] | undefined
  /** The user must have logged in at most this many seconds ago (RFC 9470). */
  readonly maxAgeSeconds?: number | undefined
  /** Takes the place of the configured audience. */
  readonly audience?: string | undefined
  /** Whether a connection may become another protocol, such as WebSocket. Default: false. */
  readonly upgrade?: boolean | undefined
  /**
   * The messages of the Model Context Protocol (Streamable HTTP) that the rule is for. The body of each POST on such a path decides, and
   * several rules may share the path. Without both members, all messages that no other rule of the path names.
   */
  readonly mcp?: McpTargetOptions | undefined
}

/** `mcp` of a rule, as its author writes it. */
export interface McpTargetOptions {
  /** Methods, such as `initialize` or `resources/read`. No `*`. */
  readonly methods?: string | readonly string[] | undefined
  /** Names of tools, such as `delete_order`, or `read_*` for all that begin so. They imply `tools/call`, and stand beside no other method. */
  readonly tools?: string | readonly string[] | undefined
}

/** The section `gate`, as its author writes it. */
export interface GateOptions {
  /** http or https URL of a host. Without it, the gate is only asked by proxies. */
  readonly upstream?: string | undefined
  /** A request without a rule does not pass. */
  readonly rules?: readonly GateRuleOptions[] | undefined
  /** How long the upstream may be silent, before the first byte and between two. Default: 30. */
  readonly timeoutSeconds?: number | undefined
  /** Most bytes of the body of a request. Default: any number. */
  readonly bodyLimit?: number | undefined
  /** Claims that the upstream gets: their names, or a map from the end of a header's name to a claim. */
  readonly claims?: readonly string[] | Readonly<Record<string, string>> | undefined
  /** Whether `Authorization` and `DPoP` go to the upstream. Default: false. */
  readonly passCredentials?: boolean | undefined
  /** Path of the private key that signs statements (PKCS#8 in PEM form, EC P-256). */
  readonly statementKey?: string | undefined
  /** The `aud` of statements if a proxy asks. */
  readonly statementAudience?: string | undefined
  /** Path before `/health`, `/metrics` and `/docs`, such as `/-`. */
  readonly ownPrefix?: string | undefined
  /** Port for Envoy's gRPC service. */
  readonly grpcPort?: number | undefined
}
