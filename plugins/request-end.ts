import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { endOf, UNROUTABLE } from '../server/request-ends.ts'
import type { RequestEnd } from '../lib/report/metrics/tallies.ts'

const kEnded = Symbol('holdfast.ended')

/** How an upgraded connection ended, and how much it carried. */
interface UpgradeEnd {
  readonly closedBy: string
  /** Bytes from the client, and to it. */
  readonly received: number
  readonly sent: number
}

/** What is known of a request when it has ended. */
interface EndedRequest {
  readonly end: RequestEnd
  /** Of the answer, if its head was sent. 499, as with nginx, if the client was gone before. */
  readonly status: number
  readonly ms: number
  /** The pattern of its route, or of the rule at a gate, or undefined if none was found. */
  readonly route: string | undefined
  /** The method or tool of the Model Context Protocol, as the rule names it. */
  readonly call: string | undefined
  readonly upgrade: UpgradeEnd | undefined
}

type EndListener = (request: FastifyRequest, ended: EndedRequest) => void

declare module 'fastify' {
  interface FastifyInstance {
    /** Learns how each request ended, once for each. */
    onRequestEnd: (listener: EndListener) => void
    /** Ends a request that has no answer to end with. */
    endRequest: (request: FastifyRequest, reply: FastifyReply, upgrade: UpgradeEnd) => void
  }
  interface FastifyRequest {
    /** @internal */
    [kEnded]: boolean
  }
}

/** Each request ends once, also if its client goes away, or its upstream fails in the middle of an answer. */
export default fp(async app => {
  const listeners: EndListener[] = []
  app.decorate('onRequestEnd', listener => {
    listeners.push(listener)
  })
  app.decorateRequest(kEnded, false)
  app.decorate('endRequest', (request, reply, upgrade) => end(request, reply, reply.raw.writableFinished, upgrade))

  const endAtClose = (request: FastifyRequest, reply: FastifyReply) => {
    // It comes once, also when the client has gone. `once` would cost each request more.
    reply.raw.on('close', () => end(request, reply, reply.raw.writableFinished))
  }
  app.server.on(UNROUTABLE, endAtClose)
  app.addHook('onRequest', (request, reply, done) => {
    endAtClose(request, reply)
    done()
  })
  // It comes before, if there is an answer. `writableFinished` also counts what waits on the connection for others.
  app.addHook('onResponse', (request, reply, done) => {
    end(request, reply, !reply.raw.errored)
    done()
  })

  function end (request: FastifyRequest, reply: FastifyReply, isAnswered: boolean, upgrade?: UpgradeEnd) {
    if (request[kEnded]) return
    request[kEnded] = true
    const { route, call } = app.holdfastGuard.decisions.routeOf(request)
    const { raw, elapsedTime: ms } = reply
    const status = upgrade ? 101 : raw.headersSent ? raw.statusCode : 499
    const isCut = app.closing.cut !== undefined
    const ended = {
      end: upgrade ? 'upgraded' : endOf(request, isAnswered, isCut),
      status,
      ms,
      route,
      call,
      upgrade
    } as const
    for (const listener of listeners) listener(request, ended)
  }
}, { name: 'request-end', dependencies: ['holdfast-auth', 'gate', 'closing'] })
