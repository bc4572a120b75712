import { resolve } from 'node:path'
import { collectSettings, readTextIfThere } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { settingNames, settingSpec, type SettingName } from '../../lib/settings/specs.ts'
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
    revocation: object
  }
) {
  const found = collectSettings({
    environment: env,
    readFile: path => readTextIfThere(resolve(root, path))
  })
  const { values } = found
  const { audit } = values
  const loopback = 'localhost,127.0.0.1,::1'
  const chosen: Partial<Record<SettingName, unknown>> = {
    'idp.domain': undefined,
    'idp.jwksUri': undefined,
    'idp.keysFile': undefined,
    'idp.algs': undefined,
    'idp.issuer': issuer,
    'idp.issuers': undefined,
    'idp.audience': audience,
    'idp.audienceClaim': undefined,
    gate: undefined,
    // The service observes only as a gate.
    'server.observe': undefined,
    revocation,
    gateUpstream: undefined,
    'idp.customClaim': values.idp.customClaim ?? CUSTOM_CLAIM,
    // A configuration file holds those of the real service.
    'server.publicUrl': env['PUBLIC_URL'] || undefined,
    // By default the pages that the provider knows.
    'server.corsOrigins': env['CORS_ORIGINS'] || origins.join(' '),
    // The API runs in another folder.
    audit: typeof audit === 'string' && !['log', 'off'].includes(audit) ? resolve(root, audit) : audit,
    'proxies.noProxy': values.proxies.noProxy === undefined ? loopback : `${values.proxies.noProxy},${loopback}`
  }
  put(values, 'idp.introspection', {})
  for (const name of settingNames.filter(name => Object.hasOwn(chosen, name))) put(values, name, chosen[name])
  const settings = await validateSettings(found, processSurroundings)
  const given = settingNames.map(name => ({ ...settingSpec(name), name, value: valueAt(values, name) })).filter(
    ({ value }) => value !== undefined
  )
  const ofFile = given.filter(({ from }) => from !== 'environment').map(({ name, value }) => [name, value])
  const held = (parts: typeof given) => Object.fromEntries(parts.map(({ variable, value }) => [variable, value]))
  return {
    settings,
    /** For the process of the API: everything that it goes by, what no variable can hold too. */
    environment: {
      ...env,
      ...Object.fromEntries(settingNames.map(name => [settingSpec(name).variable, ''])),
      ...held(given.filter(({ from }) => from === 'environment')),
      CONFIG_FILE: writeConfiguration(Object.fromEntries(ofFile))
    },
    /** By their variables, without the secret ones. */
    shown: held(given.filter(({ secret }) => !secret))
  }
}
