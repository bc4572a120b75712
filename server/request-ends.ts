/**
 * How a request ended. `answered`: the whole answer was sent. `client_gone`: its client went before. `upstream_failed`:
 * the upstream of a gate gave no answer, or not all of it. `upgraded`: its connection changed its protocol, and has
 * closed. `token_ended`: its open answer was ended with its token.
 */
export const REQUEST_ENDS = ['answered', 'client_gone', 'upstream_failed', 'upgraded', 'token_ended'] as const
export type RequestEnd = typeof REQUEST_ENDS[number]

/** The event of the HTTP server for a request that Fastify cannot route, and its reply: no hook sees them. */
export const UNROUTABLE: string = 'holdfast.unroutable'

/** Most requests have no mark. */
const marks = new WeakMap<object, RequestEnd>()

/** Says how a request is about to end, if it does not end with its answer. */
export function markEnd (request: object, end: RequestEnd): void {
  marks.set(request, end)
}

/** @param isAnswered whether the whole answer was sent */
export function endOf (request: object, isAnswered: boolean): RequestEnd {
  return marks.get(request) ?? (isAnswered ? 'answered' : 'client_gone')
}
