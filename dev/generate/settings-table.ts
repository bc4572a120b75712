import { settingNames, settingSpec, type SettingName } from '../../lib/settings/specs.ts'

/** The settings by who needs them, the most needed first. A name that ends in a dot stands for all that begin so. */
const READERS = `
First: idp.domain idp.issuer idp.audience idp.scopeClaims idp.dpopMode dpop.replay server.publicUrl server.trustProxy
The gate: gate gateUpstream
Several instances: dpop.nonce dpop.nonceSecret dpop.nonceIat dpop.replayMax
Browsers and agents: server.corsOrigins server.corsHeaders server.resource server.resourceName
Several or unusual providers: idp.issuers idp.algs idp.audienceClaim idp.jwksUri idp.keysFile proxies.
Revocation and introspection: revocation idp.introspection.
FAPI and stricter checks: server.securityProfile server.clientCertificate idp.tokenProfile dpop.algs
 idp.dpopIatOffsetSeconds idp.dpopIatLeewaySeconds idp.clockToleranceSeconds server.rateLimit
In operation: server.port server.logLevel server.metrics audit server.observe
For some applications: idp.scopeImplies idp.customClaim api. idp.dpopEnabled idp.dpopRequired
`.trim().split(/\n(?! )/)

const code = (text: string) => `\`${text}\``

/** Long lists of values are written once. */
function valuesOf (name: SettingName, above: readonly SettingName[]): string {
  const { allowed } = settingSpec(name)
  const same = above.find(other => settingSpec(other).allowed === allowed)
  return same === undefined || allowed.split(' ').length < 6 ? allowed.replaceAll('|', '\\|') : `as ${code(same)}`
}

function row (name: SettingName, above: readonly SettingName[]): string {
  const { variable, from, default: given, about, unset, secret } = settingSpec(name)
  const byDefault = given === undefined ? unset! : code([given].flat().join(' '))
  const purpose = secret ? `${about}. **Secret**: never shown` : about
  return `| ${from === 'file' ? '-' : code(variable)} | ${from === 'environment' ? '-' : code(name)} | ` +
    `${valuesOf(name, above)} | ${byDefault} | ${purpose} |`
}

/**
 * The tables of docs/reference/settings.md.
 * @throws Error if a setting is in no table, or in two
 */
export function makeSettingsTable (): string {
  const tables = READERS.map(line => {
    const [heading = '', parts = ''] = line.split(': ')
    const names = parts.split(/\s+/).flatMap(part =>
      settingNames.filter(name => part.endsWith('.') ? name.startsWith(part) : name === part)
    )
    return { heading, names }
  })
  const placed = tables.flatMap(({ names }) => names)
  const wrong = settingNames.filter(name => placed.filter(other => other === name).length !== 1)
  if (wrong.length > 0) throw new Error(`Not in exactly one table of the settings: ${wrong.join(', ')}`)
  return tables.map(({ heading, names }) =>
    [
      '',
      `### ${heading}`,
      '',
      '| environment | file key | values | default | purpose |',
      '| --- | --- | --- | --- | --- |',
      ...names.map(name => row(name, placed.slice(0, placed.indexOf(name)))),
      ''
    ].join('\n')
  ).join('')
}
