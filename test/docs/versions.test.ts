import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makePromises } from '../../dev/generate/promises.ts'
import { fastifyWarning } from '../../server/runtime.ts'
import { containing } from '../helpers/containing.ts'
import { holdsTest, readSection, readTable, root, textOf } from '../helpers/documents.ts'

const page = textOf('docs/reference/versions.md')
const manifestOf = (folder: string) =>
  JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as {
    engines: { node: string },
    exports: Record<string, unknown>,
    peerDependencies: Record<string, string>
  }

t.test('The page says which Node and Fastify each package takes, and which are tested.', async t => {
  const { engines, peerDependencies, exports } = manifestOf('packages/holdfast')
  t.equal(/^\*\*Node\*\* `(.+?)`/m.exec(page)?.[1], engines.node)
  t.equal(/^\*\*Fastify\*\* `(.+?)`/m.exec(page)?.[1], peerDependencies['fastify'])
  const tested = /tested with ([\d., and]+?)\. /.exec(page)![1]!.split(/, | and /)
  t.match(textOf('.github/workflows/ci.yml'), containing(`node: ['${tested[0]}', ${tested.slice(1).join(', ')}]`))
  t.match(fastifyWarning('5.0.0'), containing(`to ${/Before ([\d.]+) it has/.exec(page)![1]} or newer`))
  const entries = Object.keys(exports).filter(name => !name.endsWith('.json')).map(name => `\`holdfast${name.slice(1)}\``)
  t.match(page, containing(`entry points ${entries.join(', ')}, their types`))
})

t.test('A name that is promised stays.', async t => {
  const promised = textOf('test/packages/promises.txt')
  t.equal(makePromises(promised), promised, 'npm run generate adds new ones')
  const [, ...others] = promised.split('\n')
  t.equal(makePromises(others.join('\n')), promised, 'as it does with this one')
  t.throws(() => makePromises(`${promised}reason token_vanished 401\n`), {
    message: 'Only a major may change what is promised (docs/reference/versions.md): reason token_vanished 401'
  })
})

t.test('Each bypass of the comparison is refused by the test that the page names.', async t => {
  const rows = readTable(textOf('docs/reference/comparison.md').split('## Bypasses')[1]!)
  t.ok(rows.length >= 5, `${rows.length} bypasses`)
  for (const [bypass, , refused = ''] of rows) {
    const [, file = '', title = ''] = /\]\(\.\.\/\.\.\/(\S+?)\): "(.+)"$/.exec(refused) ?? []
    t.ok(file && holdsTest(file, title), `${bypass}: ${refused}`)
  }
})

t.test('Each line of the log that a page lists is written under that name.', async t => {
  const sources = ['lib', 'plugins', 'server', 'routes'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name => join(folder, name))
  ).filter(file => file.endsWith('.ts')).map(textOf).join('\n')
  const tables = [
    textOf('docs/reference/monitoring.md').split('### Log lines\n')[1]!,
    textOf('docs/reference/monitoring.md').split('## Logs\n')[1]!,
    textOf('docs/reference/revocation.md').split('## Monitoring\n')[1]!
  ]
  const listed = tables.flatMap(readTable).flatMap(([name = '']) => [...name.matchAll(/`([a-z_ ]+)`/g)].map(([, word]) => word!))
    .filter(word => word !== 'msg')
  t.ok(listed.length > 30, `${listed.length} lines`)
  const isWritten = (word: string) => new RegExp(`['\`]${word}['\`]`).test(sources)
  t.strictSame(listed.filter(word => !isWritten(word)), [])
  t.notOk(isWritten('keys_vanished'), 'one that is not is found')
})

t.test('Every reason for which the store cannot be used is explained, and no other.', async t => {
  const source = textOf('lib/guard/redis/redis-faults.ts')
  const union = /export type RedisFault =\n((?: .*\n)+)/.exec(source)![1]!
  const reasons = [...union.matchAll(/'(\w+)'/g)].map(([, reason]) => `\`${reason}\``)
  const explained = readTable(readSection('docs/reference/store.md', 'Reasons for an outage')).map(([reason]) => reason)
  t.strictSame(explained.sort(), [...reasons, '`connecting`'].sort())
})
