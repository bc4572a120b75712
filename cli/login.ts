import { createHash, randomBytes } from 'node:crypto'
import { NoAnswer } from './exchange.ts'

/** A user of the local tenant, and the public client that logs users in there. */
export interface Login {
  readonly user: string
  readonly clientId: string
  readonly redirectUri: string
}

const MAX_STEPS = 10

/**
 * Logs a user in by authorization code with PKCE (RFC 7636), without a browser: the local tenant shows no page if the
 * request names the user. Each login is a session of its own, so it is always a new one. Returns the parameters of the
 * token request.
 * @throws NoAnswer if the tenant shows a page or an error
 */
export async function logIn (
  endpoint: string,
  { user, clientId, redirectUri }: Login,
  asked: Readonly<Record<string, string>>
): Promise<Record<string, string>> {
  const verifier = randomBytes(32).toString('base64url')
  const parameters = {
    client_id: clientId,
    response_type: 'code',
    redirect_uri: redirectUri,
    login_hint: user,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...asked,
    // acr_values and max_age belong to OpenID Connect, so the provider takes them only with this scope.
    scope: ['openid', asked['scope']].filter(Boolean).join(' ')
  }
  const back = await follow(new URL(`${endpoint}?${new URLSearchParams(parameters)}`), redirectUri)
  const code = back.searchParams.get('code')
  if (code === null) {
    throw new NoAnswer(
      `${user} was not logged in: ${back.searchParams.get('error')}, ${back.searchParams.get('error_description')}`
    )
  }
  return { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: verifier }
}

/** Goes from redirect to redirect, with cookies as a browser has them, until the provider sends the client back. */
async function follow (start: URL, redirectUri: string): Promise<URL> {
  const cookies = new Map<string, string>()
  let url = start
  for (let step = 0; step < MAX_STEPS; step++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const { headers } = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    const location = headers.get('location')
    if (location === null) break
    url = new URL(location, url)
    if (url.href.startsWith(redirectUri)) return url
  }
  throw new NoAnswer(
    'the local tenant shows a page instead of a login. --user names one of its users, which are listed at the start'
  )
}
