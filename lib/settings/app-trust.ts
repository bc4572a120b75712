import type { AppTrust } from '../url/forwarded.ts'
import type { RawSettings } from './specs.ts'

/** What `Fastify({ trustProxy })` takes. */
type TrustOption = boolean | string | number | readonly string[] | AppTrust | undefined

/** Options that say whom to trust, or the function of the app that does. */
export interface TrustedOptions {
  readonly options: RawSettings
  readonly trustPeer: AppTrust | undefined
}

/**
 * Completes options that say nothing of `trustProxy` by that of the app: a proof is then judged by the host and the scheme that the app
 * itself believes. A number of hops does not say which peer is a proxy. Fastify trusts no peer then, and neither does this.
 */
export function withTrustOf (app: object, options: RawSettings): TrustedOptions {
  const trust = options.server.trustProxy === undefined ? trustOf(app) : undefined
  if (typeof trust === 'function') return { options, trustPeer: trust }
  const isSaid = trust !== undefined && typeof trust !== 'number'
  return { options: isSaid ? { ...options, server: { ...options.server, trustProxy: trust } } : options, trustPeer: undefined }
}

/**
 * The option of the app. Fastify has no public way to ask for it, so this looks at the property that keeps it. Undefined if there is no
 * such property: then no peer is trusted.
 */
function trustOf (app: object): TrustOption {
  for (let owner: object | null = app; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    const key = Object.getOwnPropertySymbols(owner).find(({ description }) => description === 'fastify.options')
    if (key) return (owner as Record<symbol, { readonly trustProxy?: TrustOption }>)[key]!.trustProxy
  }
  return undefined
}
