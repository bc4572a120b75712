import type { FastifyEnvOptions } from '@fastify/env'
import { FORMATS } from './formats.ts'
import { SettingsError } from './settings-error.ts'
import { describeProblems, resolveSettings } from './settings.ts'
import type { SchemaError, Settings } from './settings.ts'
import type { RawSettings } from './sources.ts'
import { settingNames, settingSpec } from './specs.ts'
import type { SettingValues } from './specs.ts'

/** Registers @fastify/env with these options and returns what it decorated: Fastify is the caller's. */
export type RegisterEnv = (options: FastifyEnvOptions) => Promise<SettingValues>

/**
 * Validates settings with @fastify/env and works out what follows from them.
 * @throws SettingsError with a line for each bad key, what it held and what is allowed
 */
export async function validateSettings (values: RawSettings, register: RegisterEnv): Promise<Settings> {
  try {
    return resolveSettings(await register(envOptions(values)))
  } catch (error) {
    const { errors } = error as { errors?: readonly SchemaError[] }
    throw errors ? new SettingsError(describeProblems(values, errors)) : error
  }
}

function envOptions (values: RawSettings): FastifyEnvOptions {
  return {
    // The sources are merged already, with an empty variable counted as unset.
    env: false,
    data: structuredClone(values),
    schema: { type: 'object', properties: Object.fromEntries(settingNames.map(name => [name, settingSpec(name).schema])) },
    ajv: {
      customOptions (ajv) {
        for (const [name, validate] of Object.entries(FORMATS)) ajv.addFormat(name, validate)
        return ajv
      }
    }
  }
}
