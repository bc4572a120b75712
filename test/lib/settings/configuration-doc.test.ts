import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { collectSettings } from '../../../lib/settings/sources.ts'
import { validateSettings } from '../../../lib/settings/validation.ts'
import { settingNames, settingSpec } from '../../../lib/settings/specs.ts'
import { processSurroundings } from '../../../server/surroundings.ts'

const path = join(import.meta.dirname, '../../../docs/reference/settings.md')
const page = readFileSync(path, 'utf8')

t.test('The example of a configuration file is valid.', async t => {
  const [, example = ''] = /```yaml\n# config\.yaml\n(.*?)```/s.exec(page) ?? []
  const found = collectSettings({
    environment: {},
    readFile: name => name === 'config.yaml' ? example : undefined
  })
  const settings = await validateSettings(found, processSurroundings)
  t.hasStrict(settings, {
    idp: { issuers: [{ issuer: 'https://tenant.example/' }] },
    server: { publicUrl: 'https://api.example', trustProxy: ['10.0.0.0/8', 'loopback'], port: 8000 }
  })
})

t.test('Every word in capitals that looks like a setting is one.', async t => {
  const mentioned = [...page.matchAll(/`([A-Z]+(?:_[A-Z]+)+)(?:=|`)/g)].map(([, name]) => name!)
  const known: readonly string[] = [...settingNames.map(name => settingSpec(name).variable), 'CONFIG_FILE']
  t.strictSame(mentioned.filter(name => !known.includes(name)), [])
})

t.test('Each setting has one row, and the eight that most need come first.', async t => {
  const rows = [...page.matchAll(/^\| (?:`([A-Z_]+)`|-) \| (?:`([\w.]+)`|-) \|/gm)].map(([, variable, key]) => key ?? variable!)
  const named = settingNames.map(name => settingSpec(name).from === 'environment' ? settingSpec(name).variable : name)
  t.strictSame([...rows].sort(), [...named].sort())
  const first = page.split('### ')[1]!
  t.equal(rows.filter(name => first.includes(`\`${name}\` |`)).length, 8)
})
