import { createServer, type Server } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer, type CreateMcpHandlerOptions } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** The last messages, for as long as the process runs. */
const messages: Array<{ from: string, text: string }> = []
const MAX_MESSAGES = 100

const asText = (text: string) => ({ content: [{ type: 'text' as const, text }] })

/** @param user as the gate names them */
function createMcpServer (user: string): McpServer {
  const server = new McpServer({ name: 'holdfast-example-gated', version: '1.0.0' })
  server.registerTool(
    'read_messages',
    { description: 'The last messages' },
    () => asText(messages.map(({ from, text }) => `${from}: ${text}`).join('\n'))
  )
  server.registerTool('send_message', {
    description: 'Sends a message',
    inputSchema: z.object({ text: z.string().min(1).max(1000) })
  }, ({ text }) => {
    messages.push({ from: user, text })
    messages.splice(0, messages.length - MAX_MESSAGES)
    return asText('Sent.')
  })
  server.registerTool(
    'delete_messages',
    { description: 'Deletes all messages' },
    () => asText(`Deleted: ${messages.splice(0).length}.`)
  )
  // No rule of gate.yaml names it, so no client sees it.
  server.registerTool('drop_everything', { description: 'Deletes everything' }, () => asText('Dropped.'))
  return server
}

/**
 * A Model Context Protocol server (Streamable HTTP) without any code for tokens. Anyone who reaches it may call every
 * tool, so only the gate may reach it. It serves both forms of the protocol, without sessions: each request names its
 * user.
 */
export function startServer (port: number, options: CreateMcpHandlerOptions = {}): Promise<Server> {
  const handler = createMcpHandler(
    ({ requestInfo }) => createMcpServer(decodeURIComponent(requestInfo!.headers.get('x-auth-subject') ?? '')),
    options
  )
  const server = createServer(toNodeHandler(handler))
  return new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', () => resolve(server)))
}
