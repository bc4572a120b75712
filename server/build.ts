import { dirname, join } from 'node:path'
import { readTextIfThere } from '../lib/settings/sources.ts'

/**
 * The version of the package that a folder belongs to: that of the nearest package.json with a version, since `dist/`
 * lies deeper than the sources. `unknown` if there is none, as in a bundle.
 */
export function versionOf (folder: string): string {
  const { version } = JSON.parse(readTextIfThere(join(folder, 'package.json')) ?? '{}') as { version?: string }
  const above = dirname(folder)
  return version ?? (above === folder ? 'unknown' : versionOf(above))
}
