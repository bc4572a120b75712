/** A browser with its cookies, as far as the local provider needs one. */
export interface Visitor {
  /** Follows redirects until the provider shows a page, or sends the visitor elsewhere. */
  visit (url: URL): Promise<{ url: URL, page: string }>
}

export function createVisitor (issuer: string): Visitor {
  const cookies = new Map<string, string>()
  return {
    async visit (start) {
      let url = start
      for (let step = 0; url.origin === issuer; step++) {
        if (step === 10) throw new Error('the login goes in circles')
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
        const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
        for (const line of response.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
          cookies.set(name, value)
        }
        const location = response.headers.get('location')
        if (location === null) return { url, page: await response.text() }
        url = new URL(location, url)
      }
      return { url, page: '' }
    }
  }
}

/** Goes to the page of the provider, chooses a user, and follows to where the provider sends the visitor. */
export async function logInAs (visitor: Visitor, user: string, loginUrl: URL): Promise<URL> {
  const { url, page } = await visitor.visit(loginUrl)
  const link = new RegExp(`href="([^"]*user=${user})"`).exec(page)?.[1]
  if (link === undefined) return url
  return (await visitor.visit(new URL(link, url))).url
}
