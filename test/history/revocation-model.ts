/**
 * What revocations promise, as a model that recorded histories are checked against: from a second after the
 * acknowledgement, no instance lets a token of the session pass. An instance may always say that it does not know
 * (503). A token whose session no one has tried to end passes.
 */

/** Times are seconds of one clock. */
export interface Ending {
  readonly kind: 'ending'
  readonly session: string
  /** `unknown`: there was no acknowledgement, so the session may have ended, now or later, or never. */
  readonly outcome: 'acknowledged' | 'unknown'
  readonly start: number
  readonly end: number
}

export interface Call {
  readonly kind: 'call'
  readonly session: string
  readonly instance: string
  /** `unknown`: 503, or no answer. */
  readonly outcome: 'passed' | 'revoked' | 'unknown'
  readonly start: number
  readonly end: number
}

export type SessionOperation = Ending | Call

const LATEST_SECONDS = 1

/** The calls that no order explains. */
export function findWrongCalls (operations: readonly SessionOperation[]): readonly Call[] {
  const endings = new Map<string, Ending[]>()
  for (const operation of operations) {
    if (operation.kind === 'ending') {
      endings.set(operation.session, [...endings.get(operation.session) ?? [], operation])
    }
  }
  return operations.filter(operation => operation.kind === 'call').filter(({ session, outcome, start, end }) => {
    const own = endings.get(session) ?? []
    if (outcome === 'passed') {
      return own.some(ending => ending.outcome === 'acknowledged' && start > ending.end + LATEST_SECONDS)
    }
    return outcome === 'revoked' && !own.some(ending => ending.start < end)
  })
}
