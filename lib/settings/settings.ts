import { hasScheme } from './formats.ts'
import { SettingsError } from './settings-error.ts'
import { settingSpec } from './specs.ts'
import type { SettingName, SettingValues } from './specs.ts'
import type { RawSettings } from './sources.ts'

export type DpopMode = 'DISABLED' | 'ALLOWED' | 'REQUIRED'

/** The validated values and what follows from them. */
export interface Settings extends SettingValues {
  /** Issuer URL, or undefined where the domain carries a scheme: then no token can be verified. */
  readonly issuer: string | undefined
  readonly dpopMode: DpopMode
  readonly trustProxy: boolean | readonly string[]
  /** Port that the process listens on. */
  readonly port: number
}

/** One error of the schema's validator (Ajv's `ErrorObject`, as far as it is read). */
export interface SchemaError {
  readonly instancePath: string
}

/** What is wrong with each value that the schema refuses, and what is required or contradictory beyond the schema. */
export function describeProblems (values: RawSettings, errors: readonly SchemaError[]): string[] {
  const bad = new Set(errors.map(error => error.instancePath.split('/')[1] as SettingName))
  const problems = [...bad].map(name => `${nameOf(name)} is ${shown(name, values[name])}; allowed: ${settingSpec(name).allowed}`)
  if (!bad.has('IDP_DOMAIN') && values.IDP_DOMAIN === undefined && values.IDP_ISSUER === undefined) problems.push(missing('IDP_DOMAIN'))
  if (values.IDP_AUDIENCE === undefined) problems.push(missing('IDP_AUDIENCE'))
  return [...problems, ...contradictions(values)]
}

const nameOf = (name: SettingName): string => {
  const { file } = settingSpec(name)
  return file ? `${name} (${file})` : name
}

const missing = (name: SettingName): string => `${nameOf(name)} is not set; allowed: ${settingSpec(name).allowed}`

function shown (name: SettingName, value: unknown): string {
  if (settingSpec(name).secret) return 'not usable (its value is not shown)'
  const text = JSON.stringify(Array.isArray(value) ? value.join(' ') : value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

function contradictions (values: RawSettings): string[] {
  const problems: string[] = []
  // Before coercion a value of the environment is text and one of the file may be a boolean.
  const [enabled, required, mode] = [String(values.DPOP_ENABLED), String(values.DPOP_REQUIRED), values.IDP_DPOP_MODE]
  const contradict = (a: SettingName, b: SettingName) =>
    problems.push(`${nameOf(a)} is ${shown(a, values[a])} and ${nameOf(b)} is ${shown(b, values[b])}: they contradict each other`)
  if (enabled === 'false' && required === 'true') contradict('DPOP_ENABLED', 'DPOP_REQUIRED')
  if (enabled === 'false' && (mode === 'ALLOWED' || mode === 'REQUIRED')) contradict('DPOP_ENABLED', 'IDP_DPOP_MODE')
  if (enabled === 'true' && mode === 'DISABLED') contradict('DPOP_ENABLED', 'IDP_DPOP_MODE')
  if (required === 'true' && (mode === 'ALLOWED' || mode === 'DISABLED')) contradict('DPOP_REQUIRED', 'IDP_DPOP_MODE')
  if (required === 'false' && mode === 'REQUIRED') contradict('DPOP_REQUIRED', 'IDP_DPOP_MODE')
  const peers = values.TRUST_PROXY
  if (Array.isArray(peers) && peers.length > 1 && (peers.includes('true') || peers.includes('false'))) {
    problems.push(`${nameOf('TRUST_PROXY')} is ${shown('TRUST_PROXY', peers)}; true and false stand alone`)
  }
  const origins = values.CORS_ORIGINS
  if (Array.isArray(origins) && origins.length > 1 && origins.includes('*')) {
    problems.push(`${nameOf('CORS_ORIGINS')} is ${shown('CORS_ORIGINS', origins)}; * stands alone`)
  }
  return problems
}

/** What follows from validated values. @throws SettingsError when they lack something or contradict each other. */
export function resolveSettings (values: SettingValues): Settings {
  const problems = describeProblems(values, [])
  if (problems.length > 0) throw new SettingsError(problems)
  return Object.freeze({
    ...values,
    issuer: issuerOf(values),
    dpopMode: values.IDP_DPOP_MODE ?? (values.DPOP_ENABLED === false ? 'DISABLED' : values.DPOP_REQUIRED ? 'REQUIRED' : 'ALLOWED'),
    trustProxy: trustProxyOf(values.TRUST_PROXY),
    port: values.PORT ?? defaultPort(values.API_PROFILE)
  })
}

/** 8000 in profile 1, 8080 in profile 2. */
export function defaultPort (profile: unknown): number {
  return String(profile) === '2' ? 8080 : 8000
}

function issuerOf ({ IDP_DOMAIN, IDP_ISSUER }: SettingValues): string | undefined {
  // A domain with a scheme yields 401 for every token, whatever else is set: the operator must mend it.
  if (IDP_DOMAIN !== undefined && hasScheme(IDP_DOMAIN)) return undefined
  return IDP_ISSUER ?? `https://${IDP_DOMAIN!.toLowerCase()}/`
}

function trustProxyOf (peers: readonly string[]): boolean | readonly string[] {
  if (peers[0] === 'true') return true
  return peers[0] === 'false' ? false : peers
}
