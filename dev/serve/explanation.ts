import { readAnswer, requirementsIn } from '../../cli/explain/answer.ts'
import { capturedRequest, type CapturedRequest } from '../../cli/explain/captured-request.ts'
import { explainRefusal, explainRequest, type Explanation, type ExplainOptions } from '../../cli/explain/explain.ts'
import { Refusal } from '../../lib/refusal.ts'
import { createMemoryStore } from '../../lib/guard/replay/memory-store.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { ProviderKeys } from '../../cli/provider-keys.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { headerOf } from '../../cli/capture.ts'
import { asObject } from '../../cli/input.ts'
import { lookUpRoute } from '../../cli/route-lookup.ts'
import type { Revocation } from '../../lib/revocation/view.ts'
import { curlLine, headerWords, quote } from './curl-line.ts'

/** More than a page sends before the request to explain. */
const MAX_EARLIER = 20
/** One key may have a quarter of the replay store, and a page has one key. */
const MAX_RECORDS = (MAX_EARLIER + 1) * 4

/** What has revoked the token of an Authorization line: null for nothing, undefined if the service does not say. */
type AskAboutRevocation = (authorization: string) => Promise<Revocation | null | undefined>

/**
 * Explains the last exchange of the page with the checks and settings of the service. It notes what it cannot read, and
 * why checks are missing, and goes on. `checks` is empty for a route without a guard, and if the checks contradict the
 * answer. `curl` is each request for a shell, in the order of the page.
 */
export async function explainExchange (
  input: unknown,
  settings: Settings,
  providers: ProviderKeys,
  ask: AskAboutRevocation = async () => undefined
) {
  const notes: string[] = []
  const { exchange: last, before } = asObject(input) ?? {}
  const exchange = readExchange(last, 'The request', notes)
  if (exchange === undefined) return { checks: [], notes }
  const earlier = (Array.isArray(before) ? before.slice(-MAX_EARLIER) : []).map((one, index) =>
    readExchange(one, `Request ${index + 1}`, notes)
  )
  const { request, answer, status } = exchange
  const { reason } = answer
  const curl = [...earlier, exchange].map(one => one?.curl)
  const { method, target } = request
  const route = await lookUpRoute(method, target, settings)
  if (route.kind === 'open') notes.push('This endpoint has no guard: nothing is checked.')
  // Only the service knows what has been revoked: its store is its memory.
  const { authorization } = exchange
  const revokedBy = settings.revocation && authorization !== undefined ? await ask(authorization) : undefined
  const explained = route.kind === 'open'
    ? undefined
    : await check([...earlier.flatMap(one => one ? [one.request] : []), request], {
      settings,
      keys: providers.keys,
      revocations: revokedBy === undefined ? undefined : revocationsBy(revokedBy),
      // A route of which nothing is known is judged by its answer.
      requirements: route.kind === 'guarded' ? route.requirements : requirementsIn(answer)
    })
  // The checks are made again here, at another time and with keys of our own. If they contradict the answer, they would
  // mislead.
  const isTrue = explained === undefined || status === undefined ||
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

function readExchange (value: unknown, name: string, notes: string[]) {
  const { method, url, status, sent, received, body } = asObject(value) ?? {}
  if (typeof method !== 'string' || typeof url !== 'string' || !URL.canParse(url)) {
    notes.push(`${name} cannot be read: it has no method or no URL.`)
    return undefined
  }
  const headers = readHeaders(sent, `${name}: a header that was sent`, notes)
  const answered = readHeaders(received, `${name}: a header of the answer`, notes)
  return {
    request: capturedRequest(method, new URL(url), headers),
    status: typeof status === 'number' ? status : undefined,
    authorization: headerOf({ headers }, 'authorization'),
    answer: readAnswer({
      challenge: headerOf({ headers: answered }, 'www-authenticate'),
      ...typeof body === 'string' && { body }
    }),
    curl: curlLine(method, quote(url), ...headerWords(headers))
  }
}

type Headers = ReadonlyArray<readonly [name: string, value: string]>

function readHeaders (value: unknown, name: string, notes: string[]): Headers {
  const headers = Object.entries(asObject(value) ?? {})
  const good = headers.filter((header): header is [string, string] => typeof header[1] === 'string')
  if (good.length < headers.length) notes.push(`${name} is not text.`)
  return good
}
