import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { GateError } from '../lib/gate/gate-error.ts'
import { rpcErrorBody } from '../lib/gate/rpc-error.ts'
import { errorBody, Refusal, refusalBodies, type ErrorBodyForm } from '../lib/refusal.ts'
import { UpstreamError } from '../lib/gate/upstream/answer.ts'
import { statusOfClientError, type ClientError } from '../server/client-error.ts'
import { UNROUTABLE } from '../server/request-ends.ts'

/**
 * Milliseconds for which such a connection may end by itself after its answer. If it were closed at once, the answer
 * might be lost.
 */
const LINGER_MS = 1000

const UNKNOWN = 'There is no such resource.'

/**
 * Turns every error into status and body, in the form that `ERROR_BODY` selects. The plugin that refuses a request adds
 * the headers to the refusal.
 */
export default fp(async (app: FastifyInstance) => {
  const form = app.settings.api.errorBody
  const bodies = refusalBodies(form)

  app.setErrorHandler((error: (FastifyError & { headers?: Record<string, string> }) | Refusal, request, reply) => {
    const status = statusOf(error)
    // A request without a route is answered as unknown, whatever is wrong with its body.
    if (request.is404 && status < 500) return answer(reply, form, 404, UNKNOWN)
    if (error.headers) reply.headers(error.headers)
    // What a client sends may be more than is carried, or than is held at once. That is no fault of the service.
    if (status === 501 || (status === 503 && error instanceof GateError)) {
      request.log.info({ fault: error.message }, 'request refused')
    } else if (error instanceof UpstreamError && status >= 500) {
      const { message: fault, code: cause } = error
      request.log.warn({ status, fault, cause }, 'request failed')
    } else if (status >= 500 && !(error instanceof Refusal)) request.log.error({ err: error }, 'request failed')
    if (request.mcpRequest) {
      return send(reply, status, rpcErrorBody(error, status, request.mcpRequest, request.mcpMatches))
    }
    if (error instanceof Refusal) return send(reply, status, bodies[error.reason])
    answer(reply, form, status, status >= 500 ? undefined : error.message)
  })

  app.setNotFoundHandler((_request, reply) => answer(reply, form, 404, UNKNOWN))
}, { name: 'errors' })

/**
 * Answers targets that Fastify cannot route, such as `/%zz`: no hook and no error handler sees them.
 * @param isGate whether such a target may be one of forward auth. It gets 403, which every proxy takes for a refusal.
 */
export function answerBadTarget (form: ErrorBodyForm, isGate: boolean) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    const status = isGate && request.raw.url!.startsWith('/verify/') ? 403 : statusOf(error)
    // The server is the one thing that is shared with the service: the request belongs to the root, and the service may
    // be a plugin below.
    request.server.server.emit(UNROUTABLE, request, reply, status)
    answer(reply, form, status, 'The request target is not valid.')
  }
}

/** Answers what Node's parser refuses before there is a request. */
export function answerClientError (form: ErrorBodyForm) {
  return (error: ClientError, socket: Socket) => {
    const status = statusOfClientError(error, socket)
    if (status === undefined) {
      socket.destroy()
      return
    }
    const sentence = status === 404 ? UNKNOWN : 'The request is not valid HTTP, too large or too slow.'
    const body = JSON.stringify(errorBody(form, status, sentence))
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json; ` +
        `charset=utf-8\r\nContent-Length: ${body.length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`
    )
    // Node's time limits no longer apply to the connection, and it is not idle as long as bytes arrive.
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  }
}

function statusOf ({ statusCode = 500 }: { statusCode?: number }): number {
  return statusCode >= 400 && statusCode <= 599 ? statusCode : 500
}

function answer (reply: FastifyReply, form: ErrorBodyForm, status: number, message: string | undefined) {
  send(reply, status, JSON.stringify(errorBody(form, status, message)))
}

// The reply is not returned: Fastify would wait for it as for a promise.
function send (reply: FastifyReply, status: number, json: string) {
  reply.code(status).header('content-type', 'application/json; charset=utf-8').header('cache-control', 'no-store').send(
    json
  )
}
