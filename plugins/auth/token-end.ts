import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Decisions } from '../../lib/guard/decisions.ts'
import type { RequestAuth } from '../../lib/guard/request-auth.ts'
import { createOpenAnswers, type OpenAnswer, type Link } from './open-answers.ts'
import { markEnd } from '../../server/request-ends.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import type { SharedGuard } from './augmentation.ts'
import { kReply } from './replies.ts'

const kLink = Symbol('holdfast.link')
const kAdmitted = Symbol('holdfast.admitted')

declare module 'fastify' {
  interface FastifyRequest {
    /** @internal */
    [kLink]: Link<FastifyRequest> | null
    /** The `auth` of its admission. An app may change `request.auth`. @internal */
    [kAdmitted]: RequestAuth | null
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
  const openAnswers = createOpenAnswers<FastifyRequest>(
    processSurroundings,
    request => openAnswerOf(request, decisions)
  )
  if (!isRevocable) return { openAnswers, endWithToken: undefined }
  app.addHook('onClose', async () => openAnswers.close())
  app.decorateRequest(kLink, null)
  app.decorateRequest(kAdmitted, null)
  app.addHook('onResponse', (request, _reply, done) => {
    if (request[kLink]) openAnswers.leave(request[kLink])
    done()
  })
  decisions.listeners.push({
    admitted () {},
    // It is anonymous from now on, and nothing ends it.
    refused (request, { isObserved }) {
      if (isObserved && request[kLink]) openAnswers.leave(request[kLink])
    }
  })
  return {
    openAnswers,
    endWithToken (request) {
      if (!request.auth || request[kLink]) return
      request[kAdmitted] = request.auth
      request[kLink] = openAnswers.add(request)
    }
  }
}

function openAnswerOf (request: FastifyRequest, { routeOf }: Decisions<FastifyRequest>): OpenAnswer {
  const { [kAdmitted]: admitted, log } = request
  const auth = admitted!
  return {
    response: request[kReply]!.raw,
    auth,
    isWebSocket: () => 'ws' in request && request.ws === true,
    onEnd ({ code }) {
      markEnd(request, 'token_ended')
      const { route } = routeOf(request)
      log.info({ reason: code, route, issuer: auth.issuer }, 'open answer ended')
    }
  }
}
