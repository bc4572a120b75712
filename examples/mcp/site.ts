import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { startProvider } from '../../dev/provider/provider.ts'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import mcp from './mcp.ts'

/** The client that the local provider knows. */
export const CLIENT_ID = 'mcp-client'

export interface Site {
  /** Where the server of the protocol is. */
  readonly url: string
  readonly issuer: string
  readonly app: FastifyInstance
  close (): Promise<void>
}

/** Starts the local provider, and a service whose only route is that of mcp.ts. */
export async function startSite ({ port, redirectUrl }: { port: number, redirectUrl: string }): Promise<Site> {
  const base = `http://localhost:${port}`
  // The audience is the address of the service: what a client of the protocol takes for the `resource` of its token (RFC 8707).
  const provider = await startProvider({ audience: base, ownClient: { clientId: CLIENT_ID, clientSecret: undefined, redirectUris: [redirectUrl] } })
  const settings = await readSettings({ idp: { issuer: provider.issuer, audience: base }, server: { publicUrl: base, logLevel: 'warn' } })
  const app = Fastify(serverOptions(settings))
  await app.register(holdfast, { settings, isServed: () => false })
  await app.register(mcp)
  await app.listen({ port, host: 'localhost' })
  return {
    url: `${base}/mcp`,
    issuer: provider.issuer,
    app,
    async close () {
      app.server.closeAllConnections()
      await app.close()
      await provider.close()
    }
  }
}
