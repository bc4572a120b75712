import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { hasBody, headersForClient, headersForUpstream } from '../lib/gate/headers.ts'
import { dropRest, joinConnections, protocolsOf, requestUpgrade, watchClient } from '../lib/upstream/upgrade.ts'
import type { UpgradeAnswer, UpgradedConnection } from '../lib/upstream/upgrade.ts'
import { createUpstream, UpstreamError } from '../lib/upstream/upstream.ts'
import type { UpstreamAnswer } from '../lib/upstream/upstream.ts'
import { nextNonceOf } from '../lib/guard/admission.ts'
import { processSurroundings } from '../server/surroundings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined without an upstream. */
    gateProxy: GateProxy | undefined
  }
}

export interface GateProxy {
  /**
   * Sends a request to the upstream when it has passed the gate, and the answer to the client. `done` is called only with an error.
   * @param body if it has been read already
   */
  passOn (request: FastifyRequest, reply: FastifyReply, body: Buffer | undefined, done: (error: Error) => void): void
  /**
   * Refuses a request whose body cannot be carried.
   * @throws an error with a status
   */
  verifyFraming (request: FastifyRequest): void
}

/** Decorates `app.gateProxy`, the reverse proxy. @fastify/reply-from is not used: it passes no 1xx and no upgrade, and joins repeated headers. */
export default fp(async (app: FastifyInstance) => {
  const { gate } = app
  if (gate?.settings.upstream === undefined) return
  const { upstream: origin, timeoutSeconds, bodyLimit = Infinity, passCredentials } = gate.settings
  const upstream = createUpstream({ origin, timeoutSeconds, bodyLimit, after: processSurroundings.after })
  app.addHook('onClose', () => upstream.close())

  app.decorate('gateProxy', {
    // Fastify would go on after an async hook whose answer is still being sent.
    passOn (request, reply, body, done) { pass(request, reply, body).catch(done) },
    verifyFraming
  })

  function verifyFraming ({ raw }: FastifyRequest): void {
    if (Number(raw.headers['content-length']) > bodyLimit) throw tooLarge()
    // RFC 9112 section 6.1: the upstream would not learn of another coding, which holds for one connection only.
    if (!/^(?:chunked)?$/i.test(raw.headers['transfer-encoding'] ?? '')) throw app.httpErrors.notImplemented('The transfer coding is unknown.')
    // Node has stopped reading such a request, so its body would never end.
    if (gate!.upgradeOf(raw) && hasBody(raw)) throw app.httpErrors.badRequest('A request that asks for another protocol has no body here.')
  }

  async function pass (request: FastifyRequest, reply: FastifyReply, body: Buffer | undefined): Promise<void> {
    const { raw } = request
    verifyFraming(request)
    const connection = gate!.upgradeOf(raw)
    const protocols = connection && request.gated!.place.rules[0].upgrade ? protocolsOf(raw.headers.upgrade) : undefined
    // To judge a request may take time, and nothing says later that its client went meanwhile.
    if (reply.raw.destroyed) throw clientGone()
    if (connection && protocols !== undefined) return passUpgrade(request, reply, connection, protocols)
    if (connection) dropRest(connection.socket)
    app.endWithToken(request)
    const { method, target, headers } = requestOf(request)
    gate!.goAhead(request, reply)
    const exchange = upstream.send({ method, target, headers, body: body ?? (hasBody(raw) ? raw : undefined), onInterim: (status, headers) => sendInterim(request, reply, status, headers) })
    onHangUp(reply, () => exchange.end(clientGone()))
    send(reply, await exchange.answer.catch(failed))
  }

  async function passUpgrade (request: FastifyRequest, reply: FastifyReply, { socket, head }: UpgradedConnection, protocols: string): Promise<void> {
    const upgrade = requestUpgrade({ ...requestOf(request), origin, protocols, timeoutSeconds })
    const stopWatching = watchClient(socket, () => upgrade.end(clientGone()))
    let early: Buffer
    const answer = await upgrade.answer.finally(() => { early = stopWatching() })
    if (answer.kind === 'refused') {
      dropRest(socket)
      return send(reply, answer)
    }
    reply.hijack()
    reply.raw.detachSocket(socket)
    socket.write(switchingProtocols(answer, nextNonceOf(request)), 'latin1')
    socket.write(answer.head)
    answer.socket.write(head)
    answer.socket.write(early!)
    joinConnections(socket, answer.socket)
    endWithToken(request, socket)
  }

  /** A connection that has changed its protocol lives no longer than the token that opened it. Each end of it takes the other with it. */
  function endWithToken (request: FastifyRequest, socket: UpgradedConnection['socket']): void {
    const { auth } = request
    if (!auth) return
    const end = (): void => {
      request.log.info({ reason: auth.signal.reason.code, issuer: auth.issuer }, 'open connection ended')
      socket.destroy()
    }
    auth.signal.addEventListener('abort', end, { once: true })
    // It also keeps `auth`, and with it the signal, for as long as the connection is open.
    socket.once('close', () => auth.signal.removeEventListener('abort', end))
  }

  function requestOf (request: FastifyRequest): { method: string, target: string, headers: string[] } {
    const { method, target, url } = request.gated!
    const addresses = [...request.ips ?? [request.ip]].reverse().filter(address => address !== undefined)
    const headers = headersForUpstream(request.raw, { origin: { url, addresses }, identity: gate!.identify(request, origin), passCredentials })
    return { method, target, headers }
  }

  function failed (error: Error & { statusCode: number }): never {
    if (error.statusCode === 413) throw tooLarge()
    if (error.statusCode === 408) throw Object.assign(app.httpErrors.requestTimeout('The body of the request is too slow.'), CLOSE)
    throw error
  }

  function tooLarge (): Error {
    return Object.assign(app.httpErrors.payloadTooLarge('The body of the request is too large.'), CLOSE)
  }
}, { name: 'gate-proxy', dependencies: ['gate', 'token-end', 'sensible'] })

/** The client may go on sending a body that is not read. */
const CLOSE = { headers: { connection: 'close' } }

function clientGone (): UpstreamError {
  return new UpstreamError(499, 'The client has gone')
}

/** Calls `abort` if the client goes before it has its answer. */
function onHangUp ({ raw }: FastifyReply, abort: () => void): void {
  raw.once('close', () => { if (!raw.writableFinished) abort() })
}

const NOTHING = Buffer.alloc(0)
const PLAIN_TYPE = /^[a-z]+\/[a-z0-9.+-]+(?:; ?charset=[a-z0-9-]+)?$/i

function send (reply: FastifyReply, { status, headers, body }: UpstreamAnswer): void {
  reply.code(status)
  for (const [name, values] of headersForClient(headers)) reply.header(name, values.length === 1 ? values[0] : values)
  const payload = wholeBody(reply, body)
  // By itself, Node keeps the head back until the first byte of the body comes. A stream of events may be silent until then. An empty
  // chunk sends it with a byte for each character, which flushHeaders() does not.
  if (!payload) reply.raw.once('pipe', () => { if (body.readableLength === 0) reply.raw.write(NOTHING) })
  reply.send(payload ?? body)
}

/**
 * The body of an answer that has come at once, as small ones do: it costs much less than a stream. Not for answers without a body, whose
 * length Fastify would set to 0, and not without a content type that Fastify understands, because it would write its own.
 */
function wholeBody (reply: FastifyReply, body: UpstreamAnswer['body']): Buffer | null {
  return body.isWhole && body.readableLength > 0 && isPlainType(reply.getHeader('content-type')) ? body.read(body.readableLength) : null
}

function isPlainType (type: unknown): boolean {
  return typeof type === 'string' && PLAIN_TYPE.test(type)
}

/** Passes an interim answer on (RFC 9110 section 15.2). Node can write only those that it knows. */
function sendInterim ({ raw }: FastifyRequest, reply: FastifyReply, status: number, headers: readonly string[]): void {
  // RFC 9110 section 15.2: a client of HTTP/1.0 knows none.
  if (raw.httpVersion === '1.0') return
  // A client that does not take them is not to fill the memory with them.
  if (reply.raw.socket?.writableNeedDrain) return
  if (status === 102) return reply.raw.writeProcessing()
  // RFC 9110 section 8.6: an interim answer has no length.
  const { 'content-length': _, ...hints } = Object.fromEntries(headersForClient(headers))
  if (status !== 103 || !hints.link) return
  try {
    reply.raw.writeEarlyHints({ ...hints, link: hints.link })
  } catch {
    // Node refuses links that are not well-formed. They are only hints.
  }
}

/** The answer with which the connection of the client changes its protocol. */
function switchingProtocols ({ response }: Extract<UpgradeAnswer, { kind: 'upgraded' }>, nonce: string | undefined): string {
  const lines = ['HTTP/1.1 101 Switching Protocols', 'connection: Upgrade', `upgrade: ${response.headers.upgrade}`]
  for (const [name, values] of headersForClient(response.rawHeaders)) lines.push(...values.map(value => `${name}: ${value}`))
  if (nonce !== undefined) lines.push(`dpop-nonce: ${nonce}`)
  return `${lines.join('\r\n')}\r\n\r\n`
}
