import { STATUS_CODES } from 'node:http'
import { REFUSALS } from '../refusal.ts'
import type { RefusalReason } from '../refusal.ts'

export type ErrorBodyForm = 'default' | 'detailed'

const DETAILED_MESSAGES: Readonly<Record<number, string>> = {
  401: 'A valid access token is needed.',
  403: 'The access token lacks a permission.'
}

/**
 * The JSON body of an error. `default` is Fastify's own form. `detailed` answers 401 and 403 with `{ error, message, details }` and
 * every other status with `{ detail }`.
 * @param message our own sentence. If there is none, the name of the status is used.
 */
export function errorBody (form: ErrorBodyForm, status: number, message?: string): object {
  const error = STATUS_CODES[status] ?? 'Error'
  if (form === 'default') return { statusCode: status, error, message: message ?? error }
  const general = DETAILED_MESSAGES[status]
  return general ? { error, message: general, details: message ?? error } : { detail: message ?? error }
}

/** The bodies of all refusals, as JSON text. */
export function refusalBodies (form: ErrorBodyForm): Readonly<Record<RefusalReason, string>> {
  const texts = Object.entries(REFUSALS).map(([reason, { status, description }]) => [reason, JSON.stringify(errorBody(form, status, description))])
  return Object.fromEntries(texts)
}
