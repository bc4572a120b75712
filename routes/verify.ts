import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, onRequestHookHandler } from 'fastify'
import { GateError } from '../lib/gate/executor.ts'
import type { ReadBody } from '../lib/gate/executor.ts'
import { BodyError } from '../lib/gate/message-body.ts'
import { QuestionError, readOriginal, verifyNoOwnClaim, verifyPublicOrigin, verifyWholeBody } from '../lib/gate/original.ts'
import type { ProxyFamily } from '../lib/gate/original.ts'
import { readMessage } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import { parsePublicUrl } from '../lib/url/base-url.ts'
import { createPeerTrust } from '../lib/url/forwarded.ts'

const NGINX = '/verify/nginx'
const ENVOY = '/verify/envoy'

/** `/verify/...`: proxies ask whether the request of a client may pass. One endpoint for each family, which never guesses. */
const routes: FastifyPluginAsync = async (app) => {
  const { gate } = app
  if (!gate) return
  const { upstream, statementAudience = upstream, claims } = gate.settings
  const forwardedClaims = new Set(claims.map(({ header }) => header))
  const isTrusted = createPeerTrust(app.settings.server.trustProxy)
  const publicUrl = app.settings.server.publicUrl === undefined ? undefined : parsePublicUrl(app.settings.server.publicUrl)
  if (app.settings.server.trustProxy === false && upstream === undefined) {
    app.log.warn('The gate is asked by proxies, but TRUST_PROXY trusts no peer, so each authorization request gets 403. Set TRUST_PROXY to the addresses of the proxies')
  }

  const reading = [...new Set(gate.settings.rules.filter(({ mcp }) => mcp).map(({ path }) => path))]
  if (reading.length > 0) app.log.info({ event: 'message_rules', paths: reading }, 'The body of a POST decides for these paths. Of the proxies that ask, only Envoy can send it (with_request_body): /verify/nginx, /verify/haproxy and /verify/forwarded answer such a POST with 403')

  endpoint(NGINX, 'original')
  endpoint('/verify/haproxy', 'original')
  endpoint('/verify/forwarded', 'forwarded')
  endpoint(`${ENVOY}/*`, 'envoy')

  function endpoint (url: string, family: ProxyFamily): void {
    app.route({
      method: app.supportedMethods as HTTPMethods[],
      url,
      exposeHeadRoute: false,
      schema: { hide: true },
      // The answer is given by a hook: a body that comes with the question is read only if a rule asks for it, and never parsed by Fastify.
      onRequest: [(request, reply, done) => judge(request, reply, family, done), answer as onRequestHookHandler],
      handler: answer
    })
  }

  function judge (request: FastifyRequest, reply: FastifyReply, family: ProxyFamily, done: (error?: Error) => void): void {
    const { raw } = request
    try {
      // What another peer says about a request of a client proves nothing.
      if (!isTrusted(raw.socket.remoteAddress)) throw new QuestionError('Only trusted proxies may ask.')
      // A path of the endpoint that is written in another way would hide where the original begins.
      const rest = raw.url!.startsWith(`${ENVOY}/`) ? raw.url!.slice(ENVOY.length) : ''
      if (request.routeOptions.url === NGINX) verifyNoOwnClaim(raw, forwardedClaims)
      const message = readMessage(raw)
      const original = readOriginal(family, message, rest)
      if (publicUrl) verifyPublicOrigin(original.url, publicUrl)
      request.gated = gate!.enter({ message, ...original }) ?? null
      if (!request.gated) throw new QuestionError('No rule holds for the original request.')
    } catch (error) {
      return done(refused(request, error as Error))
    }
    gate!.judge(request, bodyOf(request, reply, family), error => done(error && refused(request, error)))
  }

  /** Only Envoy sends the body of the original request, and says whether it is whole. */
  function bodyOf (request: FastifyRequest, reply: FastifyReply, family: ProxyFamily): ReadBody {
    const question = app.grpcQuestion(request.raw)
    if (family !== 'envoy' && !question) return undefined
    return async () => {
      if (question?.isBodyText) throw new QuestionError('The question has the body as text, in which Envoy changes what is not UTF-8. It needs pack_as_bytes.')
      verifyWholeBody(request.raw)
      if (!question) return gate!.readBody(request, reply)
      if (question.body.length > gate!.maxBodyBytes) throw new BodyError(413)
      return question.body
    }
  }

  function refused (request: FastifyRequest, error: Error): Error {
    // What the guard has refused has its headers, its status and its line.
    if (error instanceof Refusal && error.headers) return error
    const isRefusal = error instanceof Refusal || error instanceof QuestionError || error instanceof GateError || (error instanceof BodyError && error.statusCode !== 503)
    if (!isRefusal) return error
    const facts = error instanceof Refusal ? { reason: error.reason, ...error.detail } : { reason: 'question_refused', fault: error.message }
    request.log.info(facts, 'request refused')
    return app.httpErrors.forbidden(error.message)
  }

  function answer (request: FastifyRequest, reply: FastifyReply): void {
    reply.headers(gate!.identify(request, statementAudience)).header('cache-control', 'no-store').send()
  }
}
export default routes
