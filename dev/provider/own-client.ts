import { BadUsage } from '../../cli/bad-usage.ts'

export const MACHINE_CLIENT = 'holdfast-cli'
export const BROWSER_CLIENT = 'holdfast-playground'

/** A developer's own client, to try an application with the local provider. */
export interface OwnClient {
  readonly clientId: string
  /** Without one, the client is public: it logs users in, and cannot use the client credentials grant. */
  readonly clientSecret: string | undefined
  readonly redirectUris: readonly string[]
}

const NAMES = ['DEV_CLIENT_ID', 'DEV_CLIENT_SECRET', 'DEV_REDIRECT_URIS']

/** Reads the variables above; undefined if none is set. @throws BadUsage */
export function readOwnClient (env: NodeJS.ProcessEnv): OwnClient | undefined {
  const unknown = Object.keys(env).find(name => /^DEV_(?:CLIENT|REDIRECT)/.test(name) && !NAMES.includes(name))
  if (unknown !== undefined) {
    throw new BadUsage(`${unknown} is not a setting of the local provider; there are ${NAMES.join(', ')}.`)
  }
  const [clientId, clientSecret, uris] = NAMES.map(name => env[name] || undefined)
  if (clientId === undefined) {
    if (clientSecret ?? uris) {
      throw new BadUsage(
        'DEV_CLIENT_ID is not set. It names the client that DEV_CLIENT_SECRET and DEV_REDIRECT_URIS belong to.'
      )
    }
    return undefined
  }
  if ([MACHINE_CLIENT, BROWSER_CLIENT].includes(clientId)) {
    throw new BadUsage(`DEV_CLIENT_ID is "${clientId}", which is a client of the provider itself. Choose another name.`)
  }
  if ((clientSecret ?? uris) === undefined) {
    throw new BadUsage('DEV_CLIENT_ID needs DEV_CLIENT_SECRET, DEV_REDIRECT_URIS or both.')
  }
  const redirectUris = uris?.split(/[\s,]+/).filter(Boolean) ?? []
  const bad = redirectUris.find(uri => !isRedirectUri(uri))
  if (bad !== undefined) {
    throw new BadUsage(
      `DEV_REDIRECT_URIS has "${bad}"; allowed: absolute URLs without a fragment, such as ` +
        'http://localhost:3000/callback.'
    )
  }
  return { clientId, clientSecret, redirectUris }
}

function isRedirectUri (text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && !text.includes('#') && (/^https?:\/\//i.test(text) || url.protocol.includes('.'))
}
