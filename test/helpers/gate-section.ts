import type { GateSettings } from '../../lib/gate/gate-settings.ts'
import type { SettingsError } from '../../lib/base/settings-error.ts'
import { readGate } from '../../lib/settings/validation.ts'
import { givensOf } from './givens.ts'

/** What the service makes of a section `gate`, and what it says is wrong with it. */
export async function parseGate (
  gate: unknown,
  gateUpstream?: string
): Promise<{ settings: GateSettings | undefined, problems: readonly string[] }> {
  try {
    return { settings: await readGate(givensOf({ gate, gateUpstream })), problems: [] }
  } catch (error) {
    return { settings: undefined, problems: (error as SettingsError).problems }
  }
}
