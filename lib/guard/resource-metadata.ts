import { parsePublicUrl } from '../url/base-url.ts'
import type { BaseUrl } from '../url/base-url.ts'
import type { Settings } from '../settings/settings.ts'

/** RFC 9728 section 3. */
export const METADATA_PATH = '/.well-known/oauth-protected-resource'

/** The members of RFC 9728 section 2 that this service publishes. */
export interface ResourceMetadata {
  readonly resource: string
  /** Absent if the configured domain is unusable. */
  readonly authorization_servers?: readonly string[]
  readonly scopes_supported: readonly string[]
  readonly bearer_methods_supported: readonly string[]
  readonly resource_name: string
  readonly resource_documentation: string
  readonly dpop_bound_access_tokens_required: boolean
  /** Absent if DPoP is off. */
  readonly dpop_signing_alg_values_supported?: readonly string[]
}

/**
 * Describes the service to clients that know only its address.
 * @param base the address under which the client reaches the service
 */
export function describeResource (base: BaseUrl, scopes: readonly string[], { issuer, dpopMode, DPOP_ALGS }: Settings): ResourceMetadata {
  return {
    resource: base.href,
    ...(issuer === undefined ? {} : { authorization_servers: [issuer] }),
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
    resource_name: 'Holdfast',
    resource_documentation: `${base.href}/docs`,
    dpop_bound_access_tokens_required: dpopMode === 'REQUIRED',
    ...(dpopMode === 'DISABLED' ? {} : { dpop_signing_alg_values_supported: DPOP_ALGS })
  }
}

/** The location of a resource's metadata: the well-known path goes between host and prefix (RFC 9728 section 3.1). */
export function metadataUrl ({ scheme, host, prefix }: BaseUrl): string {
  return `${scheme}://${host}${METADATA_PATH}${prefix}`
}

/** The address of an application that is mounted under `mount`, which is empty if it is not mounted. */
export function mountedAt (base: BaseUrl, mount: string): BaseUrl {
  return { ...base, prefix: base.prefix + mount, href: base.href + mount }
}

/**
 * The `resource_metadata` of challenges (RFC 9728 section 5.1). It follows only from PUBLIC_URL, since no byte of a request goes into
 * a header. Undefined if PUBLIC_URL is not set.
 */
export function metadataUrlOf (publicUrl: string | undefined, mount: string): string | undefined {
  const base = publicUrl === undefined ? undefined : parsePublicUrl(publicUrl)
  return base && metadataUrl(mountedAt(base, mount))
}
