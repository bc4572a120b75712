import { hiddenMember } from '../../lib/base/hidden-member.ts'
import { createDecisionLine } from '../../lib/report/audit/decision-line.ts'
import { schemeSent } from '../../lib/guard/credentials.ts'
import { createPrivateNote, verifiedTokenOf, type AdmissibleRequest } from '../../lib/guard/admission.ts'
import type { Decisions, RefusedBecause } from '../../lib/guard/decisions.ts'
import { receivedFrom } from '../../lib/guard/message.ts'
import { readPseudonymKey } from '../../lib/settings/secret.ts'
import type { Settings } from '../../lib/settings/settings.ts'
import { openAuditFile, unwritable, type AuditSink } from './audit-file.ts'
import type { GuardLog } from '../../server/running-guard.ts'
import { processSurroundings } from '../../server/surroundings.ts'

/** What is used of a log. */
interface AuditLog extends GuardLog {
  child? (bindings: object, options: { readonly level: 'info' }): Pick<AuditLog, 'info'>
}

interface AuditOptions<Request> {
  readonly log: AuditLog
  readonly decisions: Decisions<Request>
  /** The id of a request, and the address of its client as a trusted proxy says it. */
  readonly originOf: (request: Request) => { readonly id: string, readonly ip: string | undefined }
}

/** Writes down each decision, from now until it is closed. */
export async function openAudit<Request extends AdmissibleRequest> (
  { to, pseudonymKey }: NonNullable<Settings['audit']>,
  { log, decisions, originOf }: AuditOptions<Request>
) {
  const describe = createDecisionLine({
    now: processSurroundings.now,
    pseudonymKey: pseudonymKey && await readPseudonymKey(pseudonymKey, processSurroundings)
  })
  const sink = to === 'log' ? createLogSink(log) : await openFile(log, to)
  /** Those whose admission has been recorded, or was lost. */
  const admitted = new WeakSet<Request>()
  const arrival = (request: Request) => ({ ...originOf(request), peer: receivedFrom(request.raw).socket.remoteAddress })
  const arrivals = createPrivateNote<ReturnType<typeof arrival>>()

  const write = (request: Request, because?: RefusedBecause) => {
    const { raw, auth } = request
    sink.write(describe({
      ...decisions.routeOf(request),
      // No hook sees a request that cannot be routed.
      ...arrivals.get(request) ?? arrival(request),
      scheme: auth?.scheme ?? schemeSent(raw),
      token: verifiedTokenOf(request) ?? because?.token
    }, because))
  }

  decisions.listeners.push({
    admitted (request) {
      // One request may pass several guards.
      if (admitted.has(request)) return
      admitted.add(request)
      write(request)
    },
    refused (request, because) {
      const { authorization, dpop } = request.raw.headers
      // Nobody was asked for anything.
      if (because.status === 404 && !because.isObserved && authorization === undefined && dpop === undefined) return
      write(request, because)
    }
  })
  return {
    ...sink,
    /** Takes down who sends a request as soon as it is there: the address of a connection is lost with it. */
    meet: (request: Request) => arrivals.set(request, arrival(request))
  }
}

async function openFile (log: AuditLog, path: string): Promise<Pick<AuditSink, 'write' | 'state' | 'close'>> {
  let sink: AuditSink
  try {
    sink = await openAuditFile(path, {
      every: processSurroundings.every,
      onFault: code =>
        log.warn(
          { event: 'audit_unwritable', path, code },
          'audit unwritable: the lines are lost until it can be written'
        ),
      onRecovered: lost => log.info({ event: 'audit_writable', path, lost }, 'audit writable')
    })
  } catch (error) {
    throw unwritable(path, error as NodeJS.ErrnoException)
  }
  const { reopen, close, ...rest } = sink
  // Programs that rotate files say so by SIGHUP, and otherwise it would end the process.
  process.on('SIGHUP', reopen)
  return {
    ...rest,
    close () {
      process.off('SIGHUP', reopen)
      return close()
    }
  }
}

const PINO_TIME = 'pino.time'

/** The log of the app gets each line, whatever its level is. */
function createLogSink (log: AuditLog): Omit<AuditSink, 'reopen'> {
  const own = log.child?.({}, { level: 'info' }) ?? log
  // Otherwise there would be two times in a line. Each copy of pino has a symbol of its own.
  const timeKey = hiddenMember(own, PINO_TIME)?.key
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
