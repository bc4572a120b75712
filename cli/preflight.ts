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
 * Explains a CORS preflight: a browser asks whether a page may send another request, and never sends credentials with
 * it. Any other request keeps its explanation.
 */
export function explainPreflight (
  explanation: ToldExplanation,
  request: CapturedRequest,
  { gate, server: { corsOrigins } }: Pick<Settings, 'gate' | 'server'>
): ToldExplanation {
  const { method, target } = request
  const origin = headerOf(request, 'origin')
  const asked = headerOf(request, 'access-control-request-method')
  if (method !== 'OPTIONS' || origin === undefined || asked === undefined) return explanation
  const isAsked = gate !== undefined && gate.upstream === undefined
  const isAllowed = !isAsked &&
    corsOrigins?.some(allowed => allowed === '*' || allowed.toLowerCase() === origin.toLowerCase())
  if (isAllowed) return { ...unreached(explanation), verdict: 'accepted', refusal: undefined }
  if (!explanation.refusal) return explanation
  return {
    ...explanation,
    refusal: {
      ...explanation.refusal,
      meaning: 'This is a CORS preflight. A browser sends it without credentials before the request of a page.',
      cause: isAsked
        ? 'A proxy asks about it, and CORS_ORIGINS changes nothing there.'
        : corsOrigins
          ? 'CORS_ORIGINS does not name the origin of the page.'
          : 'CORS_ORIGINS is not set, so no preflight is answered.',
      cure: isAsked
        ? `Write a rule: { path: ${target.split('?', 1)[0]}, methods: [OPTIONS], allow: anyone }.`
        : `Add ${origin} to CORS_ORIGINS.`
    }
  }
}
