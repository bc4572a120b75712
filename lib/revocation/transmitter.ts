import { createKeySource } from '../provider/key-source.ts'
import type { ProviderSession } from '../provider/transport.ts'
import { issuerSpellings } from '../token/jwt-checks.ts'
import type { EventSender } from './receiver.ts'
import { EVENT_ALGS } from './security-event-token.ts'
import { createStreamKeeper } from './stream-keeper.ts'
import type { TransmitterParameters } from './stream-keeper.ts'
import { exchanging, fetchTransmitterConfiguration } from './transmitter-client.ts'
import type { TransmitterConfiguration } from './transmitter-client.ts'

export type Transmitter = ReturnType<typeof createTransmitter>

/** A transmitter of the Shared Signals Framework: its keys, its stream, and the events that are polled from it. */
export function createTransmitter (given: TransmitterParameters) {
  const { surroundings, transport } = given
  const name = given.issuer ?? given.metadata!
  let configuration: TransmitterConfiguration | undefined

  const keys = createKeySource({
    locate: learn,
    algs: EVENT_ALGS,
    transport,
    ...surroundings,
    onEvent: given.onKeyEvent
  })
  const issuerName = (): string | undefined => given.issuer ?? configuration?.issuer

  const sender: EventSender = {
    name,
    keys,
    pushAuthorization: given.pushAuthorization,
    get setRules () {
      const issuer = issuerName()
      return { issuers: issuer === undefined ? [] : issuerSpellings(issuer), audience: stream.audience(), type: 'secevent+jwt', isUntyped: given.untyped }
    },
    get subjectRules () {
      const own = issuerName()!
      const { tokenIssuers = [own], sessionClaim, subjectClaims } = given
      return { sender: own, tokenIssuers, sessionClaim, subjectClaims, criticalMembers: configuration?.criticalMembers ?? [] }
    }
  }

  const stream = createStreamKeeper({
    ...given,
    sender,
    configuration: () => configuration,
    async learnConfiguration () {
      await exchanging(transport, learn)
    }
  })

  /** @returns the address of the keys. @throws ProviderFailure */
  async function learn (exchange: ProviderSession): Promise<string> {
    configuration = await fetchTransmitterConfiguration(given, exchange)
    stream.report()
    return configuration.jwksUri
  }

  return {
    sender,
    /** Fetches the configuration and the keys, and begins what the settings ask for: a stream, polling, verification. */
    start (): void {
      keys.start()
      if (given.delivery === 'poll' || given.clientId !== undefined) stream.start()
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
