import { isFetchableIssuer } from '../guard/provider/provider-url.ts'
import { parsePublicUrl } from '../guard/url/base-url.ts'
import { urlUnder, type HttpUrl } from '../guard/url/http-url.ts'
import type { IssuerSettings, Settings } from '../settings/settings.ts'

/** RFC 9728 section 3. */
export const METADATA_PATH = '/.well-known/oauth-protected-resource'

type ResourceSettings = Pick<Settings, 'idp' | 'server'>

/** The issuers whose audiences can be resources. In another claim than `aud` they are clients. */
function issuersByAud ({ idp: { issuers } }: ResourceSettings): readonly IssuerSettings[] {
  return issuers.filter(({ audienceClaim }) => audienceClaim === 'aud')
}

function areClients (settings: ResourceSettings): boolean {
  return settings.idp.issuers.length > 0 && issuersByAud(settings).length === 0
}

/**
 * The default audience if any issuer has it, else the one that all issuers have, or undefined if they have none in
 * common.
 */
function commonAudience (settings: ResourceSettings): string | undefined {
  const names = new Set(issuersByAud(settings).map(({ audiences: [name] }) => name))
  const common = settings.idp.audience?.[0]
  if (settings.idp.issuers.length === 0 || (common !== undefined && names.has(common))) return common
  return names.size === 1 ? [...names][0] : undefined
}

/**
 * The identifier that a client may name in its token request (RFC 8707), so that the token passes here. RESOURCE says
 * it. Otherwise it is the audience, if that can be such an identifier (RFC 9728 section 1.2). It is undefined if
 * neither is one.
 */
function configuredResource (settings: ResourceSettings): string | undefined {
  const audience = commonAudience(settings)
  return settings.server.resource ?? (audience !== undefined && isIdentifier(audience) ? audience : undefined)
}

/** Whether an audience can be the identifier of a resource (RFC 9728 section 1.2). */
function isIdentifier (audience: string): boolean {
  // The URL parser would leave a back-slash of a query in the challenge.
  return /^https:\/\/[^#\\]+$/i.test(audience) && URL.canParse(audience)
}

/**
 * What a client finds that is refused for want of a token for this audience, which a rule of a gate has in place of the
 * configured one: `default`, the metadata of the service; `own`, metadata of its own; `none`, because the audience is
 * no identifier of a resource.
 */
export function metadataOfAudience (
  audience: string | undefined,
  settings: ResourceSettings
): 'default' | 'own' | 'none' {
  if (audience === undefined || audience === configuredResource(settings)) return 'default'
  return isIdentifier(audience) && !areClients(settings) ? 'own' : 'none'
}

/**
 * A warning for the start if a client that follows the metadata gets a token that is refused here, or undefined if it
 * gets in.
 * @param mount the path under which the service is mounted; usually empty
 */
export function resourceWarning (settings: ResourceSettings, mount: string): string | undefined {
  const { publicUrl } = settings.server
  if (configuredResource(settings) !== undefined) return undefined
  const address = publicUrl === undefined ? undefined : urlUnder(parsePublicUrl(publicUrl)!, mount).href
  const common = commonAudience(settings)
  const accepted = [common, ...issuersByAud(settings).flatMap(({ audiences }) => audiences)]
  if (address !== undefined && accepted.includes(address)) return undefined
  const differing = common === undefined ? 'The issuers have no audience in common' : 'The audience is not an https URL'
  const lack = areClients(settings) ? 'The audience is a client' : differing
  return `${lack} and RESOURCE is not set, so the metadata names ` +
    `${address === undefined ? 'the address that the client used' : 'PUBLIC_URL'} as the resource. ` +
    'It differs from the audience: a client that asks for a token for this resource gets one that is refused ' +
    'here. Set RESOURCE'
}

/**
 * The issuers whose tokens for the resource pass. Under RESOURCE, and under an address that is no audience, these are
 * all.
 */
function issuersFor (resource: string, isOwn: boolean, settings: ResourceSettings): readonly string[] {
  const fitting = issuersByAud(settings).filter(({ audiences }) => isOwn || audiences.includes(resource))
  const areAll = !isOwn && settings.server.resource !== undefined
  // A client cannot call an issuer whose name is not a URL.
  return (areAll || fitting.length === 0 ? settings.idp.issuers : fitting).map(({ issuer }) => issuer)
    .filter(isFetchableIssuer)
}

/**
 * Describes the service to clients that know only its address (RFC 9728 section 2).
 * @param base the address under which the client reaches the service
 * @param own the audience of a rule that is a resource of its own. Tokens of all issuers pass there.
 */
export function describeResource (base: HttpUrl, scopes: readonly string[], settings: Settings, own?: string) {
  const { idp: { dpopMode }, dpop, server, gate } = settings
  const { clientCertificate, securityProfile, resourceName } = server
  const resource = own ?? configuredResource(settings) ?? base.href
  const servers = issuersFor(resource, own !== undefined, settings)
  return {
    resource,
    // Absent if the configured domain is unusable, too.
    ...servers.length === 0 ? {} : { authorization_servers: servers },
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
    resource_name: resourceName ?? (resource === base.href ? base.host : new URL(resource).host),
    resource_documentation: `${base.href}${gate?.ownPrefix ?? ''}/docs`,
    dpop_bound_access_tokens_required: dpopMode === 'REQUIRED' ||
      (securityProfile === 'fapi2' && clientCertificate === 'off'),
    ...dpopMode === 'DISABLED' ? {} : { dpop_signing_alg_values_supported: dpop.algs },
    ...clientCertificate === 'off' ? {} : { tls_client_certificate_bound_access_tokens: true }
  }
}

/**
 * The path that follows the well-known path in the location of a resource's metadata (RFC 9728 section 3.1): that of
 * its identifier, or nothing if its identifier has no path.
 */
export function insertedPath (resource: string): string {
  const { pathname } = new URL(resource)
  return pathname === '/' ? '' : pathname
}

/**
 * Where the metadata of a resource stands: the well-known path goes between host and path or query of its identifier
 * (RFC 9728 section 3.1).
 */
function metadataLocation (resource: string): string {
  const { origin, search } = new URL(resource)
  return origin + METADATA_PATH + insertedPath(resource) + search
}

/**
 * The `resource_metadata` of challenges (RFC 9728 section 5.1). It follows only from settings, since no byte of a
 * request goes into a header. It is undefined if neither PUBLIC_URL nor RESOURCE is set, or if the audience is no
 * identifier of a resource. The service certainly answers under PUBLIC_URL. If that is the origin of the resource too,
 * the location is that of the resource, where a client looks for metadata with this identifier.
 * @param audience the one that a token needs, if it is not the configured one
 */
export function metadataUrlOf (settings: ResourceSettings, mount: string, audience?: string): string | undefined {
  const metadata = metadataOfAudience(audience, settings)
  if (metadata !== 'default') return metadata === 'own' ? metadataLocation(audience!) : undefined
  const { resource: named, publicUrl } = settings.server
  if (publicUrl === undefined) return named && metadataLocation(named)
  const address = urlUnder(parsePublicUrl(publicUrl)!, mount).href
  const resource = configuredResource(settings)
  return metadataLocation(
    resource !== undefined && new URL(resource).origin === new URL(address).origin ? resource : address
  )
}
