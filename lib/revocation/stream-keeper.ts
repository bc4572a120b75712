import { setImmediate } from 'node:timers/promises'
import { isJsonObject } from '../json.ts'
import { backOffMs } from '../provider/fetch-loop.ts'
import type { KeySourceEvent } from '../provider/key-source.ts'
import { ProviderFailure } from '../provider/provider-failure.ts'
import { parseOwnUri, withoutTrailingSlash } from '../provider/provider-url.ts'
import type { Transport } from '../provider/transport.ts'
import type { Surroundings } from '../surroundings.ts'
import { isStreamStatus } from './effects.ts'
import type { RevocationEntry, RevocationLog } from './log.ts'
import { chooseStream, DELIVERY_METHODS, ensureStream } from './managed-stream.ts'
import type { StreamChangeListeners, WantedStream } from './managed-stream.ts'
import type { EventSender, Received } from './receiver.ts'
import { SetError } from './security-event-token.ts'
import { createStreamVerification } from './stream-verification.ts'
import type { SubjectRules } from './subject.ts'
import { createTransmitterClient } from './transmitter-client.ts'
import type { TransmitterClientOptions } from './transmitter-client.ts'
import { originsOf } from './transmitter-configuration.ts'

/**
 * What the settings say of a transmitter (docs/reference/revocation.md), with its secrets read, and how it is reached.
 */
export interface TransmitterParameters
  extends
  Omit<TransmitterClientOptions, 'configuration'>,
  WantedStream,
  StreamChangeListeners,
  Pick<SubjectRules, 'sessionClaim' | 'subjectClaims'>,
  Pick<EventSender, 'pushAuthorization'> {
  readonly audience?: string | undefined
  readonly endpoint?: string | undefined
  readonly tokenIssuers?: readonly string[] | undefined
  readonly manage: boolean
  readonly untyped: boolean
  readonly transport: Transport
  readonly surroundings: Surroundings
  /** Stores an event that was polled. The errors are those of the receiver. */
  readonly take: (text: string, sender: EventSender) => Promise<Received>
  /** Called after each batch that was polled: what became of its events, and of how many the same. */
  readonly onPolled: (outcomes: readonly PolledOutcome[]) => void
  readonly lead: RevocationLog['lead']
  /** Stores news of the stream, so that all instances have them. */
  readonly announce: (news: RevocationEntry) => Promise<void>
  readonly onKeyEvent: (event: KeySourceEvent) => void
  /**
   * Called once for each change.
   * @param status one of `STREAM_STATUSES`
   * @param reason why it is failing
   */
  readonly onStatus: (status: string, reason?: string) => void
}

/** What became of events of one batch. One line for all that are alike: a forged batch must not fill a log. */
export interface PolledOutcome {
  readonly events: number
  readonly received?: Received
  /** Why they were refused. */
  readonly reason?: string
}

export interface StreamKeeperOptions extends TransmitterParameters, TransmitterClientOptions {
  readonly sender: EventSender
  /** Fetches what `configuration` then returns. @throws ProviderFailure */
  readonly learnConfiguration: () => Promise<void>
}

/**
 * What a stream can be (SSF 1.0 section 8.1.2), and beside that: `unknown` until it has said so, `no_subjects` if
 * nothing is sent until subjects are added, `failing` if its endpoints cannot be used.
 */
export const STREAM_STATUSES = Object.freeze(
  ['unknown', 'enabled', 'paused', 'disabled', 'no_subjects', 'failing'] as const
)

const TICK_MS = 1000
/** Between batches, so that a transmitter that sends the same again and again is not polled without end. */
const NEXT_BATCH_MS = 50
const LEAD_SECONDS = 10
const NOT_FOUND = 404
/** Events of one batch. */
const MAX_EVENTS = 100

/**
 * Keeps the stream of a transmitter and its state: creates or finds it, has it verified, and polls (RFC 8936). All
 * instances read it; only the one that leads changes and polls it.
 */
export function createStreamKeeper (given: StreamKeeperOptions) {
  const { sender, configuration, authenticate, delivery, manage, surroundings: { now, random, after } } = given
  const client = createTransmitterClient(given)
  const verification = createStreamVerification({ ...given, name: sender.name })
  /** Empty if there is none. Undefined until that is known. */
  let streamId: string | undefined
  let { audience, endpoint: pollEndpoint } = given
  let defaultSubjects: string | undefined
  let status = 'unknown'
  /** When it was so, in Unix seconds. */
  let statusAt = -Infinity
  /** Rounds that have failed since the last good one. */
  let failures = 0
  /** What `onStatus` was last called with. */
  let reported = 'unknown'
  let isClosed = false
  let cancelTick: (() => void) | undefined
  /** What the next poll says of the events of the last one: which are stored, and what is wrong with others. */
  let acknowledged: string[] = []
  let refused = new Map<string, { readonly err: string, readonly description: string }>()

  function statusWord (): string {
    if (failures > 0) return 'failing'
    // What the stream says of its subjects goes before the configuration, so until it was read nothing is said of them.
    const isRead = !authenticate || streamId !== undefined
    const isPaused = status === 'paused' || status === 'disabled'
    return isRead && !isPaused && (defaultSubjects ?? configuration()?.defaultSubjects) === 'NONE'
      ? 'no_subjects'
      : status
  }

  function report (reason?: string): void {
    const word = statusWord()
    if (word === reported) return
    reported = word
    given.onStatus(word, reason)
  }

  function setStatus (word: string | undefined, at: number): void {
    if (word === undefined || at < statusAt) return
    status = word
    statusAt = at
    report()
  }

  /** One round after the other. */
  function tick (ms: number): void {
    if (!isClosed) {
      cancelTick = after(ms, () => {
        round().then(tick, error => tick(backOff(error)))
      })
    }
  }

  function backOff (error: unknown): number {
    // It was deleted at the transmitter.
    if ((error as Partial<ProviderFailure>).detail === NOT_FOUND) streamId = undefined
    failures++
    report((error as Error).message)
    return backOffMs(failures, random())
  }

  /** @returns milliseconds until the next round */
  async function round (): Promise<number> {
    const isLeader = await given.lead(sender.name, LEAD_SECONDS)
    if (!configuration()) await given.learnConfiguration()
    if (authenticate && streamId === undefined) await findStream(isLeader)
    if (isLeader) await verify()
    const waitMs = isLeader && delivery === 'poll' ? await poll() : undefined
    failures = 0
    report()
    return waitMs ?? (isLeader ? TICK_MS : TICK_MS * 2)
  }

  async function findStream (isLeader: boolean): Promise<void> {
    const stream = manage && isLeader
      ? await ensureStream(client, given, given)
      : chooseStream(await client.readStreams(given.streamId), given)
    // Without a stream to read, polling and pushes need only what the settings say.
    if (!stream && (manage || (delivery === 'poll' && given.endpoint === undefined))) {
      throw new ProviderFailure('stream_missing')
    }
    const {
      stream_id: id = '',
      aud,
      default_subjects: subjects,
      delivery: agreed,
      min_verification_interval: interval,
      iss
    } = stream ?? {}
    if (typeof iss === 'string' && withoutTrailingSlash(iss) !== withoutTrailingSlash(given.issuer)) {
      throw new ProviderFailure('discovery_issuer')
    }
    const { method = DELIVERY_METHODS.poll[0], endpoint_url: url } = isJsonObject(agreed) ? agreed : {}
    // The token of the client is sent there.
    if (DELIVERY_METHODS.poll.some(name => name === method) && typeof url === 'string') {
      pollEndpoint = given.endpoint ?? parseOwnUri(url, originsOf(given))
    }
    if (delivery === 'poll') pollAddress()
    verification.setMinimum(typeof interval === 'number' ? interval : 0)
    const found = stream && (await client.readStatus(String(id)) ?? 'enabled')
    streamId = String(id)
    audience = given.audience ?? [aud].flat().find(value => typeof value === 'string')
    if (typeof subjects === 'string') defaultSubjects = subjects
    setStatus(found, now())
  }

  /** @throws ProviderFailure */
  function pollAddress (): string {
    if (pollEndpoint === undefined) {
      throw new ProviderFailure('discovery_malformed', undefined, { expected: 'an address for polls' })
    }
    return pollEndpoint
  }

  /** It also shows the transmitter that there is still a receiver, and what has become of the stream in silence. */
  async function verify (): Promise<void> {
    if (!streamId || !verification.isDue()) return
    if (!verification.isFirst()) setStatus(await client.readStatus(streamId), now())
    await client.requestVerification(streamId, await verification.begin())
  }

  /**
   * Fetches a batch of events, and acknowledges what was stored of the last one (RFC 8936 section 2.2).
   * @returns milliseconds until the next poll, if there were any that count: they are to be acknowledged at once, and
   * there may be more
   */
  async function poll (): Promise<number | undefined> {
    const { sets } = await client.poll(pollAddress(), {
      maxEvents: MAX_EVENTS,
      returnImmediately: true,
      ack: acknowledged,
      setErrs: Object.fromEntries(refused)
    })
    acknowledged = []
    refused = new Map()
    const batch = isJsonObject(sets) ? Object.entries(sets).slice(0, MAX_EVENTS) : []
    const outcomes = new Map<string, PolledOutcome>()
    const note = (outcome: Omit<PolledOutcome, 'events'>): void => {
      const key = JSON.stringify(outcome)
      outcomes.set(key, { ...outcome, events: (outcomes.get(key)?.events ?? 0) + 1 })
    }
    try {
      for (const [jti, set] of batch) {
        // Requests get their turn between two signatures.
        await setImmediate()
        // A text of anything else may throw.
        await takeOne(jti, typeof set === 'string' ? set : '', note)
      }
    } finally {
      given.onPolled([...outcomes.values()])
    }
    // A transmitter that sends nothing but what is refused may wait.
    return acknowledged.length > 0 ? NEXT_BATCH_MS : undefined
  }

  async function takeOne (
    jti: string,
    set: string,
    note: (outcome: Omit<PolledOutcome, 'events'>) => void
  ): Promise<void> {
    try {
      note({ received: await given.take(set, sender) })
      acknowledged.push(jti)
    } catch (error) {
      note({ reason: (error as Error).message })
      // Anything else says nothing against the event: it is not acknowledged, so it comes again.
      if (!(error instanceof SetError)) throw error
      refused.set(jti, { err: error.err, description: error.message })
    }
  }

  return {
    start: (): void => tick(0),
    /** The `aud` of its events. Undefined until the stream, which names it, is known. */
    audience: (): string | undefined => audience,
    /** Calls `onStatus` if the status has changed. */
    report,
    /** Takes news of the stream from the log, so that all instances have them. */
    note (news: Pick<RevocationEntry, 'event' | 'at'>): void {
      // Whatever stands in the log: readiness and metrics show the words of SSF only.
      if (isStreamStatus(news.event)) setStatus(news.event, news.at)
      else verification.note(news)
    },
    /** Whether the state of a verification event is one that was asked for. */
    isStateKnown: verification.isStateKnown,
    /** What readiness and metrics may know of the stream. The status is one of `STREAM_STATUSES`. */
    state: () => ({ status: statusWord(), verifiedAt: verification.verifiedAt() }),
    close (): void {
      isClosed = true
      cancelTick?.()
    }
  }
}
