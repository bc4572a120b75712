import { createKeySource } from '../provider/key-source.ts'
import type { ProviderSession } from '../provider/transport.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import type { RevocationEntry } from './log.ts'
import type { EventSender } from './receiver.ts'
import { EVENT_ALGS } from './security-event-token.ts'
import { createStreamKeeper } from './stream-keeper.ts'
import type { TransmitterRun } from './stream-keeper.ts'
import { exchanging, fetchTransmitterConfiguration } from './transmitter-client.ts'
import type { TransmitterConfiguration, TransmitterParameters } from './transmitter-client.ts'

/**
 * What a stream can be (SSF 1.0 section 8.1.2), and beside that: `unknown` until it has said so, `no_subjects` if nothing is sent until
 * subjects are added, `failing` if its endpoints cannot be used.
 */
export const STREAM_STATUSES = Object.freeze(['unknown', 'enabled', 'paused', 'disabled', 'no_subjects', 'failing'] as const)

export type Transmitter = ReturnType<typeof createTransmitter>

/** A transmitter of the Shared Signals Framework: its keys, its stream, and the events that are polled from it. */
export function createTransmitter (given: TransmitterParameters) {
  const { surroundings: { wallMs, random, after }, transport, delivery } = given
  const name = given.issuer ?? given.metadata!
  let configuration: TransmitterConfiguration | undefined
  let audience = given.audience
  let status = 'unknown'
  /** When it was so, in Unix seconds. */
  let statusAt = -Infinity
  let isFailing = false
  /** What the stream says of its subjects goes before the configuration, so until it was read nothing is said of them. */
  let isStreamRead = given.clientId === undefined
  let defaultSubjects: string | undefined
  /** The time of its last verification event, in Unix seconds. */
  let verifiedAt: number | undefined
  /** What `onStatus` was last called with. */
  let reported = 'unknown'

  const keys = createKeySource({
    locate: learn,
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
      const { tokenIssuers = [own], sessionClaim, subjectClaims } = given
      return { sender: own, tokenIssuers, sessionClaim, subjectClaims, criticalMembers: configuration?.criticalMembers ?? [] }
    }
  }

  const keeper = createStreamKeeper({
    ...given,
    sender,
    configuration: () => configuration,
    async learnConfiguration () {
      await exchanging(transport, learn)
    },
    onStream ({ aud, default_subjects: ofStream }, found) {
      audience ??= [aud].flat().find(value => typeof value === 'string')
      if (typeof ofStream === 'string') defaultSubjects = ofStream
      isStreamRead = true
      if (found !== undefined) setStatus(found, wallMs() / 1000)
    },
    onFailing (now) {
      isFailing = now
      report()
    }
  })

  /** @returns the address of the keys. @throws ProviderFailure */
  async function learn (exchange: ProviderSession): Promise<string> {
    configuration = await fetchTransmitterConfiguration(given, exchange)
    report()
    return configuration.jwksUri
  }

  function setStatus (now: string, at: number): void {
    if (at < statusAt) return
    status = now
    statusAt = at
    report()
  }

  function statusWord (): string {
    if (isFailing) return 'failing'
    const isPaused = status === 'paused' || status === 'disabled'
    return isStreamRead && (defaultSubjects ?? configuration?.defaultSubjects) === 'NONE' && !isPaused ? 'no_subjects' : status
  }

  function report (): void {
    const now = statusWord()
    if (now === reported) return
    reported = now
    given.onStatus(now)
  }

  return {
    sender,
    /** Fetches the configuration and the keys, and begins what the settings ask for: a stream, polling, verification. */
    start (run: TransmitterRun): void {
      keys.start()
      if (delivery === 'poll' || given.manage || given.clientId !== undefined) keeper.start(run)
    },
    /** Takes news of the stream from the log, so that all instances have them. */
    note ({ event, at }: Pick<RevocationEntry, 'event' | 'at'>): void {
      if (event === 'verification') verifiedAt = Math.max(verifiedAt ?? 0, at)
      else setStatus(event, at)
    },
    /** What readiness and metrics may know of the stream. The status is one of `STREAM_STATUSES`. */
    state: () => ({ transmitter: name, status: statusWord(), verifiedAt, keys: keys.state() }),
    async close (): Promise<void> {
      keeper.close()
      given.calls.close()
      await keys.close()
    }
  }
}
