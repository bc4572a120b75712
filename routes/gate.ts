import type { IncomingMessage } from 'node:http'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, HTTPMethods, RouteHandlerMethod } from 'fastify'
import { timeoutSecondsOf, type OriginalRequest } from '../lib/gate/executor.ts'
import { GateError } from '../lib/gate/gate-error.ts'
import { ownPathsOf } from '../lib/gate/gate-settings.ts'
import { createUpstreamHeaders } from '../lib/gate/headers.ts'
import { keepAlive } from '../lib/gate/keep-alive.ts'
import { bodyTooLarge } from '../lib/gate/message-body.ts'
import { originForm } from '../lib/gate/path.ts'
import { cutTools } from '../lib/gate/tool-list.ts'
import { nextNonceOf } from '../lib/guard/admission.ts'
import { hasBody, isPreflight, readMessage, type Message } from '../lib/guard/message.ts'
import { Refusal } from '../lib/refusal.ts'
import { clientGone, type UpstreamAnswer } from '../lib/gate/upstream/answer.ts'
import {
  joinConnections,
  protocolsOf,
  requestUpgrade,
  watchClient,
  type UpgradedConnection,
  type UpgradeRequest
} from '../lib/gate/upstream/upgrade.ts'
import { createUpstream } from '../lib/gate/upstream/upstream.ts'
import { memoize } from '../lib/guard/url/base-url.ts'
import { parseWireAuthority } from '../lib/guard/url/http-url.ts'
import { createRequestUrlResolver, hostlessUrl } from '../lib/guard/url/request-url.ts'
import { silenceMs } from '../server/connections.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { addVary, noteFailure, sendAnswer, sendInterim } from './gate/answer.ts'
import { followUpgraded, switchingProtocols } from './gate/upgraded.ts'

/**
 * Every path that is not the service's own: the rules of the gate decide, and what passes goes to the upstream.
 * @fastify/reply-from is not used: it passes no 1xx and no upgrade, and joins repeated headers.
 */
const routes: FastifyPluginAsync = async app => {
  const { gate } = app
  if (gate?.settings.upstream === undefined) return
  const {
    upstream: origin,
    timeoutSeconds: usualSeconds,
    idleSeconds,
    keepAliveSeconds,
    bodyLimit = Infinity,
    passCredentials,
    withheldHeaders,
    ownPrefix
  } = gate.settings
  const host = gate.settings.host === 'upstream' ? new URL(origin).host : undefined
  const { observing } = app.holdfastGuard.parts
  // While the gate only observes, the upstream may still judge by itself.
  const arePassed = () => passCredentials || observing?.isOn() === true
  const headersFor = createUpstreamHeaders({ passCredentials: arePassed, withheldHeaders, host })
  const urlOf = createRequestUrlResolver(app.settings.server)
  const readHost = memoize(parseWireAuthority)
  const ownPaths = ownPathsOf(ownPrefix)
  const upstream = createUpstream({
    origin,
    timeoutSeconds: usualSeconds,
    idleSeconds,
    bodyLimit,
    surroundings: processSurroundings
  })
  app.addHook('onClose', async () => {
    // An answer that is cut off at the end is no failure of the upstream.
    await app.closing.ended()
    await upstream.close()
  })

  const route = {
    url: '/*',
    exposeHeadRoute: false,
    schema: { hide: true },
    // The answer is given by a hook: a handler would run only after the body has been parsed, and only for content
    // types that are known.
    onRequest: judge,
    handler: judge as RouteHandlerMethod
  }
  // With CORS on, a preflight has a route of its own, and is answered before any rule.
  const isTaken = app.hasRoute({ method: 'OPTIONS', url: '/*' })
  app.route({
    ...route,
    method: app.supportedMethods.filter(method => !isTaken || method !== 'OPTIONS') as HTTPMethods[]
  })
  if (isTaken) {
    app.addConstraintStrategy(NO_PREFLIGHT)
    app.route({
      ...route,
      method: 'OPTIONS',
      constraints: { [NO_PREFLIGHT.name]: true },
      config: { cors: { preflight: false } }
    })
  }

  function judge (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) {
    gate!.execute(
      request,
      {
        readOriginal: () => readOriginal(request),
        async readBody () {
          verifyFraming(request)
          return gate!.readBody(request, reply)
        }
      },
      (error, body) => {
        if (request.gated?.pathRules.rules.some(({ requirement }) => requirement)) addVary(reply, ['Authorization'])
        // Fastify would go on after an async hook whose answer is still being sent.
        if (!error) return passOn(request, reply, body).catch(error => done(noteFailure(request, error)))
        const answered = refused(request, error)
        // A client of the protocol of messages takes another answer for the end of its session.
        if (error instanceof GateError && error.statusCode === 404 && !request.mcpRequest) reply.callNotFound()
        else done(answered)
      }
    )
  }

  function readOriginal ({ raw }: FastifyRequest): OriginalRequest {
    const message = readMessage(raw)
    const url = urlOfAny(message)
    // It goes on even where PUBLIC_URL decides. In a URL that the upstream builds with it, another path could begin.
    if (message.host !== undefined && !readHost(message.host)) {
      throw new Refusal('host_invalid', { detail: { header: 'host' } })
    }
    if (ownPaths.some(path => url.ownPath === path || url.ownPath.startsWith(`${path}/`))) {
      throw new GateError(404, 'The service itself answers under this path.')
    }
    // The proof is compared with the URL that the rule was chosen by.
    return { message, method: message.method, target: originForm(raw.url!), url }
  }

  function urlOfAny (message: Message) {
    try {
      return urlOf(message)
    } catch (error) {
      // Node requires a Host from HTTP/1.1 on.
      if (message.hostCount > 0 || !(error instanceof Refusal) || error.reason !== 'host_invalid') throw error
      return hostlessUrl(message)
    }
  }

  /** No credentials were asked for, so the status is not 401. */
  function refused (request: FastifyRequest, error: Error): Error {
    // A body that could not be read has its own status.
    if (error instanceof GateError && error.statusCode !== 400) {
      if (error.statusCode !== 499) gate!.refused(request, error, error.statusCode)
      return error
    }
    return gate!.refused(request, error, 400)
  }

  /**
   * Refuses a request whose body cannot be carried.
   * @throws an error with a status
   */
  function verifyFraming ({ raw }: FastifyRequest) {
    if (Number(raw.headers['content-length']) > bodyLimit) throw bodyTooLarge()
    const coding = raw.headers['transfer-encoding']
    // RFC 9112 section 6.1: the upstream would not learn of another coding, which holds for one connection only.
    if (!/^(?:chunked)?$/i.test(coding ?? '')) throw app.httpErrors.notImplemented('The transfer coding is unknown.')
  }

  /**
   * Sends a request that has passed to the upstream, and the answer to the client.
   * @param body if it has been read already
   */
  async function passOn (request: FastifyRequest, reply: FastifyReply, body: Buffer | undefined) {
    const { raw } = request
    verifyFraming(request)
    const connection = gate!.upgradeOf(raw)
    // To judge a request may take time, and nothing says later that its client went meanwhile.
    if (reply.raw.destroyed) throw clientGone()
    const timeoutSeconds = timeoutSecondsOf(request, usualSeconds)
    // The server itself ends connections that are silent for longer than most requests may take.
    if (timeoutSeconds > usualSeconds) raw.socket.setTimeout(silenceMs(timeoutSeconds))
    if (connection) {
      const protocols = protocolsOf(raw.headers.upgrade)!
      return passUpgrade(request, reply, { ...connection, protocols, timeoutSeconds })
    }
    app.holdfastGuard.endWithToken?.(request)
    const { method, target, headers } = requestOf(request)
    gate!.goAhead(request, reply)
    const exchange = upstream.send({
      method,
      target,
      headers,
      body: body ?? (hasBody(raw) ? raw : undefined),
      timeoutSeconds,
      onInterim: (status, headers) => sendInterim(reply, status, headers)
    })
    reply.raw.on('close', () => {
      if (!reply.raw.writableFinished) exchange.end(clientGone())
    })
    await answerWith(request, reply, await exchange.answer, body === undefined)
  }

  /** @param isStream whether the request may have opened a stream of events */
  function answerWith (
    { method, listCut }: FastifyRequest,
    reply: FastifyReply,
    given: UpstreamAnswer,
    isStream: boolean
  ) {
    const answer = keepAlive(given, method, { ...processSurroundings, everyMs: keepAliveSeconds * 1000 })
    if (!listCut) return sendAnswer(reply, answer)
    return cutTools(answer, listCut, isStream).then(cut => sendAnswer(reply, cut))
  }

  async function passUpgrade (
    request: FastifyRequest,
    reply: FastifyReply,
    { socket, head, ...options }: UpgradedConnection & Pick<UpgradeRequest, 'protocols' | 'timeoutSeconds'>
  ) {
    const upgrade = requestUpgrade({ ...requestOf(request), ...options, origin: origin! })
    const stopWatching = watchClient(socket, () => upgrade.end(clientGone()))
    let early: Buffer
    const answer = await upgrade.answer.finally(() => {
      early = stopWatching()
    })
    if (answer.kind === 'refused') {
      socket.resume()
      // It may be a stream like any other: the upstream need not know the protocol.
      app.holdfastGuard.endWithToken?.(request)
      return answerWith(request, reply, answer, true)
    }
    reply.hijack()
    reply.raw.detachSocket(socket)
    socket.write(switchingProtocols(answer.headers, nextNonceOf(request)), 'latin1')
    socket.write(answer.head)
    answer.socket.write(head)
    answer.socket.write(early!)
    joinConnections(socket, answer.socket)
    followUpgraded(
      request,
      socket,
      answer.socket,
      closedBy => app.endRequest(request, reply, { closedBy, received: socket.bytesRead, sent: socket.bytesWritten })
    )
  }

  function requestOf (request: FastifyRequest) {
    const { method, target, url } = request.gated!
    const addresses = (request.ips?.toReversed() ?? [request.ip]).filter(address => address !== undefined)
    const headers = headersFor(request.raw, {
      origin: { url, addresses },
      identity: gate!.identify(request, origin),
      requestId: request.id
    })
    // With traces on, the upstream continues the span of the gate, not that of the client.
    const lines: Record<string, string> = {}
    request.opentelemetry?.().inject(lines)
    // An answer that is read must not be coded.
    if (request.listCut) lines['accept-encoding'] = 'identity'
    const own = Object.entries(lines)
    return { method, target, headers: own.reduce((rest, [name]) => withoutLines(rest, name), headers).concat(...own) }
  }
}
export default routes

/** By what the router knows a request that is for the rules although it asks for OPTIONS. */
const NO_PREFLIGHT = {
  name: 'holdfastNoPreflight',
  storage: () => new Map() as never,
  validate: () => {},
  deriveConstraint: (message: IncomingMessage) =>
    message.method === 'OPTIONS' && !isPreflight(message) ? true : undefined
}

function withoutLines (headers: string[], name: string): string[] {
  return headers.filter((_, i) => headers[i - i % 2]!.toLowerCase() !== name)
}
