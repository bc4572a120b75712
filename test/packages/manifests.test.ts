import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { parse } from 'yaml'
import { root } from '../helpers/documents.ts'

type Ranges = Readonly<Record<string, string>>

interface Manifest {
  readonly version: string
  readonly license: string
  readonly engines: Ranges
  readonly scripts: Ranges
  readonly dependencies: Ranges
  readonly devDependencies: Ranges
  readonly peerDependencies: Ranges
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>
}

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const manifestOf = (folder: string): Manifest => JSON.parse(textOf(join(folder, 'package.json'))) as Manifest

t.test('The packages require the versions that the repository is tested with.', t => {
  const own = manifestOf('.')
  const tested = { ...own.dependencies, ...own.devDependencies, ...own.peerDependencies }
  for (const folder of ['packages/holdfast', 'packages/holdfast-cli']) {
    const { version, license, engines, scripts, dependencies, peerDependencies, peerDependenciesMeta } = manifestOf(folder)
    t.strictSame({ version, license, engines }, { version: own.version, license: own.license, engines: own.engines }, folder)
    for (const [name, range] of Object.entries(dependencies)) t.equal(range, tested[name], `${folder}: ${name}`)
    for (const [name, range] of Object.entries(peerDependencies)) {
      t.ok(name in tested, `${folder}: ${name}`)
      // npm holds an app to the ranges of optional peers too, even if nothing in the app needs them.
      if (folder === 'packages/holdfast') t.equal(range, name === 'fastify' ? '^5.0.0' : '*', `${folder}: ${name} does not conflict with the version of an app`)
      else t.equal(range, tested[name], `${folder}: ${name}`)
    }
    t.strictSame(Object.keys(scripts), ['prepack'], `${folder}: nothing runs when it is installed`)
    t.strictSame(Object.keys(peerDependencies).filter(name => !peerDependenciesMeta[name]?.optional), folder.endsWith('cli') ? [] : ['fastify'])
  }
  const { dependencies } = manifestOf('packages/holdfast-cli')
  t.strictSame(Object.keys(own.dependencies).filter(name => !(name in dependencies)), [], 'the command brings all that the service needs')
  const guard = manifestOf('packages/holdfast')
  t.strictSame(Object.keys(own.dependencies).filter(name => !(name in guard.dependencies) && !(name in guard.peerDependencies)), ['fastify-cli', 'yaml'], 'the plugin knows all but what reads files and starts processes')
  t.end()
})

t.test('The links of the npm pages lead somewhere: they are absolute, and those to the repository name a file of it.', t => {
  for (const folder of ['packages/holdfast', 'packages/holdfast-cli']) {
    const { repository } = JSON.parse(textOf(join(folder, 'package.json'))) as { repository: { url: string, directory: string } }
    t.equal(repository.directory, folder)
    const home = `${repository.url.replace(/^git\+/, '').replace(/\.git$/, '')}/blob/main/`
    const page = textOf(join(folder, 'README.md'))
    const links = [...page.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!)
    t.strictSame(links.filter(link => !link.startsWith('https://')), [], folder)
    const ofRepository = links.filter(link => link.startsWith('https://github.com/'))
    t.strictSame(ofRepository.filter(link => !link.startsWith(home) || !existsSync(join(root, link.slice(home.length)))), [], folder)
    if (folder === 'packages/holdfast') t.strictSame(ofRepository, [`${home}docs/guide/plugin.md`])
  }
  t.end()
})

const { options } = ts.getParsedCommandLineOfConfigFile(join(root, 'packages/holdfast/tsconfig.json'), { noEmit: false, noCheck: true, emitDeclarationOnly: true, removeComments: true, outDir: root }, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} })!
const ENTRIES = ['index', 'service', 'testing'].map(name => join(root, `packages/holdfast/${name}.ts`))
const program = ts.createProgram(ENTRIES, options)
const checker = program.getTypeChecker()

t.test('Everything that a caller sees of the package has a docstring in its declarations.', t => {
  const bare: string[] = []
  let members = 0
  const judge = (node: ts.Node, path: string): void => {
    if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')) return
    const isMember = (ts.isTypeElement(node) || ts.isClassElement(node)) && node.name !== undefined
    const name = isMember ? `${path}.${node.name.getText()}` : path
    if (isMember) {
      members++
      if (ts.getJSDocCommentsAndTags(node).length === 0) bare.push(name)
    }
    ts.forEachChild(node, child => { if (!ts.isParameter(child) && !ts.isBlock(child)) judge(child, name) })
  }
  for (const entry of ENTRIES) {
    for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)) {
      const { name, declarations } = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const [declaration] = declarations!
      if (name === 'default') continue
      if (ts.getJSDocCommentsAndTags(declaration!).length === 0) bare.push(name)
      if (ts.isInterfaceDeclaration(declaration!) || ts.isClassDeclaration(declaration!) || ts.isTypeAliasDeclaration(declaration!)) judge(declaration!, name)
    }
  }
  program.getSourceFile(join(root, 'plugins/auth.ts'))!.statements.filter(ts.isModuleDeclaration).forEach(block => judge(block, block.name.text))
  t.strictSame(bare, [])
  t.ok(members > 190, `${members} members`)
  t.end()
})

const REPORT = 'test/packages/api.txt'

t.test('The declarations of the package match the report, so a breaking change is seen.', t => {
  if (process.env.TAP_SNAPSHOT === '1') writeFileSync(join(root, REPORT), makeReport())
  else t.equal(textOf(REPORT), makeReport(), `npx tap --snapshot --disable-coverage test/packages/manifests.test.ts writes ${REPORT} anew; say in CHANGELOG.md what changes`)
  t.end()
})

/** Every exported declaration, as the package has it, without comments. */
function makeReport (): string {
  const declarations = new Map<string, ts.SourceFile>()
  program.emit(undefined, (path, text) => { declarations.set(path.replace(/\.d\.ts$/, '.ts'), ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true)) })
  const parts = ENTRIES.map(entry => {
    const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)
    const printed = symbols.map(symbol => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const file = declarations.get(target.declarations![0]!.getSourceFile().fileName)!
      const statement = file.statements.find(statement => namesOf(statement).includes(target.name === 'default' ? '_default' : target.name))
      return `${symbol.name}: ${statement?.getText(file) ?? checker.typeToString(checker.getTypeOfSymbol(target), undefined, ts.TypeFormatFlags.NoTruncation)}\n`
    })
    return `# ${relative(root, entry)}\n\n${printed.sort().join('\n')}`
  })
  const merged = declarations.get(join(root, 'plugins/auth.ts'))!
  const blocks = merged.statements.filter(ts.isModuleDeclaration).map(block => `${block.getText(merged)}\n`)
  return `${[...parts, `# what it adds to Fastify\n\n${blocks.join('\n')}`].join('\n')}`
}

function namesOf (statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.getText())
  return 'name' in statement && statement.name ? [(statement.name as ts.Identifier).text] : []
}

t.test('The files of the forge are valid, and start existing scripts.', t => {
  const { scripts } = manifestOf('.')
  for (const file of readdirSync(join(root, '.github'), { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.yml'))) {
    t.doesNotThrow(() => parse(textOf(join('.github', file)), { strict: true }), file)
    const named = [...textOf(join('.github', file)).matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!)
    t.strictSame(named.filter(name => !(name in scripts)), [], file)
  }
  const ci = parse(textOf('.github/workflows/ci.yml')) as { jobs: { test: { strategy: { matrix: { node: Array<string | number> } } } } }
  t.strictSame(ci.jobs.test.strategy.matrix.node, ['20.19', 22, 24, 26])
  t.match(textOf('.ci/run'), /^nodes=\(20 22 24 26\)$/m)
  const { updates } = parse(textOf('.github/dependabot.yml')) as { updates: Array<{ directories?: string[] }> }
  t.strictSame(updates[0]!.directories!.filter(folder => !existsSync(join(root, folder, 'package.json'))), [])
  for (const [, folder] of textOf('.github/workflows/release.yml').matchAll(/npm publish \.\/(\S+)/g)) t.ok(existsSync(join(root, folder!, 'package.json')), folder!)
  t.end()
})
