import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, onRequestHookHandler } from 'fastify'
import type { Door } from '../lib/gate/executor.ts'
import type { CheckRequest } from '../lib/gate/ext-authz.ts'
import { GateError } from '../lib/gate/gate-error.ts'
import { bodyTooLarge } from '../lib/gate/message-body.ts'
import { PROXY_FAMILIES, readOriginal, verifyWholeBody, type ProxyFamily } from '../lib/gate/original.ts'
import { readMessage } from '../lib/guard/message.ts'
import { createPeerTrust, parsePublicUrl } from '../lib/guard/url/base-url.ts'

const ENVOY = '/verify/envoy'

/**
 * `/verify/...`: proxies ask whether the request of a client may pass. One endpoint for each family, which never
 * guesses.
 */
const routes: FastifyPluginAsync = async app => {
  const { gate } = app
  if (!gate) return
  const { upstream, statementAudience = upstream, claims } = gate.settings
  const { trustProxy } = app.settings.server
  const isTrusted = createPeerTrust(trustProxy)
  const options = {
    publicUrl: app.settings.server.publicUrl === undefined ? undefined : parsePublicUrl(app.settings.server.publicUrl),
    claimHeaders: new Set(claims.map(({ header }) => header))
  }

  const withoutBody = PROXY_FAMILIES.filter(family => family !== 'envoy').map(family => `/verify/${family}`)
  const reading = [...new Set(gate.settings.rules.filter(({ mcp }) => mcp).map(({ path }) => path))]
  // Without a trusted peer, no proxy can ask.
  if (reading.length > 0 && (trustProxy !== false || upstream === undefined)) {
    app.log.info(
      { event: 'message_rules', paths: reading },
      'The body of a POST decides for these paths. Of the proxies that ask, only Envoy can send it ' +
        `(with_request_body): ${withoutBody.slice(0, -1).join(', ')} and ${withoutBody.at(-1)} answer such a ` +
        'POST with ' +
        '403'
    )
  }

  for (const family of PROXY_FAMILIES) endpoint(family === 'envoy' ? `${ENVOY}/*` : `/verify/${family}`, family)

  function endpoint (url: string, family: ProxyFamily) {
    app.route({
      method: app.supportedMethods as HTTPMethods[],
      url,
      exposeHeadRoute: false,
      schema: { hide: true },
      // The method may be the client's. For most proxies any 2xx is a yes, so a preflight gets the answer of the rules.
      config: { cors: { preflight: false } },
      // A hook answers: a body that comes with the authorization request is read only if a rule asks for it, and
      // Fastify never parses it.
      onRequest: [(request, reply, done) => judge(request, reply, family, done), answer as onRequestHookHandler],
      handler: answer
    })
  }

  function judge (
    request: FastifyRequest,
    reply: FastifyReply,
    family: ProxyFamily,
    done: (error?: Error) => void
  ) {
    gate!.execute(request, {
      readOriginal: () => readAsked(request, family),
      readBody: bodyReader(request, reply, family)
    }, error => {
      // That too many bodies are held says nothing about the request.
      const isOurs = error instanceof GateError && error.statusCode === 503
      done(error && !isOurs ? gate!.refused(request, error, 403) : error)
    })
  }

  /** @throws GateError, Refusal */
  function readAsked ({ raw }: FastifyRequest, family: ProxyFamily) {
    // What an untrusted peer states about a request of a client proves nothing.
    if (!isTrusted(raw.socket.remoteAddress)) {
      throw new GateError(403, 'Only trusted proxies may ask.', {
        detail: { peer: raw.socket.remoteAddress ?? 'a unix socket' }
      })
    }
    // A path of the endpoint that is written in another way would hide where the original begins.
    const rest = raw.url!.startsWith(`${ENVOY}/`) ? raw.url!.slice(ENVOY.length) : ''
    return readOriginal(family, readMessage(raw), rest, options)
  }

  /** Only Envoy sends the body of the original request, and states whether it is whole. */
  function bodyReader (request: FastifyRequest, reply: FastifyReply, family: ProxyFamily): Door['readBody'] {
    const check = app.checkRequestOf(request.raw)
    if (family !== 'envoy' && !check) return undefined
    return async () => {
      verifyWholeBody(request.raw)
      if (!check) return gate!.readBody(request, reply)
      const body = bodyOf(check)
      if (body.length > gate!.maxBodyBytes) throw bodyTooLarge()
      return body
    }
  }

  function answer (request: FastifyRequest, reply: FastifyReply) {
    const told = { ...gate!.identify(request, statementAudience), 'x-request-id': request.id }
    reply.headers(told).header('cache-control', 'no-store').send()
  }
}
export default routes

/** @throws GateError 403 */
function bodyOf ({ body, bodyText }: CheckRequest): Buffer {
  if (bodyText.length === 0) return body
  if (body.length > 0) throw new GateError(403, 'The authorization request has the body in two forms.')
  // The mark may be the client's own. It may also hide a byte that the upstream reads in a way of its own.
  if (bodyText.includes('!')) {
    throw new GateError(
      403,
      'The authorization request has the body as text, where Envoy writes ! for what is not UTF-8, and there is ' +
        'one. It needs pack_as_bytes.'
    )
  }
  return bodyText
}
