import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { root } from '../helpers/documents.ts'

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
  else t.equal(readFileSync(join(root, REPORT), 'utf8'), makeReport(), `npx tap --snapshot test/lint/declarations.test.ts writes ${REPORT} anew; say in CHANGELOG.md what changes`)
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
