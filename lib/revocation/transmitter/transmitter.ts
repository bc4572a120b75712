import { createKeySetFetch } from '../../guard/provider/fetch-key-set.ts'
import { createFetchLoop } from '../../guard/provider/fetch-loop.ts'
import { createKeySource, type KeySourceEvent } from '../../guard/provider/key-source.ts'
import { ProviderFailure } from '../../guard/provider/provider-failure.ts'
import { issuerSpellings } from '../../guard/provider/provider-url.ts'
import { withSession, type ProviderSession, type Transport } from '../../guard/provider/transport.ts'
import type { Surroundings } from '../../base/surroundings.ts'
import type { RevocationEntry } from '../entry.ts'
import type { RevocationStore } from '../store/store.ts'
import {
  destinationOf,
  differencesOf,
  factsOf,
  readOwnStream,
  type StreamDifference,
  type StreamOptions
} from './own-stream.ts'
import type { EventSender } from '../receiver.ts'
import { EVENT_ALGS } from '../security-event-token.ts'
import { createPoll, type PolledEvents, type PollOptions } from './poll.ts'
import { createStreamVerification, isStreamStatus, streamNameOf, type StreamIdentity } from './stream-news.ts'
import type { SubjectRules } from '../subject.ts'
import { createTransmitterClient, type TransmitterClientOptions } from './client.ts'
import { fetchTransmitterConfiguration, type TransmitterConfiguration } from './configuration.ts'

/** What people are told of a transmitter and its stream. */
export type TransmitterEvent =
  | PolledEvents
  | KeySourceEvent & { readonly issuer: string }
  /** Its status, unless one of the next two says it, and why it is failing. */
  | { readonly name: 'stream_changed', readonly transmitter: string, readonly status: string, readonly reason?: string }
  | { readonly name: 'stream_enabled', readonly transmitter: string }
  /** In what it is not as the settings want it, and where it goes. `holdfast stream --ensure` mends it. */
  | {
    readonly name: 'stream_differs',
    readonly transmitter: string,
    readonly differs: readonly StreamDifference[],
    readonly goesTo?: string
  }
  /** Its transmitter sends nothing until subjects are added. */
  | { readonly name: 'stream_without_subjects', readonly transmitter: string }

/**
 * What the settings say of a transmitter (docs/reference/revocation.md), with its secrets read, and how it is reached.
 */
export interface TransmitterOptions
  extends
  Omit<TransmitterClientOptions, 'configuration' | 'closing'>,
  StreamOptions,
  StreamIdentity,
  Pick<SubjectRules, 'subjectClaims'>,
  Pick<PollOptions, 'take'> {
  readonly pushAuthorization: string | undefined
  /** Whether its stream is verified, if it has an endpoint for that. */
  readonly verify: boolean
  readonly tokenIssuers?: readonly string[]
  /** The claim of access tokens that holds the session. False if they have none. */
  readonly sessionClaim: string | false
  readonly untyped: boolean
  readonly transport: Transport
  readonly surroundings: Surroundings
  readonly lead: RevocationStore['lead']
  /** Stores news of the stream, so that all instances have them. */
  readonly announce: (news: RevocationEntry) => Promise<void>
  readonly onEvent: (event: TransmitterEvent) => void
}

const TICK_MS = 1000
/** Between batches, so that a transmitter that sends the same again and again is not polled without end. */
const NEXT_BATCH_MS = 50
const VERIFICATION_SECONDS = 600
const NOT_FOUND = 404

export type Transmitter = ReturnType<typeof createTransmitter>

/**
 * A transmitter of the Shared Signals Framework: its keys, and its stream, which is found, verified, and polled, and
 * never changed. All instances of a service read the stream; only the one that leads has it verified, and polls it.
 */
export function createTransmitter (given: TransmitterOptions) {
  const { issuer: name, authenticate, delivery, transport, surroundings, onEvent } = given
  const { now, steadyMs, randomBytes } = surroundings
  const streamName = streamNameOf(name, given)
  let configuration: TransmitterConfiguration | undefined
  let learning: Promise<string> | undefined
  let stream: ReturnType<typeof factsOf> | undefined
  /** Not any more once it was deleted at the transmitter. */
  let isFound = false
  /** What was last told of its differences. */
  let told = ''
  /** Why its status could not be read. */
  let unread: Error | undefined
  /** The same, or why events that were polled last could not be stored. */
  let fault: Error | undefined
  let status = 'unknown'
  /** When it was so, in Unix seconds. */
  let statusAt = -Infinity
  /** The status that was last told. */
  let reported = 'unknown'
  /** When the stream is read and verified next, by the clock that is never set. */
  let readMs = -Infinity
  let verifyMs = -Infinity

  const keys = createKeySource({
    fetch: createKeySetFetch({ transport, locate: learn, algs: EVENT_ALGS }),
    ...surroundings,
    onEvent: event => onEvent({ ...event, issuer: name })
  })
  const verification = createStreamVerification(surroundings)
  const sender: EventSender = {
    name,
    keys,
    pushAuthorization: given.pushAuthorization,
    // Without a state, the transmitter has begun it. If this service never asks, others may have.
    isStateKnown: async state => state === undefined || !isVerified() || await verification.isStateKnown(state),
    get setRules () {
      return {
        issuers: issuerSpellings(name),
        // The stream names it, unless the settings do.
        audience: given.audience ?? stream?.audience,
        algs: EVENT_ALGS,
        type: 'secevent+jwt',
        isUntyped: given.untyped
      }
    },
    get subjectRules () {
      const { tokenIssuers = [name], sessionClaim, subjectClaims } = given
      return {
        sender: name,
        stream: streamName,
        tokenIssuers,
        sessionClaimsOf: () => sessionClaim === false ? [] : [sessionClaim],
        subjectClaims,
        criticalMembers: configuration?.criticalMembers ?? []
      }
    }
  }
  const closing = new AbortController()
  const client = createTransmitterClient({ ...given, configuration: () => configuration, closing: closing.signal })
  const poll = createPoll({ ...given, ...surroundings, client, sender })
  const rounds = createFetchLoop({
    attempt: round,
    pauseMs: pauseMs => pauseMs,
    onSuccess: () => report(fault?.message ?? (isOverdue() ? 'its verification does not come back' : undefined)),
    onFailure ({ detail }, _previous, { message }) {
      // It was deleted at the transmitter.
      if (detail === NOT_FOUND) isFound = false
      report(message)
    },
    ...surroundings
  })

  /** @returns the address of the keys. @throws ProviderFailure */
  function learn (session: ProviderSession) {
    learning = fetchTransmitterConfiguration(given, session).then(found => {
      configuration = found
      report()
      return found.jwksUri
    }).finally(() => {
      learning = undefined
    })
    return learning
  }

  /** Whether a state of verifications can only be one that was asked for. */
  const isVerified = () =>
    given.verify && authenticate !== undefined && configuration?.verificationEndpoint !== undefined && stream?.id !== ''

  const periodSeconds = () => Math.max(VERIFICATION_SECONDS, stream?.minimumSeconds ?? 0)
  const isOverdue = () => isVerified() && verification.isOverdue(now(), periodSeconds())

  function statusWord () {
    if (rounds.lastFailure !== undefined || fault) return 'failing'
    if (status === 'paused' || status === 'disabled') return status
    // What the stream says of its subjects goes before the configuration, so until it was read nothing is said of them.
    const isRead = !authenticate || isFound
    if (isRead && (stream?.defaultSubjects ?? configuration?.defaultSubjects) === 'NONE') return 'no_subjects'
    return isOverdue() ? 'failing' : status
  }

  /** Tells the status once for each change. @param reason why it is failing */
  function report (reason?: string) {
    const word = statusWord()
    if (word === reported) return
    reported = word
    if (word === 'enabled') onEvent({ name: 'stream_enabled', transmitter: name })
    else if (word === 'no_subjects') onEvent({ name: 'stream_without_subjects', transmitter: name })
    else onEvent({ name: 'stream_changed', transmitter: name, status: word, ...reason !== undefined && { reason } })
  }

  function setStatus (word: string, at: number) {
    // What is dated ahead of now was so by a clock that has been set right.
    if (at < statusAt && statusAt <= now()) return
    status = word
    statusAt = at
    report()
  }

  /**
   * Its transmitter may have ended it meanwhile, or changed its audience. If it cannot be read again, it is used on.
   * @throws ProviderFailure stream_missing, and those of `factsOf`
   */
  async function readStream () {
    readMs = steadyMs() + VERIFICATION_SECONDS * 1000
    const { own, isRead } = authenticate ? await readOwnStream(client, given) : { own: undefined, isRead: false }
    const isThere = authenticate && configuration!.configurationEndpoint !== undefined
    const differs = own ? differencesOf(own, given) : isThere ? ['missing' as const] : []
    if (differs.length > 0 && told !== differs.join()) {
      onEvent({ name: 'stream_differs', transmitter: name, differs, ...own && { goesTo: destinationOf(own) } })
    }
    told = differs.join()
    // Where it cannot be read, polling and pushes need only what the settings say.
    const isEnough = given.audience !== undefined && (delivery === 'push' || given.endpoint !== undefined)
    if (!own && (isRead || !isEnough)) {
      isFound = false
      verifyMs = -Infinity
      throw new ProviderFailure('stream_missing')
    }
    stream = factsOf(own, given)
    isFound = true
    unread = undefined
    if (!own) return
    try {
      setStatus(await client.readStatus(stream.id) ?? 'enabled', now())
    } catch (error) {
      // Events come without it.
      unread = error as Error
    }
  }

  /** @returns milliseconds until the next round */
  async function round () {
    const isLeader = await given.lead(streamName)
    // The keys may be fetching it now.
    if (!configuration) await (learning ?? withSession(transport, learn, closing.signal))
    if (!isFound || steadyMs() >= readMs) await readStream()
    if (isLeader && isVerified() && steadyMs() >= verifyMs) await verify(stream!)
    const polled = isLeader && delivery === 'poll' ? await poll(stream!.pollUrl!) : undefined
    fault = polled?.failure ?? unread
    return polled?.isMore ? NEXT_BATCH_MS : isLeader ? TICK_MS : TICK_MS * 2
  }

  /**
   * Has the stream verified (SSF 1.0 section 8.1.4). It also shows the transmitter that there is still a receiver. If
   * that fails, events are polled until the next time.
   */
  async function verify ({ id }: ReturnType<typeof factsOf>) {
    verifyMs = steadyMs() + periodSeconds() * 1000
    const state = randomBytes(12).toString('base64url')
    // Once more if news of a clock ahead of ours stood in the store, which was not read yet.
    for (let left = 2; left > 0 && !verification.isAsked(state); left--) {
      await given.announce(verification.asking(name, streamName, state, now()))
    }
    await client.requestVerification(id, state)
  }

  return {
    sender,
    /** Its name in the store. */
    stream: streamName,
    /**
     * Fetches the configuration and the keys, and begins what the settings ask for: reading the stream, polling,
     * verification.
     */
    start () {
      keys.start()
      if (delivery === 'poll' || authenticate) rounds.run()
    },
    /** Takes news of the stream from the log, so that all instances have them. */
    note (news: Pick<RevocationEntry, 'event' | 'at'>) {
      // Whatever stands in the log: readiness and metrics show the words of SSF only.
      if (isStreamStatus(news.event)) setStatus(news.event, news.at)
      else verification.note(news)
    },
    /** What readiness and metrics may know of it. The status is one of `STREAM_STATUSES`. */
    state: () => ({ transmitter: name, status: statusWord(), verifiedAt: verification.verifiedAt() }),
    async close () {
      closing.abort()
      given.calls.close()
      await Promise.all([rounds.close(), keys.close()])
    }
  }
}
