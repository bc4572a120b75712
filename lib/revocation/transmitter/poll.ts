import { setImmediate } from 'node:timers/promises'
import type { EventSender, Received } from '../receiver.ts'
import { SetError } from '../set-error.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { TransmitterClient } from './client.ts'

/** What became of an event that was polled. For those that are pushed, the log lines of the requests say it. */
type PolledEvent =
  | { readonly name: 'revocation_received' } & Received
  | { readonly name: 'revocation_refused', readonly sender: string, readonly reason: string }

/** One for all events of a batch that are alike, and their number: a forged batch must not fill a log. */
export type PolledEvents = PolledEvent & { readonly events: number }

export interface PollOptions extends Pick<Surroundings, 'steadyMs'> {
  readonly client: Pick<TransmitterClient, 'poll'>
  readonly sender: EventSender
  /** Stores an event. The errors are those of the receiver. */
  readonly take: (text: string, sender: EventSender) => Promise<Received>
  /** Called after each batch. */
  readonly onEvent: (event: PolledEvents) => void
}

/** Events that are asked for at a time, beside those that could not be stored the last time. */
const MAX_EVENTS = 100
const MAX_UNSTORED = 400
/** How many more are asked for after each answer that was not too large. */
const STEP = 10
/** A store that is away is slow to say so: after this time it is not asked about the rest of a batch. */
const MAX_UNSTORED_MS = 1000

/**
 * Polls a transmitter (RFC 8936): each poll fetches a batch of events, and acknowledges what was stored of the last one
 * (section 2.2). It returns whether there is more to be had at once: events were stored, which are to be acknowledged,
 * or fewer are to be asked for. A transmitter that sends nothing but what is refused may wait.
 *
 * An answer that is too large, or that fails, halves the number of events that are asked for. A single one that is too
 * large is refused. One that cannot be stored comes again (`failure` says why), and more are asked for then: it keeps
 * none behind it.
 */
export function createPoll (
  { client, sender, take, onEvent, steadyMs }: PollOptions
) {
  /** What the next poll says of the events of the last one: which are stored, and what is wrong with others. */
  let acknowledged: string[] = []
  let refused = new Map<string, { readonly err: string, readonly description: string }>()
  let most = MAX_EVENTS
  let asked = MAX_EVENTS

  async function fetchBatch (url: string) {
    const count = asked
    asked = Math.ceil(count / 2)
    const batch = await client.poll(url, {
      maxEvents: count,
      returnImmediately: true,
      ack: acknowledged,
      setErrs: Object.fromEntries(refused)
    })
    acknowledged = []
    refused = new Map()
    if (batch.isWhole) asked = count
    return batch.isWhole || count === 1 ? batch : { ...batch, sets: [] }
  }

  return async (url: string) => {
    const { sets, isWhole } = await fetchBatch(url)
    const alike = new Map<string, PolledEvents>()
    const note = (event: PolledEvent) => {
      const key = JSON.stringify(event)
      alike.set(key, { ...event, events: (alike.get(key)?.events ?? 0) + 1 })
    }
    const begunMs = steadyMs()
    let unstored = 0
    let failure: Error | undefined
    for (const [jti, set] of sets.slice(0, most)) {
      // Requests get their turn between two signatures.
      await setImmediate()
      try {
        // A text of anything else may throw.
        note({ name: 'revocation_received', ...await take(typeof set === 'string' ? set : '', sender) })
        acknowledged.push(jti)
      } catch (error) {
        const { message } = error as Error
        note({ name: 'revocation_refused', sender: sender.name, reason: message })
        if (error instanceof SetError) {
          refused.set(jti, { err: error.err, description: message })
          continue
        }
        // Anything else says nothing against the event: it is not acknowledged, so it comes again.
        failure = error as Error
        unstored++
        if (steadyMs() - begunMs > MAX_UNSTORED_MS) break
      }
    }
    alike.forEach(event => onEvent(event))
    most = MAX_EVENTS + Math.min(unstored, MAX_UNSTORED)
    if (isWhole) asked = Math.min(most, asked + STEP)
    return { isMore: acknowledged.length > 0 || (!isWhole && sets.length === 0), failure }
  }
}
