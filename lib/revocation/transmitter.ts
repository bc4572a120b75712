import { createKeySource } from '../provider/key-source.ts'
import type { KeySourceEvent, KeySourceState } from '../provider/key-source.ts'
import type { PostingTransport, Transport } from '../provider/transport.ts'
import type { Surroundings } from '../surroundings.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import type { RevocationEntry } from './entry.ts'
import type { EventSender } from './receiver.ts'
import { EVENT_ALGS } from './security-event-token.ts'
import { createStreamKeeper } from './stream-keeper.ts'
import type { TransmitterRun } from './stream-keeper.ts'
import { configurationUrlOf, fetchTransmitterConfiguration } from './transmitter-configuration.ts'
import type { TransmitterConfiguration } from './transmitter-configuration.ts'

export interface TransmitterParameters {
  readonly issuer?: string | undefined
  readonly metadata?: string | undefined
  readonly audience?: string | undefined
  readonly delivery: 'push' | 'poll'
  readonly endpoint?: string | undefined
  readonly tokenIssuers?: readonly string[] | undefined
  readonly sessionClaim: string | false
  readonly subjectClaims: Readonly<Record<string, string>>
  readonly clientId?: string | undefined
  readonly clientSecret: string | undefined
  readonly tokenEndpoint?: string | undefined
  readonly manage: boolean
  readonly pushAuthorization: string | undefined
  readonly untyped: boolean
  /** The address that it pushes to. */
  readonly pushUrl: string | undefined
  readonly transport: Transport
  /** For calls that do more than fetch keys. */
  readonly calls: PostingTransport
  readonly surroundings: Surroundings
  readonly onKeyEvent: (event: KeySourceEvent) => void
  /** Called once for each change. */
  readonly onStatus: (status: string) => void
}

/** What readiness and metrics may know of a stream. */
export interface StreamState {
  /** As the settings name the transmitter. */
  readonly transmitter: string
  /** One of `STREAM_STATUSES`. */
  readonly status: string
  /** The time of its last verification event, in Unix seconds. */
  readonly verifiedAt: number | undefined
  readonly keys: KeySourceState
}

export interface Transmitter {
  readonly sender: EventSender
  /** Fetches the configuration and the keys, and begins what the settings ask for: a stream, polling, verification. */
  start (run: TransmitterRun): void
  /** Takes news of the stream from the log, so that all instances have them. */
  note (entry: Pick<RevocationEntry, 'event' | 'at'>): void
  state (): StreamState
  close (): Promise<void>
}

/** A transmitter of the Shared Signals Framework: its keys, its stream, and the events that are fetched from it. */
export function createTransmitter (given: TransmitterParameters): Transmitter {
  const { surroundings: { wallMs, random, after }, transport, delivery } = given
  const name = given.issuer ?? given.metadata!
  let configuration: TransmitterConfiguration | undefined
  let audience = given.audience
  let status = 'unknown'
  /** When it was so, in Unix seconds. */
  let statusAt = -Infinity
  let isFailing = false
  /** The word of the stream itself comes first, so until it has been read nothing is said of its subjects. */
  let isStreamRead = given.clientId === undefined
  let defaultSubjects: string | undefined
  let verifiedAt: number | undefined
  /** What `onStatus` was last called with. */
  let said = 'unknown'

  const keys = createKeySource({
    issuer: configurationUrlOf(given),
    discover: async exchange => {
      const found = await fetchTransmitterConfiguration(given, exchange)
      learn(found)
      return found.jwksUri
    },
    algs: EVENT_ALGS,
    transport,
    now: wallMs,
    random,
    schedule: (run, ms) => after(ms, run),
    onEvent: given.onKeyEvent
  })
  const issuerName = (): string | undefined => given.issuer ?? configuration?.issuer

  const sender: EventSender = {
    name,
    keys,
    pushAuthorization: given.pushAuthorization,
    get setRules () {
      const issuer = issuerName()
      return { issuers: issuer === undefined ? [] : issuerSpellings(issuer), audience, type: 'secevent+jwt', isUntyped: given.untyped }
    },
    get subjectRules () {
      const own = issuerName()!
      return {
        sender: own,
        tokenIssuers: given.tokenIssuers ?? [own],
        sessionClaim: given.sessionClaim,
        subjectClaims: given.subjectClaims,
        criticalMembers: configuration?.criticalMembers ?? []
      }
    }
  }

  const keeper = createStreamKeeper({
    ...given,
    name,
    sender,
    configuration: () => configuration,
    async learnConfiguration () {
      const exchange = transport.open()
      try {
        learn(await fetchTransmitterConfiguration(given, exchange))
      } finally {
        exchange.close()
      }
    },
    onStream (found) {
      audience ??= found.audience
      defaultSubjects = found.defaultSubjects ?? defaultSubjects
      isStreamRead = true
      if (found.status !== undefined) setStatus(found.status, wallMs() / 1000)
    },
    onFailing (now) {
      isFailing = now
      tell()
    }
  })

  function learn (found: TransmitterConfiguration): void {
    configuration = found
    tell()
  }

  function setStatus (now: string, at: number): void {
    if (at < statusAt) return
    status = now
    statusAt = at
    tell()
  }

  function statusWord (): string {
    if (isFailing) return 'failing'
    const isPaused = status === 'paused' || status === 'disabled'
    return isStreamRead && (defaultSubjects ?? configuration?.defaultSubjects) === 'NONE' && !isPaused ? 'no_subjects' : status
  }

  function tell (): void {
    const now = statusWord()
    if (now === said) return
    said = now
    given.onStatus(now)
  }

  return {
    sender,
    start (run) {
      keys.start()
      if (delivery === 'poll' || given.manage || given.clientId !== undefined) keeper.start(run)
    },
    note ({ event, at }) {
      if (event === 'verification') verifiedAt = Math.max(verifiedAt ?? 0, at)
      else setStatus(event, at)
    },
    state: () => ({ transmitter: name, status: statusWord(), verifiedAt, keys: keys.state() }),
    async close () {
      keeper.close()
      given.calls.close()
      await keys.close()
    }
  }
}
