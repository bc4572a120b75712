import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { HOST } from '../../bench/provider.js'

const head = (method, path, lines = []) => [`${method} ${path} HTTP/1.1`, `Host: ${HOST}`, ...lines, ''].join('\r\n')
const SLOW = `${head('GET', '/api/private')}X-Slow: ${'x'.repeat(2_000)}`
const CHUNKS = '1\r\nx\r\n'.repeat(20)
const REST = '\r\n'

/**
 * The first message of TLS as a client sends it that takes the port for one of https: its record, then what only TLS
 * can read.
 */
const tlsHello = () => Buffer.concat([Buffer.from('16030100f8010000f40303', 'hex'), randomBytes(242)])

/**
 * What one hostile connection does: `first` is written at once, `then` every `everyMs`, for as long as the connection
 * is open. With `isDeaf` it never reads, and with `leavesAfterMs` it hangs up. `count` connections are opened together,
 * else as many as the run says, against the service, or the server that `at` names in `SERVERS` of hostile.js.
 */
export const KINDS = [
  { name: 'half a request head, then silence', first: () => head('GET', '/api/private') },
  {
    name: 'a request head, one byte a second',
    first: () => SLOW.slice(0, 1),
    everyMs: 1_000,
    then: turn => SLOW[turn]
  },
  {
    name: 'a request head of 16,000 short lines, without an end',
    first: () => head('GET', '/api/private') + 'a:\r\n'.repeat(16_000)
  },
  {
    name: 'a body in endless chunks of one byte',
    first: () => head('GET', '/api/private', ['Transfer-Encoding: chunked']) + REST,
    everyMs: 500,
    then: () => CHUNKS
  },
  {
    name: 'a body that never comes',
    first: () => head('POST', '/api/public', ['Content-Type: application/json', 'Content-Length: 10']) + REST
  },
  {
    name: '400 requests for /docs at once, no answer read',
    first: () => (head('GET', '/docs') + REST).repeat(400),
    isDeaf: true
  },
  {
    name: '2,500 requests without Host at once, no answer read',
    first: () => `${head('GET', '/docs')}${REST}${'GET / HTTP/1.1\r\n\r\n'.repeat(2_500)}`,
    isDeaf: true
  },
  {
    name: '31 requests for /docs at once, no answer read',
    first: () => (head('GET', '/docs') + REST).repeat(31),
    isDeaf: true,
    count: 1_500
  },
  {
    name: '31 requests for /docs with 14 KB of headers each, no answer read',
    first: () => (head('GET', '/docs', [`X-Fill: ${'x'.repeat(14_000)}`]) + REST).repeat(31),
    isDeaf: true,
    count: 1_500
  },
  {
    name: 'a body that goes on after its 404, a byte each second',
    first: () => head('POST', '/nowhere', ['Content-Length: 1000000']) + REST,
    everyMs: 1_000,
    then: () => 'x'
  },
  {
    name: 'the gate: 31 requests for an endless answer, then gone',
    at: 'gate',
    first: () => (head('GET', '/open/endless') + REST).repeat(31),
    isDeaf: true,
    leavesAfterMs: 2_000,
    count: 350
  },
  {
    name: 'the gate: 31 requests for 400 KB, no answer read',
    at: 'gate',
    first: () => (head('GET', '/open/large') + REST).repeat(31),
    isDeaf: true,
    count: 350
  },
  {
    name: 'the gate: 400 KB to a request with lines of an upgrade that its rule refuses, not read',
    at: 'gate',
    first: () => head('GET', '/open/large', ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c']) + REST,
    isDeaf: true
  },
  {
    name: 'the gate: a body that goes on after its 401, a byte each second',
    at: 'gate',
    first: () => head('POST', '/api/private', ['Content-Length: 1000000']) + REST,
    everyMs: 1_000,
    then: () => 'x'
  },
  {
    name: 'the gate: a body of one byte, then silence',
    at: 'gate',
    first: () => head('POST', '/open/body', ['Content-Length: 1000000']) + REST + 'x'
  },
  {
    name: 'half-closed after half a request, never closed',
    first: () => head('GET', '/api/private'),
    isHalfClosed: true
  },
  { name: 'the hello of TLS', first: tlsHello },
  { name: 'random bytes', first: () => randomBytes(512) }
]

const BATCH = 100 // Opened together: fewer than wait for a server to accept them.

/** Opens `count` connections of a kind. Each does what it does until it is ended by either side. */
export const openHostile = async ({ first, then, everyMs, isDeaf, isHalfClosed, leavesAfterMs }, port, count) => {
  const sockets = []
  while (sockets.length < count) {
    const batch = Array.from({ length: Math.min(BATCH, count - sockets.length) }, () => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      socket.on('error', () => {})
      // It begins to read as soon as it is connected, unless it is paused by then.
      if (isDeaf) socket.pause()
      else socket.resume()
      return socket
    })
    await Promise.all(batch.map(socket => once(socket, 'connect')))
    for (const socket of batch) {
      socket.write(first())
      if (isHalfClosed) socket.end()
    }
    sockets.push(...batch)
  }
  let turn = 0
  const timer = then && setInterval(() => {
    turn++
    for (const socket of sockets) if (socket.writable && socket.writableLength < 65_536) socket.write(then(turn))
  }, everyMs)
  const end = () => {
    clearInterval(timer)
    for (const socket of sockets) socket.destroy()
  }
  if (leavesAfterMs !== undefined) setTimeout(end, leavesAfterMs)
  return { end }
}
