import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import holdfast from '../../packages/holdfast/index.ts'
import type { Refusal, RefusalReason } from '../../lib/refusal.ts'
import type { AuthScheme } from '../../lib/guard/credentials.ts'
import type { RequestAuth } from '../../lib/guard/request-auth.ts'
import type { Requirement } from '../../lib/guard/requirement/requirement.ts'
import type { AccessTokenClaims } from '../../lib/guard/token/access-token-claims.ts'
import type { GuardHook } from '../../plugins/auth/augmentation.ts'

/** What a user of the plugin sees of its types. Nothing here runs: `npx tsc` judges it. */

/** True if both are the same type: what only fits in one direction, and `any`, are not. */
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

declare function holds<Statement extends true> (statement?: Statement): void

/** Frameworks bring a Fastify of their own, whose types are other types. */
interface OtherFastify {
  readonly version: 'another'
}
export const inAnotherFastify: (
  app: OtherFastify,
  options: { readonly idp: { readonly domain: string } }
) => Promise<void> = holdfast

export function theCaller (request: FastifyRequest): void {
  holds<Equal<typeof request.user, AccessTokenClaims>>()
  holds<Equal<typeof request.user.sub, string>>()
  holds<Equal<typeof request.user.exp, number>>()
  // A claim that only some providers send is to be looked at before it is used.
  holds<Equal<typeof request.user.scope, unknown>>()
  // @ts-expect-error a misspelt claim is none
  request.user.subb?.toString()

  holds<Equal<typeof request.auth, RequestAuth | null>>()
  // @ts-expect-error an optional guard, or none, leaves it null
  request.auth.scheme.toString()
  if (request.auth) {
    holds<Equal<typeof request.auth.scheme, AuthScheme>>()
    holds<Equal<typeof request.auth.scopes, readonly string[]>>()
    holds<Equal<typeof request.auth.jkt, string | undefined>>()
    holds<Equal<typeof request.auth.issuer, string>>()
    holds<Equal<typeof request.auth.expiresAt, number>>()
    // @ts-expect-error a handler cannot give a request more than its token did
    request.auth.scopes.push('admin')
    // @ts-expect-error nor another owner
    request.auth.issuer = 'https://other.example/'
  }
  // @ts-expect-error nor another name
  request.user.sub = 'other'
}

/** An app may keep an @fastify/jwt of its own: what it signs is its own affair. */
export function theOwnTokens (app: FastifyInstance): void {
  app.jwt.sign({ hello: 1 })
  app.jwt.sign('a text')
}

export function theRegisteredClaims ({ user }: FastifyRequest): void {
  holds<Equal<typeof user.client_id, string | undefined>>()
  holds<Equal<typeof user.jti, string | undefined>>()
  holds<Equal<typeof user.auth_time, number | undefined>>()
  holds<Equal<typeof user.acr, string | undefined>>()
  holds<Equal<typeof user.amr, readonly string[] | undefined>>()
  holds<Equal<typeof user.groups, unknown>>()
  holds<Equal<typeof user.roles, unknown>>()
  holds<Equal<typeof user.entitlements, unknown>>()
  holds<Equal<typeof user.authorization_details, unknown>>()
}

export function theGuards (app: FastifyInstance): void {
  const guard = app.authenticate()
  holds<Equal<typeof guard, GuardHook>>()
  holds<Equal<ReturnType<typeof app.requireScope>, GuardHook>>()
  holds<Equal<typeof guard.requirement, Requirement>>()
  const hooks: onRequestHookHandler[] = [app.authenticate, guard, app.requireScope('a')]
  app.get('/', { onRequest: hooks }, request => request.user.sub)
  app.get('/bare', { onRequest: app.authenticate }, request => request.user.sub)
  app.get('/later', { preParsing: guard, preValidation: guard, preHandler: [guard] }, request => request.user.sub)

  // @ts-expect-error scopes are for requireScope
  app.authenticate('read:messages')
  // @ts-expect-error so are lists of them
  app.authenticate({ any: ['read:messages'] })
}

export function theScopes (app: FastifyInstance, listed: readonly string[]): void {
  app.requireScope('a')
  app.requireScope('a', 'b')
  app.requireScope({ any: ['a', 'b'] })
  app.requireScope({ any: listed })

  // @ts-expect-error no scope at all
  app.requireScope()
  // @ts-expect-error a list that may be empty
  app.requireScope(...listed)
  // @ts-expect-error a list is neither all of them nor any
  app.requireScope(['a', 'b'])
  // @ts-expect-error a text is not a list of scopes
  app.requireScope({ any: 'a' })
  // @ts-expect-error what is beside `any` would be dropped
  app.requireScope({ any: ['a'] }, 'b')
  // @ts-expect-error the other way round too
  app.requireScope('b', { any: ['a'] })
  // @ts-expect-error another key says nothing
  app.requireScope({ any: ['a'], all: ['b'] })
  // @ts-expect-error no scope is a number
  app.requireScope(1)
  // @ts-expect-error nor is what may be missing
  app.requireScope(listed[0])
}

export function theRequirements (app: FastifyInstance, listed: readonly string[]): void {
  holds<Equal<ReturnType<typeof app.require>, GuardHook>>()
  app.get('/', {
    onRequest: app.require({ scope: 'a', anyScope: listed, acr: ['x'], maxAgeSeconds: 60, optional: true })
  }, request => request.auth?.scopes)
  app.require({
    claims: {
      tenant: 'blue',
      level: [1, 2],
      on: true,
      age: age => typeof age === 'number' && age > 17,
      team: async () => true
    }
  })
  app.require({
    authorizationDetails: { type: 'payment', check: detail => detail.type === 'payment' && detail.amount === 1 }
  })
  app.require({ authorizationDetails: [{ type: 'payment' }, { type: 'account' }] })

  // @ts-expect-error there is no such member
  app.require({ scopes: 'a' })
  // @ts-expect-error it takes one object
  app.require()
  // @ts-expect-error a scope is a text
  app.require({ scope: 1 })
  // @ts-expect-error so are seconds a number
  app.require({ maxAgeSeconds: '60' })
  // @ts-expect-error a claim cannot be required to be an object
  app.require({ claims: { address: { city: 'Bonn' } } })
  // @ts-expect-error only true and false are answers
  app.require({ claims: { tenant: () => 'blue' } })
  // @ts-expect-error a detail has a type
  app.require({ authorizationDetails: { check: () => true } })
}

export async function inAHandler (request: FastifyRequest): Promise<void> {
  holds<Equal<ReturnType<typeof request.authenticate>, Promise<void>>>()
  holds<Equal<ReturnType<typeof request.requireScope>, Promise<void>>>()
  holds<Equal<Parameters<typeof request.requireScope>, Parameters<FastifyInstance['requireScope']>>>()
  holds<Equal<Parameters<typeof request.require>, Parameters<FastifyInstance['require']>>>()
  await request.require({ maxAgeSeconds: 60 })
  await request.requireScope('a', 'b')
  // @ts-expect-error no scope at all
  await request.requireScope()
}

export function theReason (refusal: Refusal): string {
  holds<Equal<typeof refusal.reason, RefusalReason>>()
  // Were it any text, a misspelt reason would compile.
  holds<Equal<string extends RefusalReason ? true : false, false>>()
  holds<Equal<typeof refusal.statusCode, 401 | 403 | 429 | 503>>()
  // @ts-expect-error there is no such reason
  if (refusal.reason === 'token_expird') return 'never'
  switch (refusal.reason) {
    case 'token_expired':
      return 'Sign in again.'
    case 'scope_missing':
      return 'Ask for the permission.'
    default:
      return refusal.message
  }
}
