import t from 'tap'
import { checkImports } from '../../cli/check-imports.ts'
import { root } from '../helpers/documents.ts'

t.test('A devDependency that the service or its command imports at run time is a fault.', async t => {
  const manifest = { dependencies: { pg: '8' }, devDependencies: { ws: '8', zod: '4', '@fastify/auth': '5', jose: '6', pg: '8' } }
  const route = [
    "import type { WebSocket } from 'ws'",
    "import fp from 'fastify-plugin'",
    "import {\n  z\n} from 'zod/v4'",
    "import pg from 'pg'",
    "import { own } from './ws.ts'"
  ].join('\n')
  const folder = t.testdir({
    'package.json': JSON.stringify(manifest),
    cli: { 'd.ts': "import { x } from 'ws'" },
    routes: { api: { 'a.ts': route, 'notes.md': "import 'ws'" } },
    plugins: {
      'b.js': "import 'ws'",
      own: { 'c.ts': "import \"@fastify/auth\"\nexport default async () => await import('jose')" }
    }
  })
  t.strictSame(
    checkImports(folder).map(({ kind, says, cure }) => [kind, says.split(',')[0], cure]),
    [
      ['cli/d.ts', 'ws'],
      ['plugins/own/c.ts', '@fastify/auth'],
      ['plugins/own/c.ts', 'jose'],
      ['routes/api/a.ts', 'zod']
    ].map(([file, name]) => ['fault', `${file} imports ${name}`, `Make it a dependency: npm i -P ${name}`])
  )
  t.strictSame(checkImports(t.testdir({})), [], 'a build has no package.json')
  t.strictSame(checkImports(root), [], 'neither the service nor a sample route needs one')
})
