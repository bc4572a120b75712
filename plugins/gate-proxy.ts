import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { UpstreamError } from '../lib/gate/exchange.ts'
import type { UpstreamAnswer } from '../lib/gate/exchange.ts'
import { hasBody, headersForClient, headersForUpstream } from '../lib/gate/headers.ts'
import { askForUpgrade, dropRest, joinConnections, protocolsOf, watchClient } from '../lib/gate/upgrade.ts'
import type { UpgradeAnswer, UpgradedConnection } from '../lib/gate/upgrade.ts'
import { createUpstream } from '../lib/gate/upstream.ts'
import { nextNonceOf } from '../lib/guard/admission.ts'
import { processSurroundings } from '../server/surroundings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The hook that sends a request to the upstream when it has passed the gate, and sends the answer to the client. `done` is called only
     * with an error. Undefined without an upstream.
     */
    passOn: ((request: FastifyRequest, reply: FastifyReply, done: (error: Error) => void) => void) | undefined
  }
}

/** Decorates `app.passOn`, the reverse proxy. @fastify/reply-from is not used: it passes no 1xx and no upgrade, and joins repeated headers. */
export default fp(async (app: FastifyInstance) => {
  const { gate } = app
  if (gate?.settings.upstream === undefined) {
    app.decorate('passOn', undefined)
    return
  }
  const { upstream: origin, upstreamProtocol: protocol, timeoutSeconds, bodyLimit, passCredentials } = gate.settings
  const upstream = createUpstream({ origin, protocol, timeoutSeconds, bodyLimit, after: processSurroundings.after })
  app.addHook('onClose', () => upstream.close())

  // Fastify would go on after an async hook whose answer is still being sent.
  app.decorate('passOn', function passOn (request, reply, done) { pass(request, reply).catch(done) })

  async function pass (request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { raw } = request
    const hasContent = hasBody(raw)
    if (bodyLimit !== undefined && Number(raw.headers['content-length']) > bodyLimit) throw tooLarge()
    // RFC 9112 section 6.1: the upstream would not learn of another coding, which holds for one connection only.
    if (!/^(?:chunked)?$/i.test(raw.headers['transfer-encoding'] ?? '')) throw app.httpErrors.notImplemented('The transfer coding is unknown.')
    const connection = gate!.upgradeOf(raw)
    // Node has stopped reading such a request, so its body would never end.
    if (connection && hasContent) throw app.httpErrors.badRequest('A request that asks for another protocol has no body here.')
    const protocols = connection && request.gated!.rule.upgrade ? protocolsOf(raw.headers.upgrade) : undefined
    if (connection && protocols !== undefined) return passUpgrade(request, reply, connection, protocols)
    if (connection) dropRest(connection.socket)
    const { method, target, headers } = requestOf(request)
    if (gate!.expectsContinue(raw)) reply.raw.writeContinue()
    const exchange = upstream.send({ method, target, headers, body: hasContent ? raw : undefined, onInterim: (status, headers) => sendInterim(request, reply, status, headers) })
    onHangUp(reply, () => exchange.end(clientGone()))
    send(reply, await exchange.answer.catch(failed))
  }

  async function passUpgrade (request: FastifyRequest, reply: FastifyReply, { socket, head }: UpgradedConnection, protocols: string): Promise<void> {
    const question = askForUpgrade({ ...requestOf(request), origin, protocols, timeoutSeconds })
    const stopWatching = watchClient(socket, () => question.end(clientGone()))
    let early: Buffer
    const answer = await question.answer.finally(() => { early = stopWatching() })
    if (answer.kind === 'refused') {
      dropRest(socket)
      return send(reply, fromResponse(answer.response))
    }
    reply.hijack()
    reply.raw.detachSocket(socket)
    socket.write(switchingProtocols(answer, nextNonceOf(request)), 'latin1')
    socket.write(answer.head)
    answer.socket.write(head)
    answer.socket.write(early!)
    joinConnections(socket, answer.socket)
  }

  function requestOf (request: FastifyRequest): { method: string, target: string, headers: string[] } {
    const { received: { method }, target, url } = request.gated!
    const addresses = [...request.ips ?? [request.ip]].reverse().filter(address => address !== undefined)
    const headers = headersForUpstream(request.raw, { origin: { url, addresses }, told: gate!.tell(request, origin), passCredentials })
    return { method: method!, target, headers }
  }

  function failed (error: Error & { statusCode: number }): never {
    if (error.statusCode === 413) throw tooLarge()
    throw error
  }

  function tooLarge (): Error {
    // The client may go on sending what nobody reads.
    return Object.assign(app.httpErrors.payloadTooLarge('The body of the request is too large.'), { headers: { connection: 'close' } })
  }
}, { name: 'gate-proxy', dependencies: ['gate', 'sensible'] })

function clientGone (): UpstreamError {
  return new UpstreamError(499, 'The client has gone')
}

/** Calls `abort` if the client goes before it has its answer. */
function onHangUp ({ raw }: FastifyReply, abort: () => void): void {
  raw.once('close', () => { if (!raw.writableFinished) abort() })
}

const NOTHING = Buffer.alloc(0)

function send (reply: FastifyReply, answer: UpstreamAnswer): void {
  const { status, headers, body } = answer
  reply.code(status)
  for (const [name, values] of headersForClient(headers)) reply.header(name, values.length === 1 ? values[0] : values)
  const payload = wholeBody(reply, answer)
  if (payload) {
    reply.send(payload)
    return
  }
  // By itself, Node keeps the head back until the first byte of the body comes. A stream of events may be silent until then. An empty
  // chunk sends it with a byte for each character, which flushHeaders() does not.
  reply.raw.once('pipe', () => { if (body.readableLength === 0) reply.raw.write(NOTHING) })
  reply.send(body)
}

/**
 * The body of an answer that has come at once, as small ones do: it costs much less than a stream. Not for answers without a body, whose
 * length Fastify would set to 0, and not without a content type, which Fastify would add.
 */
function wholeBody (reply: FastifyReply, { isWhole, body }: UpstreamAnswer): Buffer | null {
  return isWhole && body.readableLength > 0 && reply.hasHeader('content-type') ? body.read() : null
}

function fromResponse (response: IncomingMessage): UpstreamAnswer {
  return { status: response.statusCode!, headers: response.rawHeaders, body: response }
}

/** Passes an interim answer on (RFC 9110 section 15.2). Node can write only those that it knows. */
function sendInterim ({ raw }: FastifyRequest, reply: FastifyReply, status: number, headers: readonly string[]): void {
  // RFC 9110 section 15.2: a client of HTTP/1.0 knows none.
  if (raw.httpVersion === '1.0') return
  if (status === 102) return reply.raw.writeProcessing()
  const hints = Object.fromEntries(headersForClient(headers))
  // A client that does not take them is not to fill the memory with them.
  if (status !== 103 || !hints.link || reply.raw.socket?.writableNeedDrain) return
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
