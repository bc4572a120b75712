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
    method: string
    path: string
    querystring: string
    status: number
    body: unknown
    set (headers: Record<string, string>): void
    redirect (url: string): void
    oidc: { client: { clientId: string }, session: { accountId?: string }, provider: Provider }
  }

  export class Provider {
    constructor (issuer: string, configuration: Record<string, unknown>)
    Grant: new (owner: { clientId: string, accountId: string | undefined }) => Grant
    callback (): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    use (middleware: (context: Context, next: () => Promise<void>) => Promise<void> | void): void
    interactionDetails (request: IncomingMessage, response: ServerResponse): Promise<{ params: Record<string, unknown> }>
    interactionResult (request: IncomingMessage, response: ServerResponse, result: object): Promise<string>
  }

  export interface Policy extends Array<unknown> { remove (prompt: string): void }
  export const interactionPolicy: { base (): Policy }
  export const errors: { InvalidTarget: new (description?: string) => Error }
}
