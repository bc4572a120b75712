import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'

/** The last messages, for as long as the process runs. */
const messages: Array<{ from: string, text: string }> = []
const MAX_MESSAGES = 100

const asText = (text: string) => ({ content: [{ type: 'text' as const, text }] })

/** @param user as the gate names them */
function createMcpServer (user: string): McpServer {
  const server = new McpServer({ name: 'holdfast-example-gated', version: '1.0.0' })
  server.registerTool('read_messages', { description: 'The last messages' }, () => asText(messages.map(({ from, text }) => `${from}: ${text}`).join('\n')))
  server.registerTool('send_message', { description: 'Sends a message', inputSchema: { text: z.string().min(1).max(1000) } }, ({ text }) => {
    messages.push({ from: user, text })
    messages.splice(0, messages.length - MAX_MESSAGES)
    return asText('Sent.')
  })
  server.registerTool('delete_messages', { description: 'Deletes all messages' }, () => asText(`Deleted: ${messages.splice(0).length}.`))
  return server
}

/**
 * A Model Context Protocol server (Streamable HTTP) without any code for tokens. Anyone who reaches it may call every tool, so only
 * the gate may reach it.
 */
export function startServer (port: number): Promise<Server> {
  const server = createServer((request, response) => { handle(request, response) })
  return new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', () => resolve(server)))
}

/** Without sessions: each request is independent. */
async function handle (request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST') {
    response.writeHead(405, { allow: 'POST' }).end()
    return
  }
  const server = createMcpServer(decodeURIComponent(String(request.headers['x-auth-subject'])))
  const transport = new StreamableHTTPServerTransport()
  response.once('close', () => { server.close() })
  await server.connect(transport as Parameters<typeof server.connect>[0])
  await transport.handleRequest(request, response)
}
