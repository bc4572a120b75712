import t from 'tap'
import { checkImports } from '../../cli/check-imports.ts'
import { root } from '../helpers/documents.ts'

t.test('A devDependency that a route or an own plugin imports at run time is a fault.', async t => {
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
    routes: { api: { 'a.ts': route, 'notes.md': "import 'ws'" } },
    plugins: {
      'b.ts': "import 'ws'",
      own: { 'c.ts': "import \"@fastify/auth\"\nexport default async () => await import('jose')" }
    }
  })
  t.strictSame(
    checkImports(folder).map(({ kind, says, cure }) => [kind, says.split(',')[0], cure]),
    [
      ['routes/api/a.ts', 'zod'],
      ['plugins/own/c.ts', '@fastify/auth'],
      ['plugins/own/c.ts', 'jose']
    ].map(([file, name]) => ['fault', `${file} imports ${name}`, `Make it a dependency: npm i -P ${name}`])
  )
  t.strictSame(checkImports(t.testdir({})), [], 'a build has no package.json')
  t.strictSame(checkImports(root), [], 'no sample route needs one')
})
