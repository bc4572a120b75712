import { createInterface } from 'node:readline'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { startChild } from './child.ts'
import { root } from './places.ts'

/** Compiles on every change. `onCompiled` gets what the compiler complained about, if anything. */
export function startCompiler (onCompiled: (complaints: string[]) => void): ChildProcess {
  const program = fileURLToPath(import.meta.resolve('typescript/bin/tsc'))
  const args = [program, '-p', 'tsconfig.dev.json', '--watch', '--preserveWatchOutput', '--pretty', 'false']
  const child = startChild(args, { cwd: root, capture: true })
  let complaints: string[] = []
  const lines = child.stdout === null ? undefined : createInterface({ input: child.stdout })
  lines?.on('line', (line) => {
    if (/Found \d+ errors?\. Watching/.test(line)) {
      onCompiled(complaints)
      complaints = []
    } else if (/^\S.*\(\d+,\d+\): error |^error TS|^\s+\S/.test(line)) {
      complaints.push(line)
    }
  })
  return child
}
