import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Admission } from '../../lib/guard/admission.ts'
import {
  ANY_TOKEN,
  parseRequiredScopes,
  parseRequirement,
  type Requirement
} from '../../lib/guard/requirement/requirement.ts'
import { asGuard } from '../../lib/guard/requirement/route-guard.ts'
import type { GuardHook } from './augmentation.ts'
import { kReply } from './replies.ts'

/** Puts the makers of guards on the app, and on its requests what does the same in a handler. */
export function decorateGuards (app: FastifyInstance, { admit, admitOnce }: Admission<FastifyRequest>): void {
  app.decorateRequest('authenticate', function (...args: unknown[]) {
    return args.length === 0 ? admitOnce(this, ANY_TOKEN) : refuseArguments()
  })
  app.decorateRequest('require', function (options) {
    return admitOnce(this, parseRequirement(options))
  })
  app.decorateRequest('requireScope', function (...scopes) {
    return admitOnce(this, parseRequiredScopes(...scopes))
  })

  const anyToken = guardHook(ANY_TOKEN)
  app.decorate(
    'authenticate',
    asGuard(function (...args: unknown[]) {
      if (args.length === 0) return anyToken
      if (args.length < 3 || typeof args.at(-1) !== 'function') refuseArguments()
      return Reflect.apply(anyToken, app, args)
    }, ANY_TOKEN) as FastifyInstance['authenticate']
  )
  app.decorate('require', options => guardHook(parseRequirement(options)))
  app.decorate('requireScope', (...scopes) => guardHook(parseRequiredScopes(...scopes)))

  function guardHook (requirement: Requirement) {
    return asGuard(
      // Only a hook for preParsing gets a payload before its callback.
      (request: FastifyRequest, reply: FastifyReply, payload: unknown, done = payload as (error?: Error) => void) => {
        // The route may be of another scope.
        request[kReply] ??= reply
        admit(request, requirement, done)
      },
      requirement
    ) as GuardHook
  }
}

/** Whoever gives arguments asks for more than any token. */
function refuseArguments (): never {
  throw new TypeError('authenticate takes no arguments; require and requireScope say what a token needs')
}
