import type { Refusal } from '../refusal.ts'
import type { AuthScheme } from './credentials.ts'
import { actorOf } from './token/claims.ts'
import { isEnforced, type ObservableRequest, type Observing } from './observing.ts'
import type { VerifiedToken } from './token/verified-tokens.ts'

/** How a request proved its sender. */
export interface RequestAuth {
  /** The scheme of the `Authorization` line. */
  readonly scheme: AuthScheme
  /** The scopes of the token, from the claims that the settings name. */
  readonly scopes: readonly string[]
  /** RFC 7638 thumbprint of the key that the token is bound to, or undefined. */
  readonly jkt: string | undefined
  /**
   * Who acts for the subject: the `sub` of the outermost `act` (RFC 8693 section 4.1), or undefined. `require({ claims:
   * { 'act.sub': ... } })` asks for it.
   */
  readonly actor: string | undefined
  /** The issuer of the token, as the settings name it. */
  readonly issuer: string
  /**
   * When the token expires, in Unix seconds. If its issuer does not say, the time until which the issuer's answer about
   * it is used.
   */
  readonly expiresAt: number
  /**
   * Aborts when the token is revoked, or would be refused for its age: for work that goes on after the request was
   * admitted, such as a `fetch` or a stream of events. It may be `aborted` when it is first read: no event comes then.
   * Its `reason` is an Error whose `code` is `token_revoked` or `token_expired`.
   */
  readonly signal: AbortSignal
}

/** Why a token may no longer be used. */
type TokenEnd = 'token_revoked' | 'token_expired'

/** The reason of a signal. */
export class TokenEndedError extends Error {
  override readonly name = 'TokenEndedError'
  readonly code: TokenEnd

  constructor (code: TokenEnd) {
    super(code === 'token_revoked' ? 'The access token has been revoked.' : 'The access token has expired.')
    this.code = code
  }
}

interface TokenSignalsOptions {
  /** Why a token that is valid by itself is refused, or undefined if nothing can be revoked. */
  readonly revocationOf: ((token: VerifiedToken) => Refusal | undefined) | undefined
  readonly clockToleranceSeconds: number
  /** While it is on, nothing that is open ends, but what a rule admitted that is enforced at once. */
  readonly observing?: Pick<Observing, 'isOn'>
  /** Unix seconds. */
  readonly now: () => number
  /** Runs a function again and again. Returns what ends that. */
  readonly every: (ms: number, run: () => void) => () => void
}

/** How often the tokens are looked at, so that open work ends within a second. */
const LOOK_MS = 250

export type TokenSignals = ReturnType<typeof createTokenSignals>

/** Ends signals when their token has been revoked or has expired. */
export function createTokenSignals (
  { revocationOf, clockToleranceSeconds, observing, now, every }: TokenSignalsOptions
) {
  /**
   * Keeps the controller of a signal alive as long as the signal: a `fetch` holds only the signal, and outlives the
   * request.
   */
  const controllers = new WeakMap<AbortSignal, AbortController>()
  const watched = new Map<WeakRef<AbortController>, { token: VerifiedToken, isEnforced: boolean }>()
  let stop: (() => void) | undefined

  function look () {
    for (const [reference, { token, isEnforced }] of watched) {
      const controller = reference.deref()
      if (!controller || hasEnded(token, isEnforced, controller)) watched.delete(reference)
    }
    if (watched.size > 0) return
    stop!()
    stop = undefined
  }

  /** Whether a token has ended. If so, its signal aborts, unless that is only observed. */
  function hasEnded (token: VerifiedToken, isEnforced: boolean, controller: AbortController): boolean {
    const reason = endOf(token)
    if (reason === undefined) return false
    if (isEnforced || !observing?.isOn()) controller.abort(new TokenEndedError(reason))
    return true
  }

  function endOf (token: VerifiedToken): TokenEnd | undefined {
    if (now() >= token.expiresAt + clockToleranceSeconds) return 'token_expired'
    // If the revocations are unknown for now, nothing ends: the next request is refused.
    return revocationOf?.(token)?.reason === 'token_revoked' ? 'token_revoked' : undefined
  }

  return {
    /**
     * A new signal, which is watched for as long as others hold it. Here it is held only weakly, so a forgotten one
     * costs nothing.
     * @param isEnforced whether it ends while others are only observed
     */
    signalFor (token: VerifiedToken, isEnforced: boolean): AbortSignal {
      const controller = new AbortController()
      // Work that begins now must not begin at all.
      if (hasEnded(token, isEnforced, controller)) return controller.signal
      controllers.set(controller.signal, controller)
      watched.set(new WeakRef(controller), { token, isEnforced })
      stop ??= every(LOOK_MS, look)
      return controller.signal
    },
    close () {
      stop?.()
      watched.clear()
    }
  }
}

/** The `auth` of an admitted request. Its signal is made when it is first read. */
export class AdmittedAuth implements RequestAuth {
  readonly scheme: AuthScheme
  readonly scopes: readonly string[]
  readonly jkt: string | undefined
  readonly actor: string | undefined
  readonly issuer: string
  readonly expiresAt: number
  readonly #token: VerifiedToken
  readonly #signals: TokenSignals
  readonly #request: ObservableRequest
  #signal: AbortSignal | undefined

  constructor (token: VerifiedToken, scheme: AuthScheme, signals: TokenSignals, request: ObservableRequest) {
    this.scheme = scheme
    this.scopes = token.scopes
    this.jkt = token.binding.jkt
    this.actor = actorOf(token.claims)
    this.issuer = token.issuer
    this.expiresAt = token.expiresAt
    this.#token = token
    this.#signals = signals
    this.#request = request
  }

  get signal (): AbortSignal {
    this.#signal ??= this.#signals.signalFor(this.#token, isEnforced(this.#request))
    return this.#signal
  }

  /**
   * The token of an `auth` that an admission has made. Undefined for any other object: an app may put its own in its
   * place.
   */
  static tokenOf (auth: object): VerifiedToken | undefined {
    return #token in auth ? auth.#token : undefined
  }
}
