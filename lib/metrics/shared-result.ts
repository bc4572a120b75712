/**
 * Shares a result that is expensive to make. All callers during its making, or within `maxAgeMs` after that, get the same result.
 * So at most one is made at a time. An error goes to the callers that wait for it, and is not kept.
 * @param nowMs a clock that is never set back
 */
export function shareResult<Result> (make: () => Promise<Result>, maxAgeMs: number, nowMs: () => number): () => Promise<Result> {
  let shared: Promise<Result> | undefined
  // The age counts from the end: if making takes long, the result is not made again and again.
  let endsMs = Infinity

  return () => {
    if (shared && nowMs() < endsMs) return shared
    endsMs = Infinity
    shared = make()
    shared.then(() => { endsMs = nowMs() + maxAgeMs }, () => { shared = undefined })
    return shared
  }
}
