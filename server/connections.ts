import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { nextTick } from 'node:process'
import { hasBody } from '../lib/guard/message.ts'
import { faultOf, refuseFaulty } from './client-error.ts'
import { owedAnswer } from './node-members.ts'

/** The number of requests of one connection that may wait behind the answer that it owes. Node has no limit. */
const MAX_WAITING = 32
/**
 * Bytes of heads and bodies that may wait on all connections together. 10,000 connections could otherwise have 5 GB
 * here.
 */
const MAX_WAITING_BYTES = 32 * 1024 * 1024
/** As much as Node reads of a body that is not taken. */
const MAX_BODY_BYTES = 64 * 1024

/** Milliseconds for which a connection may be silent. */
const SILENCE_MS = 30_000
/** By then whoever waits for something else has given up. */
const MARGIN_MS = 5_000
/** Milliseconds that a body may take to end when its answer has been sent. */
export const LINGER_MS = 5_000
/** Milliseconds after which a client that has shut its sending side is asked whether it is still there. */
const PROBE_MS = 250

/**
 * Milliseconds for which the connection of a client may be silent, in both directions, if its request may take so many
 * seconds.
 */
export function silenceMs (timeoutSeconds: number): number {
  return Math.max(SILENCE_MS, timeoutSeconds * 1000 + MARGIN_MS)
}

/** What waits on one connection. */
interface Waiting {
  count: number
  bytes: number
}

/** Hands requests to a handler one after the other. */
export type InTurn = (handle: RequestListener) => RequestListener

/**
 * Hands a request to its handler when the answers before it on its connection have been sent (RFC 9112 section 9.3.2).
 * Until then nothing is done for it: its client may be gone by then, and Node does not tell an answer that waits. A
 * connection on which too much waits is ended.
 */
export function createAnswerOrder (): InTurn {
  const waitingOn = new WeakMap<Socket, Waiting>()
  let allBytes = 0

  function count (waiting: Waiting, requests: number, bytes: number) {
    waiting.count += requests
    waiting.bytes += bytes
    allBytes += bytes
  }

  function startWaiting (socket: Socket): Waiting {
    const waiting = { count: 0, bytes: 0 }
    waitingOn.set(socket, waiting)
    socket.once('close', () => count(waiting, 0, -waiting.bytes))
    return waiting
  }

  return handler => (request, response) => {
    const { socket } = request
    const handle = faultOf(request) ? refuseFaulty : handler
    // RFC 9112 section 9.6: nothing follows the last answer. Node still gives what it has read.
    if (socket.destroyed || socket.writableEnded) return
    if (response.socket) return begin()
    const waiting = waitingOn.get(socket) ?? startWaiting(socket)
    const bytes = sizeOf(request)
    if (waiting.count === MAX_WAITING || allBytes + bytes > MAX_WAITING_BYTES) {
      socket.destroy()
      return
    }
    count(waiting, 1, bytes)
    response.once('socket', () => {
      count(waiting, -1, -bytes)
      // Node has more to do before the answer may begin.
      nextTick(() => {
        if (!socket.destroyed) begin()
      })
    })

    function begin () {
      if (hasBody(request)) outliveBody(request, response)
      handle(request, response)
    }
  }
}

function sizeOf ({ url, rawHeaders, headers }: IncomingMessage): number {
  const body = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : MAX_BODY_BYTES
  return rawHeaders.reduce((bytes, text) => bytes + text.length, url!.length) + Math.min(body, MAX_BODY_BYTES)
}

/**
 * Has an answer reach its client although the body of the request has not come, also if it ends the connection: what
 * comes on a connection that is closed at once has the system discard what the client has not read. Nothing is read of
 * the body any more, and it must end soon.
 */
function outliveBody (request: IncomingMessage, response: ServerResponse) {
  const { socket } = request
  const end = () => socket.destroy()
  // Before Node does what follows an answer.
  response.prependOnceListener('finish', () => {
    if (request.complete) return
    const timer = setTimeout(end, LINGER_MS).unref()
    socket.destroySoon = () => {
      socket.end()
      request.once('end', end)
    }
    request.once('end', () => {
      clearTimeout(timer)
      // A connection that stays would otherwise hold all that belongs to the request.
      socket.destroySoon = Socket.prototype.destroySoon
    })
  })
}

/**
 * Decides whether a client that has shut its sending side is gone. Before its answer begins, it may wait for it. Then
 * it is sent interim answers, which fail if it is gone, the second one at the latest. RFC 9110 section 15.2: it can
 * parse what it did not ask for.
 */
export function noticeGone (socket: Socket): void {
  const owed = owedAnswer(socket)
  if (!owed) return
  if (owed.headersSent) {
    if (!owed.writableEnded) socket.destroy()
    return
  }
  let probes = 0
  const timer = setInterval(() => {
    const answer = owedAnswer(socket)
    if (answer && !answer.headersSent && answer.req.httpVersion !== '1.0') answer.writeContinue()
    if (++probes === 2) clearInterval(timer)
  }, PROBE_MS).unref()
  socket.once('close', () => clearInterval(timer))
}
