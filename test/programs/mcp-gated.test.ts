import { decodeJwt } from 'jose'
import t, { type Test } from 'tap'
import { createMcpClient, type McpClient } from '../../examples/mcp/client.ts'
import { createDpopClient, type DpopClientOptions } from '../../examples/mcp/dpop-client.ts'
import { CLIENT_ID } from '../../examples/mcp/site.ts'
import { startGatedSite } from '../../examples/mcp/gated/site.ts'
import { atAnotherTime } from '../helpers/clock.ts'
import { linesOf } from '../helpers/command-line.ts'
import { readBlocks } from '../helpers/documents.ts'
import { freePort } from '../helpers/free-port.ts'
import { createVisitor, logInAs, type Visitor } from '../helpers/visitor.ts'

const redirectUrl = `http://localhost:${await freePort()}/callback`
const answers: string[] = []
const serverPort = await freePort()
const site = await startGatedSite({
  port: await freePort(),
  serverPort,
  redirectUrl,
  onAnswer: answer => answers.push(answer)
})
t.teardown(() => site.close())

/** What the gate says about the next messages. It says it when they are answered, so the client may know before. */
async function said (count: number) {
  while (answers.length < count) await new Promise(setImmediate)
  return answers.splice(0)
}

type MakeClient = (options: DpopClientOptions) => Promise<McpClient>

async function connect (
  t: Test,
  user: string,
  makeClient: MakeClient = createMcpClient,
  visitor: Visitor = createVisitor(site.issuer)
) {
  const logins: URL[] = []
  const schemes = new Set<string | undefined>()
  let token = ''
  const client = await makeClient({
    url: site.url,
    clientId: CLIENT_ID,
    redirectUrl,
    fetch: (input, init) => {
      const { authorization } = Object.fromEntries(new Headers(init?.headers))
      const [scheme, text] = authorization?.split(' ') ?? []
      if (text !== undefined) token = text
      schemes.add(scheme)
      return fetch(input, init)
    },
    onLogin: url => {
      logins.push(url)
      logInAs(visitor, user, url).then(back => fetch(back))
    }
  })
  t.teardown(() => client.close())
  return { client, logins, schemes, token: () => token }
}

const BEGIN = {
  sessions: ['401 credentials_missing', '200 initialize', '202 notifications/initialized'],
  none: ['401 credentials_missing', '200 server/discover']
}

const CLIENTS: ReadonlyArray<{ title: string, makeClient: MakeClient, begin: string[], scheme: string }> = [
  { title: 'version 1', makeClient: createMcpClient, begin: BEGIN.sessions, scheme: 'Bearer' },
  {
    title: 'version 2, in the older form',
    makeClient: options => createDpopClient({ ...options, mode: 'legacy' }),
    begin: BEGIN.sessions,
    scheme: 'DPoP'
  },
  { title: 'version 2, which asks for the form', makeClient: createDpopClient, begin: BEGIN.none, scheme: 'DPoP' },
  {
    title: 'version 2, in the newer form alone',
    makeClient: options => createDpopClient({ ...options, mode: { pin: '2026-07-28' } }),
    begin: BEGIN.none,
    scheme: 'DPoP'
  },
  {
    title: 'version 2, with Bearer tokens',
    makeClient: options => createDpopClient({ ...options, isBound: false }),
    begin: BEGIN.none,
    scheme: 'Bearer'
  }
]

for (const { title, makeClient, begin, scheme } of CLIENTS) {
  t.test(
    `The client of the SDK (${title}) is refused, steps up and succeeds, and a tool without a rule does not end ` +
      'its session.',
    async t => {
      const { client, logins, schemes, token } = await atAnotherTime(-60, () => connect(t, 'grace', makeClient))
      const asked = (name: string) => logins.at(-1)!.searchParams.get(name)
      t.strictSame(await said(begin.length), begin)
      t.strictSame([logins.length, asked('scope'), asked('max_age')], [1, 'read:messages', null])
      t.strictSame(
        [asked('resource'), decodeJwt(token()).aud],
        [site.url, site.url],
        'the token is for the whole address of the endpoint'
      )
      t.strictSame(
        await client.toolNames(),
        ['read_messages', 'send_message', 'delete_messages'],
        'the server has one more, which no rule names'
      )
      await client.call('read_messages')
      t.strictSame([await said(2), logins.length], [['200 tools/list', '200 tools/call read_messages'], 1])

      await t.rejects(client.call('drop_everything'), { message: /No rule holds for what the message names\./ })
      t.strictSame(await said(1), ['404 no_rule'])
      t.equal(await client.call('send_message', { text: 'Hello' }), 'Sent.')
      t.strictSame(await said(2), ['403 scope_missing tools/call send_message', '200 tools/call send_message'])
      t.strictSame([logins.length, asked('scope'), asked('max_age')], [2, 'read:messages write:messages', null])
      t.match(await client.call('read_messages'), /^grace: Hello$/m, 'the server has the name from the gate')
      const { auth_time: old } = decodeJwt(token())
      await said(1)

      t.equal(await client.call('delete_messages'), 'Deleted: 1.')
      t.strictSame(await said(2), [
        '401 authentication_too_old tools/call delete_messages',
        '200 tools/call delete_messages'
      ])
      t.strictSame([logins.length, asked('max_age')], [3, '10'])
      t.strictSame(
        new Set(asked('scope')!.split(' ')),
        new Set(['openid', 'read:messages', 'write:messages']),
        'the new token serves all tools'
      )
      const { auth_time: recent, sub, cnf } = decodeJwt(token())
      t.ok(Number(recent) - Number(old) >= 60)
      t.strictSame([sub, cnf !== undefined], ['grace', scheme === 'DPoP'])
      t.strictSame([...schemes].filter(one => one !== undefined), [scheme])
      await client.close()
    }
  )
}

t.test('A server of the newer form alone works behind the same rules, and says so to a client of the older form.', async t => {
  const newer = await startGatedSite({
    port: await freePort(),
    serverPort: await freePort(),
    redirectUrl,
    onAnswer: () => {},
    server: { legacy: 'reject' }
  })
  t.teardown(() => newer.close())
  const options = {
    url: newer.url,
    clientId: CLIENT_ID,
    redirectUrl,
    onLogin: (url: URL) => {
      logInAs(createVisitor(newer.issuer), 'ada', url).then(back => fetch(back))
    }
  }
  const client = await createDpopClient(options)
  t.strictSame(await client.toolNames(), ['read_messages', 'send_message', 'delete_messages'])
  await client.close()
  await t.rejects(
    createMcpClient(options),
    { message: /-32022|[Uu]nsupported protocol version/ },
    'the words are those of the server'
  )
})

t.test('A user without the permission gets no further than the provider lets them.', async t => {
  await t.rejects(connect(t, 'linus'), { message: 'The provider refused the login: access_denied' })
})

t.test('The server itself checks nothing: only the gate protects it.', async t => {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'read_messages', arguments: {} }
  })
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-auth-subject': 'root'
  }
  const statuses = await Promise.all(
    [`http://127.0.0.1:${serverPort}/mcp`, site.url].map(async url =>
      (await fetch(url, { method: 'POST', headers, body })).status
    )
  )
  t.strictSame(statuses, [200, 401])
})

t.test('The commands of the page print what the page shows.', async t => {
  const blocks = readBlocks('examples/mcp/README.md')
  const commandOf = (name: string) => blocks.find(({ text }) => text.endsWith(`npm run ${name}\n`))!.text
  const [transcript, ofGate] = blocks.filter(({ language }) => language === 'text').map(({ text }) =>
    text.trimEnd().split('\n')
  )
  const port = await freePort()
  const env = {
    PORT: String(port),
    SERVER_PORT: String(await freePort()),
    REDIRECT_URL: `http://localhost:${await freePort()}/callback`,
    MCP_URL: `http://localhost:${port}/mcp`
  }
  const shown: string[] = []
  const issuer = await new Promise<string>(resolve => {
    linesOf(t, commandOf('gated'), env).on('line', line => {
      const [, address] = /its provider at (\S+)\./.exec(line) ?? []
      if (address !== undefined) resolve(address)
      else if (line.startsWith('POST ')) shown.push(line)
    })
  })
  const visitor = createVisitor(issuer)
  const printed: string[] = []
  for await (const line of linesOf(t, commandOf('gated-client'), env)) {
    if (line.startsWith(issuer)) logInAs(visitor, 'ada', new URL(line)).then(back => fetch(back))
    if (line !== '' && !line.startsWith('>')) {
      printed.push(line.startsWith(issuer) ? 'http://localhost:PORT/authorize?...' : line)
    }
  }
  t.strictSame(printed, transcript)
  // The gate says it when it has answered, so the client may have ended before.
  while (shown.length < ofGate!.length) await new Promise(resolve => setTimeout(resolve, 20))
  t.strictSame(shown, ofGate)
})
