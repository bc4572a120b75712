import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { manuals, nameOfSnippet as nameOf, readBlocks, root } from '../helpers/documents.ts'

t.test('Every TypeScript snippet satisfies the compiler.', async t => {
  const { options } = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), {}, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: () => {}
  })!
  const snippets = new Map(
    manuals.flatMap(readBlocks).filter(({ language }) => language === 'ts').map((
      block,
      index
    ) => [join(root, nameOf(block).replace(/(\w+)\.ts$/, `$1.snippet-${index}.ts`)), block])
  )
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = host
  // Both programs below share what is parsed.
  const parsed = new Map<string, ts.SourceFile | undefined>()
  host.fileExists = path => snippets.has(path) || fileExists(path)
  host.getSourceFile = (path, version, ...rest) => {
    if (!parsed.has(path)) {
      parsed.set(
        path,
        snippets.has(path)
          ? ts.createSourceFile(path, snippets.get(path)!.text, version)
          : getSourceFile(path, version, ...rest)
      )
    }
    return parsed.get(path)
  }
  const program = ts.createProgram([...snippets.keys()], options, host)
  for (const [path, { place }] of snippets) {
    const complaints = [
      ...program.getSyntacticDiagnostics(program.getSourceFile(path)),
      ...program.getSemanticDiagnostics(program.getSourceFile(path))
    ]
    t.strictSame(complaints.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')), [], place)
  }

  const guardAlone = ts.createProgram(
    [...snippets.keys()].filter(path => /server\.snippet|claims\.snippet/.test(path)),
    options,
    host
  )
  const copied = guardAlone.getSourceFiles().filter(({ fileName }) =>
    fileName.startsWith(root) && !fileName.includes('node_modules') && !snippets.has(fileName)
  )
  const needed = [
    'packages/holdfast/index.ts',
    'packages/holdfast/app-document.ts',
    'plugins/auth.ts',
    'plugins/auth/augmentation.ts',
    'plugins/auth/guards.ts',
    'plugins/auth/replies.ts',
    'plugins/auth/route-guards.ts',
    'plugins/auth/token-end.ts',
    'plugins/audit.ts',
    'routes/revocation.ts',
    'schemas/revocation.ts',
    'plugins/audit/audit-file.ts',
    'plugins/audit/audit.ts',
    'plugins/auth/open-answers.ts',
    'plugins/auth/refusal-headers.ts',
    'server/request-ends.ts',
    'plugins/auth/request-user.ts',
    'server/running-guard.ts',
    'server/runtime.ts',
    'server/surroundings.ts'
  ]
  const others = copied.map(({ fileName }) => fileName.slice(root.length).replace(/^\//, '')).filter(name =>
    !name.startsWith('lib/') && !needed.includes(name)
  )
  t.ok(copied.some(({ fileName }) => fileName.endsWith('plugins/auth.ts')), 'the guard is looked at')
  t.strictSame(
    others,
    [],
    'the guard in an app of its own needs lib/, three plugins with their parts and files of server/, routes/revocation.ts ' +
      'with its schemas, and the document of the app'
  )
  // lib/ knows no Fastify, so nothing there can miss what the rest declares for it.
  const complaints = copied.filter(({ fileName }) => !fileName.startsWith(join(root, 'lib'))).flatMap(file =>
    guardAlone.getSemanticDiagnostics(file)
  )
  t.strictSame(
    complaints.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    [],
    'and they satisfy the compiler without the rest'
  )
})
