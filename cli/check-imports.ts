import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fault, type Finding } from './findings.ts'

/** What the image and an installation for production run. */
const FOLDERS = ['cli', 'lib', 'plugins', 'routes', 'schemas', 'server']
/** What is imported. Types are not, at run time. */
const IMPORTS = /\b(?:from|import|import\() ?['"]([^'"]+)['"]/g
const TYPES = /^(?:import|export) type [^'"]*['"][^'"]*['"]/gm

/**
 * Names the devDependencies that the service or its command imports: an installation for production lacks them.
 * @param root of a clone. A build and the packages have no devDependencies.
 */
export function checkImports (root: string): Finding[] {
  const manifest = join(root, 'package.json')
  if (!existsSync(manifest)) return []
  const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8')) as Record<
    string,
    object | undefined
  >
  const files = FOLDERS.filter(folder => existsSync(join(root, folder))).flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name => `${folder}/${name}`)
  ).filter(name => /\.[cm]?ts$/.test(name))
  return files.flatMap(file => {
    const text = readFileSync(join(root, file), 'utf8').replace(TYPES, '')
    const packages = new Set(
      [...text.matchAll(IMPORTS)].map(([, name]) => name!.split('/', name!.startsWith('@') ? 2 : 1).join('/'))
    )
    return [...packages].filter(name => name in devDependencies && !(name in dependencies)).map(name =>
      fault(
        `${file} imports ${name}, which production does not install: it is a devDependency.`,
        `Make it a dependency: npm i -P ${name}`
      )
    )
  })
}
