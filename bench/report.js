import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chart } from './chart.js'
import { machine } from './kernel.js'
import { writeInto } from './marked.js'
import { ROOT } from './processes.js'
import { comparison, forReadme, pages } from './tables.js'
import { judge } from './targets.js'

const RESULTS = join(ROOT, 'bench/results')

/**
 * Prints the measurements and the targets; stores them if `write` is set, and updates the pages' tables and the chart
 * after a whole run. Returns whether every target that was measured is met.
 */
export const report = (results, { skipped, whole, write }) => {
  const judged = judge(results)
  const about = machine()
  const shown = pages(results, judged).join('\n')
  console.log(`\n${shown}`)
  for (const { name, why } of skipped) console.log(`skipped: ${name} (${why})`)
  if (write) {
    const path = join(RESULTS, `node-${process.versions.node.split('.')[0]}.json`)
    const earlier = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}
    const kept = {
      ...earlier,
      date: new Date().toISOString().slice(0, 10),
      machine: about,
      ...results,
      targets: judge({ ...earlier, ...results }),
      skipped
    }
    writeFileSync(
      path,
      JSON.stringify(kept, (key, value) => typeof value === 'number' ? Number(value.toFixed(4)) : value, 2) + '\n'
    )
  }
  if (write && whole) {
    writeFileSync(join(RESULTS, 'chart.svg'), chart(results.compare, about))
    const measured =
      `Node ${about.node}, OpenSSL ${about.openssl}, one core of an ${about.cpu}; medians of interleaved rounds.`
    writeInto('bench/README.md', 'bench', `${comparison(results.compare)}\n\n${measured}`)
    writeInto(
      'README.md',
      'bench',
      '![CPU a request of Holdfast and ' +
        `others](bench/results/chart.svg)\n\n${forReadme(results.compare)}\n\n${measured} More rows, and how it is ` +
        'measured: [bench/](bench/README.md).'
    )
  }
  return judged.every(({ met }) => met)
}
