import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { HoldfastOptions } from '../../lib/settings/option-types.ts'
import audit from '../../plugins/audit.ts'
import auth from '../../plugins/auth.ts'
import revocation from '../../routes/revocation.ts'
import appDocument from './app-document.ts'

/**
 * The guard as a Fastify plugin: `await app.register(holdfast, { idp: { domain, audience } })`. With the section
 * `revocation` it serves the endpoints under `/revocation`, too, after the `prefix` of `register`. If the app has
 * @fastify/swagger, its document shows the guards.
 * @example await app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'https://api.example' } })
 */
export default fp(async (given: object, options: HoldfastOptions): Promise<void> => {
  // Frameworks bring a Fastify of their own, whose types are other types.
  const app = given as FastifyInstance
  await app.register(auth, options)
  await app.register(audit)
  await app.register(appDocument)
  // Fastify gives no prefix of its own to a plugin that shares the app.
  await app.register(revocation, { prefix: (options as { readonly prefix?: string }).prefix })
}, { name: 'holdfast-guard', fastify: '>=5 <7' })
/**
 * Its interfaces are exported as a whole, so that `declare module 'holdfast' { interface AccessTokenClaims { ... } }`
 * merges into it.
 */
export * from '../../lib/guard/token/access-token-claims.ts'
export { Refusal, REFUSALS } from '../../lib/refusal.ts'
export type { RefusalDetail, RefusalKind, RefusalReason } from '../../lib/refusal.ts'
export { SettingsError } from '../../lib/base/settings-error.ts'
export type {
  AuditOptions,
  EnvironmentOptions,
  FileOptions,
  GateOptions,
  GateRuleOptions,
  HoldfastOptions,
  IntrospectionOptions,
  IssuerLookup,
  IssuerOptions,
  LogoutOptions,
  McpTargetOptions,
  RevocationOptions,
  SecretOption,
  SecretPlace,
  TransmitterOptions
} from '../../lib/settings/option-types.ts'
export type {
  AnyScope,
  AuthorizationDetail,
  ClaimRequirement,
  ClaimRule,
  ClaimValue,
  DetailRequirement,
  Predicate,
  RequiredScopes,
  Requirement,
  RequirementOptions
} from '../../lib/guard/requirement/requirement.ts'
export type { ArgumentOption } from '../../lib/gate/arguments.ts'
export type { AuthScheme } from '../../lib/guard/credentials.ts'
export type { RequestAuth } from '../../lib/guard/request-auth.ts'
export type { GuardHook } from '../../plugins/auth/augmentation.ts'
