import { createServer, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { SHIPPED_FILES } from '../helpers/shipped-files.ts'
import { listen } from '../helpers/listen.ts'
import { startUpstream } from '../helpers/upstream.ts'

/** Requests over HTTP/2, which come from no proxy that has asked the gate about them. */
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

/** What a client writes so that the proxy sees a WebSocket, and the application `h2c`. */
const SPELLINGS: readonly (readonly string[])[] = [
  ['Upgrade: h2c'],
  ['Upgrade: h2 c'],
  ['Upgrade: H2C'],
  ['Upgrade: h2c', 'Upgrade: websocket'],
  ['Upgrade: websocket', 'Upgrade: h2c'],
  ['UPGRADE: WebSocket', 'upgrade: h2c'],
  ['Upgrade: websocket, h2c', 'Upgrade: websocket'],
  ['Upgrade:', 'Upgrade: h2c', 'Upgrade: websocket'],
  ['Upgrade: websocket,h2c'],
  ['Upgrade: h2c, websocket'],
  ['Upgrade: websocket\t', 'Upgrade: h2 c'],
  ['Upgrade: websocket;h2c'],
  ['Upgrade: websocket/13', 'Upgrade: h2c']
]

const upgradesOf = ({ rawHeaders }: IncomingMessage) =>
  rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]!.toLowerCase() === 'upgrade')

/** The most willing of applications: it changes to h2c wherever any line of a request has that name, blanks or not. */
async function startApplication (t: Test) {
  const [upgrades, tunnels]: [string[][], string[]] = [[], []]
  const server = createServer((request, response) => {
    if (!request.url!.includes('/health/')) upgrades.push(upgradesOf(request))
    response.end('ok')
  })
  server.on('upgrade', (request, socket: Socket) => {
    const lines = upgradesOf(request)
    upgrades.push(lines)
    const isH2c = /h2c/i.test(lines.join().replace(/\s/g, ''))
    socket.on('error', () => {}).on('data', chunk => {
      if (isH2c && String(chunk).startsWith('PRI ')) tunnels.push(request.url!)
      socket.end()
    })
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${isH2c ? 'h2c' : 'websocket'}\r\n` +
        'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
    )
  })
  const serverPort = await listen(t, server)
  return { port: serverPort, upgrades, tunnels }
}

/** Sends the request, and the preface when a status has come. Gives the status, 0 if there is none. */
async function knock (socket: Socket, host: string, path: string, lines: readonly string[]) {
  let received = ''
  socket.on('data', chunk => {
    // A proxy that has answered a plain request may wait for another one.
    if (received === '') socket.setTimeout(2000).write(PREFACE)
    received += chunk
  }).on('error', () => {})
  socket.write(
    [
      `GET ${path} HTTP/1.1`,
      `Host: ${host}`,
      'Connection: Upgrade, HTTP2-Settings',
      'HTTP2-Settings: AAMAAABkAAQAAP__',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ...lines,
      '',
      ''
    ].join('\r\n')
  )
  socket.setTimeout(60_000, () => socket.destroy())
  await new Promise(resolve => socket.on('close', resolve))
  return Number(received.split(' ')[1] ?? 0)
}

t.test('No spelling of Upgrade opens a way around the gate: the application gets the one word of the file, or none.', async t => {
  await t.test('The twin: without a proxy, the application opens it.', async t => {
    const { port, tunnels } = await startApplication(t)
    for (const lines of SPELLINGS) await knock(connect(port, '127.0.0.1'), 'x', '/open/a', lines)
    t.equal(tunnels.length, SPELLINGS.length)
  })
  for (const { name, program, start } of SHIPPED_FILES) {
    await t.test(name, { skip: program === undefined && 'not installed' }, async t => {
      const { port, upgrades, tunnels } = await startApplication(t)
      const { url, prefix, connect } = await start(t, port)
      const ask = (lines: readonly string[]) =>
        knock(connect(), new URL(url).host, `${prefix}/open/a`, lines)
      t.equal(await ask(['Upgrade: websocket']), 101, 'a WebSocket')
      t.strictSame(upgrades, [['websocket']])
      const statuses = await Promise.all(SPELLINGS.map(ask))
      t.strictSame(tunnels, [], `statuses ${statuses}`)
      t.strictSame(upgrades.filter(lines => lines.length > 0 && lines.join('|') !== 'websocket'), [])
    })
  }
})

/** By these a service would learn from a proxy that it trusts where a request came from. */
const OF_PROXIES = [
  'Forwarded',
  'X-Forwarded-Proto',
  'X-Forwarded-Host',
  'X-Forwarded-Port',
  'X-Forwarded-Prefix',
  'X-Forwarded-Client-Cert',
  'X-Forwarded-Tls-Client-Cert',
  'X-SSL-Client-Cert',
  'X-Amzn-Mtls-Clientcert-Leaf',
  'Client-Cert'
]

t.test('What a client writes to be taken for a proxy reaches no service.', async t => {
  for (const { name, program, start } of SHIPPED_FILES) {
    await t.test(name, { skip: program === undefined && 'not installed' }, async t => {
      const { server, arrived } = await startUpstream(t)
      const { url, prefix, connect } = await start(t, (server.address() as AddressInfo).port)
      const lines = [...OF_PROXIES, 'X-Other'].map(name => `${name}: /evil`)
      await knock(connect(), new URL(url).host, `${prefix}/open/a`, lines)
      const { rawHeaders } = arrived.find(({ target }) => target.endsWith('/open/a'))!
      t.strictSame(rawHeaders.filter((_, at) => rawHeaders[at + 1]?.includes('/evil')).map(name => name.toLowerCase()), ['x-other'])
    })
  }
})
