/** What a name before which a star stands may have. */
const OTHER = '* '

export interface SharesOptions {
  /** Maximum number of keys in a table. */
  readonly max: number
  /**
   * The token issuers, without a trailing slash, or undefined if the application keeps the list: then those that hold a
   * key count.
   */
  readonly issuers: readonly string[] | undefined
}

/**
 * Divides the room of a table among senders that do not trust each other: one half is kept for the issuers in equal
 * parts, the other is whoever's that needs it. A sender that is not the tokens' own issuer takes at most a quarter of
 * the table, out of that other half.
 */
export function createShares ({ max, issuers }: SharesOptions) {
  /** The number of keys of each holder: see `holderOf`. */
  const counts = new Map<string, number>()
  const known = issuers && new Set(issuers)
  /** Of an issuer that was taken out of the settings, keys may be left. */
  const isIssuer = (holder: string) => known ? known.has(holder) : !holder.startsWith(OTHER)
  const half = max / 2
  let size = 0

  return {
    change (holder: string, by: number) {
      const count = (counts.get(holder) ?? 0) + by
      size += by
      if (count === 0) counts.delete(holder)
      else counts.set(holder, count)
    },
    /** Whether what a holder has is within its part, or there is room for the rest of it. */
    isWithin (holder: string): boolean {
      const own = counts.get(holder)!
      const part = half / (known?.size ?? [...counts.keys()].filter(isIssuer).length)
      if (isIssuer(holder) && own <= part) return true
      if (!isIssuer(holder) && own > max / 4) return false
      let beyond = 0
      for (const [other, count] of counts) beyond += isIssuer(other) ? Math.max(0, count - part) : count
      return beyond <= half
    },
    size: () => size
  }
}
