import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FoundRoute } from '../../cli/route-lookup.ts'
import { kRouteGuard, requirementJson, type MayHaveGuard } from '../../lib/guard/requirement/route-guard.ts'

/** With this header, the API of `npm run dev` says what guards the route of a request, and does nothing else for it. */
export const ASK_GUARD: Readonly<Record<string, string>> = { 'x-dev-guard': 'asked' }

/** A function of a route stands in JSON as this word, and what it accepts is not known elsewhere. */
const PREDICATE = '"predicate"'

/**
 * Answers such a request before any guard: 404 if there is no route, or if not all of its guard can be said. Every path
 * of a gate is for its rules.
 */
export async function tellGuard (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
  if (request.headers['x-dev-guard'] === undefined) return undefined
  const { [kRouteGuard]: requirements = [] } = request.routeOptions.config as MayHaveGuard
  const isUnsaid = JSON.stringify(requirements.map(requirementJson)).includes(PREDICATE)
  if (request.is404 || request.server.gate || isUnsaid) return reply.code(404).send()
  return reply.send(
    (requirements.length > 0 ? { kind: 'guarded', requirements } : { kind: 'open' }) satisfies FoundRoute
  )
}
