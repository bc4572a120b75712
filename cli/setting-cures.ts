import { nameOf } from '../lib/settings/problems.ts'
import type { Givens } from '../lib/settings/given.ts'
import { settingNames, settingSpec, type SettingName } from '../lib/settings/specs.ts'

export const SETTINGS_PAGE = 'docs/reference/settings.md lists every setting with its allowed values.'

/**
 * What to do about a problem of the settings: a line to paste where one value is wrong or missing, or a name misspelt.
 */
export function cureOf (
  problem: string,
  found: Pick<Givens, 'places'>,
  env: NodeJS.ProcessEnv
): string {
  const [, wrong, meant] = /^unknown variable "(\w+)"; did you mean (\w+)\?$/.exec(problem) ?? []
  if (wrong !== undefined) {
    return env[wrong]
      ? `export ${meant}="$${wrong}"; unset ${wrong}`
      : `sed -i.bak 's/^${wrong}=/${meant}=/' .env`
  }
  const place = cureOfPlace(problem)
  if (place !== undefined) return place
  const name = settingNames.find(name => problem.includes(`${nameOf(name)} is `) && problem.includes('; allowed: '))
  const value = name && exampleOf(name)
  if (name === undefined || value === undefined) return SETTINGS_PAGE
  const { variable } = settingSpec(name)
  const origin = found.places.get(name) ?? 'environment'
  if (origin === 'environment') return `export ${variable}=${quoted(value)}`
  if (origin === '.env') return `${variable}=${quoted(value)}, in .env`
  return `${name.slice(name.lastIndexOf('.') + 1)}: ${value}, in ${origin}`
}

const FILE_CURES = {
  ENOENT: 'Create the file, and its folder if there is none, or correct its path.',
  EACCES: 'Give the user of the service the right to it, or correct its path.',
  EISDIR: 'Name a file: that path leads to a folder.',
  ENOTDIR: 'Correct the path: a part of it is no folder.'
} as const

/** What to do about a file or a variable that a setting names and that cannot be read. Undefined for other problems. */
export function cureOfPlace (problem: string): string | undefined {
  const [, variable] = /: the variable (\w+) is not set(?:;|$)/.exec(problem) ?? []
  if (variable !== undefined) return `Set the variable ${variable}, or correct its name.`
  if (/: the file .* is empty(?:;|$)/.test(problem)) return 'Write the value into the file, or correct its path.'
  const [, code] = /[ (](ENOENT|EACCES|EISDIR|ENOTDIR)\b/.exec(problem) ?? []
  return code === undefined ? undefined : FILE_CURES[code as keyof typeof FILE_CURES]
}

/** A value that is allowed: the example, else the default. */
function exampleOf (name: SettingName): string | undefined {
  const { example, default: byDefault } = settingSpec(name)
  return example === undefined && byDefault === undefined ? undefined : [example ?? byDefault].flat().join(' ')
}

const quoted = (value: string): string => /^[\w./:,-]+$/.test(value) ? value : `'${value}'`
