import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/documents.ts'
import { gateText, templateText, unitText } from '../helpers/unit-file.ts'

const skip = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not installed'

/** Tenths of what systemd counts up to 10. A service without a sandbox has 96. */
const MAX_EXPOSURE = 15

function analyze (args: string[]): Promise<{ code: number | null, text: string }> {
  return new Promise(resolve => {
    const child = execFile(
      'systemd-analyze',
      [...args, '--no-pager'],
      (_error, stdout, stderr) => resolve({ code: child.exitCode, text: stdout + stderr })
    )
  })
}

t.test('systemd knows every line of the units, and one with a misspelt line is found.', { skip }, async t => {
  const written = (text: string) =>
    text.replaceAll('/opt/holdfast', root).replace('/usr/bin/node', process.execPath)
  const here = written(unitText)
  const directory = t.testdir({
    sound: {
      'holdfast.service': here,
      'holdfast@.service': written(templateText),
      'holdfast-gate.service': written(gateText)
    },
    broken: { 'holdfast.service': here.replace('ProtectHome=', 'ProtectHomes=') }
  })
  for (const unit of ['holdfast.service', 'holdfast@8001.service', 'holdfast-gate.service']) {
    t.strictSame(await analyze(['verify', join(directory, 'sound', unit)]), { code: 0, text: '' }, unit)
  }
  t.match(await analyze(['verify', join(directory, 'broken/holdfast.service')]), {
    text: /Unknown key .*'ProtectHomes'/
  })
})

t.test('systemd rates the exposure of the service as low, and as high without its user.', { skip }, async t => {
  const security = (file: string) => analyze(['security', '--offline=true', `--threshold=${MAX_EXPOSURE}`, file])
  const directory = t.testdir({
    sound: { 'holdfast.service': unitText, 'holdfast-gate.service': gateText },
    open: { 'holdfast.service': unitText.replace('DynamicUser=yes\n', '').replace('CapabilityBoundingSet=\n', '') }
  })
  for (const unit of ['holdfast.service', 'holdfast-gate.service']) {
    const { code, text } = await security(join(directory, 'sound', unit))
    t.equal(code, 0, text)
  }
  t.hasStrict(await security(join(directory, 'open/holdfast.service')), { code: 1 })
})
