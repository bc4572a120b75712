import { createMcpClient } from './client.ts'
import { CLIENT_ID } from './site.ts'

// Calls each tool of the server that demo.ts starts. A person logs in.

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}
const client = await createMcpClient({
  url: process.env['MCP_URL'] || 'http://localhost:8000/mcp',
  clientId: CLIENT_ID,
  redirectUrl: process.env['REDIRECT_URL'] || 'http://localhost:8765/callback',
  onLogin: url => say(`The server asks for ${url.searchParams.get('scope')}. Log in here:\n${url.href}`)
})
say(`Tools: ${(await client.toolNames()).join(', ')}`)
await client.call('read_messages')
say('read_messages: done')
await client.call('send_message', { text: 'Hello' })
say('send_message: done')
say(await client.call('read_messages'))
await client.close()
