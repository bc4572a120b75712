import type { FastifyEnvOptions } from '@fastify/env'
import { Ajv } from 'ajv'
import { FORMATS } from './formats.ts'
import { describeProblems, SettingsError } from './problems.ts'
import type { SchemaError } from './problems.ts'
import type { SettingSpec } from './setting-spec.ts'
import { resolveSettings } from './settings.ts'
import type { Settings } from './settings.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'
import { settingNames, settingSpec } from './specs.ts'

/** YAML has `True` and `TRUE` as well, and so has many an environment. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema where its text plainly is one: `true` and `false` in any case, decimal digits, a list
 * separated by spaces, commas or both. Everything else stays as it is, for validation to refuse: a validator's own
 * coercion takes `true` for 1 and `0x10` for 16.
 */
export function typedValues (values: RawSettings): RawSettings {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typed(settingSpec(name as SettingName).schema, value)]))
}

function typed (schema: SettingSpec['schema'], value: unknown): unknown {
  switch (schema.type) {
    case 'array': return typedList(value)
    case 'integer': return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    case 'boolean': return typeof value === 'string' ? BOOLEANS.get(value.toLowerCase()) ?? value : value
    case 'string': return typeof value === 'number' ? String(value) : value
  }
}

// A boolean or number may be an entry, or the only one: `trustProxy: true`.
function typedList (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entry => isPlain(entry) ? String(entry) : entry)
  return isPlain(value) ? String(value).split(/[\s,]+/).filter(Boolean) : value
}

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)

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
