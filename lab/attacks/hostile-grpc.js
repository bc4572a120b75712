import { once } from 'node:events'
import { connect as connectHttp2, constants } from 'node:http2'
import { connect } from 'node:net'

const PATH = '/envoy.service.auth.v3.Authorization/Check'
const MOST = 1280 * 1024

/** The address of all peers but those of a stranger. */
export const TRUSTED = '127.0.0.1'
const STRANGER = '127.0.0.2'

const frame = (message, length = message.length) => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(length, 1)
  return Buffer.concat([head, message])
}

const varint = value => value < 128 ? [value] : [value & 127 | 128, ...varint(value >>> 7)]
const field = (number, value) =>
  Buffer.concat([Buffer.from([...varint(number << 3 | 2), ...varint(value.length)]), Buffer.from(value)])

const request = (...entries) =>
  frame(field(
    1,
    field(
      4,
      field(
        2,
        Buffer.concat([
          field(2, 'GET'),
          field(4, '/orders/7'),
          field(5, 'api.example'),
          field(6, 'https'),
          ...entries
        ])
      )
    )
  ))
const CHECK_REQUEST = request()
/** As many headers without name and value as the largest message holds. */
const EMPTY = request(Buffer.from('1a00'.repeat(MOST / 2 - 100), 'hex'))

const begin = session => {
  const stream = session.request({
    ':method': 'POST',
    ':path': PATH,
    'content-type': 'application/grpc',
    te: 'trailers'
  })
  stream.on('error', () => {})
  stream.resume()
  return stream
}
const many = (session, count, body, end) => {
  for (let index = 0; index < count; index++) {
    const stream = begin(session)
    stream.write(body)
    if (end) stream.end()
  }
}

/** Twice as many as the service accepts at once. */
const COUNT = 256

/**
 * What one hostile peer of the gRPC port does with its session: `first` at once, `then` every `everyMs`. Without them
 * it says nothing. `localAddress` is the one that it comes from.
 */
export const GRPC_KINDS = [
  { name: 'gRPC: silence' },
  {
    name: 'gRPC: from an address that is not trusted, 12 messages of 1.25 MiB each',
    localAddress: STRANGER,
    first: session => many(session, 12, frame(Buffer.alloc(MOST)))
  },
  {
    name: 'gRPC: 12 messages of 1.25 MiB each, all but the last byte',
    first: session => many(session, 12, frame(Buffer.alloc(MOST - 1), MOST))
  },
  {
    name: 'gRPC: 1.25 MiB of empty entries, each second',
    first: session => begin(session).end(EMPTY),
    everyMs: 1_000,
    then: session => begin(session).end(EMPTY)
  },
  {
    name: 'gRPC: 10 messages, a byte of each in a second',
    first: session => {
      session.dribbled = Array.from({ length: 10 }, () => begin(session))
    },
    everyMs: 1_000,
    then: (session, turn) => {
      for (const stream of session.dribbled) if (stream.writable) stream.write(CHECK_REQUEST.subarray(turn, turn + 1))
    }
  },
  { name: 'gRPC: pings', everyMs: 1_000, then: session => session.ping(() => {}) },
  {
    name: 'gRPC: 100 calls, no room for an answer',
    settings: { initialWindowSize: 0 },
    first: session => many(session, 100, CHECK_REQUEST, true)
  },
  {
    name: 'gRPC: 10 calls a second, each cancelled',
    everyMs: 1_000,
    then: session => {
      for (let index = 0; index < 10; index++) {
        const stream = begin(session)
        stream.end(CHECK_REQUEST, () => stream.close(constants.NGHTTP2_CANCEL))
      }
    }
  }
].map(kind => ({ localAddress: TRUSTED, ...kind, at: 'grpc', count: COUNT }))

const BATCH = 100 // Opened together: fewer than wait for a server to accept them.

/** Opens `count` connections of a kind. Each does what it does until it is ended by either side. */
export const openHostileGrpc = async ({ first, then, everyMs, settings, localAddress }, port, count) => {
  const peers = []
  while (peers.length < count) {
    const batch = Array.from({ length: Math.min(BATCH, count - peers.length) }, () => {
      const socket = connect({ port, host: '127.0.0.1', localAddress })
      socket.on('error', () => {})
      if (!first && !then) return { socket: socket.resume() }
      const session = connectHttp2(`http://127.0.0.1:${port}`, { createConnection: () => socket, settings })
      session.on('error', () => {})
      return { socket, session }
    })
    await Promise.all(batch.map(({ socket }) => Promise.race([once(socket, 'connect'), once(socket, 'close')])))
    for (const { session } of batch) if (session && !session.destroyed) first?.(session)
    peers.push(...batch)
  }
  let turn = 0
  const timer = then && setInterval(() => {
    turn++
    for (const { session } of peers) if (!session.destroyed && !session.closed) then(session, turn)
  }, everyMs)
  return {
    end: () => {
      clearInterval(timer)
      for (const { socket } of peers) socket.destroy()
    }
  }
}
