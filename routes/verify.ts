import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, onRequestHookHandler } from 'fastify'
import { QuestionError, readOriginal, verifyNoOwnClaim } from '../lib/gate/original.ts'
import type { ProxyFamily } from '../lib/gate/original.ts'
import { readMessage } from '../lib/message.ts'
import { Refusal } from '../lib/refusal.ts'
import { createPeerTrust } from '../lib/url/peer-trust.ts'

const NGINX = '/verify/nginx'
const ENVOY = '/verify/envoy'

/** `/verify/...`: proxies ask whether the request of a client may pass. One endpoint for each family, which never guesses. */
const routes: FastifyPluginAsync = async (app) => {
  const { gate } = app
  if (!gate) return
  const { upstream, statementAudience = upstream, claims } = gate.settings
  const toldClaims = new Set(claims.map(({ header }) => header))
  const isTrusted = createPeerTrust(app.settings.trustProxy)
  if (app.settings.trustProxy === false && upstream === undefined) {
    app.log.warn('The gate is asked by proxies, but TRUST_PROXY trusts nobody, so each question is answered with 403. Set TRUST_PROXY to the addresses of the proxies')
  }

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
      // The answer is given by a hook: nobody reads a body that comes with the question.
      onRequest: [(request, _reply, done) => judge(request, family, done), answer as onRequestHookHandler],
      handler: answer
    })
  }

  function judge (request: FastifyRequest, family: ProxyFamily, done: (error?: Error) => void): void {
    const { raw } = request
    try {
      // What another peer says about a request of a client proves nothing.
      if (!isTrusted(raw.socket.remoteAddress)) throw new QuestionError('Only trusted proxies may ask.')
      const { headers, rawHeaders, socket } = raw
      // A path of the endpoint that is written in another way would hide where the original begins.
      const rest = raw.url!.startsWith(`${ENVOY}/`) ? raw.url!.slice(ENVOY.length) : ''
      if (request.routeOptions.url === NGINX) verifyNoOwnClaim(raw, toldClaims)
      const { method, target, url } = readOriginal(family, readMessage(raw), rest, app.guardParts.resolveUrl)
      const received = { headers, rawHeaders, socket, method, url: target, clientUrl: url }
      request.gated = gate!.enter(received, target, url) ?? null
      if (!request.gated) throw new QuestionError('No rule holds for the original request.')
    } catch (error) {
      return done(refused(request, error as Error))
    }
    gate!.judge(request, done)
  }

  function refused (request: FastifyRequest, error: Error): Error {
    if (!(error instanceof Refusal || error instanceof QuestionError)) return error
    const told = error instanceof Refusal ? { reason: error.reason, ...error.detail } : { reason: 'question_refused', fault: error.message }
    request.log.info(told, 'request refused')
    return app.httpErrors.forbidden(error.message)
  }

  function answer (request: FastifyRequest, reply: FastifyReply): void {
    reply.headers(gate!.tell(request, statementAudience)).header('cache-control', 'no-store').send()
  }
}
export default routes
