import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ADVICE } from '../../../cli/explain/advice.ts'
import { PROVIDER_FAULTS, STORE_FAULTS } from '../../../cli/explain/faults.ts'
import { REFUSALS } from '../../../lib/refusal.ts'
import { variables } from '../../../lib/settings/specs.ts'
import { readSection, readTable, root } from '../../helpers/documents.ts'

const path = join(import.meta.dirname, '../../../docs/reference/errors.md')
const page = readFileSync(path, 'utf8')
const reasons = Object.keys(REFUSALS)

t.test('Every reason has its advice, in whole sentences', async t => {
  t.strictSame(Object.keys(ADVICE), reasons)
  for (const [reason, texts] of Object.entries(ADVICE)) {
    t.strictSame(Object.keys(texts), ['meaning', 'cause', 'cure'], reason)
    for (const [name, text] of Object.entries(texts)) t.match(text, /^[A-Z`].*\.$/s, `${reason}: ${name}`)
  }
})

t.test('Every setting and page that the advice names exists', async t => {
  const names = [...`${page} ${JSON.stringify(ADVICE)}`.matchAll(/`([A-Z]+(?:_[A-Z]+)+)(?:=\w+)?`/g)].map(([, name]) =>
    name
  )
  t.ok(names.length > 20)
  t.strictSame(names.filter(name => !variables.has(name!)), [])
  for (const [, file] of page.matchAll(/docs\/([\w/-]+\.md)/g)) t.ok(readFileSync(join(root, 'docs', file!)), file!)
})

t.test('The reference has the faults of provider and store, as the code has them', async t => {
  const rowsOf = (faults: typeof PROVIDER_FAULTS | typeof STORE_FAULTS) =>
    Object.entries(faults).map(([word, { meaning, cure }]) => [`\`${word}\``, meaning, cure])
  t.strictSame(
    readTable(readSection('docs/reference/monitoring.md', 'Signing keys').split('### Failures\n')[1]!),
    rowsOf(PROVIDER_FAULTS)
  )
  t.strictSame(readTable(readSection('docs/reference/store.md', 'Reasons for an outage')), rowsOf(STORE_FAULTS))
})
