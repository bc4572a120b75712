import type { ClaimValue } from '../guard/requirement.ts'

/** One entry of `gate.rules`, as its author writes it: the requests that it is for, and what they need. */
export interface GateRuleOptions {
  /** In the syntax of the router: `/orders/7`, `/orders/:id`, `/orders/*`. */
  readonly path: string
  /** Without it, all methods. `GET` holds for `HEAD` too. */
  readonly methods?: readonly string[]
  /** With `anyone`, no token is looked at. Default: `token`. */
  readonly allow?: 'anyone' | 'token'
  /** The token needs all of these scopes. */
  readonly scope?: string | readonly string[]
  /** The token needs any one of these scopes. */
  readonly anyScope?: string | readonly string[]
  /** Claims by name, each with a value or with a list of values of which one is enough. */
  readonly claims?: Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>
  /** The `acr` claim must be one of these (RFC 9470). */
  readonly acr?: string | readonly string[]
  /** The user must have logged in at most this many seconds ago (RFC 9470). */
  readonly maxAgeSeconds?: number
  /** Takes the place of the configured audience. */
  readonly audience?: string
  /** Whether a connection may become another protocol, such as WebSocket. Default: false. */
  readonly upgrade?: boolean
}

/** The section `gate`, as its author writes it. */
export interface GateOptions {
  /** http or https URL of a host. Without it, the gate is only asked by proxies. */
  readonly upstream?: string
  /** A request without a rule does not pass. */
  readonly rules?: readonly GateRuleOptions[]
  /** How long the upstream may be silent, before the first byte and between two. Default: 30. */
  readonly timeoutSeconds?: number
  /** Most bytes of the body of a request. Default: any number. */
  readonly bodyLimit?: number
  /** Claims that the upstream is told: their names, or a map from the end of a header's name to a claim. */
  readonly claims?: readonly string[] | Readonly<Record<string, string>>
  /** Whether `Authorization` and `DPoP` go to the upstream. Default: false. */
  readonly passCredentials?: boolean
  /** Path of the private key that signs statements (PKCS#8 in PEM form, EC P-256). */
  readonly statementKey?: string
  /** The `aud` of statements if a proxy asks. */
  readonly statementAudience?: string
  /** Path before `/health`, `/metrics` and `/docs`, such as `/-`. */
  readonly ownPrefix?: string
  /** Port for Envoy's gRPC service. */
  readonly grpcPort?: number
}
