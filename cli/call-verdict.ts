import type { Explanation } from '../explain/explain.ts'
import type { RefusalReason } from '../lib/refusal.ts'
import type { CallExplanation } from './call-explanation.ts'
import { showAdvice, showStep } from './explain-report.ts'
import { indent, title } from './show.ts'
import type { Paint } from './show.ts'

/** Which option of the call has to do with a reason. What the reason means stands in explain/advice.ts. */
const OPTIONS: Partial<Record<RefusalReason, string>> = {
  credentials_missing: '--no-token leaves the token out.',
  scheme_not_offered: '--dpop sends a bound token with a proof; without it a Bearer token is sent.',
  token_malformed: '--audience names the API in the token request. Some providers need --param resource=URI instead.',
  token_issuer: '--issuer says which provider to ask for the token.',
  token_audience: '--audience names the API in the token request.',
  token_bound: '--dpop gets a token bound to a fresh key and sends a proof with it.',
  proof_algorithm: '--alg sets the algorithm of the proof.',
  htu_mismatch: '--htu signs the proof for another URL than the one that is called.',
  scope_missing: '--scope asks for permissions.'
}

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'The answer names no reason, and no check fails here. The service may have other settings or another clock, or it does not get the header.',
  403: 'The service knows the caller and does not allow this. Is a permission missing? --scope asks for it.',
  404: 'There is no such path. Is the prefix of a proxy missing in --url?'
}

/** Why the call was refused and what to do, with the checks that led to it. Empty where there is nothing to say. */
export function showCallVerdict (status: number, { told, explanation, refusal }: CallExplanation, paint: Paint): string {
  const checks = explanation === undefined ? '' : title(paint, 'Checks, as seen from here') + showChecks(explanation, paint)
  if (refusal === undefined) return checks + (BY_STATUS[status] === undefined ? '' : title(paint, 'Why') + indent(BY_STATUS[status]) + '\n')
  const option = OPTIONS[refusal.reason]
  const lines = [
    ...told.reason === undefined ? ['The answer names no reason. This is what the checks here say.'] : [],
    ...told.reason !== undefined && explanation !== undefined && explanation.refusal?.reason !== told.reason ? [disagreement(explanation)] : [],
    showAdvice(refusal, paint),
    ...option === undefined ? [] : [`${paint('cyan', 'Option')}          ${option}`]
  ]
  return checks + title(paint, `Why: ${refusal.reason}`) + indent(lines.join('\n')) + '\n'
}

/** One line for each check that says nothing new, and all that is known of the one that failed. */
function showChecks ({ steps }: Explanation, paint: Paint): string {
  const reached = steps.filter(({ outcome }) => outcome !== 'not reached')
  const rest = steps.length - reached.length
  const lines = reached.map((step) => showStep(step.outcome === 'failed' ? step : { ...step, compared: [] }, paint))
  return lines.join('') + (rest === 0 ? '' : `  ${paint('dim', `\u2013 ${rest} more, not reached`)}\n`)
}

function disagreement ({ refusal }: Explanation): string {
  const reason = refusal?.reason
  return reason === undefined
    ? 'No check fails here. The service may have other settings or another clock, or it gets a different request.'
    : `The checks here say ${reason}. The service may have other settings, or it gets a different request.`
}
