import { AFFINITY_MISSING, type MissingAffinity } from '../guard/affinity.ts'
import type { ReplayStoreEvent } from '../guard/replay/create-store.ts'
import type { IssuerEvent } from './create-issuers.ts'
import type { RevocationEvent } from './create-revocation.ts'

/** A change of state that operators should hear of. */
export type GuardEvent =
  | IssuerEvent
  | ReplayStoreEvent
  | RevocationEvent
  | { readonly name: 'nonce_secret_random' }
  | { readonly name: 'affinity_missing' } & MissingAffinity

/** What an operator should look at. */
const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set([
  'keys_fetch_failed',
  'keys_expired',
  'keys_private',
  'issuers_unavailable',
  'issuer_spelled_otherwise',
  'replay_unavailable',
  'replay_policy_unknown',
  'nonce_secret_random',
  'affinity_missing',
  'revocation_unavailable',
  'revocation_refused',
  'stream_changed',
  'stream_without_subjects',
  'stream_differs',
  'event_ahead',
  'revocation_taken_over'
])

/** What the name of an event does not say. */
const SENTENCES: { readonly [Name in GuardEvent['name']]?: string } = {
  affinity_missing: AFFINITY_MISSING,
  issuer_spelled_otherwise:
    'The provider spells its issuer otherwise, and idp.tokenProfile is rfc9068: set the issuer as it is spelled, or ' +
    'its tokens are refused',
  revocation_taken_over: 'Instances of the version before must be gone: they do not hear what is revoked from now on',
  stream_without_subjects:
    'The transmitter sends nothing until subjects are added to its stream: its default_subjects is NONE',
  stream_differs: 'The stream is not as the settings want it: `holdfast stream --ensure` mends it, or says what does',
  event_ahead: 'An event is dated ahead: until then it refuses tokens, unless an operator undoes it'
}

/** The level and the sentence of the log line for an event. */
export function describeEvent ({ name }: GuardEvent): { readonly level: 'warn' | 'info', readonly sentence: string } {
  return { level: WARNINGS.has(name) ? 'warn' : 'info', sentence: SENTENCES[name] ?? name.replaceAll('_', ' ') }
}
