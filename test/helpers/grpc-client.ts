import { once } from 'node:events'
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream, type ClientSessionOptions } from 'node:http2'
import type { Test } from 'tap'

export interface GrpcAnswer {
  status: string
  message: Buffer
  /** The length before the message. */
  length: number | undefined
  headers: Record<string, unknown>
}

/** A connection to a port of loopback. It ends with the test. */
export async function openGrpc (
  t: Test,
  port: number,
  options: ClientSessionOptions = {}
): Promise<ClientHttp2Session> {
  const client = connect(`http://127.0.0.1:${port}`, options)
  // Each call fails by itself.
  client.on('error', () => {})
  t.teardown(() => {
    client.destroy()
  })
  await once(client, 'remoteSettings')
  return client
}

/** Begins a call. Its body is still to be written. */
export function beginCall (client: ClientHttp2Session, path: string): ClientHttp2Stream {
  return client.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
}

/** Resolves when the server has read all that was sent before. */
export function ping (client: ClientHttp2Session): Promise<void> {
  return new Promise((resolve, reject) => client.ping(error => error ? reject(error) : resolve()))
}

/** The answer to a call, once the call is over. Rejects if it is broken off. */
export function answerTo (stream: ClientHttp2Stream): Promise<GrpcAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let status: unknown
    let seen = {}
    stream.on('response', (headers, flags) => {
      seen = headers
      status = headers['grpc-status']
      // gRPC over HTTP/2: a status among the headers is the whole answer.
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
      if (isWhole !== (status !== undefined)) reject(new Error('The answer ends early, or late'))
    })
    stream.on('trailers', trailers => {
      status = trailers['grpc-status']
    })
    stream.on('data', chunk => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('close', () => {
      const frame = Buffer.concat(chunks)
      if (status === undefined) return reject(new Error('The call has no status'))
      resolve({
        status: String(status),
        message: frame.subarray(5),
        length: frame.length === 0 ? undefined : frame.readUInt32BE(1),
        headers: seen
      })
    })
  })
}

export function callGrpc (client: ClientHttp2Session, path: string, body: Buffer): Promise<GrpcAnswer> {
  const stream = beginCall(client, path)
  const answer = answerTo(stream)
  stream.end(body)
  return answer
}

/** A message as gRPC sends it. */
export function frame (message: Buffer, length = message.length): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(length, 1)
  return Buffer.concat([head, message])
}
