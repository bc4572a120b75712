/**
 * `npm run test:chaos -- --seconds 180 --seed 21`: see README.md. Ends with status 1 if anything was not as it must be.
 */
import { join } from 'node:path'
import { readOptions } from '../../bench/options.js'
import { nginxProgram } from '../helpers/nginx.ts'
import { skipRedis } from '../helpers/redis.ts'
import { runChaos } from './run.ts'
import { show } from './show.ts'

const values = readOptions({ seconds: { type: 'string', default: '180' }, seed: { type: 'string', default: '21' } })
const directory = join(import.meta.dirname, '..', '..', 'dist')

if (skipRedis || nginxProgram === undefined) throw new Error('nginx and redis-server must be installed')
const ends: Array<() => unknown> = []
let isEnding = false
async function endAll (): Promise<void> {
  if (isEnding) return
  isEnding = true
  for (const end of ends.reverse()) await end()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    endAll().finally(() => process.exit(1))
  })
}
try {
  const seed = Number(values.seed)
  const report = await runChaos({
    teardown: end => {
      ends.push(end)
    }
  }, { directory, seed, seconds: Number(values.seconds), say: line => console.log(line) })
  console.log(show(seed, report))
  process.exitCode = report.violations.length === 0 ? 0 : 1
} finally {
  await endAll()
}
