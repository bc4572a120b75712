import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { ESLint } from 'eslint'
import ts from 'typescript'
import t, { type Test } from 'tap'
import { root, textOf } from '../helpers/documents.ts'

const { WINGS } = await import(join(import.meta.dirname, 'house.js')) as { WINGS: Record<string, readonly string[]> }

const FOLDERS = [
  'lib',
  'server',
  'plugins',
  'routes',
  'schemas',
  'cli',
  'packages',
  'dev',
  'bench',
  'examples'
]

const eslint = new ESLint({ cwd: root })

/** What the architecture rules refuse of pieces of code in such a file, each by its position. A piece is one line. */
async function refusedOf (filePath: string, pieces: readonly string[]) {
  const [result] = await eslint.lintText(`${pieces.join('\n')}\n`, { filePath: join(root, filePath) })
  const fatal = result!.messages.find(message => message.fatal)
  if (fatal) throw new Error(`${filePath}, ${pieces[fatal.line - 1]}: ${fatal.message}`)
  const lines = result!.messages.filter(({ ruleId }) => ruleId?.startsWith('house/')).map(({ line }) => line - 1)
  return [...new Set(lines)].sort((one, other) => one - other)
}

/** Each of the pieces is refused by itself, or none of them. */
async function verify (t: Test, file: string, pieces: readonly string[], isRefused: boolean) {
  const refused = await refusedOf(file, pieces)
  t.strictSame(
    isRefused ? pieces.filter((_piece, at) => !refused.includes(at)) : refused.map(at => pieces[at]),
    [],
    `${file}: ${pieces.length} pieces, ${isRefused ? 'each refused' : 'none refused'}`
  )
}

/** Every form in which a file can name a module. */
const FORMS: ReadonlyArray<readonly [title: string, code: (module: string) => string]> = [
  ['an import', module => `import { x } from '${module}'`],
  ['an import for its effects', module => `import '${module}'`],
  ['an import of types', module => `import type { x } from '${module}'`],
  ['a type that imports', module => `export type X = import('${module}').X`],
  ['a type of a whole module', module => `export type X = typeof import('${module}')`],
  ['an import at run time', module => `await import('${module}')`],
  ['one in backticks', module => `await import(\`${module}\`)`],
  ["an export of another's", module => `export { x } from '${module}'`],
  ['an export of all', module => `export * from '${module}'`],
  ['an export of types', module => `export type { x } from '${module}'`],
  ['require', module => `require('${module}')`],
  ['require of TypeScript', module => `import x = require('${module}')`],
  ['a made require', module => `createRequire(import.meta.url)('${module}')`],
  ['require.resolve', module => `require.resolve('${module}')`],
  ['import.meta.resolve', module => `import.meta.resolve('${module}')`]
]

const naming = (module: string) => FORMS.map(([, code]) => code(module))
const isOfType = (piece: string) => /^(?:import|export) type\b/.test(piece)

t.test('An arrow that is not allowed is refused in each form, and one that is allowed passes.', async t => {
  const files: ReadonlyArray<{ file: string, refused: readonly string[], allowed: string }> = [
    {
      file: 'app.ts',
      refused: [
        './cli/explain/explain.ts',
        './cli/main.ts',
        './dev/serve/run.ts',
        './test/helpers/app.ts',
        './bench/run.js',
        './lab/history/main.ts'
      ],
      allowed: './lib/refusal.ts'
    },
    {
      file: 'plugins/made-up.ts',
      refused: [
        './auth.ts',
        '../plugins/auth.ts',
        './auth/made-up.ts',
        '../routes/health.ts',
        '../cli/explain/explain.ts',
        '../holdfast.ts'
      ],
      allowed: '../server/build.ts'
    },
    { file: 'plugins/auth.ts', refused: ['./audit.ts', './audit/made-up.ts'], allowed: './auth/made-up.ts' },
    {
      file: 'plugins/auth/made-up.ts',
      refused: ['../auth.ts', '../audit.ts', '../audit/made-up.ts', '../../routes/health.ts'],
      allowed: './another.ts'
    },
    {
      file: 'routes/made-up.ts',
      refused: ['../plugins/auth.ts', '../cli/explain/explain.ts', '../dev/serve/run.ts', '../app.ts'],
      allowed: '../schemas/answers.ts'
    },
    {
      file: 'routes/api/made-up.ts',
      refused: ['../../plugins/auth.ts', '../../cli/explain/explain.ts'],
      allowed: '../../lib/refusal.ts'
    },
    {
      file: 'schemas/made-up.ts',
      refused: ['../routes/health.ts', '../server/build.ts'],
      allowed: '../lib/refusal.ts'
    },
    { file: 'server/made-up.ts', refused: ['../plugins/auth.ts'], allowed: '../lib/refusal.ts' },
    {
      file: 'lib/guard/made-up.ts',
      refused: ['../../server/build.ts', '../../plugins/auth.ts', '../../holdfast.ts'],
      allowed: '../refusal.ts'
    },
    {
      file: 'cli/explain/made-up.ts',
      refused: ['../../server/build.ts', '../main.ts', '../../holdfast.ts'],
      allowed: '../../lib/refusal.ts'
    },
    {
      file: 'cli/made-up.ts',
      refused: ['../dev/serve/run.ts', '../plugins/auth.ts', '../plugins/auth/guards.ts', '../app.ts'],
      allowed: './explain/explain.ts'
    },
    { file: 'dev/made-up.ts', refused: ['../test/helpers/app.ts', '../bench/run.js'], allowed: '../cli/main.ts' }
  ]
  for (const { file, refused, allowed } of files) {
    await verify(t, file, refused.flatMap(naming), true)
    await verify(t, file, naming(allowed), false)
  }
  for (const file of ['app.ts', 'lib/base/made-up.ts', 'plugins/made-up.ts', 'routes/made-up.ts']) {
    await verify(t, file, [
      "await import('../plu' + 'gins/auth.ts')",
      'await import(name)',
      'require(name)',
      'await import(`../$' + '{name}.ts`)'
    ], true)
  }
})

t.test('Without gate, revocation, settings, report and assembly, lib is the guard, and imports nothing else.', async t => {
  const wings = Object.keys(WINGS)
  t.strictSame(readdirSync(join(root, 'lib')).filter(name => name !== 'README.md').sort(), wings.sort())
  t.strictSame(WINGS.guard, ['refusal.ts', 'base'])
  const fileOf = (wing: string) => wing.endsWith('.ts') ? wing : `${wing}/made-up.ts`
  for (const wing of wings) {
    const from = wing.endsWith('.ts') ? '.' : '..'
    for (const other of wings.filter(name => name !== wing)) {
      const isRefused = !WINGS[wing]!.includes(other)
      await verify(t, `lib/${fileOf(wing)}`, naming(`${from}/${fileOf(other)}`), isRefused)
    }
  }
})

t.test('Fastify is for plugins and routes; elsewhere only its types are.', async t => {
  for (const file of ['lib/base/made-up.ts', 'cli/explain/made-up.ts', 'server/made-up.ts']) {
    const pieces = ['fastify', 'fastify-plugin', '@fastify/env'].flatMap(naming)
    await verify(t, file, pieces.filter(piece => !isOfType(piece)), true)
    await verify(t, file, pieces.filter(isOfType), false)
  }
  await verify(t, 'plugins/made-up.ts', naming('fastify'), false)
})

t.test('The clock, random numbers and the environment of the process are refused in lib/ however they are spelt.', async t => {
  const refused = [
    'export const x = process.env',
    'export const x = globalThis.process',
    "export const x = globalThis['process']",
    'export const { process: x } = globalThis',
    'export const x = global.process',
    "import x from 'node:process'; export { x }",
    "import { env } from 'process'; export { env }",
    "export { env } from 'node:process'",
    "export const x = await import('node:process')",
    "export const x = require('process')",
    'export const x = Date.now()',
    "export const x = Date['now']()",
    'export const { now } = Date',
    'export const x = globalThis.Date.now()',
    'export const x = new Date()',
    'export const x = new globalThis.Date()',
    'export const x = Date()',
    'export const x = Date',
    'export const x = Reflect.construct(Date, [])',
    'export const x = performance.now()',
    "import { performance as p } from 'node:perf_hooks'; export { p }",
    "export { performance } from 'node:perf_hooks'",
    "export const x = await import('perf_hooks')",
    'export const x = Math.random()',
    "export const x = Math['random']()",
    'export const { random } = Math',
    'export const x = Math',
    'export const x = crypto.randomUUID()',
    "import { randomBytes } from 'node:crypto'; export { randomBytes }",
    "import { randomBytes as x } from 'crypto'; export { x }",
    "import * as x from 'node:crypto'; export { x }",
    "import x from 'node:crypto'; export { x }",
    "export { randomBytes } from 'node:crypto'",
    "export * from 'node:crypto'",
    "export const x = await import('node:crypto')",
    "export const x = require('node:crypto')",
    "export const x = eval('1')",
    "export const x = Function('1')",
    "export const x = new Function('1')"
  ]
  const passing = [
    'export const x = new Date(0)',
    'export const x = (at: Date) => at.getTime()',
    "export const x = Date.parse('2026')",
    'export const x = (at: unknown) => at instanceof Date',
    'export const x = Math.floor(1.5)',
    "import { createHash } from 'node:crypto'; export { createHash }",
    "import type { KeyObject } from 'node:crypto'; export type X = KeyObject",
    'export const x = (process: { env: object }) => process.env',
    'export const x = (surroundings: { randomBytes: (size: number) => Buffer }) => surroundings.randomBytes(1)',
    'export const x = Function.prototype'
  ]
  for (const file of ['lib/base/made-up.ts', 'lib/guard/token/made-up.ts', 'cli/explain/made-up.ts']) {
    await verify(t, file, refused, true)
    await verify(t, file, passing, false)
  }
  await verify(t, 'plugins/made-up.ts', refused, false)
})

const isSource = (name: string) => /\.ts$/.test(name) && !/\.d\.ts$/.test(name)
const files = FOLDERS.flatMap(folder =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter(name => !name.includes('node_modules'))
    .map(name => join(folder, name))
)
  .concat(readdirSync(root)).filter(isSource).map(name => name.split(sep).join('/'))

/** All files with those that they name, types and imports at run time included. */
const imports = new Map(files.map(file => {
  const { importedFiles } = ts.preProcessFile(textOf(file), true, true)
  const named = importedFiles.map(({ fileName }) => fileName).filter(name => name.startsWith('.')).map(name =>
    relative(root, join(root, dirname(file), name)).split(sep).join('/')
  )
  return [file, [...new Set(named)].filter(name => files.includes(name))]
}))

/** Every group of nodes that reach each other. */
function circles (graph: ReadonlyMap<string, Iterable<string>>) {
  const reached = new Map([...graph.keys()].map(node => {
    const found = new Set(graph.get(node))
    for (const next of found) for (const further of graph.get(next) ?? []) found.add(further)
    return [node, found] as const
  }))
  const inCircle = [...reached.keys()].filter(node => reached.get(node)!.has(node))
  return [
    ...new Set(
      inCircle.map(node =>
        inCircle.filter(other => reached.get(node)!.has(other) && reached.get(other)!.has(node)).sort().join(' ')
      )
    )
  ].sort()
}

/** The topics of the guard count each, and a file beside them, or of lib/ itself, as a folder of its own. */
const folderOf = (file: string) => {
  const parts = file.split('/')
  if (file.startsWith('lib/guard/')) return parts.slice(0, 3).join('/')
  return parts.length === 1 ? '.' : parts.slice(0, parts[0] === 'lib' ? 2 : 1).join('/')
}

function folderGraph (of: (file: string) => string) {
  const graph = new Map<string, Set<string>>()
  for (const [file, named] of imports) {
    const from = graph.get(of(file)) ?? new Set()
    graph.set(of(file), from)
    for (const name of named) if (of(name) !== of(file)) from.add(of(name))
  }
  return graph
}

t.test('No files import each other in a circle, and no folders do, types and imports at run time included.', async t => {
  t.ok(
    imports.get('app.ts')!.includes('holdfast.ts') &&
      imports.get('lib/guard/redis/reach-redis.ts')!.includes('lib/guard/redis/redis-link.ts'),
    'imports are found'
  )
  t.strictSame(
    circles(new Map([['a', ['b']], ['b', ['c']], ['c', ['b']], ['d', ['d']]])),
    ['b c', 'd'],
    'and circles are'
  )
  t.strictSame(circles(imports), [])
  t.strictSame(circles(folderGraph(folderOf)), [])
})

t.test('Only the command changes streams of transmitters: no file of the service reaches what does.', t => {
  const CHANGES = 'lib/revocation/transmitter/ensure-stream.ts'
  const reach = (...starts: string[]) => {
    const found = new Set(starts)
    for (const file of found) for (const name of imports.get(file) ?? []) found.add(name)
    return found
  }
  t.ok(reach('cli/stream.ts').has(CHANGES), 'it is found')
  const loaded = files.filter(file => /^(?:plugins|routes)\//.test(file))
  t.notOk(reach('app.ts', 'holdfast.ts', ...loaded).has(CHANGES))
  t.end()
})

/** What a page may name although a clone has none: made by a build or by the reader, or of another program. */
const NOT_IN_A_CLONE = [
  '.ts',
  '.cjs',
  'config.yaml',
  'config.yml',
  'config.json',
  'dist/',
  'dist/routes/api/',
  'docs/own/',
  'receiver/',
  'json_web_key_test.json'
]

t.test('Every file and folder that a page names exists.', async t => {
  const skipped = ['node_modules', 'dist', '.git', '.tap', '.husky', 'peers']
  const walk = (folder: string): string[] =>
    readdirSync(join(root, folder), { withFileTypes: true }).filter(({ name }) => !skipped.includes(name))
      .flatMap(entry =>
        entry.isDirectory()
          ? [`/${folder}${entry.name}/`, ...walk(`${folder}${entry.name}/`)]
          : [`/${folder}${entry.name}`]
      )
  const paths = walk('')
  const isNamed = (name: string) => paths.some(path => path.endsWith(`/${name}`))
  t.ok(isNamed('guard/') && !isNamed('guard/none.ts'), 'paths are found')
  for (const page of paths.filter(path => path.endsWith('.md'))) {
    const prose = textOf(page).replace(/```[^]*?```/g, '')
    const names = [
      ...prose.matchAll(/`([\w.@-][\w./@-]*(?:\/|\.(?:ts|js|cjs|json|md|yaml|yml|conf|cfg|py|lua|html|css|svg)))`/g)
    ].map(([, name]) => name!.replace(/^(?:\.\.?\/)+/, ''))
    t.strictSame(names.filter(name => !isNamed(name) && !NOT_IN_A_CLONE.includes(name)), [], page)
    // `manuals` in test/helpers/documents.ts
    for (const [said, name, file] of prose.matchAll(/`([\w$]+)`,? in [[`]*([\w./-]+\.(?:ts|js|json))\b/g)) {
      const holders = paths.filter(path => path.endsWith(`/${file!.replace(/^(?:\.\.?\/)+/, '')}`))
      t.ok(
        NOT_IN_A_CLONE.includes(file!) || holders.some(path => textOf(path).includes(name!)),
        `${page}: ${said}`
      )
    }
  }
})

t.test('README.md counts the packages of a production install as the lock file has them.', async t => {
  const { packages } = JSON.parse(textOf('package-lock.json')) as {
    packages: Record<string, { dev?: boolean }>
  }
  const installed = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true).length
  t.equal(/ has (\d+) packages and takes /.exec(textOf('README.md'))?.[1], String(installed))
})

t.test('The page of test/ names each of its folders, and that of dev/ each of its own.', async t => {
  for (const room of ['test', 'dev']) {
    const page = readFileSync(join(root, room, 'README.md'), 'utf8')
    const folders = readdirSync(join(root, room), { withFileTypes: true }).filter(entry =>
      entry.isDirectory() && !entry.name.startsWith('.')
    ).map(({ name }) => `${name}/`)
    t.strictSame(folders.filter(name => !page.includes(`\`${name}\``)), [], room)
  }
})

t.test('The page of lib/ names each of its folders, and the pages of its rooms each of their files', async t => {
  const page = (folder: string) => readFileSync(join(root, folder, 'README.md'), 'utf8')
  const folders = readdirSync(join(root, 'lib'), { withFileTypes: true }).filter(entry => entry.isDirectory()).map((
    { name }
  ) => name)
  t.strictSame(folders.filter(name => !page('lib').includes(`${name}/`)), [])
  for (
    const room of ['assembly', 'gate', 'guard', 'guard/requirement', 'revocation', 'gate/upstream'].map(name => `lib/${name}`)
  ) {
    t.strictSame(
      readdirSync(join(root, room)).filter(file => file.endsWith('.ts') && !page(room).includes(file)),
      [],
      room
    )
  }
})
