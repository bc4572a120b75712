/**
 * Here the values of settings are checked against their schema, and the defaults are filled in: by @fastify/env for the
 * service, which decorates an app with the result, and by its validator for the options of the plugin.
 *
 * The package is kept from the environment, from `.env` and from configuration files: sources.ts merges those, because
 * problems must name the source, and an unknown key must stop the start. It is also kept from converting values: they
 * get their types before, so that a text is never taken for a value that the operator did not write.
 */

import type { GateSettings } from '../gate/gate-settings.ts'
import type { Ajv, Options } from 'ajv'
import { createRequire } from 'node:module'
import type { SecretSources } from '../base/secret-place.ts'
import type { Surroundings } from '../base/surroundings.ts'
import { FORMATS } from './formats.ts'
import {
  tellContradictions,
  tellGateContradictions,
  tellObserving,
  tellRevocationContradictions
} from './contradictions.ts'
import { judgementOf, type Judgement } from './judgement.ts'
import { SettingsError } from '../base/settings-error.ts'
import {
  issuersOf,
  resolveIssuer,
  resolveSettings,
  type IssuerSettings,
  type IssuerValues,
  type Settings
} from './settings.ts'
import { ownOptions, settingsFromOptions, takeIssuerLookup, withTrustOf, type AppFunctions } from './options.ts'
import type { HoldfastOptions } from './option-types.ts'
import type { Givens } from './given.ts'
import { readPlaced } from './secret.ts'
import { settingNames, settingSpec, type RawSettings, type SettingName, type SettingValues } from './specs.ts'
import { noSettings, put, schemaOf, valueAt } from './tree.ts'
import { typedSettings } from './typed.ts'

const require = createRequire(import.meta.url)
/**
 * Fastify has loaded the package by `require`. To import it would read all of it once more, for the names of its
 * exports.
 */
const createAjv = (options: Options) => new (require('ajv') as typeof import('ajv')).Ajv(options)

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

/** What is checked, by which schema and validator: the options of @fastify/env. */
interface Check {
  readonly schema: ReturnType<typeof schemaOf>
  readonly ajv: Ajv
  readonly data: RawSettings
}

/**
 * Checks settings and fills in the defaults where they are. The validator has what is wrong with them then; a check may
 * reject for it, too. The service passes in one that registers @fastify/env, since this code does not know Fastify.
 */
type CheckValues = (check: Check) => unknown

/** What is to be checked of these settings. What is not given is not compiled: each app waits for this at its start. */
function checkOf (names: readonly SettingName[], data: RawSettings): Check {
  // A validator keeps each schema that it has compiled, and these differ from app to app: it goes with them.
  return { schema: schemaOf(names), data, ajv: createAjv(JUDGEMENT) }
}

/**
 * Checks the options of the plugin, which are no environment, as @fastify/env does: loading that package would take
 * longer than all the rest of its start.
 */
const checkOptions: CheckValues = ({ ajv, schema, data }) => ajv.validate(schema, data)

async function judge (
  found: Givens,
  check: CheckValues,
  { lookUpIssuer, trustPeer }: AppFunctions = {},
  sources?: SecretSources
): Promise<Judgement> {
  const values = typedSettings(found.values)
  const unread = sources && await readPlaced(values, sources)
  // An upstream is a gate without a section, too.
  const data = structuredClone(isGate(values) && values.gate === undefined ? { ...values, gate: {} } : values)
  const given = checkOf(settingNames.filter(name => valueAt(data, name) !== undefined), data)
  try {
    await check(given)
  } catch (error) {
    if (!given.ajv.errors) throw error
  }
  for (const name of settingNames) {
    const { default: byDefault } = settingSpec(name)
    if (byDefault !== undefined && valueAt(data, name) === undefined) put(data, name, structuredClone(byDefault))
  }
  return judgementOf(found, {
    data: data as SettingValues,
    errors: given.ajv.errors ?? [],
    unread,
    areIssuersAsked: lookUpIssuer !== undefined,
    arePeersAsked: trustPeer !== undefined
  })
}

/**
 * Validates settings and works out what follows from them.
 * @param sources where secrets are read that the settings name a place of
 * @param functions those of the app that has the plugin. Undefined for the service
 * @throws SettingsError with a line for each bad key, with what it held and what is allowed
 */
export async function validateSettings (
  found: Givens,
  sources: SecretSources & Pick<Surroundings, 'now'>,
  functions?: AppFunctions,
  check = checkOptions
): Promise<Settings> {
  const judgement = await judge(found, check, functions, sources)
  const { values, data, lines, isRefused } = judgement
  tellContradictions(judgement)
  tellObserving(judgement, sources.now(), functions !== undefined || isGate(values))
  const gate = isGate(values) ? await resolveGate(judgement) : undefined
  const issuers = isRefused('idp') ? undefined : issuersOf(data.idp)
  if (!isRefused('revocation')) tellRevocationContradictions(issuers, judgement)
  if (lines.length > 0) throw new SettingsError(lines)
  return resolveSettings(data, { issuers: issuers!, gate, unknownVariables: found.unknownVariables })
}

/** What an app gives the plugin. */
export interface PluginSettings extends AppFunctions {
  readonly settings: Settings
}

/**
 * Reads the options that an app gives the plugin, and what the app itself says of proxies if they do not.
 * @param sources where secrets are read that the settings name a place of
 * @throws SettingsError
 */
export async function readPluginSettings (
  app: object,
  given: HoldfastOptions,
  sources: SecretSources & Pick<Surroundings, 'now'>
): Promise<PluginSettings> {
  const { written, ...lookup } = takeIssuerLookup(ownOptions(given))
  const { options, trustPeer } = withTrustOf(app, settingsFromOptions(written))
  const functions = { ...lookup, trustPeer }
  return { ...functions, settings: await validateSettings(options, sources, functions) }
}

/** Reads the section `gate`, and tells what is wrong with it. */
async function resolveGate (judgement: Judgement): Promise<GateSettings> {
  // Only a gate needs it, and it loads a router: every app with the plugin waits for what is loaded here.
  const { parseGate } = await import('../gate/gate-settings.ts')
  const settings = parseGate(judgement)
  tellGateContradictions(settings, judgement)
  return settings
}

/**
 * Reads only what a gate goes by: its rules can be looked at before there is a provider.
 * @throws SettingsError
 */
export async function readGate (found: Givens): Promise<GateSettings> {
  const { gate, gateUpstream } = found.values
  const judgement = await judge({ ...found, values: { ...noSettings(), gate, gateUpstream } }, checkOptions)
  const settings = await resolveGate(judgement)
  if (judgement.lines.length > 0) throw new SettingsError(judgement.lines)
  return settings
}

/** Whether the settings make the service a gate. */
export function isGate ({ gate, gateUpstream }: RawSettings): boolean {
  return gate !== undefined || gateUpstream !== undefined
}

/**
 * Makes the reader of what a function answers that names issuers: an object as an entry of `idp.issuers`. It throws
 * SettingsError.
 */
export function createIssuerReader (
  { idp: beside, server: { securityProfile, clientCertificate } }: Pick<Settings, 'idp' | 'server'>
): (record: object) => IssuerSettings {
  const { ajv, schema } = checkOf(['idp.issuers'], noSettings())
  // What an entry leaves out.
  const { audience, introspection } = beside

  return record => {
    const found = settingsFromOptions({ idp: { issuers: [record] } })
    const { issuers } = typedSettings(found.values).idp
    // It compiles the schema once.
    ajv.validate(schema, { idp: { issuers } })
    const data = {
      ...noSettings(),
      idp: { audience, introspection, issuers },
      server: { securityProfile, clientCertificate }
    } as unknown as SettingValues
    const errors = ajv.errors ?? []
    // Which peers are trusted was judged at the start.
    const judgement = judgementOf(found, { data, errors, areIssuersAsked: true, arePeersAsked: true })
    tellContradictions(judgement)
    if (judgement.lines.length > 0) throw new SettingsError(judgement.lines)
    return resolveIssuer((issuers as IssuerValues[])[0]!, beside, 'idp.issuers[0]')
  }
}
