import { randomUUID } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import { entriesAbout, KNOWN_EVENT_TYPES } from '../../lib/revocation/effects.ts'
import type { RevocationEntry } from '../../lib/revocation/entry.ts'
import type { Subject } from '../../lib/revocation/subject.ts'
import { configurationUrlOf } from '../../lib/revocation/transmitter/configuration.ts'
import { claimTarget, type ClaimNamesOf } from '../../lib/revocation/target.ts'
import type { InjectableApp } from './testing-client.ts'
import type { TestKey } from './testing-key.ts'
import type { ProvidersInMemory } from './testing-provider.ts'

/** What a test takes back: one of these. */
export interface TestRevocation {
  /** A user: every token that was issued up to now. */
  readonly sub?: string
  /** A session: every token of it. */
  readonly sid?: string
  /** One token. */
  readonly jti?: string
}

/**
 * What a revocation by a test changes: the same as a log-out of the user, the end of the session, or the end of the
 * token.
 * @returns what makes the entries for one app
 * @throws TypeError
 */
export function readRevocation (
  what: TestRevocation
): (
    facts: { readonly issuer: string, readonly now: number, readonly namesOf: ClaimNamesOf }
  ) => readonly RevocationEntry[] {
  const named = Object.entries(what).filter(([, value]) => value !== undefined)
  const [[kind, value] = []] = named
  if (named.length !== 1 || (kind !== 'sub' && kind !== 'sid' && kind !== 'jti') || typeof value !== 'string') {
    throw new TypeError("Say one of sub, sid and jti, as a text: idp.revoke({ sub: 'ann' })")
  }
  return ({ issuer, now, namesOf }) => {
    const subject: Subject = kind === 'sid'
      ? namesOf(issuer).session.map(claim => ({ kind: 'session', target: claimTarget(claim, issuer, value) }))
      : [{ kind: kind === 'sub' ? 'user' : 'token', target: [kind, issuer, value] }]
    return entriesAbout(subject, 'session', { at: now, event: 'test', sender: issuer })
  }
}

/** A transmitter, as `revocation.transmitters` takes it. */
export interface TestTransmitterEntry {
  /** The URL of the transmitter. */
  readonly issuer: string
  /** The `aud` of its events. */
  readonly audience: string
  /** It posts its events to `/revocation/events`. */
  readonly delivery: 'push'
  /** The issuers about whose tokens it may speak. */
  readonly tokenIssuers: readonly string[]
}

/** More of an event than its type and its subject. */
export interface TestSecurityEvent {
  /** Members of the event, such as `change_type`. */
  readonly event?: Readonly<Record<string, unknown>>
  /** Other claims of the token, such as `aud`. A claim that is undefined is left out. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** Where the app takes events, if the plugin has a prefix. Default: `/revocation/events`. */
  readonly url?: string
}

/**
 * A transmitter of security events in memory (RFC 8417, RFC 8935): it opens no port. The app fetches its configuration
 * and its keys as it does real ones.
 */
export interface TestTransmitter {
  /** For `revocation: { transmitters: [transmitter.options] }`. */
  readonly options: TestTransmitterEntry
  /**
   * A signed security event token.
   * @param type the URI of the event, or the end of one that is known: `session-revoked`
   * @param subject its `sub_id`, such as `{ format: 'opaque', id: 'session-1' }`
   * @example
   * const token = transmitter.set('account-disabled', { format: 'iss_sub', iss: 'https://issuer.test/', sub: 'ann' })
   */
  set (type: string, subject: object, more?: TestSecurityEvent): string
  /**
   * Sends such a token to the app. The answer is 202 if the app has taken it.
   * @example await transmitter.push(app, 'session-revoked', { format: 'opaque', id: 'session-1' })
   */
  push (app: InjectableApp, type: string, subject: object, more?: TestSecurityEvent): Promise<LightMyRequestResponse>
}

interface TransmitterParts {
  readonly issuer: string
  readonly tokenIssuers: readonly string[]
  readonly clock: { now (): number }
  readonly providers: Pick<ProvidersInMemory, 'publish'>
  readonly key: TestKey
}

const AUDIENCE = 'https://receiver.test'

export function makeTransmitter ({ issuer, tokenIssuers, clock, providers, key }: TransmitterParts): TestTransmitter {
  const keysUrl = `${issuer}/keys`
  providers.publish(configurationUrlOf({ issuer }), { issuer, jwks_uri: keysUrl })
  providers.publish(keysUrl, { keys: [key.jwk] })

  const transmitter: TestTransmitter = {
    options: { issuer, audience: AUDIENCE, delivery: 'push', tokenIssuers },
    set (type, subject, { event = {}, claims = {} } = {}) {
      const uri = KNOWN_EVENT_TYPES.find(known => known.endsWith(`/${type}`)) ?? type
      return key.sign('secevent+jwt', {
        iss: issuer,
        aud: AUDIENCE,
        iat: clock.now(),
        jti: randomUUID(),
        sub_id: subject,
        events: { [uri]: event },
        ...claims
      })
    },
    push: (app, type, subject, more = {}) =>
      app.inject({
        method: 'POST',
        url: more.url ?? '/revocation/events',
        headers: { 'content-type': 'application/secevent+jwt' },
        body: transmitter.set(type, subject, more)
      })
  }
  return transmitter
}
