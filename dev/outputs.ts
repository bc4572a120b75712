import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { buildDir, root } from './places.ts'

/** What each compiled file of the API holds: path from the top of the clone, and a hash. */
export type Outputs = ReadonlyMap<string, string>

/**
 * Reads the compiled API, and removes what has no source any more: the compiler leaves it behind, and a
 * deleted route would go on being served.
 */
export function readOutputs (): Outputs {
  const outputs = new Map<string, string>()
  for (const file of compiled(buildDir)) {
    const name = relative(buildDir, file)
    const source = name.replace(/\.js$/, '.ts')
    if (!existsSync(join(root, source))) rmSync(file)
    else if (!source.startsWith('dev')) outputs.set(source, createHash('sha256').update(readFileSync(file)).digest('base64'))
  }
  return outputs
}

/** The sources whose compiled form was added, changed or removed. */
export function differences (before: Outputs, after: Outputs): string[] {
  const names = new Set([...before.keys(), ...after.keys()])
  return [...names].filter((name) => before.get(name) !== after.get(name))
}

function compiled (directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) return compiled(path)
    return entry.name.endsWith('.js') ? [path] : []
  })
}
