import type { VerifiedToken } from './token/verified-tokens.ts'

/** Why a request was refused, and the status of its answer. */
export interface RefusedBecause {
  readonly reason: string
  readonly status: number
  /** Whether the request passes all the same. */
  readonly isObserved?: boolean
  /** That of the request, if it was verified before something else was refused. */
  readonly token?: VerifiedToken
}

/** Where a request went, as the app or the gate knows it. */
export interface DecidedRoute {
  readonly method: string
  /** The pattern of its route, or of the rule at a gate, or undefined if none was found. */
  readonly route: string | undefined
  /** The method or tool of the Model Context Protocol, as the rule names it. */
  readonly call: string | undefined
}

/** Learns what the guard, and the doors of a gate, decide. */
interface DecisionListener<Request> {
  admitted (request: Request): void
  refused (request: Request, because: RefusedBecause): void
}

/** Where a request went, or undefined if this does not know it. */
type RouteNamer<Request> = (request: Request) => DecidedRoute | undefined

export type Decisions<Request> = ReturnType<typeof createDecisions<Request>>

/**
 * Where each decision is known, whatever door of a gate the request came through. Without a listener it costs nothing.
 * Listeners and namers are appended before the app is ready.
 * @param byRoute the namer that knows each request
 */
export function createDecisions<Request> (byRoute: (request: Request) => DecidedRoute) {
  const listeners: Array<DecisionListener<Request>> = []
  const namers: Array<RouteNamer<Request>> = []
  return {
    listeners,
    namers,
    routeOf (request: Request): DecidedRoute {
      for (const namer of namers) {
        const named = namer(request)
        if (named) return named
      }
      return byRoute(request)
    },
    admitted (request: Request) {
      for (const listener of listeners) listener.admitted(request)
    },
    refused (request: Request, because: RefusedBecause) {
      for (const listener of listeners) listener.refused(request, because)
    }
  }
}
