import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Metric, Registry } from 'prom-client'
import { schemeSent, type AuthScheme } from '../lib/guard/credentials.ts'
import { METRICS, type MetricSources, type MetricSpec } from '../lib/report/metrics/catalog.ts'
import { createRequestTally } from '../lib/report/metrics/tallies.ts'

/**
 * Making the text is expensive, and requests for it are not refused under overload: all of them within this time get
 * the same text.
 */
const TEXT_MAX_AGE_MS = 1000

declare module 'fastify' {
  interface FastifyInstance {
    /** The metrics in the text format of Prometheus, or undefined if `METRICS` is off. */
    metricsText?: () => Promise<{ readonly contentType: string, readonly bytes: Buffer }>
  }
}

/** Counts requests in plain numbers. Labels and text are made only on request. routes/metrics.ts serves them. */
export default fp(async app => {
  const { tally: guard, parts, openAnswers } = app.holdfastGuard
  if (!guard) return

  const requests = createRequestTally()
  const scrape = shareResult(makeText, TEXT_MAX_AGE_MS, () => performance.now())
  let registry: Registry | undefined

  app.onRequestEnd((request, { end, status, ms, route }) => {
    // A client makes up the paths and methods of requests without a route.
    const tally = request.is404 || route === undefined
      ? requests.ofUnknown(request.method)
      : requests.ofRoute(request.method, route)
    tally.ended(end, status, schemeUsed(request, status), ms)
  })

  app.decorate('metricsText', scrape)

  async function makeText () {
    registry ??= await createRegistry(readSources)
    return { contentType: registry.contentType, bytes: Buffer.from(await registry.metrics()) }
  }

  function readSources (): MetricSources {
    const { pressure: { shed }, connections: { open, dropped, unreadable } } = app
    return {
      requests,
      guard: guard!,
      parts,
      audit: app.guardAudit,
      connections: { open: open.size, dropped, unreadable },
      answersEnded: openAnswers.state().ended,
      shed,
      now: Date.now() / 1000
    }
  }
}, {
  name: 'metrics',
  dependencies: ['holdfast-auth', 'holdfast-audit', 'pressure', 'connections', 'request-end']
})

/** The registry is made at the first request for metrics: a service that is never scraped starts without it. */
async function createRegistry (readSources: () => MetricSources): Promise<Registry> {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const registry = new Registry()
  for (const spec of METRICS) registry.registerMetric(toMetric(spec, readSources))
  collectDefaultMetrics({ register: registry })
  return registry
}

/**
 * A metric in the form that the registry asks for values. The registry's own classes store values by labels, which
 * would slow each request.
 */
function toMetric ({ name, type, help, read }: MetricSpec, readSources: () => MetricSources): Metric {
  return { name, get: async () => ({ name, help, type, values: read(readSources(), name) }) } as unknown as Metric
}

/**
 * Shares a result that is expensive to make. All calls while it is made, or within `maxAgeMs` after that, get the same
 * result. So at most one is made at a time. An error goes to the waiting calls, and is not kept.
 * @param nowMs a clock that is never set back
 */
export function shareResult<Result> (
  make: () => Promise<Result>,
  maxAgeMs: number,
  nowMs: () => number
): () => Promise<Result> {
  let shared: Promise<Result> | undefined
  // The age counts from the end: if making takes long, the result is not made again and again.
  let endsMs = Infinity

  return () => {
    if (shared && nowMs() < endsMs) return shared
    endsMs = Infinity
    shared = make()
    shared.then(() => {
      endsMs = nowMs() + maxAgeMs
    }, () => {
      shared = undefined
    })
    return shared
  }
}

function schemeUsed ({ auth, raw }: FastifyRequest, status: number): AuthScheme | undefined {
  return auth?.scheme ?? ([401, 429, 503].includes(status) ? schemeSent(raw) : undefined)
}
