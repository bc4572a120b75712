import { readFileSync } from 'node:fs'
import { expectKnown, readOptions } from '../../bench/options.js'
import { startKeycloak, useKeycloak } from './keycloak.ts'
import type { Keycloak } from './keycloak.ts'
import { differences, showRows } from './rows.ts'
import type { Row } from './rows.ts'
import { tokens } from './tokens.ts'

/** What is tried with a Keycloak of its own. */
const PARTS: Readonly<Record<string, { readonly features: readonly string[], readonly run: (keycloak: Keycloak) => Promise<Row[]> }>> = {
  tokens: { features: [], run: tokens }
}

const { version, part, at } = readOptions({
  version: { type: 'string', default: '26.7.3' },
  part: { type: 'string', multiple: true, default: Object.keys(PARTS) },
  at: { type: 'string' }
})
expectKnown('part', part, Object.keys(PARTS))

const page = readFileSync(new URL('../../docs/providers.md', import.meta.url), 'utf8')
let differs = 0
for (const name of part) {
  const { features, run } = PARTS[name]!
  const keycloak = at === undefined ? await startKeycloak({ version, features }) : useKeycloak(at)
  const stopAndEnd = async (): Promise<void> => {
    await keycloak.stop()
    process.exit(1)
  }
  process.once('SIGINT', stopAndEnd)
  try {
    const rows = await run(keycloak)
    const table = showRows(version, rows)
    console.log(table)
    if (!page.includes(table)) console.error(`docs/providers.md does not have this table of ${name}.`)
    for (const { setting, sent, came, expected } of differences(rows)) {
      console.error(`DIFFERS: ${setting}, ${sent}\n  recorded: ${expected}\n  now:      ${came}`)
      differs++
    }
  } finally {
    process.off('SIGINT', stopAndEnd)
    await keycloak.stop()
  }
}
process.exitCode = differs === 0 ? 0 : 1
