import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { namesForClient } from '../../lib/gate/headers.ts'
import {
  isEventStream,
  streamOf,
  UpstreamError,
  valuesOf,
  type AnswerHeaders,
  type UpstreamAnswer
} from '../../lib/gate/upstream/answer.ts'
import { KEEP_ALIVE_MS } from '../../lib/gate/upstream/upgrade.ts'
import { markEnd } from '../../server/request-ends.ts'

/** The line of the request says whether its upstream failed. */
export function noteFailure (request: FastifyRequest, error: Error): Error {
  if (error instanceof UpstreamError && error.statusCode >= 500) markEnd(request, 'upstream_failed')
  return error
}

const NOTHING = Buffer.alloc(0)

/** Names of an answer that the client gets. What web pages may read is for CORS_ORIGINS to say, and not for both. */
function namesOf ({ server }: FastifyReply, headers: AnswerHeaders): string[] {
  const names = namesForClient(headers)
  if (server.settings.server.corsOrigins === undefined) return names
  return names.filter(name => !name.startsWith('access-control-'))
}

const PLAIN_TYPE = /^[a-z]+\/[a-z0-9.+-]+(?:; ?charset=[a-z0-9-]+)?$/i

/** Sends an answer of the upstream to the client. */
export function sendAnswer (reply: FastifyReply, { status, headers, body }: UpstreamAnswer): void {
  reply.code(status)
  for (const name of namesOf(reply, headers)) {
    if (name === 'vary') addVary(reply, valuesOf(headers, name))
    else reply.header(name, headers[name])
  }
  if (Buffer.isBuffer(body) && body.length > 0 && isPlainType(reply.getHeader('content-type'))) {
    reply.send(body)
    return
  }
  const stream = streamOf(body)
  if (status === 204) {
    // With a body, Fastify would take the content type away. There is none, and no length (RFC 9110 section 8.6).
    stream.on('error', () => {}).resume()
    reply.removeHeader('content-length').send()
    return
  }
  if (stream === body) {
    if (isEventStream({ status, headers })) allowSilence(reply, stream)
    stream.once('error', error => {
      if (!reply.raw.destroyed) noteFailure(reply.request, error)
    })
  }
  // By itself, Node keeps the head back until the first byte of the body comes. A stream of events may be silent until
  // then. An empty chunk sends it with a byte for each character, which flushHeaders() does not.
  reply.raw.once('pipe', () => {
    if (stream.readableLength === 0) reply.raw.write(NOTHING)
  })
  reply.send(stream)
}

/** Adds to the headers of a request that its answer depends on (RFC 9110 section 12.5.5). */
export function addVary (reply: FastifyReply, lines: readonly string[]): void {
  const names = [reply.getHeader('vary') ?? [], lines].flat().flatMap(line => String(line).split(',')).map(name =>
    name.trim()
  )
  reply.header('vary', [...new Map(names.map(name => [name.toLowerCase(), name])).values()].join(', '))
}

/** A stream of events may be silent for any time. A client that takes nothing of it has as much time as every other. */
function allowSilence ({ raw }: FastifyReply, body: Readable) {
  const socket = raw.socket!
  const limitMs = socket.timeout!
  socket.setTimeout(0).setKeepAlive(true, KEEP_ALIVE_MS)
  body.on('pause', () => socket.setTimeout(limitMs))
  raw.on('drain', () => socket.setTimeout(0))
}

/**
 * Whether Fastify takes a body that is no stream as it is. Without a content type that it understands it would write
 * its own, and without a body it would set the length to 0.
 */
function isPlainType (type: unknown): boolean {
  return typeof type === 'string' && PLAIN_TYPE.test(type)
}

/** Passes an interim answer on (RFC 9110 section 15.2). Node can write only those that it knows. */
export function sendInterim (reply: FastifyReply, status: number, headers: AnswerHeaders): void {
  const { raw, request } = reply
  // RFC 9110 section 15.2: a client of HTTP/1.0 knows none.
  if (request.raw.httpVersion === '1.0') return
  // A client that does not take them is not to fill the memory with them.
  if (raw.socket?.writableNeedDrain) return
  if (status === 102) return raw.writeProcessing()
  // RFC 9110 section 8.6: an interim answer has no length. Section 5.3: lines of Set-Cookie cannot be joined, as Node
  // does here, where RFC 6265 section 3 lets clients ignore them.
  const names = namesOf(reply, headers).filter(name => name !== 'content-length' && name !== 'set-cookie')
  const { link, ...hints } = Object.fromEntries(names.map(name => [name, headers[name]!]))
  if (status !== 103 || !link) return
  try {
    raw.writeEarlyHints({ ...hints, link })
  } catch {
    // Node refuses links that are not well-formed. They are only hints.
  }
}
