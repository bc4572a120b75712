import { setImmediate } from 'node:timers/promises'
import { isJsonObject } from '../../json.ts'
import type { EventSender, Received } from '../receiver.ts'
import { SetError } from '../security-event-token.ts'
import type { TransmitterClient } from './client.ts'

/** What became of an event that was polled. For those that are pushed, the log lines of the requests say it. */
type PolledEvent =
  | { readonly name: 'revocation_received' } & Received
  | { readonly name: 'revocation_refused', readonly sender: string, readonly reason: string }

/** One for all events of a batch that are alike, and their number: a forged batch must not fill a log. */
export type PolledEvents = PolledEvent & { readonly events: number }

export interface PollOptions {
  readonly client: Pick<TransmitterClient, 'poll'>
  readonly sender: EventSender
  /** Stores an event. The errors are those of the receiver. */
  readonly take: (text: string, sender: EventSender) => Promise<Received>
  /** Called after each batch. */
  readonly onEvent: (event: PolledEvents) => void
}

/** Events of one batch. */
const MAX_EVENTS = 100

/**
 * Polls a transmitter (RFC 8936): each poll fetches a batch of events, and acknowledges what was stored of the last one
 * (section 2.2). It returns whether there were any that count: they are to be acknowledged at once, and there may be
 * more. A transmitter that sends nothing but what is refused may wait.
 */
export function createPoll ({ client, sender, take, onEvent }: PollOptions): (url: string) => Promise<boolean> {
  /** What the next poll says of the events of the last one: which are stored, and what is wrong with others. */
  let acknowledged: string[] = []
  let refused = new Map<string, { readonly err: string, readonly description: string }>()

  return async url => {
    const { sets } = await client.poll(url, {
      maxEvents: MAX_EVENTS,
      returnImmediately: true,
      ack: acknowledged,
      setErrs: Object.fromEntries(refused)
    })
    acknowledged = []
    refused = new Map()
    const batch = isJsonObject(sets) ? Object.entries(sets).slice(0, MAX_EVENTS) : []
    const alike = new Map<string, PolledEvents>()
    const note = (event: PolledEvent): void => {
      const key = JSON.stringify(event)
      alike.set(key, { ...event, events: (alike.get(key)?.events ?? 0) + 1 })
    }
    try {
      for (const [jti, set] of batch) {
        // Requests get their turn between two signatures.
        await setImmediate()
        try {
          // A text of anything else may throw.
          note({ name: 'revocation_received', ...await take(typeof set === 'string' ? set : '', sender) })
          acknowledged.push(jti)
        } catch (error) {
          note({ name: 'revocation_refused', sender: sender.name, reason: (error as Error).message })
          // Anything else says nothing against the event: it is not acknowledged, so it comes again.
          if (!(error instanceof SetError)) throw error
          refused.set(jti, { err: error.err, description: error.message })
        }
      }
    } finally {
      alike.forEach(event => onEvent(event))
    }
    return acknowledged.length > 0
  }
}
