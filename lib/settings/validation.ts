import type { FastifyEnvOptions } from '@fastify/env'
import { Ajv } from 'ajv'
import { FORMATS } from './formats.ts'
import { describeProblems } from './problems.ts'
import type { SchemaError } from './problems.ts'
import { SettingsError } from './settings-error.ts'
import { resolveSettings } from './settings.ts'
import type { Settings } from './settings.ts'
import type { RawSettings, SourceFaults } from './sources.ts'
import { settingNames, settingSpec } from './specs.ts'
import type { SettingValues } from './specs.ts'
import { typedValues } from './typed-values.ts'

/** Registers @fastify/env with these options and returns what it decorated: Fastify is the caller's. */
export type RegisterEnv = (options: FastifyEnvOptions) => Promise<SettingValues>

const NO_FAULTS: SourceFaults = { problems: [], isFileUnread: false, unknownVariables: [] }

/**
 * Validates settings with @fastify/env and works out what follows from them.
 * @param faults what was wrong with the sources: it is told in the same message
 * @throws SettingsError with a line for each bad key, what it held and what is allowed
 */
export async function validateSettings (raw: RawSettings, register: RegisterEnv, faults: SourceFaults = NO_FAULTS): Promise<Settings> {
  const values = typedValues(raw)
  let validated: SettingValues | undefined
  let errors: readonly SchemaError[] | undefined
  try {
    validated = await register(envOptions(values))
  } catch (error) {
    errors = (error as { errors?: readonly SchemaError[] }).errors
    if (!errors) throw error
  }
  const problems = [...faults.problems, ...describeProblems(values, errors ?? [], faults.isFileUnread)]
  if (problems.length > 0) throw new SettingsError(problems)
  return resolveSettings(validated!, faults.unknownVariables)
}

function envOptions (values: RawSettings): FastifyEnvOptions {
  return {
    // The sources are merged already, with an empty variable counted as unset.
    env: false,
    data: structuredClone(values),
    schema: { type: 'object', properties: Object.fromEntries(settingNames.map(name => [name, settingSpec(name).schema])) },
    // The schema is ours and is used once: to judge and optimize it takes longer than to use it.
    ajv: new Ajv({ allErrors: true, removeAdditional: true, useDefaults: true, allowUnionTypes: true, meta: false, validateSchema: false, code: { optimize: 0 }, formats: FORMATS })
  }
}
