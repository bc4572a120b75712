import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

// What both clients need of a login, whichever SDK they use.

/** What a challenge asks of the login itself (RFC 9470 section 3). The SDK reads only the scope. */
export function askedOfLogin (challenge: string): ReadonlyMap<string, string> {
  return new Map(
    [...challenge.matchAll(/\b(max_age|acr_values)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value])
  )
}

/** Adds to a login what a challenge asks of it. These are parameters of OpenID Connect. */
export function addAsked (loginUrl: URL, asked: ReadonlyMap<string, string>): URL {
  for (const [name, value] of asked) loginUrl.searchParams.set(name, value)
  if (asked.size > 0) loginUrl.searchParams.set('scope', `openid ${loginUrl.searchParams.get('scope') ?? ''}`.trim())
  return loginUrl
}

/** Takes the browser when it comes back from the provider (RFC 8252 section 7.3). Any other request is turned away. */
export async function listenForCode (redirectUrl: string) {
  const state = randomUUID()
  const { pathname, hostname, port } = new URL(redirectUrl)
  let settle: (outcome: URLSearchParams) => void
  let outcome: Promise<URLSearchParams>
  const wait = (): void => {
    outcome = new Promise(resolve => {
      settle = resolve
    })
  }
  wait()
  const server = createServer((request, response) => {
    response.setHeader('connection', 'close')
    const { pathname: asked, searchParams } = new URL(request.url ?? '/', redirectUrl)
    if (asked !== pathname || searchParams.get('state') !== state) return response.writeHead(404).end()
    settle(searchParams)
    response.end('You can close this page.')
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(Number(port), hostname, resolve))
  return {
    state,
    /** @throws Error if the provider refused the login */
    async nextAnswer (): Promise<URLSearchParams> {
      const answer = await outcome
      wait()
      if (!answer.has('code')) throw new Error(`The provider refused the login: ${answer.get('error')}`)
      return answer
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}
