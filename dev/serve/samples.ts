import { BROWSER_CLIENT } from '../provider/own-client.ts'

/** The paths shown under `npm run dev`, by requirement. */
export const SAMPLES = {
  open: '/api/public',
  anyToken: '/api/private',
  /** `read:messages`. */
  scoped: '/api/private-scoped',
  /** Server-sent events, for any token. */
  stream: '/dev/stream',
  /** Another path for any token, to which the playground sends a proof for `anyToken`. */
  elsewhere: '/api/profile',
  /** The buttons of the playground, and what each needs in words. */
  endpoints: [
    ['/api/public', 'open to everyone'],
    ['/api/private', 'a token'],
    ['/api/private-scoped', 'read:messages'],
    ['/api/protected', 'a token'],
    ['/api/profile', 'a token'],
    ['/api/users', 'read:users or write:users'],
    ['/api/admin', 'admin'],
    ['/dev/recent-login', 'a login of the last minute']
  ]
} as const

/** The section `revocation` of the configuration: the provider logs out over the back channel, a transmitter pushes. */
export function revocationBy (transmitter: string, issuer: string, audience: string): object {
  return {
    logout: { issuer, clientId: BROWSER_CLIENT },
    transmitters: [{ issuer: transmitter, audience, delivery: 'push', tokenIssuers: [issuer] }],
    operators: { scope: 'admin' }
  }
}
