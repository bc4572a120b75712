import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'
import { unitText } from '../helpers/unit-file.ts'

const skip = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not installed'

/** Tenths of what systemd counts up to 10. A service without a sandbox has 96. */
const MAX_EXPOSURE = 15

function analyze (args: string[]): Promise<{ code: number | null, text: string }> {
  return new Promise(resolve => {
    const child = execFile('systemd-analyze', [...args, '--no-pager'], (_error, stdout, stderr) => resolve({ code: child.exitCode, text: stdout + stderr }))
  })
}

t.test('systemd knows every line of the unit, and one with a misspelt line is found.', { skip }, async t => {
  const here = unitText.replaceAll('/opt/holdfast', root).replace('/usr/bin/node', process.execPath)
  const directory = t.testdir({ sound: { 'holdfast.service': here }, broken: { 'holdfast.service': here.replace('ProtectHome=', 'ProtectHomes=') } })
  t.same(await analyze(['verify', join(directory, 'sound/holdfast.service')]), { code: 0, text: '' })
  t.match(await analyze(['verify', join(directory, 'broken/holdfast.service')]), { text: /Unknown key .*'ProtectHomes'/ })
})

t.test('systemd counts little that the service may do, and much without its user.', { skip }, async t => {
  const security = (file: string) => analyze(['security', '--offline=true', `--threshold=${MAX_EXPOSURE}`, file])
  const directory = t.testdir({ sound: { 'holdfast.service': unitText }, open: { 'holdfast.service': unitText.replace('DynamicUser=yes\n', '').replace('CapabilityBoundingSet=\n', '') } })
  const { code, text } = await security(join(directory, 'sound/holdfast.service'))
  t.equal(code, 0, text)
  t.match(await security(join(directory, 'open/holdfast.service')), { code: 1 })
})
