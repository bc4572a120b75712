/** Keys of which it is known by which call the store had them. It is asked for when the store has lost something. */
const MAX_RECENT = 100_000

/**
 * The keys of which the store may know less than this process. Calls of the store have rising numbers; 0 is that of a
 * process without one.
 * @param known the records that this process knows, as they are written, by their keys
 */
export function createBacklog (known: ReadonlyMap<string, string>) {
  /** Keys that the store has, in the order of the calls that have shown it, and the last call that is forgotten. */
  const recent: { readonly keys: string[], readonly calls: number[] } = { keys: [], calls: [] }
  let forgotten = -1
  /** The newest last, and those of them that the store has since. */
  let unsaid: string[] = []
  let confirmed = new Set<string>()

  /** The store has answered a call that gave it this key. */
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
    confirm,
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
        unsaid = [...known.keys()]
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
        const text = confirmed.has(key) ? undefined : known.get(key)
        if (text !== undefined) found.push([key, text])
      }
      if (unsaid.length === 0) confirmed = new Set()
      return found
    }
  }
}
