import type { Surroundings } from '../base/surroundings.ts'
import { Refusal, type RefusalReason } from '../refusal.ts'

/** What would have been answered to a request that passes all the same. */
export interface Observed {
  /** The status of the answer. */
  readonly status: number
  /** Why: a stable word. */
  readonly reason: string
}

const kEnforced = Symbol('holdfast.enforced')

/** A request that may only be observed. */
export interface ObservableRequest {
  /** Undefined or null if it was admitted, or is not decided about yet. */
  observed?: Observed | null
  [kEnforced]?: boolean
}

/** Has each refusal of a request enforced, or not, whatever the day is: the rule of a gate that is enforced at once. */
export function enforce (request: ObservableRequest, isEnforced: boolean): void {
  request[kEnforced] = isEnforced
}

export const isEnforced = (request: ObservableRequest) => request[kEnforced] === true

export type Observing = ReturnType<typeof createObserving>

const DAY_SECONDS = 86_400

/** The first moment after a day (`YYYY-MM-DD`, UTC), in Unix seconds. NaN if there is no such day. */
export function endOfDay (day: string): number {
  const start = Date.parse(`${day}T00:00:00Z`)
  return new Date(start).toJSON()?.slice(0, 10) === day ? start / 1000 + DAY_SECONDS : NaN
}

/**
 * Decides whether refusals are enforced, or only observed: before a live API, the guard first tells whom it would
 * refuse. What is no decision about credentials or rules is always enforced.
 * @param lastDay on which requests are observed: `YYYY-MM-DD`, UTC
 */
export function createObserving (lastDay: string, { now, after }: Pick<Surroundings, 'now' | 'after'>) {
  const endsAt = endOfDay(lastDay)
  const isOn = () => now() < endsAt
  return {
    lastDay,
    isOn,
    secondsLeft: () => Math.max(0, endsAt - now()),
    /** Whether this request passes although it is refused. */
    spares: (request: ObservableRequest) => !isEnforced(request) && isOn(),
    /**
     * Makes a look-up that delays a request by less than 1 s if its answer does not come, and by nothing while it is
     * known to fail. The look-up itself goes on: its answer says whether the next one waits.
     * @param lookUp rejects only if there is no answer
     * @param reason of the refusal if there is no answer
     * @param isAway whether a rejection means that the next look-up fails too. Default: always
     */
    patient<Args extends unknown[], Found> (
      lookUp: (...args: Args) => Promise<Found>,
      reason: RefusalReason,
      isAway: (error: unknown) => boolean = () => true
    ): (...args: Args) => Promise<Found> {
      let isFailing = false
      return (...args) => {
        const found = lookUp(...args)
        found.then(() => {
          isFailing = false
        }, error => {
          isFailing ||= isAway(error)
        })
        if (!isOn()) return found
        return new Promise((resolve, reject) => {
          const cancel = after(isFailing ? 0 : LOOK_UP_MS, () => {
            isFailing = true
            reject(new Refusal(reason))
          })
          found.then(resolve, reject).finally(cancel)
        })
      }
    }
  }
}

/** With what else a request takes, less than a second. */
const LOOK_UP_MS = 700
