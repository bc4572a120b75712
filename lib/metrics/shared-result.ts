/**
 * Shares what is dear to make: whoever asks while it is being made, or within `maxAgeMs` after that, gets the same. So there is never
 * more than one in the making, however many ask. An error goes to those who wait for it, and is not kept.
 * @param nowMs a clock that never goes back.
 */
export function shareResult<Result> (make: () => Promise<Result>, maxAgeMs: number, nowMs: () => number): () => Promise<Result> {
  let shared: Promise<Result> | undefined
  // From its end on: while making takes long, it is not made again and again.
  let endsMs = Infinity

  return () => {
    if (shared && nowMs() < endsMs) return shared
    endsMs = Infinity
    shared = make()
    shared.then(() => { endsMs = nowMs() + maxAgeMs }, () => { shared = undefined })
    return shared
  }
}
