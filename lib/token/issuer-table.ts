import type { KeySource } from '../provider/key-source.ts'
import type { DpopMode } from '../scheme.ts'
import { issuerSpellings } from './jwt-checks.ts'
import type { TokenRules } from './jwt-checks.ts'
import type { ScopeClaim } from './verified-tokens.ts'

/** One issuer whose tokens pass: its name, its keys and what holds for its tokens. */
export interface TokenIssuer {
  /** As the settings name it. */
  readonly issuer: string
  readonly keys: KeySource
  readonly rules: TokenRules
  readonly scopeClaims: readonly ScopeClaim[]
  readonly dpopMode: DpopMode
}

/** The issuers whose tokens pass. It chooses by the `iss` of a token, which nobody has verified yet. */
export interface IssuerTable {
  /** The issuer with exactly this name, a last slash aside, or undefined. A promise if somebody else has to be asked. */
  find (iss: string): TokenIssuer | undefined | Promise<TokenIssuer | undefined>
  /** False if there may be issuers that are not at hand yet. */
  readonly isComplete: boolean
  /** The issuers at hand, for health and metrics. Their number is bounded. */
  all (): readonly TokenIssuer[]
  /** Starts to fetch keys in the background. */
  start (): void
  close (): Promise<void>
}

/** A table that never changes. */
export function createIssuerTable (issuers: readonly TokenIssuer[]): IssuerTable {
  const bySpelling = new Map(issuers.flatMap(issuer => issuerSpellings(issuer.issuer).map(spelling => [spelling, issuer] as const)))
  return {
    find: iss => bySpelling.get(iss),
    isComplete: true,
    all: () => issuers,
    start () {
      for (const { keys } of issuers) keys.start()
    },
    async close () {
      await Promise.all(issuers.map(({ keys }) => keys.close()))
    }
  }
}
