import { isJsonObject } from './json.ts'

const MAX_CHARS = 256

/**
 * Untrusted text as a log line may hold it: at most 256 characters, all of them printable ASCII, so that it can neither
 * flood a log nor forge a line or steer a terminal. User info, query and fragment of a URL are left out, because they
 * may hold a secret. A list is joined by spaces.
 */
export function printable (value: string | readonly string[]): string {
  const text = (typeof value === 'string' ? value : value.join(' ')).replace(/\/\/[^/@\s]*@/g, '//').replace(
    /([?#])\S+/g,
    '$1...'
  )
  const plain = text.slice(0, MAX_CHARS + 1).replace(/[^\x20-\x7e]/g, escaped)
  return plain.length > MAX_CHARS ? `${plain.slice(0, MAX_CHARS - 3)}...` : plain
}

/** A word of a client, if it is plain and short enough for a log line. Undefined for any other text. */
export function plainWord (text: string | undefined): string | undefined {
  return text !== undefined && /^[\w./-]{1,64}$/.test(text) ? text : undefined
}

function escaped (character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const MAX_QUOTED_CHARS = 200
/** Whether a text holds a key in PEM form, or a JWK. In the JSON of a text, its quotes are escaped. */
export function holdsKey (text: string): boolean {
  return /-----BEGIN|"kty\\*"/.test(text)
}

/**
 * The text or list of a setting as a message to the operator quotes it. What may be secret is left out: as below, and
 * whatever is in a mapping, or in a list in a list.
 */
export function quoteSetting (value: unknown): string {
  if (Array.isArray(value)) return quoteJson(value.map(entry => kindOf(entry) ?? entry))
  return kindOf(value) ?? quoteJson(value)
}

/** A value as JSON, without the text before an `@`, and without a key that was written in place of its path. */
export function quoteJson (value: unknown): string {
  const text = JSON.stringify(value)
  if (holdsKey(text)) return 'a key itself (not shown)'
  const at = text.lastIndexOf('@')
  const safe = at === -1 ? text : `"…${text.slice(at)}`
  return safe.length > MAX_QUOTED_CHARS ? `${safe.slice(0, MAX_QUOTED_CHARS)}…` : safe
}

/** What a value with members is, for a message that must not quote it. Undefined for any other. */
export function kindOf (value: unknown): string | undefined {
  return Array.isArray(value) ? 'a list' : isJsonObject(value) ? 'a mapping' : undefined
}
