import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

/** A name that nothing uses any more says only that something was changed. */
const UNUSED: ReadonlySet<number> = new Set([6133, 6192, 6196, 6198])

/** Whether the compiler refuses a file with another text. */
export function createTypeCheck (): (file: string, text: string) => boolean {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile) as { config: object }
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, process.cwd())
  let changed = ''
  let changedText = ''
  let version = 0
  const isChanged = (name: string) => resolve(name) === changed
  const service = ts.createLanguageService({
    getCompilationSettings: () => options,
    getScriptFileNames: () => fileNames,
    getScriptVersion: name => isChanged(name) ? `${version}` : '0',
    getScriptSnapshot: name =>
      ts.ScriptSnapshot.fromString(isChanged(name) ? changedText : readFileSync(name, 'utf8')),
    getCurrentDirectory: () => process.cwd(),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile
  })
  return (file, text) => {
    changed = resolve(file)
    changedText = text
    version++
    return service.getSemanticDiagnostics(file).some(({ code }) => !UNUSED.has(code))
  }
}
