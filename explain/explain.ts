import { ADVICE } from './advice.ts'
import type { Advice } from './advice.ts'
import { STEP_TEXTS } from './compared.ts'
import type { Compared } from './compared.ts'
import { createExamination } from './examination.ts'
import type { CapturedRequest, Examination, ExplainOptions } from './examination.ts'
import { NotChecked, STEPS } from './steps.ts'
import { Refusal, REFUSALS } from '../lib/refusal.ts'
import type { RefusalDetail, RefusalKind, RefusalReason } from '../lib/refusal.ts'
import { HTU_ADVICE } from '../lib/url/request-url.ts'
import type { HtuCause } from '../lib/url/request-url.ts'

export type { CapturedRequest, ExplainOptions, GuardSettings } from './examination.ts'

/** One check. `not reached` comes after a failed one; `not checked` is what cannot be told from the request and what is known here. */
export interface ExplainedStep {
  readonly name: string
  readonly title: string
  readonly outcome: 'passed' | 'failed' | 'not reached' | 'not checked'
  readonly compared: Compared
  /** Why it failed or could not be checked, in a sentence. */
  readonly note?: string
}

export interface ExplainedRefusal extends RefusalKind, Advice {
  readonly reason: RefusalReason
  readonly detail: RefusalDetail | undefined
}

export interface Explanation {
  /** `accepted` says that no check failed; `notChecked` names those that it says nothing about. */
  readonly verdict: 'accepted' | 'refused'
  readonly refusal: ExplainedRefusal | undefined
  readonly notChecked: readonly string[]
  readonly steps: readonly ExplainedStep[]
}

/**
 * Tells of a request to a guarded route what each check of the guard says to it, with the values that were compared, and what to do
 * about the one that fails. It runs the guard's own checks in the guard's order, but keeps nothing and asks nobody: keys, time and
 * what was seen before are given. Its report holds what token and proof say, so it is for the eyes of who has them already.
 */
export async function explainRequest (request: CapturedRequest, options: ExplainOptions): Promise<Explanation> {
  const examination = createExamination(request, options)
  const steps: ExplainedStep[] = []
  let refusal: Refusal | undefined
  for (const { name, ofProof, run } of STEPS) {
    if (ofProof && !mayNeedProof(examination)) continue
    const { title, compared } = STEP_TEXTS[name]!
    if (refusal) {
      steps.push({ name, title, outcome: 'not reached', compared: [] })
      continue
    }
    const error = options.unknown?.includes(name) ? new NotChecked('This tool does not know what the service expects.') : await errorOf(() => run(examination))
    if (error instanceof Refusal && REFUSALS[error.reason].status !== 503) refusal = error
    const outcome = refusal ? 'failed' : error ? 'not checked' : 'passed'
    steps.push({ name, title, outcome, compared: compared(examination), ...(error && { note: error.message }) })
  }
  return {
    verdict: refusal ? 'refused' : 'accepted',
    refusal: refusal && explainRefusal(refusal),
    notChecked: steps.filter(({ outcome }) => outcome === 'not checked').map(({ name }) => name),
    steps
  }
}

function mayNeedProof ({ credentials, options }: Examination): boolean {
  return credentials ? credentials.scheme === 'DPoP' : options.settings.dpopMode !== 'DISABLED'
}

/** A store or a provider that cannot be reached from here says nothing about the request. */
async function errorOf (run: () => void | Promise<void>): Promise<Refusal | NotChecked | undefined> {
  try {
    await run()
    return undefined
  } catch (error) {
    if (error instanceof Refusal || error instanceof NotChecked) return error
    throw error
  }
}

/** Everything that is known of a reason; the cure of a wrong `htu` is that of its cause. */
export function explainRefusal ({ reason, detail }: Pick<Refusal, 'reason' | 'detail'>): ExplainedRefusal {
  const htuCure = reason === 'htu_mismatch' ? HTU_ADVICE[detail?.cause as HtuCause] : undefined
  return { reason, detail, ...REFUSALS[reason], ...ADVICE[reason], ...(htuCure && { cure: htuCure }) }
}
