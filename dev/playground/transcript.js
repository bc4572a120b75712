/* global navigator */
import { element, smallButton } from './dom.js'
import { jwtView, row } from './members.js'

const ONCE = ' A proof is good for one request, so the API refuses the copy of an accepted request as a replay.'

/** A request as it was sent, with its answer. */
export function exchangeView (exchange, claims, number, isOpen, announce) {
  const { method, url, status, statusText, sent, received, body } = exchange
  const token = sent.authorization?.split(' ')[1]
  return element(
    'details',
    { className: 'exchange', open: isOpen },
    element(
      'summary',
      element('span', { className: 'number' }, `Request ${number}`),
      ' ',
      element('code', `${method} ${new URL(url).pathname}`),
      ' ',
      element('span', { className: status < 300 && status > 0 ? 'ok' : 'refused' }, `${status || ''} ${statusText}`)
    ),
    element('div', { className: 'part' }, element('h4', 'Sent'), exchange.curl && copyButton(exchange, announce)),
    headersView(`${method} ${url}`, sent),
    sent.dpop && [element('h4', 'Proof'), jwtView(sent.dpop, claims)],
    token &&
      element(
        'details',
        { open: claims.includes('cnf') },
        element('summary', 'Access token'),
        jwtView(token, claims)
      ),
    status > 0 && [element('h4', 'Answer'), headersView(`${status} ${statusText}`, received)],
    body && element('pre', { tabindex: '0', 'aria-label': 'Body of the answer' }, pretty(body))
  )
}

function copyButton (exchange, announce) {
  return smallButton('Copy as curl', async ({ target }) => {
    const isCopied = await navigator.clipboard.writeText(exchange.curl).then(() => true, () => false)
    target.textContent = isCopied ? 'Copied' : 'The browser did not allow it'
    announce(
      isCopied
        ? `The request is copied as a curl command.${exchange.sent.dpop ? ONCE : ''}`
        : 'The browser did not allow the page to copy.'
    )
  })
}

function headersView (firstLine, headers) {
  const rows = Object.entries(headers).map(([name, value]) => row([name], [shorten(value)]))
  return element(
    'div',
    { className: 'message' },
    element('p', element('code', firstLine)),
    element('dl', { className: 'members' }, rows)
  )
}

function shorten (text) {
  const [scheme, token] = text.split(' ')
  if (text.startsWith('ey')) return `${text.slice(0, 24)}\u2026 (${text.length} characters)`
  return token?.startsWith('ey') === true ? `${scheme} ${shorten(token)}` : text
}

/** JSON with line breaks; any other text as it is. */
export function pretty (body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}
