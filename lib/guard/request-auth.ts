import type { AuthScheme } from '../scheme.ts'
import type { VerifiedToken } from '../token/verified-tokens.ts'
import type { TokenEnd, TokenSignals, WatchedToken } from './token-signals.ts'

/** How a request proved its sender. */
export interface RequestAuth {
  /** The scheme of the `Authorization` line. */
  readonly scheme: AuthScheme
  /** The scopes of the token, from the claims that the settings name. */
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /** The issuer of the token, as the settings name it. */
  readonly issuer: string
  /** When the token expires, in Unix seconds. If its issuer does not say, the time until which the issuer's answer about it is used. */
  readonly expiresAt: number
  /**
   * Aborts when the token is revoked, or would be refused for its age: for work that goes on after the request was admitted, such as a
   * `fetch` or a stream of events. Its `reason` is an Error whose `code` is `token_revoked` or `token_expired`.
   */
  readonly signal: AbortSignal
}

/** The reason of a signal. */
export class TokenEndedError extends Error {
  override readonly name = 'TokenEndedError'
  readonly code: TokenEnd

  constructor (code: TokenEnd) {
    super(code === 'token_revoked' ? 'The access token has been revoked.' : 'The access token has expired.')
    this.code = code
  }
}

/** Who holds a signal alone, such as a `fetch`, holds what is watched with it: it would be forgotten with the request. */
const watchedBy = new WeakMap<AbortSignal, WatchedToken>()

/** What stands on an admitted request. A signal is made when it is read. */
export class AdmittedAuth implements RequestAuth, WatchedToken {
  readonly scheme: AuthScheme
  readonly scopes: readonly string[]
  readonly jkt: string | undefined
  readonly issuer: string
  readonly expiresAt: number
  readonly #token: VerifiedToken
  readonly #signals: TokenSignals
  #controller: AbortController | undefined

  constructor (token: VerifiedToken, scheme: AuthScheme, signals: TokenSignals) {
    this.scheme = scheme
    this.scopes = token.scopes
    this.jkt = token.binding.jkt
    this.issuer = token.issuer
    this.expiresAt = token.expiresAt
    this.#token = token
    this.#signals = signals
  }

  get token (): VerifiedToken {
    return this.#token
  }

  get signal (): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      watchedBy.set(this.#controller.signal, this)
      this.#signals.watch(this)
    }
    return this.#controller.signal
  }

  end (reason: TokenEnd): void {
    this.#controller!.abort(new TokenEndedError(reason))
  }
}
