import { element, prose, smallButton } from './dom.js'
import { row } from './members.js'
import { exchangeView, pretty } from './transcript.js'
import { adviceFor, loginAskedFor } from './verdict.js'

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
  const needsNone = verdict.tone === 'good' || verdict.word === 'Not stopped'
  const advice = needsNone ? undefined : adviceFor(explanation)
  return [
    element('h3', title),
    element('p', { className: 'quiet' }, story),
    verdictView(verdict, final, explanation?.reason),
    final.status >= 200 && final.status < 300 && final.body &&
    element('pre', { tabindex: '0', id: 'answer', 'aria-label': 'Body of the answer' }, pretty(final.body)),
    lesson && verdict.tone === 'good' && element('p', { className: 'lesson' }, lesson),
    advice && element('p', { className: 'lesson', id: 'advice' }, element('strong', 'What to do: '), prose(advice)),
    asked && element('p', smallButton('Log in as the route asks', () => logInAsAsked(asked), { id: 'step-up' })),
    wider && element('p', smallButton(wider.label, wider.run, { id: 'widen' })),
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
      mark(tone),
      ' ',
      element('strong', `${word}.`),
      ' ',
      final && final.status > 0 && element('span', `${final.status} ${final.statusText} `),
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
          `passed${failed.length > 0 ? ' before it' : ''}` +
          (isProviderUp ? '' : ', with keys that were fetched before the provider went down')
      ),
      fold(rest, `${numberOf(rest)} ${rest.length === 1 ? 'was' : 'were'} not reached`)
    )
  ]
}

const numberOf = ({ length }) => `${length} ${length === 1 ? 'check' : 'checks'}`

const listOf = checks => checks.length > 0 && element('ol', checks.map(checkView))

const fold = (checks, summary) =>
  checks.length > 0 && element('details', element('summary', summary), listOf(checks))

function checkView ({ name, title, outcome, compared, note }) {
  return element(
    'li',
    { className: outcome.replace(' ', '-'), 'data-check': name },
    mark(outcome),
    element(
      'div',
      element('span', { className: 'what' }, title),
      ' ',
      element('code', name),
      ' ',
      element('span', { className: 'outcome' }, outcome),
      element('dl', compared.map(([label, value]) => row([label], [value]))),
      outcome === 'not checked' && element('p', { className: 'why' }, note)
    )
  )
}
