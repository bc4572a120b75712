import type { Surroundings } from '../surroundings.ts'
import type { RevocationEntry } from './log.ts'

export interface StreamVerificationOptions {
  /** The transmitter, as the log names it. */
  readonly name: string
  /** Undefined if this service cannot ask for verifications. */
  readonly authenticate: unknown
  readonly announce: (news: RevocationEntry) => Promise<void>
  readonly surroundings: Pick<Surroundings, 'now' | 'after' | 'randomBytes'>
}

const VERIFICATION_SECONDS = 600
/** Before the state in the news that it was asked for. */
const ASKED = 'asked '

/** Whether news of a stream are of its verification: one was asked for, or has come. */
export function isVerificationNews (event: string): boolean {
  return event === 'verification' || /^asked [\w-]{16}$/.test(event)
}

/** A transmitter may take its time, and a new leader asks again. */
const MAX_STATES = 8
/** Another instance may have asked: its news take a moment. */
const PATIENCE = { steps: 20, ms: 50 }

/**
 * When a stream is verified (SSF 1.0 section 8.1.4), and whether the state that comes back is one that was sent. The
 * instance that asks tells all others before, since the answer may reach any of them.
 */
export function createStreamVerification (
  { name, authenticate, announce, surroundings: { now, after, randomBytes } }: StreamVerificationOptions
) {
  let states: string[] = []
  /** The time of the last verification event, in Unix seconds. */
  let verifiedAt: number | undefined
  let dueAt = 0
  let minimumSeconds = 0

  return {
    isDue: (): boolean => now() >= dueAt,
    isFirst: (): boolean => dueAt === 0,
    /** @param seconds the shortest time between two verifications that the transmitter allows */
    setMinimum (seconds: number): void {
      minimumSeconds = seconds
    },
    /** @returns the state to send, which all instances know then */
    async begin (): Promise<string> {
      const at = now()
      dueAt = at + Math.max(VERIFICATION_SECONDS, minimumSeconds)
      const state = randomBytes(12).toString('base64url')
      await announce({
        key: `asked ${name}`,
        effect: 'state',
        at,
        recordedAt: at,
        event: `${ASKED}${state}`,
        source: name,
        sender: name,
        standing: 'other'
      })
      return state
    },
    /** Takes news of the stream from the log. */
    note ({ event, at }: Pick<RevocationEntry, 'event' | 'at'>): void {
      if (event === 'verification') verifiedAt = Math.max(verifiedAt ?? 0, at)
      if (event.startsWith(ASKED)) {
        states = [...states.filter(state => ASKED + state !== event), event.slice(ASKED.length)].slice(-MAX_STATES)
      }
    },
    /**
     * Whether a verification may have this state. Without one, the transmitter has begun it. If this service never
     * asks, others may have.
     */
    async isStateKnown (state: unknown): Promise<boolean> {
      if (state === undefined || !authenticate) return true
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
