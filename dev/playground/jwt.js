/** Header and claims of a JWT, unverified; undefined if the text is not a JWT. */
export function decodeJwt (text) {
  const [header, claims] = text.split('.', 2).map(decodePart)
  return header === undefined || claims === undefined ? undefined : { header, claims }
}

function decodePart (part) {
  try {
    const base64 = part.replaceAll('-', '+').replaceAll('_', '/')
    const bytes = Uint8Array.from(atob(base64), character => character.charCodeAt(0))
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    return undefined
  }
}

const TIMES = new Set(['iat', 'exp', 'nbf'])

/** A time among the claims in words, as seen from now. */
export function describeTime (name, value) {
  if (!TIMES.has(name) || typeof value !== 'number') return undefined
  const seconds = value - Math.floor(Date.now() / 1000)
  const distance = Math.abs(seconds)
  if (distance < 5) return 'now'
  const text = distance < 120
    ? `${distance} s`
    : distance < 7200
      ? `${Math.round(distance / 60)} min`
      : `${Math.round(distance / 3600)} h`
  return seconds > 0 ? `in ${text}` : `${text} ago`
}
