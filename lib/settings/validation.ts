/**
 * Here the values of settings are checked against their schema, and the defaults are filled in: by @fastify/env for the service, which
 * decorates an app with the result, and by its validator for the options of the plugin.
 *
 * The package is kept from the environment, from `.env` and from configuration files: sources.ts merges those, because problems must
 * name the source, and an unknown key must stop the start. It is also kept from converting values: they get their types before, so
 * that a text is never taken for a value that the operator did not write.
 */

import { isJsonObject } from '../jose/jws.ts'
import type { FastifyEnvOptions } from '@fastify/env'
import type { Ajv, Options } from 'ajv'
import { createRequire } from 'node:module'
import { FORMATS } from './formats.ts'
import { describeProblems, SettingsError } from './problems.ts'
import { withProfileDefaults } from './security-profile.ts'
import type { SchemaError } from './problems.ts'
import { isEntry } from './setting-spec.ts'
import type { SettingSpec } from './setting-spec.ts'
import { issuersOf, resolveIssuer } from './issuer-settings.ts'
import type { IssuerSettings } from './issuer-settings.ts'
import { resolveSettings } from './settings.ts'
import type { ParsedRevocation } from './revocation-settings.ts'
import type { Settings } from './settings.ts'
import { settingsFromOptions } from './options.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'
import { settingNames, settingSpec } from './specs.ts'

const require = createRequire(import.meta.url)
/** Fastify has loaded the package by `require`. To import it would read all of it once more, for the names of its exports. */
const createAjv = (options: Options): Ajv => new (require('ajv') as typeof import('ajv')).Ajv(options)

/** The schema is ours, and most processes use it once: checking and optimizing it takes longer than using it. */
const JUDGEMENT: Options = { allErrors: true, useDefaults: true, meta: false, validateSchema: false, code: { optimize: 0 }, formats: FORMATS }

/** Only these two words are accepted, in any case: YAML and environments also have `True` and `TRUE`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema if its text clearly has that type: `true` and `false` in any case, decimal digits, or a
 * list separated by spaces, commas or both. Any other value stays as it is, and validation refuses it. A validator's own coercion
 * is not used: it accepts `true` for 1 and `0x10` for 16.
 */
export function typedValues (values: RawSettings): RawSettings {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typed(settingSpec(name as SettingName).schema, value)]))
}

function typed (schema: SettingSpec['schema'], value: unknown): unknown {
  switch (schema.type) {
    case 'array': return typedList(value)
    case 'object': return typedLists(value)
    case 'entries': return Array.isArray(value) ? value.map(entry => isEntry(entry) ? typedValues(entry) : entry) : value
    case 'tree': return value
    case 'integer': return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    case 'boolean': return typeof value === 'string' ? BOOLEANS.get(value.toLowerCase()) ?? value : value
    case 'string': return typeof value === 'number' ? String(value) : value
  }
}

// A boolean or a number may be an entry, or the whole list: `trustProxy: true`.
function typedList (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entry => isPlain(entry) ? String(entry) : entry)
  return isPlain(value) ? String(value).split(/[\s,]+/).filter(Boolean) : value
}

function typedLists (value: unknown): unknown {
  return isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([name, list]) => [name, typedList(list)])) : value
}

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)

/** The options for @fastify/env. */
export interface CheckOptions extends FastifyEnvOptions {
  readonly ajv: Ajv
  readonly schema: { readonly type: 'object', readonly properties: Readonly<Record<string, object>> }
  readonly data: RawSettings
}

/**
 * Checks the data of these options and fills in the defaults. An error with `errors` says what is wrong with the data. The service
 * registers @fastify/env, and returns the values that it decorated; the caller passes that in, since this code does not know Fastify.
 */
export type CheckValues = (options: CheckOptions) => Promise<SettingValues>

/**
 * Checks the options of the plugin, which are no environment, as @fastify/env does. Every app with the plugin waits for this at its
 * start: loading that package would take longer than all the rest, and the schema of what is not given is not compiled.
 */
export const checkOptions: CheckValues = async ({ schema: { type, properties }, data }) => {
  // A validator keeps each schema that it has compiled, and these differ from app to app: it goes with them.
  const ajv = createAjv(JUDGEMENT)
  const given = Object.fromEntries(Object.entries(properties).filter(([name]) => Object.hasOwn(data, name)))
  if (!ajv.validate({ type, properties: given }, data)) throw Object.assign(new Error('The options are not valid'), { errors: ajv.errors })
  const defaults = Object.entries(properties).flatMap(([name, schema]) => 'default' in schema ? [[name, schema.default]] : [])
  return { ...structuredClone(Object.fromEntries(defaults)), ...data }
}

const NO_FAULTS: SourceFaults = { problems: [], isFileUnread: false, unknownVariables: [] }

/**
 * Validates settings and works out what follows from them.
 * @param faults problems of the sources, reported in the same message
 * @throws SettingsError with a line for each bad key, with what it held and what is allowed
 */
export async function validateSettings (raw: RawSettings, check: CheckValues, faults: SourceFaults = NO_FAULTS): Promise<Settings> {
  const values = withProfileDefaults(typedValues(raw))
  let validated: SettingValues | undefined
  let errors: readonly SchemaError[] | undefined
  try {
    validated = await check(checkOptionsOf(values))
  } catch (error) {
    errors = (error as { errors?: readonly SchemaError[] }).errors
    if (!errors) throw error
  }
  // Only a gate needs it, and it loads a router: every app with the plugin waits for what is loaded here.
  const gate = isGate(values) ? (await import('../gate/gate-settings.ts')).parseGate(values.GATE, faults.places, values.GATE_UPSTREAM) : undefined
  const revocation = values.REVOCATION === undefined ? undefined : await readRevocation(values, validated, faults)
  const problems = [...faults.problems, ...describeProblems(values, errors ?? [], faults), ...gate?.problems ?? [], ...revocation?.problems ?? []]
  if (problems.length > 0) throw new SettingsError(problems)
  return resolveSettings(validated!, { gate: gate?.settings, revocation: revocation?.settings, unknownVariables: faults.unknownVariables })
}

/** Loaded only where it is needed, as the gate is. */
async function readRevocation ({ REVOCATION, DPOP_REPLAY, PUBLIC_URL }: RawSettings, validated: SettingValues | undefined, { places }: SourceFaults): Promise<ParsedRevocation> {
  const { parseRevocation } = await import('./revocation-settings.ts')
  return parseRevocation(REVOCATION, { issuers: validated && issuersOf(validated).map(({ issuer }) => issuer), replay: DPOP_REPLAY, publicUrl: PUBLIC_URL }, places)
}

/** Whether the settings make the service a gate. */
export function isGate ({ GATE, GATE_UPSTREAM }: RawSettings): boolean {
  return GATE !== undefined || GATE_UPSTREAM !== undefined
}

/**
 * Makes the reader of what a function answers that names issuers: an object as an entry of `idp.issuers`. It throws SettingsError.
 * @param defaults what the entry leaves out
 */
export function createIssuerReader (defaults: Settings): (record: object) => IssuerSettings {
  const judge = createAjv({ allErrors: true, meta: false, validateSchema: false, formats: FORMATS }).compile(schemaOf('IDP_ISSUERS'))
  const { IDP_AUDIENCE, SECURITY_PROFILE, CLIENT_CERTIFICATE, IDP_INTROSPECTION, IDP_CLIENT_ID, IDP_CLIENT_SECRET, IDP_CLIENT_AUTH, IDP_CLIENT_KEY_FILE } = defaults
  const beside = { IDP_AUDIENCE, SECURITY_PROFILE, CLIENT_CERTIFICATE, IDP_INTROSPECTION, IDP_CLIENT_ID, IDP_CLIENT_SECRET, IDP_CLIENT_AUTH, IDP_CLIENT_KEY_FILE }

  return record => {
    const { IDP_ISSUERS } = typedValues(settingsFromOptions({ idp: { issuers: [record] } }))
    judge(IDP_ISSUERS)
    const errors = (judge.errors ?? []).map(({ instancePath }) => ({ instancePath: `/IDP_ISSUERS${instancePath}` }))
    // Which peers are trusted was judged at the start.
    const problems = describeProblems({ ...beside, IDP_ISSUERS }, errors, { ...NO_FAULTS, areIssuersAsked: true, arePeersAsked: true })
    if (problems.length > 0) throw new SettingsError(problems)
    return resolveIssuer((IDP_ISSUERS as RawSettings[])[0] as SettingValues, defaults)
  }
}

/** What the validator gets. A tree is judged elsewhere. */
function schemaOf (name: SettingName): object {
  const { schema } = settingSpec(name)
  if (schema.type === 'tree') return {}
  if (schema.type !== 'entries') return schema
  const { minItems, maxItems, members } = schema
  // What an entry leaves out is taken from the setting beside the list, not from a default of its own.
  const properties = Object.fromEntries(members.map(member => {
    const { default: _default, ...rest } = settingSpec(member as SettingName).schema
    return [member, rest]
  }))
  return { type: 'array', minItems, maxItems, items: { type: 'object', properties } }
}

/** The schema and what it is compiled to. Both are the same for every app of a process, and to compile takes as long as the rest of a start. */
let compiled: Pick<CheckOptions, 'schema' | 'ajv'> | undefined

function checkOptionsOf (values: RawSettings): CheckOptions {
  compiled ??= {
    schema: { type: 'object', properties: Object.fromEntries(settingNames.map(name => [name, schemaOf(name)])) },
    ajv: createAjv(JUDGEMENT)
  }
  // The sources are already merged. An empty variable already counts as unset.
  return { env: false, data: structuredClone(values), ...compiled }
}
