import { element } from './dom.js'
import { decodeJwt, describeTime } from './jwt.js'

/** A JWT as two lists, header and claims; those named in `marked` stand out. */
export function jwtView (text, marked = []) {
  const jwt = decodeJwt(text)
  if (jwt === undefined) return element('p', { className: 'quiet' }, 'Not a JWT, so there is nothing to decode.')
  return element('div', { className: 'jwt' }, members('Header', jwt.header, marked), members('Claims', jwt.claims, marked))
}

function members (title, object, marked) {
  const rows = Object.entries(object).map(([name, value]) => {
    const isMarked = marked.includes(name)
    const time = describeTime(name, value)
    return element('div', { className: isMarked ? 'marked' : '' },
      element('dt', {}, name, isMarked ? element('span', { className: 'visually-hidden' }, ' (this is what counts here)') : undefined),
      element('dd', {}, element('code', {}, typeof value === 'string' ? value : JSON.stringify(value, null, 1)),
        time === undefined ? undefined : element('span', { className: 'note' }, ` ${time}`)))
  })
  return element('div', {}, element('h5', {}, title), element('dl', { className: 'members' }, rows))
}

/** The whole story of a call or an attack: verdict, why, and every request that was made. */
export function resultView ({ title, story, lesson, passed, claims = [] }, exchanges, explanation) {
  const final = exchanges.at(-1)
  const isAttack = lesson !== undefined
  const isAccepted = final !== undefined && final.status >= 200 && final.status < 300
  return [
    element('h3', {}, title),
    element('p', {}, story),
    verdict(final, isAttack, isAccepted, explanation),
    isAttack ? element('p', { className: 'lesson' }, isAccepted ? passed ?? '' : lesson) : undefined,
    explanation?.advice !== undefined && !isAttack ? element('p', {}, explanation.advice) : undefined,
    checksView(explanation),
    exchanges.map((exchange, index) => exchangeView(exchange, claims, index + 1, exchange === final))
  ].flat().filter((node) => node !== undefined)
}

function verdict (final, isAttack, isAccepted, explanation) {
  const [mark, word] = words(final, isAttack, isAccepted)
  const isGood = isAttack ? !isAccepted : isAccepted
  const status = final === undefined ? '' : `${final.status} ${final.statusText}`
  return element('p', { className: `verdict ${isGood ? 'good' : 'bad'}`, id: 'verdict' },
    element('span', { 'aria-hidden': 'true' }, mark), ' ',
    element('strong', {}, word), ' ',
    element('span', {}, status),
    explanation?.reason === undefined ? undefined : element('code', { id: 'reason' }, explanation.reason),
    explanation?.description === undefined ? undefined : element('span', { className: 'description' }, explanation.description))
}

function words (final, isAttack, isAccepted) {
  if (final === undefined || final.status === 0) return ['\u2715', 'No answer.']
  if (isAttack) return isAccepted ? ['\u25cb', 'Let through.'] : ['\u2713', 'Stopped.']
  return isAccepted ? ['\u2713', 'Accepted.'] : ['\u2715', 'Refused.']
}

const MARKS = { passed: '\u2713', failed: '\u2715', 'not checked': '?', 'not reached': '\u2013' }

/** A choice of the reader, for every result from then on. */
let showsValues = false

/** Each check of the service, in its order; what was compared is there for all, and in sight for the one that failed. */
function checksView ({ checks = [], notes = [] } = {}) {
  if (checks.length + notes.length === 0) return undefined
  const reached = checks.filter(({ outcome }) => outcome !== 'not reached')
  const rest = checks.filter(({ outcome }) => outcome === 'not reached')
  return element('section', { className: showsValues ? 'checks with-values' : 'checks', id: 'checks', 'aria-labelledby': 'checks-title' },
    element('div', { className: 'checks-head' },
      element('h4', { id: 'checks-title' }, checks.length === 0 ? 'The checks' : `The checks, in order: ${countsOf(checks)}`),
      checks.some(({ outcome }) => outcome === 'failed') ? element('a', { href: '#failed-check' }, 'Go to the check that failed') : undefined,
      reached.length === 0 ? undefined : valuesChoice()),
    notes.map((note) => element('p', { className: 'note' }, note)),
    reached.length === 0
      ? undefined
      : element('ol', {}, reached.map(checkView), rest.length === 0
        ? undefined
        : element('li', { className: 'not-reached' }, mark('not reached'), element('div', {}, `${rest.length} more, not reached: `, element('code', {}, rest.map(({ name }) => name).join(', '))))))
}

const countsOf = (checks) => Object.keys(MARKS)
  .map((outcome) => [checks.filter((check) => check.outcome === outcome).length, outcome])
  .filter(([count]) => count > 0)
  .map(([count, outcome]) => count === checks.length ? `all ${count} ${outcome}` : `${count} ${outcome}`)
  .join(', ')

function valuesChoice () {
  return element('label', {},
    element('input', { type: 'checkbox', id: 'show-values', checked: showsValues, change: ({ target }) => { showsValues = target.checked; target.closest('.checks').classList.toggle('with-values', showsValues) } }),
    ' Show what each check compared')
}

const mark = (outcome) => element('span', { className: 'mark', 'aria-hidden': 'true' }, MARKS[outcome])

function checkView ({ name, title, outcome, compared, note }) {
  return element('li', { className: outcome.replace(' ', '-'), 'data-check': name, id: outcome === 'failed' ? 'failed-check' : undefined }, mark(outcome),
    element('div', {},
      element('span', { className: 'what' }, title), ' ',
      element('code', {}, name), ' ', element('span', { className: 'outcome' }, outcome),
      element('dl', {}, compared.map(([label, value]) => element('div', {}, element('dt', {}, label), element('dd', {}, element('code', {}, value))))),
      outcome === 'not checked' ? element('p', { className: 'why' }, note) : undefined))
}

function exchangeView (exchange, claims, number, isOpen) {
  const { method, url, status, statusText, sent, received, body } = exchange
  const path = new URL(url).pathname
  const token = tokenOf(sent)
  return element('details', { className: 'exchange', open: isOpen },
    element('summary', {}, element('span', { className: 'number' }, `Request ${number}`), ' ',
      element('code', {}, `${method} ${path}`), ' ', element('span', { className: status < 300 && status > 0 ? 'ok' : 'refused' }, `${status} ${statusText}`)),
    element('h4', {}, 'Sent'),
    headersView(`${method} ${url}`, sent),
    sent['dpop'] === undefined ? undefined : [element('h4', {}, 'Proof'), jwtView(sent['dpop'], claims)],
    token === undefined ? undefined : element('details', { open: claims.includes('cnf') }, element('summary', {}, 'Access token'), jwtView(token, claims)),
    element('h4', {}, 'Answer'),
    headersView(`${status} ${statusText}`, received),
    body === '' ? undefined : element('pre', { tabindex: '0', 'aria-label': 'Body of the answer' }, pretty(body)))
}

const tokenOf = ({ authorization }) => authorization?.split(' ')[1]

function headersView (firstLine, headers) {
  const rows = Object.entries(headers).map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, element('code', {}, shorten(value)))))
  return element('div', { className: 'message' }, element('p', {}, element('code', {}, firstLine)), element('dl', { className: 'members' }, rows))
}

function shorten (text) {
  const [scheme, token] = text.split(' ')
  if (text.startsWith('ey')) return `${text.slice(0, 24)}\u2026 (${text.length} characters)`
  return token?.startsWith('ey') === true ? `${scheme} ${shorten(token)}` : text
}

function pretty (body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}
