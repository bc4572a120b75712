import { METHODS } from 'node:http'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, RouteHandlerMethod } from 'fastify'
import { ownPathsOf } from '../lib/gate/gate-settings.ts'
import { GateError } from '../lib/gate/executor.ts'
import { originForm } from '../lib/gate/path.ts'
import { readMessage } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'

/** Every path that is not the service's own: the rules of the gate decide, and what passes goes to the upstream. */
const routes: FastifyPluginAsync = async (app) => {
  const { gate, passOn, verifyFraming } = app
  if (!gate || !passOn || !verifyFraming) return
  const ownPaths = ownPathsOf(gate.settings.ownPrefix)
  for (const method of METHODS) {
    if (method !== 'CONNECT' && !app.supportedMethods.includes(method)) app.addHttpMethod(method)
  }

  // With CORS on, a preflight is answered before any rule, and no other OPTIONS request has an answer.
  const isTaken = app.hasRoute({ method: 'OPTIONS', url: '/*' })

  app.route({
    method: app.supportedMethods.filter(method => !isTaken || method !== 'OPTIONS') as HTTPMethods[],
    url: '/*',
    exposeHeadRoute: false,
    schema: { hide: true },
    // The answer is given by a hook: a handler would run only after the body has been parsed, and only for content types that are known.
    onRequest: judge,
    handler: judge as RouteHandlerMethod
  })

  function judge (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
    try {
      const message = readMessage(request.raw)
      const url = gate!.urlOf(message)
      if (ownPaths.some(path => url.ownPath === path || url.ownPath.startsWith(`${path}/`))) return reply.callNotFound() as unknown as void
      // The proof is compared with the URL that the rule was chosen by.
      request.gated = gate!.enter({ message, method: message.method, target: originForm(request.raw.url!), url }) ?? null
    } catch (error) {
      return done(refused(request, error as Error))
    }
    if (!request.gated) return reply.callNotFound() as unknown as void
    gate!.judge(request, () => readBody(request, reply), (error, body) => {
      if (error instanceof GateError && error.statusCode === 404) reply.callNotFound()
      else if (error) done(refused(request, error))
      else passOn!(request, reply, body, done)
    })
  }

  /** @throws an error with a status */
  async function readBody (request: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
    verifyFraming!(request)
    return gate!.readBody(request, reply)
  }

  /** No credentials were asked for, so the status is not 401. */
  function refused (request: FastifyRequest, error: Error): Error {
    if (error instanceof GateError) {
      request.log.info({ reason: 'message_refused', fault: error.message }, 'request refused')
      return app.httpErrors.badRequest(error.message)
    }
    // What the guard has refused has its headers, its status and its line.
    if (!(error instanceof Refusal) || error.headers) return error
    app.guardTally?.refused(error.reason)
    request.log.info({ reason: error.reason, ...error.detail }, 'request refused')
    return app.httpErrors.badRequest(error.message)
  }
}
export default routes
