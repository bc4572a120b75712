import { readFileSync } from 'node:fs'
import { expectKnown, readOptions } from '../../bench/options.js'
import { startKeycloak, useKeycloak, type Keycloak } from './keycloak.ts'
import { revocation } from './revocation.ts'
import { differences, showBySetting, showRows, type Row } from './rows.ts'
import { tokens } from './tokens.ts'

/** What is tried with a Keycloak of its own. */
interface Part {
  features: readonly string[]
  args: readonly string[]
  run: (keycloak: Keycloak) => Promise<Row[]>
  show: (version: string, rows: readonly Row[]) => string
  /** The page of the table. */
  page: string
}

const PARTS: Record<string, Part> = {
  tokens: { features: [], args: [], run: tokens, show: showRows, page: 'lab/reports/keycloak.md' },
  revocation: {
    features: ['ssf'],
    // This service listens on loopback, in the clear. Unless set, events are pushed every 30 s.
    args: [
      '--spi-ssf-transmitter--default--allow-insecure-push-targets=true',
      '--spi-ssf-transmitter--default--outbox-drainer-interval=1s'
    ],
    run: revocation,
    show: showBySetting,
    page: 'lab/reports/keycloak.md'
  }
}

const { version, part, at } = readOptions({
  version: { type: 'string', default: '26.7.3' },
  part: { type: 'string', multiple: true, default: Object.keys(PARTS) },
  at: { type: 'string' }
})
expectKnown('part', part, Object.keys(PARTS))

let differs = 0
for (const name of part) {
  const { features, args, run, show, page } = PARTS[name]!
  const keycloak = at === undefined ? await startKeycloak({ version, features, args }) : useKeycloak(at)
  const stopAndEnd = async () => {
    await keycloak.stop()
    process.exit(1)
  }
  process.once('SIGINT', stopAndEnd)
  try {
    const rows = await run(keycloak)
    const table = show(version, rows)
    console.log(table)
    if (!readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8').includes(table)) {
      console.error(`${page} does not have this table of ${name}.`)
    }
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
