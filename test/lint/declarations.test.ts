import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { makeOptionTypes } from '../../dev/generate/plugin-options.ts'
import { root, textOf } from '../helpers/documents.ts'

const { options } = ts.getParsedCommandLineOfConfigFile(join(root, 'packages/holdfast/tsconfig.json'), {
  noEmit: false,
  noCheck: true,
  emitDeclarationOnly: true,
  removeComments: true,
  outDir: root
}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} })!
const ENTRIES = ['index', 'guard', 'service', 'testing'].map(name => join(root, `packages/holdfast/${name}.ts`))
/** What the guard adds to Fastify. */
const AUGMENTATION = join(root, 'plugins/auth/augmentation.ts')
const compiler = ts.createCompilerHost(options)
const readSource = compiler.getSourceFile
// The package has the generated declarations in place of the derived types.
compiler.getSourceFile = (path, version, ...rest) =>
  path.endsWith('/settings/option-types.ts')
    ? ts.createSourceFile(path, makeOptionTypes(), version)
    : readSource(path, version, ...rest)
const program = ts.createProgram(ENTRIES, options, compiler)
const checker = program.getTypeChecker()

t.test('Everything that a caller sees of the package has a docstring in its declarations.', async t => {
  const bare: string[] = []
  let members = 0
  const judge = (node: ts.Node, path: string) => {
    if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')) return
    const isMember = (ts.isTypeElement(node) || ts.isClassElement(node)) && node.name !== undefined
    const name = isMember ? `${path}.${node.name.getText()}` : path
    if (isMember) {
      members++
      if (ts.getJSDocCommentsAndTags(node).length === 0) bare.push(name)
    }
    ts.forEachChild(node, child => {
      if (!ts.isParameter(child) && !ts.isBlock(child)) judge(child, name)
    })
  }
  for (const entry of ENTRIES) {
    for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)) {
      const { name, declarations } = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const [declaration] = declarations!
      if (name === 'default') continue
      if (ts.getJSDocCommentsAndTags(declaration!).length === 0) bare.push(name)
      if (
        ts.isInterfaceDeclaration(declaration!) || ts.isClassDeclaration(declaration!) ||
        ts.isTypeAliasDeclaration(declaration!)
      ) judge(declaration!, name)
    }
  }
  program.getSourceFile(AUGMENTATION)!.statements.filter(ts.isModuleDeclaration).forEach(block =>
    judge(block, block.name.text)
  )
  t.strictSame(bare, [])
  t.ok(members > 190, `${members} members`)
})

/** Names that the examples use, and what is there by them. */
const KNOWN: Record<string, string> = {
  app: "import('fastify').FastifyInstance",
  request: "import('fastify').FastifyRequest",
  refusal: "import('holdfast').Refusal",
  idp: "import('holdfast/testing').TestIssuer",
  client: "import('holdfast/testing').TestClient",
  certified: "import('holdfast/testing').CertificateClient",
  transmitter: "import('holdfast/testing').TestTransmitter",
  guard: "import('holdfast/guard').RequestGuard",
  req: "import('node:http').IncomingMessage",
  res: "import('node:http').ServerResponse",
  service: "import('fastify').FastifyPluginAsync<import('holdfast').HoldfastOptions>"
}

/** The example as a program: it may make itself what is known otherwise. */
function programOf (example: string) {
  const known = Object.entries(KNOWN).filter(([name]) => !example.includes(`const ${name} =`)).map(([name, type]) =>
    `declare const ${name}: ${type}\n`
  ).join('')
  return 'import holdfast, { Refusal } from \'holdfast\'\nimport { createGuard } from \'holdfast/guard\'\n' +
    'import { createTestIssuer, createTestTransmitter } from ' +
    `'holdfast/testing'\n${known}export async function example (): Promise<unknown> {\n${example}\nreturn ` +
    '[holdfast, createGuard, Refusal, createTestIssuer, createTestTransmitter]\n}\n'
}

t.test('Each function of the package has an example in its docstring, which satisfies the compiler.', async t => {
  const examples = new Map<string, string>()
  const bare: string[] = []
  const isFunction = (node: ts.Node) =>
    ts.isMethodSignature(node) || ts.isMethodDeclaration(node) ||
    (ts.isPropertySignature(node) && node.type?.getText().includes('=> GuardHook') === true)
  const judge = (path: string, ...nodes: ts.Node[]) => {
    const [tag] = nodes.flatMap(node => ts.getJSDocTags(node)).filter(({ tagName }) => tagName.text === 'example')
    if (tag) examples.set(join(root, `test/lint/example-${examples.size}.ts`), ts.getTextOfJSDocComment(tag.comment)!)
    else bare.push(path)
  }
  const methodsOf = (node: ts.Node, path: string) => {
    if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')) return
    if (isFunction(node) && !ts.isComputedPropertyName((node as ts.MethodSignature).name)) {
      judge(`${path}.${(node as ts.MethodSignature).name.getText()}`, node)
    } else ts.forEachChild(node, child => methodsOf(child, path))
  }
  for (const entry of ENTRIES) {
    const source = program.getSourceFile(entry)!
    for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(source)!)) {
      const { name, declarations = [] } = symbol.flags & ts.SymbolFlags.Alias
        ? checker.getAliasedSymbol(symbol)
        : symbol
      if (declarations.some(ts.isFunctionDeclaration)) judge(name, ...declarations)
      else if (declarations.some(ts.isClassDeclaration) && name === 'Refusal') judge(name, ...declarations)
      if (!declarations.some(ts.isFunctionDeclaration)) declarations.forEach(node => methodsOf(node, name))
    }
    if (!entry.endsWith('testing.ts')) judge(relative(root, entry), ...source.statements)
  }
  program.getSourceFile(AUGMENTATION)!.statements.filter(ts.isModuleDeclaration).forEach(block =>
    methodsOf(block, block.name.text)
  )
  t.strictSame(bare, [])
  t.ok(examples.size > 25, `${examples.size} examples`)

  const { options: own } = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), { noUnusedLocals: false }, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: () => {}
  })!
  const host = ts.createCompilerHost(own)
  const { getSourceFile, fileExists } = host
  host.fileExists = path => examples.has(path) || fileExists(path)
  host.getSourceFile = (path, version, ...rest) =>
    examples.has(path)
      ? ts.createSourceFile(path, programOf(examples.get(path)!), version)
      : getSourceFile(path, version, ...rest)
  const compiled = ts.createProgram([...examples.keys()], own, host)
  for (const [path, example] of examples) {
    const source = compiled.getSourceFile(path)!
    const complaints = [...compiled.getSyntacticDiagnostics(source), ...compiled.getSemanticDiagnostics(source)]
    t.strictSame(complaints.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')), [], example)
  }
})

const REPORT = 'test/packages/api.txt'

t.test('The declarations of the package match the report, so a breaking change is seen.', async t => {
  if (process.env.TAP_SNAPSHOT === '1') writeFileSync(join(root, REPORT), makeReport())
  else {
    t.equal(
      textOf(REPORT),
      makeReport(),
      `npx tap --snapshot test/lint/declarations.test.ts writes ${REPORT} anew; say in CHANGELOG.md what changes`
    )
  }
})

/** Every exported declaration, as the package has it, without comments. */
function makeReport () {
  const declarations = new Map<string, ts.SourceFile>()
  program.emit(undefined, (path, text) => {
    declarations.set(path.replace(/\.d\.ts$/, '.ts'), ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true))
  })
  const parts = ENTRIES.map(entry => {
    const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)
    const printed = symbols.map(symbol => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const file = declarations.get(target.declarations![0]!.getSourceFile().fileName)!
      const statement = file.statements.find(statement =>
        namesOf(statement).includes(target.name === 'default' ? '_default' : target.name)
      )
      return `${symbol.name}: ${statement?.getText(file) ?? checker.typeToString(checker.getTypeOfSymbol(target), undefined, ts.TypeFormatFlags.NoTruncation)}\n`
    })
    return `# ${relative(root, entry)}\n\n${printed.sort().join('\n')}`
  })
  const merged = declarations.get(AUGMENTATION)!
  const blocks = merged.statements.filter(ts.isModuleDeclaration).map(block => `${block.getText(merged)}\n`)
  return `${[...parts, `# what it adds to Fastify\n\n${blocks.join('\n')}`].join('\n')}`
}

function namesOf (statement: ts.Statement) {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.getText())
  return 'name' in statement && statement.name ? [(statement.name as ts.Identifier).text] : []
}
