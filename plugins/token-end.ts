import type { ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { RequestAuth } from '../lib/guard/request-auth.ts'
import { createOpenAnswers } from '../server/open-answers.ts'
import type { OpenAnswer, OpenAnswers, Link } from '../server/open-answers.ts'
import { markEnd } from '../server/request-ends.ts'
import { processSurroundings } from '../server/surroundings.ts'

const kResponse = Symbol('holdfast.response')
const kLink = Symbol('holdfast.link')
const kAdmitted = Symbol('holdfast.admitted')

declare module 'fastify' {
  interface FastifyInstance {
    /** Ends what an admitted request has opened when its token ends. Undefined without revocation. @internal */
    endWithToken: ((request: FastifyRequest) => void) | undefined
    /** What is open and ends with its token: nothing without revocation. @internal */
    openAnswers: OpenAnswers<FastifyRequest>
  }
  interface FastifyRequest {
    /** @internal */
    [kResponse]: ServerResponse | null
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
export default fp(async (app: FastifyInstance) => {
  const openAnswers = createOpenAnswers(processSurroundings, openAnswerOf)
  app.decorate('openAnswers', openAnswers)
  app.addHook('onClose', async () => openAnswers.close())

  if (!app.guardRevocation) {
    app.decorate('endWithToken', undefined)
    return
  }
  // A guard in a handler has no reply at hand.
  app.decorateRequest(kResponse, null)
  app.decorateRequest(kLink, null)
  app.decorateRequest(kAdmitted, null)
  app.addHook('onRequest', (request, reply, done) => {
    request[kResponse] = reply.raw
    done()
  })
  app.addHook('onResponse', (request, _reply, done) => {
    if (request[kLink]) openAnswers.leave(request[kLink])
    done()
  })
  app.decorate('endWithToken', request => {
    if (!request.auth || request[kLink]) return
    request[kAdmitted] = request.auth
    request[kLink] = openAnswers.add(request)
  })
}, { name: 'holdfast-token-end', dependencies: ['holdfast-auth'] })

function openAnswerOf (request: FastifyRequest): OpenAnswer {
  const { [kAdmitted]: admitted, raw, log, server } = request
  const auth = admitted!
  return {
    request: raw,
    response: request[kResponse]!,
    auth,
    isWebSocket: () => 'ws' in request && request.ws === true,
    onEnd ({ code }) {
      markEnd(request, 'token_ended')
      const { route } = server.guardDecisions.routeOf(request)
      log.info({ reason: code, route, issuer: auth.issuer }, 'open answer ended')
    }
  }
}
