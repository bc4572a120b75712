import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { containing } from '../helpers/containing.ts'
import { closeGraceDelay } from '../../start-options.ts'
import { root, textOf } from '../helpers/documents.ts'
import { templateText, unitText, valuesOf } from '../helpers/unit-file.ts'

/** What can be read from the unit. test/system/systemd.test.ts has systemd judge it. */

const manual = textOf('deploy/README.md')
const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }

t.test('The unit starts what npm start starts, and the signal reaches the service directly.', async t => {
  t.strictSame(valuesOf('ExecStart'), [`/usr/bin/node node_modules/.bin/${scripts.start}`])
  t.ok(existsSync(join(root, 'node_modules/.bin/fastify')))
  t.strictSame(valuesOf('KillSignal'), [], 'it is SIGTERM')
})

t.test('The unit for several instances differs only in its port, which the service takes from the command line.', async t => {
  const parts = (text: string) => text.split('\n').filter(line => !/^(#|Description=|ExecStart=)/.test(line))
  t.strictSame(parts(templateText), parts(unitText))
  t.strictSame(
    valuesOf('ExecStart', templateText),
    valuesOf('ExecStart').map(line => line.replace(' start ', ' start -p %i '))
  )
  for (const port of ['8001', '8002']) {
    t.match(manual, containing(`holdfast@${port}`))
    t.match(textOf('deploy/nginx/instances.conf'), containing(`server 127.0.0.1:${port} `))
  }
})

t.test('Before a start the streams of transmitters are ensured, and the start does not depend on it.', async t => {
  const text = textOf('deploy/systemd/stream.conf')
  t.strictSame(valuesOf('ExecStartPre', text), ['-/usr/bin/node dist/cli/main.js stream --ensure'])
  t.ok(existsSync(join(root, 'cli/main.ts')), 'which the build compiles')
  t.match(textOf('tsconfig.build.json'), containing('"cli"'))
  t.match(text, containing(' /etc/systemd/system/holdfast.service.d/'))
})

t.test('The process has the time that it needs to end, and is started again.', async t => {
  const [seconds = ''] = valuesOf('TimeoutStopSec')
  t.match(seconds, /^\d+$/)
  t.ok(Number(seconds) * 1000 > closeGraceDelay)
  t.strictSame(valuesOf('Restart'), ['always'])
  t.strictSame(valuesOf('StartLimitBurst'), ['5'], 'but not for ever')
})

t.test('It runs as a user without rights, in a sandbox that can still run V8.', async t => {
  const must = {
    DynamicUser: 'yes',
    CapabilityBoundingSet: '',
    ProtectSystem: 'strict',
    ProtectHome: 'yes',
    PrivateDevices: 'yes',
    RestrictNamespaces: 'yes',
    LimitCORE: '0'
  }
  for (const [directive, value] of Object.entries(must)) t.strictSame(valuesOf(directive), [value], directive)
  t.strictSame(valuesOf('User'), [])
  t.strictSame(valuesOf('MemoryDenyWriteExecute'), [], 'V8 writes machine code')
})

t.test('The manual puts everything where the unit looks for it.', async t => {
  for (const path of [...valuesOf('WorkingDirectory'), ...valuesOf('EnvironmentFile')]) {
    t.match(manual, containing(path))
  }
  t.match(manual, /install -m 0600 examples\/settings\/\.env\.example \/etc\/holdfast\/holdfast\.env\n/)
  t.notMatch(unitText, /^Environment=(?!NODE_ENV=)/m, 'no setting is in the unit')
})
