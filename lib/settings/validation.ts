/**
 * Here the values of settings are checked against their schema, and the defaults are filled in: by @fastify/env for the
 * service, which decorates an app with the result, and by its validator for the options of the plugin.
 *
 * The package is kept from the environment, from `.env` and from configuration files: sources.ts merges those, because
 * problems must name the source, and an unknown key must stop the start. It is also kept from converting values: they
 * get their types before, so that a text is never taken for a value that the operator did not write.
 */

import type { FastifyEnvOptions } from '@fastify/env'
import type { GateSettings } from '../gate/gate-settings.ts'
import type { Ajv, Options } from 'ajv'
import { createRequire } from 'node:module'
import { isJsonObject } from '../json.ts'
import { FORMATS } from './formats.ts'
import { describeContradictions } from './contradictions.ts'
import { describeRefusals, placed, SettingsError } from './problems.ts'
import type { PartProblem, Places, SchemaError } from './problems.ts'
import { mapMembers } from './setting-spec.ts'
import type { Part } from './setting-spec.ts'
import { issuersOf, resolveIssuer, resolveSettings } from './settings.ts'
import { resolveRevocation } from './revocation-settings.ts'
import type { IssuerSettings, IssuerValues, Settings } from './settings.ts'
import { settingsFromOptions } from './options.ts'
import type { AppFunctions } from './options.ts'
import { placesOf, valuesOf } from './given.ts'
import type { Givens } from './given.ts'
import type { RawSettings, SettingName, SettingValues } from './specs.ts'
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

/** What is checked, by which schema and validator: the options of @fastify/env. */
export interface Check extends Pick<FastifyEnvOptions, 'env'> {
  readonly schema: ReturnType<typeof schemaOf>
  readonly ajv: Ajv
  readonly data: RawSettings
}

/**
 * Checks settings and fills in the defaults. An error with `errors` says what is wrong with them. The service passes in
 * one that registers @fastify/env, since this code does not know Fastify.
 */
export type CheckValues = (check: Check) => Promise<SettingValues>

/** What is to be checked of these settings. What is not given is not compiled: each app waits for this at its start. */
function checkOf (names: readonly SettingName[], data: RawSettings): Check {
  // A validator keeps each schema that it has compiled, and these differ from app to app: it goes with them.
  return { env: false, schema: schemaOf(names), data, ajv: createAjv(JUDGEMENT) }
}

/**
 * Checks the options of the plugin, which are no environment, as @fastify/env does: loading that package would take
 * longer than all the rest of its start.
 */
const checkOptions: CheckValues = async ({ ajv, schema, data }) => {
  if (!ajv.validate(schema, data)) {
    throw Object.assign(new Error('The options are not valid'), { errors: ajv.errors })
  }
  return data as SettingValues
}

/** What the schema makes of the values. */
interface Judgement {
  /** As they were written. */
  readonly raw: RawSettings
  /** With their types. */
  readonly values: RawSettings
  /** With all defaults. What is refused is in it as it was. */
  readonly data: SettingValues
  readonly refusals: readonly PartProblem[]
  readonly places: Places
}

async function judge (found: Givens, check: CheckValues): Promise<Judgement> {
  const raw = valuesOf(found)
  const places = placesOf(found)
  const values = typedSettings(raw)
  // An upstream is a gate without a section, too.
  const given = structuredClone(isGate(values) && values.gate === undefined ? { ...values, gate: {} } : values)
  let errors: readonly SchemaError[] | undefined = []
  const names = settingNames.filter(name => valueAt(given, name) !== undefined)
  const data = await check(checkOf(names, given)).catch((error: unknown) => {
    errors = (error as { errors?: readonly SchemaError[] }).errors
    if (!errors) throw error
    return given as SettingValues
  })
  for (const name of settingNames) {
    const { default: byDefault } = settingSpec(name)
    if (byDefault !== undefined && valueAt(data, name) === undefined) put(data, name, structuredClone(byDefault))
  }
  const refusals = describeRefusals({ ...values, gate: raw.gate, revocation: raw.revocation }, errors, places)
  return { raw, values, data, refusals, places }
}

/**
 * Validates settings and works out what follows from them.
 * @throws SettingsError with a line for each bad key, with what it held and what is allowed
 */
export async function validateSettings (
  found: Givens,
  { lookUpIssuer, trustPeer }: AppFunctions = {},
  check = checkOptions
): Promise<Settings> {
  const judgement = await judge(found, check)
  const { raw, values, data, refusals, places } = judgement
  const others = refusals.filter(refusal => !isPartOf('gate', refusal) && !isPartOf('revocation', refusal))
  const problems = [
    ...found.problems,
    ...sentencesOf(others),
    ...describeContradictions(values, others, {
      places,
      isUnread: found.isUnread,
      areIssuersAsked: lookUpIssuer !== undefined,
      arePeersAsked: trustPeer !== undefined
    })
  ]
  const gate = isGate(values) ? await resolveGate(judgement, problems) : undefined
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
  return resolveSettings(data, { gate, revocation, unknownVariables: found.unknownVariables })
}

const isPartOf = (part: string, { path }: PartProblem): boolean => `${path}.`.startsWith(`${part}.`)
const sentencesOf = (refusals: readonly PartProblem[]): string[] => refusals.map(({ problem }) => problem)

/** Adds to the problems what the schema says of the section `gate`, and what it cannot say. */
async function resolveGate ({ raw, data, refusals, places }: Judgement, problems: string[]): Promise<GateSettings> {
  const refused = refusals.filter(refusal => isPartOf('gate', refusal))
  problems.push(...sentencesOf(refused))
  // Only a gate needs it, and it loads a router: every app with the plugin waits for what is loaded here.
  const { parseGate } = await import('../gate/gate-settings.ts')
  return parseGate(isJsonObject(data.gate) ? data.gate : {}, {
    given: raw.gate,
    upstreamBeside: raw.gateUpstream,
    isRefused: path => refused.some(refusal => isPartOf(path, refusal)),
    placeOf: path => places.get(path),
    tell: (path, problem) => problems.push(placed(places, path, path + problem))
  })
}

/**
 * Reads only what a gate goes by: its rules can be looked at before there is a provider.
 * @throws SettingsError
 */
export async function readGate (found: Givens): Promise<GateSettings> {
  const judgement = await judge(found, checkOptions)
  const ofUpstream = judgement.refusals.filter(refusal => isPartOf('gateUpstream', refusal))
  const problems = [...found.problems, ...sentencesOf(ofUpstream)]
  const settings = await resolveGate(judgement, problems)
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
  const { ajv, schema } = checkOf(['idp.issuers'], noSettings())
  const isValid = ajv.compile(schema)
  const { audience, introspection } = defaults.idp
  const { securityProfile, clientCertificate } = defaults.server

  return record => {
    const { issuers } = typedSettings(valuesOf(settingsFromOptions({ idp: { issuers: [record] } }))).idp
    const values = {
      ...noSettings(),
      idp: { audience, introspection, issuers },
      server: { securityProfile, clientCertificate }
    } as unknown as RawSettings
    const places = new Map<string, string>()
    isValid({ idp: { issuers } })
    const refusals = describeRefusals(values, isValid.errors ?? [], places)
    const problems = [
      ...sentencesOf(refusals),
      // Which peers are trusted was judged at the start.
      ...describeContradictions(values, refusals, {
        places,
        isUnread: false,
        areIssuersAsked: true,
        arePeersAsked: true
      })
    ]
    if (problems.length > 0) throw new SettingsError(problems)
    return resolveIssuer((issuers as IssuerValues[])[0]!, defaults.idp)
  }
}
