import {
  openStatementKeys,
  type StatementKeyError,
  type StatementKeys,
  type StatementKeysOptions
} from '../gate/statement-keys.ts'
import { quoteSetting } from '../base/printable.ts'
import { GATE } from '../settings/section-specs.ts'
import { SettingsError } from '../base/settings-error.ts'

/**
 * Opens the keys of statements that the settings name, and reads them again and again.
 * @throws SettingsError
 */
export async function openKeysOfGate (options: StatementKeysOptions): Promise<StatementKeys> {
  try {
    return await openStatementKeys(options)
  } catch (error) {
    const { source, message } = error as StatementKeyError
    const { allowed } = GATE.properties.statementKey
    throw new SettingsError([`gate.statementKey is ${quoteSetting(source)}: ${message}; allowed: ${allowed}`])
  }
}
