import type { LogPosition } from './cutoffs.ts'
import type { RevocationEntry } from './entry.ts'

/** What readiness and metrics may know of the log. It holds no secret. */
export interface RevocationLogState {
  readonly kind: 'memory' | 'redis'
  /** Whether this process has read all of it. */
  readonly isLoaded: boolean
  /** Seconds since the log was last heard of. 0 for the memory of the process. Infinity before the first time. */
  readonly ageSeconds: number
  /** Why the log cannot be reached, as a stable word. */
  readonly fault?: string | undefined
}

/** Thrown if entries could not be stored. They may have been, so they are to be sent again: entries merge. */
export class RevocationLogError extends Error {
  override readonly name = 'RevocationLogError'
}

/**
 * The log of revocations, which all instances share: what one of them appends, each of them reads, in one order. Only what stands in it
 * is acknowledged to a sender.
 */
export interface RevocationLog {
  /**
   * Resolves when the entries stand in the log and are in force in this process.
   * @throws RevocationLogError
   */
  append (entries: readonly RevocationEntry[]): Promise<void>
  /**
   * Whether this process alone may do something now, such as polling. It holds for `seconds`, and is asked for again before that.
   */
  lead (task: string, seconds: number): Promise<boolean>
  state (): RevocationLogState
  close (): void
}

/** Called for each entry, once or more, in order. */
export type OnRevocationEntry = (entry: RevocationEntry, position: LogPosition) => void

/** The log of a service of one instance: its own memory, gone when it ends. */
export function createMemoryLog (onEntry: OnRevocationEntry): RevocationLog {
  let count = 0
  return {
    async append (entries) {
      for (const entry of entries) onEntry(entry, String(++count).padStart(16, '0'))
    },
    lead: async () => true,
    state: () => ({ kind: 'memory', isLoaded: true, ageSeconds: 0 }),
    close () {}
  }
}
