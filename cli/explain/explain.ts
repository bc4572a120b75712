import { ADVICE, type Advice } from './advice.ts'
import type { CapturedRequest } from './captured-request.ts'
import { createExamination, type ExplainOptions } from './examination.ts'
import { HTU_ADVICE } from './htu-advice.ts'
import { NotChecked, type Compared } from './step.ts'
import { STEPS } from './steps.ts'
import { Refusal, REFUSALS, type RefusalDetail, type RefusalKind, type RefusalReason } from '../../lib/refusal.ts'
import type { HtuCause } from '../../lib/guard/url/request-url.ts'

export type { ExplainOptions } from './examination.ts'

/**
 * One check. `not reached` follows a failed check. `not checked` means that the request and the known facts are not
 * enough to decide.
 */
export interface ExplainedStep {
  readonly name: string
  /** What holds by the outcome: a failed check has a sentence of its own. */
  readonly title: string
  readonly outcome: 'passed' | 'failed' | 'not reached' | 'not checked'
  readonly compared: Compared
  /** Why the check failed or could not be made, in a sentence. */
  readonly note?: string
}

export interface ExplainedRefusal extends RefusalKind, Advice {
  readonly reason: RefusalReason
  readonly detail: RefusalDetail | undefined
}

export interface Explanation {
  /** `accepted` means that no check failed. `notChecked` names the checks that were not made. */
  readonly verdict: 'accepted' | 'refused'
  readonly refusal: ExplainedRefusal | undefined
  readonly notChecked: readonly string[]
  readonly steps: readonly ExplainedStep[]
}

/**
 * Explains a request to a guarded route: the result of each check of the guard, the values that were compared, and the
 * advice for the check that fails. It runs the guard's own checks in the guard's order. It keeps nothing and makes no
 * calls: keys, time and earlier proofs are passed in. Its report holds the content of token and proof, so only people
 * who have these already may read it.
 */
export async function explainRequest (request: CapturedRequest, options: ExplainOptions): Promise<Explanation> {
  const examination = createExamination(request, options)
  const { unknown = [] } = options
  const steps: ExplainedStep[] = []
  let refusal: Refusal | undefined
  for (const step of STEPS) {
    const { name, title, applies, run } = step
    if (applies && !applies(examination)) continue
    if (refusal) {
      steps.push({ name, title, outcome: 'not reached', compared: [] })
      continue
    }
    const error = unknown.includes(name)
      ? new NotChecked('This tool does not know what the service expects.')
      : await errorOf(() => run(examination))
    if (error instanceof Refusal && REFUSALS[error.reason].status !== 503) refusal = error
    steps.push({
      name,
      title: refusal ? step.failed : title,
      outcome: refusal ? 'failed' : error ? 'not checked' : 'passed',
      compared: comparedClaim(step.compared(examination), error),
      ...error && { note: error.message }
    })
    if (examination.isGuest) break
  }
  options.onClaims?.(examination.token?.claims)
  return {
    verdict: refusal ? 'refused' : 'accepted',
    refusal: refusal && explainRefusal(refusal),
    notChecked: steps.filter(({ outcome }) => outcome === 'not checked').map(({ name }) => name),
    steps
  }
}

/** Where a claim is missing or misshapen, that one alone, and what it must be. */
function comparedClaim (compared: Compared, error: Refusal | NotChecked | undefined): Compared {
  if (!(error instanceof Refusal) || error.reason !== 'token_claim_invalid') return compared
  const { claim, expected, found } = error.detail!
  const [value = [String(claim), String(found)]] = compared.filter(([label]) => label === claim)
  return [value, ['expected', String(expected)]]
}

/** If a store or a provider cannot be reached from here, this says nothing about the request. */
async function errorOf (run: () => void | Promise<void>): Promise<Refusal | NotChecked | undefined> {
  try {
    await run()
    return undefined
  } catch (error) {
    if (error instanceof Refusal || error instanceof NotChecked) return error
    throw error
  }
}

/** All advice for a reason. For a wrong `htu`, the cure depends on the cause. */
export function explainRefusal ({ reason, detail }: Pick<Refusal, 'reason' | 'detail'>): ExplainedRefusal {
  const htuCure = reason === 'htu_mismatch' ? HTU_ADVICE[detail?.cause as HtuCause] : undefined
  const meaning = reason === 'token_claim_invalid' && detail
    ? `The claim \`${detail['claim']}\` is not as expected: ${detail['expected']}. Found: ${detail['found']}.`
    : ADVICE[reason].meaning
  return { reason, detail, ...REFUSALS[reason], ...ADVICE[reason], meaning, ...htuCure && { cure: htuCure } }
}
