import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AdmissionOptions } from '../../lib/guard/admission.ts'
import { Refusal } from '../../lib/refusal.ts'
import { putRefusalHeaders, type AnswerInWaiting } from './refusal-headers.ts'

const kReply = Symbol('holdfast.reply')

declare module 'fastify' {
  interface FastifyRequest {
    /** @internal */
    [kReply]: AnswerInWaiting | null
  }
}

/** A guard in a handler has no reply at hand. */
export function keepReplies (app: FastifyInstance): void {
  app.decorateRequest(kReply, null)
  app.addHook('onRequest', (request, reply, done) => {
    request[kReply] = reply
    done()
  })
}

type Refuse = AdmissionOptions<FastifyRequest>['refuse']

/** Puts the headers of a refusal on the reply, too: Fastify sends those of an error with its own answer only. */
export function onReplies (refuse: Refuse): Refuse {
  return (request, error, requirement) => {
    const refusal = refuse(request, error, requirement)
    const { [kReply]: reply } = request
    if (reply && refusal instanceof Refusal) putRefusalHeaders(reply, refusal.headers!)
    return refusal
  }
}
