import type { Surroundings } from '../surroundings.ts'
import type { RevocationEntry } from './log.ts'

/** Before the state in the news that it was asked for. */
export const ASKED = 'asked '

/** Whether news of a stream are of its verification: one was asked for, or has come. */
export function isVerificationNews (event: string): boolean {
  return event === 'verification' || /^asked [\w-]{16}$/.test(event)
}

/** A transmitter may take its time, and a new leader asks again. */
const MAX_STATES = 8
/** Another instance may have asked: its news take a moment. */
const PATIENCE = { steps: 20, ms: 50 }

/**
 * Whether the state that comes back with a verification is one that was sent (SSF 1.0 section 8.1.4). The instance that
 * asks tells all others before, since the answer may reach any of them.
 */
export function createStreamVerification ({ after }: Pick<Surroundings, 'after'>) {
  let states: string[] = []
  /** The time of the last verification event, in Unix seconds. */
  let verifiedAt: number | undefined

  return {
    /** Takes news of the stream from the log. */
    note ({ event, at }: Pick<RevocationEntry, 'event' | 'at'>): void {
      if (event === 'verification') verifiedAt = Math.max(verifiedAt ?? 0, at)
      if (event.startsWith(ASKED)) {
        states = [...states.filter(state => ASKED + state !== event), event.slice(ASKED.length)].slice(-MAX_STATES)
      }
    },
    async isStateKnown (state: unknown): Promise<boolean> {
      for (let left = PATIENCE.steps; !states.includes(state as string); left--) {
        if (left === 0) return false
        await new Promise<void>(resolve => {
          after(PATIENCE.ms, resolve)
        })
      }
      return true
    },
    verifiedAt: (): number | undefined => verifiedAt
  }
}
