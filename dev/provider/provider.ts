import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Context, Provider } from 'oidc-provider'
import { listen, stop } from './listen.ts'
import { loginPage, PAGE_HEADERS } from './login-page.ts'
import { logOut } from './logout.ts'
import { BROWSER_CLIENT, MACHINE_CLIENT } from './own-client.ts'
import { ACR_VALUES, configuration, DAY, originsOf, TOKEN_PATH, type TenantSettings } from './tenant-configuration.ts'
import { takeAudience } from './token-request.ts'
import { findUser } from './users.ts'

type ProviderOptions = Pick<TenantSettings, 'audience'> & Partial<TenantSettings> & {
  /** 0, the default, takes any free port. */
  readonly port?: number,
  /** The address to listen on, loopback by default. The issuer stays on localhost. */
  readonly address?: string
}

export type LocalProvider = Awaited<ReturnType<typeof startProvider>>

/** Starts an identity provider on loopback. Its keys are new each time. */
export async function startProvider (options: ProviderOptions) {
  const settings: TenantSettings = {
    clientSecret: randomBytes(24).toString('base64url'),
    redirectUris: ['http://localhost/callback'],
    nonce: false,
    tokenTtl: DAY,
    ...options
  }
  const server = createServer(async (request, response) => {
    // A page of another site could reach it by a name of its own.
    if (![`localhost:${port}`, `127.0.0.1:${port}`].includes(request.headers.host ?? '')) {
      response.writeHead(421).end()
      return
    }
    try {
      await (await handler)(request, response)
    } catch (error) {
      console.error(`local identity provider: ${(error as Error).message}`)
      response.destroy()
    }
  })
  const port = await listen(server, options.port ?? 0, options.address)
  const issuer = `http://localhost:${port}`
  const close = () => stop(server)
  const handler = createHandler(issuer, settings)
  await handler.catch(close)
  await handler
  const { audience, clientSecret } = settings
  return {
    issuer,
    port,
    tokenEndpoint: issuer + TOKEN_PATH,
    audience,
    /** The confidential client, for the client credentials grant. */
    clientId: MACHINE_CLIENT,
    clientSecret,
    /** The public client, for the authorization code with PKCE. */
    browserClientId: BROWSER_CLIENT,
    close
  }
}

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>

async function createHandler (issuer: string, settings: TenantSettings): Promise<Handler> {
  const provider = await quietly(async () => {
    const oidc = await import('oidc-provider')
    const { base, Check } = oidc.interactionPolicy
    const policy = base()
    policy.remove('consent')
    const { checks } = policy.get('login')
    checks.add(
      new Check('login_hint', 'another user is asked for', ({ oidc: { params: { login_hint: user }, session } }) =>
        findUser(user) !== undefined && user !== session.accountId)
    )
    checks.add(
      new Check('acr_values', 'another kind of login is asked for', ({ oidc: { params, session } }) =>
        params.acr_values !== undefined && !wordsOf(params.acr_values).includes(session.acr ?? ''))
    )
    const refuse = (): never => {
      throw new oidc.errors.InvalidTarget('this tenant does not know that API')
    }
    return new oidc.Provider(issuer, await configuration(settings, policy, refuse))
  })
  provider.use(pointTheWay)
  provider.use(takeAudience)
  provider.use((context, next) => logIn(provider, context, next))
  provider.use((context, next) => logOut(provider, originsOf(settings.redirectUris), context, next))
  return provider.callback()
}

/** Logs in the user of `login_hint`, or else the one chosen on a page. */
async function logIn (provider: Provider, context: Context, next: () => Promise<void>) {
  if (!context.path.startsWith('/interaction/')) return next()
  const { params } = await provider.interactionDetails(context.req, context.res)
  const chosen = new URLSearchParams(context.querystring).get('user')
  const user = findUser(chosen ?? params['login_hint'])
  if (user === undefined && chosen !== '') {
    context.set(PAGE_HEADERS)
    context.body = loginPage(context.path, String(params['client_id']))
    return
  }
  const acr = chooseAcr(params['acr_values'])
  const result = user === undefined
    ? { error: 'access_denied', error_description: 'the login was cancelled' }
    : acr === undefined
      ? { error: 'unmet_authentication_requirements', error_description: 'this tenant knows no such login' }
      : { login: { accountId: user.id, acr } }
  const back = await provider.interactionResult(context.req, context.res, result)
  const session = await provider.Session.get(context)
  if (user !== undefined && session.accountId !== undefined && session.accountId !== user.id) {
    // Otherwise the provider first shows a page that ends the session of the other user.
    session.accountId = undefined
    await session.persist()
  }
  context.redirect(back)
}

/** At `/` a visitor reads what this server is. */
async function pointTheWay (context: Context, next: () => Promise<void>) {
  if (context.path !== '/') return next()
  context.status = 404
  context.body =
    'The local identity provider of npm run dev. Its endpoints are listed at /.well-known/openid-configuration; ' +
    'to log in, use the playground.\n'
}

const wordsOf = (list: unknown) => String(list).split(' ')

/**
 * The kind of login for a client: the first requested one that the tenant supports (RFC 9470 section 5). A choice on
 * the page counts as any of them.
 */
function chooseAcr (asked: unknown): string | undefined {
  return asked === undefined ? ACR_VALUES[0] : wordsOf(asked).find(value => ACR_VALUES.includes(value))
}

/** oidc-provider prints advice for production at start, which would hide what a developer needs to read. */
async function quietly<T> (work: () => Promise<T>): Promise<T> {
  const { warn, info } = console
  console.warn = console.info = () => {}
  try {
    return await work()
  } finally {
    Object.assign(console, { warn, info })
  }
}
