import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyBaseLogger } from 'fastify'
import { createPeerTrust } from '../lib/url/base-url.ts'
import type { TrustProxy } from '../lib/url/base-url.ts'

type ChildArguments = Parameters<FastifyBaseLogger['child']>
type Line = [fields: unknown, message?: string, ...values: unknown[]]

/** The logger of the server: pino's. */
type ServerLogger = FastifyBaseLogger & { isLevelEnabled (level: string): boolean }

/** What Fastify calls the id of a request in its lines. */
const REQUEST_ID = 'reqId'

/**
 * The logger of one request. Most requests write no line at the level in force, so the child that names the request is
 * made when the first line is written.
 */
class RequestLogger implements FastifyBaseLogger {
  readonly #parent: ServerLogger
  readonly #makeChild: ServerLogger['child']
  readonly #arguments: ChildArguments
  #own: FastifyBaseLogger | undefined

  constructor (parent: ServerLogger, makeChild: ServerLogger['child'], given: ChildArguments) {
    this.#parent = parent
    this.#makeChild = makeChild
    this.#arguments = given
  }

  get level (): string {
    return this.made().level
  }

  set level (level: string) {
    this.made().level = level
  }

  child (...given: ChildArguments): FastifyBaseLogger {
    return this.made().child(...given)
  }

  fatal (...line: Line): void {
    this.#writer('fatal')?.fatal(...line)
  }

  error (...line: Line): void {
    this.#writer('error')?.error(...line)
  }

  warn (...line: Line): void {
    this.#writer('warn')?.warn(...line)
  }

  info (...line: Line): void {
    this.#writer('info')?.info(...line)
  }

  debug (...line: Line): void {
    this.#writer('debug')?.debug(...line)
  }

  trace (...line: Line): void {
    this.#writer('trace')?.trace(...line)
  }

  silent (): void {}

  made (): FastifyBaseLogger {
    this.#own ??= this.#makeChild.apply(this.#parent, this.#arguments)
    return this.#own
  }

  #writer (level: string): FastifyBaseLogger | undefined {
    return this.#own ?? (this.#parent.isLevelEnabled(level) ? this.made() : undefined)
  }
}

/**
 * Has the logger of a server make the child for a request when its first line is written. A `childLoggerFactory` would
 * do that too, but Fastify looks for seven methods in each child that such a factory makes, in every request. A route
 * with a level of its own gets a child at once, and so does everybody but a request. A server that logs nothing has no
 * children.
 */
export function makeChildrenLate (log: FastifyBaseLogger): void {
  if (!isServerLogger(log)) return
  const { child } = log
  const Logger = withMembersOf(log)
  log.child = function (bindings, options) {
    return this === log && options?.level === undefined && bindings?.[REQUEST_ID] !== undefined
      ? new Logger(log, child, [bindings, options])
      : child.call(this, bindings, options)
  }
}

/** Adds what pino's loggers have beyond the types of Fastify, such as `setBindings`: plugins use it in requests. */
function withMembersOf (log: ServerLogger): typeof RequestLogger {
  class PinoRequestLogger extends RequestLogger {}
  for (const name in log) {
    if (name in RequestLogger.prototype) continue
    Object.defineProperty(PinoRequestLogger.prototype, name, {
      get (this: RequestLogger): unknown {
        const own = this.made()
        const member: unknown = Reflect.get(own, name)
        return typeof member === 'function' ? member.bind(own) : member
      }
    })
  }
  return PinoRequestLogger
}

function isServerLogger (log: FastifyBaseLogger): log is ServerLogger {
  return 'isLevelEnabled' in log
}

const ACCEPTED = /^[A-Za-z0-9._-]{1,128}$/

/** The parts of a request that its id is made from. */
export type IdentifiedMessage = Pick<IncomingMessage, 'headers'> & {
  readonly socket: { readonly remoteAddress?: string | undefined }
}

/**
 * Makes the id of a request for the log. If the peer is a trusted proxy and `X-Request-Id` is a plain word of at most
 * 128 characters, the id is that word. Otherwise it is our own id, unique among instances and restarts.
 */
export function createRequestIds (trustProxy: TrustProxy): (message: IdentifiedMessage) => string {
  const isTrusted = createPeerTrust(trustProxy)
  const instance = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers, socket }) => {
    const given = headers['x-request-id']
    if (typeof given === 'string' && ACCEPTED.test(given) && isTrusted(socket.remoteAddress)) return given
    return `${instance}-${(count++).toString(36)}`
  }
}
