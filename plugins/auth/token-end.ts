import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Decisions } from '../../lib/guard/decisions.ts'
import { createOpenAnswers, type OpenAnswer } from './open-answers.ts'
import { markEnd } from '../../server/request-ends.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import type { SharedGuard } from './augmentation.ts'
import { kReply } from './replies.ts'

const kOpen = Symbol('holdfast.open')

declare module 'fastify' {
  interface FastifyRequest {
    /** @internal */
    [kOpen]: OpenAnswer | null
  }
}

/**
 * Ends answers that still stream, and WebSockets, when the token ends that has opened them. Without revocation nothing
 * ends by itself.
 */
export function endWithTokens (
  app: FastifyInstance,
  decisions: Decisions<FastifyRequest>,
  isRevocable: boolean
): Pick<SharedGuard, 'openAnswers' | 'endWithToken'> {
  const openAnswers = createOpenAnswers(processSurroundings, ({ request, auth: { issuer } }, reason) => {
    markEnd(request, 'token_ended')
    request.log.info({ reason, route: decisions.routeOf(request).route, issuer }, 'open answer ended')
  })
  if (!isRevocable) return { openAnswers, endWithToken: undefined }
  app.addHook('onClose', async () => openAnswers.close())
  app.decorateRequest(kOpen, null)
  app.addHook('onResponse', (request, _reply, done) => {
    if (request[kOpen]) openAnswers.leave(request[kOpen])
    done()
  })
  decisions.listeners.push({
    admitted () {},
    // It is nobody's from now on, and nothing ends it.
    refused (request, { isObserved }) {
      if (isObserved && request[kOpen]) openAnswers.leave(request[kOpen])
    }
  })
  return {
    openAnswers,
    endWithToken (request) {
      const { auth, [kReply]: reply } = request
      if (auth && !request[kOpen]) request[kOpen] = openAnswers.add({ request, response: reply!.raw, auth })
    }
  }
}
