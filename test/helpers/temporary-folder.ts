import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Owner } from './owner.ts'

/** An empty folder with a short path, of which this name is a part. It is removed with the test. */
export function temporaryFolder (t: Owner, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${name}-`))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
