/** The part of oidc-provider that the local tenant uses; the package brings no types of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export interface Grant {
    addOIDCScope (scope: string): void
    addResourceScope (resource: string, scope: string): void
    save (): Promise<string>
  }

  export interface Context {
    req: IncomingMessage
    res: ServerResponse
    path: string
    redirect (url: string): void
    oidc: { client: { clientId: string }, session: { accountId?: string }, provider: Provider }
  }

  export interface Interaction { params: Record<string, unknown> }
  export interface IssuedToken { accountId?: string, clientId?: string, scope?: string }
  export interface TokenParts { payload: Record<string, unknown> }

  export class Provider {
    constructor (issuer: string, configuration: Record<string, unknown>)
    Grant: new (owner: { clientId: string, accountId: string | undefined }) => Grant
    callback (): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    use (middleware: (context: Context, next: () => Promise<void>) => Promise<void> | void): void
    interactionDetails (request: IncomingMessage, response: ServerResponse): Promise<Interaction>
    interactionResult (request: IncomingMessage, response: ServerResponse, result: object): Promise<string>
  }

  export interface Policy extends Array<unknown> { remove (prompt: string): void }
  export const interactionPolicy: { base (): Policy }
  export const errors: { InvalidTarget: new (description?: string) => Error }
}
