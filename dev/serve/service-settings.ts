import { resolve } from 'node:path'
import { readSettings } from '../../holdfast.ts'
import { collectSettings, readTextIfThere } from '../../lib/settings/sources.ts'
import { settingNames, settingSpec, variableNames } from '../../lib/settings/specs.ts'
import type { SettingName } from '../../lib/settings/specs.ts'
import { root, writeConfiguration } from '../../cli/places.ts'
import { CUSTOM_CLAIM } from '../provider/tenant-configuration.ts'

/**
 * The settings of the API under `npm run dev`, for the API, the playground and the tools: those of shell and files, without those that
 * would lead it away from the local provider or from this machine. @throws SettingsError
 */
export async function chooseServiceSettings (env: NodeJS.ProcessEnv, { issuers, audience, origins, gate, revocation }: { issuers: readonly string[], audience: string, origins: readonly string[], gate?: object | undefined, revocation?: object | undefined }) {
  const { values, ...faults } = collectSettings({ environment: env, readFile: (path) => readTextIfThere(resolve(root, path)) })
  const loopback = 'localhost,127.0.0.1,::1'
  Object.assign(values, {
    IDP_DOMAIN: undefined,
    IDP_JWKS_URI: undefined,
    IDP_KEYS_FILE: undefined,
    IDP_ALGS: undefined,
    IDP_ISSUER: issuers.length === 1 ? issuers[0] : undefined,
    IDP_ISSUERS: issuers.length === 1 ? undefined : issuers.map((issuer) => ({ IDP_ISSUER: issuer })),
    IDP_AUDIENCE: audience,
    GATE: gate,
    REVOCATION: revocation,
    GATE_UPSTREAM: undefined,
    IDP_CUSTOM_CLAIM: values.IDP_CUSTOM_CLAIM ?? CUSTOM_CLAIM,
    // A configuration file holds those of the real service.
    PUBLIC_URL: env['PUBLIC_URL'] || undefined,
    // By default the pages that the provider knows.
    CORS_ORIGINS: env['CORS_ORIGINS'] || origins.join(' '),
    NO_PROXY: values.NO_PROXY === undefined ? loopback : `${values.NO_PROXY},${loopback}`
  })
  const names = settingNames.filter((name) => values[name] !== undefined)
  const settings = await readSettings(Object.fromEntries(names.map((name) => [name, values[name]])), faults)
  const textOf = (name: SettingName): [SettingName, string] => [name, String(Array.isArray(values[name]) ? values[name].join(' ') : values[name])]
  const variables = names.filter((name) => variableNames.includes(name)).map(textOf)
  const sections = { ...issuers.length > 1 && { idp: { issuers: issuers.map((issuer) => ({ issuer })) } }, ...gate && { gate }, ...revocation && { revocation } }
  const cleared = Object.fromEntries([...settingNames, 'CONFIG_FILE'].map((name) => [name, '']))
  return {
    settings,
    /** The same as variables, for the process of the API: everything that it goes by. */
    environment: { ...env, ...cleared, ...Object.fromEntries(variables), ...Object.keys(sections).length > 0 && { CONFIG_FILE: writeConfiguration(sections) } },
    /** The same without the secret ones. */
    shown: { ...Object.fromEntries(variables.filter(([name]) => settingSpec(name).secret !== true)), ...values.IDP_ISSUERS !== undefined && { IDP_ISSUERS: values.IDP_ISSUERS }, ...gate !== undefined && { GATE: gate }, ...revocation !== undefined && { REVOCATION: revocation } }
  }
}
