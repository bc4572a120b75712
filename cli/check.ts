import { join } from 'node:path'
import { resourceWarning } from '../lib/assembly/resource-metadata.ts'
import { holdsKey } from '../lib/base/printable.ts'
import { NO_TLS_SOCKET, withoutSecrets } from '../lib/settings/problems.ts'
import { SettingsError } from '../lib/base/settings-error.ts'
import type { Settings } from '../lib/settings/settings.ts'
import type { Givens } from '../lib/settings/given.ts'
import { collectSettings, type SettingsSources } from '../lib/settings/sources.ts'
import { settingNames, settingSpec, type SettingName } from '../lib/settings/specs.ts'
import { partOf, valueAt } from '../lib/settings/tree.ts'
import { typedSettings } from '../lib/settings/typed.ts'
import { validateSettings } from '../lib/settings/validation.ts'
import { gateWarnings, startWarnings } from '../lib/settings/start-report.ts'
import { runTool, type Tool, type World } from './arguments.ts'
import { checkFiles, faultsOfSettings, findingsOrFaults } from './check-files.ts'
import { checkImports } from './check-imports.ts'
import { checkIntrospection } from './check-introspection.ts'
import { checkProvider, DOMAIN_WITH_SCHEME } from './check-provider.ts'
import { checkRevocation } from './check-revocation.ts'
import { checkStore } from './check-store.ts'
import { fault, warning, type Finding } from './findings.ts'
import { indent, terminalLine, title, type Paint } from './show.ts'
import { processSurroundings } from '../server/surroundings.ts'

export interface CheckWorld extends World {
  readonly readFile: SettingsSources['readFile']
}

const TOOL = {
  name: 'check',
  options: {},
  help: run =>
    `Says whether the service could work with its settings: reads them as the service does, says where each one
comes from, asks the identity provider for its keys and about tokens (if introspection is on), compares the
clocks, opens the files that are named, tries the replay store, and looks at the store of revocations and at
each transmitter.

  ${run.replace(/ --$/, '')}

Run it where the service runs, with the same environment. Secrets are not shown.`,
  ending: () => 'Exit code: 0 if all is well, 1 if something is not.'
} as const satisfies Tool

/** Checks settings, provider and store. Returns the exit code: 0 if nothing is wrong, else 1. */
export function check (argv: readonly string[], world: CheckWorld): Promise<number> {
  return runTool(TOOL, argv, world, async (_args, paint) => {
    const { env, out, readFile } = world
    const found: Finding[] = []
    const report = (name: string, findings: readonly Finding[]) => {
      if (findings.length === 0) return
      found.push(...findings)
      out.write(
        `${name === '' ? '' : title(paint, name)}${findings.map(finding => showFinding(finding, paint)).join('')}`
      )
    }
    const collected = collectSettings({ environment: env, readFile })
    const settings = await tryToRead(collected)
    out.write(
      title(paint, 'Settings') + showSettings(collected, !(settings instanceof SettingsError))
    )
    if (settings instanceof SettingsError) {
      report('', faultsOfSettings(settings))
    } else {
      // A domain with a scheme is reported as a fault of the provider below.
      const warnings = startWarnings(settings, processSurroundings.now)
      report(
        '',
        [
          ...warnings.slice(settings.idp.issuers.length === 0 ? 1 : 0),
          ...gateWarnings(settings),
          resourceWarning(settings, '') ?? []
        ].flat().map(text => warning(text))
      )
      if (settings.idp.issuers.length === 0) report('Identity provider', [DOMAIN_WITH_SCHEME])
      for (const issuer of settings.idp.issuers) {
        report(`Identity provider ${issuer.issuer}`, [
          ...await checkProvider(issuer, settings, Date.now),
          ...await checkIntrospection(issuer, settings)
        ])
      }
      if (settings.server.clientCertificate === 'socket') {
        report('Certificates of clients', [fault(NO_TLS_SOCKET, 'Let a proxy forward certificates in a header.')])
      }
      report('Files', await checkFiles(settings))
      report('Replay store', await findingsOrFaults(() => checkStore(settings)))
      for (const [name, findings] of await checkRevocation(settings)) report(name, findings)
    }
    report('Packages', checkImports(join(import.meta.dirname, '..')))
    const faults = found.filter(({ kind }) => kind === 'fault')
    out.write(title(paint, 'Result') + showResult(faults, found.some(({ kind }) => kind === 'warning'), paint))
    return faults.length === 0 ? 0 : 1
  })
}

async function tryToRead (found: Givens): Promise<Settings | SettingsError> {
  try {
    return await validateSettings(found, processSurroundings)
  } catch (error) {
    if (error instanceof SettingsError) return error
    throw error
  }
}

/**
 * The settings that are set: where each value comes from, and the value, as the service goes by it, or as it was found
 * if the settings are not usable.
 */
function showSettings ({ values, places }: Givens, isUsable: boolean): string {
  const shown = isUsable ? typedSettings(values) : values
  const listed = settingNames.filter(name => valueAt(values, name) !== undefined)
  const width = Math.max(...listed.map(name => writtenAs(name).length))
  return listed.map(name => {
    const text = textOf(name, valueAt(shown, name))
    // Before an @ there may be a password, in a value that is not usable too, and a key in place of its path.
    const isHidden = settingSpec(name).secret === true || text.includes('@') || holdsKey(text)
    const told = isHidden ? '(not shown)' : terminalLine(text)
    return `  ${writtenAs(name).padEnd(width)}  ${places.get(name)!.padEnd(20)}  ${told}\n`
  }).join('')
}

/** The name by which a user sets it: its variable, or its key where only the file can hold it. */
function writtenAs (name: SettingName): string {
  const { variable, from } = settingSpec(name)
  return from === 'file' ? name : variable
}

/** What is in a section is shown by the names that it may have: a secret may stand under another. */
function textOf (name: SettingName, value: unknown): string {
  if (Array.isArray(value) && value.every(item => typeof item !== 'object')) return value.join(' ')
  return typeof value === 'object' ? JSON.stringify(withoutSecrets(partOf(name), value, '(not shown)')) : String(value)
}

const MARKS = { fine: ['green', '\u2713'], warning: ['yellow', '!'], fault: ['red', '\u2717'] } as const

function showFinding ({ kind, says, cure }: Finding, paint: Paint): string {
  const [style, mark] = MARKS[kind]
  // The cure of a fault comes at the end.
  return `  ${paint(style, mark)} ${says}\n${
    kind === 'warning' && cure !== undefined ? `    ${cure}\n` : ''
  }`
}

function showResult (faults: readonly Finding[], isWarned: boolean, paint: Paint): string {
  if (faults.length === 0) {
    const sentence = isWarned
      ? paint('yellow', 'All is well but for what stands behind "!".')
      : paint('green', 'All is well.')
    return indent(sentence) + '\n'
  }
  const lines = faults.map(({ says, cure }, at) =>
    `\n${at + 1}. ${says}\n   ${paint('cyan', 'What to do')}  ${cure}`
  )
  return indent(
    [paint('red', faults.length === 1 ? 'One thing is wrong.' : `${faults.length} things are wrong.`), ...lines].join(
      '\n'
    )
  ) + '\n'
}
