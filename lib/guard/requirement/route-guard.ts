import { hiddenMember } from '../../base/hidden-member.ts'
import type { Requirement } from './requirement.ts'

/** What the guards of a route ask for together: the token must meet each of them. */
export type RouteGuard = readonly Requirement[]

/**
 * The key under which the config of a route carries its guard. It is a symbol, because the names in a config belong to
 * the app.
 */
export const kRouteGuard = Symbol('holdfast.routeGuard')

/** The config of a route, which carries the guard of the route if the service notes guards. */
export interface MayHaveGuard {
  readonly [kRouteGuard]?: RouteGuard
}

/** The phases of the hooks before a handler, in their order. */
const PHASES = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const

/** The hooks before a handler: each is one function, a list of functions, or undefined. */
export type RouteHooks = { readonly [Phase in (typeof PHASES)[number]]?: unknown }

/**
 * The requirements of hooks, in the order in which they run: phase by phase, the hooks around a route before its own.
 * Each guard carries its `requirement`.
 */
export function requirementsOf (...hooks: readonly RouteHooks[]): RouteGuard {
  const guards = PHASES.flatMap(phase => hooks.flatMap(of => [of[phase]].flat())).filter(isGuard)
  return [...new Set(guards)].map(({ requirement }) => requirement)
}

/**
 * Refuses a guard as a hook for another phase. After the handler it would leave the route open.
 * @throws TypeError
 */
export function refuseLateGuards (hooks: object): void {
  for (const [name, hook] of Object.entries(hooks)) {
    if (/^(?:on|pre)[A-Z]/.test(name) && !PHASES.some(phase => phase === name) && [hook].flat().some(isGuard)) {
      throw new TypeError(`A guard is no hook for ${name}, but for onRequest or a later phase before the handler`)
    }
  }
}

/**
 * The hooks that a Fastify scope adds to all of its routes. None if Fastify keeps them elsewhere: then they are judged
 * all the same, and only not described.
 */
export function hooksAround (scope: object): RouteHooks {
  return (hiddenMember(scope, 'fastify.hooks')?.value ?? {}) as RouteHooks
}

const AWAITED =
  'A guard of the app was awaited, and that checks no request. Name the guard in the route, as { onRequest: ' +
  'app.authenticate() }, or in a handler await request.authenticate()'

/**
 * Makes a function a guard: it carries its requirement, and it cannot be awaited. `await app.authenticate()` makes a
 * guard and checks nothing. Without a `then` of its own, a hook or handler with that line would let every request pass.
 */
export function asGuard (hook: (...args: never[]) => unknown, requirement: Requirement): object {
  const then = (_resolve: unknown, reject: (error: Error) => void) => reject(new TypeError(AWAITED))
  return Object.defineProperty(Object.assign(hook, { requirement }), 'then', { value: then })
}

/** Whether a hook is a guard. */
function isGuard (hook: unknown): hook is { readonly requirement: Requirement } {
  return typeof hook === 'function' && typeof (hook as { readonly requirement?: unknown }).requirement === 'object'
}

/** Every scope that a requirement names. */
export function scopesOf ({ scope = [], anyScope = [] }: Requirement): readonly string[] {
  return [...scope, ...anyScope]
}

/** Whether a request without credentials passes: each guard must let it pass. */
export function isOptional (guard: RouteGuard): boolean {
  return guard.every(({ optional }) => optional)
}

/** The sets of scopes of which a token needs one. One empty set if no scope is asked for. */
export function scopeAlternatives (guard: RouteGuard): ReadonlyArray<readonly string[]> {
  let alternatives: ReadonlyArray<readonly string[]> = [[]]
  for (const { scope = [], anyScope } of guard) {
    const choices = anyScope ? anyScope.map(name => [...scope, name]) : [scope]
    alternatives = alternatives.flatMap(set => choices.map(choice => [...new Set([...set, ...choice])]))
  }
  return alternatives
}

/**
 * What a requirement asks for beyond scopes, one phrase for each thing, for people. Names and values are between
 * back-quotes.
 */
export function phrasesOf ({ acr, maxAgeSeconds, claims = [], authorizationDetails = [] }: Requirement): string[] {
  return [
    ...acr ? [`a login with the acr ${anyOf(acr)}`] : [],
    ...maxAgeSeconds === undefined ? [] : [`a login at most ${maxAgeSeconds} seconds ago`],
    ...claims.map(({ name, allowed }) =>
      `the claim ${quoted(name)} with ${allowed ? anyOf(allowed) : 'a value that the route accepts'}`
    ),
    ...authorizationDetails.map(({ type, check }) =>
      `an authorization detail of the type ${quoted(type)}${check ? ' that the route accepts' : ''}`
    )
  ]
}

function anyOf (values: readonly unknown[]): string {
  return values.map(quoted).join(' or ')
}

function quoted (value: unknown): string {
  return `\`${String(value).replaceAll('`', "'")}\``
}

/** A requirement as JSON, for programs. A predicate is the word `predicate`. */
export function requirementJson ({ claims, authorizationDetails, ...plain }: Requirement): object {
  return {
    ...plain,
    ...claims && { claims: Object.fromEntries(claims.map(({ name, allowed }) => [name, allowed ?? 'predicate'])) },
    ...authorizationDetails &&
      {
        authorizationDetails: authorizationDetails.map(({ type, check }) => ({
          type,
          ...check && { check: 'predicate' }
        }))
      }
  }
}
