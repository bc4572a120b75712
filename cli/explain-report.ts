import type { Advice } from './explain/advice.ts'
import type { CapturedRequest } from './explain/captured-request.ts'
import type { ExplainedStep } from './explain/explain.ts'
import type { ToldExplanation } from './gate-judgement.ts'
import { headerOf } from './capture.ts'
import { indent, terminalLine, title, type Paint } from './show.ts'

/** The report about one request. */
export interface Report {
  readonly request: CapturedRequest
  /** Unix seconds. */
  readonly judgedAt: number
  /** What could not be read, and what was assumed. */
  readonly notes: readonly string[]
  readonly explanation: ToldExplanation
}

const MARKS = {
  passed: ['green', '\u2713'],
  failed: ['red', '\u2717'],
  'not reached': ['dim', '\u2013'],
  'not checked': ['yellow', '?']
} as const

/** @param full whether each check is shown with its values, in the order of the service */
export function showReport (report: Report, full: boolean, paint: Paint): string {
  const { request: { method, target, encrypted, headers }, judgedAt } = report
  const lines = [
    paint('bold', terminalLine(`${method} ${target}`)),
    `${encrypted ? 'https' : 'http'}, Host ${terminalLine(headerOf({ headers }, 'host') ?? '(none)')}`,
    `checked as of ${new Date(judgedAt * 1000).toISOString()}`
  ]
  return title(paint, 'Request') + indent(lines.join('\n')) + '\n' + showFindings(report, full, paint)
}

/** The same without the request. */
export function showFindings (
  { notes, explanation }: Pick<Report, 'notes' | 'explanation'>,
  full: boolean,
  paint: Paint
): string {
  const { steps } = explanation
  const shown = full ? steps : steps.filter(({ outcome }) => outcome === 'failed' || outcome === 'not checked')
  const passed = steps.filter(({ outcome }) => outcome === 'passed').length
  return [
    notes.length === 0
      ? ''
      : title(paint, 'Notes') + indent(notes.map(note => `- ${terminalLine(note)}`).join('\n')) + '\n',
    title(paint, 'Verdict') + indent(showVerdict(explanation, paint)) + '\n',
    title(paint, 'Checks'),
    ...shown.map(step => showStep(step, paint)),
    full ? '' : `  ${passed} of ${steps.length} passed. ${paint('dim', '--full shows each, with the values compared.')}\n`
  ].join('')
}

function showStep ({ name, title, outcome, compared, note }: ExplainedStep, paint: Paint): string {
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

function showVerdict ({ refusal, notChecked }: ToldExplanation, paint: Paint): string {
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

function showAdvice ({ meaning, cause, cure }: Advice, paint: Paint): string {
  return [
    `${paint('cyan', 'What it means')}   ${terminalLine(meaning)}`,
    `${paint('cyan', 'Usual cause')}     ${cause}`,
    `${paint('cyan', 'What to do')}      ${terminalLine(cure)}`
  ].join('\n')
}
