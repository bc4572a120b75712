const MOST_CHARS = 256

/**
 * Text of somebody else as a log line may hold it: at most 256 characters, all of them printable ASCII, so that it can neither flood
 * a log nor forge a line or steer a terminal. User info, query and fragment of a URL are left out, because they may hold a secret. A
 * list is shown with spaces between its entries.
 */
export function shown (value: string | readonly string[]): string {
  const text = (typeof value === 'string' ? value : value.join(' ')).replace(/\/\/[^/@\s]*@/g, '//').replace(/([?#])\S+/g, '$1...')
  const plain = text.slice(0, MOST_CHARS + 1).replace(/[^\x20-\x7e]/g, escaped)
  return plain.length > MOST_CHARS ? `${plain.slice(0, MOST_CHARS - 3)}...` : plain
}

function escaped (character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
