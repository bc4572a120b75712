import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { openAudit } from './audit/audit.ts'
import type { AuditSink } from './audit/audit-file.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The state of the record of decisions, or undefined if there is none. @internal */
    guardAudit: Pick<AuditSink, 'state'> | undefined
  }
}

/** Writes down each decision of the guard, and of the doors of a gate. Without the setting it does nothing. */
export default fp(async (app: FastifyInstance) => {
  const { decisions, parts, settings: { audit } } = app.holdfastGuard
  if (!audit) return
  const { meet, state, close } = await openAudit(audit, {
    log: app.log,
    decisions,
    // The app itself may trust other peers.
    originOf: ({ id, raw }) => ({ id, ip: parts.addressOf(raw) })
  })
  app.decorate('guardAudit', { state })
  app.addHook('onRequest', (request, _reply, done) => {
    meet(request)
    done()
  })
  app.addHook('onClose', close)
  if (audit.to === 'log') return
  // fastify-cli ends the service on SIGHUP too, by the listener of all signals, which it adds after the app has loaded.
  app.addHook('onReady', async () => {
    const ending = process.listeners('SIGTERM')
    for (const listener of process.listeners('SIGHUP')) {
      if (listener.name === 'onSignal' && ending.includes(listener)) process.off('SIGHUP', listener)
    }
  })
}, { name: 'holdfast-audit', dependencies: ['holdfast-auth'] })
