import type { Surroundings } from '../surroundings.ts'
import { decodeSecret } from './formats.ts'
import { SettingsError } from './problems.ts'
import { readSecret } from './revocation-settings.ts'
import type { AUDIT } from './section-specs.ts'
import type { ValueOf } from './setting-spec.ts'

/** Where decisions are recorded, and how. `to` is `log`, or the path of a file. */
export type AuditSettings = ValueOf<typeof AUDIT>

/**
 * The key of pseudonyms. Undefined if none is set.
 * @throws SettingsError
 */
export async function readPseudonymKey (
  { pseudonymKey }: AuditSettings,
  surroundings: Pick<Surroundings, 'readFile' | 'environment'>
): Promise<Buffer | undefined> {
  if (pseudonymKey === undefined) return undefined
  let text: string
  try {
    text = await readSecret(pseudonymKey, surroundings)
  } catch (error) {
    throw new SettingsError([`audit.pseudonymKey is not usable: ${(error as Error).message}`])
  }
  const key = decodeSecret(text)
  if (!key) {
    throw new SettingsError([
      'audit.pseudonymKey is not usable (its value is not shown); allowed: 32 bytes or more in base64url'
    ])
  }
  return key
}
