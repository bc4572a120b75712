/**
 * Here the values of settings are checked against their schema, and the defaults are filled in: by @fastify/env for the
 * service, which decorates an app with the result, and by its validator for the options of the plugin.
 *
 * The package is kept from the environment, from `.env` and from configuration files: sources.ts merges those, because
 * problems must name the source, and an unknown key must stop the start. It is also kept from converting values: they
 * get their types before, so that a text is never taken for a value that the operator did not write.
 */

import type { FastifyEnvOptions } from '@fastify/env'
import type { GateSection, GateSettings } from '../gate/gate-settings.ts'
import type { Ajv, Options } from 'ajv'
import { createRequire } from 'node:module'
import { isJsonObject } from '../json.ts'
import { FORMATS } from './formats.ts'
import { describeContradictions } from './contradictions.ts'
import { describeRefusals, placed, SettingsError } from './problems.ts'
import type { PartProblem, SchemaError } from './problems.ts'
import { mapMembers } from './setting-spec.ts'
import type { Part } from './setting-spec.ts'
import { issuersOf, resolveIssuer, resolveSettings } from './settings.ts'
import { resolveRevocation } from './revocation-settings.ts'
import type { IssuerSettings, IssuerValues, Settings } from './settings.ts'
import { NO_FAULTS, settingsFromOptions } from './options.ts'
import type { SourceFaults } from './sources.ts'
import type { RawSettings, SettingValues } from './specs.ts'
import { FAPI_ALGS, settingNames, settingSpec } from './specs.ts'
import { noSettings, put, schemaOf, valueAt } from './tree.ts'

const require = createRequire(import.meta.url)
/**
 * Fastify has loaded the package by `require`. To import it would read all of it once more, for the names of its
 * exports.
 */
const createAjv = (options: Options): Ajv => new (require('ajv') as typeof import('ajv')).Ajv(options)

/** The schema is ours, and most processes use it once: checking and optimizing it takes longer than using it. */
const JUDGEMENT: Options = {
  allErrors: true,
  useDefaults: true,
  strict: false,
  meta: false,
  validateSchema: false,
  code: { optimize: 0 },
  formats: FORMATS
}

/** Only these two words are accepted, in any case: YAML and environments also have `True` and `TRUE`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Gives each value the type of its schema if its text clearly has that type: `true` and `false` in any case, decimal
 * digits, or a list separated by spaces, commas or both. Any other value stays as it is, and validation refuses it. A
 * validator's own coercion is not used: it accepts `true` for 1 and `0x10` for 16. Then it fills in what the security
 * profile makes the default.
 */
export function typedSettings (values: RawSettings): RawSettings {
  const { idp, dpop, server, ...rest } = typed(schemaOf(settingNames), values) as RawSettings
  const byDefault = server.securityProfile === 'fapi2' ? FAPI_ALGS : undefined
  return {
    ...rest,
    idp: { ...idp, algs: idp.algs ?? byDefault },
    dpop: { ...dpop, algs: dpop.algs ?? byDefault },
    server
  }
}

function typed (part: Part, value: unknown): unknown {
  const { type, items, properties, alone, short, variable, digits } = part
  if (properties) {
    return mapMembers(short !== undefined && isPlain(value) ? { [short]: value } : value, properties, typed)
  }
  if (items?.properties ?? alone) {
    return Array.isArray(value)
      ? value.map(item => typed(items!, item))
      : alone && value !== undefined
        ? [typed(items!, value)]
        : value
  }
  // In a section with parts, the file and options have types already.
  if (variable === undefined && !digits) return value
  switch (type) {
    case 'array':
      return typedList(value)
    case 'object':
      return isJsonObject(value)
        ? Object.fromEntries(Object.entries(value).map(([name, list]) => [name, typedList(list)]))
        : value
    case 'integer':
      return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    case 'boolean':
      return typeof value === 'string' ? BOOLEANS.get(value.toLowerCase()) ?? value : value
    default:
      return typeof value === 'number' ? String(value) : value
  }
}

// A boolean or a number may be an entry, or the whole list: `trustProxy: true`.
function typedList (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entry => isPlain(entry) ? String(entry) : entry)
  return isPlain(value) ? String(value).split(/[\s,]+/).filter(Boolean) : value
}

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)

/**
 * Checks settings and fills in the defaults. An error with `errors` says what is wrong with them. The service registers
 * @fastify/env, and returns the values that it decorated; the caller passes that in, since this code does not know
 * Fastify.
 */
export type CheckValues = (data: RawSettings) => Promise<SettingValues>

/**
 * Checks the options of the plugin, which are no environment, as @fastify/env does. Every app with the plugin waits for
 * this at its start: loading that package would take longer than all the rest, and the schema of what is not given is
 * not compiled.
 */
export const checkOptions: CheckValues = async data => {
  // A validator keeps each schema that it has compiled, and these differ from app to app: it goes with them.
  const ajv = createAjv(JUDGEMENT)
  if (!ajv.validate(schemaOf(settingNames.filter(name => valueAt(data, name) !== undefined)), data)) {
    throw Object.assign(new Error('The options are not valid'), { errors: ajv.errors })
  }
  for (const name of settingNames) {
    if (valueAt(data, name) === undefined) put(data, name, structuredClone(settingSpec(name).default))
  }
  return data as SettingValues
}

/**
 * By the sections in it, a schema and what it is compiled to. Both are the same for every app of a process, and to
 * compile takes as long as the rest of a start.
 */
const schemas = new Map<string, object>()
let ajv: Ajv | undefined

/**
 * The options with which @fastify/env checks settings. The sources are already merged, and an empty variable already
 * counts as unset.
 */
export function envOptionsOf ({ gate, revocation, ...rest }: RawSettings): FastifyEnvOptions {
  // The schema of a section that is not given is not compiled.
  const sections = { ...gate !== undefined && { gate }, ...revocation !== undefined && { revocation } }
  const key = Object.keys(sections).join()
  const schema = schemas.get(key) ??
    schemaOf(settingNames.filter(name => (name !== 'gate' && name !== 'revocation') || name in sections))
  schemas.set(key, schema)
  ajv ??= createAjv(JUDGEMENT)
  return { env: false, data: { ...rest, ...sections }, schema, ajv }
}

/**
 * Validates settings and works out what follows from them.
 * @param faults problems of the sources, reported in the same message
 * @throws SettingsError with a line for each bad key, with what it held and what is allowed
 */
export async function validateSettings (
  raw: RawSettings,
  check: CheckValues,
  faults: SourceFaults = NO_FAULTS
): Promise<Settings> {
  const { places, unknownVariables } = faults
  const { values, data, refusals } = await judge(raw, check, places)
  const others = refusals.filter(refusal => !isPartOf('gate', refusal) && !isPartOf('revocation', refusal))
  const problems = [...faults.problems, ...sentencesOf(others), ...describeContradictions(values, others, faults)]
  const gate = isGate(values) ? await resolveGate(data.gate, raw, refusals, places, problems) : undefined
  const ofRevocation = refusals.filter(refusal => isPartOf('revocation', refusal))
  problems.push(...sentencesOf(ofRevocation))
  const revocation = data.revocation && ofRevocation.length === 0
    ? resolveRevocation(data.revocation, data, others.length > 0 ? undefined : issuersOf(data.idp), (path, problem) => {
      // A single client may be written without a list.
      const written = Array.isArray((raw.revocation as { logout?: unknown }).logout)
        ? path
        : path.replace('logout[0]', 'logout')
      problems.push(placed(places, written, written + problem))
    })
    : undefined
  if (problems.length > 0) throw new SettingsError(problems)
  return resolveSettings(data, { gate, revocation, unknownVariables })
}

/**
 * Settings with their types, the same with all defaults, and what the schema refuses. What is refused is in the data as
 * it was.
 */
async function judge (
  raw: RawSettings,
  check: CheckValues,
  places: SourceFaults['places']
): Promise<{ values: RawSettings, data: SettingValues, refusals: readonly PartProblem[] }> {
  const values = typedSettings(raw)
  // An upstream is a gate without a section, too.
  const given = structuredClone(isGate(values) && values.gate === undefined ? { ...values, gate: {} } : values)
  let errors: readonly SchemaError[] | undefined = []
  const data = await check(given).catch((error: unknown) => {
    errors = (error as { errors?: readonly SchemaError[] }).errors
    if (!errors) throw error
    return given as SettingValues
  })
  return {
    values,
    data,
    refusals: describeRefusals({ ...values, gate: raw.gate, revocation: raw.revocation }, errors, places)
  }
}

const isPartOf = (part: string, { path }: PartProblem): boolean => `${path}.`.startsWith(`${part}.`)
const sentencesOf = (refusals: readonly PartProblem[]): string[] => refusals.map(({ problem }) => problem)

/** Adds to the problems what the schema says of the section `gate`, and what it cannot say. */
async function resolveGate (
  section: GateSection | undefined,
  { gate: given, gateUpstream }: RawSettings,
  refusals: readonly PartProblem[],
  places: SourceFaults['places'],
  problems: string[]
): Promise<GateSettings> {
  const refused = refusals.filter(refusal => isPartOf('gate', refusal))
  problems.push(...sentencesOf(refused))
  // Only a gate needs it, and it loads a router: every app with the plugin waits for what is loaded here.
  const { parseGate } = await import('../gate/gate-settings.ts')
  return parseGate(isJsonObject(section) ? section : {}, {
    given,
    upstreamBeside: gateUpstream,
    isRefused: path => refused.some(refusal => isPartOf(path, refusal)),
    placeOf: path => places.get(path),
    tell: (path, problem) => problems.push(placed(places, path, path + problem))
  })
}

/**
 * Reads only what a gate goes by: its rules can be looked at before there is a provider.
 * @throws SettingsError
 */
export async function readGate (raw: RawSettings, { problems: known, places }: SourceFaults): Promise<GateSettings> {
  const { data, refusals } = await judge(raw, checkOptions, places)
  const problems = [...known, ...sentencesOf(refusals.filter(refusal => isPartOf('gateUpstream', refusal)))]
  const settings = await resolveGate(data.gate, raw, refusals, places, problems)
  if (problems.length > 0) throw new SettingsError(problems)
  return settings
}

/** Whether the settings make the service a gate. */
export function isGate ({ gate, gateUpstream }: RawSettings): boolean {
  return gate !== undefined || gateUpstream !== undefined
}

/**
 * Makes the reader of what a function answers that names issuers: an object as an entry of `idp.issuers`. It throws
 * SettingsError.
 * @param defaults what the entry leaves out
 */
export function createIssuerReader (defaults: Settings): (record: object) => IssuerSettings {
  const isValid = createAjv(JUDGEMENT).compile(schemaOf(['idp.issuers']))
  const { audience, introspection } = defaults.idp
  const { securityProfile, clientCertificate } = defaults.server

  return record => {
    const { issuers } = typedSettings(settingsFromOptions({ idp: { issuers: [record] } })).idp
    const values = {
      ...noSettings(),
      idp: { audience, introspection, issuers },
      server: { securityProfile, clientCertificate }
    } as unknown as RawSettings
    isValid({ idp: { issuers } })
    const refusals = describeRefusals(values, isValid.errors ?? [], NO_FAULTS.places)
    // Which peers are trusted was judged at the start.
    const problems = [
      ...sentencesOf(refusals),
      ...describeContradictions(values, refusals, { ...NO_FAULTS, areIssuersAsked: true, arePeersAsked: true })
    ]
    if (problems.length > 0) throw new SettingsError(problems)
    return resolveIssuer((issuers as IssuerValues[])[0]!, defaults.idp)
  }
}
