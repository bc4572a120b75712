import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')

/** Folders whose files leave their process as they found it, and the files that start programs and wait for them. */
const FOLDERS = ['cli', 'deploy', 'dev', 'docs', 'explain', 'lib', 'plugins', 'routes']
const ALONE = ['dev/run.test.ts', 'docs/snippets.test.ts']

/**
 * Runs every third file of these folders in this process, one after the other: a process of its own, which loads tap, Fastify and
 * the service anew, costs more than what most files do. A file is loaded when its turn comes, so what it takes for the present is.
 */
export async function runTogether (part: 0 | 1 | 2): Promise<void> {
  const files = FOLDERS.flatMap(folder => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name => join(folder, name)))
    .filter(name => name.endsWith('.test.ts') && !ALONE.includes(name)).sort()
  // To wait for a module does not keep Node 20 alive, and tap ends when Node would.
  const alive = setInterval(() => {}, 2 ** 30)
  for (const file of files.filter((_, index) => index % 3 === part)) {
    await t.test(file, t => t.resolves(import(join(root, file)), 'the file is loaded; its tests follow'))
  }
  clearInterval(alive)
}
