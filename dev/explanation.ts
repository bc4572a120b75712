import { REFUSALS } from '../lib/refusal.ts'
import { advise } from './advice.ts'

/** What the service that is explained goes by. */
export interface ExplanationSettings {
  issuer: string
  audience: string
}

export interface CheckShown {
  name: string
  outcome: 'passed' | 'failed' | 'skipped'
  values: Array<[label: string, value: string]>
}

/** What the playground shows beside an exchange. */
export interface Explanation {
  reason?: string | undefined
  description?: string | undefined
  advice?: string | undefined
  checks: CheckShown[]
}

interface Captured { status: number, statusText: string, method: string, url: string, sent: Record<string, string>, received: Record<string, string>, body: string }

/** Explains the last exchange of the page. What cannot be read gets an explanation that says nothing. */
export async function explainExchange (input: unknown, _settings: ExplanationSettings): Promise<Explanation> {
  const exchange = readExchange(input)
  if (exchange === undefined) return { checks: [] }
  const { method, url, status, statusText, sent, received, body } = exchange
  const advice = advise({ method, url, status, statusText, requestHeaders: sent, headers: new Headers(received), body })
  const kind = Object.entries(REFUSALS).find(([reason]) => reason === advice?.reason)?.[1]
  return { reason: advice?.reason, description: kind?.description, advice: advice?.text, checks: [] }
}

function readExchange (input: unknown): Captured | undefined {
  const exchange = (input as { exchange?: Captured } | null | undefined)?.exchange
  if (typeof exchange?.status !== 'number' || typeof exchange.url !== 'string' || typeof exchange.body !== 'string') return undefined
  if (typeof exchange.sent !== 'object' || typeof exchange.received !== 'object') return undefined
  return exchange
}
