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
import type { IssuerSettings, IssuerValues } from './issuer-settings.ts'
import { resolveSettings } from './settings.ts'
import type { ParsedRevocation } from './revocation-settings.ts'
import type { Settings } from './settings.ts'
import { NO_FAULTS, settingsFromOptions } from './options.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'
import { isSetting, memberKey, settingNames, settingSpec } from './specs.ts'
import { noSettings, put, valueAt } from './tree.ts'

const require = createRequire(import.meta.url)
/** Fastify has loaded the package by `require`. To import it would read all of it once more, for the names of its exports. */
const createAjv = (options: Options): Ajv => new (require('ajv') as typeof import('ajv')).Ajv(options)

/** The schema is ours, and most processes use it once: checking and optimizing it takes longer than using it. */
const JUDGEMENT: Options = { allErrors: true, useDefaults: true, strict: false, meta: false, validateSchema: false, code: { optimize: 0 }, formats: FORMATS }

/** Only these two words are accepted, in any case: YAML and environments also have `True` and `TRUE`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema if its text clearly has that type: `true` and `false` in any case, decimal digits, or a
 * list separated by spaces, commas or both. Any other value stays as it is, and validation refuses it. A validator's own coercion
 * is not used: it accepts `true` for 1 and `0x10` for 16. Then it fills in what the security profile makes the default.
 */
export function typedSettings (values: RawSettings): RawSettings {
  return withProfileDefaults(typedMembers(values, '') as unknown as RawSettings)
}

/** @param path of the section */
function typedMembers (section: object, path: string): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(section).map(([word, value]) => {
    const name = path + word
    return [word, isSetting(name) ? typed(settingSpec(name).schema, value) : typedMembers(value as object, `${name}.`)]
  }))
}

function typed (schema: SettingSpec['schema'], value: unknown): unknown {
  switch (schema.type) {
    case 'array': return typedList(value)
    case 'object': return typedLists(value)
    case 'entries': return Array.isArray(value) ? value.map(entry => isEntry(entry) ? typedMembers(entry, 'idp.') : entry) : value
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
  readonly schema: object
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
export const checkOptions: CheckValues = async ({ data }) => {
  // A validator keeps each schema that it has compiled, and these differ from app to app: it goes with them.
  const ajv = createAjv(JUDGEMENT)
  if (!ajv.validate(schemaOf(settingNames.filter(name => valueAt(data, name) !== undefined)), data)) throw Object.assign(new Error('The options are not valid'), { errors: ajv.errors })
  for (const name of settingNames) if (valueAt(data, name) === undefined) put(data, name, structuredClone(settingSpec(name).schema.default))
  return data as SettingValues
}

/**
 * Validates settings and works out what follows from them.
 * @param faults problems of the sources, reported in the same message
 * @throws SettingsError with a line for each bad key, with what it held and what is allowed
 */
export async function validateSettings (raw: RawSettings, check: CheckValues, faults: SourceFaults = NO_FAULTS): Promise<Settings> {
  const values = typedSettings(raw)
  let validated: SettingValues | undefined
  let errors: readonly SchemaError[] | undefined
  try {
    validated = await check(checkOptionsOf(values))
  } catch (error) {
    errors = (error as { errors?: readonly SchemaError[] }).errors
    if (!errors) throw error
  }
  // Only a gate needs it, and it loads a router: every app with the plugin waits for what is loaded here.
  const gate = isGate(values) ? (await import('../gate/gate-settings.ts')).parseGate(values.gate, faults.places, values.gateUpstream) : undefined
  const revocation = values.revocation === undefined ? undefined : await readRevocation(values, validated, faults)
  const problems = [...faults.problems, ...describeProblems(values, errors ?? [], faults), ...gate?.problems ?? [], ...revocation?.problems ?? []]
  if (problems.length > 0) throw new SettingsError(problems)
  return resolveSettings(validated!, { gate: gate?.settings, revocation: revocation?.settings, unknownVariables: faults.unknownVariables })
}

/** Loaded only where it is needed, as the gate is. */
async function readRevocation ({ revocation, dpop, server }: RawSettings, validated: SettingValues | undefined, { places }: SourceFaults): Promise<ParsedRevocation> {
  const { parseRevocation } = await import('./revocation-settings.ts')
  return parseRevocation(revocation, { issuers: validated && issuersOf(validated.idp).map(({ issuer }) => issuer), replay: dpop.replay, publicUrl: server.publicUrl }, places)
}

/** Whether the settings make the service a gate. */
export function isGate ({ gate, gateUpstream }: RawSettings): boolean {
  return gate !== undefined || gateUpstream !== undefined
}

/**
 * Makes the reader of what a function answers that names issuers: an object as an entry of `idp.issuers`. It throws SettingsError.
 * @param defaults what the entry leaves out
 */
export function createIssuerReader (defaults: Settings): (record: object) => IssuerSettings {
  const judge = createAjv(JUDGEMENT).compile(schemaOf(['idp.issuers']))
  const { audience, introspection } = defaults.idp
  const { securityProfile, clientCertificate } = defaults.server

  return record => {
    const { issuers } = typedSettings(settingsFromOptions({ idp: { issuers: [record] } })).idp
    const values = { ...noSettings(), idp: { audience, introspection, issuers }, server: { securityProfile, clientCertificate } } as unknown as RawSettings
    judge({ idp: { issuers } })
    // Which peers are trusted was judged at the start.
    const problems = describeProblems(values, judge.errors ?? [], { ...NO_FAULTS, areIssuersAsked: true, arePeersAsked: true })
    if (problems.length > 0) throw new SettingsError(problems)
    return resolveIssuer((issuers as IssuerValues[])[0]!, defaults.idp)
  }
}

/** The schema of these settings, nested as they are. */
function schemaOf (names: readonly SettingName[], pathOf = (name: SettingName): string => name, schemaAt = valueSchema): object {
  const root = { type: 'object' }
  for (const name of names) put(root, `properties.${pathOf(name).replaceAll('.', '.properties.')}`, schemaAt(name))
  return root
}

/** What the validator gets. A tree is judged elsewhere. */
function valueSchema (name: SettingName): object {
  const { schema } = settingSpec(name)
  if (schema.type === 'tree') return {}
  if (schema.type !== 'entries') return schema
  const { minItems, maxItems, members } = schema
  // What an entry leaves out is taken from the setting beside the list, not from a default of its own.
  return { type: 'array', minItems, maxItems, items: schemaOf(members as readonly SettingName[], memberKey, name => ({ ...settingSpec(name).schema, default: undefined })) }
}

/** The schema and what it is compiled to. Both are the same for every app of a process, and to compile takes as long as the rest of a start. */
let compiled: Pick<CheckOptions, 'schema' | 'ajv'> | undefined

function checkOptionsOf (values: RawSettings): CheckOptions {
  compiled ??= { schema: schemaOf(settingNames), ajv: createAjv(JUDGEMENT) }
  // The sources are already merged. An empty variable already counts as unset.
  return { env: false, data: structuredClone(values), ...compiled }
}
