import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'

const kRefused = Symbol('holdfast.refused')

/** What is needed of a Fastify reply. */
export interface AnswerInWaiting {
  readonly raw: Pick<ServerResponse, 'headersSent' | 'removeHeader' | 'writeHead'> & {
    [kRefused]?: Record<string, string>
  }
  headers (values: Readonly<Record<string, string>>): unknown
}

/**
 * Puts the headers of a refusal on the answer, so that they reach the client whoever handles the error. Only where the
 * status is written is it known for certain: a hook or a `Response` may still change it. If it is below 400, the
 * request was not refused after all, and the headers are taken off (a client must not find a challenge in an answer of
 * success).
 */
export function putRefusalHeaders (reply: AnswerInWaiting, values: Readonly<Record<string, string>>): void {
  const { raw } = reply
  if (raw.headersSent) return
  reply.headers(values)
  if (raw[kRefused]) {
    Object.assign(raw[kRefused], values)
    return
  }
  const refused: Record<string, string> = { ...values }
  raw[kRefused] = refused
  const { writeHead } = raw
  raw.writeHead = function (this: ServerResponse, status: number, ...rest: unknown[]) {
    if (status < 400) withdraw(this, refused, rest.at(-1))
    return Reflect.apply(writeHead, this, [status, ...rest]) as ServerResponse
  } as typeof writeHead
}

/** Takes the headers off, unless others have put another value there. */
function withdraw (response: ServerResponse, refused: Readonly<Record<string, string>>, given: unknown): void {
  for (const [name, value] of Object.entries(refused)) {
    if (response.getHeader(name) === value) response.removeHeader(name)
    const headers = Object(given) as OutgoingHttpHeaders
    if (headers[name] === value) delete headers[name]
  }
}
