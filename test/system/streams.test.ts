import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SHIPPED_FILES, type ShippedFile, type ShippedSite } from '../helpers/shipped-files.ts'
import { startUpstream } from '../helpers/upstream.ts'

/** Longer than the minute after which each of these proxies ends what is silent, unless its file says otherwise. */
const SILENT_MS = Number(process.env['SILENT_SECONDS'] ?? 130) * 1000

t.setTimeout(SILENT_MS + 120_000)

interface Wire {
  socket: Socket
  received: string
}

function open ({ url, prefix, connect }: ShippedSite, path: string, lines: readonly string[] = []) {
  const wire = { socket: connect(), received: '' }
  wire.socket.on('data', chunk => {
    wire.received += chunk
  }).on('error', () => {})
  wire.socket.write(
    [`GET ${prefix}${path} HTTP/1.1`, `Host: ${new URL(url).host}`, ...lines, '', ''].join('\r\n')
  )
  return wire
}

/** Waits until this has come, or the connection ends. */
async function until (wire: Wire, text: string) {
  while (!wire.received.includes(text)) {
    if (wire.socket.closed) return false
    await Promise.race([once(wire.socket, 'data'), once(wire.socket, 'close')]).catch(() => {})
  }
  return true
}

/**
 * Of the connections from or to a port that are established, whether the kernel probes whether the other side is still
 * there. The pending timer of a connection that is silent can be no other (`tr` 02 in /proc/net/tcp).
 */
function probes (of: 'local' | 'remote', port: number) {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return ['tcp', 'tcp6'].flatMap(file =>
    readFileSync(`/proc/net/${file}`, 'utf8').split('\n').slice(1).map(line => line.trim().split(/\s+/))
  ).filter(([, local, remote, state]) => state === '01' && (of === 'local' ? local : remote)!.endsWith(end)).map(
    ([, , , , , timer]) => timer!.startsWith('02:')
  )
}

async function tryFile (t: Test, { start }: ShippedFile) {
  const streams: ServerResponse[] = []
  const { server, origin } = await startUpstream(t, (request, response) => {
    if (!request.url!.endsWith('/events')) {
      response.end('ok')
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    streams.push(response)
  })
  server.on('upgrade', (_request, socket: Socket) => {
    socket.on('error', () => {})
    // HAProxy compares it with the key.
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' +
        's3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
    )
    socket.pipe(socket)
  })
  const application = Number(new URL(origin).port)
  const site = await start(t, application)
  const [stream, socket] = [
    open(site, '/open/events', ['Accept: text/event-stream']),
    open(site, '/open/socket', [
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    ])
  ]
  t.ok(await until(stream, '\r\n\r\n'), 'the head of the stream comes before anything else of it')
  t.match(stream.received, /^HTTP\/1.1 200 /)
  t.ok(await until(socket, '\r\n\r\n'))
  t.match(socket.received, /^HTTP\/1.1 101 /)
  const before = [stream.received, socket.received]

  const silence = delay(SILENT_MS)
  // What is on its way has been acknowledged by then.
  await delay(Math.min(SILENT_MS / 2, 5000))
  const [clients, applications] = [probes('local', Number(new URL(site.url).port)), probes('remote', application)]
  // A file for a part of a site leaves the address to the site.
  if (site.prefix === '') t.ok(clients.length >= 2 && !clients.includes(false), `clients are probed: ${clients}`)
  t.ok(applications.length >= 2 && !applications.includes(false), `so is the application: ${applications}`)
  await silence

  t.strictSame([stream.received, socket.received], before, 'nothing has come meanwhile')
  streams[0]!.write('data: late\n\n')
  socket.socket.write('late')
  t.ok(await until(stream, 'data: late\n\n'), 'the stream lives')
  t.ok(await until(socket, '\r\n\r\nlate'), 'the socket lives')
  for (const wire of [stream, socket]) wire.socket.destroy()
}

t.test('A silent stream and an idle WebSocket live on behind each shipped file, and a stream begins at once.', {
  jobs: SHIPPED_FILES.length
}, async t => {
  await Promise.all(SHIPPED_FILES.map(file =>
    t.test(file.name, { skip: file.program === undefined && 'not installed' }, t => tryFile(t, file))
  ))
})
