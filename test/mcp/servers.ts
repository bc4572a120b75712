import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as OldServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import type { Test } from 'tap'
import { listen } from '../helpers/listen.ts'

/** What a server has: sessions (revisions up to 2025-11-25), none (2026-07-28), or both. */
export type ServerForm = 'old' | 'new' | 'both'

/** Seconds for which the tools `slow` and `stream` say nothing: longer than the time limit of the gate. */
const SILENT_SECONDS = 3

/** Of each server. No rule names the last one. */
const TOOLS = ['read', 'write', 'slow', 'stream', 'drop'] as const

type Notify = (
  notification: { method: 'notifications/progress', params: { progressToken: string | number, progress: number } }
) => Promise<void>

async function run (name: typeof TOOLS[number], progressToken: string | number | undefined, notify: Notify) {
  if (name === 'stream' && progressToken !== undefined) {
    await notify({ method: 'notifications/progress', params: { progressToken, progress: 1 } })
  }
  if (name === 'slow' || name === 'stream') await new Promise(resolve => setTimeout(resolve, SILENT_SECONDS * 1000))
  return { content: [{ type: 'text' as const, text: `${name}: done` }] }
}

function oldServer () {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  return async (request: IncomingMessage, response: ServerResponse) => {
    const known = sessions.get(String(request.headers['mcp-session-id']))
    if (known) return known.handleRequest(request, response)
    const server = new OldServer({ name: 'old', version: '1.0.0' })
    for (const name of TOOLS) {
      server.registerTool(
        name,
        { description: name },
        ({ _meta, sendNotification }) => run(name, _meta?.progressToken, sendNotification)
      )
    }
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => {
        sessions.set(id, transport)
      }
    })
    // Its types are not made for exactOptionalPropertyTypes.
    await server.connect(transport as Parameters<typeof server.connect>[0])
    await transport.handleRequest(request, response)
  }
}

function newServer (isBoth: boolean) {
  return toNodeHandler(createMcpHandler(() => {
    const server = new McpServer({ name: 'new', version: '1.0.0' })
    for (const name of TOOLS) {
      server.registerTool(
        name,
        { description: name },
        ({ mcpReq: { _meta, notify } }) => run(name, _meta?.progressToken, notify)
      )
    }
    return server
  }, { keepAliveMs: 0, ...!isBoth && { legacy: 'reject' as const } }))
}

/** A server that knows nothing of tokens. It ends with the test. Gives its origin. */
export async function startServer (t: Test, form: ServerForm): Promise<string> {
  const server = createServer(form === 'old' ? oldServer() : newServer(form === 'both'))
  const port = await listen(t, server)
  return `http://127.0.0.1:${port}`
}
