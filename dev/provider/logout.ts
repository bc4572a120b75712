import type { Context, Provider } from 'oidc-provider'

const PATH = '/logout'

/**
 * `POST /logout` ends the session of the browser, and sends each of its clients a logout token over the back channel
 * (OpenID Connect Back-Channel Logout 1.0). The calling page stays open. It must be of one of these origins.
 */
export async function logOut (
  provider: Provider,
  origins: readonly string[],
  context: Context,
  next: () => Promise<void>
): Promise<void> {
  if (context.path !== PATH || context.method !== 'POST') return next()
  const { origin = '' } = context.req.headers
  if (!origins.includes(origin)) {
    context.status = 403
    return
  }
  context.set({
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    'cache-control': 'no-store'
  })
  const session = await provider.Session.get(context)
  const { accountId } = session
  const notified = Object.keys(session.authorizations ?? {}).map(async clientId => {
    const client = await provider.Client.find(clientId)
    if (client?.backchannelLogoutUri) await client.backchannelLogout(accountId, session.sidFor(clientId))
  })
  const outcomes = await Promise.allSettled(notified)
  if (accountId !== undefined) await session.destroy()
  const failed = outcomes.find(outcome => outcome.status === 'rejected')
  if (failed) console.error(`local identity provider: the API was not notified: ${(failed.reason as Error).message}`)
  context.status = failed ? 502 : 204
}
