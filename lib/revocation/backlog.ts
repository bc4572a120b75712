/** Keys of which it is known by which call the store had them. It is asked for when the store has lost something. */
const MAX_RECENT = 100_000

export interface BacklogOptions {
  /** All keys that this process knows. */
  readonly keys: () => Iterable<string>
  /** The record of a key, as it is written, or undefined if it is forgotten. */
  readonly textOf: (key: string) => string | undefined
}

/**
 * The keys of which the store may know less than this process. Calls of the store have rising numbers; 0 is that of a
 * process without one.
 */
export function createBacklog ({ keys, textOf }: BacklogOptions) {
  /** Keys that the store has, in the order of the calls that have shown it, and the last call that is forgotten. */
  const recent: { readonly keys: string[], readonly calls: number[] } = { keys: [], calls: [] }
  let forgotten = -1
  /** The newest last, and those of them that the store has since. */
  let unsaid: string[] = []
  let confirmed = new Set<string>()

  function confirm (key: string, call: number) {
    if (call === 0) return
    recent.keys.push(key)
    recent.calls.push(call)
    if (recent.calls.length <= MAX_RECENT) return
    recent.keys.splice(0, MAX_RECENT / 2)
    forgotten = recent.calls.splice(0, MAX_RECENT / 2).at(-1)!
  }

  function add (key: string) {
    confirmed.delete(key)
    unsaid.push(key)
  }

  return {
    add,
    hasSome: () => unsaid.length > 0,
    /** The store has said by this call that it has all that is known of a key. */
    hear (key: string, call: number) {
      confirm(key, call)
      if (unsaid.length > 0) confirmed.add(key)
    },
    /** What the store has learned by later calls than this one is lost there. */
    lose (call: number) {
      if (call < forgotten) {
        confirmed.clear()
        unsaid = [...keys()]
        return
      }
      const last = recent.calls.findLastIndex(number => number <= call)
      recent.calls.length = last + 1
      recent.keys.splice(last + 1).forEach(add)
    },
    /** The newest first. The store is taken to know it once it has answered. */
    take (limit: number): Array<readonly [key: string, text: string]> {
      const found: Array<readonly [string, string]> = []
      while (found.length < limit && unsaid.length > 0) {
        const key = unsaid.pop()!
        const text = confirmed.has(key) ? undefined : textOf(key)
        if (text !== undefined) found.push([key, text])
      }
      if (unsaid.length === 0) confirmed = new Set()
      return found
    },
    /** The store has answered a call that gave it these keys. */
    said (taken: readonly string[], call: number) {
      for (const key of taken) confirm(key, call)
    },
    /** The store has not answered. */
    putBack (taken: readonly string[]) {
      taken.forEach(add)
    }
  }
}
