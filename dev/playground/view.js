/* global navigator */
import { element, prose } from './dom.js'
import { decodeJwt, describeTime } from './jwt.js'
import { adviceFor, loginAskedFor } from './verdict.js'

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
  return element('div', {}, element('h5', {}, title), element('dl', { className: 'members' }, rows))
}

const row = (label, value, more, className) =>
  element(
    'div',
    { className: className || undefined },
    element('dt', {}, label),
    element('dd', {}, element('code', {}, value), more)
  )

/** The whole story of a call or an attack: verdict, why, and every request that was made. */
export function resultView (
  { title, story, lesson, claims = [] },
  verdict,
  exchanges,
  explanation,
  { isProviderUp, announce, logInAsAsked, wider }
) {
  const final = exchanges.at(-1)
  const asked = loginAskedFor(final)
  const advice = verdict.tone === 'good' || verdict.word === 'Not stopped' ? undefined : adviceFor(explanation)
  return [
    element('h3', {}, title),
    element('p', { className: 'quiet' }, story),
    verdictView(verdict, final, explanation?.reason),
    final.status >= 200 && final.status < 300 && final.body &&
    element('pre', { tabindex: '0', id: 'answer', 'aria-label': 'Body of the answer' }, pretty(final.body)),
    lesson && verdict.tone === 'good' && element('p', { className: 'lesson' }, lesson),
    advice && element('p', { className: 'lesson', id: 'advice' }, element('strong', {}, 'What to do: '), prose(advice)),
    asked &&
    element(
      'p',
      {},
      element('button', {
        type: 'button',
        className: 'small',
        id: 'step-up',
        click: () => logInAsAsked(asked)
      }, 'Log in as the route asks')
    ),
    wider &&
    element(
      'p',
      {},
      element('button', { type: 'button', className: 'small', id: 'widen', click: wider.run }, wider.label)
    ),
    ...final.status === 0 ? [] : checksView(explanation, isProviderUp),
    ...exchanges.map((exchange, index) =>
      exchangeView({ ...exchange, curl: explanation?.curl?.[index] }, claims, index + 1, exchange === final, announce)
    )
  ].filter(Boolean)
}

const MARKS = {
  good: '\u2713',
  bad: '\u2715',
  neutral: '\u25cb',
  passed: '\u2713',
  failed: '\u2715',
  'not checked': '?',
  'not reached': '\u2013'
}

const mark = name => element('span', { className: 'mark', 'aria-hidden': 'true' }, MARKS[name])

export function verdictView ({ tone, word, says }, final, reason) {
  return element(
    'div',
    { className: `verdict ${tone}`, id: 'verdict' },
    element(
      'p',
      {},
      mark(tone),
      ' ',
      element('strong', {}, `${word}.`),
      ' ',
      final && final.status > 0 && element('span', {}, `${final.status} ${final.statusText} `),
      reason && element('code', { id: 'reason' }, reason)
    ),
    says && element('p', { className: 'description' }, prose(says))
  )
}

/** Each check of the service: first the one that failed and those that could not be made, then the others, folded. */
function checksView ({ checks = [], notes = [] } = {}, isProviderUp) {
  if (checks.length + notes.length === 0) return []
  const [failed, unmade, passed, rest] = ['failed', 'not checked', 'passed', 'not reached'].map(wanted =>
    checks.filter(({ outcome }) => outcome === wanted)
  )
  return [
    element(
      'section',
      { className: 'checks', id: 'checks', 'aria-labelledby': 'checks-title' },
      element('h4', { id: 'checks-title' }, failed.length > 0 ? 'The check that failed' : 'The checks'),
      notes.map(note => element('p', { className: 'note' }, note)),
      listOf([...failed, ...unmade]),
      fold(
        passed,
        `${isProviderUp && passed.length === checks.length ? 'All ' : ''}${numberOf(passed)} ` +
          `passed${failed.length > 0 ? ' before it' : ''}${isProviderUp ? '' : ', with keys that were fetched before the provider went down'}`
      ),
      fold(rest, `${numberOf(rest)} ${rest.length === 1 ? 'was' : 'were'} not reached`)
    )
  ]
}

const numberOf = ({ length }) => `${length} ${length === 1 ? 'check' : 'checks'}`

const listOf = checks => checks.length > 0 && element('ol', {}, checks.map(checkView))

const fold = (checks, summary) =>
  checks.length > 0 && element('details', {}, element('summary', {}, summary), listOf(checks))

function checkView ({ name, title, outcome, compared, note }) {
  return element(
    'li',
    { className: outcome.replace(' ', '-'), 'data-check': name },
    mark(outcome),
    element(
      'div',
      {},
      element('span', { className: 'what' }, title),
      ' ',
      element('code', {}, name),
      ' ',
      element('span', { className: 'outcome' }, outcome),
      element('dl', {}, compared.map(([label, value]) => row([label], [value]))),
      outcome === 'not checked' && element('p', { className: 'why' }, note)
    )
  )
}

function exchangeView (exchange, claims, number, isOpen, announce) {
  const { method, url, status, statusText, sent, received, body } = exchange
  const token = sent.authorization?.split(' ')[1]
  return element(
    'details',
    { className: 'exchange', open: isOpen },
    element(
      'summary',
      {},
      element('span', { className: 'number' }, `Request ${number}`),
      ' ',
      element('code', {}, `${method} ${new URL(url).pathname}`),
      ' ',
      element('span', { className: status < 300 && status > 0 ? 'ok' : 'refused' }, `${status || ''} ${statusText}`)
    ),
    element('div', { className: 'part' }, element('h4', {}, 'Sent'), exchange.curl && copyButton(exchange, announce)),
    headersView(`${method} ${url}`, sent),
    sent.dpop && [element('h4', {}, 'Proof'), jwtView(sent.dpop, claims)],
    token &&
      element(
        'details',
        { open: claims.includes('cnf') },
        element('summary', {}, 'Access token'),
        jwtView(token, claims)
      ),
    status > 0 && [element('h4', {}, 'Answer'), headersView(`${status} ${statusText}`, received)],
    body && element('pre', { tabindex: '0', 'aria-label': 'Body of the answer' }, pretty(body))
  )
}

function copyButton (exchange, announce) {
  return element('button', {
    type: 'button',
    className: 'small',
    click: async ({ target }) => {
      const isCopied = await navigator.clipboard.writeText(exchange.curl).then(() => true, () => false)
      target.textContent = isCopied ? 'Copied' : 'The browser did not allow it'
      announce(
        isCopied
          ? 'The request is copied as a curl ' +
            `command.${exchange.sent.dpop ? ' A proof is good for one request, so the API refuses the copy of an accepted request as a replay.' : ''}`
          : 'The browser did not allow the page to copy.'
      )
    }
  }, 'Copy as curl')
}

function headersView (firstLine, headers) {
  const rows = Object.entries(headers).map(([name, value]) => row([name], [shorten(value)]))
  return element(
    'div',
    { className: 'message' },
    element('p', {}, element('code', {}, firstLine)),
    element('dl', { className: 'members' }, rows)
  )
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
