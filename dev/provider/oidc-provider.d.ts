/** The part of oidc-provider that the local tenant uses; the package brings no types of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export interface Grant {
    addOIDCScope (scope: string): void
    addResourceScope (resource: string, scope: string): void
    save (): Promise<string>
  }

  export interface Session {
    accountId?: string | undefined
    authorizations?: Record<string, unknown>
    sidFor (clientId: string): string
    persist (): Promise<unknown>
    destroy (): Promise<unknown>
  }

  export interface Context {
    req: IncomingMessage
    res: ServerResponse
    method: string
    path: string
    querystring: string
    status: number
    body: unknown
    set (headers: Record<string, string>): void
    redirect (url: string): void
    oidc: {
      client: { clientId: string }
      session: { accountId?: string, acr?: string }
      params: Record<string, unknown>
      entities: { AuthorizationCode?: { acr: string, authTime: number, sid?: string } }
      provider: Provider
    }
  }

  export class Provider {
    constructor (issuer: string, configuration: Record<string, unknown>)
    Session: { get (context: Context): Promise<Session> }
    Client: {
      find (id: string): Promise<{
        backchannelLogoutUri?: string,
        backchannelLogout (sub: string | undefined, sid: string): Promise<void>
      } | undefined>
    }

    Grant: new (owner: { clientId: string, accountId: string | undefined }) => Grant
    callback (): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    use (middleware: (context: Context, next: () => Promise<void>) => Promise<void> | void): void
    interactionDetails (
      request: IncomingMessage,
      response: ServerResponse
    ): Promise<{ params: Record<string, unknown> }>
    interactionResult (request: IncomingMessage, response: ServerResponse, result: object): Promise<string>
  }

  export interface Policy {
    remove (prompt: string): void
    get (prompt: string): { checks: { add (check: object): void } }
  }
  export const interactionPolicy: {
    base (): Policy
    /** `asks` returns true if the prompt has to be shown. */
    Check: new (reason: string, description: string, asks: (context: Context) => boolean) => object
  }
  export const errors: { InvalidTarget: new (description?: string) => Error }
}
