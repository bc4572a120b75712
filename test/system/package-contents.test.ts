import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import ts from 'typescript'
import { root } from '../helpers/documents.ts'

/** What others get from npm, file by file, against the files here. */

const run = promisify(execFile)
t.setTimeout(600_000)

/** What the compiler makes of the sources of a package, by path under dist/. It is asked here and not by packages/build.js. */
function compile (folder: string): Map<string, string> {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} }
  const { options, fileNames } = ts.getParsedCommandLineOfConfigFile(join(root, folder, 'tsconfig.json'), { noCheck: true }, host)!
  const made = new Map<string, string>()
  ts.createProgram(fileNames, options).emit(undefined, (path, text) => { made.set(relative(options.outDir!, path), text) })
  return made
}

/** Compilers before 5.7 find no declaration by `.ts`, so `packages/build.js` writes `.js` there. */
const withJs = (text: string): string => text.replace(/((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js')

interface Judged { readonly file: string, readonly fault: string }

/** The files of an unpacked package that are not what the repository makes of itself. */
function judge (unpacked: string, folder: string, made: ReadonlyMap<string, string>): Judged[] {
  const files = readdirSync(unpacked, { recursive: true, encoding: 'utf8' }).filter(file => statSync(join(unpacked, file)).isFile())
  return files.flatMap(file => {
    const text = readFileSync(join(unpacked, file), 'utf8')
    if (file.startsWith('dist/')) {
      const compiled = made.get(file.slice('dist/'.length))
      if (compiled === undefined) return [{ file, fault: 'no source' }]
      return text === (file.endsWith('.d.ts') ? withJs(compiled) : compiled) ? [] : [{ file, fault: 'not what the compiler makes' }]
    }
    const sources = [join(root, folder, file), join(root, file)].filter(existsSync)
    // What the build copies into the folder of a package is compared with its source.
    const source = sources.find(path => !path.startsWith(join(root, folder)) && ['LICENSE', 'CHANGELOG.md', 'check-node.cjs'].includes(file)) ?? sources[0]
    if (source === undefined) return [{ file, fault: 'no source' }]
    return text === readFileSync(source, 'utf8') ? [] : [{ file, fault: `not ${relative(root, source)}` }]
  })
}

t.test('Each file of the packages is a file of the repository, or what the compiler makes of one.', async t => {
  const temporary = mkdtempSync(join(tmpdir(), 'holdfast-packed-'))
  t.teardown(() => rmSync(temporary, { recursive: true, force: true }))
  for (const folder of ['packages/holdfast', 'packages/holdfast-cli']) {
    const { stdout } = await run('npm', ['pack', `./${folder}`, '--json', '--pack-destination', temporary], { cwd: root, maxBuffer: 1 << 24 })
    const [packed] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as Array<{ filename: string, files: Array<{ path: string }> }>
    const unpacked = join(temporary, folder.replace('/', '-'))
    cpSync(join(temporary, packed!.filename), `${unpacked}.tgz`)
    await run('mkdir', [unpacked])
    await run('tar', ['xzf', `${unpacked}.tgz`, '--strip-components', '1', '-C', unpacked])
    const made = compile(folder)
    t.ok(packed!.files.length > 100, `${packed!.files.length} files`)
    t.same(judge(unpacked, folder, made), [], folder)
    t.same([...made.keys()].filter(file => !existsSync(join(unpacked, 'dist', file))), [], `${folder}: and nothing is left out`)

    const [first] = made.keys()
    t.same(judge(unpacked, folder, new Map([...made, [first!, `${made.get(first!)} `]])), [{ file: `dist/${first}`, fault: 'not what the compiler makes' }], 'the twin: one byte more is found')
    made.delete(first!)
    t.same(judge(unpacked, folder, made), [{ file: `dist/${first}`, fault: 'no source' }], 'and so is a file from nowhere')
  }
})
