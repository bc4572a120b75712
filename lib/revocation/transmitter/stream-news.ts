import { hash } from 'node:crypto'
import type { Surroundings } from '../../base/surroundings.ts'
import type { RevocationEntry } from '../entry.ts'

const SSF_STATUSES = ['enabled', 'paused', 'disabled'] as const

/**
 * What a stream can be (SSF 1.0 section 8.1.2), and beside that: `unknown` until it has said so, `no_subjects` if
 * nothing is sent until subjects are added, `failing` if its endpoints cannot be used or no verification comes back.
 */
export const STREAM_STATUSES = Object.freeze(['unknown', ...SSF_STATUSES, 'no_subjects', 'failing'] as const)

/** Whether a value is a status of streams (SSF 1.0 section 8.1.2). */
export function isStreamStatus (value: unknown): value is typeof SSF_STATUSES[number] {
  return SSF_STATUSES.some(status => status === value)
}

/** The news that a stream was verified. */
export const VERIFIED = 'verification'
/** The beginning of the news that a verification was asked for. Its `state` follows. */
const ASKED = 'asked '

/** What tells a stream from others of its transmitter or client. Undefined: the settings do not say it. */
export interface StreamIdentity {
  readonly delivery: 'push' | 'poll'
  readonly pushUrl: string | undefined
  readonly clientId?: string | undefined
  readonly streamId?: string | undefined
  readonly endpoint?: string | undefined
  readonly audience?: string | undefined
}

/**
 * The name of a stream in the store, the same for all instances of a service: services that share the store may each
 * have a stream of one transmitter. Its end is the transmitter.
 */
export function streamNameOf (transmitter: string, identity: StreamIdentity): string {
  const { clientId, streamId, delivery, pushUrl, endpoint, audience } = identity
  const text = JSON.stringify([clientId, streamId, delivery, delivery === 'push' ? pushUrl : endpoint, audience])
  return `${hash('sha256', text, 'base64url').slice(0, 16)} ${transmitter}`
}

/**
 * News of a stream, as the store has them: of each kind the newest counts.
 * @param stream its name
 */
export function newsEntry (
  { sender, event, at, stream }: Pick<RevocationEntry, 'sender' | 'event' | 'at'> & { readonly stream: string }
): RevocationEntry {
  const kind = isStreamStatus(event) ? 'stream' : event.split(' ', 1)[0]!
  return { sender, event, at, key: `${kind} ${stream}`, effect: 'state', source: sender, standing: 'other' }
}

/** A transmitter may take its time, and a new leader asks again. */
const MAX_STATES = 8
const ANSWER_SECONDS = 60
/** Another instance may have asked: its news take a moment. */
const PATIENCE = { steps: 20, ms: 50 }

/**
 * Whether the state that comes back with a verification is one that was sent (SSF 1.0 section 8.1.4). The instance that
 * asks tells all others before, since the answer may reach any of them.
 */
export function createStreamVerification ({ after }: Pick<Surroundings, 'after'>) {
  let states: string[] = []
  /** The time of the last verification event, and when one was last asked for, in Unix seconds. */
  let verifiedAt: number | undefined
  let askedAt = -Infinity
  /** The same as its news say, by the clock of whoever asked. */
  let lastAt = -Infinity

  return {
    /** The news that a verification with this state is asked for: the newest, whatever clock the last one had. */
    asking: (sender: string, stream: string, state: string, now: number) =>
      newsEntry({ sender, stream, event: ASKED + state, at: Math.max(now, lastAt + 0.001) }),
    /** Takes news of the stream from the log. */
    note ({ event, at }: Pick<RevocationEntry, 'event' | 'at'>) {
      if (event === VERIFIED) verifiedAt = Math.max(verifiedAt ?? 0, at)
      if (!event.startsWith(ASKED)) return
      const asked = event.slice(ASKED.length)
      states = [...states.filter(state => state !== asked), asked].slice(-MAX_STATES)
      askedAt = lastAt = Math.max(lastAt, at)
    },
    isAsked: (state: string) => states.includes(state),
    async isStateKnown (state: unknown): Promise<boolean> {
      for (let left = PATIENCE.steps; !states.includes(state as string); left--) {
        if (left === 0) return false
        await new Promise<void>(resolve => {
          after(PATIENCE.ms, resolve)
        })
      }
      return true
    },
    verifiedAt: () => verifiedAt,
    /**
     * Whether what was asked for does not come back. One that was asked for too early has no answer, so another one has
     * to be missing, too.
     */
    isOverdue (now: number, periodSeconds: number): boolean {
      // A clock that was ahead has been set right.
      askedAt = Math.min(askedAt, now)
      return now > askedAt + ANSWER_SECONDS && (verifiedAt ?? -Infinity) < askedAt - periodSeconds - ANSWER_SECONDS
    }
  }
}
