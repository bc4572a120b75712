import { ProviderFailure } from './provider-failure.ts'
import { usableKey, type UnusableKey, type UsableKey } from './usable-key.ts'

/** Far above what a provider publishes, and low enough that judging all of them takes a few milliseconds. */
const MAX_ENTRIES = 100

/** How many entries of a set were passed over, by reason. */
export type PassedOver = Readonly<Partial<Record<UnusableKey, number>>>

export interface KeySet {
  readonly usable: readonly UsableKey[]
  readonly passedOver: PassedOver
}

/** UTF-8 as RFC 8259 section 8.1 asks; a byte order mark is dropped. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The object that a document of the provider holds. Throws ProviderFailure `not_json`, or `malformed` for other JSON. */
export function parseDocument (body: Uint8Array, malformed: 'discovery_malformed' | 'set_malformed'): Record<string, unknown> {
  let document: unknown
  try {
    document = JSON.parse(utf8.decode(body))
  } catch {
    throw new ProviderFailure('not_json')
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document)) throw new ProviderFailure(malformed)
  return document as Record<string, unknown>
}

/**
 * Decides which keys of a JWK Set document (RFC 7517 section 5) may verify access tokens.
 *
 * A set that is empty, or that holds none but other keys, is an answer: the provider has taken its keys back.
 * What is no set at all is a fault of the provider and says nothing about its keys; likewise a set of things none of which is a
 * JSON object, and one of more than 100 entries, for which keys to drop is not ours to choose.
 *
 * Several keys may have one `kid` (RFC 7517 section 4.5 only says that they should not). The same key twice is one.
 *
 * Throws ProviderFailure `not_json`, `set_malformed`, `set_too_many_keys`.
 */
export function parseKeySet (body: Uint8Array): KeySet {
  const { keys } = parseDocument(body, 'set_malformed')
  if (!Array.isArray(keys)) throw new ProviderFailure('set_malformed')
  if (keys.length > MAX_ENTRIES) throw new ProviderFailure('set_too_many_keys', keys.length)

  const judged = keys.map(usableKey)
  if (keys.length > 0 && judged.every((verdict) => verdict === 'not_a_key')) throw new ProviderFailure('set_malformed')
  const passedOver: Partial<Record<UnusableKey, number>> = {}
  const usable = new Map<string, UsableKey>()
  for (const verdict of judged) {
    if (typeof verdict === 'string') passedOver[verdict] = (passedOver[verdict] ?? 0) + 1
    else usable.set(keyIdentity(verdict), verdict)
  }
  return { usable: [...usable.values()], passedOver }
}

/** Equal for two keys exactly when their texts are: a number that is written in two ways counts as two. */
export function keyIdentity ({ kid, n, e }: UsableKey): string {
  return JSON.stringify([n, e, kid])
}
