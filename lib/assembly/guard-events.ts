import { AFFINITY_MISSING } from '../guard/affinity.ts'
import type { GuardEvent } from './create-guard.ts'

/** What an operator should look at. */
const WARNINGS: ReadonlySet<GuardEvent['name']> = new Set([
  'keys_fetch_failed', 'keys_expired', 'keys_private', 'issuers_unavailable', 'replay_unavailable', 'replay_policy_unknown', 'nonce_secret_random',
  'affinity_missing', 'revocation_unavailable', 'revocation_refused', 'stream_changed', 'stream_without_subjects'
])

/** What the name of an event does not say. */
const SENTENCES: { readonly [Name in GuardEvent['name']]?: string } = {
  affinity_missing: AFFINITY_MISSING,
  stream_without_subjects: 'The transmitter sends nothing until subjects are added to its stream: its default_subjects is NONE'
}

/** The level and the sentence of the log line for an event. */
export function describeEvent ({ name }: GuardEvent): { readonly level: 'warn' | 'info', readonly sentence: string } {
  return { level: WARNINGS.has(name) ? 'warn' : 'info', sentence: SENTENCES[name] ?? name.replaceAll('_', ' ') }
}
