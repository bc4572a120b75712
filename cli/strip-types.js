import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { register } from 'node:module'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

// Node from 22.18 on runs TypeScript as it is. For an older one, types are blanked out by the compiler that is here
// anyway.
if (isMainThread && !process.features.typescript) register(import.meta.url)
// Autoload does not see by itself that such files can be loaded.
process.env['FASTIFY_AUTOLOAD_TYPESCRIPT'] ??= '1'

const root = new URL('../', import.meta.url)
const cache = fileURLToPath(new URL('node_modules/.cache/strip-types/', root))

/**
 * The hook that Node asks for each module. The compiler takes a second to load: what it made of a file is kept until
 * the file changes.
 */
export async function load (url, context, nextLoad) {
  // A query makes a module anew.
  const [file] = url.split('?', 1)
  if (!file.startsWith(root.href) || !file.endsWith('.ts')) return nextLoad(url, context)
  const text = readFileSync(fileURLToPath(file), 'utf8')
  const mark = `\n// ${createHash('sha256').update(text).digest('hex')}\n`
  const kept = cache + file.slice(root.href.length).replaceAll('/', '+')
  return { format: 'module', shortCircuit: true, source: read(kept, mark) ?? await strip(text, kept, mark) }
}

function read (kept, mark) {
  try {
    const source = readFileSync(kept, 'utf8')
    return source.endsWith(mark) ? source.slice(0, -mark.length) : undefined
  } catch {}
}

async function strip (text, kept, mark) {
  const { default: blank } = await import('ts-blank-space')
  const source = blank(text)
  try {
    mkdirSync(cache, { recursive: true })
    // Nobody reads half a file: two processes may start at once.
    writeFileSync(kept + process.pid, source + mark)
    renameSync(kept + process.pid, kept)
  } catch {
    // Without a place to write, the next start takes as long as this one.
  }
  return source
}
