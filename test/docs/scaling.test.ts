import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NONCE_LIFETIME_SECONDS } from '../../lib/guard/dpop/nonces.ts'
import { LATE_RECORD_SECONDS } from '../../lib/guard/replay/replay-store.ts'
import { settingSpec } from '../../lib/settings/specs.ts'
import { readSection, readTable, root } from '../helpers/documents.ts'

const path = join(root, 'bench/scaling.md')
const figures = readTable(readSection('bench/scaling.md', 'How many, and how much'))

/** One figure of the page, by the beginning of its row. */
function figure (name: string): number {
  const found = figures.filter(([what]) => what!.startsWith(name))
  if (found.length !== 1) throw new Error(`no such figure, or two: ${name}`)
  return Number.parseFloat(found[0]![1]!)
}

const dpopUs = figure('CPU of a DPoP request')
const recordUs = figure('CPU of Redis for a record, few')
const recordBytes = figure('memory of Redis')
const ownBytes = figure('memory of an instance')
const wireBytes = figure('traffic with Redis')
const share = figure('share of a core') / 100
const WINDOW = settingSpec('idp.dpopIatOffsetSeconds').default as number

/** A record beside a nonce lives until the nonce would be refused, and a few seconds more. */
const NONCE_RECORD_SECONDS = NONCE_LIFETIME_SECONDS + LATE_RECORD_SECONDS

const number = (value: number): string => value.toLocaleString('en-US')
const size = (bytes: number): string => bytes < 1e9 ? `${Math.ceil(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`
const traffic = (bits: number): string =>
  bits < 1e9 ? `${(bits / 1e6).toFixed(1)} Mbit/s` : `${(bits / 1e9).toFixed(1)} Gbit/s`
/** To the end of the last second in which the proof could pass, and the time for a record that comes late. */
const lifetime = (window: number): number => window + 1 + LATE_RECORD_SECONDS
/** With room for the table that is doubled while it grows. */
const memory = (rate: number, window: number): number => rate * lifetime(window) * recordBytes * 1.5

const sizes = [
  '| DPoP requests a second | instances, one core each | without a store: memory of each for records | masters ' +
  'of Redis, one core each | memory of Redis in all | traffic with Redis |',
  '| --- | --- | --- | --- | --- | --- |',
  ...[1_000, 10_000, 100_000, 1_000_000].map(rate => {
    const cores = (us: number): number => Math.ceil(rate * us / 1e6 / share)
    return `| ${[number(rate), number(cores(dpopUs) + 1), size(rate / cores(dpopUs) * NONCE_RECORD_SECONDS * ownBytes * 1.5), number(cores(recordUs)), size(memory(rate, WINDOW)), traffic(rate * wireBytes * 8)].join(' | ')} |`
  })
].join('\n')

const windows = [
  '| `IDP_DPOP_IAT_OFFSET_SECONDS` | a record lives for | memory for each 1,000 DPoP requests a second |',
  '| --- | --- | --- |',
  ...[WINDOW, 120, 60, 30].map(window => `| ${window} | ${lifetime(window)} s | ${size(memory(1000, window))} |`)
].join('\n')

t.test('The tables are computed from the figures of the page.', async t => {
  for (const [name, table] of Object.entries({ sizes, windows })) {
    const page = readFileSync(path, 'utf8')
    const start = page.indexOf(`<!-- ${name} -->\n`) + `<!-- ${name} -->\n`.length
    const end = page.indexOf(`<!-- /${name} -->`)
    t.ok(start <= end, 'the marks of the table exist')
    if (process.env.TAP_SNAPSHOT === '1') writeFileSync(path, page.slice(0, start) + table + '\n' + page.slice(end))
    else t.equal(page.slice(start, end), `${table}\n`, name)
  }
})

t.test('Every reason for which the store cannot be used is explained, and no other.', async t => {
  const source = readFileSync(join(root, 'lib/guard/redis/redis-faults.ts'), 'utf8')
  const union = /export type RedisFault =\n((?: .*\n)+)/.exec(source)![1]!
  const reasons = [...union.matchAll(/'(\w+)'/g)].map(([, reason]) => `\`${reason}\``)
  const explained = readTable(readSection('docs/reference/store.md', 'Reasons for an outage')).map(([reason]) => reason)
  t.strictSame(explained.sort(), [...reasons, '`connecting`'].sort())
})
