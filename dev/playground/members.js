// Names with their values, and a JWT as lists of them.
import { element } from './dom.js'
import { decodeJwt, describeTime } from './jwt.js'

/** A JWT as two lists, header and claims; those named in `marked` are highlighted. */
export function jwtView (text, marked = []) {
  const jwt = decodeJwt(text)
  if (jwt === undefined) return element('p', { className: 'quiet' }, 'Not a JWT, so there is nothing to decode.')
  return element(
    'div',
    { className: 'jwt' },
    members('Header', jwt.header, marked),
    members('Claims', jwt.claims, marked)
  )
}

function members (title, object, marked) {
  const rows = Object.entries(object).map(([name, value]) => {
    const isMarked = marked.includes(name)
    const time = describeTime(name, value)
    return row(
      [name, isMarked && element('span', { className: 'visually-hidden' }, ' (this is what counts here)')],
      [typeof value === 'string' ? value : JSON.stringify(value, null, 1)],
      time && element('span', { className: 'note' }, ` ${time}`),
      isMarked && 'marked'
    )
  })
  return element('div', element('h5', title), element('dl', { className: 'members' }, rows))
}

/** A name with its value. */
export const row = (label, value, more, className) =>
  element(
    'div',
    { className: className || undefined },
    element('dt', label),
    element('dd', element('code', value), more)
  )
