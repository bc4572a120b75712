import { timingSafeEqual, hash } from 'node:crypto'
import type { SignerFinder } from '../guard/jose/signed-jwt.ts'
import { effectsOf, eventName, VERIFICATION, type EventOutcome } from './effects.ts'
import type { RevocationEntry } from './entry.ts'
import { logoutEntries, readLogoutForm, type LogoutRules } from './logout-token.ts'
import {
  checkSet,
  isFor,
  eventIn,
  MAX_SET_BYTES,
  readSet,
  unknownIssuer,
  verifySetSignature,
  type SenderKeys,
  type SetRules,
  type UnverifiedSet
} from './security-event-token.ts'
import { SetError } from './set-error.ts'

/** A sender of security event tokens. */
export interface EventSender {
  readonly name: string
  readonly setRules: SetRules
  readonly subjectRules: Parameters<typeof effectsOf>[1]
  readonly keys: SenderKeys
  /** The whole value of the Authorization header of a push, or undefined if none is needed. */
  readonly pushAuthorization: string | undefined
  /** Whether a verification of its stream may have this `state`. */
  readonly isStateKnown: (state: unknown) => Promise<boolean>
}

/** A sender of logout tokens. */
export interface LogoutSender extends LogoutRules, Pick<EventSender, 'setRules' | 'keys'> {}

/** What became of an event that was accepted. */
export interface Received {
  readonly sender: string
  /** The end of the type of its event, or `unknown`. Else `logout` or `operator`. */
  readonly type: string
  readonly outcome: EventOutcome
}

interface ReceiverOptions {
  readonly senders: readonly EventSender[]
  readonly logoutSenders: readonly LogoutSender[]
  /** Resolves when the entries are stored. Returns whether any of them can match a token. */
  readonly append: (entries: readonly RevocationEntry[]) => Promise<boolean>
  readonly findSigner: SignerFinder
  /** Unix seconds. */
  readonly now: () => number
}

/**
 * Receives events: everything that can be checked without a key first, then the signature, then the effects. It
 * resolves only when they are stored. It rejects with SetError, Refusal keys_unavailable, and what `append` throws. All
 * errors that are not a `SetError` say nothing against the token: it is to be sent again.
 */
export function createReceiver ({ senders, logoutSenders, append, findSigner, now }: ReceiverOptions) {
  async function takeSet (set: UnverifiedSet, sender: EventSender): Promise<Received> {
    checkSet(set, sender.setRules)
    const event = eventIn(set)
    await verifySetSignature(set, sender.keys, findSigner)
    if (event.type === VERIFICATION && !await sender.isStateKnown(event.event.state)) {
      throw new SetError('The state of the verification is not one that was asked for.', 'invalid_state')
    }
    const { outcome, entries } = effectsOf(event, sender.subjectRules, now())
    const isMatched = await append(entries)
    return { sender: sender.name, type: eventName(event.type), outcome: isMatched ? outcome : 'unmatched' }
  }

  return {
    /** A security event token that was polled (RFC 8936): its sender is known. */
    async take (text: string, sender: EventSender): Promise<Received> {
      if (Buffer.byteLength(text) > MAX_SET_BYTES) {
        throw new SetError('The token is larger than 64 KiB.')
      }
      return takeSet(readSet(text), sender)
    },
    /** One that was pushed (RFC 8935). */
    async push (text: string, authorization: string | undefined): Promise<Received> {
      const set = readSet(text)
      const sender = senders.find(isOf(set))
      if (sender && !fits(authorization, sender.pushAuthorization)) {
        throw new SetError('The Authorization header is not the configured one.', 'authentication_failed')
      }
      return takeSet(set, sender ?? unknownIssuer())
    },
    /** A form with a logout token (Back-Channel Logout 1.0). */
    async logout (form: string): Promise<Received> {
      const set = readSet(readLogoutForm(form))
      // Several clients of one issuer may be listed.
      const ofIssuer = logoutSenders.filter(isOf(set))
      const sender =
        ofIssuer.find(({ setRules: { audience } }) => isFor(set, audience)) ?? ofIssuer[0] ?? unknownIssuer()
      checkSet(set, sender.setRules)
      const entries = logoutEntries(set, sender, now())
      await verifySetSignature(set, sender.keys, findSigner)
      const isMatched = await append(entries)
      return { sender: sender.issuer, type: 'logout', outcome: isMatched ? 'applied' : 'unmatched' }
    }
  }
}

const isOf = ({ claims }: UnverifiedSet) => ({ setRules: { issuers } }: Pick<EventSender, 'setRules'>) =>
  issuers.includes(claims.iss as string)

/** In constant time: the time must not show how much of it is right. */
function fits (given: string | undefined, expected: string | undefined): boolean {
  if (expected === undefined) return true
  return given !== undefined && timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'))
}
