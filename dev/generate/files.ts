import { makeConfigSchema } from './config-schema.ts'
import { makeErrorSections } from './error-sections.ts'
import { makeLlms } from './llms.ts'
import { makePromises } from './promises.ts'
import { makeConfigExample, makeEnvExample } from './settings-files.ts'
import { makeSettingsTable } from './settings-table.ts'

/** Each generated file with what makes it, or a part of it, anew. */
export const GENERATED: Readonly<Record<string, (text: string) => string>> = {
  'examples/settings/.env.example': makeEnvExample,
  'examples/settings/config.example.yaml': makeConfigExample,
  'examples/settings/config.schema.json': makeConfigSchema,
  'docs/reference/settings.md': page => between(page, 'settings', makeSettingsTable()),
  'docs/reference/errors.md': page => between(page, 'sections', makeErrorSections()),
  'docs/llms.txt': makeLlms,
  'test/packages/promises.txt': makePromises
}

/** A page with another text between a pair of marks. */
function between (page: string, name: string, text: string): string {
  const open = `<!-- ${name} -->\n`
  const start = page.indexOf(open)
  const end = page.indexOf(`<!-- /${name} -->`)
  if (start === -1 || end < start) throw new Error(`The marks of ${name} are missing`)
  return page.slice(0, start + open.length) + text + page.slice(end)
}
