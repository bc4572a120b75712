import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import type { Surroundings } from '../surroundings.ts'
import { KNOWN_EVENT_TYPES } from './event-types.ts'
import { createPoll } from './poll.ts'
import type { EventTaker } from './poll.ts'
import type { EventSender } from './receiver.ts'
import { createTransmitterClient } from './transmitter-client.ts'
import type { TransmitterClientOptions } from './transmitter-client.ts'
import { configurationUrlOf } from './transmitter-configuration.ts'
import type { TransmitterAddress } from './transmitter-configuration.ts'

export interface StreamKeeperOptions extends TransmitterClientOptions, TransmitterAddress {
  /** As the settings name the transmitter. */
  readonly name: string
  readonly sender: EventSender
  readonly delivery: 'push' | 'poll'
  /** Where events are fetched. Undefined for where the stream says. */
  readonly endpoint?: string | undefined
  readonly manage: boolean
  readonly pushAuthorization: string | undefined
  /** Where the transmitter is told to push. */
  readonly pushUrl: string | undefined
  readonly surroundings: Surroundings
  /** Fetches what `configuration` then returns. @throws ProviderFailure */
  readonly learnConfiguration: () => Promise<void>
  /** Called when the stream, or its status, was read. */
  readonly onStream: (found: FoundStream) => void
  /** Called after each round: whether the transmitter could be used. */
  readonly onFailing: (isFailing: boolean) => void
}

/** What was read of a stream: what it does not say, or what was not asked, is undefined. */
export interface FoundStream {
  readonly audience?: string | undefined
  /** `enabled`, `paused` or `disabled`. */
  readonly status?: string | undefined
  /** Of this stream. The configuration of the transmitter may say another word for all others. */
  readonly defaultSubjects?: string | undefined
}

export interface TransmitterRun {
  readonly receiver: EventTaker
  /** Whether this instance alone may do something now. */
  readonly lead: (task: string, seconds: number) => Promise<boolean>
}

export interface StreamKeeper {
  start (run: TransmitterRun): void
  close (): void
}

const TICK_MS = 1000
/** Between batches, so that a transmitter that sends the same again and again is not asked without end. */
const NEXT_BATCH_MS = 50
const LEAD_SECONDS = 10
const LONGEST_BACK_OFF_MS = 60_000
const VERIFICATION_SECONDS = 600
const NOT_FOUND = 404

/** Keeps the stream of a transmitter: creates or finds it, has it verified, and polls. All instances learn of it; one of them does more. */
export function createStreamKeeper (given: StreamKeeperOptions): StreamKeeper {
  const { name, delivery, surroundings: { wallMs, random, after, randomBytes } } = given
  const client = createTransmitterClient(given)
  const poll = createPoll({ client, sender: given.sender })
  let streamId: string | undefined
  let pollEndpoint = given.endpoint
  let minimumSeconds!: number
  let verifyAt = 0
  let failures = 0
  let isClosed = false
  let cancelTick: (() => void) | undefined

  /** One thing after the other, again and again. */
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
  async function round ({ receiver, lead }: TransmitterRun): Promise<number> {
    const isLeader = await lead(name, LEAD_SECONDS)
    if (!given.configuration()) await given.learnConfiguration()
    if (given.clientId !== undefined && streamId === undefined) await findStream(isLeader)
    if (isLeader) await verify()
    const isMore = isLeader && delivery === 'poll' && await poll(pollEndpoint, receiver)
    failures = 0
    given.onFailing(false)
    return isMore ? NEXT_BATCH_MS : isLeader ? TICK_MS : TICK_MS * 2
  }

  function wanted (): JsonObject {
    const { pushUrl, pushAuthorization } = given
    return {
      events_requested: KNOWN_EVENT_TYPES,
      description: 'Holdfast',
      delivery: delivery === 'poll'
        ? { method: 'urn:ietf:rfc:8936' }
        : { method: 'urn:ietf:rfc:8935', endpoint_url: pushUrl, ...pushAuthorization !== undefined && { authorization_header: pushAuthorization } }
    }
  }

  async function findStream (isLeader: boolean): Promise<void> {
    const stream = given.manage && isLeader ? await client.ensureStream(wanted()) : await client.readStream()
    // Without a stream to read, polling and pushes need only what the settings say.
    if (!stream && (given.manage || (delivery === 'poll' && pollEndpoint === undefined))) throw new ProviderFailure('discovery_malformed')
    const { stream_id: id = '', aud, delivery: agreed, min_verification_interval: interval, default_subjects: defaultSubjects, iss } = stream ?? {}
    const { issuer } = given.configuration()!
    if (typeof iss === 'string' && withoutTrailingSlash(iss) !== withoutTrailingSlash(given.issuer ?? issuer)) throw new ProviderFailure('discovery_issuer')
    // The token of the client goes there.
    if (isJsonObject(agreed) && typeof agreed.endpoint_url === 'string') pollEndpoint ??= parseDiscoveredUri(agreed.endpoint_url, configurationUrlOf(given), 'discovery_malformed')
    minimumSeconds = typeof interval === 'number' ? interval : 0
    const status = stream && (await client.readStatus(String(id)) ?? 'enabled')
    given.onStream({ audience: [aud].flat().find(value => typeof value === 'string'), status, defaultSubjects: typeof defaultSubjects === 'string' ? defaultSubjects : undefined })
    streamId = String(id)
  }

  /** It also shows the transmitter that there is a receiver still, and what the stream has become in silence. */
  async function verify (): Promise<void> {
    const now = wallMs() / 1000
    if (!streamId || now < verifyAt) return
    if (verifyAt !== 0) given.onStream({ status: await client.readStatus(streamId) })
    verifyAt = now + Math.max(VERIFICATION_SECONDS, minimumSeconds)
    await client.requestVerification(streamId, randomBytes(12).toString('base64url'))
  }

  return {
    start: run => tick(0, run),
    close () {
      isClosed = true
      cancelTick?.()
    }
  }
}
