import { METHODS } from 'node:http'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, RouteHandlerMethod } from 'fastify'
import type { OriginalRequest } from '../lib/gate/executor.ts'
import { GateError } from '../lib/gate/gate-error.ts'
import { ownPathsOf } from '../lib/gate/gate-settings.ts'
import { originForm } from '../lib/gate/path.ts'
import { readMessage } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import { createRequestUrlResolver } from '../lib/url/request-url.ts'

/** Every path that is not the service's own: the rules of the gate decide, and what passes goes to the upstream. */
const routes: FastifyPluginAsync = async (app) => {
  const { gate, gateProxy } = app
  if (!gate || !gateProxy) return
  const { trustProxy, publicUrl } = app.settings.server
  const urlOf = createRequestUrlResolver({ trustProxy, publicUrl })
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
    gate!.execute(request, { readOriginal: () => readOriginal(request), readBody: () => readBody(request, reply) }, (error, body) => {
      if (error instanceof GateError && error.statusCode === 404) reply.callNotFound()
      else if (error) done(refused(request, error))
      else gateProxy!.passOn(request, reply, body, done)
    })
  }

  function readOriginal ({ raw }: FastifyRequest): OriginalRequest {
    const message = readMessage(raw)
    const url = urlOf(message)
    if (ownPaths.some(path => url.ownPath === path || url.ownPath.startsWith(`${path}/`))) throw new GateError(404, 'The service itself answers under this path.')
    // The proof is compared with the URL that the rule was chosen by.
    return { message, method: message.method, target: originForm(raw.url!), url }
  }

  /** @throws an error with a status */
  async function readBody (request: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
    gateProxy!.verifyFraming(request)
    return gate!.readBody(request, reply)
  }

  /** No credentials were asked for, so the status is not 401. */
  function refused (request: FastifyRequest, error: Error): Error {
    // A body that could not be read has its own status.
    if (error instanceof GateError && error.statusCode !== 400) return error
    if (error instanceof Refusal && !error.headers) app.guardTally?.refused(error.reason)
    return gate!.refused(request, error, 400, 'message_refused')
  }
}
export default routes
