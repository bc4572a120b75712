import type { Keycloak } from './keycloak.ts'

export const AUDIENCE = 'https://api.example'
/** The client that introspects tokens: this service. */
export const SERVICE = { clientId: 'holdfast', secret: 'secret-of-the-service' }
export const MACHINE = { clientId: 'machine', secret: 'secret-of-the-machine' }
export const PASSWORD = 'a good password'

/** What of docs/reference/providers.md is done in a realm. A row of the table leaves out one thing. */
export interface Recipe {
  /** The mapper that writes the identifier of the API into `aud`. */
  audience: boolean
  /** The mapper that writes the client of this service into `aud`, which introspection needs. */
  service: boolean
  /** Roles on the Scope tab of the client scope `admin`. */
  roleOnScope: boolean
  /**
   * Lightweight access tokens of the clients, and which mappers are added to them: the two above, and that of `sub`.
   */
  lightweight: false | 'bare' | 'with aud' | 'with aud and sub'
  /** Whether the clients have the client scope `basic`. */
  basic: boolean
  /** Whether clients must request bound tokens. */
  dpopRequired: boolean
}

export const AS_THE_PAGE_SAYS: Recipe = {
  audience: true,
  service: true,
  roleOnScope: true,
  lightweight: false,
  basic: true,
  dpopRequired: false
}

/** Makes a realm anew and returns its issuer. Ada has the role `admin`, Bob has not. */
export async function makeRealm ({ url, admin }: Keycloak, name: string, recipe: Recipe): Promise<string> {
  await admin('DELETE', `/${name}`)
  await admin('POST', '', { realm: name, enabled: true })
  const realm = (method: string, path: string, body?: object): Promise<any> => admin(method, `/${name}${path}`, body)

  await realm('POST', '/roles', { name: 'admin' })
  const role = await realm('GET', '/roles/admin')
  const isLight = recipe.lightweight === 'with aud' || recipe.lightweight === 'with aud and sub'
  const mapper = (name: string, config: Record<string, string>) => ({
    name,
    protocol: 'openid-connect',
    protocolMapper: 'oidc-audience-mapper',
    config: {
      'access.token.claim': 'true',
      'introspection.token.claim': 'true',
      'lightweight.claim': String(isLight),
      ...config
    }
  })
  const scope = (name: string, isInToken: boolean, protocolMappers: object[] = []): Promise<string> =>
    realm('POST', '/client-scopes', {
      name,
      protocol: 'openid-connect',
      attributes: { 'include.in.token.scope': String(isInToken), 'display.on.consent.screen': 'false' },
      protocolMappers
    })
  await scope('api', false, [
    ...recipe.audience ? [mapper('audience', { 'included.custom.audience': AUDIENCE })] : [],
    ...recipe.service ? [mapper('service', { 'included.client.audience': SERVICE.clientId })] : []
  ])
  await scope('read:messages', true)
  const restricted = await scope('admin', true)
  if (recipe.roleOnScope) await realm('POST', `/client-scopes/${restricted}/scope-mappings/realm`, [role])

  if (recipe.lightweight === 'with aud and sub') {
    const { id, protocolMappers } = (await realm('GET', '/client-scopes') as Array<
      { id: string, name: string, protocolMappers?: Array<{ id: string, name: string, config: object }> }
    >).find(({ name }) => name === 'basic')!
    const sub = protocolMappers!.find(({ name }) => name === 'sub')!
    await realm('PUT', `/client-scopes/${id}/protocol-mappers/models/${sub.id}`, {
      ...sub,
      config: { ...sub.config, 'lightweight.claim': 'true' }
    })
  }

  const common = {
    enabled: true,
    protocol: 'openid-connect',
    standardFlowEnabled: false,
    defaultClientScopes: [...recipe.basic ? ['basic'] : [], 'roles', 'service_account', 'api'],
    optionalClientScopes: ['read:messages', 'admin'],
    attributes: {
      'client.use.lightweight.access.token.enabled': String(recipe.lightweight !== false),
      'dpop.bound.access.tokens': String(recipe.dpopRequired)
    }
  }
  await realm('POST', '/clients', { ...common, clientId: 'app', publicClient: true, directAccessGrantsEnabled: true })
  await realm('POST', '/clients', {
    ...common,
    ...MACHINE,
    publicClient: false,
    serviceAccountsEnabled: true,
    clientAuthenticatorType: 'client-secret'
  })
  await realm('POST', '/clients', {
    ...common,
    ...SERVICE,
    publicClient: false,
    serviceAccountsEnabled: false,
    clientAuthenticatorType: 'client-secret'
  })

  for (const username of ['ada', 'bob']) {
    const user = {
      username,
      enabled: true,
      email: `${username}@example.com`,
      emailVerified: true,
      firstName: username,
      lastName: 'Example',
      credentials: [{ type: 'password', value: PASSWORD, temporary: false }]
    }
    const id = await realm('POST', '/users', user)
    if (username === 'ada') await realm('POST', `/users/${id}/role-mappings/realm`, [role])
  }
  return `${url}/realms/${name}`
}
