import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { makeOptionTypes } from '../../dev/generate/plugin-options.ts'
import { root } from './documents.ts'

/** What others get from npm, file by file, against the files here. */

/** Compilers before 5.7 find no declaration by `.ts`, so `packages/build.js` writes `.js` there. */
const withJs = (text: string) => text.replace(/((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js')

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(file => statSync(join(folder, file)).isFile())

/**
 * What the compiler makes of the sources of a package, by path under dist/. It runs here and not in packages/build.js.
 * @param folder of the package, such as `packages/holdfast`
 * @param scratch a folder that does not exist yet, for the package whose files are joined
 */
export function compilePackage (folder: string, scratch: string): Map<string, string> {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} }
  const { options, fileNames } = ts.getParsedCommandLineOfConfigFile(join(root, folder, 'tsconfig.json'), {
    noCheck: true
  }, host)!
  const dist = join(scratch, 'dist')
  ts.createProgram(fileNames, options).emit(undefined, (path, text) => {
    const file = join(dist, relative(options.outDir!, path))
    mkdirSync(dirname(file), { recursive: true })
    const declared = file.endsWith('/settings/option-types.d.ts') ? makeOptionTypes() : text
    writeFileSync(file, file.endsWith('.d.ts') ? withJs(declared) : text)
  })
  const manifest = readFileSync(join(root, folder, 'package.json'), 'utf8')
  const { scripts } = JSON.parse(manifest) as { scripts: { prepack: string } }
  // Its type decides how what is imported is seen.
  writeFileSync(join(scratch, 'package.json'), manifest)
  if (scripts.prepack.includes('join.js')) {
    execFileSync(process.execPath, [join(root, 'packages/join.js')], { cwd: scratch })
  }
  return new Map(filesIn(dist).map(file => [file, readFileSync(join(dist, file), 'utf8')]))
}

interface Judged {
  file: string
  fault: string
}

/** The files of an unpacked package that are not what the repository makes of itself. */
export function judgePackage (unpacked: string, folder: string, made: ReadonlyMap<string, string>): Judged[] {
  return filesIn(unpacked).flatMap(file => {
    const text = readFileSync(join(unpacked, file), 'utf8')
    if (file.startsWith('dist/')) {
      const compiled = made.get(file.slice('dist/'.length))
      if (compiled === undefined) return [{ file, fault: 'no source' }]
      return text === compiled ? [] : [{ file, fault: 'not what the compiler makes' }]
    }
    const sources = [join(root, folder, file), join(root, file)].filter(existsSync)
    // What the build copies into the folder of a package is compared with its source.
    const source = sources.find(path =>
      !path.startsWith(join(root, folder)) && ['LICENSE', 'CHANGELOG.md', 'cli/check-node.cjs'].includes(file)
    ) ?? sources[0]
    if (source === undefined) {
      return [{ file, fault: 'no source' }]
    }
    return text === readFileSync(source, 'utf8') ? [] : [{ file, fault: `not ${relative(root, source)}` }]
  })
}
