import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { startProvider } from '../../../dev/provider/provider.ts'
import { holdfast, judgeSettings, serverOptions } from '../../../holdfast.ts'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { asResource, CLIENT_ID } from '../site.ts'
import { startServer } from './server.ts'

export interface GatedSite {
  /** Where clients reach the server: the gate. */
  readonly url: string
  readonly issuer: string
  readonly gate: FastifyInstance
  close (): Promise<void>
}

export interface GatedSiteOptions {
  /** Of the gate. */
  readonly port: number
  readonly serverPort: number
  readonly redirectUrl: string
  /** Gets what the gate logs about each POST: the status, the reason of a refusal, and the rule that held. */
  readonly onAnswer: (answer: string) => void
  /** What else the server is told. */
  readonly server?: Parameters<typeof startServer>[1]
}

/** Starts the local provider, the server, and before it the gate with the rules of gate.yaml. */
export async function startGatedSite (
  { port, serverPort, redirectUrl, onAnswer, server: handlerOptions = {} }: GatedSiteOptions
): Promise<GatedSite> {
  const base = `http://localhost:${port}`
  const url = `${base}/mcp`
  // The audience is the whole address of the endpoint: what a client of the protocol takes for the `resource` of its
  // token (RFC 8707).
  const provider = await startProvider({
    audience: url,
    ownClient: { clientId: CLIENT_ID, clientSecret: undefined, redirectUris: [redirectUrl] }
  })
  const server = await startServer(serverPort, handlerOptions)
  const environment = {
    CONFIG_FILE: join(import.meta.dirname, 'gate.yaml'),
    IDP_ISSUER: provider.issuer,
    IDP_AUDIENCE: url,
    PUBLIC_URL: base,
    GATE_UPSTREAM: `http://127.0.0.1:${serverPort}`
  }
  const found = collectSettings({
    environment,
    readFile: path => path === environment.CONFIG_FILE ? readFileSync(path, 'utf8') : undefined
  })
  const settings = asResource(url, await judgeSettings(found))
  const gate = Fastify({ ...serverOptions(settings), logger: { level: 'info', stream: createLog(onAnswer) } })
  await gate.register(holdfast, { settings })
  await gate.listen({ port, host: 'localhost' })
  return {
    url,
    issuer: provider.issuer,
    gate,
    async close () {
      gate.server.closeAllConnections()
      await gate.close()
      server.closeAllConnections()
      server.close()
      await provider.close()
    }
  }
}

/** Joins the two lines that the gate has for a refused request. */
function createLog (onAnswer: GatedSiteOptions['onAnswer']) {
  const reasons = new Map<string, string>()
  return {
    write (text: string): void {
      const { msg, reqId, reason, method, status, mcp } = JSON.parse(text)
      if (msg === 'request refused') reasons.set(reqId, reason)
      if (msg !== 'request answered' || method !== 'POST') return
      onAnswer([status, reasons.get(reqId), mcp].filter(part => part !== undefined).join(' '))
      reasons.delete(reqId)
    }
  }
}
