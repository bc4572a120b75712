import { createMcpClient } from '../client.ts'
import { createDpopClient } from '../dpop-client.ts'
import { CLIENT_ID } from '../site.ts'

// Calls each tool behind the gate that demo.ts starts. A person logs in. With MCP_SDK=1 it is the client of version 1
// of the SDK.

const MAX_AGE_SECONDS = 10

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}
const client = await (process.env['MCP_SDK'] === '1' ? createMcpClient : createDpopClient)({
  url: process.env['MCP_URL'] || 'http://localhost:8000/mcp',
  clientId: CLIENT_ID,
  redirectUrl: process.env['REDIRECT_URL'] || 'http://localhost:8765/callback',
  onLogin ({ href, searchParams }) {
    const maxAge = searchParams.get('max_age')
    say(
      `The gate asks for ${
        maxAge === null ? searchParams.get('scope') : `a login of the last ${maxAge} seconds`
      }. Log in here:\n${href}`
    )
  }
})
say(`Tools: ${(await client.toolNames()).join(', ')}`)
await client.call('read_messages')
say('read_messages: done')
say(`send_message: ${await client.call('send_message', { text: 'Hello' })}`)
say(`read_messages: ${await client.call('read_messages')}`)
say(`Waiting until the login is older than ${MAX_AGE_SECONDS} seconds.`)
await new Promise(resolve => setTimeout(resolve, (MAX_AGE_SECONDS + 1) * 1000))
say(`delete_messages: ${await client.call('delete_messages')}`)
await client.close()
