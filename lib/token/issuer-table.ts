import type { KeySource } from '../provider/key-source.ts'
import type { DpopMode } from '../credentials.ts'
import { issuerSpellings } from './jwt-checks.ts'
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
  /** Undefined if no token of the issuer is introspected. */
  readonly introspection: TokenIntrospection | undefined
}

export interface TokenIntrospection {
  readonly covers: IntrospectedTokens
  readonly inquiry: Inquiry
}

/** The accepted issuers. It chooses by the `iss` of a token, which is not verified yet. */
export interface IssuerTable {
  /** The issuer with exactly this name, a last slash aside, or undefined. A promise if the application decides. */
  find (iss: string): TokenIssuer | undefined | Promise<TokenIssuer | undefined>
  /** The one issuer of opaque tokens, if any. */
  readonly ofOpaque: TokenIssuer | undefined
  /** False if there may be issuers that are not loaded yet. */
  readonly isComplete: boolean
  /** Records that a token with this `iss` has passed all its checks. Undefined if the table never changes. */
  recordUse?: (iss: string) => void
  /** The loaded issuers, for health and metrics. Their number is bounded. */
  all (): readonly TokenIssuer[]
  /** Starts to fetch keys in the background. */
  start (): void
  close (): Promise<void>
}

/** Stops the background work of an issuer, and aborts what runs. */
export async function closeIssuer ({ introspection, keys }: Pick<TokenIssuer, 'introspection' | 'keys'>): Promise<void> {
  introspection?.inquiry.close()
  await keys.close()
}

/** A table that never changes. */
export function createIssuerTable (issuers: readonly TokenIssuer[]): IssuerTable {
  const bySpelling = new Map(issuers.flatMap(issuer => issuerSpellings(issuer.issuer).map(spelling => [spelling, issuer] as const)))
  return {
    find: iss => bySpelling.get(iss),
    ofOpaque: issuers.find(({ introspection }) => introspection && introspection.covers !== 'jwt'),
    isComplete: true,
    all: () => issuers,
    start () {
      for (const { keys } of issuers) keys.start()
    },
    async close () {
      await Promise.all(issuers.map(closeIssuer))
    }
  }
}
