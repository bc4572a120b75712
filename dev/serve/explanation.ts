import { readAnswer, requirementsIn } from '../../cli/explain/answer.ts'
import { capturedRequest, type CapturedRequest } from '../../cli/explain/captured-request.ts'
import { explainRefusal, explainRequest, type Explanation, type ExplainOptions } from '../../cli/explain/explain.ts'
import { Refusal } from '../../lib/refusal.ts'
import { createMemoryStore } from '../../lib/guard/replay/memory-store.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { ProviderKeys } from '../../cli/provider-keys.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { lookUpRoute } from '../../cli/route-lookup.ts'
import type { Revocation } from '../../lib/revocation/view.ts'
import { curlLine, quote } from './curl-line.ts'

/** One key may have a quarter of the replay store. A page has one key, and one attempt does not take 20 requests. */
const MAX_RECORDS = 80

/** What has revoked the token of an Authorization line: null for nothing, undefined if the service does not say. */
type AskAboutRevocation = (authorization: string) => Promise<Revocation | null | undefined>

/** A request with its answer, as the page notes them. */
interface Exchange {
  readonly method: string
  readonly url: string
  readonly status: number
  readonly sent: Readonly<Record<string, string>>
  readonly received: Readonly<Record<string, string>>
  readonly body: string
}

export interface Exchanges {
  readonly exchange: Exchange
  readonly before: readonly Exchange[]
}

/**
 * Explains the last exchange of the page with the checks and settings of the service. It notes why checks are missing.
 * `checks` is empty for a route without a guard, and if the checks contradict the answer. `curl` is each request for a
 * shell, in the order of the page.
 */
export async function explainExchange (
  { exchange, before }: Exchanges,
  settings: Settings,
  providers: ProviderKeys,
  ask: AskAboutRevocation
) {
  const notes: string[] = []
  const all = [...before, exchange]
  const curl = all.map(({ method, url, sent }) => curlLine(method, quote(url), sent))
  const { method, status, sent: { authorization }, received: { 'www-authenticate': challenge }, body } = exchange
  const answer = readAnswer({ challenge, body })
  const { reason } = answer
  const requests = all.map(one => capturedRequest(one.method, new URL(one.url), Object.entries(one.sent)))
  const { target } = requests.at(-1)!
  const route = await lookUpRoute(method, target, settings)
  if (route.kind === 'open') notes.push('This endpoint has no guard: nothing is checked.')
  // Only the service knows what has been revoked: its store is its memory.
  const revokedBy = settings.revocation && authorization !== undefined ? await ask(authorization) : undefined
  const explained = route.kind === 'open'
    ? undefined
    : await check(requests, {
      settings,
      keys: providers.keys,
      revocations: revokedBy === undefined ? undefined : revocationsBy(revokedBy),
      // A route of which nothing is known is judged by its answer.
      requirements: route.kind === 'guarded' ? route.requirements : requirementsIn(answer)
    })
  // The checks are made again here, at another time and with keys of our own. If they contradict the answer, they would
  // mislead.
  const isTrue = explained === undefined ||
    (explained.refusal === undefined ? status < 300 : explained.refusal.reason === reason) ||
    (reason === 'token_revoked' && explained.notChecked.includes('token.revocation'))
  if (!isTrue) notes.push('The checks are not shown: repeated here, they do not explain this response.')
  const checks = isTrue ? explained?.steps ?? [] : []
  if (reason === undefined) return { checks, notes, curl }
  const { description, cure } = explainRefusal({ reason, detail: isTrue ? explained?.refusal?.detail : undefined })
  return { reason, description, advice: cure, checks, notes, curl }
}

function revocationsBy (revokedBy: Revocation | null): ExplainOptions['revocations'] {
  return {
    refusalOf: () => revokedBy === null ? undefined : new Refusal('token_revoked', { detail: { ...revokedBy } })
  }
}

/** Explains the last request. The service has seen the earlier ones, so their proofs are spent. */
async function check (
  requests: readonly CapturedRequest[],
  known: Omit<ExplainOptions, 'now' | 'replay'>
): Promise<Explanation | undefined> {
  const replay = createMemoryStore({ max: MAX_RECORDS, ...processSurroundings })
  try {
    const options = { ...known, now: processSurroundings.now(), replay }
    let last: Explanation | undefined
    for (const request of requests) last = await explainRequest(request, options)
    return last
  } finally {
    await replay.close()
  }
}
