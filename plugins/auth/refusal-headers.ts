import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'

const kRefused = Symbol('holdfast.refused')

/** An answer to a refused request is for this request only. */
export const NO_STORE = { 'cache-control': 'no-store' }

/** What is needed of a Fastify reply. */
export interface AnswerInWaiting {
  readonly raw: Pick<ServerResponse, 'headersSent' | 'removeHeader' | 'writeHead'> & {
    [kRefused]?: Record<string, string>
  }
  hasHeader (name: string): boolean
  headers (values: Readonly<Record<string, string>>): unknown
}

/**
 * Puts the headers of a refusal on the answer, so that they reach the client whoever handles the error. Only where the
 * status is written is it known for certain: a hook or a `Response` may still change it. If it is below 400, the
 * request was not refused after all, and the headers are taken off (a client must not find a challenge in an answer of
 * success). From 500 on the fault is ours, and the challenge is taken off: another token would not help.
 */
export function putRefusalHeaders (reply: AnswerInWaiting, given: Readonly<Record<string, string>>): void {
  const { raw } = reply
  if (raw.headersSent) return
  // What keeps each answer of an app out of caches must stay.
  const values = reply.hasHeader('cache-control') ? given : { ...given, ...NO_STORE }
  reply.headers({ ...given, ...NO_STORE })
  if (raw[kRefused]) {
    Object.assign(raw[kRefused], values)
    return
  }
  const refused: Record<string, string> = { ...values }
  raw[kRefused] = refused
  const { writeHead } = raw
  raw.writeHead = function (this: ServerResponse, status: number, ...rest: unknown[]) {
    const { 'www-authenticate': challenge = '' } = refused
    if (status < 400) withdraw(this, refused, rest.at(-1))
    else if (status >= 500) withdraw(this, { 'www-authenticate': challenge }, rest.at(-1))
    return Reflect.apply(writeHead, this, [status, ...rest]) as ServerResponse
  } as typeof writeHead
}

/** Takes the headers off, unless others have put another value there. */
function withdraw (response: ServerResponse, refused: Readonly<Record<string, string>>, given: unknown) {
  for (const [name, value] of Object.entries(refused)) {
    if (response.getHeader(name) === value) response.removeHeader(name)
    // node:http takes a flat list of names and values, too.
    if (Array.isArray(given)) {
      const at = given.findIndex((text, index) => text === name && given[index + 1] === value)
      given.splice(at, at < 0 ? 0 : 2)
    }
    const headers = Object(given) as OutgoingHttpHeaders
    if (headers[name] === value) delete headers[name]
  }
}
