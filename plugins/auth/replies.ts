import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { hiddenMember } from '../../lib/base/hidden-member.ts'
import type { AdmissionOptions } from '../../lib/guard/admission.ts'
import { hooksAround } from '../../lib/guard/requirement/route-guard.ts'
import { Refusal } from '../../lib/refusal.ts'
import { putRefusalHeaders } from './refusal-headers.ts'

/** The key of the reply to a request. A guard in a handler has none at hand. */
export const kReply = Symbol('holdfast.reply')

declare module 'fastify' {
  interface FastifyRequest {
    /** @internal */
    [kReply]: FastifyReply | null
  }
}

/** Keeps the reply to each request, before any hook runs: one that the app has added earlier may call a guard. */
export function keepReplies (app: FastifyInstance): void {
  app.decorateRequest(kReply, null)
  const keep = (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    request[kReply] = reply
    done()
  }
  app.addHook('onRequest', keep).after(() => putFirst(app, keep))
}

/** Moves a hook before all others of a scope, and of the scopes below that are there already. */
function putFirst (scope: object, hook: unknown) {
  const { onRequest } = hooksAround(scope) as { readonly onRequest?: unknown[] }
  onRequest?.sort((one, other) => Number(other === hook) - Number(one === hook))
  const below = hiddenMember(scope, 'fastify.children')?.value as readonly object[] | undefined
  below?.forEach(child => putFirst(child, hook))
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
