import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CHECK_PATH, readCheckRequest, writeDenied, writePassed, type CheckRequest } from '../lib/gate/ext-authz.ts'
import { createWithheld } from '../lib/gate/headers.ts'
import { isIdentityName, plainName } from '../lib/gate/identity-headers.ts'
import { PARTIAL_BODY } from '../lib/gate/original.ts'
import { certificateHeaders } from '../lib/guard/certificate/client-certificate.ts'
import { createPeerTrust } from '../lib/guard/url/base-url.ts'
import { createGrpcServer, type GrpcServer } from './gate-grpc/grpc-server.ts'
import { processSurroundings } from '../server/surroundings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The address for Envoy's gRPC. Undefined until the app listens, and if there is no such service. */
    grpcAddress: () => AddressInfo | undefined
    /** The number of open connections of Envoy. */
    grpcSessions: () => number
    /**
     * The check request of Envoy's gRPC for which this request was made. Undefined for all that come from elsewhere.
     */
    checkRequestOf: (request: IncomingMessage) => CheckRequest | undefined
  }
}

/** Envoy writes these itself, in place of what the client sent. */
const OF_ENVOY: ReadonlySet<string> = new Set(['x-forwarded-for', 'x-forwarded-proto'])
/** What Envoy passes on to the client. */
const PASSED_ON: ReadonlySet<string> = new Set([
  'www-authenticate',
  'dpop-nonce',
  'retry-after',
  'content-type',
  'cache-control'
])
/** The headers of the client that are judged. Two lines stay refused when they are joined. */
const JUDGED = ['authorization', 'dpop', PARTIAL_BODY, 'x-request-id', 'x-forwarded-for']
/** Those that say how a message is read, also if `_` stands for `-`: some upstreams see no difference. */
const OF_MESSAGE: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version'
])
/** Names a check request. Only this process knows the values, so no request from elsewhere has one. */
const CHECK_NAME = 'x-holdfast-check'

/**
 * Envoy's external authorization over gRPC, on a port of its own. Each check request goes to `/verify/forwarded` inside
 * the process, so that both forms have one answer, and each hook holds for both: overload, log, metrics, nonces, and
 * those of an app's own plugins.
 */
export default fp(async (app: FastifyInstance) => {
  const settings = app.gate?.settings
  const port = settings?.grpcPort
  const isWithheld = createWithheld(settings?.withheldHeaders ?? [])
  const ofCertificate = certificateHeaders(app.settings.server.clientCertificate)
  let server: GrpcServer | undefined
  const checks = new Map<unknown, CheckRequest>()
  app.decorate('checkRequestOf', ({ headers }) => checks.get(headers[CHECK_NAME]))
  app.decorate('grpcSessions', () => server?.connections ?? 0)
  app.decorate('grpcAddress', () => server?.address())
  if (port === undefined) return

  app.addHook('onListen', async () => {
    const { address } = app.server.address() as AddressInfo
    const isTrusted = createPeerTrust(app.settings.server.trustProxy)
    const listening = server = createGrpcServer({
      path: CHECK_PATH,
      accepts (remoteAddress) {
        if (isTrusted(remoteAddress)) return true
        app.log.info({ reason: 'peer_untrusted', remoteAddress }, 'grpc connection refused')
        return false
      },
      answer,
      onFault: err => app.log.error({ err }, 'authorization request failed'),
      // Fastify only logs what a hook throws here, and a gate that Envoy cannot ask must not run on.
      onError: error => app.server.emit('error', Object.assign(error, { setting: 'gate.grpcPort' }))
    }, processSurroundings)
    listening.listen(
      port,
      address,
      () => app.log.info({ event: 'grpc_listening', port: listening.address()!.port }, 'grpc listening')
    )
  })
  // This takes as long as the answers that are due. Meanwhile the service waits for its own.
  let closed: Promise<void> | undefined
  app.addHook('preClose', async () => {
    closed = server?.close()
  })
  app.addHook('onClose', () => closed)

  async function answer (message: Buffer, remoteAddress: string) {
    const check = readCheckRequest(message)
    const { method, path, host, scheme, headers } = check
    const name = randomUUID()
    const lines: Record<string, string | string[]> = {
      [CHECK_NAME]: name,
      'x-forwarded-method': method,
      'x-forwarded-proto': scheme,
      'x-forwarded-host': host,
      'x-forwarded-uri': path
    }
    for (const judged of JUDGED) if (headers.has(judged)) lines[judged] = headers.get(judged)!.join(', ')
    // Joined, two lines could be read as one certificate.
    for (const name of ofCertificate) if (headers.has(name)) lines[name] = [...headers.get(name)!]
    for (const [spelling, values] of headers) {
      const name = plainName(spelling)
      if (OF_MESSAGE.has(name)) lines[name] = [lines[name] ?? [], values].flat().join(', ')
    }
    checks.set(name, check)
    const verdict = await app.inject({ url: '/verify/forwarded', headers: lines, remoteAddress }).finally(() =>
      checks.delete(name)
    )
    const answered = Object.entries(verdict.headers).map(([name, value]) => [name, String(value)] as const)
    const passedOn = answered.filter(([name]) => PASSED_ON.has(name))
    if (verdict.statusCode !== 200) {
      return writeDenied({ status: verdict.statusCode, headers: passedOn, body: verdict.body })
    }
    const set = answered.filter(([name]) => isIdentityName(name) || name === 'x-request-id')
    const replaced = new Set(set.map(([name]) => name))
    return writePassed({
      set,
      remove: [
        ...settings!.passCredentials || app.holdfastGuard.parts.observing?.isOn() ? [] : ['authorization', 'dpop'],
        // A client may not write what the upstream could take for the word of the gate or of Envoy.
        ...[...headers.keys()].filter(name => isWithheld(name) && !OF_ENVOY.has(name) && !replaced.has(name))
      ],
      answer: passedOn.filter(([name]) => name === 'dpop-nonce')
    })
  }
}, { name: 'gate-grpc', dependencies: ['gate', 'closing'] })
