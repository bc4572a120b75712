import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { parseDocument } from '../provider/provider-document.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import { KNOWN_EVENT_TYPES } from './effects.ts'
import type { EventSender } from './receiver.ts'
import { SetError } from './security-event-token.ts'
import { configurationUrlOf, createTransmitterClient } from './transmitter-client.ts'
import type { TransmitterClientOptions, TransmitterParameters } from './transmitter-client.ts'

export interface StreamKeeperOptions extends TransmitterParameters, TransmitterClientOptions {
  readonly sender: EventSender
  /** Fetches what `configuration` then returns. @throws ProviderFailure */
  readonly learnConfiguration: () => Promise<void>
  /** Called when the stream was read, or only its status: `enabled`, `paused` or `disabled`. */
  readonly onStream: (stream: JsonObject, status: string | undefined) => void
  /** Called after each round: whether the transmitter could be used. */
  readonly onFailing: (isFailing: boolean) => void
}

/** What a stream needs of the other parts of the service. */
export interface TransmitterRun {
  /** Stores an event that was polled. The errors are those of the receiver. */
  readonly take: (text: string, sender: EventSender) => Promise<unknown>
  /** Whether this instance is the only one that may do a task now. */
  readonly lead: (task: string, seconds: number) => Promise<boolean>
}

const TICK_MS = 1000
/** Between batches, so that a transmitter that sends the same again and again is not polled without end. */
const NEXT_BATCH_MS = 50
const LEAD_SECONDS = 10
const LONGEST_BACK_OFF_MS = 60_000
const VERIFICATION_SECONDS = 600
const NOT_FOUND = 404
/** Events of one batch. */
const MAX_EVENTS = 100

/**
 * Keeps the stream of a transmitter: creates or finds it, has it verified, and polls (RFC 8936). All instances read it; only the one that
 * leads changes and polls it.
 */
export function createStreamKeeper (given: StreamKeeperOptions) {
  const { sender, delivery, manage, pushUrl, pushAuthorization, surroundings: { wallMs, random, after, randomBytes } } = given
  const client = createTransmitterClient(given)
  let streamId: string | undefined
  let pollEndpoint = given.endpoint
  let minimumSeconds!: number
  let verifyAt = 0
  let failures = 0
  let isClosed = false
  let cancelTick: (() => void) | undefined
  /** What the next poll says of the events of the last one: which are stored, and what is wrong with others. */
  let acknowledged: string[] = []
  let refused: Record<string, { err: string, description: string }> = {}

  /** One round after the other. */
  function tick (ms: number, run: TransmitterRun): void {
    if (!isClosed) cancelTick = after(ms, () => { round(run).then(nextMs => tick(nextMs, run), error => tick(backOff(error), run)) })
  }

  function backOff (error: unknown): number {
    // It was deleted at the transmitter.
    if ((error as Partial<ProviderFailure>).detail === NOT_FOUND) streamId = undefined
    given.onFailing(true)
    failures++
    return Math.min(TICK_MS * 2 ** failures, LONGEST_BACK_OFF_MS) * (0.5 + random() / 2)
  }

  /** @returns milliseconds until the next round */
  async function round ({ take, lead }: TransmitterRun): Promise<number> {
    const isLeader = await lead(sender.name, LEAD_SECONDS)
    if (!given.configuration()) await given.learnConfiguration()
    if (given.clientId !== undefined && streamId === undefined) await findStream(isLeader)
    if (isLeader) await verify()
    const isMore = isLeader && delivery === 'poll' && await poll(take)
    failures = 0
    given.onFailing(false)
    return isMore ? NEXT_BATCH_MS : isLeader ? TICK_MS : TICK_MS * 2
  }

  function wanted (): JsonObject {
    return {
      events_requested: KNOWN_EVENT_TYPES,
      description: 'Holdfast',
      delivery: delivery === 'poll'
        ? { method: 'urn:ietf:rfc:8936' }
        : { method: 'urn:ietf:rfc:8935', endpoint_url: pushUrl, ...pushAuthorization !== undefined && { authorization_header: pushAuthorization } }
    }
  }

  async function findStream (isLeader: boolean): Promise<void> {
    const stream = manage && isLeader ? await client.ensureStream(wanted()) : await client.readStream()
    // Without a stream to read, polling and pushes need only what the settings say.
    if (!stream && (manage || (delivery === 'poll' && pollEndpoint === undefined))) throw new ProviderFailure('discovery_malformed')
    const { stream_id: id = '', delivery: agreed, min_verification_interval: interval, iss } = stream ?? {}
    const { issuer } = given.configuration()!
    if (typeof iss === 'string' && withoutTrailingSlash(iss) !== withoutTrailingSlash(given.issuer ?? issuer)) throw new ProviderFailure('discovery_issuer')
    // The token of the client is sent there.
    if (isJsonObject(agreed) && typeof agreed.endpoint_url === 'string') pollEndpoint ??= parseDiscoveredUri(agreed.endpoint_url, configurationUrlOf(given), 'discovery_malformed')
    minimumSeconds = typeof interval === 'number' ? interval : 0
    given.onStream(stream ?? {}, stream && (await client.readStatus(String(id)) ?? 'enabled'))
    streamId = String(id)
  }

  /** It also shows the transmitter that there is still a receiver, and what has become of the stream in silence. */
  async function verify (): Promise<void> {
    const now = wallMs() / 1000
    if (!streamId || now < verifyAt) return
    if (verifyAt !== 0) given.onStream({}, await client.readStatus(streamId))
    verifyAt = now + Math.max(VERIFICATION_SECONDS, minimumSeconds)
    await client.requestVerification(streamId, randomBytes(12).toString('base64url'))
  }

  /**
   * Fetches a batch of events, and acknowledges what was stored of the last one (RFC 8936 section 2.2).
   * @returns whether there were any: they are to be acknowledged at once, and there may be more
   */
  async function poll (take: TransmitterRun['take']): Promise<boolean> {
    if (pollEndpoint === undefined) throw new ProviderFailure('discovery_malformed')
    const answer = await client.call(pollEndpoint, 'POST', { maxEvents: MAX_EVENTS, returnImmediately: true, ack: acknowledged, setErrs: refused })
    acknowledged = []
    refused = {}
    const { sets } = parseDocument(answer.body, 'discovery_malformed')
    const batch = isJsonObject(sets) ? Object.entries(sets).slice(0, MAX_EVENTS) : []
    for (const [jti, set] of batch) {
      try {
        await take(String(set), sender)
        acknowledged.push(jti)
      } catch (error) {
        // Anything else says nothing against the event: it is not acknowledged, so it comes again.
        if (!(error instanceof SetError)) throw error
        refused[jti] = { err: error.err, description: error.message }
      }
    }
    return batch.length > 0
  }

  return {
    start: (run: TransmitterRun): void => tick(0, run),
    close (): void {
      isClosed = true
      cancelTick?.()
    }
  }
}
