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
 * The value of a setting as a message to the operator quotes it, as JSON. What may be secret is left out: the text
 * before an `@`, and a key that was written in place of its path.
 * @param mayBeList whether the setting takes a list. Then a list of texts is shown as in a variable. Otherwise a list
 * is the fault, and is shown as one.
 */
export function quoteSetting (value: unknown, mayBeList = false): string {
  const isTextList = mayBeList && Array.isArray(value) && value.length > 0 &&
    value.every(entry => typeof entry === 'string')
  const text = JSON.stringify(isTextList ? value.join(' ') : value) ?? typeof value
  if (holdsKey(text)) return 'a key itself (not shown)'
  const at = text.lastIndexOf('@')
  const safe = at === -1 ? text : `"…${text.slice(at)}`
  return safe.length > MAX_QUOTED_CHARS ? `${safe.slice(0, MAX_QUOTED_CHARS)}…` : safe
}
