import { PROVIDER_FAULTS } from './explain/faults.ts'
import { printable } from '../lib/base/printable.ts'
import type { ProviderFailure, ProviderFailureWord } from '../lib/guard/provider/provider-failure.ts'
import { terminalLine } from './show.ts'

/** One thing that was looked at. A warning is worth knowing; only a fault makes the check fail. */
export interface Finding {
  readonly kind: 'fine' | 'warning' | 'fault'
  readonly says: string
  /** What to do about it. */
  readonly cure?: string
}

/** What others have said, as a line may hold it. */
export const quoted = (value: unknown) => printable([value].flat().map(String))

export const fine = (says: string): Finding => ({ kind: 'fine', says: plain(says) })
export const warning = (says: string, cure?: string): Finding => ({
  kind: 'warning',
  says: plain(says),
  ...cure !== undefined && { cure: plain(cure) }
})
export const fault = (says: string, cure: string): Finding => ({ kind: 'fault', says: plain(says), cure: plain(cure) })

/** Sentences of the docs, and what others have said in them, on a terminal. */
const plain = (text: string) => terminalLine(text.replaceAll('`', '').replace(/\[([^[\]]+)\]\([^)]+\)/g, '$1'))

/**
 * The failure, and what the provider has said in the place of what was expected: often that is what a setting must say.
 */
export function failureText ({ message, detail, facts: { expected, found } }: ProviderFailure): string {
  return detail !== undefined || found === undefined ? message : `${message}: expected ${expected}, found ${found}`
}

/**
 * A call to a provider that failed.
 * @param says what was tried, and how it failed
 * @param consequence a sentence of what that leads to
 */
export function failedCall (word: ProviderFailureWord, says: string, consequence = ''): Finding {
  const { meaning, cure } = PROVIDER_FAULTS[word]
  return fault(`${says} (${meaning}).${consequence}`, `Look at this: ${cure}.`)
}
