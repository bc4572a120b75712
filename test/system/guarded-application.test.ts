import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { containing } from '../helpers/containing.ts'
import { freePort } from '../helpers/free-port.ts'
import t from 'tap'
import { collectSettings } from '../../lib/settings/sources.ts'
import { validateSettings } from '../../lib/settings/validation.ts'
import { runLine, startLine } from '../helpers/command-line.ts'
import { readBlocks, readSection, root } from '../helpers/documents.ts'
import { processSurroundings } from '../../server/surroundings.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/**
 * docs/guide/gate.md as a reader follows it: the part from nothing to a guarded application as it is printed, but for
 * ports, which are free ones here.
 */

t.setTimeout(600_000)
const PAGE = 'docs/guide/gate.md'
const blocks = [PAGE, 'docs/reference/gate.md'].flatMap(readBlocks)

t.test('The page leads from nothing to a guarded application in Python.', {
  skip: spawnSync('python3', ['--version']).status !== 0 && 'python3 is not installed'
}, async t => {
  const clone = temporaryFolder(t, 'guarded')
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).trim()
    .split('\n')
  for (const file of files) cpSync(join(root, file), join(clone, file))
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'), 'dir')
  t.equal((await runLine(clone, 'npm run build')).code, 0, 'the install has built it')

  const part = readSection(PAGE, 'Three minutes to a guarded application')
  const steps = blocks.filter(({ text }) => part.includes(text))
  const [
    application,
    startApplication,
    startProvider,
    startGate,
    calls,
    configuration,
    explain,
    explained,
    startAgain,
    callsAgain
  ] = steps.map(({ text }) => text)
  t.equal(steps.length, 10)
  const [applicationPort, gatePort] = [String(await freePort()), String(await freePort())]
  let issuer = 'http://localhost:8001'
  const here = (text = '') =>
    text.replaceAll('3000', applicationPort).replaceAll('8100', gatePort).replaceAll('http://localhost:8001', issuer)
      .trim()

  writeFileSync(join(clone, /^# (\S+):/.exec(application!)![1]!), here(application))
  startLine(t, clone, here(startApplication))
  t.equal(startProvider, 'npm ci && npm run dev\n')
  const dev = startLine(t, clone, 'npm run dev', { PORT: String(await freePort()) })
  const [, provider, audience] = await dev.says(/Provider +(http:\S+) +\(audience (\S+)\)/)
  issuer = provider!
  t.match(startGate, containing(`IDP_AUDIENCE=${audience} `), 'the page names the audience that is printed')

  async function call (lines: string) {
    for (const line of lines.trim().split('\n')) {
      const [command = '', remark = ''] = line.split(/\s+# /, 2)
      const [, status, reason] = /^(\d{3}): (\w+)/.exec(remark) ?? []
      const { code, output } = await runLine(clone, command)
      if (status === undefined) t.match({ code, output }, { code: 0, output: / 200 OK/ }, line)
      else t.match({ code, output }, { code: 1, output: new RegExp(`\n  ${status} [^]*Refused: ${reason},`) }, line)
      if (status === undefined && !command.includes('--no-token')) {
        t.match(output, /Hello \S+, this is \/orders\/7/, 'the application knows who calls')
      }
    }
  }

  let gate = startLine(t, clone, here(startGate))
  await gate.says(/Server listening/)
  await call(here(calls))
  await gate.stop()

  writeFileSync(join(clone, 'config.yaml'), here(configuration))
  const { code, output } = await runLine(clone, here(explain))
  t.equal(code, 0)
  t.ok(output.replace(/^\n?>.*\n/gm, '').trim().endsWith(here(explained)), output)
  gate = startLine(t, clone, here(startAgain))
  await gate.says(/Server listening/)
  await call(here(callsAgain))
  await gate.stop()
  t.notMatch(gate.output(), /eyJ/, 'no token is in a log')
})

t.test('The page quotes what the service says about mistakes.', async t => {
  const rules = '    - path: /orders/:id\n      methods: [GET]\n    - path: /a\n      scpe: a\n    - { path: ' +
    "'/orders/:number', methods: [GET, PUT] }\n"
  const head = '# config.yaml\nidp:\n  domain: tenant.example\n  audience: https://api.example\ngate:\n  upstream: ' +
    'http://127.0.0.1:3000\n  rules:\n'
  const found = collectSettings({
    environment: {},
    readFile: path => path === 'config.yaml' ? head + rules : undefined
  })
  const { message } = await validateSettings(found, processSurroundings).then(() => {
    throw new Error('it is accepted')
  }, (error: Error) => error)
  t.ok(blocks.some(({ text }) => text === `${message}\n`), message)
})
