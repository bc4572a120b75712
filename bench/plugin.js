/**
 * What the npm package `holdfast` adds to the start of an app: milliseconds from the start of the process until the app
 * is ready, and CPU milliseconds, with the plugin and without it in turn. Packs the package and installs it in a
 * temporary folder, so it needs npm. Run: `node bench/plugin.js [starts]`.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const starts = Number(process.argv[2] ?? 20)
const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'holdfast-start-'))
const npm = (args, cwd) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

const app = (imports, register) =>
  `import Fastify from 'fastify'
${imports}
const app = Fastify()
${register}
app.get('/', () => 'ok')
await app.ready()
const { user, system } = process.cpuUsage()
console.log(JSON.stringify({ readyMs: performance.now(), cpuMs: (user + system) / 1000 }))
process.exit(0)
`
const programs = {
  without: app('', ''),
  with: app(
    "import holdfast from 'holdfast'",
    "await app.register(holdfast, { idp: { domain: 'tenant.example', audience: 'https://api.example' } })"
  )
}

const rank = (values, share) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)]

try {
  const tarball = npm(['pack', './packages/holdfast', '--silent', '--pack-destination', folder], root).trim().split(
    '\n'
  ).at(-1)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  npm(['i', '--no-audit', '--no-fund', '--prefer-offline', `./${tarball}`, 'fastify'], folder)
  for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, `${name}.js`), text)

  const seen = { without: [], with: [] }
  for (let i = 0; i < starts; i++) {
    for (const name of Object.keys(programs)) {
      seen[name].push(JSON.parse(execFileSync(process.execPath, [`${name}.js`], { cwd: folder, encoding: 'utf8' })))
    }
  }
  for (const unit of ['readyMs', 'cpuMs']) {
    const at = share => Object.keys(programs).map(name => rank(seen[name].map(start => start[unit]), share))
    for (const [word, share] of [['median', 0.5], ['least', 0]]) {
      const [bare, guarded] = at(share)
      console.log(
        `${unit} ${word}: ${guarded.toFixed(0)} with the plugin, ${bare.toFixed(0)} without: ` +
          `${(guarded - bare).toFixed(0)} more`
      )
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
