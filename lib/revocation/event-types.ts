import type { JsonObject } from '../jose/jws.ts'

/**
 * What an event asks for. `session`: its session ends, or all sessions of the user. `user`: a cutoff of the user. `device`: one of the
 * device. `block`, `enable`: the user is refused from the one until the other. `state`: news of the stream itself. `none`: nothing.
 */
export type EventMeaning = 'session' | 'user' | 'device' | 'block' | 'enable' | 'state' | 'none'

const CAEP = 'https://schemas.openid.net/secevent/caep/event-type/'
const RISC = 'https://schemas.openid.net/secevent/risc/event-type/'
const SSF = 'https://schemas.openid.net/secevent/ssf/event-type/'

export const VERIFICATION = `${SSF}verification`
export const STREAM_UPDATED = `${SSF}stream-updated`

const always = (meaning: EventMeaning) => (): EventMeaning => meaning

/** CAEP 1.0 section 3, RISC 1.0 section 2, SSF 1.0 section 8.1. */
const MEANINGS: Readonly<Record<string, (event: JsonObject) => EventMeaning>> = Object.freeze({
  [`${CAEP}session-revoked`]: always('session'),
  [`${CAEP}token-claims-change`]: always('user'),
  [`${CAEP}credential-change`]: ({ change_type: change }) => change === 'create' ? 'none' : 'user',
  [`${CAEP}assurance-level-change`]: ({ change_direction: direction }) => direction === 'increase' ? 'none' : 'user',
  [`${CAEP}device-compliance-change`]: ({ current_status: status }) => status === 'not-compliant' ? 'device' : 'none',
  [`${RISC}sessions-revoked`]: always('user'),
  [`${RISC}credential-compromise`]: always('user'),
  [`${RISC}account-credential-change-required`]: always('user'),
  [`${RISC}identifier-changed`]: always('user'),
  [`${RISC}identifier-recycled`]: always('user'),
  [`${RISC}account-disabled`]: always('block'),
  [`${RISC}account-purged`]: always('block'),
  [`${RISC}account-enabled`]: always('enable'),
  [VERIFICATION]: always('state'),
  [STREAM_UPDATED]: always('state')
})

/** The event types that a stream is asked for. */
export const KNOWN_EVENT_TYPES: readonly string[] = Object.freeze(Object.keys(MEANINGS))

/** What an event asks for. Undefined if its type is not known. */
export function meaningOf (type: string, event: JsonObject): EventMeaning | undefined {
  return Object.hasOwn(MEANINGS, type) ? MEANINGS[type]!(event) : undefined
}

/** The end of a known type, for people and metrics. The text of an unknown one is the sender's. */
export function eventName (type: string): string {
  return Object.hasOwn(MEANINGS, type) ? type.slice(type.lastIndexOf('/') + 1) : 'unknown'
}
