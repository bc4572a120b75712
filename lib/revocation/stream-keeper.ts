import { isJsonObject } from '../jose/jws.ts'
import type { JsonObject } from '../jose/jws.ts'
import { backOffMs } from '../provider/fetch-loop.ts'
import type { KeySourceEvent } from '../provider/key-source.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseDiscoveredUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import type { Transport } from '../provider/transport.ts'
import type { Surroundings } from '../surroundings.ts'
import { KNOWN_EVENT_TYPES } from './effects.ts'
import type { RevocationEntry, RevocationLog } from './log.ts'
import type { EventSender } from './receiver.ts'
import { SetError } from './security-event-token.ts'
import type { SubjectRules } from './subject.ts'
import { configurationUrlOf, createTransmitterClient } from './transmitter-client.ts'
import type { TransmitterAddress, TransmitterClientOptions } from './transmitter-client.ts'

/** What the settings say of a transmitter (docs/reference/revocation.md), with its secrets read, and how it is reached. */
export interface TransmitterParameters extends
  TransmitterAddress, Omit<TransmitterClientOptions, 'configuration'>, Pick<SubjectRules, 'sessionClaim' | 'subjectClaims'>, Pick<EventSender, 'pushAuthorization'> {
  readonly audience?: string | undefined
  readonly delivery: 'push' | 'poll'
  readonly endpoint?: string | undefined
  readonly tokenIssuers?: readonly string[] | undefined
  readonly manage: boolean
  readonly untyped: boolean
  /** The address that it pushes to. */
  readonly pushUrl: string | undefined
  readonly transport: Transport
  readonly surroundings: Surroundings
  /** Stores an event that was polled. The errors are those of the receiver. */
  readonly take: (text: string, sender: EventSender) => Promise<unknown>
  readonly lead: RevocationLog['lead']
  readonly onKeyEvent: (event: KeySourceEvent) => void
  /** Called once for each change, with one of `STREAM_STATUSES`. */
  readonly onStatus: (status: string) => void
}

export interface StreamKeeperOptions extends TransmitterParameters, TransmitterClientOptions {
  readonly sender: EventSender
  /** Fetches what `configuration` then returns. @throws ProviderFailure */
  readonly learnConfiguration: () => Promise<void>
}

/**
 * What a stream can be (SSF 1.0 section 8.1.2), and beside that: `unknown` until it has said so, `no_subjects` if nothing is sent until
 * subjects are added, `failing` if its endpoints cannot be used.
 */
export const STREAM_STATUSES = Object.freeze(['unknown', 'enabled', 'paused', 'disabled', 'no_subjects', 'failing'] as const)

const TICK_MS = 1000
/** Between batches, so that a transmitter that sends the same again and again is not polled without end. */
const NEXT_BATCH_MS = 50
const LEAD_SECONDS = 10
const VERIFICATION_SECONDS = 600
const NOT_FOUND = 404
/** Events of one batch. */
const MAX_EVENTS = 100

/**
 * Keeps the stream of a transmitter and its state: creates or finds it, has it verified, and polls (RFC 8936). All instances read it; only
 * the one that leads changes and polls it.
 */
export function createStreamKeeper (given: StreamKeeperOptions) {
  const { sender, configuration, clientId, delivery, manage, pushUrl, pushAuthorization, surroundings: { now, random, after, randomBytes } } = given
  const client = createTransmitterClient(given)
  /** Empty if there is none. Undefined until that is known. */
  let streamId: string | undefined
  let { audience, endpoint: pollEndpoint } = given
  let defaultSubjects: string | undefined
  let minimumSeconds = 0
  let status = 'unknown'
  /** When it was so, in Unix seconds. */
  let statusAt = -Infinity
  /** The time of the last verification event, in Unix seconds. */
  let verifiedAt: number | undefined
  let verifyAt = 0
  /** Rounds that have failed since the last good one. */
  let failures = 0
  /** What `onStatus` was last called with. */
  let reported = 'unknown'
  let isClosed = false
  let cancelTick: (() => void) | undefined
  /** What the next poll says of the events of the last one: which are stored, and what is wrong with others. */
  let acknowledged: string[] = []
  let refused: Record<string, { err: string, description: string }> = {}

  function statusWord (): string {
    if (failures > 0) return 'failing'
    // What the stream says of its subjects goes before the configuration, so until it was read nothing is said of them.
    const isRead = clientId === undefined || streamId !== undefined
    const isPaused = status === 'paused' || status === 'disabled'
    return isRead && !isPaused && (defaultSubjects ?? configuration()?.defaultSubjects) === 'NONE' ? 'no_subjects' : status
  }

  function report (): void {
    const word = statusWord()
    if (word === reported) return
    reported = word
    given.onStatus(word)
  }

  function setStatus (word: string | undefined, at: number): void {
    if (word === undefined || at < statusAt) return
    status = word
    statusAt = at
    report()
  }

  /** One round after the other. */
  function tick (ms: number): void {
    if (!isClosed) cancelTick = after(ms, () => { round().then(tick, error => tick(backOff(error))) })
  }

  function backOff (error: unknown): number {
    // It was deleted at the transmitter.
    if ((error as Partial<ProviderFailure>).detail === NOT_FOUND) streamId = undefined
    failures++
    report()
    return backOffMs(failures, random())
  }

  /** @returns milliseconds until the next round */
  async function round (): Promise<number> {
    const isLeader = await given.lead(sender.name, LEAD_SECONDS)
    if (!configuration()) await given.learnConfiguration()
    if (clientId !== undefined && streamId === undefined) await findStream(isLeader)
    if (isLeader) await verify()
    const isMore = isLeader && delivery === 'poll' && await poll()
    failures = 0
    report()
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
    const { stream_id: id = '', aud, default_subjects: subjects, delivery: agreed, min_verification_interval: interval, iss } = stream ?? {}
    const { issuer } = configuration()!
    if (typeof iss === 'string' && withoutTrailingSlash(iss) !== withoutTrailingSlash(given.issuer ?? issuer)) throw new ProviderFailure('discovery_issuer')
    // The token of the client is sent there.
    if (isJsonObject(agreed) && typeof agreed.endpoint_url === 'string') pollEndpoint ??= parseDiscoveredUri(agreed.endpoint_url, configurationUrlOf(given), 'discovery_malformed')
    minimumSeconds = typeof interval === 'number' ? interval : 0
    const found = stream && (await client.readStatus(String(id)) ?? 'enabled')
    streamId = String(id)
    audience ??= [aud].flat().find(value => typeof value === 'string')
    if (typeof subjects === 'string') defaultSubjects = subjects
    setStatus(found, now())
  }

  /** It also shows the transmitter that there is still a receiver, and what has become of the stream in silence. */
  async function verify (): Promise<void> {
    const at = now()
    if (!streamId || at < verifyAt) return
    if (verifyAt !== 0) setStatus(await client.readStatus(streamId), now())
    verifyAt = at + Math.max(VERIFICATION_SECONDS, minimumSeconds)
    await client.requestVerification(streamId, randomBytes(12).toString('base64url'))
  }

  /**
   * Fetches a batch of events, and acknowledges what was stored of the last one (RFC 8936 section 2.2).
   * @returns whether there were any: they are to be acknowledged at once, and there may be more
   */
  async function poll (): Promise<boolean> {
    if (pollEndpoint === undefined) throw new ProviderFailure('discovery_malformed')
    const { sets } = await client.poll(pollEndpoint, { maxEvents: MAX_EVENTS, returnImmediately: true, ack: acknowledged, setErrs: refused })
    acknowledged = []
    refused = {}
    const batch = isJsonObject(sets) ? Object.entries(sets).slice(0, MAX_EVENTS) : []
    for (const [jti, set] of batch) {
      try {
        await given.take(String(set), sender)
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
    start: (): void => tick(0),
    /** The `aud` of its events. Undefined until the stream, which names it, is known. */
    audience: (): string | undefined => audience,
    /** Calls `onStatus` if the status has changed. */
    report,
    /** Takes news of the stream from the log, so that all instances have them. */
    note ({ event, at }: Pick<RevocationEntry, 'event' | 'at'>): void {
      if (event === 'verification') verifiedAt = Math.max(verifiedAt ?? 0, at)
      else setStatus(event, at)
    },
    /** What readiness and metrics may know of the stream. The status is one of `STREAM_STATUSES`. */
    state: () => ({ status: statusWord(), verifiedAt }),
    close (): void {
      isClosed = true
      cancelTick?.()
    }
  }
}
