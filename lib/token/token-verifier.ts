import type { VerifiedToken } from './verified-tokens.ts'

/** Called exactly once, never inside a `try`. Errors are of the type Refusal. */
export type TokenDone = (error: Error | null, token?: VerifiedToken) => void

/** The seam between the guard and the kinds of tokens: it turns the text of a token into one that is verified. */
export interface TokenVerifier {
  /** A token of exactly this text that was verified before. Whether it still passes is for `verify` to say. */
  known (text: string): VerifiedToken | undefined
  /** @param known what `known` gave for this text. @param now Unix seconds. */
  verify (text: string, known: VerifiedToken | undefined, now: number, done: TokenDone): void
}
