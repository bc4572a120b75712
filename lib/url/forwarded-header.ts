/** The parameters of one forwarded-element that matter here, unquoted and not yet validated. */
export interface ForwardedElement {
  proto: string | undefined
  host: string | undefined
}

const TOKEN_CHAR = /[!#$%&'*+.^_`|~0-9A-Za-z-]/

function isSpace (char: string | undefined): boolean {
  return char === ' ' || char === '\t'
}

function skipSpace (text: string, at: number): number {
  while (isSpace(text[at])) at++
  return at
}

function tokenEnd (text: string, at: number): number {
  while (at < text.length && TOKEN_CHAR.test(text[at]!)) at++
  return at
}

// RFC 7239 wants a value with a colon quoted; many proxies send `host=name:8443`, which reads one way only.
function bareEnd (text: string, at: number): number {
  while (at < text.length && !isSpace(text[at]) && !',;="'.includes(text[at]!)) at++
  return at
}

// The value at `at`, plain or quoted, and where it ends; undefined where it is empty or its quote stays open.
function readValue (text: string, at: number): { value: string, end: number } | undefined {
  if (text[at] !== '"') {
    const end = bareEnd(text, at)
    return end === at ? undefined : { value: text.slice(at, end), end }
  }
  let value = ''
  for (let next = at + 1; next < text.length; next++) {
    if (text[next] === '"') return { value, end: next + 1 }
    if (text[next] === '\\') next++
    value += text[next] ?? ''
  }
  return undefined
}

/**
 * Reads a Forwarded header (RFC 7239 section 4) and returns its last element, the one that the nearest proxy
 * wrote. Undefined where the value is malformed in any place (an open quote of one element would swallow the
 * next one), where a parameter stands twice in an element, or where the last element is empty.
 */
export function parseForwarded (text: string): ForwardedElement | undefined {
  const names = new Set<string>()
  let element: ForwardedElement = { proto: undefined, host: undefined }
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at + 1)) {
    const nameEnd = tokenEnd(text, at)
    if (nameEnd > at) {
      const name = text.slice(at, nameEnd).toLowerCase()
      const pair = text[nameEnd] === '=' ? readValue(text, nameEnd + 1) : undefined
      if (pair === undefined || names.has(name)) return undefined
      names.add(name)
      if (name === 'proto' || name === 'host') element[name] = pair.value
      at = skipSpace(text, pair.end)
    }
    if (text[at] === ',') {
      names.clear()
      element = { proto: undefined, host: undefined }
    } else if (at < text.length && text[at] !== ';') return undefined
  }
  return names.size === 0 ? undefined : element
}
