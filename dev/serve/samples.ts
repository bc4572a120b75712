import { BROWSER_CLIENT } from '../provider/own-client.ts'

/** A button of the playground: where it leads, what that needs in words, by default with GET, and a body in JSON. */
export type Endpoint = readonly [path: string, need: string, method?: string, body?: string]

/** The paths shown under `npm run dev`, by requirement. */
export interface Samples {
  /** Public. */
  readonly open: string
  readonly anyToken: string
  /** `read:messages`. */
  readonly scoped: string
  /** The list of the playground, unless the API has a document. */
  readonly endpoints: readonly Endpoint[]
  /** Server-sent events, for any token. */
  readonly stream: string
  /** Another path for any token, to which the playground sends a proof for `anyToken`. */
  readonly elsewhere: string
}

/** Those of the service itself. */
export const OF_THE_SERVICE: Samples = {
  open: '/api/public',
  anyToken: '/api/private',
  scoped: '/api/private-scoped',
  stream: '/dev/stream',
  elsewhere: '/api/profile',
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
}

/** Those of dev/upstream.py, behind the rules below. */
export const OF_THE_UPSTREAM: Samples = {
  open: '/',
  anyToken: '/whoami',
  scoped: '/orders/7',
  stream: '/events',
  elsewhere: '/events',
  endpoints: [
    ['/', 'open to everyone'],
    ['/whoami', 'a token; shows the headers from the gate'],
    ['/orders', 'a token'],
    ['/orders/7', 'read:messages'],
    ['/events', 'a token; server-sent events'],
    ['/admin', 'admin'],
    ['/recent', 'a login of the last minute'],
    ['/nothing', 'no one: no rule holds']
  ]
}

/**
 * The section `revocation` of the configuration: the first issuer logs out over the back channel, a transmitter speaks
 * for all of them.
 */
export function revocationBy (transmitter: string, issuers: readonly string[], audience: string): object {
  return {
    logout: { issuer: issuers[0], clientId: BROWSER_CLIENT },
    transmitters: [{ issuer: transmitter, audience, delivery: 'push', tokenIssuers: issuers }],
    operators: { scope: 'admin' }
  }
}

/** The section `gate` of the configuration. */
export function gateBefore (upstream: string): object {
  return {
    upstream,
    claims: ['email'],
    rules: [
      { path: '/', methods: ['GET'], allow: 'anyone' },
      { path: '/whoami' },
      { path: '/orders' },
      { path: '/orders/:id', scope: 'read:messages' },
      { path: '/events', methods: ['GET'] },
      { path: '/admin', scope: 'admin' },
      { path: '/recent', methods: ['GET'], maxAgeSeconds: 60 }
    ]
  }
}
