import type { RevocationEntry } from '../entry.ts'

/**
 * Thrown while nothing can be said for or against a revocation, or while it cannot be stored: the store does not
 * answer, or has no room. It may have been stored. It is to be sent again: records merge.
 */
export class UndecidedError extends Error {
  override readonly name = 'UndecidedError'
}

/** The store of revocations, which all instances share. It keeps one record for each key (see `record.ts`). */
export interface RevocationStore {
  /**
   * Resolves when the records of the entries stand in the store, and this process applies them.
   * @throws UndecidedError
   */
  append (entries: readonly RevocationEntry[]): Promise<void>
  /**
   * Whether this process is the only one that may do a task now, such as polling. It holds for 10 seconds, and is
   * renewed before that.
   */
  lead (task: string): Promise<boolean>
  /**
   * Milliseconds since its last answer. 0 for the memory of the process. Infinity until this process has read all of
   * it. It is called for each request, so it allocates nothing.
   */
  ageMs (): number
  /** Why it cannot be reached, as a stable word. */
  fault (): string | undefined
  close (): void
}
