import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root, textOf } from '../helpers/documents.ts'

/** No import shows these edges between plugins and routes: each decorator of the app, with the files that read it. */
const READERS: Record<string, string> = {
  authenticate: 'routes/api/private routes/api/profile routes/api/protected',
  settings: 'plugins/audit plugins/auth plugins/base-url plugins/cors plugins/errors plugins/gate-grpc ' +
    'plugins/gate plugins/openapi plugins/pressure plugins/request-log plugins/tracing routes/api/private ' +
    'routes/api/profile routes/gate routes/gate/answer routes/verify routes/well-known',
  holdfastGuard: 'packages/holdfast/app-document plugins/audit plugins/gate plugins/gate-grpc plugins/metrics plugins/request-end ' +
    'routes/gate routes/gate/upgraded routes/health routes/revocation routes/well-known',
  guardAudit: 'plugins/metrics routes/health',
  gate: 'plugins/gate-grpc plugins/tracing routes/gate routes/revocation routes/verify routes/well-known',
  checkRequestOf: 'routes/verify',
  grpcSessions: '',
  grpcAddress: '',
  baseUrlOf: 'routes/docs routes/well-known',
  connections: 'plugins/closing plugins/gate plugins/metrics',
  closing: 'plugins/request-end routes/gate routes/gate/upgraded routes/health',
  pressure: 'plugins/metrics',
  metricsText: 'routes/metrics',
  onRequestEnd: 'plugins/metrics plugins/request-log',
  endRequest: 'routes/gate',
  require: '',
  requireScope: 'routes/api/admin routes/api/private-scoped routes/api/users routes/revocation'
}

const FOLDERS = ['plugins', 'routes', 'server', 'packages/holdfast']
const files = [
  'holdfast.ts',
  ...FOLDERS.flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter(name =>
      name.endsWith('.ts') && !name.startsWith('dist')
    ).map(name => `${folder}/${name}`)
  )
]
const sources = new Map(files.map(file => [file, textOf(file).replace(/\/\*[^]*?\*\/|\/\/.*/g, '')]))

t.test('Each decorator of the app has the readers that are listed', async t => {
  const decorators = new Map<string, string>()
  for (const [file, text] of sources) {
    for (const [, name] of text.matchAll(/\bapp\.decorate\(\s*'(\w+)'/g)) decorators.set(name!, file)
  }
  const found = Object.fromEntries([...decorators].map(([name, owner]) => {
    const read = new RegExp(`\\b(?:app|server|scope)\\.${name}\\b|\\b${name}\\b[^=;(]*\\} = app\\b`)
    const readers = [...sources].filter(([file, text]) => file !== owner && read.test(text))
    return [name, readers.map(([file]) => file.replace(/\.ts$/, '')).sort().join(' ')]
  }))
  const sorted = Object.entries(READERS).map(([name, files]) => [name, files.split(' ').sort().join(' ')])
  t.strictSame(found, Object.fromEntries(sorted))
})
