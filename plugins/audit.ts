import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { createDecisionLine } from '../lib/audit/decision-line.ts'
import { verifiedTokenOf } from '../lib/guard/admission.ts'
import type { RefusedBecause } from '../lib/guard/decisions.ts'
import { schemeOf } from '../lib/credentials.ts'
import { readPseudonymKey } from '../lib/settings/secret.ts'
import { openAuditFile, unwritable } from '../server/audit-file.ts'
import type { AuditSink } from '../server/audit-file.ts'
import { processSurroundings } from '../server/surroundings.ts'

const kAdmissionNoted = Symbol('holdfast.admissionNoted')

declare module 'fastify' {
  interface FastifyInstance {
    /** The state of the record of decisions. Undefined if there is none. @internal */
    guardAudit: Pick<AuditSink, 'state'> | undefined
  }
  interface FastifyRequest {
    /** Whether its admission has been recorded, or was lost. @internal */
    [kAdmissionNoted]: boolean
  }
}

/** Writes down each decision of the guard, and of the doors of a gate. Without the setting it does nothing. */
export default fp(async (app: FastifyInstance) => {
  const { decisions, settings: { audit } } = app.holdfastGuard
  if (!audit) return
  const describe = createDecisionLine({
    now: processSurroundings.now,
    pseudonymKey: audit.pseudonymKey && await readPseudonymKey(audit.pseudonymKey, processSurroundings)
  })
  const sink = audit.to === 'log' ? createLogSink(app.log) : await openFile(app, audit.to)
  app.decorate('guardAudit', { state: sink.state })
  app.decorateRequest(kAdmissionNoted, false)
  app.addHook('onClose', () => sink.close())

  const write = (request: FastifyRequest, because?: RefusedBecause): void =>
    sink.write(describe({
      ...decisions.routeOf(request),
      id: request.id,
      ip: request.ip,
      peer: request.socket.remoteAddress,
      scheme: request.auth?.scheme ?? schemeOf(request.headers.authorization),
      token: verifiedTokenOf(request) ?? because?.token
    }, because))

  decisions.listeners.push({
    admitted (request) {
      // One request may pass several guards.
      if (request[kAdmissionNoted]) return
      request[kAdmissionNoted] = true
      write(request)
    },
    refused (request, because) {
      // Nobody was asked for anything.
      if (
        because.status === 404 && !because.isObserved && request.headers.authorization === undefined && request.headers['dpop'] === undefined
      ) return
      write(request, because)
    }
  })
}, { name: 'holdfast-audit', dependencies: ['holdfast-auth'] })

async function openFile (app: FastifyInstance, path: string): Promise<AuditSink> {
  let sink: AuditSink
  try {
    sink = await openAuditFile(path, {
      every: processSurroundings.every,
      onFault: code =>
        app.log.warn(
          { event: 'audit_unwritable', path, code },
          'audit unwritable: the lines are lost until it can be written'
        ),
      onRecovered: lost => app.log.info({ event: 'audit_writable', path, lost }, 'audit writable')
    })
  } catch (error) {
    throw unwritable(path, error as NodeJS.ErrnoException)
  }
  reopenOnHangup(app, sink)
  return sink
}

/** Programs that rotate files say so by SIGHUP, and otherwise it would end the process. */
function reopenOnHangup (app: FastifyInstance, { reopen }: AuditSink): void {
  process.on('SIGHUP', reopen)
  app.addHook('onClose', async () => {
    process.off('SIGHUP', reopen)
  })
  // fastify-cli ends the service on SIGHUP too, and listens after the app has loaded.
  app.addHook('onReady', async () => {
    for (const listener of process.listeners('SIGHUP')) {
      if (listener.name === 'onSignal') process.off('SIGHUP', listener)
    }
  })
}

const PINO_TIME = 'pino.time'

/** The log of the app gets each line, whatever its level is. */
function createLogSink (log: FastifyBaseLogger): Omit<AuditSink, 'reopen'> {
  const own = log.child({}, { level: 'info' })
  // Otherwise there would be two times in a line. Each copy of pino has a symbol of its own.
  const timeKey = symbolOf(own, PINO_TIME)
  if (timeKey) Object.defineProperty(own, timeKey, { value: () => `,"time":"${new Date().toISOString()}"` })
  let written = 0
  return {
    write (record) {
      const { time, ...rest } = record as { readonly time: string }
      own.info(timeKey ? rest : record, 'decision')
      written++
    },
    state: () => ({ written, lost: 0, fault: undefined }),
    close: async () => {}
  }
}

function symbolOf (object: object, description: string): symbol | undefined {
  for (let owner: object | null = object; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    const key = Object.getOwnPropertySymbols(owner).find(symbol => symbol.description === description)
    if (key) return key
  }
  return undefined
}
