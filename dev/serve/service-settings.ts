import { resolve } from 'node:path'
import { collectSettings, readTextIfThere } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { settingNames, settingSpec, variables, type SettingName } from '../../lib/settings/specs.ts'
import { put, valueAt } from '../../lib/settings/tree.ts'
import { root, writeConfiguration } from '../../cli/tenants.ts'
import { CUSTOM_CLAIM } from '../provider/tenant-configuration.ts'
import { processSurroundings } from '../../server/surroundings.ts'

/**
 * The settings of the API under `npm run dev`, for the API, the playground and the tools: those of shell and files,
 * without those that would lead it away from the local provider or from this machine. @throws SettingsError
 */
export async function chooseServiceSettings (
  env: NodeJS.ProcessEnv,
  { issuer, audience, origins, revocation }: {
    issuer: string,
    audience: string,
    origins: readonly string[],
    revocation?: object
  }
) {
  const found = collectSettings({
    environment: env,
    readFile: path => readTextIfThere(resolve(root, path))
  })
  const { values } = found
  const loopback = 'localhost,127.0.0.1,::1'
  const chosen: Partial<Record<SettingName, unknown>> = {
    'idp.domain': undefined,
    'idp.jwksUri': undefined,
    'idp.keysFile': undefined,
    'idp.algs': undefined,
    'idp.issuer': issuer,
    'idp.issuers': undefined,
    'idp.audience': audience,
    gate: undefined,
    revocation,
    gateUpstream: undefined,
    'idp.customClaim': values.idp.customClaim ?? CUSTOM_CLAIM,
    // A configuration file holds those of the real service.
    'server.publicUrl': env['PUBLIC_URL'] || undefined,
    // By default the pages that the provider knows.
    'server.corsOrigins': env['CORS_ORIGINS'] || origins.join(' '),
    'proxies.noProxy': values.proxies.noProxy === undefined ? loopback : `${values.proxies.noProxy},${loopback}`
  }
  for (const name of settingNames.filter(name => Object.hasOwn(chosen, name))) put(values, name, chosen[name])
  const settings = await validateSettings(found, processSurroundings)
  const textOf = (name: SettingName) => [valueAt(values, name)].flat().join(' ')
  const held = [...variables].filter(([, name]) => valueAt(values, name) !== undefined).map(([variable, name]) => ({
    name,
    pair: [variable, textOf(name)] as const
  }))
  const cleared = Object.fromEntries(
    [...settingNames.map(name => settingSpec(name).variable), 'CONFIG_FILE'].map(name => [name, ''])
  )
  return {
    settings,
    /** The same as variables, for the process of the API: everything that it goes by. */
    environment: {
      ...env,
      ...cleared,
      ...Object.fromEntries(held.map(({ pair }) => pair)),
      ...revocation && { CONFIG_FILE: writeConfiguration({ revocation }) }
    },
    /** The same without the secret ones. */
    shown: {
      ...Object.fromEntries(held.filter(({ name }) => !settingSpec(name).secret).map(({ pair }) => pair)),
      ...revocation && { REVOCATION: revocation }
    }
  }
}
