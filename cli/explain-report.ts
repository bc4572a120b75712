import type { Advice } from '../explain/advice.ts'
import type { CapturedRequest } from '../explain/captured-request.ts'
import type { ExplainedStep, Explanation } from '../explain/explain.ts'
import { indent, terminalLine, title } from './show.ts'
import type { Paint } from './show.ts'

/** The report about one request. */
export interface Report {
  readonly request: CapturedRequest
  /** The only part of the request that was given. */
  readonly only?: 'token' | 'proof' | undefined
  /** Unix seconds. */
  readonly judgedAt: number
  /** What could not be read, and what was assumed. */
  readonly notes: readonly string[]
  readonly explanation: Explanation
}

const MARKS = {
  passed: ['green', '\u2713'],
  failed: ['red', '\u2717'],
  'not reached': ['dim', '\u2013'],
  'not checked': ['yellow', '?']
} as const

export function showReport ({ request, only, judgedAt, notes, explanation }: Report, paint: Paint): string {
  const { method, target, headers, encrypted } = request
  const host = headers.find(([name]) => name.toLowerCase() === 'host')?.[1]
  const whole = [
    paint('bold', terminalLine(`${method} ${target}`)),
    `${encrypted ? 'https' : 'http'}, Host ${terminalLine(host ?? '(none)')}`
  ]
  const lines = [
    ...only === undefined ? whole : [paint('bold', `only a ${only}`)],
    `checked as of ${new Date(judgedAt * 1000).toISOString()}`
  ]
  return [
    title(paint, 'Request') + indent(lines.join('\n')) + '\n',
    notes.length === 0
      ? ''
      : title(paint, 'Notes') + indent(notes.map(note => `- ${terminalLine(note)}`).join('\n')) + '\n',
    title(paint, 'Checks, in the order of the service') + explanation.steps.map(step => showStep(step, paint)).join(''),
    title(paint, 'Verdict') + indent(showVerdict(explanation, paint)) + '\n'
  ].join('')
}

export function showStep ({ name, title, outcome, compared, note }: ExplainedStep, paint: Paint): string {
  const [style, mark] = MARKS[outcome]
  const head = `  ${paint(style, mark)} ${outcome === 'not reached' ? paint('dim', title) : title} ${
    paint('dim', `[${name}] ${outcome}`)
  }\n`
  if (outcome === 'not reached') return head
  const width = Math.max(0, ...compared.map(([label]) => label.length))
  const values = compared.map(([label, value]) =>
    `      ${paint('cyan', label.padEnd(width))}  ${terminalLine(value)}\n`
  ).join('')
  return head + values + (note === undefined ? '' : `      ${paint(style, note)}\n`)
}

function showVerdict ({ refusal, notChecked }: Explanation, paint: Paint): string {
  const unchecked = notChecked.length === 0 ? [] : [`Not checked: ${notChecked.join(', ')}.`]
  if (refusal === undefined) {
    return [paint('green', notChecked.length === 0 ? 'Accepted.' : 'No check failed.'), ...unchecked].join('\n')
  }
  const { reason, status, error, description, meaning, cause, cure } = refusal
  return [
    `${paint('red', 'Refused:')} ${paint('bold', reason)}, answered ${status}${
      error === null ? '' : ` ${error}`
    }: "${description}"`,
    '',
    showAdvice({ meaning, cause, cure }, paint),
    ...unchecked
  ].join('\n')
}

export function showAdvice ({ meaning, cause, cure }: Advice, paint: Paint): string {
  return [
    `${paint('cyan', 'What it means')}   ${meaning}`,
    `${paint('cyan', 'Usual cause')}     ${cause}`,
    `${paint('cyan', 'What to do')}      ${cure}`
  ].join('\n')
}
