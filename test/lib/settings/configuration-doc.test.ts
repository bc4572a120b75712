import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { settingNames, settingSpec } from '../../../lib/settings/specs.ts'
import type { SettingName } from '../../../lib/settings/specs.ts'

const path = join(import.meta.dirname, '../../../docs/reference/settings.md')
const page = readFileSync(path, 'utf8')

const code = (text: string): string => `\`${text}\``

function row (name: SettingName): string {
  const { variable, from, default: given, allowed, about, unset, secret } = settingSpec(name)
  const byDefault = given === undefined ? unset! : code([given].flat().join(' '))
  const purpose = secret ? `${about}. **Secret**: never shown` : about
  return `| ${from === 'file' ? '-' : code(variable)} | ${from === 'environment' ? '-' : code(name)} | ` +
    `${allowed.replaceAll('|', '\\|')} | ${byDefault} | ${purpose} |`
}

const table = [
  '| environment | file key | values | default | what it is for |',
  '| --- | --- | --- | --- | --- |',
  ...settingNames.map(row)
].join('\n')

t.test('The table of all settings is the one that the code makes.', t => {
  const start = page.indexOf('<!-- settings -->\n') + '<!-- settings -->\n'.length
  const end = page.indexOf('<!-- /settings -->')
  t.ok(start <= end, 'the marks of the table exist')
  if (process.env.TAP_SNAPSHOT === '1') writeFileSync(path, page.slice(0, start) + table + '\n' + page.slice(end))
  else t.equal(page.slice(start, end), `${table}\n`)
  t.end()
})

t.test('The example of a configuration file is valid.', async t => {
  const [, example = ''] = /```yaml\n# config\.yaml\n(.*?)```/s.exec(page) ?? []
  const found = collectSettings({
    environment: {},
    readFile: name => name === 'config.yaml' ? example : undefined
  })
  const settings = await validateSettings(found)
  t.hasStrict(settings, {
    idp: { issuers: [{ issuer: 'https://tenant.example/' }] },
    server: { publicUrl: 'https://api.example', trustProxy: ['10.0.0.0/8', 'loopback'], port: 8000 }
  })
})

t.test('Every word in capitals that looks like a setting is one.', t => {
  const mentioned = [...page.matchAll(/`([A-Z]+(?:_[A-Z]+)+)(?:=|`)/g)].map(([, name]) => name!)
  const known: readonly string[] = [...settingNames.map(name => settingSpec(name).variable), 'CONFIG_FILE']
  t.strictSame(mentioned.filter(name => !known.includes(name)), [])
  t.end()
})
