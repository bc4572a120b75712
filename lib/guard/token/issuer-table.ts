import type { DpopMode } from '../credentials.ts'
import type { IntrospectionEndpoint } from '../introspection/endpoint.ts'
import type { KeySource } from '../provider/key-source.ts'
import { issuerSpellings } from '../provider/provider-url.ts'
import type { TokenRules } from './jwt-checks.ts'
import type { Inquiry, IntrospectedTokens } from './inquiry.ts'
import type { ScopeClaim } from './verified-tokens.ts'

/** An accepted issuer: its name, its keys and the rules for its tokens. */
export interface TokenIssuer {
  /** As the settings name it. */
  readonly issuer: string
  readonly keys: KeySource
  readonly rules: TokenRules
  readonly scopeClaims: readonly ScopeClaim[]
  readonly dpopMode: DpopMode
  /** Absent if no token of the issuer is introspected. */
  readonly introspection: TokenIntrospection | undefined
}

export interface TokenIntrospection {
  readonly covers: IntrospectedTokens
  readonly inquiry: Inquiry
  readonly endpoint: IntrospectionEndpoint
  /** Whether an issuer without keys is whole: all of its tokens are opaque, and answers about them are not signed. */
  readonly needsNoKeys: boolean
}

/** The accepted issuers. It chooses by the `iss` of a token, which is not verified yet. */
export interface IssuerTable {
  /** The issuer with exactly this name, a last slash aside, or undefined. */
  find (iss: string): Promise<TokenIssuer | undefined>
  /** The one issuer of opaque tokens, if any. */
  readonly ofOpaque: TokenIssuer | undefined
  /** False if there may be issuers that are not loaded yet. */
  readonly isComplete: boolean
  /** Records that a token with this `iss` has passed all its checks. Absent if the table never changes. */
  recordUse?: (iss: string) => void
  /** The loaded issuers, for health and metrics. Their number is bounded. */
  all (): readonly TokenIssuer[]
  /** Starts to fetch keys in the background. */
  start (): void
  close (): Promise<void>
}

/**
 * Whether an issuer needs no keys for its tokens: all of them are opaque, and it publishes none. A set whose keys
 * cannot be used says that it signs tokens too.
 */
export function isWithoutKeys ({ keys, introspection }: IssuerState): boolean {
  const { status, passedOver } = keys.state()
  return introspection?.needsNoKeys === true && status !== 'empty' && keys.state().keys === 0 &&
    Object.keys(passedOver).length === 0
}

/** What health and metrics read of an issuer. */
export interface IssuerState extends Pick<TokenIssuer, 'issuer'> {
  readonly keys: Pick<KeySource, 'state'>
  readonly introspection:
    | Pick<TokenIntrospection, 'needsNoKeys'> & {
      readonly inquiry: Pick<Inquiry, 'state'>,
      readonly endpoint: Pick<IntrospectionEndpoint, 'isKnown'>
    }
    | undefined
}

/** Stops the background work of an issuer, and aborts what runs. */
export async function closeIssuer (
  { introspection, keys }: Pick<TokenIssuer, 'introspection' | 'keys'>
): Promise<void> {
  introspection?.inquiry.close()
  await Promise.all([keys.close(), introspection?.endpoint.close()])
}

/** A table that never changes. */
export function createIssuerTable (issuers: readonly TokenIssuer[]): IssuerTable {
  const bySpelling = new Map(
    issuers.flatMap(issuer => issuerSpellings(issuer.issuer).map(spelling => [spelling, issuer] as const))
  )
  return {
    find: async iss => bySpelling.get(iss),
    ofOpaque: issuers.find(({ introspection }) => introspection && introspection.covers !== 'jwt'),
    isComplete: true,
    all: () => issuers,
    start () {
      for (const { keys, introspection } of issuers) {
        keys.start()
        if (introspection?.needsNoKeys) introspection.endpoint.start()
      }
    },
    async close () {
      await Promise.all(issuers.map(closeIssuer))
    }
  }
}
