import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { FastifyPluginAsync, FastifyRequest, onRequestHookHandler } from 'fastify'
import { z } from 'zod'

/** The last messages, for as long as the process runs. */
const messages: Array<{ from: string, text: string }> = []
const MAX_MESSAGES = 100

interface Tool {
  /** What a token needs for it. */
  readonly scope: string
  /** Adds the tool to a server that works for this user. */
  add (server: McpServer, name: string, user: string): void
}

const asText = (text: string) => ({ content: [{ type: 'text' as const, text }] })

/** The only list of tools, so that no tool is without its scope. */
const TOOLS: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ['read_messages', {
    scope: 'read:messages',
    add: (server, name) =>
      server.registerTool(
        name,
        { description: 'The last messages' },
        () => asText(messages.map(({ from, text }) => `${from}: ${text}`).join('\n'))
      )
  }],
  ['send_message', {
    scope: 'write:messages',
    add: (server, name, user) =>
      server.registerTool(
        name,
        { description: 'Sends a message', inputSchema: { text: z.string().min(1).max(1000) } },
        ({ text }) => {
          messages.push({ from: user, text })
          messages.splice(0, messages.length - MAX_MESSAGES)
          return asText('Sent.')
        }
      )
  }]
])

/**
 * A Model Context Protocol server at `/mcp` (Streamable HTTP), without sessions: each request is independent, so that
 * any instance can answer it, and each one needs a token.
 */
const routes: FastifyPluginAsync = async app => {
  const origins: readonly string[] = app.settings.server.corsOrigins ?? []
  /** The protocol demands it: a page that was led here by DNS rebinding is turned away. Only browsers send Origin. */
  const knownOrigin: onRequestHookHandler = (request, reply, done) => {
    const { origin } = request.headers
    if (origin === undefined || origins.includes(origin) || origins.includes('*')) return done()
    reply.code(403).send({ message: 'This origin may not call.' })
  }
  const onRequest = [knownOrigin, app.require({ scope: 'read:messages' })]

  app.post('/mcp', { onRequest }, async (request, reply) => {
    const scope = scopesFor(request.body)
    // 403 with `scope`: the client asks for these as well, and sends the call again.
    if (scope.length > 0) await request.require({ scope })
    const server = new McpServer({ name: 'holdfast-example', version: '1.0.0' })
    for (const [name, tool] of TOOLS) tool.add(server, name, request.user.sub)
    const transport = new WebStandardStreamableHTTPServerTransport()
    await server.connect(transport)
    reply.raw.once('close', () => {
      server.close()
    })
    return reply.send(await transport.handleRequest(withoutToken(request), { parsedBody: request.body }))
  })

  // Without sessions there is no stream to open, and none to end. The protocol then asks for 405.
  app.route({
    method: ['GET', 'DELETE'],
    url: '/mcp',
    onRequest,
    handler: (_request, reply) => reply.code(405).header('allow', 'POST').send()
  })
}
export default routes

/**
 * The scopes of all tools that this body calls: a message of JSON-RPC, or a list of them. What is no call of a known
 * tool, the SDK answers.
 */
function scopesFor (body: unknown): string[] {
  const calls = [body].flat() as Array<{ method?: unknown, params?: { name?: unknown } } | null>
  return calls.flatMap(call => call?.method === 'tools/call' ? TOOLS.get(String(call.params?.name))?.scope ?? [] : [])
}

/** The request for the transport. Tools can see its headers, so those with the token and the proof are left out. */
function withoutToken ({ method, headers }: FastifyRequest): Request {
  const names = ['accept', 'content-type', 'mcp-protocol-version']
  return new Request('http://localhost/mcp', {
    method,
    headers: names.flatMap((name): Array<[string, string]> => name in headers ? [[name, String(headers[name])]] : [])
  })
}
