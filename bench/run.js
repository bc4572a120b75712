import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectKnown, readOptions } from './options.js'
import { AUDIENCE, startProvider } from './provider.js'
import { pinToLoadCore, ROOT, startLoad } from './processes.js'

const PARTS = ['compare', 'gate', 'refusals', 'mixed', 'start', 'growth', 'revocation']
const PLANS = {
  full: { rounds: 7, seconds: 2, warmSeconds: 4, parts: PARTS },
  quick: { rounds: 2, seconds: 0.5, warmSeconds: 0.5, parts: ['compare', 'refusals', 'mixed', 'start'] },
  check: { rounds: 8, seconds: 0.3, warmSeconds: 1.5 }
}
const CHECK_TRIES = 4 // A run takes some 30 s.

const args = readOptions({
  quick: { type: 'boolean', default: false },
  check: { type: 'boolean', default: false },
  gate: { type: 'boolean', default: false },
  'allow-busy': { type: 'boolean', default: false },
  part: { type: 'string', multiple: true },
  only: { type: 'string', multiple: true },
  help: { type: 'boolean', default: false }
})
expectKnown('part', args.part ?? [], PARTS)

if (args.help) {
  console.log(`npm run bench -- [--quick] [--check] [--gate] [--part NAME]... [--only ROW]... [--allow-busy]

  --quick       a minute: fewer contenders and rounds, the same checks; nothing is written
  --check       half a minute, or two: exit code 1 if Bearer or DPoP is slower than bench/recorded.json, four times in turn
  --gate        exit code 1 when a target is missed
  --part        only this part: ${PARTS.join(', ')}
  --only        only this row of the comparison; nothing is written to the README
  --allow-busy  measure although the machine is not quiet; nothing is written`)
  process.exit()
}

pinToLoadCore()
// The yardsticks of a check need only what the service needs.
if (!args.check && !existsSync(join(ROOT, 'bench/node_modules'))) {
  console.error('Installing the contenders (bench/package.json)')
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: join(ROOT, 'bench'), stdio: 'inherit' })
  if (status !== 0) process.exit(2)
}

const started = performance.now()
const cleanUps = []
const plan = args.check ? PLANS.check : args.quick ? PLANS.quick : PLANS.full
const provider = await startProvider()
const load = startLoad(provider)
const skipped = []
const bench = {
  plan,
  provider,
  load,
  audience: AUDIENCE,
  quick: args.quick,
  // What disturbs a check disturbs its yardsticks as well, and the check is repeated.
  allowBusy: args['allow-busy'] || args.check,
  only: args.only,
  say: text => console.error(`${((performance.now() - started) / 1000).toFixed(0).padStart(4)} s  ${text}`),
  skip: (name, why) => {
    skipped.push({ name, why })
    bench.say(`SKIPPED ${name}: ${why}`)
    return null
  },
  wants: row => args.only === undefined ? (!args.quick || row.quick === true) : args.only.includes(row.id),
  cleanUp: work => cleanUps.push(work),
  stopServers: async () => {
    for (const work of cleanUps.splice(0)) await work()
  }
}

let code = 0
try {
  await load.init()
  const { awaitQuiet, NotReportable } = await import('./measure.js')
  const results = {}
  try {
    if (args.check) {
      const { MAIN_ROWS, measureRows } = await import('./compare.js')
      const { check } = await import('./verdict.js')
      const slow = await check({
        recorded: JSON.parse(readFileSync(join(ROOT, 'bench/recorded.json'), 'utf8')),
        tries: CHECK_TRIES,
        say: console.log,
        measure: async () => {
          const entries = await measureRows(bench, MAIN_ROWS)
          await bench.stopServers()
          return entries.map(({ figures }) => figures)
        }
      })
      if (slow.length > 0) console.error(`SLOWER THAN RECORDED: ${slow.join(', ')}`)
      code = slow.length > 0 ? 1 : 0
    } else await awaitQuiet(bench)
    for (const part of args.check ? [] : args.part ?? plan.parts) {
      bench.say(`== ${part}`)
      const { [part]: measure } = await import(`./${part}.js`)
      results[part] = await measure(bench)
      await bench.stopServers()
    }
    const { report } = await import('./report.js')
    const whole = !args.quick && !bench.allowBusy && (args.part?.includes('compare') ?? true) && args.only === undefined
    if (!args.check) {
      code = report(results, { skipped, whole, write: !args.quick && !bench.allowBusy }) || !args.gate
        ? 0
        : 1
    }
  } catch (error) {
    if (!(error instanceof NotReportable)) throw error
    console.error(`NOT REPORTED: ${error.message}`)
    code = 2
  }
} finally {
  await bench.stopServers()
  load.stop()
  provider.close()
}
bench.say('done')
process.exitCode = code
