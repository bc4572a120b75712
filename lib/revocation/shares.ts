import type { RevocationEntry } from './log.ts'

export interface SharesOptions {
  /** Maximum number of keys in the table. */
  readonly max: number
  /**
   * The token issuers, without a trailing slash. Undefined if the application keeps the list: then those that hold a
   * key count.
   */
  readonly issuers: readonly string[] | undefined
}

/** Who a key counts for: an issuer by its name, and any other sender by its name behind a star. */
export type Holder = string

const OTHER = '* '

/** Whose part the key of an entry takes. */
export function holderOf ({ sender, standing }: Pick<RevocationEntry, 'sender' | 'standing'>): Holder {
  return standing === 'other' ? OTHER + sender : sender
}

/**
 * Divides the room of a table among senders that do not trust each other: one half is kept for the issuers in equal
 * parts, the other is whoever's that needs it. A sender that is not the tokens' own issuer takes at most a quarter of
 * the table, out of that other half.
 */
export function createShares ({ max, issuers }: SharesOptions) {
  const counts = new Map<Holder, number>()
  const known = issuers && new Set(issuers)
  /** Of an issuer that was taken out of the settings, keys may be left. */
  const isOther = (holder: Holder): boolean => holder.startsWith(OTHER) || known?.has(holder) === false
  const half = max / 2

  /** The part that is kept for each issuer. @param asking an issuer that may hold no key yet */
  function partOf (asking: Holder): number {
    if (known) return half / Math.max(known.size, 1)
    let holding = counts.has(asking) || isOther(asking) ? 0 : 1
    for (const holder of counts.keys()) if (!isOther(holder)) holding++
    return half / Math.max(holding, 1)
  }

  function beyond (holder: Holder, count: number, part: number): number {
    return isOther(holder) ? count : Math.max(0, count - part)
  }

  return {
    add (holder: Holder, more = 1): void {
      counts.set(holder, (counts.get(holder) ?? 0) + more)
    },
    remove (holder: Holder, less = 1): void {
      const left = counts.get(holder)! - less
      if (left === 0) counts.delete(holder)
      else counts.set(holder, left)
    },
    /** Whether a holder may have so many keys more. */
    hasRoom (holder: Holder, more: number): boolean {
      const part = partOf(holder)
      const wanted = (counts.get(holder) ?? 0) + more
      if (isOther(holder) && wanted > max / 4) return false
      let taken = 0
      for (const [other, count] of counts) if (other !== holder) taken += beyond(other, count, part)
      const own = beyond(holder, wanted, part)
      return own === 0 || taken + own <= half
    }
  }
}
