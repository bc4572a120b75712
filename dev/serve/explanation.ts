import { explainRefusal, explainRequest } from '../../explain/explain.ts'
import type { ExplainedStep, ExplainOptions, Explanation as RequestExplanation } from '../../explain/explain.ts'
import { Refusal } from '../../lib/refusal.ts'
import { createMemoryStore } from '../../lib/replay/memory-store.ts'
import type { Revocation } from '../../lib/revocation/cutoffs.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { ProviderKeys } from '../../cli/provider-keys.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { capturedRequest } from '../../cli/exchange.ts'
import { asObject } from '../../cli/input.ts'
import { lookUpRoute } from '../../cli/route-lookup.ts'
import { readChallenge, requirementsIn } from '../../cli/challenge.ts'

/** What the playground shows beside an exchange. */
export interface PageExplanation {
  readonly reason?: string | undefined
  readonly description?: string | undefined
  readonly advice?: string | undefined
  /**
   * The result of each check of the service. Empty for a route without a guard, and if the checks contradict the
   * answer.
   */
  readonly checks: readonly ExplainedStep[]
  /** What could not be read, and why checks are missing. */
  readonly notes: readonly string[]
}

interface CapturedExchange {
  readonly method: string
  readonly url: URL
  /** Undefined if the page does not say. */
  readonly status: number | undefined
  readonly sent: ReadonlyArray<readonly [name: string, value: string]>
  readonly challenge: string
  readonly body: string
}

/** More than a page sends before the request to explain. */
const MAX_EARLIER = 20
/** One key may have a quarter of the replay store, and a page has one key. */
const MAX_RECORDS = (MAX_EARLIER + 1) * 4

/** What has revoked the token of an Authorization line: null for nothing, undefined if that is not known. */
export type AskService = (authorization: string) => Promise<Revocation | null | undefined>

/**
 * Explains the last exchange of the page with the checks and settings of the service. It notes what it cannot read, and
 * goes on.
 */
export async function explainExchange (
  input: unknown,
  settings: Settings,
  keys: ProviderKeys | undefined,
  askService: AskService = async () => undefined
): Promise<PageExplanation> {
  const notes: string[] = []
  const { exchange: last, before } = asObject(input) ?? {}
  const exchange = readExchange(last, 'The request', notes)
  if (exchange === undefined) return { checks: [], notes }
  const earlier = (Array.isArray(before) ? before.slice(-MAX_EARLIER) : []).map((one, index) =>
    readExchange(one, `Request ${index + 1}`, notes)
  )
  const challenge = readChallenge(exchange.challenge, exchange.body)
  const { reason } = challenge
  const route = await lookUpRoute(exchange.method, exchange.url.pathname + exchange.url.search, settings)
  if (route.kind === 'open') notes.push('This endpoint has no guard: nothing is checked.')
  // A route that is not in routes/api is judged by its answer.
  const requirements = route.kind === 'guarded' ? route.requirements : requirementsIn(challenge)
  const explained = route.kind === 'open'
    ? undefined
    : await check(earlier, exchange, {
      settings,
      candidates: keys?.candidates,
      revocations: await revocationsOf(exchange, settings, askService),
      requirements
    })
  // The checks are made again here, at another time and with keys of our own. If they contradict the answer, they would
  // mislead.
  const isTrue = explained === undefined || exchange.status === undefined ||
    (explained.refusal === undefined ? exchange.status < 300 : explained.refusal.reason === reason) ||
    (reason === 'token_revoked' && explained.notChecked.includes('token.revocation'))
  if (!isTrue) notes.push('The checks are not shown: repeated here, they do not explain this response.')
  const checks = isTrue ? explained?.steps ?? [] : []
  if (reason === undefined) return { checks, notes }
  const { description, cure } = explainRefusal({ reason, detail: isTrue ? explained?.refusal?.detail : undefined })
  return { reason, description, advice: cure, checks, notes }
}

/** Only the service knows what has been revoked: its store is its memory. */
async function revocationsOf (
  { sent }: CapturedExchange,
  { revocation }: Settings,
  askService: AskService
): Promise<ExplainOptions['revocations']> {
  const authorization = sent.find(([name]) => name.toLowerCase() === 'authorization')?.[1]
  const revokedBy = revocation && authorization !== undefined ? await askService(authorization) : undefined
  if (revokedBy === undefined) return undefined
  return {
    refusalOf: () => revokedBy === null ? undefined : new Refusal('token_revoked', { detail: { ...revokedBy } })
  }
}

/** The service has seen the earlier requests, so their proofs are spent. */
async function check (
  earlier: ReadonlyArray<CapturedExchange | undefined>,
  exchange: CapturedExchange,
  known: Omit<ExplainOptions, 'now' | 'replay'>
): Promise<RequestExplanation> {
  const replay = createMemoryStore({ max: MAX_RECORDS, ...processSurroundings })
  try {
    const options: ExplainOptions = { ...known, now: processSurroundings.now(), replay }
    for (const one of earlier) {
      if (one !== undefined) await explainRequest(capturedRequest(one.method, one.url, one.sent), options)
    }
    return await explainRequest(capturedRequest(exchange.method, exchange.url, exchange.sent), options)
  } finally {
    await replay.close()
  }
}

function readExchange (value: unknown, name: string, notes: string[]): CapturedExchange | undefined {
  const { method, url, status, sent, received, body } = asObject(value) ?? {}
  if (typeof method !== 'string' || typeof url !== 'string' || !URL.canParse(url)) {
    notes.push(`${name} cannot be read: it has no method or no URL.`)
    return undefined
  }
  return {
    method,
    url: new URL(url),
    status: typeof status === 'number' ? status : undefined,
    sent: readHeaders(sent, `${name}: a header that was sent`, notes),
    challenge:
      readHeaders(received, `${name}: a header of the answer`, notes).find(([header]) =>
        header.toLowerCase() === 'www-authenticate'
      )?.[1] ?? '',
    body: typeof body === 'string' ? body : ''
  }
}

function readHeaders (value: unknown, name: string, notes: string[]): Array<[string, string]> {
  const headers = Object.entries(asObject(value) ?? {})
  const good = headers.filter((header): header is [string, string] => typeof header[1] === 'string')
  if (good.length < headers.length) notes.push(`${name} is not text.`)
  return good
}
