import { containing, exactly } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import { decodeJwt } from 'jose'
import t, { type Test } from 'tap'
import { createMcpClient } from '../../examples/mcp/client.ts'
import mcp from '../../examples/mcp/mcp.ts'
import { CLIENT_ID, startSite } from '../../examples/mcp/site.ts'
import { startApp, type RunningApp } from '../helpers/app.ts'
import { parseChallenges } from '../helpers/challenges.ts'
import { linesOf } from '../helpers/command-line.ts'
import { findDeadLinks, readBlocks, textOf } from '../helpers/documents.ts'
import type { Issuer } from '../helpers/issuer.ts'
import { createVisitor, logInAs } from '../helpers/visitor.ts'

const redirectUrl = `http://localhost:${await freePort()}/callback`
const site = await startSite({ port: await freePort(), redirectUrl })
t.teardown(() => site.close())
const base = new URL(site.url).origin

const toolCall = (name: string, args: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args }
})

/** One request, by hand. */
async function send (body: unknown, headers: Record<string, string> = {}, method = 'POST') {
  const accept = 'application/json, text/event-stream'
  const answer = await fetch(site.url, {
    method,
    headers: { accept, ...method === 'POST' && { 'content-type': 'application/json' }, ...headers },
    ...method === 'POST' && { body: JSON.stringify(body) }
  })
  return {
    status: answer.status,
    challenges: parseChallenges(answer.headers.get('www-authenticate') ?? ''),
    text: await answer.text()
  }
}

/** The client of the example, its user, and all that it sends. */
async function connect (t: Test, user: string) {
  const visitor = createVisitor(site.issuer)
  const logins: URL[] = []
  const requests: string[] = []
  const tokenRequests: URLSearchParams[] = []
  let token = ''
  const watch: typeof fetch = async (input, init) => {
    const url = new URL(String(input))
    const answer = await fetch(input, init)
    const { authorization } = Object.fromEntries(new Headers(init?.headers))
    if (authorization?.startsWith('Bearer ')) token = authorization.slice('Bearer '.length)
    // The client requests a stream at a time of its own.
    if (url.pathname !== '/mcp' || init?.method === 'POST') {
      requests.push(`${init?.method ?? 'GET'} ${url.pathname} ${answer.status}`)
    }
    if (url.pathname === '/oauth/token') tokenRequests.push(init!.body as URLSearchParams)
    return answer
  }
  const client = await createMcpClient({
    url: site.url,
    clientId: CLIENT_ID,
    redirectUrl,
    fetch: watch,
    onLogin: url => {
      logins.push(url)
      logInAs(visitor, user, url).then(back => fetch(back))
    }
  })
  t.teardown(() => client.close())
  return { client, logins, requests, tokenRequests, token: () => token }
}

t.test(
  'The client of the SDK finds the provider, logs in, calls a tool, and logs in again for a scope that another ' +
    'tool needs.',
  async t => {
    const { client, logins, requests, tokenRequests, token } = await connect(t, 'grace')
    t.strictSame(requests, [
      'POST /mcp 401',
      'GET /.well-known/oauth-protected-resource/mcp 200',
      'GET /.well-known/oauth-authorization-server 200',
      'GET /.well-known/oauth-protected-resource/mcp 200',
      'GET /.well-known/oauth-authorization-server 200',
      'POST /oauth/token 200',
      'POST /mcp 200',
      'POST /mcp 202'
    ])
    t.match(Object.fromEntries(logins[0]!.searchParams), {
      client_id: CLIENT_ID,
      response_type: exactly('code'),
      code_challenge_method: exactly('S256'),
      code_challenge: /^[\w-]{43}$/,
      resource: exactly(site.url),
      scope: exactly('read:messages')
    })
    t.match(Object.fromEntries(tokenRequests[0]!), {
      grant_type: exactly('authorization_code'),
      resource: exactly(site.url),
      code_verifier: /./
    })
    t.strictSame(await client.toolNames(), ['read_messages', 'send_message'])
    await client.call('read_messages')
    t.hasStrict(decodeJwt(token()), { sub: 'grace', aud: site.url, scope: 'read:messages' })
    t.equal(logins.length, 1, 'one login is enough for that')

    requests.length = 0
    t.equal(await client.call('send_message', { text: 'Hello' }), 'Sent.')
    t.equal(requests[0], 'POST /mcp 403')
    t.equal(requests.at(-1), 'POST /mcp 200')
    t.equal(logins.length, 2)
    t.equal(
      logins[1]!.searchParams.get('scope'),
      'read:messages write:messages',
      'both, so that the new token does what the first one did'
    )
    t.hasStrict(decodeJwt(token()), { scope: 'read:messages write:messages' })
    t.match(await client.call('read_messages'), /grace: Hello$/)
    t.equal(logins.length, 2, 'the new token serves both tools')
  }
)

t.test('A user without the permission gets no further than the provider lets them.', async t => {
  await t.rejects(connect(t, 'linus'), { message: 'The provider refused the login: access_denied' })
})

t.test('Without a token the answer says where to get one, and what it must be for.', async t => {
  const { status, challenges } = await send(toolCall('read_messages'))
  t.equal(status, 401)
  const location = `${base}/.well-known/oauth-protected-resource/mcp`
  t.strictSame(challenges.map(({ scheme }) => scheme), ['Bearer', 'DPoP'])
  for (const { parameters } of challenges) {
    t.hasStrict(parameters, { resource_metadata: location, scope: 'read:messages' })
  }
  t.hasStrict(await (await fetch(location)).json(), {
    resource: site.url,
    authorization_servers: [site.issuer],
    scopes_supported: ['read:messages'],
    bearer_methods_supported: ['header']
  })
})

t.test('Each call is judged by the tool that it names; a list of calls by all of them.', async t => {
  const { client, token } = await connect(t, 'grace')
  await client.call('read_messages')
  const headers = { authorization: `Bearer ${token()}` }
  const read = toolCall('read_messages')
  const write = toolCall('send_message', { text: 'Not heard.' })
  t.equal((await send(read, headers)).status, 200)
  for (const body of [write, [read, write], [write, read]]) {
    const { status, challenges } = await send(body, headers)
    t.equal(status, 403)
    t.match(challenges[0], {
      scheme: exactly('Bearer'),
      parameters: {
        error: exactly('insufficient_scope'),
        scope: exactly('read:messages write:messages'),
        resource_metadata: /./
      }
    })
  }
  t.notMatch(await client.call('read_messages'), containing('Not heard'))
  for (const name of ['none', '__proto__', 'constructor']) {
    t.match(await send(toolCall(name), headers), { status: 200, text: /"isError":true/ }, name)
  }
  for (const body of [null, 5, {}, [null], { ...read, params: 5 }]) {
    t.equal((await send(body, headers)).status, 400, JSON.stringify(body))
  }
  t.equal(
    (await send({ ...write, params: { name: ['send_message'] } }, headers)).status,
    403,
    'a name that reads like that of a tool'
  )
  for (const method of ['GET', 'DELETE']) {
    t.strictSame([(await send(undefined, headers, method)).status, (await send(undefined, {}, method)).status], [
      405,
      401
    ], `${method}: there are no sessions`)
  }
})

t.test('A token for another server is refused, also if it comes from the same provider.', async t => {
  const { client, token } = await connect(t, 'grace')
  await client.call('read_messages')
  const statusAt = async ({ url }: RunningApp, origin?: string) => {
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      authorization: `Bearer ${token()}`,
      ...origin !== undefined && { origin }
    }
    return (await fetch(`${url}/mcp`, { method: 'POST', headers, body: JSON.stringify(toolCall('read_messages')) }))
      .status
  }
  const start = (audience: string) =>
    startApp(
      t,
      { url: site.issuer } as Issuer,
      { IDP_AUDIENCE: audience, CORS_ORIGINS: 'https://page.example' },
      app => {
        app.register(mcp)
      }
    )
  const [same, other] = await Promise.all([start(site.url), start(base)])
  t.strictSame([await statusAt(same), await statusAt(other)], [200, 401])
  t.strictSame(other.reasons(), ['token_audience'])
  t.strictSame([await statusAt(same, 'https://page.example'), await statusAt(same, 'https://other.example')], [
    200,
    403
  ], 'a page of another origin is turned away')
})

t.test('The commands of the page work as they are printed.', async t => {
  const [demo, client] = readBlocks('examples/mcp/README.md').filter(({ language }) => language === 'sh').map(block =>
    block.text
  )
  const port = await freePort()
  const env = {
    PORT: String(port),
    REDIRECT_URL: `http://localhost:${await freePort()}/callback`,
    MCP_URL: `http://localhost:${port}/mcp`
  }
  let issuer = ''
  for await (const line of linesOf(t, demo!, env)) {
    issuer = /its provider at (\S+)\./.exec(line)?.[1] ?? ''
    if (issuer !== '') break
  }
  const visitor = createVisitor(issuer)
  const lines: string[] = []
  for await (const line of linesOf(t, client!, env)) {
    lines.push(line)
    if (line.startsWith(issuer)) logInAs(visitor, 'ada', new URL(line)).then(back => fetch(back))
  }
  t.strictSame(lines.filter(line => !line.startsWith(issuer) && !line.startsWith('>') && line !== ''), [
    'The server asks for read:messages. Log in here:',
    'Tools: read_messages, send_message',
    'read_messages: done',
    'The server asks for read:messages write:messages. Log in here:',
    'send_message: done',
    'ada: Hello'
  ])
})

t.test('The links of the page lead somewhere, and the example requires the packages that are tested here.', async t => {
  for (const page of ['examples/README.md', 'examples/mcp/README.md']) t.strictSame(findDeadLinks(page), [], page)
  t.match(textOf(textOf('examples/mcp/README.md').match(/CONFIG_FILE=(\S+)/)![1]!), /^gate:$/m, 'rules, from the top of the clone')
  const read = (file: string): Record<string, Record<string, string>> =>
    JSON.parse(textOf(file))
  t.hasStrict(read('package.json')['devDependencies'], read('examples/mcp/package.json')['dependencies'])
})
