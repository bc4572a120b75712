import { createGuardParts, type GuardPartsOptions } from '../lib/assembly/create-guard.ts'
import { describeEvent } from '../lib/assembly/guard-events.ts'
import { observingWarning, replayPromise, reportStart, startWarnings } from '../lib/settings/start-report.ts'
import type { PluginSettings } from '../lib/settings/validation.ts'
import { processSurroundings, type TestDoubles } from './surroundings.ts'

/** What is used of a log. */
export interface GuardLog {
  info (fields: object, sentence: string): void
  warn (fields: object, sentence: string): void
  warn (sentence: string): void
}

interface RunningGuardOptions extends Pick<GuardPartsOptions, 'jwtTools' | 'metadataMount' | 'mount'> {
  readonly log: GuardLog
  /** What replaces the process and the network in a test. */
  readonly doubles: TestDoubles | undefined
}

const HOUR_MS = 3_600_000

/** Builds the guard of a process from settings, and tells its log what holds, and what changes later. */
export async function runGuard (
  { settings: given, ...functions }: PluginSettings,
  { log, doubles, ...options }: RunningGuardOptions
) {
  const surroundings = doubles?.surroundings ?? processSurroundings
  for (const warning of startWarnings(given, surroundings.now)) log.warn(warning)
  log.info(
    { event: 'settings_in_force', ...reportStart(given, functions.lookUpIssuer !== undefined) },
    'settings in force'
  )
  const promise = replayPromise(given)
  if (promise !== undefined) log.info({ event: 'replay_promise' }, promise)
  if (doubles) log.warn('The keys and the clock are those of a test issuer: only for tests')
  const readCertificate = given.server.clientCertificate === 'off' ? doubles?.readCertificate : undefined
  const settings = readCertificate
    ? { ...given, server: { ...given.server, clientCertificate: 'client-cert' as const } }
    : given
  const parts = await createGuardParts(settings, {
    ...options,
    ...functions,
    surroundings,
    transport: doubles?.transport,
    readCertificate,
    onEvent (event) {
      const { name, ...detail } = event
      const { level, sentence } = describeEvent(event)
      log[level]({ event: name, ...detail }, sentence)
    }
  })
  const { observing, revocation } = parts
  const stopWarning = observing && surroundings.every(HOUR_MS, () => {
    if (observing.isOn()) log.warn(observingWarning(settings))
  })
  if (revocation) doubles?.revocations.add(revocation.revocations)
  return {
    /** Those that it was built from. */
    settings,
    parts,
    surroundings,
    async close () {
      stopWarning?.()
      if (revocation) doubles?.revocations.delete(revocation.revocations)
      await parts.close()
    }
  }
}
