import Fastify, { type FastifyInstance } from 'fastify'
import { startProvider } from '../../dev/provider/provider.ts'
import { holdfast, readSettings, serverOptions } from '../../holdfast.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import mcp from './mcp.ts'

/** The client that the local provider knows. */
export const CLIENT_ID = 'mcp-client'

/** An https audience is the resource by itself. That of localhost is http, which no setting takes. */
export const asResource = (url: string, settings: Settings): Settings => ({
  ...settings,
  server: { ...settings.server, resource: url }
})

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
  const url = `${base}/mcp`
  // The audience is the whole address of the endpoint: what a client of the protocol takes for the `resource` of its
  // token (RFC 8707).
  const provider = await startProvider({
    audience: url,
    ownClient: { clientId: CLIENT_ID, clientSecret: undefined, redirectUris: [redirectUrl] }
  })
  const settings = asResource(
    url,
    await readSettings({
      idp: { issuer: provider.issuer, audience: url },
      server: { publicUrl: base, logLevel: 'warn' }
    })
  )
  const app = Fastify(serverOptions(settings))
  await app.register(holdfast, { settings, isServed: () => false })
  await app.register(mcp)
  await app.listen({ port, host: 'localhost' })
  return {
    url,
    issuer: provider.issuer,
    app,
    async close () {
      app.server.closeAllConnections()
      await app.close()
      await provider.close()
    }
  }
}
