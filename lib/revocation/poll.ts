import { isJsonObject } from '../jose/jws.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import type { EventSender } from './receiver.ts'
import { SetError } from './security-event-token.ts'
import type { TransmitterClient } from './transmitter-client.ts'

export interface PollOptions {
  readonly client: Pick<TransmitterClient, 'call'>
  readonly sender: EventSender
}

/** Where an event goes that was fetched. */
export interface EventTaker {
  /** The errors are those of the receiver. */
  take (text: string, sender: EventSender): Promise<unknown>
}

/**
 * Fetches a batch of events. What was stored of it is acknowledged with the next one (RFC 8936 section 2.2). Returns whether there were
 * any.
 * @throws ProviderFailure, and what the receiver throws that says nothing against an event
 */
export type Poll = (endpoint: string | undefined, receiver: EventTaker) => Promise<boolean>

const MAX_EVENTS = 100

export function createPoll ({ client, sender }: PollOptions): Poll {
  let acknowledged: string[] = []
  let refused: Record<string, { err: string, description: string }> = {}

  async function take (jti: string, set: unknown, receiver: EventTaker): Promise<void> {
    try {
      await receiver.take(String(set), sender)
      acknowledged.push(jti)
    } catch (error) {
      // Anything else says nothing against the event: it is not acknowledged, so it comes again.
      if (!(error instanceof SetError)) throw error
      refused[jti] = { err: error.err, description: error.message }
    }
  }

  return async (endpoint, receiver) => {
    if (endpoint === undefined) throw new ProviderFailure('discovery_malformed')
    const answer = await client.call(endpoint, 'POST', { maxEvents: MAX_EVENTS, returnImmediately: true, ack: acknowledged, setErrs: refused })
    acknowledged = []
    refused = {}
    const { sets } = parseDocument(answer.body, 'discovery_malformed')
    if (!isJsonObject(sets)) return false
    const batch = Object.entries(sets).slice(0, MAX_EVENTS)
    for (const [jti, set] of batch) await take(jti, set, receiver)
    // They are acknowledged at once, and there may be more.
    return batch.length > 0
  }
}
