/** The redirect URI of the client. Nothing listens there. */
export const BACK = 'http://127.0.0.1/back'

/**
 * What a user does in a browser to change a password: the login, then the form for it (`kc_action`). @throws if a form
 * is missing
 */
export async function changePassword (
  issuer: string,
  clientId: string,
  username: string,
  password: string,
  next: string
) {
  const cookies = new Map<string, string>()

  /** Follows redirects, but for the one to the client. */
  async function open (url: string, form?: Record<string, string>): Promise<Response> {
    const headers = { cookie: [...cookies].map(pair => pair.join('=')).join('; ') }
    const answer = await fetch(url, {
      redirect: 'manual',
      headers,
      ...form && { method: 'POST', body: new URLSearchParams(form) }
    })
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      cookies.set(name!, value!)
    }
    const location = answer.headers.get('location')
    return location === null || location.startsWith(BACK) ? answer : open(location)
  }

  async function submit (page: Response, form: Record<string, string>) {
    const [, action] = /<form[^>]* action="([^"]+)"/.exec(await page.text()) ?? []
    if (action === undefined) throw new Error(`${page.status}: a page without a form`)
    return open(action.replaceAll('&amp;', '&'), form)
  }

  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: BACK,
    response_type: 'code',
    scope: 'openid',
    kc_action: 'UPDATE_PASSWORD'
  })
  const login = await open(`${issuer}/protocol/openid-connect/auth?${query}`)
  const change = await submit(login, { username, password })
  const done = await submit(change, { 'password-new': next, 'password-confirm': next })
  if (!done.headers.get('location')?.includes('kc_action_status=success')) {
    throw new Error(`${done.status}: the password was not changed`)
  }
}
