import type { Advice } from './explain/advice.ts'
import type { CapturedRequest } from './explain/captured-request.ts'
import type { ExplainedStep, Explanation } from './explain/explain.ts'
import type { ToldExplanation } from './gate-judgement.ts'
import { hostOf } from './capture.ts'
import { indent, terminalLine, title, type Paint } from './show.ts'

/** The report about one request. */
export interface Report {
  readonly request: CapturedRequest
  /** The only part of the request that was given. */
  readonly only?: 'token' | 'proof' | undefined
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
export function showReport (
  { request, only, judgedAt, notes, explanation }: Report,
  full: boolean,
  paint: Paint
): string {
  const { method, target, encrypted } = request
  const whole = [
    paint('bold', terminalLine(`${method} ${target}`)),
    `${encrypted ? 'https' : 'http'}, Host ${terminalLine(hostOf(request) ?? '(none)')}`
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
    title(paint, 'Verdict') + indent(showVerdict(explanation, paint)) + '\n',
    ...full
      ? [title(paint, 'Checks, in the order of the service'), ...explanation.steps.map(step => showStep(step, paint))]
      : [showFailed(explanation, paint), showOthers('The other checks', explanation, false, paint), hint(paint)]
  ].join('')
}

const hint = (paint: Paint): string => `\n${paint('dim', '--full shows each check, with the values compared.')}\n`

const hasFailed = ({ outcome }: ExplainedStep): boolean => outcome === 'failed'

/** The last one is that of the answer. One that fails before it fails only here. */
export const failedSteps = ({ steps }: Pick<Explanation, 'steps'>): ExplainedStep[] => steps.filter(hasFailed).reverse()

function showFailed (explanation: ToldExplanation, paint: Paint): string {
  const failed = failedSteps(explanation)
  return failed.length === 0
    ? ''
    : title(paint, 'The check that failed') + failed.map(step => showStep(step, paint)).join('')
}

/**
 * The checks that have not failed: those that could not be made. What passed is counted, or with `full` has a line
 * each, and what was not reached is counted.
 */
export function showOthers (
  heading: string,
  { steps }: Pick<Explanation, 'steps'>,
  full: boolean,
  paint: Paint
): string {
  const count = (wanted: string): number => steps.filter(({ outcome }) => outcome === wanted).length
  const shown = steps.filter(({ outcome }) => outcome === 'not checked' || (full && outcome === 'passed'))
  const counted = [
    ...full || count('passed') === 0 ? [] : [`${paint('green', '\u2713')} ${count('passed')} passed`],
    ...count('not reached') === 0 ? [] : [paint('dim', `\u2013 ${count('not reached')} not reached`)]
  ]
  return title(paint, heading) +
    shown.map(step => showStep({ ...step, compared: [] }, paint)).join('') + indent(counted.join('\n')) + '\n'
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

export function showAdvice ({ meaning, cause, cure }: Advice, paint: Paint): string {
  return [
    `${paint('cyan', 'What it means')}   ${meaning}`,
    `${paint('cyan', 'Usual cause')}     ${cause}`,
    `${paint('cyan', 'What to do')}      ${cure}`
  ].join('\n')
}
