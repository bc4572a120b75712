import { nameOf } from '../lib/settings/problems.ts'
import { originsOf } from '../lib/settings/given.ts'
import type { Givens } from '../lib/settings/given.ts'
import { settingNames, settingSpec } from '../lib/settings/specs.ts'
import type { SettingName } from '../lib/settings/specs.ts'

const ELSE = 'docs/reference/settings.md lists every setting with its allowed values.'

/**
 * What to do about a problem of the settings: a line to paste where one value is wrong or missing, or a name misspelt.
 */
export function cureOf (
  problem: string,
  found: Pick<Givens, 'givens'>,
  env: NodeJS.ProcessEnv
): string {
  const [, wrong, meant] = /^unknown variable "(\w+)"; did you mean (\w+)\?$/.exec(problem) ?? []
  if (wrong !== undefined) {
    return env[wrong]
      ? `export ${meant}="$${wrong}"; unset ${wrong}`
      : `sed -i.bak 's/^${wrong}=/${meant}=/' .env`
  }
  const name = settingNames.find(name => problem.includes(`${nameOf(name)} is `) && problem.includes('; allowed: '))
  const value = name && exampleOf(name)
  if (name === undefined || value === undefined) return ELSE
  const { variable } = settingSpec(name)
  const { [name]: origin = 'environment' } = originsOf(found)
  if (origin === 'environment') return `export ${variable}=${quoted(value)}`
  if (origin === '.env') return `${variable}=${quoted(value)}, in .env`
  return `${name.slice(name.lastIndexOf('.') + 1)}: ${value}, in ${origin}`
}

/** A value that is allowed: the example, else the default. */
function exampleOf (name: SettingName): string | undefined {
  const { example, default: byDefault } = settingSpec(name)
  return example === undefined && byDefault === undefined ? undefined : [example ?? byDefault].flat().join(' ')
}

const quoted = (value: string): string => /^[\w./:,-]+$/.test(value) ? value : `'${value}'`
