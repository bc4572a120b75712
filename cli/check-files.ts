import { openKeysOfGate } from '../lib/assembly/open-statement-keys.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import { readPseudonymKey } from '../lib/settings/secret.ts'
import type { Settings } from '../lib/settings/settings.ts'
import { tryAuditFile } from '../plugins/audit/audit-file.ts'
import { processSurroundings } from '../server/surroundings.ts'
import { fault, fine, type Finding } from './findings.ts'
import { cureOf } from './setting-cures.ts'

/**
 * Opens what the service opens at its start beside the files of issuers and transmitters. Empty if there is nothing. It
 * makes no file, and writes to none.
 */
export async function checkFiles ({ audit, gate }: Pick<Settings, 'audit' | 'gate'>): Promise<Finding[]> {
  const findings: Finding[] = []
  const look = async (what: string, open: () => unknown) => {
    const faults = await faultsOf(open)
    findings.push(...faults.length > 0 ? faults : [fine(what)])
  }
  if (audit && audit.to !== 'log') await look(`${audit.to} can be written.`, () => tryAuditFile(audit.to))
  if (audit?.pseudonymKey) {
    const { pseudonymKey } = audit
    await look('The key of audit.pseudonymKey can be used.', () => readPseudonymKey(pseudonymKey, processSurroundings))
  }
  if (gate?.statementKey) {
    const { statementKey: sources } = gate
    await look('The keys of gate.statementKey can be used.', async () => {
      const keys = await openKeysOfGate({ ...processSurroundings, sources, onChange: () => {} })
      keys.close()
    })
  }
  return findings
}

/** What the settings name and cannot be opened, each with its cure. Empty if it can be. */
export function faultsOf (open: () => unknown): Promise<Finding[]> {
  return findingsOrFaults(async () => {
    await open()
    return []
  })
}

/** What a check finds, or what the settings name and it cannot open. */
export async function findingsOrFaults (check: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await check()
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return faultsOfSettings(error)
  }
}

export const faultsOfSettings = ({ problems }: SettingsError): Finding[] =>
  problems.map(problem => fault(problem, cureOf(problem)))
