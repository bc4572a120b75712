import type { RequestEnd } from '../lib/report/metrics/tallies.ts'

/**
 * The event of the HTTP server for a request that Fastify cannot route, its reply and the status of that: no hook sees
 * them.
 */
export const UNROUTABLE: string = 'holdfast.unroutable'

/** Most requests have no mark. */
const marks = new WeakMap<object, RequestEnd>()

/** Says how a request is about to end, if it does not end with its answer. */
export function markEnd (request: object, end: RequestEnd): void {
  marks.set(request, end)
}

/**
 * @param isAnswered whether the whole answer was sent
 * @param isCut whether the process ends, and has ended all connections
 */
export function endOf (request: object, isAnswered: boolean, isCut: boolean): RequestEnd {
  return marks.get(request) ?? (isAnswered ? 'answered' : isCut ? 'shutdown' : 'client_gone')
}
