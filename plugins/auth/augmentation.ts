import type { FastifyRequest } from 'fastify'
import type { GuardParts } from '../../lib/assembly/create-guard.ts'
import type { Admission } from '../../lib/guard/admission.ts'
import type { Decisions } from '../../lib/guard/decisions.ts'
import type { GuardedRequest } from '../../lib/guard/guard.ts'
import type { Observed } from '../../lib/guard/observing.ts'
import type { RequestAuth } from '../../lib/guard/request-auth.ts'
import type { RequiredScopes, Requirement, RequirementOptions } from '../../lib/guard/requirement/requirement.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import type { AccessTokenClaims } from '../../lib/guard/token/access-token-claims.ts'
import type { OpenAnswers } from './open-answers.ts'

/**
 * A guard of a route: a hook for onRequest, or for a later phase before the handler (preParsing has a payload before
 * `done`). It says nothing of the kind of server, logger or schema, so it fits into every app.
 */
export interface GuardHook {
  (request: { readonly raw: object }, reply: object, doneOrPayload: object, done?: (error?: Error) => void): void
  /** What the route asks for, for the API description. */
  readonly requirement: Requirement
}

/** What the guard shares with the plugins that report on it, and with the doors of a gate. @internal */
export interface SharedGuard {
  /** The settings that it was built from. */
  readonly settings: Settings
  /** The parts behind it, for health, metrics and the endpoints of revocation. */
  readonly parts: GuardParts
  /** Counts what it does. Absent if metrics are off. */
  readonly tally: GuardParts['tally']
  /** Where each decision is known. */
  readonly decisions: Decisions<FastifyRequest>
  /** Every scope that a guard of any route names, complete once the app is ready. A gate adds those of its rules. */
  readonly guardedScopes: Set<string>
  /**
   * Makes a guard for the rules of a gate.
   * @param guarded the request that is judged, such as that of the client in forward auth
   * @param audiences replace the configured ones
   */
  readonly admissionOf: (
    guarded: (request: FastifyRequest) => GuardedRequest,
    audiences: readonly string[] | undefined
  ) => Admission<FastifyRequest>
  /** What is open and ends with its token: nothing without revocation. */
  readonly openAnswers: Pick<OpenAnswers<FastifyRequest>, 'state'>
  /** Ends what an admitted request has opened when its token ends. Undefined without revocation. */
  readonly endWithToken: ((request: FastifyRequest) => void) | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Makes the guard that lets a request pass if it carries a valid access token, and a valid proof if the token is
     * bound. `authenticate` is also such a guard itself, but it is safer to call it: before this plugin has loaded, the
     * call throws, while the bare name is undefined, and an undefined hook leaves the route open.
     * @example app.get('/me', { onRequest: app.authenticate() }, request => request.user.sub)
     */
    authenticate: GuardHook & (() => GuardHook)
    /**
     * Makes the same guard, and the token must also meet all that is given: `scope`, `anyScope`, `claims`, `acr`,
     * `maxAgeSeconds`, `authorizationDetails`. With `optional`, a request without credentials passes too;
     * `request.auth` is then null.
     * @example
     * const onRequest = app.require({ scope: 'pay', maxAgeSeconds: 300 })
     * app.post('/payments', { onRequest }, request => request.user.sub)
     */
    require (requirement: RequirementOptions): GuardHook
    /**
     * Short for `require({ scope: [...] })`, or with `{ any: [...] }` for `require({ anyScope: [...] })`.
     * @example
     * const onRequest = app.requireScope({ any: ['read:orders', 'admin'] })
     * app.get('/orders', { onRequest }, request => request.user.sub)
     */
    requireScope (...scopes: RequiredScopes): GuardHook
    /** What other plugins and routes share with the guard. @internal */
    holdfastGuard: SharedGuard
  }
  interface FastifyRequest {
    /**
     * How the request proved its sender. Null until its token and proof have passed, and if they are refused. `user` is
     * then null too.
     */
    auth: RequestAuth | null
    /**
     * What would have been answered, if the request was refused and passes because of `server.observe`. `user` and
     * `auth` are then null. Otherwise null.
     */
    observed: Observed | null
    /**
     * Does in a handler what the guard `app.authenticate()` does before it. Rejects with a `Refusal`. However often a
     * handler asks, token and proof are checked once.
     * @example
     * app.get('/me', async request => {
     *   await request.authenticate()
     *   return request.user.sub
     * })
     */
    authenticate (): Promise<void>
    /**
     * Does in a handler what the guard `app.require(requirement)` does before it. Rejects with a `Refusal`.
     * @example await request.require({ claims: { 'realm_access.roles': 'editor' } })
     */
    require (requirement: RequirementOptions): Promise<void>
    /**
     * Short for `require({ scope: [...] })`, or with `{ any: [...] }` for `require({ anyScope: [...] })`.
     * @example if (request.method === 'DELETE') await request.requireScope('admin')
     */
    requireScope (...scopes: RequiredScopes): Promise<void>
  }
}

/**
 * Gives `request.user` its type. An app may declare that member itself, or its @fastify/jwt does. Two declarations of
 * one member must be equal, but a member may replace an inherited one. So this one is inherited, and it gives way to
 * any type as soon as the member is no longer read-only, which means that it is the app's.
 */
interface DefaultUser {
  /** The verified claims of the access token. Null until token and proof have passed. */
  readonly user: IsSame<Pick<{ [Member in keyof FastifyRequest]: Member }, 'user'>, ReadOnlyUser> extends true
    ? AccessTokenClaims
    : unknown
}

interface ReadOnlyUser {
  readonly user: 'user'
}
type IsSame<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

declare module 'fastify' {
  interface FastifyRequest extends DefaultUser {}
}

/**
 * An @fastify/jwt of the app declares `request.user` by this member. Most apps have none.
 * @ts-ignore */
declare module '@fastify/jwt' {
  /** As above. */
  interface DefaultJwtUser {
    /** The verified claims of the access token. */
    readonly user: IsSame<Pick<{ [Member in keyof FastifyJWT]: Member }, 'user'>, ReadOnlyUser> extends true
      ? AccessTokenClaims
      : unknown
  }
  interface FastifyJWT extends DefaultJwtUser {}
}
