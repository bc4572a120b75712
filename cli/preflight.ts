import { headerOf } from './capture.ts'
import type { CapturedRequest } from './explain/captured-request.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { ToldExplanation } from './gate-judgement.ts'

/** Nothing of the credentials is looked at. */
export function unreached (explanation: ToldExplanation): ToldExplanation {
  const steps = explanation.steps.map(step => ({ ...step, outcome: 'not reached' as const, compared: [] }))
  return { ...explanation, notChecked: [], steps }
}

/**
 * A CORS preflight that is answered before any guard: a browser asks whether a page may send another request, and never
 * sends credentials with it. Any other request keeps its explanation.
 */
export function explainPreflight (
  explanation: ToldExplanation,
  request: CapturedRequest,
  { gate, server: { corsOrigins = [] } }: Pick<Settings, 'gate' | 'server'>
): ToldExplanation {
  const origin = headerOf(request, 'origin')
  const isPreflight = request.method === 'OPTIONS' && origin !== undefined &&
    headerOf(request, 'access-control-request-method') !== undefined
  // A proxy that asks gets the answer of the rules.
  const isAnswered = isPreflight && (!gate || gate.upstream !== undefined) &&
    corsOrigins.some(allowed => allowed === '*' || allowed.toLowerCase() === origin.toLowerCase())
  return isAnswered ? { ...unreached(explanation), verdict: 'accepted', refusal: undefined } : explanation
}
