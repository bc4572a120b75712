import { dirname, join } from 'node:path'

/** What is running. */
export interface Build {
  /** Of package.json; `unknown` if there is none, as in a bundle. */
  readonly version: string
  /** What it was built from, if the build says so. */
  readonly commit: string | undefined
}

/** A hash, or what `git describe` says. */
const COMMIT = /^[\w.-]{1,64}$/

/**
 * Reads the version of the package that a folder belongs to: that of the nearest package.json which has one, since `dist/` lies
 * deeper than the sources.
 * @param readFile text of a file, or undefined where there is none
 * @param commit as the build has left it; anything else than a plain word counts as none
 */
export function readBuild (folder: string, readFile: (path: string) => string | undefined, commit: string | undefined): Build {
  return { version: versionAt(folder, readFile), commit: commit !== undefined && COMMIT.test(commit) ? commit : undefined }
}

function versionAt (folder: string, readFile: (path: string) => string | undefined): string {
  const { version } = JSON.parse(readFile(join(folder, 'package.json')) ?? '{}') as { version?: string }
  if (version !== undefined) return version
  const above = dirname(folder)
  return above === folder ? 'unknown' : versionAt(above, readFile)
}
