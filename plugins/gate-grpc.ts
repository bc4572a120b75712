import { constants, createServer } from 'node:http2'
import type { Http2Server, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CHECK_PATH, readCheckRequest, writeDenied, writePassed } from '../lib/gate/ext-authz.ts'
import { isToldName } from '../lib/gate/told.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Where Envoy may ask over gRPC. Undefined until the app listens, and if there is no such service. */
    grpcAddress: () => AddressInfo | undefined
    /** The connections of Envoy that are open. */
    grpcSessions: () => number
  }
}

/** Larger than all headers that Envoy takes from a client together. */
const MAX_MESSAGE_BYTES = 256 * 1024
/** One byte for compression, which is not used, and four for the length. */
const FRAME_HEAD_BYTES = 5
/** Codes of gRPC. */
const STATUS = { ok: '0', invalid: '3', unimplemented: '12', internal: '13' } as const
/** What Envoy passes on to the client. */
const PASSED_ON: ReadonlySet<string> = new Set(['www-authenticate', 'dpop-nonce', 'retry-after', 'content-type', 'cache-control'])

/**
 * Envoy's external authorization over gRPC, on a port of its own. Each question is put to `/verify/forwarded` inside the process, so that
 * both forms have one answer.
 */
export default fp(async (app: FastifyInstance) => {
  const settings = app.gate?.settings
  const port = settings?.grpcPort
  const sessions = new Set<ServerHttp2Session>()
  let server: Http2Server | undefined
  app.decorate('grpcSessions', () => sessions.size)
  app.decorate('grpcAddress', () => server?.address() as AddressInfo | null | undefined ?? undefined)
  if (!settings || port === undefined) return

  app.addHook('onListen', async () => {
    const { address } = app.server.address() as AddressInfo
    const listening = server = createServer({ settings: { maxConcurrentStreams: 1000 } })
    listening.on('session', session => {
      sessions.add(session)
      session.once('close', () => sessions.delete(session))
    })
    listening.on('stream', (stream, { ':path': path }) => serve(stream, path))
    // Fastify only logs what a hook throws here, and a gate that Envoy cannot ask must not run on.
    listening.on('error', error => app.server.emit('error', Object.assign(error, { setting: 'gate.grpcPort' })))
    listening.listen(port, address, () => {
      app.log.info({ event: 'grpc_listening', port: (listening.address() as AddressInfo).port }, 'grpc listening')
    })
  })
  app.addHook('onClose', async () => {
    server?.close()
    for (const session of sessions) session.close()
  })

  function serve (stream: ServerHttp2Stream, path: string | undefined): void {
    // A stream that breaks off has nobody who would want the answer.
    stream.on('error', () => {})
    if (path !== CHECK_PATH) return end(stream, STATUS.unimplemented)
    // The peer is no longer known when the connection has gone.
    const remoteAddress = String(stream.session!.socket.remoteAddress)
    const chunks: Buffer[] = []
    let size = 0
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_MESSAGE_BYTES) chunks.push(chunk)
      else stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    })
    stream.on('end', () => {
      const frame = Buffer.concat(chunks)
      if (frame.length < FRAME_HEAD_BYTES || frame[0] !== 0 || frame.readUInt32BE(1) !== frame.length - FRAME_HEAD_BYTES) return end(stream, STATUS.invalid)
      answerTo(frame.subarray(FRAME_HEAD_BYTES), remoteAddress).then(message => send(stream, message), error => {
        if (error.name === 'MessageError') return end(stream, STATUS.invalid)
        app.log.error({ err: error }, 'question failed')
        end(stream, STATUS.internal)
      })
    })
  }

  async function answerTo (message: Buffer, remoteAddress: string): Promise<Buffer> {
    const { method, path, host, scheme, headers } = readCheckRequest(message)
    const lines: Record<string, string> = { 'x-forwarded-method': method, 'x-forwarded-proto': scheme, 'x-forwarded-host': host, 'x-forwarded-uri': path }
    // Two lines stay refused when they are joined.
    for (const name of ['authorization', 'dpop']) if (headers.has(name)) lines[name] = headers.get(name)!.join(', ')
    const answer = await app.inject({ url: '/verify/forwarded', headers: lines, remoteAddress })
    const told = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as const)
    const passedOn = told.filter(([name]) => PASSED_ON.has(name))
    if (answer.statusCode !== 200) return writeDenied({ status: answer.statusCode, headers: passedOn, body: answer.body })
    return writePassed({
      set: told.filter(([name]) => isToldName(name)),
      remove: [
        ...settings!.passCredentials ? [] : ['authorization', 'dpop'],
        // A name that the upstream could take for one of ours.
        ...[...headers.keys()].filter(name => isToldName(name) && !(name in answer.headers))
      ],
      answer: passedOn.filter(([name]) => name === 'dpop-nonce')
    })
  }
}, { name: 'gate-grpc', dependencies: ['gate'] })

function send (stream: ServerHttp2Stream, message: Buffer): void {
  if (stream.destroyed) return
  const head = Buffer.alloc(FRAME_HEAD_BYTES)
  head.writeUInt32BE(message.length, 1)
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': STATUS.ok }))
  stream.end(Buffer.concat([head, message]))
}

function end (stream: ServerHttp2Stream, status: string): void {
  if (!stream.destroyed) stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': status }, { endStream: true })
}
