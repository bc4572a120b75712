// The part of the page that shows a result, and what is said to a screen reader.
import { byId, element } from './dom.js'
import { TERMINAL } from './verdict.js'
import { verdictView } from './view.js'

/** What the page says before there is a result. */
const BEFORE_ANY = [...byId('result-body').children]

/** Takes the result away. */
export function clearResult () {
  byId('result').classList.add('empty')
  byId('result-body').replaceChildren(...BEFORE_ANY)
}

/** On a narrow screen the result covers what is below it. The next one opens it again. */
export function closeResult () {
  byId('result').classList.add('closed')
  document.querySelector('button[data-shown]')?.focus()
}

/** What becomes of the stream stands above each result while it is open, and above the one in which it ends. */
export function tellStream (text, isOpen) {
  const line = byId('stream-line')
  line.hidden = text === ''
  line.textContent = text
  line.classList.toggle('open', isOpen)
}

/** Drops the line of a stream that is over. */
export function dropStreamLine () {
  if (!byId('stream-line').classList.contains('open')) tellStream('', false)
}

export function display (nodes) {
  byId('result').classList.remove('empty', 'closed')
  byId('result-body').replaceChildren(...nodes)
  byId('result').scrollTop = 0
  // On a narrow screen the result has grown, and must not cover the button.
  document.activeElement.scrollIntoView({ block: 'nearest' })
}

export function showMessage ({ title, ...verdict }) {
  display([title && element('h3', title), verdictView(verdict)].filter(Boolean))
  announce(`${title ? `${title}: ` : ''}${verdict.word}. ${verdict.says}`)
}

export const fail = (word, error) =>
  showMessage({ tone: 'bad', word, says: `${error.message ?? error}. ${TERMINAL}` })

export function announce (text) {
  byId('announcer').textContent = text
}
