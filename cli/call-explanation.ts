import type { Answer } from './explain/answer.ts'
import type { RefusalReason } from '../lib/refusal.ts'
import type { CallOptions, CallWorld } from './call-options.ts'
import { checkCall, type CallExplanation } from './call-judgement.ts'
import { sayClock } from './compare-clocks.ts'
import type { Exchange } from './exchange.ts'
import { failedSteps, showAdvice, showOthers, showStep } from './explain-report.ts'
import { leftOutLines } from './left-out.ts'
import { indent, title, type Paint } from './show.ts'

/**
 * Why a call was refused and what to do: first the check that failed, then the others. Empty if there is nothing to
 * say.
 */
export async function explainCall (
  exchange: Exchange,
  options: CallOptions,
  world: CallWorld,
  paint: Paint
): Promise<string> {
  const judged = await checkCall(exchange, options, world)
  return showWhy(exchange, judged, options, paint) +
    (judged.explanation === undefined
      ? ''
      : showOthers('The other checks, as seen from here', judged.explanation, options.full, paint))
}

/** Which option of the call has to do with a reason. What the reason means is in cli/explain/advice.ts. */
const OPTIONS: Partial<Record<RefusalReason, string>> = {
  credentials_missing: '--no-token leaves the token out.',
  scheme_not_offered: '--dpop sends a bound token with a proof; without it a Bearer token is sent.',
  token_malformed: '--audience names the API in the token request. Some providers need --param resource=URI instead.',
  token_issuer: '--issuer says which provider to ask for the token.',
  token_audience: '--audience names the API in the token request.',
  token_bound: '--dpop gets a token bound to a fresh key and sends a proof with it.',
  proof_algorithm: '--alg sets the algorithm of the proof.',
  certificate_missing: '--cert and --key show a certificate.',
  certificate_mismatch: '--cert and --key show a certificate, to the provider and to the API.',
  htu_mismatch: '--htu signs the proof for another URL than the one that is called.',
  scope_missing: '--scope asks for permissions.',
  acr_missing: '--user logs a user of the local tenant in; CALL_TOKEN takes a token from any other login.',
  authentication_too_old: '--user logs a user of the local tenant in; CALL_TOKEN takes a token from any other login.'
}

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'The answer names no reason, and no check fails here. The service may have other settings or another clock, ' +
    'or it does not get the header.',
  403: 'The service does not allow this. Unless the answer says why: --scope asks for a permission, and a proxy that ' +
    'asks a gate answers 403 also if no rule is for this path and method.',
  404:
    'There is no such path, or no rule of a gate is for it and this method. Is the prefix of a proxy missing in --url?'
}

function showWhy (
  exchange: Exchange,
  { answer, explanation, refusal, otherMethods, clockAhead }: CallExplanation,
  options: CallOptions,
  paint: Paint
): string {
  const clock = sayClock(clockAhead, 'service').map(sentence => `${sentence} The checks here go by that one.`)
  if (refusal === undefined) {
    const why = otherMethods === undefined
      ? BY_STATUS[exchange.status]
      : `The path is there, but not with this method. It takes ${otherMethods.join(', ')}.`
    return why === undefined ? '' : title(paint, 'Why') + indent([why, ...clock].join('\n')) + '\n'
  }
  const option = OPTIONS[refusal.reason]
  const leftOut = refusal.reason === 'scope_missing' ? leftOutLines(exchange, answer, options, paint) : []
  const lines = [
    ...answer.reason === undefined ? ['The answer names no reason. This is what the checks here say.'] : [],
    ...clock,
    ...loginLines(answer, paint),
    ...leftOut,
    showAdvice(refusal, paint),
    ...option === undefined || leftOut.length > 0 ? [] : [`${paint('cyan', 'Option')}          ${option}`]
  ]
  const failed = explanation === undefined ? [] : failedSteps(explanation)
  return title(paint, `Why: ${refusal.reason}`) + failed.map(step => showStep(step, paint)).join('') +
    indent(lines.join('\n')) + '\n'
}

/** What the challenge asks for (RFC 9470 section 3), and the same as parameters of an authorization request. */
function loginLines ({ error, acrValues, maxAgeSeconds }: Answer, paint: Paint): string[] {
  if (error !== 'insufficient_user_authentication') return []
  const asked = [
    ...acrValues === undefined ? [] : [`acr_values=${acrValues.join(' ')}`],
    ...maxAgeSeconds === undefined ? [] : [`max_age=${maxAgeSeconds}`]
  ]
  const says = [
    ...maxAgeSeconds === undefined ? [] : [`at most ${maxAgeSeconds} seconds old`],
    ...acrValues === undefined ? [] : [`of the kind ${acrValues.join(' or ')}`]
  ]
  return asked.length === 0
    ? []
    : [
      `${paint('cyan', 'Asked for')}       a login ${says.join(', ')}; in the authorization request: ${asked.join('&')}`
      ]
}
