import { createKeySource } from '../provider/key-source.ts'
import type { ProviderSession } from '../provider/transport.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import type { EventSender } from './receiver.ts'
import { EVENT_ALGS } from './security-event-token.ts'
import { createStreamKeeper } from './stream-keeper.ts'
import type { TransmitterParameters } from './stream-keeper.ts'
import { exchanging, fetchTransmitterConfiguration } from './transmitter-configuration.ts'
import type { TransmitterConfiguration } from './transmitter-configuration.ts'

export type Transmitter = ReturnType<typeof createTransmitter>

/** A transmitter of the Shared Signals Framework: its keys, its stream, and the events that are polled from it. */
export function createTransmitter (given: TransmitterParameters) {
  const { surroundings, transport } = given
  const { issuer: name } = given
  let configuration: TransmitterConfiguration | undefined
  let learning: Promise<string> | undefined

  const keys = createKeySource({
    locate: learn,
    algs: EVENT_ALGS,
    transport,
    ...surroundings,
    onEvent: given.onKeyEvent
  })

  const sender: EventSender = {
    name,
    keys,
    pushAuthorization: given.pushAuthorization,
    isStateKnown: state => stream.isStateKnown(state),
    get setRules () {
      return {
        issuers: issuerSpellings(name),
        audience: stream.audience(),
        algs: EVENT_ALGS,
        type: 'secevent+jwt',
        isUntyped: given.untyped
      }
    },
    get subjectRules () {
      const { tokenIssuers = [name], sessionClaim, subjectClaims } = given
      return {
        sender: name,
        tokenIssuers,
        sessionClaim,
        subjectClaims,
        criticalMembers: configuration?.criticalMembers ?? []
      }
    }
  }

  const stream = createStreamKeeper({
    ...given,
    sender,
    configuration: () => configuration,
    // The keys may be fetching it now.
    async learnConfiguration () {
      await (learning ?? exchanging(transport, learn))
    }
  })

  /** @returns the address of the keys. @throws ProviderFailure */
  function learn (exchange: ProviderSession): Promise<string> {
    learning = fetchTransmitterConfiguration(given, exchange).then(found => {
      configuration = found
      stream.report()
      return found.jwksUri
    }).finally(() => {
      learning = undefined
    })
    return learning
  }

  return {
    sender,
    /**
     * Fetches the configuration and the keys, and begins what the settings ask for: a stream, polling, verification.
     */
    start (): void {
      keys.start()
      if (given.delivery === 'poll' || given.authenticate) stream.start()
    },
    /** Takes news of the stream from the log, so that all instances have them. */
    note: stream.note,
    /** For readiness and metrics. */
    state: () => ({ transmitter: name, ...stream.state() }),
    async close (): Promise<void> {
      stream.close()
      given.calls.close()
      await keys.close()
    }
  }
}
