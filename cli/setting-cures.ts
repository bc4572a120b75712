const FILE_CURES = {
  ENOENT: 'Create the file, and its folder if there is none, or correct its path.',
  EACCES: 'Give the user of the service the right to it, or correct its path.',
  EISDIR: 'Name a file: that path leads to a folder.',
  ENOTDIR: 'Correct the path: a part of it is no folder.'
} as const

/** What to do about a problem of the settings, or with a file or a variable that one names. */
export function cureOf (problem: string): string {
  const [, variable] = /: the variable (\w+) is not set(?:;|$)/.exec(problem) ?? []
  if (variable !== undefined) return `Set the variable ${variable}, or correct its name.`
  if (/: the file .* is empty(?:;|$)/.test(problem)) return 'Write the value into the file, or correct its path.'
  const [, code] = /[ (](ENOENT|EACCES|EISDIR|ENOTDIR)\b/.exec(problem) ?? []
  return code === undefined
    ? 'docs/reference/settings.md lists every setting with its allowed values.'
    : FILE_CURES[code as keyof typeof FILE_CURES]
}
