import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../test/helpers/documents.ts'

export const FOLDER = join(root, 'examples', 'upstreams')

/** An example of examples/upstreams. */
export interface Service {
  framework: string
  folder: string
  file: string
  /** Whether .ci/run installs what it needs. The others are run by `npm run test:upstreams`. */
  isInCi: boolean
  /** A command line, as the file has it. */
  install: string
  /** Command lines, one for each server that is named. They listen on 127.0.0.1:3000. */
  starts: readonly string[]
}

const FILES: ReadonlyArray<readonly [framework: string, folder: string, file: string, isInCi?: boolean]> = [
  ['Flask', 'python', 'flask_app.py', true],
  ['Django', 'python', 'django_app.py'],
  ['FastAPI', 'python', 'fastapi_app.py'],
  ['Express', 'express', 'app.mjs', true],
  ['Go', 'go', 'main.go'],
  ['Spring', 'spring', 'src/main/java/example/Upstream.java'],
  ['Rails', 'rails', 'config.ru'],
  ['PHP', 'php', 'index.php']
]

export const services: readonly Service[] = FILES.map(([framework, folder, file, isInCi = false]) => {
  const text = readFileSync(join(FOLDER, folder, file), 'utf8')
  const linesOf = (name: string) =>
    [...text.matchAll(new RegExp(`^(?:#|//) ${name}: (.+)$`, 'gm'))].map(([, line]) => line!)
  return { framework, folder, file, isInCi, install: linesOf('Install')[0]!, starts: linesOf('Start') }
})

/**
 * The PATH of a service: what is installed in its folder goes first, and then the Python of Debian, which has the
 * packages of Debian.
 */
export const pathIn = (folder: string) =>
  [join(folder, 'venv', 'bin'), ...folder.endsWith('python') ? ['/usr/bin'] : [], process.env['PATH']].join(':')
