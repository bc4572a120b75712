import { ADVICE, type Advice } from './advice.ts'
import type { CapturedRequest } from './captured-request.ts'
import { createExamination, type ExplainOptions } from './examination.ts'
import { HTU_ADVICE } from './htu-advice.ts'
import { REFUSED_BY } from './refused-by.ts'
import { NotChecked, type Compared, type Step } from './step.ts'
import { STEPS, type StepName } from './steps.ts'
import { Refusal, REFUSALS, type RefusalDetail, type RefusalKind, type RefusalReason } from '../../lib/refusal.ts'
import type { HtuCause } from '../../lib/guard/url/request-url.ts'

export type { ExplainOptions } from './examination.ts'

/**
 * One check. `not reached` follows a failed check. `not checked` means that the request and the known facts are not
 * enough to decide.
 */
export interface ExplainedStep {
  readonly name: StepName
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
  /**
   * The reason to which the checks here come. It differs from that of `refusal` if the service answered with another
   * one.
   */
  readonly foundHere: RefusalReason | undefined
  /** Whether the checks here come to another result than the service. False for what only the service can know. */
  readonly isContradicted: boolean
}

/**
 * Explains a request to a guarded route: the result of each check of the guard, the values that were compared, and the
 * advice for the check that fails. It runs the guard's own checks in the guard's order. It keeps nothing and makes no
 * calls: keys, time and earlier proofs are passed in. Its report holds the content of token and proof, so only people
 * who have these already may read it.
 */
export async function explainRequest (request: CapturedRequest, options: ExplainOptions): Promise<Explanation> {
  const examination = createExamination(request, options)
  const { answer, unknown = [], assumed = [] } = options
  const steps: ExplainedStep[] = []
  let refusal: Refusal | undefined
  for (const step of STEPS) {
    const { name, applies, run } = step
    if (applies && !applies(examination)) continue
    if (refusal) {
      steps.push(notReached(step))
      continue
    }
    const error = unknown.includes(name)
      ? new NotChecked('This tool does not know what the service expects.')
      : await errorOf(() => run(examination))
    if (error instanceof Refusal && REFUSALS[error.reason].status !== 503) refusal = error
    const outcome = refusal ? 'failed' : error ? 'not checked' : 'passed'
    steps.push({
      name,
      title: refusal ? step.failed : step.title,
      outcome,
      compared: comparedClaim(step.compared(examination), error).map(([label, value]) => [
        assumed.includes(name) && label.startsWith('configured') ? 'asked for' : label,
        value
      ]),
      ...(error && { note: error.message })
    })
    if (examination.isGuest) break
  }
  options.onClaims?.(examination.token?.claims)
  const foundHere = refusal?.reason
  const isOther = answer?.reason !== undefined && answer.reason !== foundHere
  const refuser = isOther ? REFUSED_BY[answer.reason!] : undefined
  const isUnknown = steps.some(({ name, outcome }) => name === refuser && outcome === 'not checked')
  const shown = (refuser ? overrule(steps, refuser) : steps).map(step =>
    step.outcome === 'passed' && assumed.includes(step.name)
      ? { ...step, outcome: 'not checked' as const, note: ASSUMED }
      : step
  )
  const final = refuser ? { reason: answer!.reason!, detail: undefined } : refusal
  return {
    verdict: final ? 'refused' : 'accepted',
    refusal: final && explainRefusal(final),
    notChecked: shown.filter(({ outcome }) => outcome === 'not checked').map(({ name }) => name),
    steps: shown,
    foundHere,
    isContradicted: isOther && (foundHere !== undefined || (refuser !== undefined && !isUnknown))
  }
}

/** Where a claim is missing or misshapen, that one alone, and what it must be. */
function comparedClaim (compared: Compared, error: Refusal | NotChecked | undefined): Compared {
  if (!(error instanceof Refusal) || error.reason !== 'token_claim_invalid') return compared
  const { claim, expected, found } = error.detail!
  const [value = [String(claim), String(found)]] = compared.filter(([label]) => label === claim)
  return [value, ['expected', String(expected)]]
}

const ASSUMED =
  'It is what the call asked for. Whether the service expects that, only its settings say (IDP_DOMAIN, IDP_AUDIENCE).'

const NOT_HERE =
  'The service refused it here, and seen from here it passes. The service has other settings or another clock, ' +
  'or it got a different request.'

const OTHER_URL = 'The service saw another URL, which its log line holds; seen from here it is that of the proof. ' +
  'Often a proxy changes it, and the service is not configured for that.'

/** Of a check that passes here: what the service compared is not known, so it is not shown as if it were equal. */
function seenFromHere ({ name, outcome, compared, note }: ExplainedStep): Pick<ExplainedStep, 'compared' | 'note'> {
  return name === 'proof.htu' && outcome === 'passed'
    ? { compared: compared.slice(0, 1), note: OTHER_URL }
    : { compared, note: note ?? NOT_HERE }
}

const notReached = ({ name, title }: Pick<Step, 'title'> & { readonly name: StepName }): ExplainedStep => ({
  name,
  title,
  outcome: 'not reached',
  compared: []
})

/**
 * The steps with that of the service's refusal as failed, and what follows it as not reached. An earlier one that fails
 * here stays failed.
 */
function overrule (steps: readonly ExplainedStep[], refuser: StepName): ExplainedStep[] {
  const at = STEPS.findIndex(({ name }) => name === refuser)
  return STEPS.flatMap((step, position): readonly ExplainedStep[] => {
    const found = steps.find(({ name }) => name === step.name)
    if (position !== at) return found ? [position < at ? found : notReached(step)] : []
    const shown = found ? seenFromHere(found) : { compared: [], note: NOT_HERE }
    return [{ name: refuser, title: step.failed, outcome: 'failed', ...shown }]
  })
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
  return { reason, detail, ...REFUSALS[reason], ...ADVICE[reason], meaning, ...(htuCure && { cure: htuCure }) }
}
