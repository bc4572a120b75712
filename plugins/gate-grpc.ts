import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CHECK_PATH, readCheckRequest, writeDenied, writePassed } from '../lib/gate/ext-authz.ts'
import type { CheckRequest } from '../lib/gate/ext-authz.ts'
import { isIdentityName } from '../lib/gate/identity-headers.ts'
import { PARTIAL_BODY } from '../lib/gate/original.ts'
import { isWithheldName } from '../lib/gate/withheld.ts'
import { createPeerTrust } from '../lib/url/forwarded.ts'
import { createGrpcServer } from '../server/grpc-server.ts'
import type { GrpcServer } from '../server/grpc-server.ts'
import { processSurroundings } from '../server/surroundings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Where Envoy may ask over gRPC. Undefined until the app listens, and if there is no such service. */
    grpcAddress: () => AddressInfo | undefined
    /** The connections of Envoy that are open. */
    grpcSessions: () => number
    /** The question over gRPC that is put by this request. Undefined for all that come from elsewhere. */
    grpcQuestion: (request: IncomingMessage) => CheckRequest | undefined
  }
}

/** Envoy writes these itself, in place of what the client sent. */
const OF_ENVOY: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto'])
/** What Envoy passes on to the client. */
const PASSED_ON: ReadonlySet<string> = new Set(['www-authenticate', 'dpop-nonce', 'retry-after', 'content-type', 'cache-control'])
/** What of the client's headers has a say. Two lines stay refused when they are joined. */
const JUDGED = ['authorization', 'dpop', 'content-type', 'content-encoding', 'mcp-method', 'mcp-name', PARTIAL_BODY]
/** Names a question. Only this process knows the values, so no request from elsewhere has one. */
const QUESTION = 'x-holdfast-question'

/**
 * Envoy's external authorization over gRPC, on a port of its own. Each question is put to `/verify/forwarded` inside the process, so that
 * both forms have one answer, and each hook holds for both: overload, log, metrics, nonces, and those of an app's own plugins.
 */
export default fp(async (app: FastifyInstance) => {
  const settings = app.gate?.settings
  const port = settings?.grpcPort
  let server: GrpcServer | undefined
  const questions = new Map<unknown, CheckRequest>()
  app.decorate('grpcQuestion', ({ headers }) => questions.get(headers[QUESTION]))
  app.decorate('grpcSessions', () => server?.connections ?? 0)
  app.decorate('grpcAddress', () => server?.address())
  if (port === undefined) return

  app.addHook('onListen', async () => {
    const { address } = app.server.address() as AddressInfo
    const listening = server = createGrpcServer({
      path: CHECK_PATH,
      isTrusted: createPeerTrust(app.settings.server.trustProxy),
      onUntrusted: remoteAddress => app.log.info({ reason: 'peer_untrusted', remoteAddress }, 'grpc connection refused'),
      answer,
      onFault: err => app.log.error({ err }, 'question failed'),
      // Fastify only logs what a hook throws here, and a gate that Envoy cannot ask must not run on.
      onError: error => app.server.emit('error', Object.assign(error, { setting: 'gate.grpcPort' }))
    }, processSurroundings)
    listening.listen(port, address, () => app.log.info({ event: 'grpc_listening', port: listening.address()!.port }, 'grpc listening'))
  })
  // This takes as long as the answers that are due. Meanwhile the service waits for its own.
  let closed: Promise<void> | undefined
  app.addHook('preClose', async () => { closed = server?.close() })
  app.addHook('onClose', () => closed)

  async function answer (message: Buffer, remoteAddress: string): Promise<Buffer> {
    const question = readCheckRequest(message)
    const { method, path, host, scheme, headers } = question
    const name = randomUUID()
    const lines: Record<string, string> = { [QUESTION]: name, 'x-forwarded-method': method, 'x-forwarded-proto': scheme, 'x-forwarded-host': host, 'x-forwarded-uri': path }
    for (const judged of JUDGED) if (headers.has(judged)) lines[judged] = headers.get(judged)!.join(', ')
    questions.set(name, question)
    const verdict = await app.inject({ url: '/verify/forwarded', headers: lines, remoteAddress }).finally(() => questions.delete(name))
    const identity = Object.entries(verdict.headers).map(([name, value]) => [name, String(value)] as const)
    const passedOn = identity.filter(([name]) => PASSED_ON.has(name))
    if (verdict.statusCode !== 200) return writeDenied({ status: verdict.statusCode, headers: passedOn, body: verdict.body })
    return writePassed({
      set: identity.filter(([name]) => isIdentityName(name)),
      remove: [
        ...settings!.passCredentials ? [] : ['authorization', 'dpop'],
        // A client may not write what the upstream could take for the word of the gate or of Envoy.
        ...[...headers.keys()].filter(name => isWithheldName(name) && !OF_ENVOY.has(name) && !(name in verdict.headers))
      ],
      answer: passedOn.filter(([name]) => name === 'dpop-nonce')
    })
  }
}, { name: 'gate-grpc', dependencies: ['gate', 'closing'] })
