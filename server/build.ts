import { dirname, join } from 'node:path'

/** The version of the running program. */
interface Build {
  /** The version in package.json. `unknown` if there is no package.json, as in a bundle. */
  readonly version: string
  /** The commit that it was built from, if the build says so. */
  readonly commit: string | undefined
}

/** A hash, or the output of `git describe`. */
const COMMIT = /^[\w.-]{1,64}$/

/**
 * Reads the version of the package that a folder belongs to. It takes the nearest package.json that has a version,
 * since `dist/` lies deeper than the sources.
 * @param readFile returns the text of a file, or undefined if there is no file
 * @param commit the value that the build has left. If it is not a plain word, it counts as none.
 */
export function readBuild (
  folder: string,
  readFile: (path: string) => string | undefined,
  commit: string | undefined
): Build {
  return {
    version: versionAt(folder, readFile),
    commit: commit !== undefined && COMMIT.test(commit) ? commit : undefined
  }
}

function versionAt (folder: string, readFile: (path: string) => string | undefined): string {
  const { version } = JSON.parse(readFile(join(folder, 'package.json')) ?? '{}') as { version?: string }
  if (version !== undefined) return version
  const above = dirname(folder)
  return above === folder ? 'unknown' : versionAt(above, readFile)
}
