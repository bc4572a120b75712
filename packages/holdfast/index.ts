import auth from '../../plugins/auth.ts'

/** The guard as a Fastify plugin: `await app.register(holdfast, { idp: { domain, audience } })`. */
export default auth
/** Its interface is exported as a whole, so that `declare module 'holdfast' { interface AccessTokenClaims { ... } }` merges into it. */
export * from '../../lib/token/access-token-claims.ts'
export { Refusal, REFUSALS } from '../../lib/refusal.ts'
export type { RefusalDetail, RefusalKind, RefusalReason } from '../../lib/refusal.ts'
export { SettingsError } from '../../lib/settings/problems.ts'
export type { EnvironmentOptions, FileOptions, HoldfastOptions, IntrospectionOptions, IssuerLookup, IssuerOptions } from '../../lib/settings/option-types.ts'
export type { GateOptions, GateRuleOptions } from '../../lib/gate/gate-options.ts'
export type {
  AuthorizationDetail, ClaimRequirement, ClaimRule, ClaimValue, DetailRequirement, Predicate, RequiredScopes, Requirement, RequirementOptions
} from '../../lib/guard/requirement.ts'
export type { Scheme } from '../../lib/scheme.ts'
export type { GuardHook, RequestAuth } from '../../plugins/auth.ts'
